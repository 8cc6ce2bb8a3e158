"""Lists that get a scalar in every step: tensors while the loop runs, and numbers behind one line below it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.differentiated import is_differentiated
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_any
from perfmod.transforms.facts.value import DType
from perfmod.transforms.finding import Edit
from perfmod.transforms.syncs._host_reads import CannotRewrite, may_change_later, read_value
from perfmod.transforms.syncs._sinks import Listed, sink_of
from perfmod.transforms.syncs._sums import (
    Kept,
    Loop,
    insert_behind,
    loops_of,
    missing_float64,
    outermost,
    own_definitions,
    require_bound,
    require_normal_end,
    require_one_device,
)
from perfmod.transforms.syncs._terms import Term, kept_on_device, not_scalar, sources, term_of

# What reads an object and does not keep it.
_READERS = ("builtins.", "numpy.", "math.", "statistics.", "torch.", "matplotlib.", "json.", "pandas.")


def keep_list(file: FileFacts, target: cst.BaseExpression, sites: Sequence[Listed]) -> Kept:
    """A list of tensors. Raises `CannotRewrite` where somebody would see them, or it may hold something else."""
    code = file.code(target)
    if not isinstance(target, cst.Name):
        raise CannotRewrite(f"`{code}` belongs to an object that other code may read while the loop runs")
    values = [site.value for site in sites]
    terms = [term_of(file, value) for value in values]
    own_definitions(file, target)
    definitions = _reaching(file, [site.target for site in sites])
    starts = _starts(file, code, definitions)
    loops = loops_of(file, target, values)
    uses = list(dict.fromkeys(use for definition in definitions for use in file.flow.uses(definition)))
    reads = []
    for use in uses:
        added = _added(file, use)
        if added is None:
            reads += [] if _is_counted(file, use) else [use]
        elif not any(added is value for value in values):
            raise CannotRewrite(f"`{code}` gets `{file.code(added)}` on line {file.line(use)}, which is not a tensor")
    if not reads:
        raise CannotRewrite(f"`{code}` is never used: delete it")
    loops = outermost(file, loops, [*(start.node for start in starts), *reads])
    require_normal_end(file, code, loops, [*(use for use in uses), *(start.node for start in starts)])
    require_bound(file, code, loops, [start.node for start in starts])
    is_fresh = all(_is_renewed(file, loop, starts) for loop in loops)
    _require_unseen(file, code, loops, reads, is_fresh=is_fresh)
    _require_tensors(file, code, terms, loops, is_fresh=is_fresh)
    for loop in loops:
        if not any(_is_always_filled(file, loop, value) for value in values if file.tree.is_within(value, loop)):
            raise CannotRewrite(f"not every round of the loop appends to `{code}`, so it may stay empty")
    edits: list[Edit] = []
    doubts = [doubt for term in terms for doubt in term.doubts]
    casts = [".double()" if _is_wide(file, term) else "" for term in terms]
    for term, cast in zip(terms, casts, strict=True):
        copied = any(may_change_later(file, read.tensor) for read in term.reads)
        edits += kept_on_device(file, term, cast, copied=copied)
    torch, imports = file.names.spelled("torch", terms[0].node)
    if imports:
        raise CannotRewrite("the file does not import torch")
    edits += [insert_behind(file, loop, f"{code} = {torch}.stack({code}).tolist()") for loop in loops]
    doubts += not_scalar(file, terms, f"`{{}}` may have a dimension, and `{code}` would hold lists then")
    doubts += missing_float64(file, code, max(casts))
    return Kept(f"`{code}`", edits, terms, reads, doubts, loops, max(casts))


def _reaching(file: FileFacts, targets: Sequence[cst.BaseExpression]) -> list[Definition]:
    """Where the variable gets the list that steps append to, and each `losses += [x]` that it may have gone through."""
    found: dict[Definition, None] = {}
    names = [target for target in targets if isinstance(target, cst.Name)]
    while names:
        for definition in file.flow.definitions(names.pop()):
            if definition not in found and _added(file, definition.node) is not None:
                names.append(cst.ensure_type(definition.node, cst.Name))
            found[definition] = None
    return list(found)


def _starts(file: FileFacts, code: str, definitions: Sequence[Definition]) -> list[Definition]:
    """Where the variable gets its list. Raises `CannotRewrite` where that is not a new and empty one."""
    starts = [definition for definition in definitions if _added(file, definition.node) is None]
    for start in starts:
        statement, made = file.tree.statement(start.node), start.part
        is_empty = isinstance(made, cst.List) and not made.elements
        is_made = isinstance(made, cst.Call) and file.qualified(made) == "builtins.list" and not made.args
        if not (is_empty or is_made) or (isinstance(statement, cst.Assign) and len(statement.targets) > 1):
            raise CannotRewrite(f"`{code}` is not known to start as an empty list")
    return starts


def _added(file: FileFacts, use: cst.CSTNode) -> cst.BaseExpression | None:
    """`x` of `losses.append(x)` and `losses += [x]`, where `losses` stands at `use`."""
    parent = file.tree.parent(use)
    call = file.tree.parent(parent) if isinstance(parent, cst.Attribute) and parent.attr.value == "append" else None
    value = call.args[0].value if isinstance(call, cst.Call) and call.func is parent and call.args else None
    if isinstance(parent, cst.AugAssign) and parent.target is use and isinstance(parent.value, cst.List):
        elements = parent.value.elements
        value = elements[0].value if len(elements) == 1 else None
    sink = sink_of(file, value) if value is not None else None
    return value if isinstance(sink, Listed) else None


def _is_counted(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a list is only asked for its length."""
    around = file.tree.parent(file.tree.parent(use) or use)
    return isinstance(around, cst.Call) and file.qualified(around) == "builtins.len"


def _is_always_filled(file: FileFacts, loop: Loop, value: cst.BaseExpression) -> bool:
    """Whether each pass of a loop appends a value: no condition, handler or earlier `continue` leaves it out.

    Loops make at least one round, apart from those that a training that is resumed may have left behind it.
    """
    child: cst.CSTNode = value
    for around in file.tree.ancestors(value):
        if isinstance(around, (cst.If, cst.IfExp, cst.Try, cst.TryStar, cst.Match, cst.While)):
            return False
        if isinstance(around, cst.For):
            bounds = around.iter.args if isinstance(around.iter, cst.Call) else ()
            is_range = isinstance(around.iter, cst.Call) and file.qualified(around.iter) == "builtins.range"
            leaves = find_any(around.body, cst.Continue, cst.Break, cst.Return)
            is_left = any(file.comes_before(each, value) for each in leaves)
            if (
                child is not around.body
                or is_left
                or (is_range and len(bounds) > 1 and file.code(bounds[0].value) not in "01")
            ):
                return False
            if around is loop:
                return True
        child = around
    return False


def _is_renewed(file: FileFacts, loop: Loop, starts: Sequence[Definition]) -> bool:
    """Whether the list is a new one each time the loop begins."""
    outer = file.tree.loops(loop)
    return not outer or all(file.tree.is_within(start.node, outer[0].body) for start in starts)


def _require_unseen(
    file: FileFacts, code: str, loops: Sequence[Loop], reads: Sequence[cst.CSTNode], *, is_fresh: bool
) -> None:
    """Raise where the list is read while a loop runs, or known by another name before."""
    for use in reads:
        line = file.line(use)
        if any(file.tree.is_within(use, loop) for loop in loops):
            raise CannotRewrite(f"`{code}` is read in the loop on line {line}")
        is_behind = all(file.comes_before(loop, use) for loop in loops)
        if not (is_behind and is_fresh) and _is_handed_on(file, use):
            raise CannotRewrite(f"line {line} may pass `{code}` on to code that would see tensors instead of numbers")
    step = next((outer for loop in loops for outer in file.tree.loops(loop) if outer in file.steps.regions), None)
    if step is not None and not is_fresh:
        raise CannotRewrite(
            f"`{code}` keeps growing, and each pass of the loop on line {file.line(step)} would convert all of it again"
        )


def _is_handed_on(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a list itself, not something computed from it, gets to where other code may look at it later."""
    child = use
    for parent in file.tree.ancestors(use):
        if isinstance(parent, cst.Arg):
            call = file.tree.parent(parent)
            return not (file.qualified(call) or "").startswith(_READERS) if isinstance(call, cst.Call) else True
        if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.Yield, cst.AugAssign)):
            return getattr(parent, "value", None) is child
        if not isinstance(parent, (cst.BaseElement, cst.BaseDictElement, cst.Tuple, cst.List, cst.Dict, cst.IfExp)):
            return False
        child = parent
    return False


def _require_tensors(
    file: FileFacts, code: str, terms: Sequence[Term], loops: Sequence[Loop], *, is_fresh: bool
) -> None:
    """Raise where a list holds numbers too when it becomes one of numbers, or tensors that do not go into one stack."""
    if not is_fresh or len(loops) > 1:
        why = "the next epoch uses it again" if not is_fresh else f"it is filled on {file.lines(loops)}"
        raise CannotRewrite(f"`{code}` would hold tensors and numbers, because {why}: make a list for each loop")
    require_one_device(file, code, terms)
    for term in terms:
        if (term.dtype is None and not (term.is_bare and len(terms) == 1)) or not _keeps_type(file, term):
            raise CannotRewrite(f"`{code}` may hold integers or floats, which could not be determined")
    if len({_dtype(term) for term in terms}) > 1:
        raise CannotRewrite(f"`{code}` gets numbers of different types, and a tensor has one")


def _dtype(term: Term) -> DType | None:
    """The type of what a list gets; a term counts a truth as a number, one that is read alone stays a truth."""
    return term.reads[0].dtype if term.is_bare else term.dtype


def _is_wide(file: FileFacts, term: Term) -> bool:
    """Whether a term has to be of 64 bits, to be the float that Python has."""
    handed = [source for node, each in term.held if node is term.node for source in sources(file, each)]
    if handed:
        return any(_is_wide(file, source) for source in handed)
    is_float = term.dtype is DType.FLOATING
    return is_float and not _has_type(file, term) if term.is_bare else term.dtype is not DType.INTEGER


def _keeps_type(file: FileFacts, term: Term) -> bool:
    """Whether the numbers of a tensor are of the type that the list gets now."""
    return _is_wide(file, term) or _has_type(file, term)


def _has_type(file: FileFacts, term: Term) -> bool:
    """Whether a tensor has the type that Python's number has: `float(count)` gives it another."""
    if not term.is_bare or term.reads[0].way is not None:
        return not term.casts
    value = read_value(file, term.reads[0].tensor)
    return value.dtype is term.dtype or (value.dtype is None and is_differentiated(file, term.reads[0].tensor))
