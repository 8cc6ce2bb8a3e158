"""Sums and products of numbers and of scalars that are read from the device, such as `loss.item() * x.size(0)`.

A scalar may have been read before: into a variable, or in a function that returns it.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.rounds import comes_often, is_late
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead, host_read

_TARGETS = (cst.AssignTarget, cst.AnnAssign, cst.Element)
LINEAR = (cst.Add, cst.Subtract, cst.Multiply)


@frozen(eq=False)
class Variable:
    """A variable that holds nothing but a term: `value = loss.item()`."""

    definition: Definition
    term: Term

    @property
    def dtype(self) -> DType:
        """The type that it has on the device."""
        return self.term.dtype or DType.FLOATING


@frozen
class Returned:
    """A figure that a function returns: `loss.item()` of `return loss.item(), hits`, with `index` 0."""

    function: cst.FunctionDef
    index: int | None

    def parts(self) -> Iterator[cst.BaseExpression | None]:
        """What each `return` gives for it; `None` where that is not written down."""
        returns = [node for node in walk_scope(self.function.body) if isinstance(node, cst.Return)]
        for node in returns:
            part = node.value
            if self.index is not None:
                is_listed = isinstance(part, cst.Tuple) and self.index < len(part.elements)
                element = part.elements[self.index] if is_listed and isinstance(part, cst.Tuple) else None
                part = element.value if isinstance(element, cst.Element) else None
            yield part


@define
class Term:
    """What one statement adds: numbers of Python and scalars of the device, joined by `+`, `-`, `*` and `/`.

    Attributes:
        reads: the scalars that are read from the device.
        divisions: those whose numerator is on the device.
        unknown: operands that could not be shown to be Python numbers.
        conversions: calls of `float()` and `int()` around such parts, with what they convert.
        through: variables that hold terms, where they are used.
        calls: calls of functions that return scalars of the device.
        shared: why other variables, which hold scalars that were read, have to stay numbers.
        dtypes: of everything that is not the sum itself; `None` among them where one could not be shown.
    """

    reads: list[HostRead] = field(factory=list)
    divisions: list[cst.BinaryOperation] = field(factory=list)
    unknown: list[cst.BaseExpression] = field(factory=list)
    conversions: list[tuple[cst.Call, cst.BaseExpression]] = field(factory=list)
    through: list[tuple[cst.Name, Variable]] = field(factory=list)
    calls: list[tuple[cst.Call, Returned]] = field(factory=list)
    shared: list[str] = field(factory=list)
    dtypes: list[DType | None] = field(factory=list)

    @property
    def is_fed(self) -> bool:
        """Whether anything of it comes from the device."""
        return bool(self.reads or self.through or self.calls)

    def returned(self) -> Iterator[tuple[cst.Call, Returned]]:
        """The calls whose figures go into it, directly or through variables."""
        yield from self.calls
        for _, variable in self.through:
            yield from variable.term.returned()

    def variables(self) -> Iterator[tuple[cst.Name, Variable]]:
        """The variables that it goes through, and those that these go through."""
        for node, variable in self.through:
            yield node, variable
            yield from variable.term.variables()

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
    returned = returned_by(file, node, None)
    if returned is not None:
        term.calls.append((cst.ensure_type(node, cst.Call), returned))
        term.dtypes.append(dtype_of(file, returned))
        return True
    code = file.code(node)
    if isinstance(node, (cst.List, cst.Tuple)):
        raise CannotRewrite("a list is extended by it, and of lists only `append` is followed")
    if any(host_read(file, call) is not None for call in find_all(node, cst.Call)):
        raise CannotRewrite(f"`{code}` is more than a sum or a product of the figure")
    value = file.value(node)
    if value.kind is Kind.NUMBER:
        variable = _variable(file, node)
        needed = _why_needed(file, variable.definition) if variable is not None else None
        if needed is not None:
            term.shared.append(needed)
        elif variable is not None and isinstance(node, cst.Name):
            term.through.append((node, variable))
            term.dtypes.append(variable.term.dtype)
            return True
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


def _variable(file: FileFacts, node: cst.BaseExpression) -> Variable | None:
    """The variable of a name that can hold nothing but scalars of the device, and what is computed from them."""
    if not isinstance(node, cst.Name):
        return None
    definitions = file.flow.definitions(node)
    definition = definitions[0] if len(definitions) == 1 else None
    if definition is None or definition.binding is not Binding.ASSIGNED:
        return None
    if definition.scope is not file.tree.scope(node) or not comes_often(file, definition.node):
        return None
    # A name that sees what stands below it is carried from round to round.
    if not file.comes_before(definition.node, node):
        return None
    return variable_of(file, definition)


def variable_of(file: FileFacts, definition: Definition) -> Variable | None:
    """What a definition gives its name, if that is a term with scalars of the device in it."""
    value = definition.part
    if definition.binding is not Binding.ASSIGNED or not isinstance(file.tree.parent(definition.node), _TARGETS):
        return None
    if value is None:
        index = definition.path[0] if len(definition.path) == 1 else None
        returned = returned_by(file, definition.value, index) if definition.value is not None else None
        if returned is None or index is None:
            return None
        calls = [(cst.ensure_type(definition.value, cst.Call), returned)]
        return Variable(definition, Term(calls=calls, dtypes=[dtype_of(file, returned)]))
    if file.value(value).kind is not Kind.NUMBER:
        return None
    try:
        term = term_of(file, value)
    except CannotRewrite:
        return None
    return Variable(definition, term) if term.is_fed else None


def returned_by(file: FileFacts, node: cst.BaseExpression, index: int | None) -> Returned | None:
    """The figure that a call returns, if every `return` of the function reads it from the device."""
    function = file.values.calls.resolve(node) if isinstance(node, cst.Call) else None
    if function is None or not file.is_own(function) or function.asynchronous is not None:
        return None
    is_called = any(file.tree.is_within(call, function) for call in file.values.calls.callers(function))
    if is_called or any(isinstance(inner, cst.Yield) for inner in walk_scope(function.body)):
        return None
    returned = Returned(function, index)
    parts = list(returned.parts())
    is_read = parts and all(part is not None and host_read(file, part) is not None for part in parts)
    return returned if is_read and isinstance(_last(function), cst.Return) else None


def dtype_of(file: FileFacts, returned: Returned) -> DType | None:
    """Python's type of a returned figure."""
    reads = [host_read(file, part) for part in returned.parts() if part is not None]
    dtypes = {read.dtype for read in reads if read is not None}
    return dtypes.pop() if len(dtypes) == 1 else None


def _last(function: cst.FunctionDef) -> cst.CSTNode | None:
    """The last statement of a function."""
    body = function.body
    line = body.body[-1] if isinstance(body, cst.IndentedBlock) else body
    return line.body[-1] if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else line


def _why_needed(file: FileFacts, definition: Definition) -> str | None:
    """Why a variable has to hold a number: a step needs it for something else than sums, lists and meters."""
    for use in file.flow.uses(definition):
        if is_late(file, use, definition.node) or _is_carried(file, use):
            continue
        return f"`{definition.name}` is used on line {file.line(use)} too"
    return None


def _is_carried(file: FileFacts, use: Read) -> bool:
    """Whether a number only goes into a sum, a list, a meter or another variable, as far as the statement shows."""
    statement = file.tree.statement(use)
    if isinstance(statement, cst.AugAssign):
        return file.tree.is_within(use, statement.value)
    if isinstance(statement, (cst.Assign, cst.AnnAssign)):
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else [statement.target]
        return all(isinstance(target, (cst.Name, cst.Tuple, cst.Attribute, cst.Subscript)) for target in targets)
    call = statement.value if isinstance(statement, cst.Expr) else None
    func = call.func if isinstance(call, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in ("append", "update")


def variable_uses(file: FileFacts, read: HostRead) -> Iterator[Read]:
    """The uses of the variable in `value = loss.item()`; nothing for other reads."""
    statement = file.tree.statement(read.call)
    if isinstance(statement, cst.Assign) and statement.value is read.call and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Name):
            for definition in file.flow.bound(file.tree.scope(target), target.value):
                if definition.node is target:
                    yield from file.flow.uses(definition)
