"""Files for the engine that are read together."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Collection
from functools import cache
from pathlib import PurePath

from attrs import evolve, frozen

from perfmod.budget import OutOfTime, within
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.config import Settings
from perfmod.transforms.card import LIBRARIES, Card
from perfmod.transforms.decoding import SourceError, decode, is_notebook

_COMMENT = b"perfmod:"
"""In a comment it silences rules, and what is wrong with such a comment is reported."""


@frozen
class Task:
    """Files and what to do with them, here or in another process: rules hold no state and travel by name.

    Attributes:
        files: the files; their paths are as they are printed.
        named: paths of those that the user gave by name; such a file that is no Python is a failure even where no
            rule would have looked into it.
        rules, choice: what the engine shall do.
        time_limit: the seconds of processor time that it may take; then the files stay as they are.
    """

    files: tuple[Given, ...]
    named: frozenset[str]
    rules: tuple[Card, ...]
    choice: Choice
    time_limit: float = Settings().time_limit

    @property
    def is_candidate(self) -> bool:
        """Whether the engine may have to parse something, which takes long."""
        return any(matters(file.data, self.rules) for file in self.files)

    @property
    def size(self) -> int:
        """Bytes in its files."""
        return sum(len(file.data) for file in self.files)

    @property
    def digest(self) -> bytes:
        """Equal for tasks whose files have the same names, hold the same and import each other in the same way."""
        number = {file.path: number for number, file in enumerate(self.files)}
        parts: list[object] = []
        for file in self.files:
            links = sorted((name, number[path]) for name, path in (file.imports or {}).items())
            content = hashlib.sha256(file.data).hexdigest()
            kind = PurePath(file.path).name, file.path in self.named, file.part, file.imported_elsewhere, file.pin
            parts.append((*kind, file.is_beside_training, file.forks_by_default, file.outside, links, content))
        return hashlib.sha256(repr(parts).encode()).digest()

    def run(self) -> tuple[FileResult, ...]:
        """The engine's results, in the order of the files."""
        try:
            return within(self.time_limit, self._run)
        except OutOfTime:
            return tuple(map(self._given_up, self.files))

    def _run(self) -> tuple[FileResult, ...]:
        kept = tuple(file for file in self.files if self._is_read(file))
        paths = {file.path for file in kept}
        linked = [
            evolve(file, imports={name: path for name, path in file.imports.items() if path in paths})
            if file.imports is not None
            else file
            for file in kept
        ]
        from perfmod.codemods.engine import rewrite_together

        rules = [card.load() for card in self.rules]
        results = {result.path: result for result in rewrite_together(linked, rules, self.choice)}
        return tuple(self._settled(file, results.get(file.path)) for file in self.files)

    def _given_up(self, file: Given) -> FileResult:
        """What is said of a file that was not analysed in time."""
        if file.part is not Part.ASKED or not matters(file.data, self.rules):
            return FileResult(file.path, Outcome.UNCHANGED, file.data, file.data, is_final=False)
        number = sum(matters(each.data, self.rules) for each in self.files)
        work = f"{number} files that belong together need" if number > 1 else "it needs"
        reason = f"not analysed: {work} more than {self.time_limit:g} s; raise --time-limit"
        outcome = Outcome.FAILED if file.path in self.named else Outcome.SKIPPED
        return FileResult(file.path, outcome, file.data, file.data, reason, is_final=False)

    def under(self, rules: Collection[str]) -> Task:
        """The same with a part of its rules, by their codes."""
        return evolve(self, rules=tuple(rule for rule in self.rules if rule.code in rules))

    def sparing(self, paths: Collection[str]) -> Task:
        """The same with some files, by their paths, changed only where findings of others need it."""
        return evolve(
            self,
            files=tuple(
                evolve(file, part=Part.PARTNER) if file.path in paths and file.part is Part.ASKED else file
                for file in self.files
            ),
        )

    def _is_read(self, file: Given) -> bool:
        """A file that only links others is left out where it is no Python: nobody asked about it."""
        if len(self.files) == 1 or file.path in self.named or matters(file.data, self.rules):
            return True
        try:
            _require_python(file)
        except SourceError:
            return False
        return True

    def _settled(self, file: Given, result: FileResult | None) -> FileResult:
        if result is None:
            return FileResult(file.path, Outcome.UNCHANGED, file.data, file.data)
        if file.path in self.named and result.outcome is Outcome.SKIPPED:
            return evolve(result, outcome=Outcome.FAILED)
        if file.path in self.named and result.outcome is Outcome.UNCHANGED:
            try:
                _require_python(file)
            except SourceError as error:
                return FileResult(file.path, Outcome.FAILED, file.data, file.data, error.reason)
        return result


def matters(data: bytes, rules: tuple[Card, ...]) -> bool:
    """Whether a file of these bytes has something for the engine: words that rules look for, or a comment for them."""
    found = any(library.encode() in data for library in LIBRARIES) and any(word in data for word in _triggers(rules))
    return found or _COMMENT in data


def _require_python(file: Given) -> None:
    """Raise `SourceError` where a file is no Python; quick where it is, since Python itself can tell."""
    if is_notebook(file.path):
        _parse(file)
        return
    text, _, _ = decode(file.data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _parse(file)


def _parse(file: Given) -> None:
    from perfmod.transforms.source import Source

    Source.parse(file.data, file.path)


@cache
def _triggers(rules: tuple[Card, ...]) -> tuple[bytes, ...]:
    return tuple(sorted({word.encode() for rule in rules for word in rule.triggers}))
