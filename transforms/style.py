"""The style of a file: how long its lines are, and which quotes it writes."""

from __future__ import annotations

from perfmod.transforms.source import Source

_WIDTHS = (79, 88, 100, 120)
"""The limits that linters and formatters have by default, or are usually told."""
_USUAL = 88
_SHORT = 72
_FEW = 0.02
"""How many lines may be longer than the limit, of all: links, tables."""


def width(source: Source) -> int:
    """How many characters a line of a file may have: the smallest usual limit that nearly all of its lines keep to."""
    lengths = sorted(len(line) for line in source.text.splitlines() if line.strip())
    longest = lengths[-1 - int(_FEW * len(lengths))] if lengths else 0
    if longest <= _SHORT:
        return _USUAL  # it says nothing
    return next((limit for limit in _WIDTHS if longest <= limit), _WIDTHS[-1])


def quoted(source: Source, text: str) -> str:
    """A string in the quotes that a file writes most."""
    quote = "'" if source.text.count("'") > source.text.count('"') else '"'
    return f"{quote}{text}{quote}"
