"""Sums and products of numbers and of scalars that are read from the device, such as `loss.item() * x.size(0)`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._figures import as_number
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
from perfmod.transforms.syncs._when import comes_often, is_late
from perfmod.transforms.writing import replace

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


@define
class Term:
    """What one statement adds: numbers of Python and scalars of the device, joined by `+`, `-`, `*` and `/`.

    Attributes:
        reads: the scalars that are read from the device.
        divisions: those whose numerator is on the device.
        unknown: operands that could not be shown to be Python numbers.
        conversions: calls of `float()` and `int()` around such parts, with what they convert.
        through: variables that hold terms, where they are used.
        shared: why other variables, which hold scalars that were read, have to stay numbers.
        dtypes: of everything that is not the sum itself; `None` among them where one could not be shown.
    """

    reads: list[HostRead] = field(factory=list)
    divisions: list[cst.BinaryOperation] = field(factory=list)
    unknown: list[cst.BaseExpression] = field(factory=list)
    conversions: list[tuple[cst.Call, cst.BaseExpression]] = field(factory=list)
    through: list[tuple[cst.Name, Variable]] = field(factory=list)
    shared: list[str] = field(factory=list)
    dtypes: list[DType | None] = field(factory=list)

    @property
    def is_fed(self) -> bool:
        """Whether anything of it comes from the device."""
        return bool(self.reads or self.through)

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
    for node, variable in term.through:
        if dtype is DType.FLOATING and variable.dtype is not DType.FLOATING:
            end = file.source.span(node)[1]
            edits.append(Edit(end, end, ".double()"))
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
    inserted: dict[tuple[str, int], dict[str, None]] = {}
    others: dict[Edit, None] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted.setdefault((edit.path, edit.start), {})[edit.replacement] = None
        else:
            others[edit] = None
    return [*others, *(Edit(at, at, "".join(texts), path) for (path, at), texts in inserted.items())]


def _divisors_on_device(file: FileFacts, term: Term, doubts: list[str]) -> Iterator[tuple[Edit, tuple[str, ...]]]:
    """Edits that make divisors tensors, and their imports; by numbers, CUDA multiplies with rounded reciprocals.

    Raises:
        CannotRewrite: there is no tensor to make the divisor like.
    """
    for division in term.divisions:
        divisor = division.right
        code = file.code(divisor)
        numerators = [read.tensor for read in term.reads if file.tree.is_within(read.call, division.left)]
        numerators += [node for node, _ in term.through if file.tree.is_within(node, division.left)]
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
    if definition is None or definition.binding is not Binding.ASSIGNED or definition.part is None:
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
    is_plain = definition.binding is Binding.ASSIGNED and isinstance(file.tree.parent(definition.node), _TARGETS)
    if value is None or not is_plain or file.value(value).kind is not Kind.NUMBER:
        return None
    try:
        term = term_of(file, value)
    except CannotRewrite:
        return None
    return Variable(definition, term) if term.is_fed else None


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


def settled_variables(
    file: FileFacts, terms: Iterable[Term], *, are_stored: bool
) -> tuple[list[Edit], list[str], list[str]]:
    """Edits that keep the variables of terms on the device, the imports they need, and what is taken for granted.

    `are_stored` says that the tensors themselves are kept, beyond the step.

    Raises:
        CannotRewrite: the number is needed in every step, or in code that cannot be followed.
    """
    edits: list[Edit] = []
    imports: list[str] = []
    doubts: list[str] = []
    variables: dict[Definition, Variable] = {}
    absorbed: set[cst.CSTNode] = set()
    for term in terms:
        for node, variable in term.variables():
            variables.setdefault(variable.definition, variable)
            absorbed.add(node)
    for definition, variable in variables.items():
        reads = variable.term.reads
        stored = [read for read in reads if are_stored or file.aliasing.is_mutated(read.tensor)]
        alone = not are_stored
        kept, needed, missing = kept_term(file, variable.term, variable.dtype, stored=stored, is_alone=alone)
        edits += kept
        imports += needed
        doubts += missing
        for use in file.flow.uses(definition):
            if use in absorbed:
                continue
            if not is_late(file, use, definition.node) or file.tree.scope(use) is not definition.scope:
                raise CannotRewrite(f"`{definition.name}` is used on line {file.line(use)} too")
            if variable.term.dtype is None:
                raise CannotRewrite(f"whether `{definition.name}` is an integer or a float could not be shown")
            others = [other for other in file.flow.definitions(use) if other is not definition]
            if not all(file.values.of_definition(other).kind is Kind.NUMBER for other in others):
                raise CannotRewrite(f"`{definition.name}` may be no number on line {file.line(use)}")
            starts = [file.values.of_definition(other).dtype for other in others]
            written, required = as_number(file, use, variable.dtype, starts)
            edits += written
            imports += required
    return edits, imports, doubts


def variable_uses(file: FileFacts, read: HostRead) -> Iterator[Read]:
    """The uses of the variable in `value = loss.item()`; nothing for other reads."""
    statement = file.tree.statement(read.call)
    if isinstance(statement, cst.Assign) and statement.value is read.call and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Name):
            for definition in file.flow.bound(file.tree.scope(target), target.value):
                if definition.node is target:
                    yield from file.flow.uses(definition)
