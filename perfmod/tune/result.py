"""The record of a search: `tune.json`. Everything that is printed or drawn is made from it."""

from __future__ import annotations

from attrs import field, frozen

from perfmod.profile.breakdown import Breakdown

SCHEMA_VERSION = 1


@frozen
class Row:
    """A stack that was tried.

    Attributes:
        at_hand: whether batches were at hand, so that the loader took no time.
        ms, original_ms: of a step, and of the original's beside it; None where there is no time.
        ratio: between them; 0.0 without a time.
        compile_seconds: spent with compiling. peak_mib: of the GPU's memory, at most.
        reason: why there is no time.
    """

    stack: str
    at_hand: bool
    ms: float | None
    original_ms: float | None
    ratio: float
    compile_seconds: float
    peak_mib: float | None
    reason: str


@frozen
class Offer:
    """The fastest stack of a class, and what became of it when its training was compared with the original's.

    Attributes:
        numerics: the class: how far results may lie apart. means: that in words.
        stack: its rules; empty where nothing in the class is faster.
        verdict, reason: of the verification; empty where there was none.
        tried: whether the budget lasted for the class: without a stack, nothing in it is faster only then.
        ratio, low, high: how many times as fast, with its 95 % interval; without one it is the trials'. None where
            that was not measured.
        break_even_step: after so many steps a longer start is earned back; None where it is no longer.
        diff: against the script as it is.
    """

    numerics: str
    means: str
    stack: str
    verdict: str = ""
    reason: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    ms: float | None = None
    original_ms: float | None = None
    peak_mib: float | None = None
    original_peak_mib: float | None = None
    break_even_step: int | None = None
    diff: str = ""
    tried: bool = True

    @property
    def named(self) -> str:
        """The stack, or that there is none."""
        return self.stack or ("nothing faster" if self.tried else "nothing faster so far: not everything was tried")


@frozen
class Batch:
    """Batches of another size, at hand: what they would bring.

    Attributes:
        size: samples of a batch.
        ms: of a step; None where there is no time. per_second: samples.
        peak_mib: of the GPU's memory, at most.
        reason: why there is no time.
    """

    size: int
    ms: float | None = None
    per_second: float = 0.0
    peak_mib: float | None = None
    reason: str = ""


@frozen
class Tuning:
    """A whole search.

    Attributes:
        best: the class of the fastest stack that is proven; empty where nothing is.
        seconds: that it took, of `budget_seconds`; with what an earlier call had found where `resumed`.
        batches: of other sizes, under the best stack. advice: what a person has to decide, as it changes the training.
        complete: whether nothing was left out for want of time, or because somebody interrupted it.
    """

    command: str
    script: str
    profile: Breakdown
    offers: tuple[Offer, ...]
    rows: tuple[Row, ...]
    best: str
    seconds: float
    budget_seconds: float
    resumed: bool
    complete: bool
    interrupted: bool
    perfmod: str
    torch: str
    gpu: str
    driver: str
    notes: tuple[str, ...] = ()
    batches: tuple[Batch, ...] = ()
    advice: tuple[str, ...] = ()
    schema: int = field(default=SCHEMA_VERSION)

    @property
    def chosen(self) -> Offer | None:
        """The fastest stack that is proven."""
        return next((offer for offer in self.offers if offer.numerics == self.best), None)
