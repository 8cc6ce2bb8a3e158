"""Files for the engine that are read together."""

from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import PurePath

from attrs import evolve, frozen

from perfmod.budget import OutOfTime, within
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.config import Settings
from perfmod.transforms import work
from perfmod.transforms.card import LIBRARIES, Card
from perfmod.transforms.decoding import SourceError, decode, is_notebook
from perfmod.transforms.work import TooMuchWork

_MOST_WORK = 20_000_000
"""Units of work for files that are read together: some 20 seconds of a processor of 2024."""
_MOST_WORK_OF_A_PART = 5_000_000
"""Likewise for each of them, where all of them together need more."""
_MOST_WORK_OF_ALL_PARTS = 100_000_000
_WHY_READ = "all files that belong together are too many to be analysed as a whole"
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
        time_limit: the seconds of processor time that it may take, or each of its parts where it is too large to be
            done as a whole; then the files stay as they are.
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
            parts.append(
                (
                    *kind,
                    file.why_read,
                    file.is_beside_training,
                    file.forks_by_default,
                    file.outside,
                    file.ignored,
                    file.beside and (evolve(file.beside, path=""), number.get(file.beside.path)),
                    links,
                    content,
                )
            )
        return hashlib.sha256(repr(parts).encode()).digest()

    def run(self) -> tuple[FileResult, ...]:
        """The engine's results, in the order of the files."""
        try:
            return self._limited(_MOST_WORK)[0]
        except OutOfTime:
            return tuple(map(self._given_up, self.files))
        except TooMuchWork:
            return self._in_parts()

    def _limited(self, units: int) -> tuple[tuple[FileResult, ...], int]:
        """The results, if they take no more than so much work, or more where more time than usual is granted; and the
        units that were needed of it.

        Raises:
            TooMuchWork: they take more, on any machine.
            OutOfTime: they take too long on this one.
        """
        granted = int(units * max(1, self.time_limit / Settings().time_limit))

        def run() -> tuple[tuple[FileResult, ...], int]:
            return self._run(), granted - work.left()

        return within(self.time_limit, lambda: work.within(granted, run))

    def _in_parts(self) -> tuple[FileResult, ...]:
        """What is found where the files are too large as a whole: each file with some of the others, or alone."""
        left, is_late = _MOST_WORK_OF_ALL_PARTS, False
        results = []
        for file in self.files:
            if file.part is not Part.ASKED or not matters(file.data, self.rules):
                results.append(FileResult(file.path, Outcome.UNCHANGED, file.data, file.data))
                continue
            found = None
            for part in self._parts_around(file) if not is_late else ():
                units = min(_MOST_WORK_OF_A_PART, left)
                try:
                    found, used = part._limited(units)
                except TooMuchWork:
                    left -= units
                    continue
                except OutOfTime:
                    is_late = True
                else:
                    left -= used
                break
            if found is None:
                results.append(evolve(self._given_up(file, is_alone=True), is_final=not is_late))
            else:
                results.append(evolve(found[[each.path for each in part.files].index(file.path)], in_part=True))
        return tuple(results)

    def _parts_around(self, file: Given) -> Iterator[Task]:
        """A file with the files that it is linked with, with what it imports, and alone."""
        imported = _imported(file)
        users = {each.path for each in self.files if file.path in _imported(each)}
        return (self._with(file, beside) for beside in (imported | users, imported, set[str]()))

    def _with(self, file: Given, beside: Collection[str]) -> Task:
        """A part of this task: one file, and others that are only read."""
        paths = {file.path, *beside}
        elsewhere = {path for each in self.files if each.path not in paths for path in _imported(each)}
        files = tuple(
            evolve(
                each,
                part=Part.ASKED if each.path == file.path else Part.READ,
                imports=_among(each.imports, paths),
                imported_elsewhere=each.imported_elsewhere or each.path in elsewhere,
                why_read=_WHY_READ,
            )
            for each in self.files
            if each.path in paths
        )
        return evolve(self, files=files, named=self.named & {file.path})

    def _run(self) -> tuple[FileResult, ...]:
        kept = tuple(file for file in self.files if self._is_read(file))
        paths = {file.path for file in kept}
        linked = [evolve(file, imports=_among(file.imports, paths)) for file in kept]
        from perfmod.codemods.engine import rewrite_together

        rules = [card.load() for card in self.rules]
        results = {result.path: result for result in rewrite_together(linked, rules, self.choice)}
        return tuple(self._settled(file, results.get(file.path)) for file in self.files)

    def _given_up(self, file: Given, *, is_alone: bool = False) -> FileResult:
        """What is said of a file that was not analysed, because that takes too long."""
        if file.part is not Part.ASKED or not matters(file.data, self.rules):
            return FileResult(file.path, Outcome.UNCHANGED, file.data, file.data, is_final=False)
        number = 1 if is_alone else sum(matters(each.data, self.rules) for each in self.files)
        needed = f"{number} files that belong together need" if number > 1 else "it needs"
        reason = f"not analysed: {needed} more than {self.time_limit:g} s; raise --time-limit"
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


def _imported(file: Given) -> set[str]:
    """The paths of what a file imports."""
    return {*(file.imports or {}).values()}


def _among(imports: Mapping[str, str] | None, paths: Collection[str]) -> dict[str, str] | None:
    """Those imports that lead to one of the paths."""
    return {name: path for name, path in imports.items() if path in paths} if imports is not None else None


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
