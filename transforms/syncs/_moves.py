"""The scalars of a file that can stay on the device, and what of them moves together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.clocks import why_timed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import comes_often, is_late
from perfmod.transforms.facts.side_streams import unguarded_fetch
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType
from perfmod.transforms.finding import Edit
from perfmod.transforms.needed import is_only_shown
from perfmod.transforms.syncs._around import goes_over_batches, in_every_step
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead, host_read, may_change_later
from perfmod.transforms.syncs._lists import keep_list
from perfmod.transforms.syncs._meters import keep_in_meter, makers_of
from perfmod.transforms.syncs._sinks import Held, Listed, Metered, Sum, sink_of
from perfmod.transforms.syncs._sums import Kept, Loop, keep_sum, missing_float64, own_definitions, read_late
from perfmod.transforms.syncs._terms import Carrier, Returned, Term, carriers_of, cast_of, kept_on_device, sources
from perfmod.transforms.waits import Waits


@frozen(eq=False)
class Move:
    """Sums, lists, meters and variables that share figures, and so stay on the device together or not at all.

    Attributes:
        node: where they are fed first.
        labels: what they are, for messages; empty for variables that are only used now and then.
        reads: what is no longer read in the step.
        uses: where numbers are read instead.
        edits: what to write.
        inner: a loop in every step behind which they become numbers, and so are waited for all the same.
        doubts: what was taken for granted without being shown.
        figures_may_differ: whether shown figures may differ by a rounding.
    """

    node: cst.CSTNode
    labels: Sequence[str]
    reads: Sequence[HostRead]
    uses: Sequence[cst.CSTNode]
    edits: Sequence[Edit]
    inner: Loop | None
    doubts: Sequence[str]
    figures_may_differ: bool


@define(eq=False)
class _Target:
    """A sum, a list or a meter that steps feed, where that is done first, and what moves it."""

    node: cst.CSTNode
    move: Callable[[], Kept]
    kept: Kept | None = None
    refusal: str = ""

    def settle(self) -> None:
        """Find out what moves it, or why nothing can."""
        try:
            self.kept = self.move()
        except CannotRewrite as refusal:
            self.refusal = str(refusal)


@define(eq=False)
class Moves:
    """What may move in one file, and why the rest does not.

    Attributes:
        moves: what moves together.
        refused: where something is fed that cannot move, with the reason.
    """

    file: FileFacts
    moves: list[Move] = field(factory=list)
    refused: dict[cst.CSTNode, str] = field(factory=dict)
    _targets: list[_Target] = field(factory=list)
    _carriers: dict[Carrier, None] = field(factory=dict)

    @classmethod
    def of(cls, file: FileFacts) -> Moves:
        """What is found in a file; once for each state of the files."""
        known = file.once(_known_moves)
        if file.source.path not in known:
            known[file.source.path] = cls(file)
            known[file.source.path]._find()
        return known[file.source.path]

    def _find(self) -> None:
        places: dict[object, list[Sum | Listed | Metered]] = {}
        for call in find_all(self.file.tree.module, cst.Call):
            read = host_read(self.file, call)
            if read is not None and comes_often(self.file, call):
                for key, sink in self._followed(read.call):
                    known = places.setdefault(key, [])
                    known += [] if any(_fed(each) is _fed(sink) for each in known) else [sink]
        for sinks in places.values():
            self._targets.append(_Target(_fed(sinks[0]), self._mover(sinks)))
        for target in self._targets:
            target.settle()
        while self._drop():
            pass
        self.refused.update({target.node: target.refusal for target in self._targets if target.kept is None})
        for carriers, targets in self._together():
            self._settle(carriers, targets)

    def _settle(self, carriers: Sequence[Carrier], targets: Sequence[_Target]) -> None:
        """Add what moves a group, or why it stays."""
        try:
            move = self._move(carriers, targets)
            self.moves += [move] if move is not None else []
        except CannotRewrite as refusal:
            self.refused.update({target.node: str(refusal) for target in targets})

    def _followed(self, node: cst.BaseExpression) -> Iterator[tuple[object, Sum | Listed | Metered]]:
        """What a read goes into, directly or through variables and callers, by what is fed there."""
        file, waiting = self.file, [node]
        while waiting:
            place = waiting.pop()
            sink = sink_of(file, place)
            if isinstance(sink, Held):
                new = [each for each in sink.carriers if each not in self._carriers and sources(file, each)]
                self._carriers.update(dict.fromkeys(new))
                waiting += [use for each in new for use in _uses(file, each) if file.is_own(use)]
            elif isinstance(sink, Metered):
                receiver = cst.ensure_type(sink.call.func, cst.Attribute).value
                yield makers_of(file, receiver) or sink.call, sink
            elif sink is not None and comes_often(file, place):
                own = file.classes.self_attribute(sink.target)
                scope = own[0].node if own is not None else file.tree.scope(sink.target)
                yield (type(sink), scope, file.code(sink.target)), sink

    def _mover(self, sinks: Sequence[Sum | Listed | Metered]) -> Callable[[], Kept]:
        sums = [sink for sink in sinks if isinstance(sink, Sum)]
        lists = [sink for sink in sinks if isinstance(sink, Listed)]
        meters = [sink for sink in sinks if isinstance(sink, Metered)]
        if sums:
            return partial(keep_sum, self.file, sums[0].target, sums)
        if lists:
            return partial(keep_list, self.file, lists[0].target, lists)
        receiver = cst.ensure_type(meters[0].call.func, cst.Attribute).value
        return partial(keep_in_meter, self.file, makers_of(self.file, receiver), meters)

    def _drop(self) -> bool:
        """Refuse the targets whose carriers have to be numbers somewhere; whether there were any."""
        taken = self._taken()
        needed = {carrier: self._why_needed(carrier, taken) for carrier in self._carriers}
        bad = {carrier: why for carrier, why in needed.items() if why is not None}
        for carrier in bad:
            del self._carriers[carrier]
        for target in self._targets:
            why = next((bad[each] for term in _terms_of(target) for _, each in term.held if each in bad), None)
            if target.kept is not None and why is not None:
                target.kept, target.refusal = None, why
        return bool(bad)

    def _taken(self) -> set[cst.BaseExpression]:
        """The uses of carriers by what moves."""
        terms = [term for target in self._targets for term in _terms_of(target)]
        terms += [term for carrier in self._carriers for term in sources(self.file, carrier)]
        return {node for term in terms for node, _ in term.held}

    def _why_needed(self, carrier: Carrier, taken: set[cst.BaseExpression]) -> str | None:
        """Why a carrier has to hold a number; `None` where every use of it can do with a tensor, or reads it later."""
        file = self.file
        for term in sources(file, carrier):
            gone = next((each for _, each in term.held if each not in self._carriers), None)
            if gone is not None:
                return f"`{gone.name}` is needed as a number"
        if isinstance(carrier, Returned) and not file.values.calls.is_only_called(carrier.function):
            return f"`{carrier.name}` may be called by code that perfmod cannot see and that expects a number"
        for use in _uses(file, carrier):
            if use not in taken and not self._is_read_late(carrier, use):
                return f"`{carrier.name}` is needed as a number on line {file.line(use)}"
        return None

    def _is_read_late(self, carrier: Carrier, use: cst.BaseExpression) -> bool:
        file = self.file
        if isinstance(carrier, Returned):
            return isinstance(file.tree.parent(use), cst.Expr)
        is_here = file.is_own(use) and file.tree.scope(use) is carrier.scope
        statement = file.tree.statement(use)
        is_changed = isinstance(statement, cst.AugAssign) and statement.target is use
        # `float()` takes no `None` of before the loop.
        is_number = bool(carriers_of(file, use))
        is_read_late = is_late(file, use, carrier.node) or self._is_shared(carrier.node, use)
        return is_here and is_number and not is_changed and is_read_late

    def _is_shared(self, carrier: cst.CSTNode, use: cst.BaseExpression) -> bool:
        """Whether a statement of every round waits for other values too, behind further work: one wait is enough."""
        file, statement = self.file, self.file.tree.statement(use)
        if not isinstance(statement, cst.BaseSmallStatement) or not file.comes_before(carrier, statement):
            return False
        loops = file.tree.loops(carrier)[:1]
        if loops != file.tree.loops(use)[:1] or not file.once(Waits).is_queued_between(carrier, statement):
            return False
        others = (file.flow.uses(each) for each in self._carriers if not isinstance(each, Returned))
        named = (each for uses in others for each in uses if file.code(each) != file.code(use))
        reads = (call for call in find_all(statement, cst.Call) if host_read(file, call) is not None)
        return any(True for _ in reads) or any(file.tree.is_within(each, statement) for each in named)

    def _together(self) -> Iterator[tuple[list[Carrier], list[_Target]]]:
        """Carriers and targets, by what shares figures."""
        groups: list[tuple[set[object], list[Carrier], list[_Target]]] = []
        for each in (*self._carriers, *(target for target in self._targets if target.kept is not None)):
            terms = _terms_of(each) if isinstance(each, _Target) else sources(self.file, each)
            keys: set[object] = {each, *(carrier for term in terms for _, carrier in term.held)}
            carriers, targets = ([], [each]) if isinstance(each, _Target) else ([each], [])
            for group in [group for group in groups if not keys.isdisjoint(group[0])]:
                groups.remove(group)
                keys |= group[0]
                carriers, targets = group[1] + carriers, group[2] + targets
            groups.append((keys, carriers, targets))
        yield from ((carriers, targets) for _, carriers, targets in groups)

    def _move(self, carriers: Sequence[Carrier], targets: Sequence[_Target]) -> Move | None:
        """All that is written for a group; `None` where nothing of it is ever used."""
        file, taken = self.file, self._taken()
        targets = sorted(targets, key=lambda target: file.source.span(target.node))
        kept = [target.kept for target in targets if target.kept is not None]
        for loop in (loop for each in kept for loop in each.loops):
            whole = file.loaders.of_one_batch(loop.iter) if isinstance(loop, cst.For) else None
            if whole is not None:
                where = f"the loader on line {file.line(whole.call)}"
                raise CannotRewrite(
                    f"the loop on line {file.line(loop)} makes one round: {where} gives all samples in one batch"
                )
        given = [term for carrier in carriers for term in sources(file, carrier) if term.reads]
        edits = [edit for each in kept for edit in each.edits]
        doubts = [doubt for each in kept for doubt in each.doubts] + [doubt for term in given for doubt in term.doubts]
        late: list[cst.BaseExpression] = []
        for carrier in carriers:
            if isinstance(carrier, Returned):
                continue
            own_definitions(file, cst.ensure_type(carrier.node, cst.Name))
            uses = [use for use in _uses(file, carrier) if use not in taken and use not in late]
            edits += self._read_late(carrier, uses, set(carriers))
            late += uses
        if not kept and not late:
            return None
        casts = [each.cast for each in kept]
        if late and any(not term.is_bare for term in given):
            casts.append(cast_of(file, given, is_shown=all(is_only_shown(file, use) for use in late)))
        cast = min(filter(None, casts), default="")
        for term in given:
            own = cast if term.dtype is DType.FLOATING else ""
            copied = any(may_change_later(file, read.tensor, parts=own != ".double()") for read in term.reads)
            edits += kept_on_device(file, term, own, copied=copied)
            doubts += missing_float64(file, file.code(term.node), own)
        reads = [read for each in kept for term in each.terms for read in term.reads]
        reads += [read for term in given for read in term.reads]
        if not reads:
            return None
        unguarded = next(filter(None, (unguarded_fetch(file, read.call) for read in reads)), None)
        if unguarded is not None:
            where = f"line {file.line(unguarded)}"
            doubts.append(f"{where} copies batches on its own stream without `record_stream`, and relies on this wait")
        node = targets[0].node if targets else reads[0].call
        differ = any(each.figures_may_differ for each in kept) or any(term.divides for term in given)
        differ |= cast != ".double()" and any(not term.is_bare and term.dtype is DType.FLOATING for term in given)
        labels = list(dict.fromkeys(each.label for each in kept))
        places = [*(place for each in kept for place in each.reads), *late]
        inner = next((loop for each in kept for loop in each.loops if _comes_by_every_step(file, loop)), None)
        timed = next(filter(None, (why_timed(file, read.call, places) for read in reads)), None)
        doubts = list(dict.fromkeys([*doubts, *([timed] if timed is not None else [])]))
        return Move(node, labels, reads, places, _merged(edits), inner, doubts, differ)

    def _read_late(self, carrier: Carrier, uses: Sequence[cst.BaseExpression], carriers: set[Carrier]) -> list[Edit]:
        """Edits that read a variable where it is used now and then, or behind the loop."""
        seen = {each for use in uses if isinstance(use, cst.Name) for each in self.file.flow.definitions(use)}
        if seen <= carriers:
            return read_late(self.file, carrier.name, uses, "{}.item()")
        dtypes = {term.dtype for term in sources(self.file, carrier)}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if dtype is None:
            raise CannotRewrite(f"`{carrier.name}` may be an integer or a float, which could not be determined")
        return read_late(self.file, carrier.name, uses, "float({})" if dtype is DType.FLOATING else "int({})")


def _known_moves(_: FileFacts) -> dict[str, Moves]:
    return {}


def _comes_by_every_step(file: FileFacts, loop: Loop) -> bool:
    """Whether a loop is a part of every step, such as one over the layers of a loss, and goes over no batches."""
    if goes_over_batches(file, loop):
        return False
    outer = next((each for each in file.tree.loops(loop) if goes_over_batches(file, each)), None)
    if outer is not None:
        return not file.steps.is_gated(loop, outer)
    return (file.steps.in_sight(loop) or file.steps.in_forward(loop)) and in_every_step(file, loop)


def _fed(sink: Sum | Listed | Metered) -> cst.CSTNode:
    """Where a sink is fed."""
    return sink.statement if isinstance(sink, Sum) else sink.value


def _terms_of(target: _Target) -> Sequence[Term]:
    return target.kept.terms if target.kept is not None else ()


def _uses(file: FileFacts, carrier: Carrier) -> Sequence[cst.BaseExpression]:
    """The expressions that give what a carrier holds."""
    return (
        file.values.calls.callers(carrier.function)
        if isinstance(carrier, Returned)
        else list(dict.fromkeys(file.flow.uses(carrier)))
    )


def joined(file: FileFacts, moves: Sequence[Move]) -> list[Move]:
    """Moves in the order of the file; those that write behind the same loop are one."""
    found: list[Move] = []
    for move in sorted(moves, key=lambda move: file.source.span(move.node)):
        behind = _insertions(move)
        same = next((each for each in found if behind & _insertions(each) and not (each.doubts or move.doubts)), None)
        if same is None:
            found.append(move)
            continue
        found[found.index(same)] = Move(
            same.node,
            [*same.labels, *move.labels],
            [*same.reads, *move.reads],
            [*same.uses, *move.uses],
            _merged([*same.edits, *move.edits]),
            same.inner or move.inner,
            (),
            same.figures_may_differ or move.figures_may_differ,
        )
    return found


def _insertions(move: Move) -> set[tuple[str, int]]:
    """Where a move writes whole lines."""
    return {(edit.path, edit.start) for edit in move.edits if edit.replacement.endswith(("\n", "\r"))}


def _merged(edits: Sequence[Edit]) -> list[Edit]:
    """Edits of which those that insert something at one place are one."""
    inserted: dict[tuple[str, int], dict[str, None]] = {}
    others: dict[Edit, None] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted.setdefault((edit.path, edit.start), {})[edit.replacement] = None
        else:
            others[edit] = None
    return [*others, *(Edit(at, at, "".join(texts), path) for (path, at), texts in inserted.items())]
