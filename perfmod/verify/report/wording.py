"""How figures read, the same in the terminal, in Markdown and on the page: text without markup, in ASCII at first."""

from __future__ import annotations

import math
import re

_FACTOR = re.compile(r"(?<=\d)x\b")


def visible(text: str, keep: str = "") -> str:
    """`text` as it can be put anywhere: what has no picture is escaped, apart from the characters in `keep`."""
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )


def plain(value: float, decimals: int) -> str:
    """A number with thousands separated; `NaN` and infinities as such."""
    if math.isnan(value):
        return "NaN"
    return f"{value:,.{decimals}f}" if math.isfinite(value) else f"{'-' * (value < 0)}infinite"


def ratio(value: float) -> str:
    """`1.43x`; near 1 the third decimal matters."""
    return f"{plain(value, _ratio_decimals(value))}x"


def interval(low: float, high: float) -> str:
    """`1.41 to 1.45`, with the digits of `ratio`."""
    decimals = max(_ratio_decimals(low), _ratio_decimals(high))
    return f"{plain(low, decimals)} to {plain(high, decimals)}"


def _ratio_decimals(value: float) -> int:
    distance = abs(value - 1)
    return 3 if distance < 0.1 else 2 if distance < 9 else 1


def milliseconds(value: float) -> str:
    """`24.32 ms`: no more digits than a clock supports."""
    return f"{_short(value, _decimals(value))} ms"


def from_to(before: float, after: float, unit: str) -> str:
    """`35.78 -> 24.32 ms`, both with the digits that the larger supports."""
    decimals = _decimals(max(abs(before), abs(after)))
    return f"{_short(before, decimals)} -> {_short(after, decimals)} {unit}"


def _decimals(value: float) -> int:
    size = abs(value)
    return 1 if size >= 100 else 2 if size >= 0.1 else 3


def _short(value: float, decimals: int) -> str:
    """A zero needs no decimals."""
    return plain(value, decimals) if value else "0"


def difference(value: float) -> str:
    """A relative difference: `0`, `1.3e-06`; a count stays a count."""
    if not math.isfinite(value):
        return plain(value, 0)
    return str(int(value)) if value == int(value) and abs(value) < 1e6 else f"{value:.1e}"


def per_step(value: float) -> str:
    """A count per step: `6`, `0.2`, `1,204`."""
    return plain(value, 0) if not math.isfinite(value) or value == round(value) else plain(value, 1)


def percent(share: float) -> str:
    """`0.4 %`."""
    return f"{_short(100 * share, 0 if abs(share) >= 0.1 else 1)} %"


def mebibytes(value: float) -> str:
    """`812 MiB`, `12.3 GiB`."""
    return f"{plain(value, 0)} MiB" if not abs(value) >= 4096 else f"{plain(value / 1024, 1)} GiB"


def byte_count(value: float) -> str:
    """`4.7 MB`."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= size:
            return f"{plain(value / size, 1)} {unit}"
    return f"{plain(value, 0)} B"


def typeset(text: str) -> str:
    """What stands here in ASCII, with the characters that print uses."""
    arrows = text.replace("->", "\N{RIGHTWARDS ARROW}").replace("+/- ", "\N{PLUS-MINUS SIGN}")
    return _FACTOR.sub("\N{MULTIPLICATION SIGN}", arrows)


def duration(seconds: float) -> str:
    """`3 min 12 s`."""
    if not math.isfinite(seconds):
        return f"{plain(seconds, 0)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def counted(number: float, noun: str) -> str:
    """`1 step`, `2 steps`."""
    plural = noun + ("es" if noun.endswith("ss") else "s")
    return f"{per_step(number)} {noun if number == 1 else plural}"
