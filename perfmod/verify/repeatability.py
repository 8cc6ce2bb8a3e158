"""Whether an original repeats its bits, and which of its operations need not.

A kernel whose threads add up in any order may give the same bits in many runs, and others in the next: before a
rounding refutes what has to be equal bit by bit, the original is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import evolve

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.judging import Controls, judge_ranks
from perfmod.verify.running import Ran

_ROUNDING: Final = 1e-2
"""Relative difference that what began as a rounding may have grown to in a few steps."""
_NAMED: Final = 3
"""Operations that a reason names."""


def may_be_chance(judged: Equality) -> bool:
    """Whether no more than a difference like a rounding's refutes, where equal bits were wanted."""
    decisive = next((check for check in judged.checks if check.verdict is Verdict.REFUTED), None)
    if judged.verdict is not Verdict.REFUTED or decisive is None or decisive.noise is None:
        return False
    return decisive.allowed == 0.0 and decisive.measured is not None and decisive.measured <= _ROUNDING


def repeats_itself(runs: Sequence[Ran]) -> bool:
    """Whether all runs of an original gave the bits of the first."""
    first, *others = runs
    return all(_same(first, other) for other in others)


def weigh_chance(judged: Equality, runs: Sequence[Ran], deterministic: Ran) -> Equality:
    """A judgement with what further runs of the original showed.

    Args:
        judged: with all of them as controls.
        runs: of the original, as it is.
        deterministic: its run under torch's deterministic mode.
    """
    named = list(dict.fromkeys(name for record in deterministic.records for name in record.get("unrepeatable", ())))
    listed = ", ".join(f"`{name}`" for name in named[:_NAMED]) + (" and others" if len(named) > _NAMED else "")
    if not repeats_itself(runs):
        because = f" because of {listed}" if named else ""
        return evolve(judged, reason=f"{judged.reason}; the original does not repeat its own bits{because}")
    if not may_be_chance(judged):
        return judged
    if not named and _same(runs[0], deterministic):
        again = f"the original gave the same bits in {len(runs)} runs, and under torch's deterministic mode"
        return evolve(judged, reason=f"{judged.reason}; {again}")
    doubt = f"{listed} need not repeat their bits" if named else "it uses operations that need not repeat their bits"
    return evolve(
        judged,
        verdict=Verdict.INCONCLUSIVE,
        reason=f"{judged.reason}; that may be chance: the original gave the same bits in {len(runs)} runs, but {doubt}",
    )


def _same(one: Ran, other: Ran) -> bool:
    if one.trouble is not None or other.trouble is not None:
        return False
    ranks = one.traces
    judged = judge_ranks(ranks, other.traces, [Controls()] * len(ranks), Numerics.BITWISE)
    return judged.verdict is not Verdict.REFUTED
