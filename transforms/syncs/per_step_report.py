"""Scalars that are read from the device in every step, only for a report.

A value that is reported now and then need not be read in every step:

    d_x = output.mean().item()                      d_x = output.mean().detach()
    ...                                             ...
    if i % 50 == 0:                                 if i % 50 == 0:
        print(f"{i}: {d_x:.4f}")                        print(f"{i}: {d_x.item():.4f}")

The tensor is kept, detached, and read where it is reported: the value is the same, and the CPU waits once in fifty
steps. A report in every step waits in every step, but once is enough: what is read earlier in the step, before more
work is queued, is read where the report reads other values. Reporting only now and then, with `if step % 50 == 0:`,
gains more than anything else here, and is your decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import is_late
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._gain import no_gain_of
from perfmod.transforms.syncs._moves import Moves


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
    triggers = frozenset({"item", "float", "format", "print", "log", "add_scalar", "set_postfix", "set_description"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "The values are the same, read later; one that is now computed on the device, such as `100 * acc`, and only "
        "shown may differ by a rounding of float32, and the finding says so. A loop over a loader makes at least one "
        "round; an empty loader may fail in another line than before. An error that the device reports late (a failed "
        "assertion in a kernel) shows up at the line that reads the value."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Variables that are only used now and then."""
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
