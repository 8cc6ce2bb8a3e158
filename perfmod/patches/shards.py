"""Steps that do not need each other: each is right on top of the files as they are, on a branch of its own.

No two of them change the same file, so that git merges them in any order, and all of them together are what `apply`
writes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

from perfmod.codemods.results import Outcome
from perfmod.examined import Examined
from perfmod.patches.parts import Part, joined
from perfmod.patches.steps import Step


def shards_of(examined: Sequence[Examined], parts: Sequence[Part]) -> list[Step]:
    """The parts as steps on top of the files as given; those that need each other, or change the same file, as one."""
    changed = {each.result.path: each for each in examined if each.result.outcome is Outcome.CHANGED}
    whole = joined(_touched(part, changed) for part in parts)
    groups: dict[int, list[Part]] = {}
    for part in parts:
        groups.setdefault(id(whole[part.applied[0].place]), []).append(part)
    return [_step(group, changed) for group in groups.values()]


def _touched(part: Part, changed: Mapping[str, Examined]) -> Iterator[Hashable]:
    """The files that a part changes, and the findings that it holds or builds on."""
    for one in part.applied:
        yield one.place
        yield from one.finding.builds_on
        for path in one.paths:
            yield path
            if path in changed:
                yield from changed[path].result.together


def _step(group: Sequence[Part], changed: Mapping[str, Examined]) -> Step:
    paths = {path for part in group for one in part.applied for path in one.paths}
    own = [each for path, each in changed.items() if path in paths]
    return Step(
        Part(
            group[0].by,
            ", ".join(dict.fromkeys(part.label for part in group)),
            tuple(one for part in group for one in part.applied),
            tuple(dict.fromkeys(owner for part in group for owner in part.owners)),
        ),
        {each.file.real: each.result.original for each in own},
        {each.file.real: each.result.after for each in own},
    )
