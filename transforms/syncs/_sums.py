"""Running sums in variables, attributes and entries of dictionaries: every place that touches one.

A sum may only move to the device when everything that reads it is seen, so `collect` returns it whole or
raises `CannotRewrite` with the place that it cannot follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.rounds import round_loop
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.syncs._by_name import require_unread_by_name, require_unseen_dictionary
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._places import contents, reads_in, require_numbers, steps_of
from perfmod.transforms.syncs._terms import LINEAR, Term, term_of

_LINEAR_ASSIGN = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign)


@frozen
class Site:
    """A statement of the step that adds to the sum."""

    statement: cst.AugAssign | cst.Assign
    term: Term


@frozen
class Start:
    """Something else that sets the sum, mostly to zero."""

    node: cst.CSTNode
    dtype: DType | None


@frozen
class Use:
    """A read of the sum, and the starts that it may see where no step ran in between."""

    node: cst.BaseExpression
    starts: Sequence[Start]


@frozen
class RunningSum:
    """A sum and everything that touches it.

    Attributes:
        label: the variable, attribute or entry as it stands in the code.
        sites: the statements that add scalars of the device to it.
        kept: `+=`, `-=` and `*=` with Python numbers, right for both kinds of sum.
        changed: other augmented assignments, such as `total /= len(loader)`, which have to see a number.
        starts: what sets it.
        uses: what reads it; for places that become numbers behind the loops, only what does so inside of these.
        settled: the loops behind which it becomes a number, where not all that reads it is known.
        container: the dictionary, where the entry may be missing, or where steps may feed any of its entries.
    """

    label: str
    sites: Sequence[Site]
    kept: Sequence[cst.AugAssign]
    changed: Sequence[cst.AugAssign]
    starts: Sequence[Start]
    uses: Sequence[Use]
    settled: Sequence[cst.For | cst.While] = ()
    container: cst.BaseExpression | None = None


def target_of(file: FileFacts, statement: cst.CSTNode) -> cst.BaseExpression | None:
    """`total` of `total += x`, `total -= x` and `total = total + x`, if `statement` is one of these."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, (cst.AddAssign, cst.SubtractAssign)):
        return statement.target if not isinstance(statement.value, (cst.List, cst.Tuple)) else None
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        code = file.code(target)
        operands = _operands(statement.value)
        if len(operands) > 1 and any(file.code(operand) == code for operand in operands):
            return target
    return None


def _operands(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (*LINEAR, cst.Divide)):
        return _operands(node.left) + _operands(node.right)
    return [node]


def collect(file: FileFacts, target: cst.BaseExpression, statements: Iterable[cst.CSTNode]) -> RunningSum:
    """Everything that touches the sum that `target` names and `statements` feed. Raises `CannotRewrite`."""
    sites = []
    for statement in statements:
        assert isinstance(statement, (cst.AugAssign, cst.Assign))
        term = term_of(file, statement.value, file.code(target))
        if not term.is_fed:
            several = f"`{file.code(statement.value)}` gets its value in several places"
            raise CannotRewrite(next(iter(term.shared), several))
        sites.append(Site(statement, term))
    if isinstance(target, cst.Name):
        return _collect_name(file, target, sites)
    if isinstance(target, (cst.Attribute, cst.Subscript)):
        try:
            all_of = _attributes(file, target) if isinstance(target, cst.Attribute) else _entries(file, target)
        except CannotRewrite as refusal:
            return _collect_settled(file, target, sites, refusal)
        return _collect_places(file, target, sites, *all_of)
    raise CannotRewrite(f"`{file.code(target)}` could not be followed")


def require_unshared(file: FileFacts, name: str) -> None:
    """Raise `CannotRewrite` where functions declare a name as one of an outer scope."""
    declarations: list[cst.Global | cst.Nonlocal] = [
        *find_all(file.tree.module, cst.Global),
        *find_all(file.tree.module, cst.Nonlocal),
    ]
    for declaration in declarations:
        if any(item.name.value == name for item in declaration.names):
            line = file.line(declaration)
            raise CannotRewrite(f"`{name}` is shared between functions on line {line}")


def _collect_name(file: FileFacts, target: cst.Name, sites: list[Site]) -> RunningSum:
    name, scope = target.value, file.tree.scope(target)
    require_unshared(file, name)
    require_unread_by_name(file, name, scope)
    bound = file.flow.bound(scope, name)
    statements = {
        id(file.tree.statement(d.node)): d for d in bound if d.binding in (Binding.ASSIGNED, Binding.AUGMENTED)
    }
    device = {statements[id(site.statement)] for site in sites}
    site_statements = [site.statement for site in sites]
    kept: list[cst.AugAssign] = []
    changed: dict[Definition, cst.AugAssign] = {}
    settled = False
    while not settled:
        settled = True
        for definition in bound:
            if definition.binding is not Binding.AUGMENTED or definition in device or definition in changed:
                continue
            statement = file.tree.statement(definition.node)
            assert isinstance(statement, cst.AugAssign)
            if not device.isdisjoint(file.flow.definitions(cst.ensure_type(statement.target, cst.Name))):
                settled = False
                if _keeps_number(file, statement):
                    device.add(definition)
                    kept.append(statement)
                else:
                    changed[definition] = statement
    starts = {d: Start(d.node, _start_dtype(file, d, changed)) for d in bound if d not in device}
    uses: dict[Read, Use] = {}
    seen: dict[Definition, None] = {}
    feeding = [*site_statements, *kept]
    own = [
        node
        for statement in feeding
        for node in find_all(statement, cst.Name)
        if node.value == name and file.flow.is_read(node)
    ]
    for use in (
        *own,
        *(use for definition in bound if definition in device for use in file.flow.uses(definition)),
    ):
        before = [d for d in file.flow.definitions(use) if d not in device]
        seen.update(dict.fromkeys(before))
        statement = file.tree.statement(use)
        is_target = isinstance(statement, cst.AugAssign) and statement.target is use
        if not is_target and statement not in feeding and not isinstance(statement, cst.Del):
            uses[use] = Use(use, [starts[d] for d in before if d in starts])
    if any(d not in starts or d.binding not in (Binding.ASSIGNED, Binding.AUGMENTED) for d in seen):
        raise CannotRewrite(f"where `{name}` gets its first value could not be shown")
    return RunningSum(name, sites, kept, list(changed.values()), [starts[d] for d in seen], list(uses.values()))


def _start_dtype(file: FileFacts, definition: Definition, changed: dict[Definition, cst.AugAssign]) -> DType | None:
    if definition in changed:
        return DType.FLOATING if isinstance(changed[definition].operator, cst.DivideAssign) else None
    value = file.values.of_definition(definition)
    return value.dtype if value.kind is Kind.NUMBER else None


def _keeps_number(file: FileFacts, statement: cst.AugAssign) -> bool:
    return isinstance(statement.operator, _LINEAR_ASSIGN) and file.value(statement.value).kind is Kind.NUMBER


def _collect_places(
    file: FileFacts,
    target: cst.BaseExpression,
    sites: list[Site],
    places: list[cst.BaseExpression],
    first: list[cst.BaseExpression],
) -> RunningSum:
    """A sum that is no variable: whatever assigns it may have been last, wherever it is read."""
    statements = [site.statement for site in sites]
    starts = [_value_start(file, value) for value in first]
    kept: list[cst.AugAssign] = []
    changed: list[cst.AugAssign] = []
    uses: list[cst.BaseExpression] = []
    for place in places:
        parent = file.tree.parent(place)
        if isinstance(parent, cst.AugAssign) and parent.target is place:
            if parent not in statements:
                (kept if _keeps_number(file, parent) else changed).append(parent)
        elif isinstance(parent, cst.AssignTarget):
            statement = cst.ensure_type(file.tree.statement(place), cst.Assign)
            if statement not in statements:
                starts.append(_value_start(file, statement.value))
        elif isinstance(parent, cst.AnnAssign) and parent.target is place:
            starts += [_value_start(file, parent.value)] if parent.value is not None else []
        elif _is_unpacked_into(file, place):
            raise CannotRewrite(f"`{file.code(place)}` is unpacked into on line {file.line(place)}")
        elif file.tree.statement(place) not in (*statements, parent if isinstance(parent, cst.Del) else None):
            uses.append(place)
    starts += [
        Start(statement, DType.FLOATING) for statement in changed if isinstance(statement.operator, cst.DivideAssign)
    ]
    return RunningSum(file.code(target), sites, kept, changed, starts, [Use(use, starts) for use in uses])


def _collect_settled(
    file: FileFacts, target: cst.Attribute | cst.Subscript, sites: list[Site], refusal: CannotRewrite
) -> RunningSum:
    """A sum that others may read, and that becomes a number behind the loops. Raises `CannotRewrite`."""
    loops = [loop for site in sites if (loop := round_loop(file, site.statement)) is not None]
    if len(loops) < len(sites) or any(file.tree.scope(loop) is not file.tree.scope(target) for loop in loops):
        raise refusal
    loops = list(dict.fromkeys(loops))
    try:
        held = contents(file, target)
    except CannotRewrite:
        raise refusal from None
    places = reads_in(file, target, loops, [site.statement for site in sites])
    found = _collect_places(file, target, sites, places, [*held.values, *([held.factory] if held.factory else [])])
    chain = steps_of(target)
    is_any = chain is not None and chain[1][-1][0] == "index"
    container = target.value if held.factory is not None or is_any else None
    if container is not None:
        require_numbers(file, cst.ensure_type(target, cst.Subscript))
    return evolve(found, settled=loops, container=container)


def _is_unpacked_into(file: FileFacts, place: cst.CSTNode) -> bool:
    child = place
    for parent in file.tree.ancestors(place):
        if isinstance(parent, (cst.AssignTarget, cst.For, cst.CompFor, cst.AsName)):
            return getattr(parent, "target", child) is child
        if not isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
            return False
        child = parent
    return False


def _value_start(file: FileFacts, value: cst.BaseExpression) -> Start:
    if isinstance(value, (cst.Integer, cst.Float)):
        return Start(value, DType.FLOATING if isinstance(value, cst.Float) else DType.INTEGER)
    found = file.value(value)
    return Start(value, found.dtype if found.kind is Kind.NUMBER else None)


def _attributes(file: FileFacts, target: cst.Attribute) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
    """Every mention of a private attribute of a class of the file, and its values in class bodies."""
    own, code, name = file.classes.self_attribute(target), file.code(target), target.attr.value
    if own is None:
        raise CannotRewrite(f"`{code}` belongs to an object whose class could not be shown")
    if not name.startswith("_"):
        raise CannotRewrite(f"`{code}` is public: code outside this file may read it")
    for text in find_all(file.tree.module, cst.SimpleString):
        if text.evaluated_value == name:
            raise CannotRewrite(f"`{name}` may be read by name on line {file.line(text)}")
    require_unseen_dictionary(file, name)
    places: list[cst.BaseExpression] = []
    for node in find_all(file.tree.module, cst.Attribute):
        if node.attr.value == name:
            found = file.classes.self_attribute(node)
            cls = found[0] if found is not None else file.value(node.value).cls
            if cls is None:
                line = file.line(node)
                raise CannotRewrite(f"`{file.code(node)}` on line {line} may be the same attribute")
            if own[0] in cls.lineage() or cls in own[0].lineage():
                places.append(node)
    in_bodies = (found for found in own[0].assignments(name) if found.method is None)
    return places, [found.value for found in in_bodies if found.value is not None]


def _entries(file: FileFacts, target: cst.Subscript) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
    """Every mention of `stats["loss"]`, and its first values, where `stats` is only used by such keys."""
    key, code = _key(target), file.code(target)
    if key is None or not isinstance(target.value, cst.Name):
        raise CannotRewrite(f"`{code}` is an element that other code may read")
    name, scope = target.value.value, file.tree.scope(target)
    places: dict[cst.BaseExpression, None] = {}
    first: list[cst.BaseExpression] = []
    bound = file.flow.bound(scope, name)
    if not bound:
        raise CannotRewrite(f"what `{name}` is could not be shown")
    for definition in bound:
        if definition.binding is not Binding.ASSIGNED or definition.path or not isinstance(definition.value, cst.Dict):
            raise CannotRewrite(f"what `{name}` is could not be shown")
        for element in definition.value.elements:
            if not isinstance(element, cst.DictElement) or not isinstance(element.key, cst.SimpleString):
                raise CannotRewrite(f"not all keys of `{name}` are known")
            if element.key.evaluated_value == key:
                first.append(element.value)
        for use in file.flow.uses(definition):
            entry = file.tree.parent(use)
            if not isinstance(entry, cst.Subscript) or entry.value is not use or _key(entry) is None:
                line = file.line(use)
                raise CannotRewrite(f"`{name}` is used as a whole on line {line}")
            if _key(entry) == key:
                places[entry] = None
    return list(places), first


def _key(node: cst.Subscript) -> str | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
        value = index.value.evaluated_value
        return value if isinstance(value, str) else None
    return None
