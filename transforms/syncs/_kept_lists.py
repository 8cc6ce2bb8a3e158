"""Lists to which every step appends a scalar of the device, and where they become lists of numbers again."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._by_name import require_unread_by_name
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    own_copy,
    require_scalar,
    without_read,
)
from perfmod.transforms.writing import insert_after_statement

_ADD_NOTHING = frozenset({"clear", "copy", "count", "index", "pop", "remove", "reverse", "sort"})
_CONVERSIONS = {DType.FLOATING: "float", DType.INTEGER: "int"}
# What reads a list and does not keep it.
_READERS = frozenset(
    f"builtins.{name}"
    for name in (
        "all", "any", "bool", "isinstance", "len", "list", "max", "min", "print", "repr", "set", "sorted", "str",
        "sum", "tuple",
    )
)  # fmt: skip
_READING_LIBRARIES = frozenset(
    {"json", "math", "matplotlib", "numpy", "pandas", "pickle", "scipy", "statistics", "torch"}
)


def appended_to(file: FileFacts, read: HostRead) -> cst.BaseExpression | None:
    """`losses` of `losses.append(loss.item())` and `losses += [loss.item()]`."""
    around = file.tree.parent(file.tree.parent(read.call) or read.call)
    statement = file.tree.parent(around) if isinstance(around, cst.List) else None
    target: cst.BaseExpression | None = None
    if isinstance(around, cst.Call) and isinstance(around.func, cst.Attribute):
        target = around.func.value
    elif isinstance(statement, cst.AugAssign):
        target = statement.target
    return target if target is not None and _appended(file, target) is read.call else None


def keep_on_device(
    file: FileFacts, target: cst.BaseExpression, reads: Sequence[tuple[HostRead, cst.For | cst.While | None]]
) -> tuple[list[Edit], tuple[str, ...]]:
    """Edits that append tensors in the steps and make them numbers behind each step loop, and their imports.

    The list is changed in place, so that it stays the same object for whoever holds it, and `float()` leaves
    the numbers of earlier epochs as they are.

    `reads` are the appended figures, each with the loop whose rounds are the steps.

    Raises:
        CannotRewrite: other code could see the tensors, or may have put something else into the list.
    """
    source = file.source
    if not isinstance(target, cst.Name):
        raise CannotRewrite(f"`{source.code(target)}` may be read by code that cannot be seen from here")
    name = target.value
    dtypes = {read.dtype for read, _ in reads}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype not in _CONVERSIONS:
        raise CannotRewrite("whether integers or floats are appended could not be shown")
    assert dtype is not None
    held = _all_definitions(file, target)
    definitions = [definition for definition in held if not _appends(file, definition)]
    if not definitions or not all(_is_empty_list(file, definition) for definition in definitions):
        raise CannotRewrite(f"that `{name}` starts as an empty list could not be shown")
    require_unread_by_name(file, name, definitions[0].scope)
    loops = list(dict.fromkeys(loop for _, loop in reads if loop is not None))
    if not all(loop for _, loop in reads):
        raise CannotRewrite("the loop over the steps is not in sight, so there is no place behind it")
    for loop in loops:
        _require_normal_end(file, name, loop, definitions)
    uses = dict.fromkeys(use for definition in held for use in file.flow.uses(definition))
    appended = {id(read.call) for read, _ in reads}
    for use in uses:
        _require_harmless(file, use, loops, definitions, dtype, appended)
    edits = []
    for read, _ in reads:
        require_scalar(file, read)
        edits.append(without_read(file, read, own_copy(file, read)))
    imports: tuple[str, ...] = ()
    text = f"{name}[:] = [{_CONVERSIONS[dtype]}(value) for value in {name}]"
    appends = [use for use in uses if _appended(file, use) is not None]
    if len(appends) == 1 and _is_renewed(file, loops[0], definitions):
        # One tensor a step and nothing else: they all come in one transfer.
        torch, imports = file.names.spelled("torch", loops[0])
        flat = "" if file.value(reads[0][0].tensor).rank == 0 else ".flatten()"
        text = f"{name}[:] = {torch}.stack({name}){flat}.tolist() if {name} else []"
    edits += [insert_after_statement(source, loop, text) for loop in loops]
    return edits, imports


def _appended(file: FileFacts, target: cst.CSTNode) -> cst.BaseExpression | None:
    """`x` of `target.append(x)` and `target += [x]`."""
    parent = file.tree.parent(target)
    if isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.AddAssign) and parent.target is target:
        elements = parent.value.elements if isinstance(parent.value, cst.List) else ()
        return elements[0].value if len(elements) == 1 and isinstance(elements[0], cst.Element) else None
    call = file.tree.parent(parent) if isinstance(parent, cst.Attribute) and parent.attr.value == "append" else None
    if not isinstance(call, cst.Call) or call.func is not parent or len(call.args) != 1:
        return None
    return call.args[0].value


def _appends(file: FileFacts, definition: Definition) -> bool:
    """Whether a definition is that of `losses += [x]`, which leaves the name with the list that it had."""
    return definition.binding is Binding.AUGMENTED and _appended(file, definition.node) is not None


def _all_definitions(file: FileFacts, target: cst.Name) -> list[Definition]:
    """Where the name gets its list, and every `losses += [x]` that the list may have gone through."""
    found: dict[Definition, None] = {}
    names = [target]
    while names:
        for definition in file.flow.definitions(names.pop()):
            if definition not in found and _appends(file, definition):
                names.append(cst.ensure_type(definition.node, cst.Name))
            found[definition] = None
    return list(found)


def _is_renewed(file: FileFacts, loop: cst.For | cst.While, definitions: Sequence[Definition]) -> bool:
    """Whether the list is a new one each time the loop begins."""
    outer = file.tree.loops(loop)
    return not outer or all(file.tree.is_within(definition.node, outer[0].body) for definition in definitions)


def _is_empty_list(file: FileFacts, definition: Definition) -> bool:
    value, statement = definition.part, file.tree.statement(definition.node)
    if isinstance(file.tree.parent(definition.node), cst.NamedExpr):
        return False
    if isinstance(statement, cst.Assign) and len(statement.targets) > 1:
        # `losses = history = []` is one list with two names.
        return False
    if isinstance(value, cst.Call):
        return file.qualified(value) == "builtins.list" and not value.args
    return isinstance(value, cst.List) and not value.elements


def _require_normal_end(
    file: FileFacts, name: str, loop: cst.For | cst.While, definitions: Sequence[Definition]
) -> None:
    if any(definition.scope is not file.tree.scope(loop) for definition in definitions):
        raise CannotRewrite(f"`{name}` belongs to another function than the loop")
    for outer in file.tree.ancestors(loop):
        if isinstance(outer, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if not isinstance(outer, (cst.Try, cst.TryStar, cst.With)) or not _stops_exceptions(file, outer):
            continue
        if not all(file.tree.is_within(definition.node, outer.body) for definition in definitions):
            line = file.source.line(outer)
            kind = "with" if isinstance(outer, cst.With) else "try"
            raise CannotRewrite(
                f"an exception may end the loop and leave `{name}` to the code behind the {kind} of line {line}"
            )


def _stops_exceptions(file: FileFacts, node: cst.Try | cst.TryStar | cst.With) -> bool:
    """Whether code behind `node` may go on after an exception inside of it."""
    return not isinstance(node, cst.With) or any(
        file.qualified(item.item) == "contextlib.suppress" for item in node.items
    )


def _require_harmless(
    file: FileFacts,
    use: Read,
    loops: Sequence[cst.For | cst.While],
    definitions: Sequence[Definition],
    dtype: DType,
    appended: set[int],
) -> None:
    line = file.source.line(use)
    parent = file.tree.parent(use)
    added = _appended(file, use)
    if added is not None:
        value = file.value(added)
        if id(added) in appended or (value.kind is Kind.NUMBER and value.dtype is dtype):
            return
        raise CannotRewrite(f"what is appended to `{use.value}` on line {line} could not be shown")
    around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    if around is not None and file.qualified(around) == "builtins.len":
        return
    if isinstance(parent, cst.Attribute) and parent.attr.value not in _ADD_NOTHING:
        raise CannotRewrite(f"`{use.value}.{parent.attr.value}` on line {line} may put other values into the list")
    if isinstance(parent, cst.Subscript) and isinstance(file.tree.parent(parent), (cst.AssignTarget, cst.AugAssign)):
        raise CannotRewrite(f"an element of `{use.value}` is set on line {line}")
    if file.tree.scope(use) is not definitions[0].scope:
        raise CannotRewrite(f"another function reads `{use.value}` on line {line}")
    for loop in loops:
        if file.tree.is_within(use, loop):
            raise CannotRewrite(f"`{use.value}` is read in the loop on line {line}")
    statement = file.tree.statement(use)
    if isinstance(statement, cst.AugAssign) and statement.target is use:
        raise CannotRewrite(f"`{use.value}` is extended on line {line}")
    if _may_be_kept(file, use):
        for loop in loops:
            behind = file.source.span(use)[0] > file.source.span(loop)[1]
            if not (behind and _is_renewed(file, loop, definitions)):
                raise CannotRewrite(
                    f"`{use.value}` may be kept elsewhere from line {line} on, and tensors would be seen there"
                )


def _may_be_kept(file: FileFacts, use: Read) -> bool:
    """Whether the list itself, not something computed from it, gets to where other code may look at it later."""
    child: cst.CSTNode = use
    for parent in file.tree.ancestors(use):
        if isinstance(parent, cst.Arg):
            call = file.tree.parent(parent)
            name = file.qualified(call) if isinstance(call, cst.Call) else None
            return name is None or not (name in _READERS or name.partition(".")[0] in _READING_LIBRARIES)
        if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.Yield, cst.From)):
            return getattr(parent, "value", getattr(parent, "item", None)) is child
        if not isinstance(
            parent,
            (cst.Tuple, cst.List, cst.Element, cst.Dict, cst.DictElement, cst.IfExp, cst.BooleanOperation),
        ):
            return False
        child = parent
    return False
