"""Sums and products of numbers and of scalars that are read from the device, such as `loss.item() * x.size(0)`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._float64 import missing_float64
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    can_ask_for_device,
    host_read,
    kept_on_device,
    tensor_doubts,
)
from perfmod.transforms.syncs._never_zero import is_never_zero, raise_if_zero
from perfmod.transforms.writing import replace

LINEAR = (cst.Add, cst.Subtract, cst.Multiply)


@define
class Term:
    """What one statement adds: numbers of Python and scalars of the device, joined by `+`, `-`, `*` and `/`.

    Attributes:
        reads: the scalars that are read from the device.
        divisions: those whose numerator is on the device.
        unknown: operands that could not be shown to be Python numbers.
        conversions: calls of `float()` and `int()` around such parts, with what they convert.
        shared: why scalars that were read into variables have to stay numbers.
        dtypes: of everything that is not the sum itself; `None` among them where one could not be shown.
    """

    reads: list[HostRead] = field(factory=list)
    divisions: list[cst.BinaryOperation] = field(factory=list)
    unknown: list[cst.BaseExpression] = field(factory=list)
    conversions: list[tuple[cst.Call, cst.BaseExpression]] = field(factory=list)
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


def kept_term(
    file: FileFacts, term: Term, dtype: DType, *, stored: Collection[HostRead] = (), is_alone: bool = True
) -> tuple[list[Edit], list[str], list[str]]:
    """Edits that leave a term on the device, the imports that they need, and what is taken for granted.

    `dtype` is that of what the term goes into; `stored` are the reads whose tensors are kept beyond the step;
    `is_alone` says that no other term goes there.

    Raises:
        CannotRewrite: the device would give another number.
    """
    edits: list[Edit] = []
    imports: list[str] = []
    doubts = [f"`{file.code(operand)}` is taken for a Python number" for operand in term.unknown]
    missing = missing_float64(file) if dtype is DType.FLOATING else None
    # Where float64 is missing the figure stays a number, and no tensor may divide it.
    by_device = missing is not None and not term.divisions and all(map(can_ask_for_device, term.reads))
    for read in term.reads:
        doubts += tensor_doubts(file, read)
        is_stored = read in stored
        edits.append(kept_on_device(file, read, dtype, is_stored=is_stored, is_alone=is_alone, needs_cuda=by_device))
    for edit, needed in _divisors_on_device(file, term, doubts):
        edits.append(edit)
        imports += needed
    for call, inner in term.conversions:
        edits += _unwrapped(file, call, inner)
    return joined(edits), imports, [*doubts, *([missing] if missing is not None and not by_device else [])]


def joined(edits: Iterable[Edit]) -> list[Edit]:
    """Edits of which those that insert something at one place are one, each thing once."""
    inserted: dict[int, dict[str, None]] = {}
    others: dict[Edit, None] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted.setdefault(edit.start, {})[edit.replacement] = None
        else:
            others[edit] = None
    return [*others, *(Edit(at, at, "".join(texts)) for at, texts in inserted.items())]


def _divisors_on_device(file: FileFacts, term: Term, doubts: list[str]) -> Iterator[tuple[Edit, tuple[str, ...]]]:
    """Edits that make divisors tensors, and their imports; by numbers, CUDA multiplies with rounded reciprocals.

    Raises:
        CannotRewrite: there is no tensor to make the divisor like.
    """
    for division in term.divisions:
        divisor = division.right
        code = file.code(divisor)
        numerators = [read.tensor for read in term.reads if file.tree.is_within(read.call, division.left)]
        named = [node for node in numerators if isinstance(node, (cst.Name, cst.Attribute))]
        nearby = [node for tensor in numerators for node in find_all(tensor, cst.Name) if _is_on_device(file, node)]
        torch, imports = file.names.spelled("torch", divisor)
        if named:
            text = f"{torch}.full_like({file.code(named[0])}, {code}, dtype={torch}.float64)"
        elif nearby:
            device = f"{file.code(nearby[0])}.device"
            text = f"{torch}.full((), {code}, dtype={torch}.float64, device={device})"
        else:
            raise CannotRewrite(f"the device divides by `{code}` with other last digits than Python")
        if not is_never_zero(file, divisor):
            raised = raise_if_zero(file, divisor)
            if raised is not None:
                yield raised, ()
            else:
                doubts.append(f"that `{code}` is never zero could not be shown, and only Python raises then")
        yield replace(file.source, divisor, text), imports


def _is_on_device(file: FileFacts, node: cst.Name) -> bool:
    value = file.value(node)
    return file.flow.is_read(node) and value.is_tensor and value.device is not Device.CPU


def _unwrapped(file: FileFacts, call: cst.Call, inner: cst.BaseExpression) -> Iterator[Edit]:
    """`float(a.item() + b.item())` as `(a.item() + b.item())`: `float()` of a tensor would read it."""
    source = file.source
    (start, end), code = source.span(call), source.whole_code(inner)
    first = source.span(inner.lpar[0])[0] if inner.lpar else source.span(inner)[0]
    before, behind = source.text[start:first], source.text[first + len(code) : end]
    if "#" in before + behind:
        raise CannotRewrite("a comment stands inside the read")
    is_atom = bool(inner.lpar) or isinstance(inner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    yield Edit(start, first, "" if is_atom else "(")
    yield Edit(first + len(code), end, "" if is_atom else ")")


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
    if file.code(node) == own:
        return True
    read = host_read(file, node)
    if read is not None:
        term.reads.append(read)
        term.dtypes.append(read.dtype)
        return True
    converted = _converted(file, node)
    if converted is not None:
        return _add_converted(file, *converted, own, term)
    source, code = file.source, file.code(node)
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


def _converted(file: FileFacts, node: cst.BaseExpression) -> tuple[cst.Call, cst.BaseExpression] | None:
    """`(float(x), x)` of `float(x)` where reads of the device go into `x`; `int` alike."""
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].star or node.args[0].keyword:
        return None
    inner = node.args[0].value
    if file.qualified(node) not in ("builtins.float", "builtins.int"):
        return None
    reads = any(host_read(file, call) is not None for call in find_all(inner, cst.Call))
    return (node, inner) if reads else None


def _add_converted(file: FileFacts, call: cst.Call, inner: cst.BaseExpression, own: str, term: Term) -> bool:
    known, divisions = len(term.dtypes), len(term.divisions)
    is_on_device = _add(file, inner, own, term)
    if file.qualified(call) == "builtins.float":
        term.dtypes.append(DType.FLOATING)
    elif len(term.divisions) > divisions or not {DType.INTEGER, DType.BOOL} >= set(term.dtypes[known:]):
        raise CannotRewrite("int() cuts off what stands behind the point")
    if is_on_device:
        term.conversions.append((call, inner))
    return is_on_device


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
