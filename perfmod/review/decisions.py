"""What people decided about findings, in a file that a team commits: `.perfmod/decisions.json` of the project.

One decision stands on one line, in the order of paths, so that git merges what two people decided. A decision holds on
to its finding by fingerprint, not by line; see `perfmod.review.matching`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from perfmod import disk
from perfmod.errors import Failure, UsageMistake, explain
from perfmod.review.items import Verdict
from perfmod.roots import project_root, shown
from perfmod.writing import NotWritten, exclusive, permissions, remove_stale, write_new

FILE = Path(".perfmod") / "decisions.json"
"""Where they lie, from the root of the project."""
_SCHEMA = 1


class Unreadable(Exception):
    """A file that holds no decisions; the message says why, in one line."""


@frozen(order=True)
class Decision:
    """What was decided about one finding.

    Attributes:
        path: the file that it is reported in, from the root of the project, with slashes.
        rule: its code.
        scope: the dotted place in the file; empty at module level.
        code: the first line of the code, for readers.
        fingerprint: see `perfmod.transforms.fingerprint`.
        occurrence: which of the findings of the file with this fingerprint it is, from 1. of: how many there were.
        note: why, in the words of who decided.
    """

    path: str
    rule: str
    scope: str
    fingerprint: str
    occurrence: int
    of: int
    verdict: Verdict
    code: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """What it is about."""
        return self.path, self.fingerprint, self.occurrence

    def to_json(self) -> dict[str, object]:
        """The decision as a row of the file; what says nothing is left out."""
        row = attrs.asdict(self) | {"verdict": self.verdict.value}
        return {name: value for name, value in row.items() if value != ""}

    @classmethod
    def from_json(cls, row: object) -> Decision:
        """Raises `Unreadable` where that is no row of such a file."""
        if not isinstance(row, dict):
            raise Unreadable("must be an object")
        for each in attrs.fields(cls):
            wanted = {"occurrence": int, "of": int}.get(each.name, str)
            if each.name in row and (not isinstance(row[each.name], wanted) or row[each.name] is True):
                raise Unreadable(f'"{each.name}" must be {"a number" if wanted is int else "a string"}')
            if each.name not in row and each.default is attrs.NOTHING and each.name != "scope":
                raise Unreadable(f'lacks "{each.name}"')
        if not 1 <= row["occurrence"] <= row["of"]:
            raise Unreadable(f'"occurrence" must be from 1 to {row["of"]}, and is {row["occurrence"]}')
        if row["verdict"] not in (Verdict.ACCEPTED.value, Verdict.REJECTED.value):
            raise Unreadable(f'"verdict" must be accepted or rejected, and is {row["verdict"]!r}')
        known: dict[str, Any] = {each.name: row[each.name] for each in attrs.fields(cls) if each.name in row}
        return cls(**{"scope": "", **known, "verdict": Verdict(row["verdict"])})


@frozen
class Decisions:
    """The decisions of a project, and the file that they come from.

    Attributes:
        file: absolute.
        root: the folder that paths in it are relative to.
        rows: by what they are about.
    """

    file: Path
    root: Path
    rows: Mapping[tuple[str, str, int], Decision] = field(factory=dict)

    @classmethod
    def read(cls, cwd: Path, file: Path | None = None) -> Decisions:
        """Those of the project that `cwd` (absolute) belongs to, or of another file; none where there is no file.

        Raises `UsageMistake` where it is no such file.
        """
        root = project_root(cwd)
        path = root / FILE if file is None else cwd / file
        try:
            return cls(path, root, {row.key: row for row in _parsed(disk.read(path))})
        except FileNotFoundError:
            return cls(path, root)
        except OSError as error:
            raise UsageMistake(f"{shown(path)}: cannot be read: {explain(error)}") from error
        except Unreadable as error:
            raise UsageMistake(f"{shown(path)}: {error}") from error

    def name(self, real: Path) -> str:
        """A file (real path) as decisions name it."""
        return shown(real.relative_to(self.root).as_posix() if real.is_relative_to(self.root) else real)

    @property
    def accepted(self) -> tuple[str, ...]:
        """The fingerprints of what was accepted, in order."""
        return tuple(sorted({row.fingerprint for row in self.rows.values() if row.verdict is Verdict.ACCEPTED}))

    @property
    def rejects(self) -> bool:
        """Whether anything was rejected."""
        return any(row.verdict is Verdict.REJECTED for row in self.rows.values())

    def with_changes(self, new: Iterable[Decision], gone: Iterable[tuple[str, str, int]] = ()) -> Decisions:
        """The same with decisions added, replaced and taken back, also in the file.

        What somebody else has decided in the same file meanwhile stays. Raises `Failure` where it cannot be written.
        """
        real = self.file.resolve()
        try:
            real.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(real):
                rows = dict(Decisions.read(self.root, self.file).rows)
                for key in gone:
                    rows.pop(key, None)
                for row in new:
                    # Of the same code in the same place there may have been more at an earlier time.
                    for key in [key for key, other in rows.items() if key[:2] == row.key[:2] and other.of != row.of]:
                        del rows[key]
                    rows[row.key] = row
                write_new(real, render(rows.values()), mode=permissions(real))
            remove_stale(real.parent)
        except NotWritten as error:
            raise Failure(f"{shown(self.file)}: {error.reason}") from error
        except OSError as error:
            raise Failure(f"{shown(self.file)}: cannot be written: {explain(error)}") from error
        return attrs.evolve(self, rows=rows)


def render(rows: Iterable[Decision]) -> bytes:
    """The file: one decision a line, in order.

    An empty object stands at the end, so that every decision ends in a comma and no other line changes with it.
    """
    lines = [json.dumps(row.to_json(), ensure_ascii=False) for row in sorted(rows)]
    body = "".join(f"    {line},\n" for line in lines)
    text = f'{{\n  "schema_version": {_SCHEMA},\n  "decisions": [\n{body}    {{}}\n  ]\n}}\n'
    return text.encode("utf-8", "backslashreplace")


def _parsed(data: bytes) -> list[Decision]:
    """Raises `Unreadable` with what is wrong, in one line."""
    if b"\n<<<<<<<" in data or b"\n>>>>>>>" in data:
        raise Unreadable("holds the marks of a merge that git could not finish; keep the lines that you want")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not valid JSON: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("decisions"), list):
        raise Unreadable('is no file of decisions: it has no list "decisions"')
    if document.get("schema_version") != _SCHEMA:
        raise Unreadable(f"was written by another version of perfmod: its schema_version is not {_SCHEMA}")
    return [_row(number, row) for number, row in enumerate(document["decisions"], 1) if row != {}]


def _row(number: int, row: object) -> Decision:
    """One of them, counted from 1. Raises `Unreadable` with its number."""
    try:
        return Decision.from_json(row)
    except Unreadable as error:
        raise Unreadable(f"decision {number}: {error}") from error
