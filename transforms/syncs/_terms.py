"""Sums and products of numbers and of scalars that are read from the device, such as `loss.item() * x.size(0)`.

A scalar may have been read before: into a variable, or in a function that returns it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.accelerators import shows_half_types
from perfmod.transforms.facts.differentiated import is_differentiated
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.finding import Edit, Question
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import question
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    host_read,
    is_cut_off,
    is_int64,
    read_value,
    without_read,
)
from perfmod.transforms.writing import replace

# Methods that leave no dimension where they are not told which ones to go over.
_REDUCTIONS = frozenset({"sum", "mean", "prod", "max", "min", "norm", "std", "var", "median"})
# What functions and modules are called whose result is one number.
_LOSS = re.compile("loss|criteri|entropy", re.IGNORECASE)
ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)


@frozen
class Returned:
    """A figure that a function returns: `loss.item()` of `return loss.item(), hits`, with `index` 0."""

    function: cst.FunctionDef
    index: int | None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self.function.name.value


Carrier = Definition | Returned
"""What hands a figure on: a variable, `value = loss.item()`, or a function that returns it."""


@define(eq=False)
class Term:
    """A number that is made of Python numbers and of scalars of the device, by `+`, `-`, `*` and `/`.

    Attributes:
        node: the expression.
        reads: the scalars that are read in it.
        held: where it uses carriers, with those.
        casts: calls of `float()` and `int()` around parts that would stay on the device, with what they convert.
        dtype: Python's type of it; `None` where that could not be shown.
        divides: whether a part that would stay on the device is divided.
        doubts: what is taken for granted.
    """

    node: cst.BaseExpression
    reads: list[HostRead] = field(factory=list)
    held: list[tuple[cst.BaseExpression, Carrier]] = field(factory=list)
    casts: list[tuple[cst.Call, cst.BaseExpression]] = field(factory=list)
    dtype: DType | None = None
    divides: bool = False
    doubts: list[str] = field(factory=list)

    @property
    def is_fed(self) -> bool:
        """Whether any part of it comes from the device."""
        return bool(self.reads or self.held)

    @property
    def is_bare(self) -> bool:
        """Whether it is a read and nothing else."""
        return len(self.reads) == 1 and self.reads[0].call is self.node


def term_of(file: FileFacts, node: cst.BaseExpression, own: str = "") -> Term:
    """The parts of an expression; `own` is the code of a sum that lives on the device already.

    Raises:
        CannotRewrite: more than numbers are joined, or the device would do something else.
    """
    term = Term(node)
    _, dtypes = _add(file, node, own, term)
    term.dtype = _joined(dtypes)
    return term


def _joined(dtypes: Sequence[DType | None]) -> DType | None:
    """Python's type of what is made of numbers of these types."""
    if DType.FLOATING in dtypes:
        return DType.FLOATING
    return DType.INTEGER if dtypes and None not in dtypes else None


def _add(file: FileFacts, node: cst.BaseExpression, own: str, term: Term) -> tuple[bool, list[DType | None]]:
    """Collect a term's parts; whether the value of `node` would be on the device, and what it is made of."""
    code = file.code(node)
    if code == own:
        return True, []
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, ARITHMETIC):
        left, right = _add(file, node.left, own, term), _add(file, node.right, own, term)
        if isinstance(node.operator, cst.Divide):
            if right[0]:
                raise CannotRewrite(
                    f"`{code}` divides by a value that is on the device, where a zero would not raise ZeroDivisionError"
                )
            if left[0] and not _is_size(file, node.right):
                divisor = file.code(node.right)
                term.doubts.append(f"if `{divisor}` is ever zero, Python raises ZeroDivisionError and the GPU does not")
            term.divides |= left[0]
            return left[0], [DType.FLOATING]
        return left[0] or right[0], left[1] + right[1]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
        return _add(file, node.expression, own, term)
    if is_square(file, node) and isinstance(node, cst.BinaryOperation):
        return _add(file, node.left, own, term)
    read = host_read(file, node)
    if read is not None:
        if is_cut_off(file, read):
            raise CannotRewrite("`int()` truncates the value")
        if not read.is_shown:
            term.doubts.append(f"right if `{file.code(read.tensor)}` is a tensor")
        term.reads.append(read)
        return True, [read.dtype]
    inner = converted(file, node)
    if inner is not None and isinstance(node, cst.Call):
        is_kept, dtypes = _add(file, inner, own, term)
        if file.qualified(node) == "builtins.int" and _joined(dtypes) is not DType.INTEGER:
            raise CannotRewrite("`int()` truncates the value")
        if is_kept:
            term.casts.append((node, inner))
        return is_kept, [DType.FLOATING] if file.qualified(node) == "builtins.float" else dtypes
    held = carriers_of(file, node)
    if held:
        term.held += [(node, carrier) for carrier in held]
        return True, [dtype_of(file, carrier) for carrier in held]
    if any(host_read(file, call) is not None for call in find_all(node, cst.Call)):
        raise CannotRewrite(f"`{code}` is more than sums and products")
    value = file.value(node)
    if value.kind in (Kind.UNKNOWN, Kind.OBJECT):
        term.doubts.append(f"right if `{code}` is a Python number")
    elif value.kind is not Kind.NUMBER:
        raise CannotRewrite(f"`{code}` is not a Python number")
    return False, [DType.INTEGER if value.dtype is DType.BOOL else value.dtype if value.kind is Kind.NUMBER else None]


def is_square(file: FileFacts, node: cst.CSTNode | None) -> bool:
    """Whether an expression is `x ** 2`, which a float32 on the device gives to the bit in 64 bits, as Python does."""
    is_power = isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Power)
    return (
        is_power
        and file.code(cst.ensure_type(node, cst.BinaryOperation).right) == "2"
        and not file.values.uses_double()
    )


def converted(file: FileFacts, node: cst.CSTNode) -> cst.BaseExpression | None:
    """`x` of `float(x)` and `int(x)`."""
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].star or node.args[0].keyword:
        return None
    is_conversion = file.qualified(node) in ("builtins.float", "builtins.int")
    return node.args[0].value if is_conversion else None


def _is_size(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a divisor is a constant other than zero, a setting, or the size of something that a loop goes through."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value != 0
    if isinstance(node, cst.BinaryOperation):
        is_above_zero = isinstance(node.operator, (cst.Add, cst.Multiply))
        return is_above_zero and _is_size(file, node.left) and _is_size(file, node.right)
    if isinstance(node, cst.Call):
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
        return file.qualified(node) == "builtins.len" or method in ("size", "numel")
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    if isinstance(node, cst.Name):
        parts = [definition.part for definition in file.flow.definitions(node)]
        return bool(parts) and all(
            (part is not None and part is not node and not isinstance(part, cst.Name) and _is_size(file, part))
            or isinstance(definition.node, cst.Param)
            for part, definition in zip(parts, file.flow.definitions(node), strict=True)
        )
    return isinstance(node, cst.Attribute)


class Doubt(str):
    """What is taken for granted, with the question that would answer it."""

    __slots__ = ("question",)
    question: Question


def not_scalar(file: FileFacts, terms: Sequence[Term], text: str) -> list[Doubt]:
    """The doubts about tensors of terms that may have dimensions: `text`, with their code for `{}`."""
    every = [*terms, *(source for term in terms for _, carrier in term.held for source in sources(file, carrier))]
    found = []
    for tensor in (read.tensor for term in every for read in term.reads):
        if not _has_no_dimensions(file, tensor):
            doubt = Doubt(text.format(file.code(tensor)))
            doubt.question = question(file, Predicate.IS_SCALAR, tensor, watchable=True)
            found.append(doubt)
    return found


def _has_no_dimensions(file: FileFacts, node: cst.BaseExpression, seen: frozenset[object] = frozenset()) -> bool:
    """Whether an expression is a scalar; a setting such as `config.weight` is one, and what a loss out of sight is.

    Dimensions that are known are squeezed where the scalar is read.
    """
    value = read_value(file, node)
    if value.rank is not None or value.kind is Kind.NUMBER:
        return True
    if isinstance(node, cst.Call) and (results := _results(file, node, ())):
        return node not in seen and all(part and _has_no_dimensions(file, part, seen | {node}) for part in results)
    if value.rank is None and _is_loss(node):
        return True
    if isinstance(node, cst.Attribute):
        is_view = node.attr.value == "data" and _has_no_dimensions(file, node.value, seen)
        return is_view or (value.kind is Kind.UNKNOWN and isinstance(node.value, cst.Name))
    if isinstance(node, cst.BinaryOperation):
        return all(_has_no_dimensions(file, side, seen) for side in (node.left, node.right))
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.attr.value in _REDUCTIONS and not node.args
    if not isinstance(node, cst.Name):
        return False
    for definition in file.flow.definitions(node):
        made = definition.part or (definition.value if definition.path else None)
        results = _results(file, made, definition.path) if isinstance(made, cst.Call) else []
        if not results and _LOSS.search(node.value) and _is_given(file, definition):
            continue
        statement = file.tree.statement(definition.node)
        parts: Sequence[cst.BaseExpression | None] = [made] if definition.binding is Binding.ASSIGNED else []
        if definition.binding is Binding.AUGMENTED and isinstance(statement, cst.AugAssign):
            parts = [statement.target, statement.value]
        elif definition.binding is Binding.PARAMETER:
            parts = file.values.given(definition)
        parts = results if definition.path else parts
        scalars = (part is not None and _has_no_dimensions(file, part, seen | {definition}) for part in parts)
        if definition not in seen and not (parts and all(scalars)):
            return False
    return bool(file.flow.definitions(node))


def _results(file: FileFacts, call: cst.Call, path: Sequence[int]) -> list[cst.BaseExpression | None]:
    """What a call of functions in sight returns, or a part of that; `None` where it is not written down."""
    ends = (end for function in file.values.calls.reached(call) for end in file.tree.results(function))
    found: list[cst.BaseExpression | None] = [None if isinstance(end, cst.Yield) else end.value for end in ends]
    for step in path:
        rows = [part.elements if isinstance(part, cst.Tuple) else () for part in found]
        found = [row[step].value if 0 <= step < len(row) else None for row in rows]
    return found


def _is_given(file: FileFacts, definition: Definition) -> bool:
    """Whether a variable gets what a model or another function returns, or a part of that."""
    made = definition.part or (definition.value if definition.path else None)
    if definition.binding is not Binding.ASSIGNED or made is None:
        return False
    if isinstance(made, cst.Subscript) and isinstance(made.value, cst.Name):
        return not file.value(made.value).is_tensor
    of = made.func.value if isinstance(made, cst.Call) and isinstance(made.func, cst.Attribute) else None
    return isinstance(made, cst.Call) and (of is None or not file.value(of).is_tensor)


def _is_loss(node: cst.BaseExpression) -> bool:
    """Whether an expression is called a loss, and not told to leave one for each sample."""
    made = node.func if isinstance(node, cst.Call) else node
    name = made.attr if isinstance(made, cst.Attribute) else made
    given = [arg.keyword.value for arg in node.args if arg.keyword is not None] if isinstance(node, cst.Call) else []
    is_result = isinstance(node, (cst.Call, cst.Attribute)) and "reduction" not in given
    return is_result and isinstance(name, cst.Name) and _LOSS.search(name.value) is not None


# Carriers


def carriers_of(file: FileFacts, node: cst.CSTNode) -> list[Carrier]:
    """What hands a figure on to a name or a call, where all that it may be is a number."""
    if isinstance(node, cst.Call):
        returned = returned_by(file, node, None)
        return [returned] if returned is not None else []
    if not isinstance(node, cst.Name) or not file.flow.is_read(node):
        return []
    definitions = [each for each in file.flow.definitions(node) if each.scope is file.tree.scope(node)]
    found: list[Carrier] = [each for each in definitions if is_carrier(file, each)]
    if found and len(definitions) < len(file.flow.definitions(node)):
        return []
    others = [each for each in definitions if each not in found]
    return found if all(file.values.of_definition(each).kind is Kind.NUMBER for each in others) else []


def is_carrier(file: FileFacts, definition: Definition) -> bool:
    """Whether a variable holds a figure of the device, and is no sum itself."""
    statement = file.tree.statement(definition.node)
    if definition.binding is not Binding.ASSIGNED or not isinstance(statement, (cst.Assign, cst.AnnAssign)):
        return False
    if target_of(file, statement) is not None:
        return False
    return bool(sources(file, definition))


def sources(file: FileFacts, carrier: Carrier) -> Sequence[Term]:
    """The terms that a carrier is given; nothing where one of them is none."""
    known = file.once(_known_sources)
    if carrier not in known:
        # Of variables that are made of each other none is made of scalars alone.
        known[carrier] = ()
        known[carrier] = tuple(_sources(file, carrier))
    return known[carrier]


def _known_sources(_: FileFacts) -> dict[Carrier, Sequence[Term]]:
    return {}


def _sources(file: FileFacts, carrier: Carrier) -> Sequence[Term]:
    if isinstance(carrier, Returned):
        parts = list(_parts(carrier))
        are_reads = all(part is not None and host_read(file, part) is not None for part in parts)
        return [term_of(file, part) for part in parts if part is not None] if are_reads else []
    part = carrier.part
    if part is None and len(carrier.path) == 1 and isinstance(carrier.value, cst.Call):
        returned = returned_by(file, carrier.value, carrier.path[0])
        return (
            [Term(carrier.value, held=[(carrier.value, returned)], dtype=dtype_of(file, returned))] if returned else []
        )
    if part is None or (isinstance(part, cst.Name) and part.value == carrier.name):
        return []
    try:
        term = term_of(file, part)
    except CannotRewrite:
        return []
    return [term] if term.is_fed else []


def returned_by(file: FileFacts, call: cst.Call, index: int | None) -> Returned | None:
    """The figure that a call returns, if every `return` of the function reads it from the device."""
    function = file.values.calls.resolve(call)
    if function is None or not file.is_own(function) or function.asynchronous is not None:
        return None
    if any(file.tree.is_within(caller, function) for caller in file.values.calls.callers(function)):
        return None
    if file.tree.is_generator(function):
        return None
    returned = Returned(function, index)
    parts = list(_parts(returned))
    is_read = parts and all(part is not None and host_read(file, part) is not None for part in parts)
    return returned if is_read and ends_with_return(function) else None


def _parts(returned: Returned) -> Iterator[cst.BaseExpression | None]:
    """What each `return` gives; `None` where that is not written down."""
    for node in walk_scope(returned.function.body):
        if isinstance(node, cst.Return):
            part = node.value
            if returned.index is not None:
                is_listed = isinstance(part, cst.Tuple) and 0 <= returned.index < len(part.elements)
                element = part.elements[returned.index] if is_listed and isinstance(part, cst.Tuple) else None
                part = element.value if isinstance(element, cst.Element) else None
            yield part


def ends_with_return(function: cst.FunctionDef) -> bool:
    """Whether the last statement of a function is a `return`."""
    body = function.body
    line = body.body[-1] if isinstance(body, cst.IndentedBlock) else body
    last = line.body[-1] if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else line
    return isinstance(last, cst.Return)


def dtype_of(file: FileFacts, carrier: Carrier) -> DType | None:
    """Python's type of what a carrier holds."""
    found = {term.dtype for term in sources(file, carrier)}
    return found.pop() if len(found) == 1 else None


def target_of(file: FileFacts, statement: cst.CSTNode) -> cst.BaseExpression | None:
    """`total` of `total += x`, `total -= x` and `total = total + x`, if `statement` is one of these."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, (cst.AddAssign, cst.SubtractAssign)):
        return statement.target if not isinstance(statement.value, (cst.List, cst.Tuple)) else None
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        operands = [file.code(operand) for operand in _operands(statement.value)]
        if len(operands) > 1 and file.code(target) in operands:
            return target
    return None


def _operands(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, ARITHMETIC):
        return _operands(node.left) + _operands(node.right)
    return [node]


# Writing


def cast_of(file: FileFacts, terms: Sequence[Term], *, is_shown: bool) -> str:
    """What floats are given before they are added: `.double()` where another digit could decide something or integers
    overflow, `.float()` where they may have 16 bits, and else nothing.
    """
    carried = [source for term in terms for _, carrier in term.held for source in sources(file, carrier)]
    reads = [(term, read, read_value(file, read.tensor).dtype) for term in (*terms, *carried) for read in term.reads]
    are_safe = all(
        dtype is DType.FLOATING
        or is_differentiated(file, read.tensor)
        or is_int64(file, read.tensor)
        or (dtype is DType.BOOL and term.is_bare)
        for term, read, dtype in reads
    )
    if not (is_shown and are_safe):
        return ".double()"
    is_half = shows_half_types(file) and any(dtype not in (DType.INTEGER, DType.BOOL) for _, _, dtype in reads)
    return ".float()" if is_half else ""


def kept_on_device(file: FileFacts, term: Term, cast: str = "", *, copied: bool = False) -> list[Edit]:
    """Edits that leave a term on the device, with a cast such as `.double()`; `copied` keeps what is read.

    Raises:
        CannotRewrite: a comment stands inside of a read.
    """
    suffix = (".clone()" if copied else "") + cast
    edits = [without_read(file, read, suffix) for read in term.reads]
    for node, carrier in term.held:
        # The device makes float32 of an integer and a Python float.
        if (
            cast == ".double()"
            and dtype_of(file, carrier) is not DType.FLOATING
            and not _is_beside_float(file, node, term)
        ):
            end = file.source.span(node)[1]
            edits.append(Edit(end, end, ".double()", file.source.path))
    for call, inner in term.casts:
        edits += _unwrapped(file, call, inner)
    return list(dict.fromkeys(edits))


def _is_beside_float(file: FileFacts, node: cst.BaseExpression, term: Term) -> bool:
    """Whether a count is multiplied by what is a float of 64 bits on the device."""
    around = file.tree.parent(node)
    if not isinstance(around, cst.BinaryOperation) or isinstance(around.operator, cst.Divide):
        return False
    other = around.left if around.right is node else around.right
    return any(file.tree.is_within(read.call, other) for read in term.reads)


def _unwrapped(file: FileFacts, call: cst.Call, inner: cst.BaseExpression) -> Iterator[Edit]:
    """`float(a.item() + b.item())` as `(a.item() + b.item())`: `float()` of a tensor would read it."""
    source = file.source
    (start, end), code = source.span(call), source.whole_code(inner)
    first = source.span(inner.lpar[0])[0] if inner.lpar else source.span(inner)[0]
    if "#" in source.text[start:first] + source.text[first + len(code) : end]:
        raise CannotRewrite("the expression contains a comment")
    is_atom = bool(inner.lpar) or isinstance(inner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    yield Edit(start, first, "" if is_atom else "(", source.path)
    yield Edit(first + len(code), end, "" if is_atom else ")", source.path)


def as_number(file: FileFacts, node: cst.BaseExpression, form: str) -> Edit | None:
    """An edit that reads a value as a number where it is used, `float({})` or `{}.item()`; `None` where that is done.

    Raises:
        CannotRewrite: the text of the code is shown there.
    """
    parent = file.tree.parent(node)
    line = file.line(node)
    if isinstance(parent, cst.FormattedStringExpression) and parent.equal is not None:
        raise CannotRewrite(f"the f-string on line {line} prints the expression `{file.code(node)}` itself")
    around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if around is not None and converted(file, around) is node:
        return None
    builtin = form.partition("(")[0]
    if builtin.isidentifier() and file.names.hides_builtin(builtin, node):
        raise CannotRewrite(f"`{builtin}` may not be the builtin on line {line}")
    source = file.source_of(node)
    return replace(source, node, form.format(source.code(node)))
