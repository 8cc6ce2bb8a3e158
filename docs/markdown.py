"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def table_row(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def bullets(items: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {item}" for item in items)
