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

Python adds floats in 64 bits, so the device does as well, and the printed figure is the same to the last digit.
Counts stay integers; a counter that is a tensor of the device already takes the tensor of the count. What the code
does with the figure on its way is followed: sums and products of several, variables, functions that return it,
`float()` around it. Losses that are collected in a list become numbers behind the loop, and so do sums that others
may read, in attributes and dictionaries. A class such as `AverageMeter`, in whichever file of the project, gets
properties that read the device when somebody asks for a figure, so that `losses.update(loss.item(), n)` can become
`losses.update(loss.detach().double(), n)`. Evaluations wait in the same way, and are treated alike.

Where the script may run on a device without float64, as `mps` is, the number is read there as before:
`loss.detach().double() if loss.is_cuda else loss.item()`. What steers the training, or is shown in every step,
has to be a number: it stays, and the reason is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import comes_often, runs_every_step
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._carriers import carried
from perfmod.transforms.syncs._fed import Fed, groups
from perfmod.transforms.syncs._host_reads import CannotRewrite, host_read
from perfmod.transforms.syncs._kept_terms import joined
from perfmod.transforms.syncs._moved_sums import Moved
from perfmod.transforms.syncs._needed_now import why_array, why_needed


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
    triggers = frozenset({"item", "float", "int", "numpy", "tolist"})
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
        """Every sum, list and meter that is fed from the device, and the reads that steer the training."""
        fed = Fed(file)
        for call in find_all(file.tree.module, cst.Call):
            read = host_read(file, call)
            if not comes_often(file, call):
                continue
            if read is None:
                reason = why_array(file, call)
                if reason is not None and fed.takes(call):
                    yield self.refused(file, call, reason)
                continue
            # What evaluations do with other figures costs them nothing that a training waits for.
            if not fed.add(read) and runs_every_step(file, call):
                reason = why_needed(file, read)
                if reason is not None:
                    yield self.refused(file, call, reason)
        moved: dict[cst.CSTNode, Moved] = {}
        for node, move in fed.moves():
            found = _unless_refused(move)
            if isinstance(found, Moved):
                moved[node] = found
            else:
                yield self.refused(file, node, found)
        for group in groups(moved):
            yield from self._together(file, {node: moved[node] for node in group})

    def _together(self, file: FileFacts, group: Mapping[cst.CSTNode, Moved]) -> Iterator[Finding]:
        """What shares variables, and is moved as one or not at all."""
        members = list(group.values())
        terms = [term for member in members for term in member.terms]
        try:
            carriers = carried(file, terms, are_stored=any(member.are_stored for member in members))
        except CannotRewrite as refusal:
            for node in group:
                yield self.refused(file, node, str(refusal))
            return
        left = {node: why for member in members for node, why in member.left}
        for node, why in left.items():
            yield self.refused(file, node, why)
        place = next(iter(group))
        if place in left:
            moving = [read.call for term in terms for read in term.reads]
            if not moving:
                return  # it is reported where they move
            place = moving[0]
        doubts = carriers.doubts + [doubt for member in members for doubt in member.doubts]
        reads = [read for member in members for read in member.reads]
        labels = " and ".join(dict.fromkeys(member.label for member in members))
        where = f"only read outside the step, on {file.lines(reads)}" if reads else "read nowhere"
        reason = f"{labels} {'is' if len(members) == 1 else 'are'} {where}"
        if doubts:
            reason = doubts[0] if len(members) == 1 else f"{doubts[0]}; {labels} go together"
        yield self.found(
            file,
            place,
            reason,
            joined([*carriers.edits, *(edit for member in members for edit in member.edits)]),
            safety=Safety.UNSAFE if doubts else None,
            imports=dict.fromkeys((*carriers.imports, *(name for member in members for name in member.imports))),
            elsewhere=[change for member in members for change in member.elsewhere],
        )


def _unless_refused(move: Callable[[], Moved]) -> Moved | str:
    """What a move writes, or why it cannot be made."""
    try:
        return move()
    except CannotRewrite as refusal:
        return str(refusal)
