"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def table_row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)


def ratio(figures: Mapping[str, float]) -> str:
    """A ratio of step times with its 95 % interval."""
    return f"{figures['ratio']:.2f}x ({figures['low']:.2f} to {figures['high']:.2f})"
