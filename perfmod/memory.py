"""What earlier runs found out: the answers about files that are read together, by their contents, and whole runs, by
all that they read. A run over a tree that has not changed needs no more than a look at the times of its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, evolve, field, frozen

from perfmod import __version__, disk
from perfmod.cache import Cache
from perfmod.codemods import catalog
from perfmod.codemods.results import FileResult, Given, Outcome
from perfmod.config import Options, Settings
from perfmod.errors import Failure
from perfmod.examined import Examined
from perfmod.files import FoundFile
from perfmod.records import plain, restored
from perfmod.roots import shown
from perfmod.selection import rules_for
from perfmod.transforms.card import Card

if TYPE_CHECKING:
    from perfmod.task import Task

_LIBRARIES = ("libcst", "nbformat", "pathspec")
"""Those that results depend on."""
_AT_ONCE = 20
"""Answers that are written together: what a killed run may lose."""


@cache
def rules_version() -> str:
    """Names the code that answers depend on: ours, Python's, and that of some libraries."""
    parts = [__version__, sys.version, *_sources(str(Path(__file__).parent))]
    for library in _LIBRARIES:
        found = find_spec(library)
        parts += [] if found is None or found.origin is None else [_state(found.origin)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


@frozen
class Request:
    """What a run is asked for.

    Attributes:
        targets: as the user wrote them.
        cwd: the folder in which that was.
        isolated: whether every file is read for itself.
        creates: whether findings may be applied that need new files.
    """

    targets: tuple[str, ...]
    options: Options
    cwd: Path
    isolated: bool
    creates: bool = True

    @property
    def places(self) -> tuple[str, ...]:
        """Where the folder, the targets and the user's home are, links followed."""
        home = os.path.expanduser("~")  # noqa: PTH111, `Path.home` raises where there is none
        return tuple(
            os.path.realpath(each) for each in (str(self.cwd), home, *(str(self.cwd / each) for each in self.targets))
        )


@frozen(eq=False, slots=False)
class Asked:
    """A task without the contents of its files, which are on the disk.

    Attributes:
        files: with empty data.
        digests: of the contents, in the order of the files.
        real: where the files lie.
    """

    files: tuple[Given, ...]
    digests: tuple[str, ...]
    real: tuple[Path, ...]
    named: tuple[str, ...]
    settings: Settings

    @classmethod
    def of(cls, task: Task, found: Sequence[FoundFile], settings: Settings) -> Asked:
        """The task of files that were found."""
        return cls(
            tuple(evolve(file, data=b"") for file in task.files),
            tuple(disk.digest(file.data) for file in task.files),
            tuple(file.real for file in found),
            tuple(sorted(task.named)),
            settings,
        )

    def data(self, path: str) -> bytes:
        """The content of a file. Raises `Failure` where it is another one by now."""
        index = next(index for index, file in enumerate(self.files) if file.path == path)
        try:
            data = disk.read(self.real[index])
        except OSError:
            data = b""
        if disk.digest(data) != self.digests[index]:
            raise Failure(f"{shown(path)}: was edited while perfmod ran; run perfmod again")
        return data

    def task(self) -> Task:
        """The task, the same one each time. Raises `Failure` where files were edited meanwhile."""
        return self._task

    @cached_property
    def _task(self) -> Task:
        from perfmod.task import Task

        files = tuple(evolve(file, data=self.data(file.path)) for file in self.files)
        rules, choice = rules_for(self.settings)
        return Task(files, frozenset(self.named), rules, choice, self.settings.time_limit)


@frozen
class Done:
    """Files that were examined together, and what was asked, where something is rewritten."""

    examined: tuple[Examined, ...]
    asked: Asked | None = None


@define
class Memory:
    """What is known under one version of the rules, and what this run adds."""

    _cache: Cache = Factory(Cache)
    _version: str = Factory(rules_version)
    _new: dict[str, bytes] = field(factory=dict, init=False)

    def cards(self) -> tuple[Card, ...]:
        """What is known of every rule without its code."""
        key = self._key("cards")
        known = self._value(key)
        if known is not None:
            return restored(tuple[Card, ...], known)
        cards = catalog.cards()
        self._keep(key, plain(cards))
        self.flush()
        return cards

    def answer(self, task: Task) -> tuple[FileResult, ...] | None:
        """What the engine said about files of these contents."""
        clean, full = self._key_of_clean(task), self._key_of(task)
        found = self._cache.get((clean, full))
        if clean in found:
            return tuple(FileResult(file.path, Outcome.UNCHANGED, b"", b"") for file in task.files)
        if full not in found:
            return None
        results = restored(tuple[FileResult, ...], json.loads(found[full]))
        return tuple(
            evolve(result, before=file.data) if result.outcome is Outcome.CHANGED else result
            for file, result in zip(task.files, results, strict=True)
        )

    def keep_answer(self, task: Task, results: Sequence[FileResult]) -> None:
        """Remember what the engine said, unless it may say something else the next time."""
        if all(map(_is_clean, results)):
            self._keep(self._key_of_clean(task), [])
        elif all(map(_is_lasting, results)):
            self._keep(self._key_of(task), [plain(_stripped(result)) for result in results])
        if len(self._new) >= _AT_ONCE:
            self.flush()

    def run(self, request: Request) -> list[Examined] | None:
        """The files of an earlier run that read the same, in the order in which they were told."""
        key = self._key("run", plain(request), request.places)
        known = self._value(key)
        if known is None:
            return None
        notes = [(path, tuple(state), content) for path, state, content in known["notes"]]
        current = disk.unchanged(notes)
        if current is None:
            return None
        try:
            examined = list(_recalled(known))
        except Failure:
            return None
        if current != notes:
            self._keep(key, known | {"notes": current})
            self.flush()
        return examined

    def keep_run(self, request: Request, noted: Mapping[str, disk.State] | None, done: Sequence[Done]) -> None:
        """Remember a run with all that it read, where that is known and another run would come to the same."""
        is_lasting = all(_is_lasting(one.result) for each in done for one in each.examined)
        notes = disk.settled(noted) if noted is not None and is_lasting else None
        if notes is not None:
            self._keep(self._key("run", plain(request), request.places), {"notes": notes, **_recorded(done)})
        self.flush()
        self._cache.trim()

    def _key_of_clean(self, task: Task) -> str:
        return self._key("clean", [card.code for card in task.rules], plain(task.choice), task.digest.hex())

    def _key_of(self, task: Task) -> str:
        paths = [file.path for file in task.files]
        return self._key("files", self._key_of_clean(task), task.time_limit, paths)

    def _key(self, *parts: object) -> str:
        return disk.digest(json.dumps([self._version, *parts]).encode())

    def _value(self, key: str) -> Any:  # noqa: ANN401
        value = self._cache.get([key]).get(key)
        return None if value is None else json.loads(value)

    def _keep(self, key: str, value: object) -> None:
        self._new[key] = json.dumps(value, separators=(",", ":")).encode()

    def flush(self) -> None:
        """Write what was kept; a whole run does so by itself."""
        self._cache.put(self._new)
        self._new.clear()


def memory(*, use_cache: bool) -> Memory | None:
    """What is known, unless that is not wanted."""
    # What goes wrong inside is told with a traceback in debugging, which is nothing to remember.
    return Memory() if use_cache and os.environ.get("PERFMOD_DEBUG") != "1" else None


def cards(*, use_cache: bool) -> tuple[Card, ...]:
    """What is known of every rule without its code."""
    known = memory(use_cache=use_cache)
    return catalog.cards() if known is None else known.cards()


def _sources(folder: str) -> Iterator[str]:
    """Place, size and time of our own modules: an edited or upgraded rule is another rule."""
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield _state(entry.path)
        elif entry.name not in ("__pycache__", "verify") and entry.is_dir():
            yield from _sources(entry.path)


def _state(path: str) -> str:
    found = os.stat(path)  # noqa: PTH116, some hundred of them
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _is_clean(result: FileResult) -> bool:
    found = any(
        (result.applied, result.held_back, result.refused, result.suppressed, result.rejected, result.undecided)
    )
    is_plain = result.outcome is Outcome.UNCHANGED and result.is_final and not result.in_part
    return is_plain and not found and not result.warnings


def _is_lasting(result: FileResult) -> bool:
    return result.is_final and not result.reason.startswith("internal error")


def _stripped(result: FileResult) -> FileResult:
    after = result.after if result.outcome is Outcome.CHANGED else b""
    return evolve(result, before=b"", after=after)


def _recorded(done: Sequence[Done]) -> dict[str, Any]:
    """Files by position: shown, real, whether it was named, settings, target, result, and which task it was in."""
    settings: dict[Settings, int] = {}
    asked = [each.asked for each in done if each.asked is not None]
    files = [
        [
            file.shown,
            str(file.real),
            file.named,
            settings.setdefault(file.settings, len(settings)),
            str(file.given),
            None if _is_clean(one.result) else plain(_stripped(one.result)),
            None if one.asked is None or each.asked is None else asked.index(each.asked),
        ]
        for each in done
        for one in each.examined
        for file in (one.file,)
    ]
    return {"settings": plain(list(settings)), "files": files, "asked": plain(asked)}


def _recalled(known: Mapping[str, Any]) -> Iterator[Examined]:
    """The files of a run. Raises `Failure` where one that it changes is another by now."""
    settings = restored(tuple[Settings, ...], known["settings"])
    asked = restored(tuple[Asked, ...], known["asked"])
    for shown_path, real, named, number, given, found, task in known["files"]:
        file = FoundFile(shown_path, Path(real), named, settings[number], Path(given))
        if found is None:
            yield Examined(file, FileResult(shown_path, Outcome.UNCHANGED, b"", b""))
            continue
        result = restored(FileResult, found)
        if result.outcome is Outcome.CHANGED:
            result = evolve(result, before=asked[task].data(result.path))
        yield Examined(file, result, None if task is None else asked[task].task)
