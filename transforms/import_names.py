"""Further names for an import that is there: `from torch.utils.data import DataLoader, RandomSampler`."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.finding import Edit
from perfmod.transforms.source import Source


def also_imported(source: Source, statement: cst.ImportFrom, names: Iterable[str]) -> list[Edit]:
    """Names that a statement imports too: in their place where the others are sorted, else behind them."""
    assert not isinstance(statement.names, cst.ImportStar)
    present = [alias.evaluated_name for alias in statement.names]
    is_sorted = present == sorted(present, key=_sorted_by)
    added: dict[int, str] = {}
    for name in sorted(set(names), key=_sorted_by):
        later = [each for each in statement.names if is_sorted and _sorted_by(each.evaluated_name) > _sorted_by(name)]
        at = source.span(later[0])[0] if later else source.span(statement.names[-1])[1]
        added[at] = added.get(at, "") + (f"{name}, " if later else f", {name}")
    return [Edit(at, at, text, source.path) for at, text in added.items()]


def _sorted_by(name: str) -> tuple[int, str]:
    """Constants come first, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name
