"""Moving a running sum to the device: tensors where it is fed, numbers where it is read."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import is_late
from perfmod.transforms.facts.value import DType
from perfmod.transforms.rule import Change, Edit
from perfmod.transforms.syncs._devices import varied_device
from perfmod.transforms.syncs._figures import as_number, number_type, shows_no_type
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._kept_terms import kept_term
from perfmod.transforms.syncs._report_figures import several_devices
from perfmod.transforms.syncs._sums import RunningSum
from perfmod.transforms.syncs._terms import Term
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_after_statement


@frozen
class Moved:
    """A sum, a list or a meter class on the device.

    Attributes:
        label: what is moved.
        edits: what to write, without what concerns the variables that its terms go through.
        imports: the imports that this needs.
        doubts: what was taken for granted without being shown.
        reads: the places that read it.
        terms: what goes into it.
        are_stored: whether tensors of a step are kept in it as they are.
        elsewhere: the imports that other files need.
        container: the code of the dictionary whose entries become numbers all at once behind the loop.
        left: figures that go on being read, with the reason.
    """

    label: str
    edits: Sequence[Edit]
    imports: Sequence[str]
    doubts: Sequence[str]
    reads: Sequence[cst.CSTNode]
    terms: Sequence[Term]
    are_stored: bool = False
    elsewhere: Sequence[Change] = ()
    container: str | None = None
    left: Sequence[tuple[cst.CSTNode, str]] = ()


def move(file: FileFacts, found: RunningSum) -> Moved:
    """The sum on the device. Raises `CannotRewrite` where a figure could change or is needed in every step."""
    dtype = _dtype(file, found)
    _require_late_uses(file, found)
    _require_one_mode(file, found)
    require_one_device(file, found.label, [site.term for site in found.sites])
    edits: list[Edit] = []
    imports: list[str] = []
    doubts: list[str] = []
    for site in found.sites:
        written, needed, missing = kept_term(file, site.term, dtype, is_alone=len(found.sites) == 1)
        edits += written
        imports += needed
        doubts += missing
    for use in found.uses:
        converted, required = as_number(file, use.node, dtype, [start.dtype for start in use.starts])
        edits += converted
        imports += required
    for loop in found.settled:
        text, further = _as_number_again(file, found, loop, dtype)
        edits.append(insert_behind(file, loop, text))
        imports += further
    for changed in found.changed:
        edits += _as_assignment(file, changed, dtype)
    reads = [*(use.node for use in found.uses), *found.changed]
    container = file.code(found.container) if found.container is not None else None
    terms = [site.term for site in found.sites]
    return Moved(f"`{found.label}`", edits, imports, doubts, reads, terms, container=container)


def require_one_device(file: FileFacts, label: str, terms: Sequence[Term]) -> None:
    """Raise `CannotRewrite` where several scalars are added up that may come from different devices."""
    second = several_devices(file)
    every = [*terms, *(variable.term for term in terms for _, variable in term.variables())]
    tensors = {file.code(read.tensor) for term in every for read in term.reads}
    tensors |= {file.code(call) for term in every for call, _ in term.calls}
    if second is not None and len(tensors) > 1:
        line = file.line(second)
        raise CannotRewrite(f"what goes into `{label}` may come from several devices, as the file uses (line {line})")
    for read in (read for term in every for read in term.reads):
        varied = varied_device(file, read.call)
        if varied is not None:
            line, code = file.line(varied), file.code(varied)
            raise CannotRewrite(
                f"what goes into `{label}` comes from another device in each round (`{code}` on line {line})"
            )


def insert_behind(file: FileFacts, loop: cst.For | cst.While, text: str) -> Edit:
    """Statements behind a loop. Raises `CannotRewrite` where there is no line for them."""
    try:
        return insert_after_statement(file.source, loop, text)
    except ValueError as error:
        raise CannotRewrite(f"there is no place behind the loop on line {file.line(loop)}") from error


def _as_number_again(
    file: FileFacts, found: RunningSum, loop: cst.For | cst.While, dtype: DType
) -> tuple[str, Sequence[str]]:
    """The statements behind a loop that make a sum a number, and the imports that they need."""
    indent = file.source.module.default_indent
    torch, imports = file.names.spelled("torch", loop)
    if found.container is not None:
        names, code = UnusedNames(file), file.code(found.container)
        key, value = names.take("key"), names.take("value")
        test = f"{indent}if {torch}.is_tensor({value}):\n{indent}{indent}{code}[{key}] = {value}.item()"
        return f"for {key}, {value} in {code}.items():\n{test}", imports
    if {start.dtype for start in found.starts} == {dtype}:
        return f"{found.label} = {number_type(file, loop, dtype)}({found.label})", ()
    return f"if {torch}.is_tensor({found.label}):\n{indent}{found.label} = {found.label}.item()", imports


def _dtype(file: FileFacts, found: RunningSum) -> DType:
    """Whether Python's sum is a float or an integer, whichever way the steps go."""
    terms = {site.term.dtype for site in found.sites}
    starts = {start.dtype for start in found.starts}
    if not starts or not starts <= {DType.INTEGER, DType.FLOATING}:
        raise CannotRewrite(f"whether `{found.label}` starts as an integer or a float could not be shown")
    if terms | starts == {DType.INTEGER}:
        return DType.INTEGER
    if starts == {DType.FLOATING} or (terms == {DType.FLOATING} and not found.kept):
        return DType.FLOATING
    if not (found.changed or found.settled) and all(shows_no_type(file, use.node) for use in found.uses):
        # Whichever it is: a float of 64 bits holds every count, and divides and prints like the integer there.
        return DType.FLOATING
    raise CannotRewrite(f"whether `{found.label}` is an integer or a float could not be shown")


def _require_late_uses(file: FileFacts, found: RunningSum) -> None:
    for node in (*(use.node for use in found.uses), *found.changed):
        if not all(is_late(file, node, site.statement) for site in found.sites):
            raise CannotRewrite(f"`{found.label}` is read in every step on line {file.line(node)}")


def _require_one_mode(file: FileFacts, found: RunningSum) -> None:
    """A tensor that was made in inference mode cannot be added to outside of it."""
    modes: dict[cst.CSTNode | None, cst.CSTNode] = {}
    for statement in (*(site.statement for site in found.sites), *found.kept):
        modes.setdefault(inference(file, statement), statement)
    inside = next((statement for mode, statement in modes.items() if mode is not None), None)
    if len(modes) > 1 and inside is not None:
        outside = next(statement for statement in modes.values() if statement is not inside)
        raise CannotRewrite(
            f"`{found.label}` is changed inside of `torch.inference_mode()` on line {file.line(inside)} and "
            f"outside of it on line {file.line(outside)}"
        )


def inference(file: FileFacts, node: cst.CSTNode) -> cst.CSTNode | None:
    """The block or function around `node` that runs in inference mode."""
    for ancestor in file.tree.ancestors(node):
        switches: list[cst.BaseExpression] = []
        if isinstance(ancestor, cst.With):
            switches = [item.item for item in ancestor.items]
        elif isinstance(ancestor, cst.FunctionDef):
            switches = [decorator.decorator for decorator in ancestor.decorators]
        if any((file.qualified(switch) or "").endswith(".inference_mode") for switch in switches):
            return ancestor
    return None


def _as_assignment(file: FileFacts, statement: cst.AugAssign, dtype: DType) -> list[Edit]:
    """`total /= n` as `total = float(total) / n`: in place, the division would stay on the device."""
    source, value = file.source, statement.value
    target_start, target_end = source.span(statement.target)
    value_start, value_end = source.span(value)
    first = source.span(value.lpar[0])[0] if value.lpar else value_start
    operator = source.text[target_end:first]
    code = source.text[target_start:target_end]
    if "=" not in operator or "#" in operator or "(" in operator:
        raise CannotRewrite(f"the statement on line {source.line(statement)} is written in an unusual way")
    builtin = number_type(file, statement, dtype)
    symbol = operator.strip()[:-1]
    is_atom = bool(value.lpar) or isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber))
    edits = [Edit(target_end, first, f" = {builtin}({code}) {symbol} " + ("" if is_atom else "("))]
    return edits if is_atom else [*edits, Edit(value_end, value_end, ")")]
