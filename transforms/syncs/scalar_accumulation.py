"""Losses and counts that are read from the device in every step, only to be summed.

`running_loss += loss.item()` asks for a number that the device has not computed yet: the CPU stops, waits until the
queue of kernels is empty, and only then queues the next step. The number is needed much later, where the mean of an
epoch is printed. So the sum stays on the device, and one line after the loop makes it a number again:

    running_loss = 0.0                              running_loss = 0.0
    for x, y in loader:                             for x, y in loader:
        ...                                             ...
        running_loss += loss.item()                     running_loss += loss.detach()
    print(running_loss / len(loader))               running_loss = float(running_loss)
                                                    print(running_loss / len(loader))

A float that is only printed, logged or plotted is added in its own type, and may differ by a rounding of float32; where
the project uses half precision outside of autocast, `loss.detach().float()` adds it in float32. Where anything else
gets the sum, such as `if loss < best`, a scheduler or code that perfmod cannot see, `loss.detach().double()` adds it in
64 bits as Python does, and it is the same number; so it is where the sum is subtracted, as for a variance, or truncated
by `int`: there a rounding would show in more than the last digit. Counts stay integers, and become `int(correct)` after
the loop. A sum that the loop shows now and then is read there, `float(running_loss) / 100`.

Losses that every round appends to a list become numbers after the loop, `losses = torch.stack(losses).tolist()`. A list
stays where not every round appends to it, or where it holds numbers too by then, because the next epoch goes on with
it. What may be written to later, such as a buffer that a module returns, is appended as `rate.detach().clone()`. A
meter such as `AverageMeter` is given the tensor, and its class stays as it is, if it only adds and divides and its
values are formatted; where a number is needed, `float(losses.avg)` reads it. A norm that a loop adds up parameter by
parameter, `total_norm += p.grad.norm().item() ** 2`, waits once behind that loop. Evaluations wait in the same way,
and are treated alike.

A value that controls the training, or is reported in every step, has to be a number: it stays, with the reason.
Rewrites that save nothing because the step waits anyway are of low impact. With `target = "portable"`, those that need
float64, which devices such as `mps` do not have, are open questions.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._gain import no_gain_of
from perfmod.transforms.syncs._moves import Move, Moves, joined
from perfmod.transforms.syncs._terms import Doubt


class ScalarAccumulation(Rule):
    """Moves sums and lists of scalars to the device."""

    code = "PM106"
    name = "scalar-accumulation"
    family = Family.SYNCS
    summary = "A scalar is read from the device in every step, only to be summed or collected"
    fix_title = "Accumulate on the device and read the result once"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.STABLE
    triggers = frozenset({"item", "float", "int", "numpy", "tolist"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "The training stays bitwise the same, and so do counts, lists, and sums that anything but a print, log or plot "
        "gets. A sum or a meter that is only shown may differ by a rounding of float32, and the finding says so; a "
        "division by zero gives inf or nan there instead of ZeroDivisionError. A loop over a loader makes at least one "
        "round; an empty loader may fail in another line than before, such as in `torch.stack`. An error that the "
        "device reports late (a failed assertion in a kernel) shows up at the line that reads the sum. Where a script "
        "splits its time without `torch.cuda.synchronize()`, such as into loading and computing, the wait counts where "
        "the sum is read."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every sum, list and meter that is fed from the device."""
        found = Moves.of(file)
        for node, reason in found.refused.items():
            yield self.refused(file, node, reason)
        no_gain = {move: no_gain_of(file, move) for move in found.moves if move.labels}
        for why in dict.fromkeys(no_gain.values()):
            for move in joined(file, [move for move, each in no_gain.items() if each == why]):
                yield self._moved(file, move, why)

    def _moved(self, file: FileFacts, move: Move, no_gain: str | None) -> Finding:
        are = "is" if len(move.labels) == 1 else "are"
        labels = " and ".join(filter(None, (", ".join(move.labels[:-1]), move.labels[-1])))
        where = f"only needed as a number on {file.lines(move.uses)}, not" if move.uses else "not needed as a number"
        reason = f"{labels} {are} {where} in every step"
        # Where something else is open too, the answers do not settle it.
        asked = [doubt.question for doubt in move.doubts if isinstance(doubt, Doubt)]
        asked = asked if len(asked) == len(move.doubts) else []
        is_open = bool(move.doubts) and not file.policy.answers(asked)
        safety = Safety.UNSAFE if is_open else Safety.LOW_IMPACT if no_gain is not None else None
        return self.found(
            file,
            move.node,
            "; ".join([*move.doubts[:1], *([no_gain] if no_gain is not None else [])]) or reason,
            move.edits,
            safety=safety,
            figures_may_differ=move.figures_may_differ,
            questions=asked,
        )
