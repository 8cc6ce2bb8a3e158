"""Sums and products of numbers and of scalars that are read from the device, such as `loss.item() * x.size(0)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead, host_read
from perfmod.transforms.syncs._never_zero import is_never_zero
from perfmod.transforms.writing import replace

LINEAR = (cst.Add, cst.Subtract, cst.Multiply)


@define
class Term:
    """What one statement adds: numbers of Python and scalars of the device, joined by `+`, `-`, `*` and `/`.

    Attributes:
        reads: the scalars that are read from the device.
        divisions: those whose numerator is on the device.
        unknown: operands that could not be shown to be Python numbers.
        shared: why scalars that were read into variables have to stay numbers.
        dtypes: of everything that is not the sum itself; `None` among them where one could not be shown.
    """

    reads: list[HostRead] = field(factory=list)
    divisions: list[cst.BinaryOperation] = field(factory=list)
    unknown: list[cst.BaseExpression] = field(factory=list)
    shared: list[str] = field(factory=list)
    dtypes: list[DType | None] = field(factory=list)

    @property
    def dtype(self) -> DType | None:
        """Python's type of the result."""
        if DType.FLOATING in self.dtypes or self.divisions:
            return DType.FLOATING
        return None if None in self.dtypes else DType.INTEGER


def term_of(file: FileFacts, node: cst.BaseExpression, own: str = "") -> Term:
    """The parts of an expression; `own` is the code of a sum that lives on the device already.

    Raises:
        CannotRewrite: the device would give another number, or more than numbers are joined.
    """
    term = Term()
    _add(file, node, own, term)
    return term


def divisors_on_device(file: FileFacts, term: Term) -> Iterator[tuple[Edit, tuple[str, ...]]]:
    """Edits that make divisors tensors, and their imports; by numbers, CUDA multiplies with rounded reciprocals.

    Raises:
        CannotRewrite: the divisor may be zero, for which Python raises, or there is no tensor to make it like.
    """
    for division in term.divisions:
        divisor = division.right
        code = file.source.code(divisor)
        like = [read.tensor for read in term.reads if file.tree.is_within(read.call, division.left)]
        if not like or not isinstance(like[0], (cst.Name, cst.Attribute)):
            raise CannotRewrite(f"the device divides by `{code}` with other last digits than Python")
        if not is_never_zero(file, divisor):
            raise CannotRewrite(f"that `{code}` is never zero could not be shown, and only Python raises then")
        torch, imports = file.names.spelled("torch", divisor)
        text = f"{torch}.full_like({file.source.code(like[0])}, {code}, dtype={torch}.float64)"
        yield replace(file.source, divisor, text), imports


def _add(file: FileFacts, node: cst.BaseExpression, own: str, term: Term) -> bool:
    """Collect a term's parts; whether the value of `node` would be on the device."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (*LINEAR, cst.Divide)):
        left, right = _add(file, node.left, own, term), _add(file, node.right, own, term)
        if isinstance(node.operator, cst.Divide) and (left or right):
            if right:
                raise CannotRewrite("Python raises where it divides by zero, and the device does not")
            term.divisions.append(node)
        return left or right
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
        return _add(file, node.expression, own, term)
    if file.source.code(node) == own:
        return True
    read = host_read(file, node)
    if read is not None:
        term.reads.append(read)
        term.dtypes.append(read.dtype)
        return True
    source, code = file.source, file.source.code(node)
    if isinstance(node, (cst.List, cst.Tuple)):
        raise CannotRewrite("a list is extended by it, and of lists only `append` is followed")
    if any(host_read(file, call) is not None for call in find_all(node, cst.Call)):
        raise CannotRewrite(f"`{code}` is more than a sum or a product of the figure")
    value = file.value(node)
    if value.kind is Kind.NUMBER:
        through = _variable(file, node)
        if through is not None:
            read, definition = through
            others = [use for use in file.flow.uses(definition) if use is not node]
            if not others:
                term.reads.append(read)
                term.dtypes.append(read.dtype)
                return True
            term.shared.append(f"`{code}` is used on line {source.line(others[0])} too")
        term.dtypes.append(DType.INTEGER if value.dtype is DType.BOOL else value.dtype)
    elif value.kind in (Kind.UNKNOWN, Kind.OBJECT):
        term.unknown.append(node)
        term.dtypes.append(None)
    else:
        raise CannotRewrite(f"`{code}` is no Python number")
    return False


def _variable(file: FileFacts, node: cst.BaseExpression) -> tuple[HostRead, Definition] | None:
    """The read behind a variable that holds nothing else: `value = loss.item()`."""
    if not isinstance(node, cst.Name):
        return None
    definitions = file.flow.definitions(node)
    if len(definitions) != 1 or definitions[0].binding is not Binding.ASSIGNED or definitions[0].path:
        return None
    read = host_read(file, definitions[0].value) if definitions[0].value is not None else None
    same_scope = definitions[0].scope is file.tree.scope(node)
    return (read, definitions[0]) if read is not None and same_scope else None


def variable_uses(file: FileFacts, read: HostRead) -> Iterator[Read]:
    """The uses of the variable in `value = loss.item()`; nothing for other reads."""
    statement = file.tree.statement(read.call)
    if isinstance(statement, cst.Assign) and statement.value is read.call and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Name):
            for definition in file.flow.bound(file.tree.scope(target), target.value):
                if definition.node is target:
                    yield from file.flow.uses(definition)
