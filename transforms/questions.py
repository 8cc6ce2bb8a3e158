"""What rules ask about code: the predicates of all open questions, in one place.

A rule asks one of these (`perfmod.transforms.rule.question`); a project may answer it once and for all, with `assume`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Predicate(str, enum.Enum):
    """What is asked, as configurations and JSON call it, and what the answer yes means."""

    def __new__(cls, value: str, _meaning: str) -> Predicate:  # noqa: PYI034, Python 3.10 has no `Self`
        """A string as any other."""
        member = str.__new__(cls, value)
        member._value_ = value
        return member

    def __init__(self, _value: str, meaning: str) -> None:
        self.meaning = meaning

    IS_TENSOR = "is-tensor", "what a model is given or gives is one tensor, and no dictionary or list of them"
    IS_SCALAR = "is-scalar", "a tensor that is summed up or shown as a number has no dimensions"
    LEAVES_ARGUMENTS = (
        "leaves-its-arguments-alone",
        "functions whose code perfmod cannot see neither modify nor keep the tensors that they are given",
    )
    MAY_HAVE_WORKERS = (
        "may-have-workers",
        "loaders may have workers, also where datasets are out of sight or random, or where workers were switched off",
    )
    MAY_SHOW_WORKERS = "may-show-workers", "a printout of all settings may show another number of workers"
    HAS_CPUS_OF_ITS_OWN = (
        "has-cpus-of-its-own",
        "each process of a distributed training has enough processors for workers of its own",
    )
    FORKS_WORKERS = (
        "forks-workers",
        "workers may be started by fork: the code runs on Linux, and a start method that it sets allows that",
    )
    MASKS_NO_ROW = "masks-no-row", "an attention mask hides some positions of a row, and never all of them"
    IS_POSITIVE = "is-positive", "the number of workers that a setting gives is never 0"
    COMPILES_WHOLE = (
        "compiles-whole",
        "models gain from being compiled, also where the graph is split or unseen",
    )
    FITS_ON_THE_DEVICE = (
        "fits-on-the-device",
        "the tensors of a data set fit into the memory of the device, beside the training",
    )
    NORMALISES_BY_PART = (
        "normalises-by-part",
        "batch normalisation may use the statistics of every N-th sample of a batch, and no longer those of neighbours",
    )
    COMPARES_LIKE_SHAPES = (
        "compares-like-shapes",
        "losses and comparisons get the same shape on both sides, so that no sample of a batch meets all others",
    )


SHOWN_BY_RUNNING: Final = frozenset({Predicate.COMPILES_WHOLE.value, Predicate.FITS_ON_THE_DEVICE.value})
"""What the rewritten script shows when it runs: with the answer no it would fail, or gain nothing."""
WATCHED: Final[Mapping[str, str]] = {
    "is-tensor": "is a tensor",
    "is-scalar": "is a tensor without dimensions",
    "is-on-device": "is on the GPU",
    "same-shape": "have the same shape",
    "same-dtype": "have the same type",
    "does-not-alias": "share no memory",
}
"""What a run can answer, in words behind an expression; `watching` of verify's harness answers it."""


def in_words(predicate: str) -> str:
    """What is asked of an expression, as words that follow it."""
    return WATCHED.get(predicate) or predicate.replace("-", " ").replace("cpus", "CPUs")
