"""Running sums that move to the device: `total += loss.detach()`, and a number again behind the loop."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.devices import several_devices, varied_device
from perfmod.transforms.facts.endings import catching, ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.formats import shows_type
from perfmod.transforms.facts.rounds import is_late, round_loop
from perfmod.transforms.facts.tree import find_all, find_any
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.needed import is_only_shown
from perfmod.transforms.syncs._around import parameter_loop
from perfmod.transforms.syncs._host_reads import CannotRewrite, is_int64, without_read
from perfmod.transforms.syncs._places import first_values, mentions_in
from perfmod.transforms.syncs._sinks import Sum
from perfmod.transforms.syncs._terms import Term, as_number, cast_of, kept_on_device, not_scalar, sources, term_of
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

Loop = cst.For | cst.While
# What makes DTensors of parameters.
_SHARDED = frozenset({"fully_shard", "parallelize_module", "distribute_module", "DTensor"})
_SCALES = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)


@frozen(eq=False)
class Kept:
    """A sum, a list or a meter whose figures stay on the device.

    Attributes:
        label: what it is, for messages.
        edits: what to write.
        terms: what it is given.
        reads: where it is read.
        doubts: what was taken for granted without being shown.
        loops: the loops behind which it becomes a number.
        cast: what floats are given before they go into it, such as `.double()`.
        figures_may_differ: whether shown figures may differ by a rounding.
    """

    label: str
    edits: Sequence[Edit]
    terms: Sequence[Term]
    reads: Sequence[cst.CSTNode]
    doubts: Sequence[str]
    loops: Sequence[Loop] = ()
    cast: str = ""
    figures_may_differ: bool = False


def keep_sum(file: FileFacts, target: cst.BaseExpression, sites: Sequence[Sum]) -> Kept:
    """A sum on the device. Raises `CannotRewrite` where somebody needs the number in every step, or cannot be seen."""
    code = file.code(target)
    statements = [site.statement for site in sites]
    terms = [term_of(file, statement.value, code) for statement in statements]
    require_one_device(file, code, terms)
    if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name) and file.value(target).is_tensor:
        made = [definition.part or target for definition in file.flow.definitions(target.value)]
        return _added_to_tensor(file, code, statements, terms, made)
    loops = loops_of(file, target, statements)
    places = _Mentions.of(file, target, statements, loops)
    on_device = [value for value in places.starts if file.value(value).is_tensor]
    if on_device:
        return _added_to_tensor(file, code, statements, terms, on_device)
    dtype, doubts = _dtype(file, target, terms, places)
    doubts += [doubt for term in terms for doubt in term.doubts]
    cast = ""
    if dtype is DType.FLOATING:
        # Who else reads an attribute or an entry is not followed.
        is_shown = isinstance(target, cst.Name) and all(
            map(partial(is_only_shown, file), (*places.rare, *places.behind))
        )
        cast = cast_of(file, terms, is_shown=is_shown)
        doubts += missing_float64(file, code, cast)
    _require_one_mode(file, code, [*statements, *places.scaled])
    edits = [edit for term in terms for edit in kept_on_device(file, term, cast)]
    form = "int({})" if dtype is DType.INTEGER else "float({})"
    edits += read_late(file, code, places.rare, form)
    is_read_behind = bool(places.behind) or not isinstance(target, cst.Name)
    if isinstance(target, cst.Name):
        set_elsewhere = (each.node for each in file.flow.bound(file.tree.scope(target), code))
        others = [node for node in set_elsewhere if not any(file.tree.is_within(node, loop) for loop in loops)]
        loops = outermost(file, loops, [*others, *places.behind])
    loops = loops if is_read_behind else []
    edits += [insert_behind(file, loop, f"{code} = {form.format(code)}") for loop in loops]
    if file.names.hides_builtin(form.partition("(")[0], target):
        raise CannotRewrite(f"`{form.partition('(')[0]}` may not be the builtin here")
    if not is_read_behind and not places.rare:
        raise CannotRewrite(f"`{code}` is never used: delete it")
    is_rounded = dtype is DType.FLOATING and cast != ".double()"
    is_rounded |= any(term.divides for term in terms)
    is_rounded |= any(isinstance(scale.operator, cst.DivideAssign) for scale in places.scaled)
    reads = [*places.rare, *places.behind]
    return Kept(f"`{code}`", edits, terms, reads, doubts, loops, cast, is_rounded)


def missing_float64(file: FileFacts, code: str, cast: str) -> list[str]:
    """The doubt about a sum of 64 bits in code that has to run on other devices than CUDA, too."""
    is_doubtful = cast == ".double()" and file.policy.is_portable
    return [f"`{code}` needs float64, which devices such as MPS do not have"] if is_doubtful else []


@frozen
class _Mentions:
    """The other places of a sum.

    Attributes:
        starts: the values that it may have before it is added to.
        scaled: what else adds a number to it, or scales it, in the loops.
        rare: what reads it in the loops, but not in every round.
        behind: what may read it behind them.
    """

    starts: Sequence[cst.BaseExpression]
    scaled: Sequence[cst.AugAssign]
    rare: Sequence[cst.BaseExpression]
    behind: Sequence[cst.BaseExpression]

    @classmethod
    def of(
        cls, file: FileFacts, target: cst.BaseExpression, statements: Sequence[cst.CSTNode], loops: Sequence[Loop]
    ) -> _Mentions:
        """Raises `CannotRewrite` where every step reads the sum, or somebody who cannot be followed."""
        if isinstance(target, cst.Name):
            definitions = own_definitions(file, target)
            inside, behind = _of_name(file, target, definitions, statements, loops)
            starts = list(_starts(file, target.value, [*statements, *inside, *behind], statements, loops))
            require_bound(file, target.value, loops, starts)
        else:
            inside, starts = mentions_in(file, target, loops, statements), first_values(file, target)
            behind = []  # whoever holds the object
        code = file.code(target)
        scaled, rare = [], []
        for place in inside:
            parent = file.tree.parent(place)
            if isinstance(parent, cst.AugAssign) and parent.target is place:
                if not isinstance(parent.operator, _SCALES) or file.value(parent.value).kind is not Kind.NUMBER:
                    raise CannotRewrite(f"line {file.line(place)} does more to `{code}` than add a number")
                scaled.append(parent)
            elif isinstance(parent, cst.AssignTarget):
                starts.append(cst.ensure_type(file.tree.statement(place), cst.Assign).value)
            elif is_rare(file, place, statements):
                rare.append(place)
            elif not isinstance(parent, (cst.Del, cst.AnnAssign)):
                raise CannotRewrite(f"`{code}` is read in every step on line {file.line(place)}")
        return cls(starts, scaled, rare, behind)


def own_definitions(file: FileFacts, target: cst.Name) -> Sequence[Definition]:
    """All that binds a variable, where only the code of its own scope can see it. Raises `CannotRewrite`."""
    name, scope = target.value, file.tree.scope(target)
    for declaration in find_any(file.tree.module, cst.Global, cst.Nonlocal):
        if isinstance(declaration, (cst.Global, cst.Nonlocal)) and name in (
            item.name.value for item in declaration.names
        ):
            raise CannotRewrite(f"`{name}` is shared between functions on line {file.line(declaration)}")
    for call in find_all(scope, cst.Call):
        reader = file.qualified(call) or ""
        is_of_module = reader == "builtins.globals" and isinstance(scope, cst.Module)
        by_name = reader in ("builtins.locals", "builtins.eval", "builtins.exec") or is_of_module
        if by_name or (reader == "builtins.vars" and not call.args):
            raise CannotRewrite(f"`{file.code(call)}` on line {file.line(call)} may read `{name}` by name")
    definitions = file.flow.bound(scope, name)
    for use in (use for definition in definitions for use in file.flow.uses(definition)):
        if not file.is_own(use) or file.tree.scope(use) is not scope:
            raise CannotRewrite(f"another function uses `{name}` on line {file.line(use)}")
    return definitions


def _of_name(
    file: FileFacts,
    target: cst.Name,
    definitions: Sequence[Definition],
    statements: Sequence[cst.CSTNode],
    loops: Sequence[Loop],
) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
    """The reads of a variable in the loops that no statement of the sum holds, and those that see it behind them."""
    uses = dict.fromkeys(use for definition in definitions for use in file.flow.uses(definition))
    mentions = [use for use in uses if not any(file.tree.is_within(use, statement) for statement in statements)]
    require_normal_end(file, target.value, loops, mentions)
    inside: list[cst.BaseExpression] = [
        use for use in mentions if any(file.tree.is_within(use, loop) for loop in loops)
    ]
    fed = [each for each in definitions if any(file.tree.is_within(each.node, loop) for loop in loops)]
    seen = {use for each in fed for use in file.flow.uses(each)}
    behind = [use for use in mentions if use in seen and use not in inside]
    return inside, [use for use in behind if not isinstance(file.tree.statement(use), cst.Del)]


def require_normal_end(file: FileFacts, name: str, loops: Iterable[Loop], mentions: Iterable[cst.CSTNode]) -> None:
    """Raise where code may go on behind an exception that ends a loop, and would find tensors."""
    for loop in loops:
        for outer in catching(file, loop):
            if not all(file.tree.is_within(mention, outer.body) for mention in mentions):
                kind, line = "with" if isinstance(outer, cst.With) else "try", file.line(outer)
                raise CannotRewrite(
                    f"an exception may end the loop, and the code after the `{kind}` on line {line} would "
                    f"see `{name}` as a tensor"
                )


def require_bound(file: FileFacts, name: str, loops: Iterable[Loop], starts: Sequence[cst.CSTNode]) -> None:
    """Raise where a variable may not exist behind a loop, because it starts under a condition only."""
    for loop in loops:
        around = {*file.tree.ancestors(loop)}
        if starts and not any(_block(file, start) in around for start in starts):
            line = file.line(starts[0])
            raise CannotRewrite(f"`{name}` may not exist after the loop: line {line} runs only under a condition")


def _block(file: FileFacts, start: cst.CSTNode) -> cst.CSTNode | None:
    """The block whose end is reached with what a statement sets: that around a `with`, too."""
    line = file.tree.line(file.tree.statement(start))
    block = file.tree.parent(line)
    while isinstance(around := file.tree.parent(block) if block is not None else None, cst.With):
        block = file.tree.parent(around)
    return block


def _starts(
    file: FileFacts,
    name: str,
    places: Sequence[cst.CSTNode],
    statements: Sequence[cst.CSTNode],
    loops: Sequence[Loop],
) -> Iterator[cst.BaseExpression]:
    """What a variable may hold before the sum is added to: what its places see, but for the sum itself."""
    reads = [read for place in places for read in find_all(place, cst.Name) if read.value == name]
    for definition in dict.fromkeys(each for read in reads for each in file.flow.definitions(read)):
        statement = file.tree.statement(definition.node)
        is_behind = all(file.comes_before(loop, definition.node) for loop in loops)
        is_within = any(file.tree.is_within(definition.node, loop) for loop in loops)
        if statement in statements or (is_behind and not is_within):
            continue
        if definition.binding is Binding.AUGMENTED:
            if not is_within and file.values.of_definition(definition).kind is not Kind.NUMBER:
                raise CannotRewrite(f"`{name}` is not known to start as a number")
            continue
        if definition.binding is not Binding.ASSIGNED or definition.part is None:
            raise CannotRewrite(f"the first value of `{name}` could not be found")
        yield definition.part


def loops_of(file: FileFacts, target: cst.BaseExpression, places: Sequence[cst.CSTNode]) -> list[Loop]:
    """The loops whose rounds come by some places. Raises `CannotRewrite` where there is no line behind them."""
    loops = dict.fromkeys(_rounds(file, target, place) for place in places)
    found = [loop for loop in loops if loop is not None]
    if len(found) < len(loops) or any(file.tree.scope(loop) is not file.tree.scope(target) for loop in found):
        raise CannotRewrite(f"perfmod did not find the loop that adds to `{file.code(target)}`")
    return [
        loop for loop in found if not any(other is not loop and file.tree.is_within(loop, other) for other in found)
    ]


def _rounds(file: FileFacts, target: cst.BaseExpression, place: cst.CSTNode) -> Loop | None:
    """The loop whose rounds come by a place: that over the parameters where the sum begins anew in each step."""
    loop, inner = round_loop(file, place), parameter_loop(file, place)
    if inner is None:
        return loop
    starts = file.flow.bound(file.tree.scope(target), target.value) if isinstance(target, cst.Name) else ()
    outside = [each.node for each in starts if not file.tree.is_within(each.node, inner)]
    if loop is not None and not any(file.tree.is_within(each, loop) for each in outside):
        return loop
    if any(name.value in _SHARDED for name in file.tree.all(cst.Name)):
        raise CannotRewrite("the parameters may be sharded, and the norm of a part is another than that of the whole")
    return inner


def outermost(file: FileFacts, loops: Sequence[Loop], nodes: Sequence[cst.CSTNode]) -> list[Loop]:
    """The outermost loops around some loops, or these themselves, that hold none of the nodes."""
    found: dict[Loop, None] = {}
    for loop in loops:
        around = (loop, *file.tree.loops(loop))
        ends = (any(file.tree.is_within(node, outer) for node in nodes) for outer in around[1:])
        found[around[next((index for index, is_end in enumerate(ends) if is_end), len(around) - 1)]] = None
    return list(found)


def is_rare(file: FileFacts, place: cst.CSTNode, fed: Sequence[cst.CSTNode]) -> bool:
    """Whether rounds come by a place only now and then: behind a modulo, or where the loop ends."""
    return all(is_late(file, place, each) for each in fed) or ends_step(file, place)


def read_late(file: FileFacts, code: str, places: Sequence[cst.BaseExpression], form: str) -> list[Edit]:
    """Edits that read a number where it is used now and then: there, or once for the places of one block.

    `form` says how: `float({})`, `int({})` or `{}.item()`.
    """
    edits: list[Edit] = []
    blocks: dict[cst.CSTNode | None, list[cst.BaseExpression]] = {}
    for place in places:
        gate = file.steps.gate(place)
        is_inside = isinstance(gate, cst.If) and file.tree.is_within(place, gate.body)
        blocks.setdefault(gate.body if gate is not None and is_inside else None, []).append(place)
    # What `float()` made of it, it takes again; such a number has no `item()`.
    again = len(blocks) > 1 or any(
        isinstance(each, cst.Name) and file.flow.from_earlier_rounds(each) for each in places
    )
    for block, inside in blocks.items():
        if isinstance(block, cst.IndentedBlock) and len(inside) > 1 and not (again and form.endswith(".item()")):
            line = next(line for line in block.body if any(file.tree.is_within(place, line) for place in inside))
            edits.append(
                insert_before_statement(file.source, line, f"{code} = {form.format(code)}", below_comments=True)
            )
        else:
            edits += filter(None, (as_number(file, place, form) for place in inside))
    return edits


def insert_behind(file: FileFacts, loop: Loop, text: str) -> Edit:
    """A statement behind a loop. Raises `CannotRewrite` where there is no line for it."""
    try:
        return insert_after_statement(file.source, loop, text)
    except ValueError as error:
        raise CannotRewrite(f"there is no place for a line after the loop on line {file.line(loop)}") from error


def _dtype(
    file: FileFacts, target: cst.BaseExpression, terms: Sequence[Term], places: _Mentions
) -> tuple[DType, list[str]]:
    """Whether the sum is a float or an integer, and what is taken for granted."""
    code = file.code(target)
    starts = [file.value(value) for value in places.starts]
    if not starts or any(start.kind is not Kind.NUMBER for start in starts):
        raise CannotRewrite(f"`{code}` is not known to start as a number")
    scales = [file.value(scale.value).dtype for scale in places.scaled]
    divided = any(isinstance(scale.operator, cst.DivideAssign) for scale in places.scaled)
    dtypes = {*(start.dtype for start in starts), *scales, *(term.dtype for term in terms)}
    if DType.FLOATING in dtypes:
        return DType.FLOATING, []
    if None in dtypes or divided:
        is_seen = not isinstance(target, cst.Name) or any(
            shows_type(file, use) for use in (*places.rare, *places.behind)
        )
        doubt = f"`{code}` may be an integer or a float, which could not be determined"
        return DType.FLOATING, [doubt] if is_seen else []
    carried = [source for term in terms for _, carrier in term.held for source in sources(file, carrier)]
    reads = [read for term in (*terms, *carried) for read in term.reads]
    narrow = [read for read in reads if read.dtype is not DType.BOOL and not is_int64(file, read.tensor)]
    doubts = [
        f"`{file.code(read.tensor)}` may have an integer dtype of fewer than 64 bits, which can overflow"
        for read in narrow
    ]
    return DType.INTEGER, doubts


def require_one_device(file: FileFacts, label: str, terms: Sequence[Term]) -> None:
    """Raise where scalars are put together that may come from different devices."""
    second = several_devices(file)
    tensors = {file.code(read.tensor) for term in terms for read in term.reads}
    tensors |= {file.code(node) for term in terms for node, _ in term.held}
    if second is not None and len(tensors) > 1:
        raise CannotRewrite(f"the values added to `{label}` may be on several devices (line {file.line(second)})")
    for term in terms:
        varied = varied_device(file, term.node)
        if varied is not None:
            where = f"`{file.code(varied)}` on line {file.line(varied)}"
            raise CannotRewrite(f"the device of the values added to `{label}` may change from round to round ({where})")


def _require_one_mode(file: FileFacts, code: str, statements: Sequence[cst.CSTNode]) -> None:
    """A tensor that was made in inference mode cannot be added to outside of it."""
    modes = {inference_mode(file, statement): statement for statement in statements}
    if len(modes) > 1 and None in modes:
        inside = next(statement for mode, statement in modes.items() if mode is not None)
        lines = f"line {file.line(inside)} and outside of it on line {file.line(modes[None])}"
        raise CannotRewrite(f"`{code}` is changed inside of `torch.inference_mode()` on {lines}")


def inference_mode(file: FileFacts, node: cst.CSTNode) -> cst.CSTNode | None:
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


def _added_to_tensor(
    file: FileFacts,
    code: str,
    statements: Sequence[cst.AugAssign | cst.Assign],
    terms: Sequence[Term],
    made: Sequence[cst.BaseExpression],
) -> Kept:
    """A sum that is a tensor of the device already takes tensors as it takes numbers; one of 16 bits does not."""
    values = [file.value(each) for each in made]
    is_integer = any(value.dtype is not DType.FLOATING for value in values)
    fits = not is_integer or all(
        value.dtype is DType.INTEGER and term.is_bare and is_int64(file, term.reads[0].tensor)
        for value in values
        for term in terms
    )
    is_there = all(value.device is Device.ACCELERATOR for value in values) and all(term.is_bare for term in terms)
    is_short = any(re.search("16|half", file.code(each)) for each in made)
    is_augmented = all(isinstance(statement, cst.AugAssign) for statement in statements)
    if is_short or not (fits and is_there and is_augmented):
        raise CannotRewrite(f"`{code}` is already a tensor: add a tensor of its dtype and device")
    edits = [without_read(file, term.reads[0]) for term in terms]
    doubts = not_scalar(file, terms, "`{}` may have more than zero dimensions, and the sum would become a vector")
    return Kept(f"`{code}`", edits, terms, (), doubts, figures_may_differ=not is_integer)
