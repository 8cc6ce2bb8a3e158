"""One place of a tree that there is something to rewrite at, as the survey counts them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from attrs import frozen
from corpus_index import File

MEASURES = ("sums", "moves", "loaders", "tails", "operations")
"""What is counted; `corpus_survey.py` says what each is."""
HELD_BACK = ("low-impact", "open-question", "on-request")
"""The states of findings whose rewrite an option applies."""


@frozen
class Occurrence:
    """One place.

    Attributes:
        measure: one of `MEASURES`.
        form: how it is written, for the tables: `sum`, `append`, `meter`; `to`, `cuda`; the class of the loader.
        path, cell, line, end: where it is; lines of the cell in a notebook.
        also: further lines that belong to it, such as the one where the scalar is read.
        scope: the classes and functions around it.
        key: what it is, in a way that survives rewriting it: occurrences with the same key in the rewritten tree are
            still there.
        code: the code, in one line.
        lacks: what is missing at it: `workers`, `pinning`, `non_blocking`.
        is_needed: for sums, whether each step needs the number for something else too, such as a progress bar.
        depends: for moves, the places of the loaders' constructions; path, cell and line.
    """

    measure: str
    form: str
    path: str
    cell: int
    line: int
    end: int
    scope: str
    key: str
    code: str
    also: frozenset[int] = frozenset()
    lacks: frozenset[str] = frozenset()
    is_needed: bool = False
    depends: frozenset[tuple[str, int, int]] = frozenset()


def occurrence(file: File, node: ast.AST, measure: str, form: str, key: str, **more: object) -> Occurrence:
    """The occurrence at a node."""
    first, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
    cell, line = file.place(first)
    return Occurrence(
        measure=measure,
        form=form,
        path=file.path,
        cell=cell,
        line=line,
        end=file.place(end)[1],
        scope=file.scope_name(node),
        key=key,
        code=" ".join((ast.get_source_segment(file.text.removeprefix("\ufeff"), node) or "").split())[:240],
        **more,  # type: ignore[arg-type]
    )


def by_key(found: Iterable[Occurrence]) -> Mapping[tuple[str, str, str, str], list[Occurrence]]:
    """Occurrences by what they are: measure, path, scope and key."""
    groups: dict[tuple[str, str, str, str], list[Occurrence]] = {}
    for each in found:
        groups.setdefault((each.measure, each.path, each.scope, each.key), []).append(each)
    return groups
