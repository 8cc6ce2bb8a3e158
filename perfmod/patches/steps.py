"""The contents of all files after each part of a series, so that its end is what `apply` writes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from perfmod.codemods.placed import Code, Overlap
from perfmod.codemods.results import Outcome, Withheld
from perfmod.examined import Examined
from perfmod.memory import Memory
from perfmod.patches.parts import Part
from perfmod.transforms.decoding import SourceError, is_notebook
from perfmod.transforms.finding import Place, PlacedEdit
from perfmod.transforms.source import Source
from perfmod.withholding import place_of, without

_MOST_ROUNDS = 20
"""How often the engine is asked again, because something else is found once a rewrite is not made."""
_Contents = dict[str, bytes]
"""Files by the paths of their results."""


@frozen
class Step:
    """One patch of a series.

    Attributes:
        before, after: the files that it changes (real paths), as the steps before it left them, and as it does; None
            where there is no such file yet.
    """

    part: Part
    before: Mapping[Path, bytes | None]
    after: Mapping[Path, bytes]

    @property
    def new(self) -> list[Path]:
        """The files that it makes."""
        return [path for path, data in self.before.items() if data is None]


def steps_of(examined: Sequence[Examined], parts: Sequence[Part], remembered: Memory | None) -> list[Step]:
    """What each of the parts changes, one after the other; the files parse after each.

    A part that cannot be had without the one behind it is joined with that. Raises `Failure` where files that an
    earlier run examined were edited meanwhile.
    """
    changed = {each.result.path: each for each in examined if each.result.outcome is Outcome.CHANGED}
    steps: list[Step] = []
    current = {path: each.result.before for path, each in changed.items()}
    pending: Part | None = None
    # Its end is what `apply` writes, whatever the engine says of the states before.
    end = [{path: each.result.after for path, each in changed.items()}] if parts else []
    states = [*_states(examined, changed, parts, remembered)[:-1], *end]
    for part, state in zip(parts, states, strict=True):
        pending = part if pending is None else pending.joined(part)
        different = [path for path in changed if path in state and state[path] != current[path]]
        if len(state) == len(changed) and different:
            before = {changed[path].file.real: _on_disk(changed[path], current[path]) for path in different}
            steps.append(Step(pending, before, {changed[path].file.real: state[path] for path in different}))
            current, pending = state, None
    if pending is not None and steps:
        # The step before has written it all; its message has to say so.
        steps[-1] = evolve(steps[-1], part=steps[-1].part.joined(pending))
    return steps


def _on_disk(each: Examined, data: bytes) -> bytes | None:
    """A state of a file; None where there is no file yet."""
    return None if each.result.is_new and not data else data


def _states(
    examined: Sequence[Examined], changed: Mapping[str, Examined], parts: Sequence[Part], remembered: Memory | None
) -> list[_Contents]:
    """The changed files after each part; without those of which the engine says that there is no such state."""
    states: list[_Contents] = [{} for _ in parts]
    inexact: set[str] = set()
    for path, each in changed.items():
        versions = _composed(each, parts)
        if versions is None:
            inexact.add(path)
        else:
            for state, version in zip(states, versions, strict=True):
                state[path] = version
    for group in _read_together(examined, inexact):
        paths = [each.result.path for each in group if each.result.path in changed]
        made: set[Place] = set()
        for part, state in zip(parts, states, strict=True):
            made |= {one.place for one in part.applied}
            for path in paths:
                state.pop(path, None)
            state.update(_asked(group, made, remembered))
    return states


def _composed(each: Examined, parts: Sequence[Part]) -> list[bytes] | None:
    """A file after each part, put together from the edits of findings; None where that does not lead to its end."""
    path, current = each.result.path, each.result.before
    versions: list[bytes] = []
    edits: list[PlacedEdit] = []
    try:
        code = Code.read(current, path)
        for part in parts:
            own = [one.finding for one in part.applied if path in one.paths]
            for finding in own:
                if finding.placed is None:
                    return None
                edits += [edit for edit in finding.placed if edit.path == path]
            if own:
                current = code.edited(edits).to_bytes()
                if current != each.result.after:
                    _require_python(current, path)
            versions.append(current)
    except (Overlap, SourceError):
        return None
    return versions if current == each.result.after else None


def _require_python(data: bytes, path: str) -> None:
    """Raises `SourceError` where a file does not parse."""
    if not is_notebook(path):
        try:
            ast.parse(data)
        except (SyntaxError, ValueError):
            pass  # perhaps in a newer Python
        else:
            return
    Source.parse(data, path)


def _read_together(examined: Sequence[Examined], paths: Iterable[str]) -> Iterator[list[Examined]]:
    """The files that the engine was given together with some of these paths, in groups."""
    tasks = {each.result.path: each.task for each in examined} if paths else {}
    for task in {id(tasks[path]): tasks[path] for path in paths}.values():
        yield [each for each in examined if tasks[each.result.path] is task]


def _asked(group: Sequence[Examined], made: set[Place], remembered: Memory | None) -> _Contents:
    """The changed files of a group with some of their findings applied; none where that cannot be had.

    The engine is asked, because rewrites change what others do.
    """
    wanted = {place for place in _applied(group) if place in made}
    settled = list(group)
    for _ in range(_MOST_ROUNDS):
        others = _applied(settled) - made
        if not others:
            break
        settled = without(settled, dict.fromkeys(others, Withheld("is in a later patch")), remembered)
    if _applied(settled) != wanted:
        return {}
    rewritten = {each.result.path: each.result.after for each in settled if each.result.outcome is Outcome.CHANGED}
    return {
        each.result.path: rewritten.get(each.result.path, each.result.before)
        for each in group
        if each.result.outcome is Outcome.CHANGED
    }


def _applied(group: Iterable[Examined]) -> set[Place]:
    return {place_of(each, finding) for each in group for finding in each.result.applied}
