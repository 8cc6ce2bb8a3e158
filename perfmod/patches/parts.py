"""Applied findings, put together into what becomes one patch each, in an order in which they can be made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from perfmod.examined import Examined
from perfmod.patches.by import By
from perfmod.transforms.finding import Finding, Place
from perfmod.withholding import place_of

Owners = tuple[str, ...]
Member = TypeVar("Member", bound=Hashable)
WITHOUT_OWNER = "without owner"
"""The label of what nobody owns."""


@frozen
class Applied:
    """An applied finding, and the file that it is reported in."""

    each: Examined
    finding: Finding

    @property
    def place(self) -> Place:
        """What tells it apart."""
        return place_of(self.each, self.finding)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it changes."""
        return tuple(
            change.path or self.each.result.path
            for change in self.finding.changes
            if change.edits or change.imports or change.definitions
        )


@frozen
class Part:
    """Findings that become one patch.

    Attributes:
        label: names it: the rule, the files, the owners, or perfmod where it holds everything.
        owners: of its files, where it was made by owner.
    """

    by: By
    label: str
    applied: tuple[Applied, ...]
    owners: Owners = ()

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules of its findings."""
        return tuple(sorted({one.finding.code for one in self.applied}))

    def joined(self, following: Part) -> Part:
        """Both as one."""
        label = self.label if following.label == self.label else f"{self.label}, {following.label}"
        owners = tuple(dict.fromkeys((*self.owners, *following.owners)))
        return Part(self.by, label, (*self.applied, *following.applied), owners)


@frozen(order=True)
class _Key:
    """What findings of one part have in common; parts come in the order of their keys."""

    order: tuple[int, ...]
    label: str
    owners: Owners = ()


def parts_of(
    examined: Sequence[Examined], by: By, names: Mapping[str, str], owners_of: Callable[[Path], Owners]
) -> list[Part]:
    """The applied findings in parts; each builds only on those before it.

    By file and by owner, files that one finding changes together stay together. A rule some of whose findings build on
    those of another rule, and the other way round, comes twice. `names` are those of rules, by their codes; `owners_of`
    tells those of a file by its real path.
    """
    found = [Applied(each, finding) for each in examined for finding in each.result.applied]
    ordered = sorted(found, key=lambda one: (one.each.file.real.parts, one.finding.start, one.finding.code))
    keys = _Keys(ordered, {each.result.path: each for each in examined}, names, owners_of)
    key_of = {
        By.RULE: keys.rule,
        By.FINDING: keys.finding,
        By.FILE: keys.files,
        By.OWNER: keys.owners,
        By.PROJECT: keys.project,
    }[by]
    groups: dict[_Key, list[Applied]] = {}
    for one in ordered:
        groups.setdefault(key_of(one), []).append(one)
    return [Part(by, key.label, tuple(group), key.owners) for key, group in _in_order(dict(sorted(groups.items())))]


def _in_order(groups: dict[_Key, list[Applied]]) -> Iterator[tuple[_Key, list[Applied]]]:
    """Groups such that what a finding builds on is in the same one or an earlier one; split where it has to be."""
    pending = {one.place for group in groups.values() for one in group}
    while groups:
        ready = {key: _ready(group, pending) for key, group in _until_whole(groups, pending)}
        # The last one that was looked at is whole, where there is such a group.
        last = next(reversed(ready))
        key = last if len(ready[last]) == len(groups[last]) else next((key for key in ready if ready[key]), last)
        chosen = ready[key] or groups[key]
        yield key, chosen
        pending -= {one.place for one in chosen}
        groups[key] = [one for one in groups[key] if one.place in pending]
        if not groups[key]:
            del groups[key]


def _until_whole(groups: Mapping[_Key, list[Applied]], pending: set[Place]) -> Iterator[tuple[_Key, list[Applied]]]:
    """Groups up to the first that can be made as a whole."""
    for key, group in groups.items():
        yield key, group
        if len(_ready(group, pending)) == len(group):
            return


def _ready(group: Sequence[Applied], pending: set[Place]) -> list[Applied]:
    """The findings of a group that build on nothing that is `pending` outside of it."""
    ready = list(group)
    while True:
        missing = pending - {one.place for one in ready}
        left = [one for one in ready if missing.isdisjoint(one.finding.builds_on)]
        if len(left) == len(ready):
            return ready
        ready = left


class _Keys:
    """What findings are put together by."""

    def __init__(
        self,
        applied: Sequence[Applied],
        files: Mapping[str, Examined],
        names: Mapping[str, str],
        owners_of: Callable[[Path], Owners],
    ) -> None:
        self._numbers = {one.place: number for number, one in enumerate(applied)}
        self._files = files
        self._names = names
        self._owners_of = owners_of
        self._order = {path: number for number, path in enumerate(sorted(files, key=self._real))}
        self._joined = joined(one.paths for one in applied)

    def rule(self, one: Applied) -> _Key:
        code = one.finding.code
        return _Key((), f"{code} {self._names[code]}")

    def finding(self, one: Applied) -> _Key:
        return _Key((self._numbers[one.place],), self.rule(one).label)

    def files(self, one: Applied) -> _Key:
        paths = self._together(one)
        return _Key((self._order[paths[0]],), ", ".join(paths))

    def owners(self, one: Applied) -> _Key:
        owners = tuple(
            dict.fromkeys(
                owner for path in self._together(one) for owner in self._owners_of(self._files[path].file.real)
            )
        )
        return _Key((not owners,), " ".join(owners) or WITHOUT_OWNER, owners)

    def project(self, _one: Applied) -> _Key:
        return _Key((), "perfmod")

    def _together(self, one: Applied) -> list[str]:
        """The files that have to be in the same patch as those of a finding."""
        return sorted(self._joined[(one.paths or (one.each.result.path,))[0]], key=self._order.__getitem__)

    def _real(self, path: str) -> tuple[str, ...]:
        return self._files[path].file.real.parts


def joined(sets: Iterable[Iterable[Member]]) -> dict[Member, set[Member]]:
    """Sets that share a member, united: the whole of each member."""
    whole: dict[Member, set[Member]] = {}
    for given in sets:
        members = set(given)
        united = members.union(*(whole.get(member, ()) for member in members))
        whole.update(dict.fromkeys(united, united))
    return whole
