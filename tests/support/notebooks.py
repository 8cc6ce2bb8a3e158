"""Notebooks for tests: made in the styles in which they are found, and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

PYTHON = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def code(source: str | Sequence[str], **others: Any) -> dict[str, Any]:
    """A code cell; a string becomes the list of its lines, as nbformat writes it."""
    lines = source.splitlines(keepends=True) if isinstance(source, str) else source
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines, **others}


def text(source: str) -> dict[str, Any]:
    """A cell of Markdown."""
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def document(
    *cells: str | Mapping[str, Any],
    indent: int | str | None = 1,
    ensure_ascii: bool = False,
    end: str = "\n",
    metadata: Mapping[str, Any] = PYTHON,
    nbformat: int = 4,
) -> bytes:
    """The bytes of a notebook; strings are code."""
    whole = {
        "cells": [code(cell) if isinstance(cell, str) else cell for cell in cells],
        "metadata": metadata,
        "nbformat": nbformat,
        "nbformat_minor": 5,
    }
    return (json.dumps(whole, indent=indent, ensure_ascii=ensure_ascii) + end).encode()


def sources(data: bytes) -> list[str]:
    """The source of every cell."""
    return ["".join(cell["source"]) for cell in json.loads(data.decode("utf-8-sig"))["cells"]]


def others(data: bytes) -> object:
    """All of a notebook but the sources, with the order of its keys."""
    whole = json.loads(data.decode("utf-8-sig"), object_pairs_hook=list)
    cells = next(value for key, value in whole if key == "cells")
    kept = [[pair for pair in cell if pair[0] != "source"] for cell in cells]
    return [*(pair for pair in whole if pair[0] != "cells"), kept]
