"""Comparing all tensors of one kind: gradients, movements of parameters, buffers, states of an optimizer."""

from __future__ import annotations

import math
import statistics
from typing import Final

from attrs import evolve, frozen

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.gaps import Gap
from perfmod.verify.runs import Runs, Spread
from perfmod.verify.tolerances import Course, Tolerance
from perfmod.verify.vectors import Vector, Vectors, distance, equal, fill, norm, shown

_ROUNDING: Final = 0.25
"""Share of a tensor from which on, where the original moves it by as much, it is nothing but rounding."""
_SURE: Final = 0.6
"""Share of anything else that a difference may never reach: a detached branch differs by all of it, and the sketch of
a large tensor measures that to within a fifth.
"""
_NEARLY_SURE: Final = 0.95
"""The same where more may happen: for updates that may be turned over, and for what several steps led to."""
_NEAR_ZERO: Final = 4.0
"""How much denser elements of a gradient lie around zero than the relative difference of all of them tells."""
_LATER: Final = 8.0
"""Times the difference that a kink makes to one step which it may have grown to in a few."""
_OF_ONE_TENSOR: Final = 10.0
"""Times the difference that a kink makes to all tensors which it may make to one."""
_OUTSTANDING: Final = 16.0
"""Times the usual noise, each relative to its tensor, from which on an update stands out: the bias of keys in an
attention gets gradients that are nothing but rounding, and may be a part of a larger tensor.
"""
_SMALL_PART: Final = 0.25
"""Of all updates, as a share of their squared norm, that such tensors may make up."""
_FEW_SUMS: Final = 16
"""Elements of a tensor that is small enough for all of them to be small by chance."""
_LUCK: Final = 2.0
"""Elements that may be turned over in a tensor where fewer were to be expected."""


@frozen
class Kind:
    """What is compared.

    Attributes:
        alike: the tensors have one unit, so that they can be judged as a whole, too.
        normalised: they are movements that an optimizer made independent of the gradient's size.
        settled: averages over many steps stand behind such movements, so that few elements are ever turned over.
        bends: a unit that is switched over at its kink, as of a ReLU, makes them jump; a loss only bends there.
        late: more than one step led to them.
    """

    name: str
    alike: bool = True
    normalised: bool = False
    settled: bool = False
    bends: bool = True
    late: bool = False

    @property
    def sure(self) -> float:
        """Share of what is more than rounding that a difference may never reach."""
        return _NEARLY_SURE if self.normalised or self.late else _SURE

    def jump(self, kink: float) -> float:
        """What a relative difference that a kink makes to one step may have become."""
        return _LATER * kink if self.late else kink

    def family(self, key: str) -> str:
        """Tensors of one family have one unit: states or buffers of one name."""
        if self.alike:
            return ""
        return key.rpartition("/")[2] if "/" in key else key.rpartition(".")[2]


def compare_tensors(kind: Kind, runs: Runs[Vectors], tolerance: Tolerance, course: Course) -> list[Check]:
    """Rows of evidence: one where bits decide, else one for the whole and one for the tensor that is furthest off.

    Nothing is said where neither side has such tensors. A tensor that one side lacks counts as zero.
    """
    every = {**runs.rewritten, **runs.original}
    if not every:
        return []
    runs = runs.map(lambda vectors: fill(vectors, every))
    broken = _patterns(kind, runs)
    if broken is not None:
        return [broken]
    course.exact = course.exact and runs.repeatable(equal)
    if tolerance.bitwise and course.exact:
        return [_compare_bits(kind, runs, course)]
    sizes = _element_sizes(kind, runs.original)
    gaps = [_one(kind, key, runs, tolerance, course, sizes[kind.family(key)]) for key in every]
    worst = max(gaps, key=lambda gap: gap.excess)
    off = sum(gap.excess > 1.0 for gap in gaps)
    if not kind.late and all(gap.excess > 1.0 for gap in gaps if not _is_rounding(gap.place, course)):
        # What a unit changes at its kink never reaches the layers behind it, in the same step.
        kind, worst = evolve(kind, bends=False), evolve(worst, unclear=0.0)
    if not kind.alike:
        return [worst.check(kind.name, tolerance, _differ(kind, worst, off))]
    whole = _whole(kind, runs, tolerance, course)
    reason = f"{kind.name} differ by {whole.shown} overall, most in {shown(worst.place)}"
    return [
        whole.check(kind.name, tolerance, _differ(kind, worst, off) if off else reason),
        worst.check(f"{kind.name}, tensor by tensor", tolerance, _differ(kind, worst, off)),
    ]


def _compare_bits(kind: Kind, runs: Runs[Vectors], course: Course) -> Check:
    spread = runs.measure(distance)
    scale = norm(runs.original) or 1.0
    differing = [key for key, vector in runs.original.items() if not vector.equals(runs.rewritten[key])]
    gaps = [Gap(key, _spread(runs, key), 0.0, runs.original[key].norm) for key in differing]
    worst = max(
        gaps,
        key=lambda gap: (not _is_rounding(gap.place, course), gap.spread.measured / gap.scale),
        default=None,
    )
    return Check(
        name=kind.name,
        verdict=Verdict.PROVEN if worst is None else Verdict.REFUTED,
        measured=spread.measured / scale,
        allowed=0.0,
        noise=spread.noise / scale,
        control=spread.control / scale,
        reason="equal bits" if worst is None else _differ(kind, worst, len(gaps)),
    )


def nothing_but_rounding(runs: Runs[Vectors]) -> frozenset[str]:
    """The tensors that the original's own runs do not agree on at all."""
    spreads = {key: _spread(runs, key) for key in runs.original}
    return frozenset(
        key
        for key, spread in spreads.items()
        if max(spread.noise, spread.control) >= _ROUNDING * runs.original[key].norm > 0.0
    )


def _one(kind: Kind, key: str, runs: Runs[Vectors], tolerance: Tolerance, course: Course, typical: float) -> Gap[str]:
    """One tensor; `typical` is the size of an element of its family."""
    original = runs.original[key]
    spread = _spread(runs, key)
    base = tolerance.base(spread)
    # Where terms as large as its neighbours cancel, they leave their rounding units behind.
    left = tolerance.floor * typical * math.sqrt(original.size)
    moved = base + original.grain + (left if tolerance.blind else 0.0)
    if _is_rounding(key, course) or moved >= _ROUNDING * original.norm:
        allowed = tolerance.each * course.stretch * max(base, original.norm) + original.grain + left
        return Gap(key, spread, allowed, original.norm)
    allowed = tolerance.each * course.stretch * base + tolerance.floor * original.norm + original.grain
    # In a sum over a whole batch, as in the gradient of a bias, terms may nearly cancel.
    allowed += left if original.size <= _FEW_SUMS else 0.0
    turned = _turned_over(course, original.size) * original.norm if kind.normalised else 0.0
    allowed += 0.0 if kind.settled else turned
    # A counter of steps is one number that noise never moves, and has no kinks either.
    is_counter = original.size == 1 and not base and float(original.sketch[0]).is_integer()
    bends = kind.bends and not is_counter
    kink = kind.jump(_OF_ONE_TENSOR * tolerance.kink) * original.norm if bends else 0.0
    allowed = max(allowed, kink) if kind.late and not course.same_start else allowed
    allowed = max(allowed, kind.sure * original.norm) if tolerance.coarse else allowed
    unclear = max(kink, allowed + turned if turned and kind.settled else 0.0)
    return Gap(key, spread, min(allowed, kind.sure * original.norm), original.norm, unclear=unclear)


def _whole(kind: Kind, runs: Runs[Vectors], tolerance: Tolerance, course: Course) -> Gap[str]:
    meant: Vectors = {key: vector for key, vector in runs.original.items() if not _is_rounding(key, course)}
    if kind.normalised and not tolerance.bitwise:
        meant = _without_outstanding(meant, runs, tolerance)
    scale = norm(meant or runs.original)
    runs = runs.map(lambda vectors: {key: vectors[key] for key in meant or runs.original})
    spread = runs.measure(distance)
    grain = math.hypot(*(vector.grain for vector in runs.original.values()))
    allowed = tolerance.factor * course.stretch * tolerance.base(spread) + tolerance.floor * scale + grain
    size = sum(vector.size for vector in runs.original.values())
    turned = _turned_over(course, size) * scale if kind.normalised else 0.0
    allowed += 0.0 if kind.settled else turned
    kink = kind.jump(tolerance.kink) * scale if kind.bends else 0.0
    allowed = max(allowed, kink) if kind.late and not course.same_start else allowed
    if tolerance.base(spread) + grain < _ROUNDING * scale:
        allowed = min(allowed, kind.sure * scale)
    unclear = max(kink, allowed + turned if turned and kind.settled else 0.0)
    return Gap("", spread, allowed, scale, unclear=unclear)


def _without_outstanding(meant: Vectors, runs: Runs[Vectors], tolerance: Tolerance) -> Vectors:
    """Without the few whose noise is far above that of the others, which it would hide: they are judged one by one."""
    noise = {key: tolerance.base(_spread(runs, key)) / (vector.norm or 1.0) for key, vector in meant.items()}
    usual = max(statistics.median(noise.values()), tolerance.floor) if noise else 0.0
    rest = {key: vector for key, vector in meant.items() if noise[key] <= _OUTSTANDING * usual}
    return rest if norm(rest) ** 2 >= (1.0 - _SMALL_PART) * norm(meant) ** 2 else meant


def _element_sizes(kind: Kind, vectors: Vectors) -> dict[str, float]:
    """Root mean square of the elements, by family."""
    families: dict[str, list[Vector]] = {}
    for key, vector in vectors.items():
        families.setdefault(kind.family(key), []).append(vector)
    return {
        family: math.hypot(*(one.norm for one in members)) / math.sqrt(sum(one.size for one in members) or 1)
        for family, members in families.items()
    }


def _is_rounding(key: str, course: Course) -> bool:
    return key.partition("/")[0] in course.rounding


def _turned_over(course: Course, size: int) -> float:
    """The part of an update that may be turned over, as its share of the norm. With a relative difference d of the
    gradients, about a share d of the elements changes sign, and each is then off by twice its size.
    """
    if not course.turned or not size:
        return 0.0
    return 2.0 * math.sqrt(_NEAR_ZERO * course.turned + _LUCK / size)


def _spread(runs: Runs[Vectors], key: str) -> Spread:
    return runs.map(lambda vectors: vectors[key]).measure(Vector.distance)


def _differ(kind: Kind, worst: Gap[str], count: int) -> str:
    more = f" and {count - 1} more" if count > 1 else ""
    return f"{kind.name} differ: {shown(worst.place)} by {worst.shown}{more}"


def _patterns(kind: Kind, runs: Runs[Vectors]) -> Check | None:
    """What is wrong with the places of NaN and infinities, if anything is."""
    for key, old in runs.original.items():
        new = runs.rewritten[key]
        if any(vectors[key].pattern != old.pattern for vectors in runs.repeats):
            reason = f"{kind.name}: {shown(key)} of the original has other NaN or infinities in every run"
            return Check(kind.name, Verdict.INCONCLUSIVE, reason=reason)
        if new.pattern != old.pattern:
            reason = f"{kind.name}: {shown(key)} has {_count(new)}, and {_count(old)} in the original"
            return Check(kind.name, Verdict.REFUTED, reason=reason)
    return None


def _count(vector: Vector) -> str:
    return f"{vector.nan} NaN and {vector.inf} infinite values"
