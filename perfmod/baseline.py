"""A baseline: findings that a project knows of, kept in a file beside its code, so that only new ones are reported.

A finding is known by its file, its fingerprint, and how many of its file have that fingerprint; no line numbers, so
that edits around it change nothing. Paths are from the root of the repository or project that holds the baseline.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import attrs
from attrs import evolve, frozen

from perfmod import disk
from perfmod.codemods.results import Outcome
from perfmod.config import Configurations
from perfmod.errors import Failure, UsageMistake, explain
from perfmod.examined import Examined
from perfmod.report.rows import UNLISTED, FindingRow, Report
from perfmod.roots import from_here, project_root, shown
from perfmod.selection import rules_for
from perfmod.writing import NotWritten, replace

SCHEMA_VERSION = 1

Key = tuple[str, str]
"""Path and fingerprint: what findings are known by."""


@frozen(order=True)
class Entry:
    """Findings of one file that cannot be told apart.

    Attributes:
        path: with slashes, from the root.
        rule: the code of the rule.
        scope: the dotted place in the file, for readers.
        count: how many.
    """

    path: str
    rule: str
    scope: str
    fingerprint: str
    count: int = 1

    @property
    def key(self) -> Key:
        """What they are known by."""
        return self.path, self.fingerprint


@frozen
class Baseline:
    """What a file says.

    Attributes:
        path: where it lies, absolute, links followed.
        entries: sorted, none twice.
    """

    path: Path
    entries: tuple[Entry, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """The baseline at `path`.

        Raises:
            UsageMistake: it is not there, or not one.
        """
        where = shown(from_here(path))
        try:
            document = json.loads(disk.read(path))
        except OSError as error:
            raise UsageMistake(f"{where}: the baseline cannot be read: {explain(error)}") from error
        except (ValueError, RecursionError) as error:
            raise UsageMistake(f"{where}: is no baseline, since it is not JSON: {error}") from error
        try:
            version = document["schema_version"]
            entries = [_entry(row) for row in document["findings"]] if version == SCHEMA_VERSION else []
        except (KeyError, TypeError, ValueError) as error:
            raise UsageMistake(f"{where}: is no baseline of perfmod, which `--write-baseline` writes") from error
        if version != SCHEMA_VERSION:
            raise UsageMistake(f"{where}: has schema version {version}, and this perfmod reads {SCHEMA_VERSION}")
        # A merge may leave an entry twice, with different counts.
        most: dict[Key, Entry] = {}
        for entry in entries:
            most[entry.key] = max(entry, most.get(entry.key, entry), key=lambda each: each.count)
        return cls(path, tuple(sorted(most.values())))

    @property
    def count(self) -> int:
        """How many findings it holds."""
        return sum(entry.count for entry in self.entries)

    def write(self) -> None:
        """Put it on the disk as a whole, one line an entry. Raises `Failure`."""
        lines = ",\n".join(f"    {json.dumps(attrs.asdict(entry), ensure_ascii=False)}" for entry in self.entries)
        findings = f"[\n{lines}\n  ]" if lines else "[]"
        text = f'{{\n  "schema_version": {SCHEMA_VERSION},\n  "findings": {findings}\n}}\n'
        where = shown(from_here(self.path))
        try:
            # One that is new has the permissions that any new file has; one that is there keeps its own.
            self.path.touch()
            replace(self.path, text.encode(), self.path.read_bytes())
        except NotWritten as error:
            raise Failure(f"{where}: {error.reason}") from error
        except OSError as error:
            raise Failure(f"{where}: cannot be written: {explain(error)}") from error


@frozen
class Compared:
    """A run beside a baseline.

    Attributes:
        found: the numbers, in the report, of all findings that a baseline can hold.
        known: those that this one holds.
        gone: entries of files that were checked, or are no more, that were not found again, with how many are missing.
        current: the baseline that holds what was found, beside the entries of files that were not checked.
    """

    found: Collection[int]
    known: Collection[int]
    gone: tuple[Entry, ...]
    current: Baseline


def file_of(targets: Iterable[str], cwd: Path) -> Path | None:
    """The baseline that the configuration of the given paths names; None where it names none.

    Raises:
        UsageMistake: it names several, or is wrong.
    """
    places = [Path(os.path.realpath(cwd / target)) for target in targets]
    known = Configurations()
    configs = [known.config(place if place.is_dir() else place.parent) for place in places]
    found = {each.path.parent / each.baseline for each in configs if each.path is not None and each.baseline}
    if len(found) > 1:
        named = " and ".join(sorted(shown(from_here(path)) for path in found))
        raise UsageMistake(f"the paths are under different baselines, {named}; check them one after the other")
    return next(iter(found), None)


def compare(baseline: Baseline, report: Report, examined: Sequence[Examined]) -> Compared:
    """Look the findings of a run up in a baseline; `report` is made of `examined`.

    An entry whose file is no more is that of a renamed file if exactly one file that the baseline does not know has a
    finding with its fingerprint.
    """
    root = project_root(baseline.path.parent)
    names = {each.result.path: _name(each.file.real, root) for each in examined}
    found: dict[Key, list[int]] = defaultdict(list)
    for number, row in enumerate(report.findings):
        if row.state not in UNLISTED:
            found[names[row.path], row.fingerprint].append(number)
    is_checked = _Checked(examined, names, root)
    places = _places(baseline, found, root)
    known: set[int] = set()
    gone, kept = list[Entry](), list[Entry]()
    for entry in baseline.entries:
        numbers = found.get(places[entry.key], [])
        known.update(numbers[: entry.count])
        if not is_checked(entry):
            kept.append(entry)
        elif len(numbers) < entry.count:
            gone.append(evolve(entry, count=entry.count - len(numbers)))
    current = [_found_entry(key, report.findings[numbers[0]], len(numbers)) for key, numbers in found.items()]
    entries = {entry.key: entry for entry in (*kept, *current)}
    everything = {number for numbers in found.values() for number in numbers}
    return Compared(everything, known, tuple(gone), evolve(baseline, entries=tuple(sorted(entries.values()))))


class _Checked:
    """Whether a run would have found again what an entry speaks of."""

    def __init__(self, examined: Sequence[Examined], names: Mapping[str, str], root: Path) -> None:
        codes = {
            settings: {rule.code for rule in rules_for(settings)[0]}
            for settings in {each.file.settings for each in examined}
        }
        self._root = root
        self._codes = {
            names[each.result.path]: codes[each.file.settings]
            for each in examined
            if each.result.outcome in (Outcome.CHANGED, Outcome.UNCHANGED) and not each.result.in_part
        }

    def __call__(self, entry: Entry) -> bool:
        if entry.path in self._codes:
            return entry.rule in self._codes[entry.path]
        return not disk.exists(self._root / entry.path)


def _places(baseline: Baseline, found: Collection[Key], root: Path) -> dict[Key, Key]:
    """Under which key the findings of every entry have to be looked for: another one where its file was renamed."""
    paths = {entry.path for entry in baseline.entries}
    missing = {path for path in paths if not disk.exists(root / path)}
    new: dict[str, list[Key]] = defaultdict(list)
    for key in found:
        if key[0] not in paths:
            new[key[1]].append(key)
    return {
        entry.key: new[entry.fingerprint][0]
        if entry.path in missing and len(new[entry.fingerprint]) == 1
        else entry.key
        for entry in baseline.entries
    }


def _name(path: Path, root: Path) -> str:
    return shown(PurePath(os.path.relpath(path, root)).as_posix())


def _found_entry(key: Key, row: FindingRow, count: int) -> Entry:
    return Entry(key[0], row.code, row.scope, row.fingerprint, count)


def _entry(row: Mapping[str, Any]) -> Entry:
    """Raises `KeyError`, `TypeError` or `ValueError` where a row is no entry."""
    entry = Entry(row["path"], row["rule"], row["scope"], row["fingerprint"], row["count"])
    texts = (entry.path, entry.rule, entry.scope, entry.fingerprint)
    if not all(isinstance(text, str) for text in texts) or type(entry.count) is not int or entry.count < 1:
        raise ValueError("no entry")
    return entry
