"""How far two sides may lie apart, by the numerics class of what was rewritten.

`bitwise` wants equal bits where the original repeats its own, and otherwise what the original's runs differ by.
The other classes are measured against a control: the original with noise of one rounding unit on its inputs.
A floor comes on top, because the order of a single reduction may change by more than noise on the inputs does: noise
on many inputs averages away in the sum, the rounding of the sum itself does not.
"""

from __future__ import annotations

import math
from typing import Final

from attrs import evolve, frozen, mutable

from perfmod.transforms.finding import Numerics
from perfmod.verify.runs import Spread
from perfmod.verify.trace import Trace

EPSILON: Final = {
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}
"""Distance from 1.0 to the next number."""

_REORDERED: Final = 32.0
"""Rounding units by which the order of one long reduction may move its result, in float32 and float64."""
_PARTIAL: Final = 4.0
_IN_A_PART: Final = 1024.0
"""Kernels sum up a loss over a whole batch in parts of about a thousand elements, and then part by part (for images in
atomic additions). The second sum errs like a random walk: by `_PARTIAL` times the square root of the number of parts.
On an H200 the mean over two million pixels by `cross_entropy` was off by 55 units, in eight thousand parts.
"""
_HALF_FLOOR: Final = 2.0**-7
"""A unit of bfloat16 and eight of float16; products of half types are summed in float32, so few are enough."""
_EACH: Final = 10.0
"""Times its own noise that one tensor may move: the largest of a handful of draws, for each of hundreds of tensors."""
_KINK: Final = 2.0**-10
"""Relative difference that a single unit makes which lies within rounding of its kink (ReLU, max pooling, clipping)
and is switched over in one run and not in another. In small networks that is too rare for a few control runs to show.
"""
_COARSE: Final = 6.0
"""Times its noise that a whole quantity may move where half types come in: on an H100 the gradients of ten convolutions
of ten channels, in bfloat16 and channels_last, lay 4.3 times as far from the original's as those of the control did.
"""
_GROWN: Final = 2.0
"""Times the factors of the first step, for later ones: what grows exponentially varies more from run to run."""
_FEW_UNITS: Final = 1000.0
"""Times the floor beyond which even a script without a control cannot have drifted by rounding."""


@mutable
class Course:
    """What earlier comparisons showed about the runs, for the later ones, which inherit their differences.

    Attributes:
        exact: so far the original and its repeats had equal bits.
        stretch: how many times further than the control the sides already lay apart when nothing had been able to
            grow yet. Rounding grows alike from either start, so that later controls are stretched by as much.
        turned: relative difference of the gradients of step 1, in any of the runs. An optimizer that divides a
            gradient by its size turns over whole updates where an element lies that close to zero.
        rounding: parameters whose gradients are nothing but rounding, as of a bias in front of a batch norm.
        same_start: the first step gave equal bits, of an original that repeats its own. Rounding that differs would
            have shown then: no kink lets a difference pass that comes later, though it leaves room for doubt.
    """

    exact: bool = True
    stretch: float = 1.0
    turned: float = 0.0
    rounding: frozenset[str] = frozenset()
    same_start: bool = False


@frozen
class Tolerance:
    """The limits of one judgement.

    Attributes:
        bitwise: equal bits are wanted, and only the original's own repeats excuse a difference.
        factor: times the noise that a whole quantity may move.
        each: times its own noise that one tensor of it may move.
        floor: relative to a quantity's size, by which it may always move.
        floor_of_sums: the same for a loss, which is summed up over all elements of a batch.
        kink: relative, by which a whole quantity may move where one unit is switched over.
        half: half types take part.
        coarse: only the rewritten side computes in half types. How far these move one tensor, whose terms may nearly
            cancel in one step and not in the next, no control run foretells; that it was computed from the same
            values is shown where both sides compute in float32.
        blind: no control says how this script spreads rounding.
    """

    bitwise: bool
    factor: float
    floor: float
    floor_of_sums: float
    each: float = _EACH
    kink: float = _KINK
    half: bool = False
    coarse: bool = False
    blind: bool = False

    @property
    def beyond_rounding(self) -> float:
        """Relative difference that rounding alone never made, control or not."""
        return _FEW_UNITS * self.floor

    def grown(self) -> Tolerance:
        """For what several steps led to."""
        return evolve(self, factor=_GROWN * self.factor, each=_GROWN * self.each)

    def base(self, spread: Spread) -> float:
        """The distance of the original from itself that counts for this class."""
        return spread.noise if self.bitwise else max(spread.noise, spread.control)


def tolerance_for(numerics: Numerics, original: Trace, rewritten: Trace, *, blind: bool) -> Tolerance:
    """The limits for a class, with floors for the narrowest type that takes part in the step.

    Only a class that brings another precision in may widen the floor by what the rewritten side uses.
    """
    wider = numerics in (Numerics.PRECISION, Numerics.BEHAVIOURAL)
    coarse = wider and rewritten.half and not original.half
    half = original.half or coarse
    parameters = original.snapshot("parameters", 0)
    double = bool(parameters) and all(digest.dtype in ("float64", "complex128") for digest in parameters.values())
    epsilon = EPSILON["float64" if double else "float32"]
    floor = _HALF_FLOOR if half else _REORDERED * epsilon
    return Tolerance(
        bitwise=numerics is Numerics.BITWISE,
        factor=_COARSE if coarse else 3.0 if wider or half else 2.0,
        floor=floor,
        floor_of_sums=max(floor, _PARTIAL * math.sqrt(_elements(original) / _IN_A_PART) * epsilon),
        half=half,
        coarse=coarse,
        blind=blind,
    )


def _elements(trace: Trace) -> int:
    """Of the largest tensor in a batch; what a loss may be summed up over."""
    leaves = [leaf for batch in trace.batches() for leaf in batch.leaves]
    leaves += [leaf for forward in trace.forwards() for leaf in forward.leaves]
    return max((math.prod(leaf.shape) for leaf in leaves), default=1)
