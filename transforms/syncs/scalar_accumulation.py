"""Losses and counts that are read from the device in every step, only to be added up.

`running_loss += loss.item()` asks for a number that the device has not computed yet: the host stops, waits
until the queue of kernels has run dry, and only then starts to queue the next step. The number is needed much
later, where the mean of an epoch is printed. So the sum moves to the device: the loss is detached from its
graph, added up there, and read once, at the places that use the figure.

    running_loss = 0.0                              running_loss = 0.0
    for x, y in loader:                             for x, y in loader:
        ...                                             ...
        running_loss += loss.item()                     running_loss += loss.detach().double()
    print(running_loss / len(loader))               print(float(running_loss) / len(loader))

Python adds floats in 64 bits, so the device does as well, and the printed figure is the same to the last
digit. Counts stay integers. Losses that are collected in a list become numbers behind the loop. A class such
as `AverageMeter`, defined in the file, gets properties that read the device when somebody asks for a figure,
so that `losses.update(loss.item(), n)` can become `losses.update(loss.detach().double(), n)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs import _kept_lists, _meters
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead, host_read
from perfmod.transforms.syncs._moved_sums import Moved, move
from perfmod.transforms.syncs._needed_now import why_needed
from perfmod.transforms.syncs._sums import collect, target_of
from perfmod.transforms.syncs._terms import variable_uses
from perfmod.transforms.syncs._when import runs_every_step, step_loop

_Place = tuple[cst.CSTNode, str]
"""A variable, attribute or entry: the scope or class that it belongs to, and its code."""


class ScalarAccumulation(Rule):
    """Moves sums and lists of scalars to the device."""

    code = "PM106"
    name = "scalar-accumulation"
    family = Family.SYNCS
    summary = "A scalar is read from the device in every step, to be added up or collected"
    fix_title = "Accumulate on the device and read once"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.STABLE
    triggers = frozenset({"item", "float", "int"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "The training is the same to the bit, and so is every figure that is printed or returned: floats are "
        "added up in float64, counts in int64, as Python does. An error that the device reports late (a "
        "failed assertion in a kernel) shows up at the line that reads the sum. Where the loader is empty, a "
        "mean that divides 0 by 0 still raises ZeroDivisionError, and so does a meter whose weights are zero; up to "
        "Python 3.13 the text may gain or lose the word “float”. What a meter keeps can be read as before, but no "
        "longer set: where the file shows that, or code that looks behind the attributes, the class stays."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every sum and list that is fed from the device, and the reads that steer the training."""
        sums: dict[_Place, dict[cst.CSTNode, None]] = {}
        targets: dict[_Place, cst.BaseExpression] = {}
        lists: dict[_Place, dict[cst.BaseExpression, None]] = {}
        meters: dict[ClassFacts, cst.Call] = {}
        for call in find_all(file.tree.module, cst.Call):
            read = host_read(file, call)
            if read is None or not runs_every_step(file, call):
                continue
            fed = _feeds(file, read)
            target = target_of(file, fed) if fed is not None else None
            appended = _kept_lists.appended_to(file, _carrier(file, read))
            metered = _meters.metered_by(file, read)
            if fed is not None and target is not None:
                place = _place(file, target)
                targets[place] = target
                sums.setdefault(place, {})[fed] = None
            elif appended is not None:
                place = _place(file, appended[0])
                targets[place] = appended[0]
                lists.setdefault(place, {})[appended[1]] = None
            elif metered is not None:
                meters.setdefault(metered, call)
            else:
                reason = why_needed(file, read)
                if reason is not None:
                    yield self.refused(file, call, reason)
        for place, statements in sums.items():
            yield self._summed(file, targets[place], list(statements))
        for place, values in lists.items():
            yield self._listed(file, targets[place], list(values))
        for cls, call in meters.items():
            yield self._metered(file, cls, call)

    def _summed(self, file: FileFacts, target: cst.BaseExpression, statements: list[cst.CSTNode]) -> Finding:
        try:
            found = collect(file, target, statements)
            moved = move(file, found)
        except CannotRewrite as refusal:
            return self.refused(file, statements[0], str(refusal))
        reads = [*(use.node for use in found.uses), *found.changed]
        return self._moved(file, statements[0], f"`{found.label}`", moved, reads)

    def _metered(self, file: FileFacts, cls: ClassFacts, call: cst.Call) -> Finding:
        try:
            moved, reads = _meters.keep_on_device(file, cls)
        except CannotRewrite as refusal:
            return self.refused(file, call, str(refusal))
        return self._moved(file, call, f"what `{cls.name}` keeps", moved, reads)

    def _moved(
        self, file: FileFacts, node: cst.CSTNode, label: str, moved: Moved, reads: Sequence[cst.CSTNode]
    ) -> Finding:
        lines = ", ".join(str(line) for line in sorted({file.line(read) for read in reads}))
        reason = f"{label} is only read outside the step, " + (f"on line {lines}" if lines else "nowhere")
        return self.found(
            file,
            node,
            moved.doubts[0] if moved.doubts else reason,
            moved.edits,
            safety=Safety.UNSAFE if moved.doubts else None,
            imports=moved.imports,
        )

    def _listed(self, file: FileFacts, target: cst.BaseExpression, values: list[cst.BaseExpression]) -> Finding:
        try:
            sites = [_kept_lists.appended(file, value, step_loop(file, value)) for value in values]
            moved = _kept_lists.keep_on_device(file, target, sites)
        except CannotRewrite as refusal:
            return self.refused(file, values[0], str(refusal))
        reason = f"`{file.code(target)}` is only read outside the steps"
        return self.found(
            file,
            values[0],
            moved.doubts[0] if moved.doubts else reason,
            moved.edits,
            safety=Safety.UNSAFE if moved.doubts else None,
            imports=moved.imports,
        )


def _place(file: FileFacts, target: cst.BaseExpression) -> _Place:
    own = file.classes.self_attribute(target)
    return (own[0].node if own is not None else file.tree.scope(target)), file.code(target)


def _carrier(file: FileFacts, read: HostRead) -> cst.CSTNode:
    """The read itself, or the one use of the variable that it goes through."""
    uses = list(variable_uses(file, read))
    return uses[0] if len(uses) == 1 and runs_every_step(file, uses[0]) else read.call


def _feeds(file: FileFacts, read: HostRead) -> cst.CSTNode | None:
    """The statement that adds the read to something, directly or through a variable."""
    statement = file.tree.statement(read.call)
    if target_of(file, statement) is not None:
        return statement
    for use in variable_uses(file, read):
        through = file.tree.statement(use)
        if target_of(file, through) is None or not runs_every_step(file, through):
            continue
        # A number that weights what is added on the device already is no part of the pattern.
        if isinstance(through, (cst.AugAssign, cst.Assign)) and not file.value(through.value).is_tensor:
            return through
    return None
