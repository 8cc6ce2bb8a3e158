"""In what settings the sides are run to be compared more closely than by plain runs, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from perfmod.transforms.finding import Numerics
from perfmod.verify import judging
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.laboratory import Setting
from perfmod.verify.premises import DROPOUTS
from perfmod.verify.running import Ran

WIDER: Final = (Numerics.SAMPLING, Numerics.PRECISION, Numerics.BEHAVIOURAL)
"""Classes that are also judged without dropout, or are not judged at all."""
DOUBLE: Final = Setting(double=True)
DETERMINISTIC: Final = Setting(deterministic=True)
WITHOUT_DROPOUT: Final = Setting(dropout=False)
ALIKE: Final = Setting(alike=1)
OTHERWISE_ALIKE: Final = (Setting(alike=2), Setting(alike=3))
"""Tried where the sides do not correspond in the first way."""
DRAWN_ALIKE: Final = Setting(fills=True)
WITHOUT_DROPOUT_DRAWN_ALIKE: Final = Setting(dropout=False, fills=True)
ALIKE_AND_DRAWN_ALIKE: Final = Setting(alike=1, fills=True)
"""Tried where one side draws elsewhere what the other draws."""
IN_OWN_FORMATS: Final = {
    WITHOUT_DROPOUT: judging.WITHOUT_DROPOUT,
    DRAWN_ALIKE: judging.DRAWN_ALIKE,
    WITHOUT_DROPOUT_DRAWN_ALIKE: judging.WITHOUT_DROPOUT_DRAWN_ALIKE,
}
"""What closer conditions are called that leave number formats as they are."""


def closer(numerics: Numerics) -> tuple[Setting, ...]:
    """In what other settings a candidate of a class is compared with the original."""
    if numerics not in WIDER:
        return ()
    return (WITHOUT_DROPOUT,) if numerics is Numerics.BEHAVIOURAL else (WITHOUT_DROPOUT, ALIKE)


def closeness(numerics: Numerics) -> Numerics:
    """As which class a candidate is judged where both sides compute in their own formats."""
    return Numerics.PRECISION if numerics is Numerics.PRECISION else Numerics.ROUNDING


def drawn_alike(numerics: Numerics) -> Setting:
    """In what setting a candidate of a class is compared that draws elsewhere: to the bit, or up to rounding."""
    return DRAWN_ALIKE if numerics is Numerics.BEHAVIOURAL else ALIKE_AND_DRAWN_ALIKE


def is_written_otherwise(strict: Mapping[str, Equality], plain: Ran) -> bool:
    """Whether what one side drops by a function of torch, and the other by arithmetic, is the same in the end.

    Only what torch drops can be left out, so that the sides do not correspond without it; with the same random numbers
    they do.
    """
    alike, without = strict.get(judging.ALIKE), strict.get(judging.WITHOUT_DROPOUT)
    if alike is None or without is None or alike.verdict is not Verdict.PROVEN:
        return False
    doubt = next((check for check in without.checks if check.verdict is not Verdict.PROVEN), None)
    in_half = any(record["half"] for record in plain.records)
    return doubt is not None and doubt.name == DROPOUTS and not in_half


def lacks_same_draws(name: str, judged: Equality) -> bool:
    """Whether a condition leaves nothing but a distance in doubt, between sides that may have drawn otherwise."""
    if name not in (judging.WITHOUT_DROPOUT, judging.ALIKE) or judged.verdict is not Verdict.INCONCLUSIVE:
        return False
    doubts = (check for check in judged.checks if check.verdict is not Verdict.PROVEN)
    decisive = next((check for check in doubts if check.reason and check.reason in judged.reason), None)
    return decisive is not None and decisive.measured is not None and decisive.name != DROPOUTS
