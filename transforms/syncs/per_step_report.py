"""Scalars that are read from the device in every step, only for a report.

A value that is reported now and then need not be read in every step:

    d_x = output.mean().item()                      d_x = output.mean().detach()
    ...                                             ...
    if i % 50 == 0:                                 if i % 50 == 0:
        print(f"{i}: {d_x:.4f}")                        print(f"{i}: {d_x.item():.4f}")

The tensor is kept, detached, and read where it is reported: the value is the same, and the CPU waits once in fifty
steps. A report in every step waits in every step, but once is enough: what is read earlier in the step, before more
work is queued, is read where the report reads other values.

Reporting only now and then gains more than anything else here, and is your decision. A project that sets
`report-every = 10` has it written, where PM107 is selected by its code:

    for x, y in loader:                             for step, (x, y) in enumerate(loader):
        ...                                             ...
        bar.set_postfix(loss=loss.item())               if step % 10 == 0:
                                                            bar.set_postfix(loss=loss.item())

The step is the loop's own where it has one, by `enumerate`, `range` or a line `step += 1`, and `enumerate` is added
where it has none. Lines that only make what is shown, such as `loss_value = loss.item()` above the report, go under the
`if` as well. The first step of an epoch is reported, and the last one only where it is a tenth, as with any
`step % 10`: a figure for the whole epoch belongs behind the loop. What has an interval keeps it, a smaller one, too.
Sums and lists that the step feeds stay in every step (PM106 keeps them on the device once nothing shows them in each).
A report stays, with the reason, if its number decides something in every step, such as when to stop; if it is written
to a file of its own; or if code of the project takes it that counts or keeps what it is given. A logger that numbers
its entries, as `wandb.log` does without `step=`, then numbers the reports.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import is_late
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._gain import no_gain_of
from perfmod.transforms.syncs._intervals import intervals
from perfmod.transforms.syncs._moves import Moves

_EVERY_STEP = "Figures of the device are reported in every step"


class PerStepReport(Rule):
    """PM107."""

    code = "PM107"
    name = "per-step-report"
    family = Family.SYNCS
    summary = "A scalar is read from the device in every step, only to be reported"
    fix_title = "Read it where it is reported"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset(
        {"item", "float", "format", "print", "log", "add_scalar", "set_postfix", "set_description", "info", "debug"}
    )
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "The values are the same, read later; one that is now computed on the device, such as `100 * acc`, and only "
        "shown may differ by a rounding of float32, and the finding says so. A loop over a loader makes at least one "
        "round; an empty loader may fail in another line than before. An error that the device reports late (a failed "
        "assertion in a kernel) shows up at the line that reads the value. Under `report-every` fewer steps are shown "
        "and logged, a script that times single steps no longer waits in each, and the training is the same."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Variables that are only used now and then, and reports that should be."""
        every = file.policy.report_every
        for each in intervals(file, every) if every is not None and every > 1 else ():
            if not each.edits:
                yield self.refused(file, each.node, each.reason, message=_EVERY_STEP)
                continue
            yield self.found(
                file,
                each.node,
                each.reason,
                each.edits,
                message=_EVERY_STEP,
                safety=Safety.OPT_IN,
                numerics=Numerics.BEHAVIOURAL,
            )
        for move in Moves.of(file).moves:
            if not move.labels:
                no_gain = no_gain_of(file, move)
                where = file.lines(move.uses)
                reason = f"the value is only used on {where}, not in every step"
                if not all(is_late(file, use, move.node) for use in move.uses):
                    reason = f"other values are read on {where} as well: one wait instead of several"
                yield self.found(
                    file,
                    move.node,
                    next(iter(move.doubts), no_gain or reason),
                    move.edits,
                    safety=Safety.UNSAFE if move.doubts else Safety.LOW_IMPACT if no_gain is not None else None,
                    figures_may_differ=move.figures_may_differ,
                )
