"""Lists to which every step appends a scalar of the device, and where they become lists of numbers again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.endings import catching
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._by_name import require_unread_by_name
from perfmod.transforms.syncs._devices import varied_device
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    has_no_dimensions,
    is_differentiated,
    own_copy,
    read_value,
    tensor_doubts,
    without_read,
)
from perfmod.transforms.syncs._kept_terms import kept_term
from perfmod.transforms.syncs._moved_sums import Moved, insert_behind
from perfmod.transforms.syncs._places import contents, may_be_kept, reads_in, steps_of
from perfmod.transforms.syncs._set_from_outside import mentions
from perfmod.transforms.syncs._terms import Term, term_of
from perfmod.transforms.syncs._unused import UnusedNames
from perfmod.transforms.writing import insert_before_statement

_ADD_NOTHING = frozenset({"clear", "copy", "count", "index", "pop", "remove", "reverse", "sort"})
_CONVERSIONS = {DType.FLOATING: "float", DType.INTEGER: "int", DType.BOOL: "bool"}


@frozen
class Appended:
    """One `losses.append(x)` of a step: what is appended, and the loop whose rounds are the steps.

    Attributes:
        value: the expression that is appended: a figure, or a list, tuple or dictionary with figures in it.
        figures: those parts of it that are computed from scalars of the device, with their terms.
        loop: the loop; `None` where it is not in sight.
        bare: the read, where it is all that is appended, and gives the type that the tensor has.
    """

    value: cst.BaseExpression
    figures: Sequence[tuple[cst.BaseExpression, Term]]
    loop: cst.For | cst.While | None
    bare: HostRead | None


def appended_to(file: FileFacts, node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """`losses` and `x` of `losses.append(x)` and `losses += [x]`, where `node` stands in `x`."""
    child: cst.CSTNode = node
    for parent in file.tree.ancestors(node):
        target: cst.BaseExpression | None = None
        if isinstance(parent, cst.Call) and isinstance(parent.func, cst.Attribute) and child is not parent.func:
            target = parent.func.value
        elif isinstance(parent, cst.AugAssign) and child is parent.value:
            target = parent.target
        added = _appended(file, target) if target is not None else None
        if target is not None and added is not None and file.tree.is_within(node, added):
            return target, added
        if isinstance(parent, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            break
        child = parent
    return None


def appended(file: FileFacts, value: cst.BaseExpression, loop: cst.For | cst.While | None) -> Appended:
    """The figures in what a step appends. Raises `CannotRewrite` where they are more than sums and products."""
    figures = []
    for part in _parts(value):
        term = term_of(file, part)
        if term.shared and not term.is_fed:
            raise CannotRewrite(term.shared[0])
        if term.is_fed:
            figures.append((part, term))
    reads = figures[0][1].reads if len(figures) == 1 else ()
    bare = reads[0] if len(reads) == 1 and reads[0].call is value and _keeps_type(file, reads[0]) else None
    return Appended(value, figures, loop, bare)


def _keeps_type(file: FileFacts, read: HostRead) -> bool:
    """Whether the number is of the type that the tensor is of: `float(count)` makes it another."""
    if read.way is not None:
        return True
    own = read_value(file, read.tensor).dtype
    return read.dtype is (own or (DType.FLOATING if is_differentiated(file, read.tensor) else None))


def keep_on_device(file: FileFacts, target: cst.BaseExpression, sites: Sequence[Appended]) -> Moved:
    """Edits that append tensors in the steps and make them numbers behind each step loop.

    The list is changed in place, so that it stays the same object for whoever holds it, and the numbers of earlier
    epochs stay as they are.

    Raises:
        CannotRewrite: other code could see the tensors, or may have put something else into the list.
    """
    loops = list(dict.fromkeys(site.loop for site in sites if site.loop is not None))
    if not all(site.loop for site in sites):
        raise CannotRewrite("the loop over the steps is not in sight, so there is no place behind it")
    if isinstance(target, cst.Name):
        held = _held_by_name(file, target, sites, loops)
    else:
        held = _held_by_place(file, target, sites, loops)
    if not held.is_new:
        _require_few_rounds(file, target, loops)
    edits, imports, doubts = _kept(file, sites)
    text, needed = _as_numbers(file, target, sites, held)
    edits += [insert_behind(file, loop, text) for loop in loops]
    for block in dict.fromkeys(map(partial(_block_of, file), held.rare)):
        edits.append(insert_before_statement(file.source, block.body[0], text))
    terms = tuple(term for site in sites for _, term in site.figures)
    label, container = f"`{file.code(target)}`", file.code(held.container) if held.container is not None else None
    return Moved(label, edits, (*imports, *needed), doubts, held.reads, terms, are_stored=True, container=container)


def _require_few_rounds(file: FileFacts, target: cst.BaseExpression, loops: Sequence[cst.For | cst.While]) -> None:
    """Raise where a list that goes on growing would be gone through, as a whole, behind a loop that each step runs."""
    around = (outer for loop in loops for outer in file.tree.loops(loop) if outer in file.steps.regions)
    step = next(around, None)
    if step is not None:
        grows = f"`{file.code(target)}` goes on growing"
        raise CannotRewrite(f"{grows}, and would be gone through in every step of the loop on line {file.line(step)}")


@frozen
class _Held:
    """What is known of a list.

    Attributes:
        reads: what reads it.
        rare: those reads in the loops that run only now and then.
        others: the types of the numbers that other code appends.
        is_new: whether the list is empty each time the loop begins.
        container: the dictionary whose lists all become lists of numbers, where the entry may be missing.
    """

    reads: Sequence[cst.BaseExpression]
    rare: Sequence[cst.BaseExpression]
    others: Sequence[DType | None]
    is_new: bool
    container: cst.BaseExpression | None = None


def _held_by_name(
    file: FileFacts, target: cst.Name, sites: Sequence[Appended], loops: Sequence[cst.For | cst.While]
) -> _Held:
    name = target.value
    held = _all_definitions(file, target)
    definitions = [definition for definition in held if not _appends(file, definition)]
    if not definitions or not all(_is_empty_list(file, definition) for definition in definitions):
        raise CannotRewrite(f"that `{name}` starts as an empty list could not be shown")
    require_unread_by_name(file, name, definitions[0].scope)
    for loop in loops:
        _require_normal_end(file, name, loop, definitions)
    uses = dict.fromkeys(use for definition in held for use in file.flow.uses(definition))
    values = {id(site.value) for site in sites}
    others: list[DType | None] = []
    rare: list[cst.BaseExpression] = []
    for use in uses:
        added = _appended(file, use)
        if added is None:
            _require_harmless(file, use, loops, definitions)
            if any(file.tree.is_within(use, loop) for loop in loops) and not _is_counted(file, use):
                rare.append(use)
        elif id(added) not in values:
            others.append(_number_appended(file, target, added))
    reads = [use for use in uses if _appended(file, use) is None]
    return _Held(reads, rare, others, all(_is_renewed(file, loop, definitions) for loop in loops))


def _held_by_place(
    file: FileFacts, target: cst.BaseExpression, sites: Sequence[Appended], loops: Sequence[cst.For | cst.While]
) -> _Held:
    """A list that is an attribute or lies in a dictionary: nobody may look at it while the loops run."""
    code = file.code(target)
    if any(file.tree.scope(loop) is not file.tree.scope(target) for loop in loops):
        raise CannotRewrite(f"`{code}` belongs to another function than the loop")
    try:
        first = contents(file, target)
    except CannotRewrite:
        raise CannotRewrite(f"`{code}` may be read by code that cannot be seen from here") from None
    made = [*first.values, *([first.factory] if first.factory is not None else [])]
    if not all(_makes_empty_list(file, value) for value in made):
        raise CannotRewrite(f"that `{code}` starts as an empty list could not be shown")
    others: list[DType | None] = []
    values = [site.value for site in sites]
    for place in reads_in(file, target, loops, values):
        added = _appended(file, place)
        if added is None:
            raise CannotRewrite(f"`{code}` is read in the loop on line {file.line(place)}")
        if not any(added is value for value in values):
            others.append(_number_appended(file, target, added))
    own = file.classes.self_attribute(target)
    for mention in mentions(file, target, own[0]) if own is not None and isinstance(target, cst.Attribute) else ():
        added = _appended(file, mention)
        if added is not None and not any(added is value for value in values):
            _number_appended(file, target, added)
    chain = steps_of(target)
    is_any = chain is not None and chain[1][-1][0] == "index"
    container = target.value if isinstance(target, cst.Subscript) and (first.factory is not None or is_any) else None
    if container is not None:
        _require_numbers(file, container)
    # Other code may have appended numbers before.
    return _Held((), (), [*others, None], is_new=False, container=container)


def _require_numbers(file: FileFacts, container: cst.BaseExpression) -> None:
    """Raise where a dictionary may hold lists of other things than numbers."""
    code = file.code(container)
    for node in find_all(file.tree.module, cst.Subscript):
        if file.code(node.value) != code:
            continue
        parent, added = file.tree.parent(node), _appended(file, node)
        statement = file.tree.parent(parent) if isinstance(parent, cst.AssignTarget) else None
        is_new = isinstance(statement, cst.Assign) and _makes_empty_list(file, statement.value)
        is_number = added is not None and all(file.value(part).kind is Kind.NUMBER for part in _parts(added))
        if (added is not None and not is_number) or (statement is not None and not is_new):
            raise CannotRewrite(f"`{code}` may hold other lists, from line {file.line(node)} on")


def _number_appended(file: FileFacts, target: cst.BaseExpression, added: cst.BaseExpression) -> DType | None:
    if file.value(added).kind is not Kind.NUMBER:
        line = file.line(added)
        raise CannotRewrite(f"what is appended to `{file.code(target)}` on line {line} could not be shown")
    return file.value(added).dtype


def _is_counted(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a list is only asked for its length."""
    parent = file.tree.parent(use)
    around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return around is not None and file.qualified(around) == "builtins.len"


def _block_of(file: FileFacts, node: cst.CSTNode) -> cst.IndentedBlock:
    """The block of the innermost `if` around a read that runs only now and then."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.If) and child is ancestor.body and isinstance(child, cst.IndentedBlock):
            return child
        if isinstance(ancestor, (cst.For, cst.While, cst.FunctionDef)):
            break
        child = ancestor
    raise CannotRewrite(f"there is no place in front of line {file.line(node)} to make the list one of numbers")


def _kept(file: FileFacts, sites: Sequence[Appended]) -> tuple[list[Edit], list[str], list[str]]:
    """Edits that append tensors, the imports that they need, and what is taken for granted."""
    edits: list[Edit] = []
    imports: list[str] = []
    doubts: list[str] = []
    for site in sites:
        if site.bare is not None:
            reshape = "" if has_no_dimensions(file, site.bare) else ".reshape(())"
            edits.append(without_read(file, site.bare, own_copy(file, site.bare) + reshape))
            doubts += tensor_doubts(file, site.bare)
            continue
        for part, term in site.figures:
            if term.dtype is None:
                raise CannotRewrite(f"whether `{file.code(part)}` is an integer or a float could not be shown")
            written, needed, missing = kept_term(file, term, term.dtype, stored=term.reads, is_alone=False)
            edits += written
            imports += needed
            doubts += missing
    return edits, imports, doubts


def _as_numbers(
    file: FileFacts, target: cst.BaseExpression, sites: Sequence[Appended], held: _Held
) -> tuple[str, Sequence[str]]:
    """The statement that makes a list of tensors one of numbers, and the imports that it needs."""
    name = file.code(target)
    torch, imports = file.names.spelled("torch", sites[0].value)
    shapes = {_shape(site.value) for site in sites}
    is_mixed = bool(held.others) and not isinstance(target, cst.Name)
    if len(shapes) > 1 or (held.others and not is_mixed and shapes != {""}):
        raise CannotRewrite(f"what is appended to `{name}` comes in several shapes")
    shape = shapes.pop()
    if held.container is not None:
        values = UnusedNames(file).take("values")
        body = f"{values}[:] = {_converted(torch, shape, values)}"
        indent = file.source.module.default_indent
        return f"for {values} in {file.code(held.container)}.values():\n{indent}{body}", imports
    is_alike = len(sites) == 1 and varied_device(file, sites[0].value) is None
    if held.is_new and not held.others and not held.rare and is_alike and not shape:
        # One tensor a step and nothing else: they all come in one transfer.
        bare = sites[0].bare
        is_reshaped = bare is None or file.value(bare.tensor).rank == 0 or not has_no_dimensions(file, bare)
        flat = "" if is_reshaped else ".flatten()"
        return f"{name}[:] = {torch}.stack({name}){flat}.tolist() if {name} else []", imports
    # A term counts a truth as a number; appended as it is, it stays one.
    dtypes = {
        site.bare.dtype if site.bare is not None else term.dtype for site in sites for _, term in site.figures
    } | set(held.others)
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtype in _CONVERSIONS and not shape:
        return f"{name}[:] = [{_CONVERSIONS[dtype]}(value) for value in {name}]", ()
    return f"{name}[:] = {_converted(torch, shape, name)}", imports


def _converted(torch: str, shape: str, name: str) -> str:
    """The elements of a list, with numbers in place of tensors; `shape` says what they are themselves."""
    number = f"value.item() if {torch}.is_tensor(value) else value"
    if shape == "dict":
        return f"[{{key: {number} for key, value in row.items()}} for row in {name}]"
    if shape:
        row = f"[{number} for value in row]" if shape == "list" else f"tuple({number} for value in row)"
        return f"[{row} for row in {name}]"
    return f"[{number} for value in {name}]"


def _shape(value: cst.BaseExpression) -> str:
    kinds = {cst.List: "list", cst.Tuple: "tuple", cst.Dict: "dict"}
    return kinds.get(type(value), "")


def _parts(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The figures of `x`, `[x, y]`, `(x, y)` and `{"loss": x}`."""
    if not isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        yield value
        return
    for element in value.elements:
        if not isinstance(element, (cst.Element, cst.DictElement)):
            raise CannotRewrite("other values are unpacked into what is appended")
        yield element.value


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
    statement = file.tree.statement(definition.node)
    if isinstance(file.tree.parent(definition.node), cst.NamedExpr):
        return False
    if isinstance(statement, cst.Assign) and len(statement.targets) > 1:
        # `losses = history = []` is one list with two names.
        return False
    return definition.part is not None and _makes_empty_list(file, definition.part)


def _makes_empty_list(file: FileFacts, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Call):
        return file.qualified(value) == "builtins.list" and not value.args
    return isinstance(value, cst.List) and not value.elements


def _require_normal_end(
    file: FileFacts, name: str, loop: cst.For | cst.While, definitions: Sequence[Definition]
) -> None:
    if any(definition.scope is not file.tree.scope(loop) for definition in definitions):
        raise CannotRewrite(f"`{name}` belongs to another function than the loop")
    for outer in catching(file, loop):
        if not all(file.tree.is_within(definition.node, outer.body) for definition in definitions):
            line = file.line(outer)
            kind = "with" if isinstance(outer, cst.With) else "try"
            raise CannotRewrite(
                f"an exception may end the loop and leave `{name}` to the code behind the {kind} of line {line}"
            )


def _require_harmless(
    file: FileFacts, use: Read, loops: Sequence[cst.For | cst.While], definitions: Sequence[Definition]
) -> None:
    line = file.line(use)
    parent = file.tree.parent(use)
    if _is_counted(file, use):
        return
    if isinstance(parent, cst.Attribute) and parent.attr.value not in _ADD_NOTHING:
        raise CannotRewrite(f"`{use.value}.{parent.attr.value}` on line {line} may put other values into the list")
    if isinstance(parent, cst.Subscript) and isinstance(file.tree.parent(parent), (cst.AssignTarget, cst.AugAssign)):
        raise CannotRewrite(f"an element of `{use.value}` is set on line {line}")
    if file.tree.scope(use) is not definitions[0].scope:
        raise CannotRewrite(f"another function reads `{use.value}` on line {line}")
    for loop in loops:
        if file.tree.is_within(use, loop) and not file.steps.is_gated(use):
            raise CannotRewrite(f"`{use.value}` is read in the loop on line {line}")
    statement = file.tree.statement(use)
    if isinstance(statement, cst.AugAssign) and statement.target is use:
        raise CannotRewrite(f"`{use.value}` is extended on line {line}")
    if may_be_kept(file, use):
        for loop in loops:
            behind = file.comes_before(loop, use) and not file.tree.is_within(use, loop)
            if not (behind and _is_renewed(file, loop, definitions)):
                raise CannotRewrite(
                    f"`{use.value}` may be kept elsewhere from line {line} on, and tensors would be seen there"
                )
