"""Comparing what trainings leave behind: checkpoints, and the figures that they print.

A text says little about how much it may differ, and may tell the time: what is printed refutes nothing, but what
differs from all that the original prints is not proven either.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from attrs import define, field

from perfmod.verify.evidence import Check, Verdict
from perfmod.verify.runs import Runs
from perfmod.verify.tensor_checks import Kind, compare_tensors
from perfmod.verify.tolerances import Course, Tolerance
from perfmod.verify.trace import Leaf, Saved, Sketch, Trace
from perfmod.verify.vectors import Vector, Vectors

CHECKPOINTS: Final = "checkpoints"
PRINTED: Final = "printed figures"
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|(?<![\d.])\.\d+)(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b")
_OF_TIME: Final = re.compile(
    r"\b(?:time|secs?|seconds?|mins?|minutes?|hours?|ms|eta|elapsed|took|speed|fps|throughput|memory|mem|[kmg]i?b)\b"
    r"|_(?:time|dt|secs?|seconds?|ms)\b|\d ?(?:ms|secs?|seconds?|mins?|minutes?|hours?|[kmg]i?b)\b"
    r"|\d+:\d\d|\d ?s\b|/ ?s(?:ec)?\b|it/s",
    re.IGNORECASE,
)
"""Lines that tell how long something took, how fast it was, or how much memory it needed."""
_SHOWN: Final = 1e-3
"""Relative difference of a printed figure to which rounding may have grown in some steps."""
_TIMES_NOISE: Final = 2.0
_EXACT: Final = frozenset({"int", "bool", "str"})
_LONGEST: Final = 60


def compare_checkpoints(runs: Runs[Trace], tolerance: Tolerance, course: Course) -> list[Check]:
    """The rows of what `torch.save` got; none where neither side saves anything."""
    saved = runs.map(lambda trace: tuple(event for event in trace.events if isinstance(event, Saved)))
    if not saved.original and not saved.rewritten:
        return []
    if any(_kinds(each) != _kinds(saved.original) for each in saved.repeats):
        return []
    if _kinds(saved.rewritten) != _kinds(saved.original):
        reason = "something else is saved, or at other steps, than in the original"
        return [Check(CHECKPOINTS, Verdict.INCONCLUSIVE, reason=reason)]
    other = _other_number(saved)
    if other is not None:
        return [Check(CHECKPOINTS, Verdict.REFUTED, reason=other)]
    like = [each for each in saved.perturbed if _kinds(each) == _kinds(saved.original)]
    vectors = Runs(saved.original, saved.rewritten, saved.repeats, tuple(like)).map(_vectors)
    return compare_tensors(Kind(CHECKPOINTS, alike=False, late=True), vectors, tolerance.grown(), course)


def _kinds(saved: Sequence[Saved]) -> object:
    # Options that choose a kernel are saved as well, and may be None.
    return [(each.step, [(leaf.shape, leaf.dtype) for leaf, _ in _tensors(each)]) for each in saved]


def _tensors(saved: Saved) -> list[tuple[Leaf, Sketch]]:
    return [(leaf, leaf.sketch) for leaf in saved.leaves if leaf.sketch is not None]


def _other_number(saved: Runs[tuple[Saved, ...]]) -> str | None:
    """What is wrong with the whole numbers and texts that are saved, which do not round."""

    def exact(events: Sequence[Saved]) -> list[str]:
        return [leaf.bits for each in events for leaf in each.leaves if leaf.dtype in _EXACT]

    own, other = [exact(saved.original), *map(exact, saved.repeats)], exact(saved.rewritten)
    if any(len(each) != len(other) for each in own):
        return None
    for place, (old, new) in enumerate(zip(own[0], other, strict=True)):
        if old != new and all(each[place] == old for each in own):
            return "another whole number or text is saved than in the original"
    return None


def _vectors(saved: Sequence[Saved]) -> Vectors:
    return {
        f"save {number}.{place}": Vector((leaf.bits,), sketch, math.hypot(*sketch), math.prod(leaf.shape))
        for number, each in enumerate(saved, start=1)
        for place, (leaf, sketch) in enumerate(_tensors(each))
    }


def compare_printed(runs: Runs[Trace]) -> list[Check]:
    """The row of what was printed; none where nothing was that could be compared."""
    texts = runs.map(lambda trace: trace.printed.splitlines())
    own = [texts.original, *texts.repeats]
    if not texts.repeats or not any(map(_figures, texts.original)) or any(len(each) != len(own[0]) for each in own):
        return []
    noise = _Noise()
    for place, (old, new) in enumerate(zip_longest(texts.original, texts.rewritten)):
        if old is None or new is None:
            lines = f"{len(texts.rewritten)} lines, and {len(texts.original)} in the original"
            return [Check(PRINTED, Verdict.INCONCLUSIVE, reason=f"it prints {lines}")]
        if _OF_TIME.search(old) or any(each[place] != old for each in own):
            continue
        noise.note(old, [each[place] for each in texts.perturbed if place < len(each)])
        if not _alike(old, new, noise):
            given, usual = _short(new, old), _short(old, new)
            reason = f"line {place + 1} of the output is {given}, and {usual} in the original"
            return [Check(PRINTED, Verdict.INCONCLUSIVE, reason=reason)]
    return [Check(PRINTED, Verdict.PROVEN)]


def figures_by_line(printed: str) -> dict[str, list[list[float]]]:
    """The figures of every kind of line that tells no time: by what the line reads without them, in their order."""
    found: dict[str, list[list[float]]] = {}
    for line in printed.splitlines():
        figures = _figures(line)
        if figures and not _OF_TIME.search(line):
            found.setdefault(_reads(line.strip()), []).append([float(figure) for figure in figures])
    return found


@define
class _Noise:
    """How far the original's figures move under noise: those of the last line, and by what share at most so far.

    Differences grow from line to line, and not evenly. Lines with as many figures are lines of one kind here: what
    else they read may be a bar that grows as well.
    """

    _moved: Sequence[float] = ()
    _reach: dict[int, list[float]] = field(factory=dict)

    def note(self, line: str, shaken: Sequence[str]) -> None:
        """The next line of the original, and what its runs with noise print there."""
        own = [float(figure) for figure in _figures(line)]
        others = [[float(figure) for figure in _figures(each)] for each in shaken if _reads(each) == _reads(line)]
        self._moved = [
            max((abs(each[at] - value) for each in others if math.isfinite(each[at] - value)), default=0.0)
            for at, value in enumerate(own)
        ]
        shares = [moved / abs(value) if value else 0.0 for moved, value in zip(self._moved, own, strict=True)]
        before = self._reach.setdefault(len(own), shares)
        self._reach[len(own)] = [max(each) for each in zip(before, shares, strict=True)]

    def of(self, at: int, value: float) -> float:
        """By how much noise may move a figure of that line."""
        return max(self._moved[at], self._reach[len(self._moved)][at] * abs(value))


def _alike(old: str, new: str, noise: _Noise) -> bool:
    """Whether two lines say the same but for a rounding."""
    if old == new:
        return True
    if _reads(old) != _reads(new):
        return False
    for at, (one, other) in enumerate(zip(_figures(old), _figures(new), strict=True)):
        if one == other:
            continue
        value = float(one)
        allowed = max(_SHOWN * abs(value), _TIMES_NOISE * noise.of(at, value)) + 1.01 * _unit(one)
        if not abs(float(other) - value) <= allowed:
            return False
    return True


def _reads(line: str) -> str:
    """What a line reads without its figures."""
    return _NUMBER.sub("#", line)


def _figures(line: str) -> list[str]:
    return _NUMBER.findall(line)


def _unit(figure: str) -> float:
    """What the last digit of a figure counts; nothing for a whole number, which is none that was rounded."""
    digits, _, exponent = figure.lower().partition("e")
    _, point, behind = digits.partition(".")
    return 10.0 ** (int(exponent or 0) - len(behind)) if point else 0.0


def _short(line: str, other: str) -> str:
    """A line, or the part of a long one in which it differs from another one."""
    line = line.strip()
    if len(line) <= _LONGEST:
        return repr(line)
    pairs = zip(line, other.strip(), strict=False)
    same = next((at for at, (one, another) in enumerate(pairs) if one != another), 0)
    first = max(0, min(same - _LONGEST // 2, len(line) - _LONGEST))
    end = first + _LONGEST
    return repr(f"{'...' if first else ''}{line[first:end]}{'...' if end < len(line) else ''}")
