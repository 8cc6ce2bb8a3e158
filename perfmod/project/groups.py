"""Which files are read together: all that imports link, or the nearest where those are too many.

What a rule finds in a file depends on the files that are read with it. So groups are made of a project as a whole,
never of the files that somebody named, and no file is rewritten in two of them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence

from attrs import define, field, frozen

from perfmod.project.links import Links, is_package

MOST_FILES = 60
"""Files of a group."""
MOST_BYTES = 600_000
"""Bytes in the files of a group: some seconds."""


@frozen
class Facts:
    """What a file's bytes say without being parsed.

    Attributes:
        size: bytes.
        matters: whether it holds words that rules look for.
        trains: whether it holds words of training loops: what is around those is worth being read with them.
    """

    size: int
    matters: bool
    trains: bool


@frozen
class Group:
    """Files that are read together.

    Attributes:
        files: those that may be rewritten, sorted; every file of a project is one of these in at most one group.
        beside: further ones that are read for their facts, sorted.
    """

    files: tuple[str, ...]
    beside: tuple[str, ...] = ()


def groups(links: Links, files: Mapping[str, Facts]) -> Iterator[Group]:
    """The groups of a project, in the order of their first files; files that need not be parsed are in none."""
    for component in links.components():
        kept = _pruned(component, links, files)
        if not kept:
            continue
        if _fits(kept, files):
            kept = _with_imported(kept, links, files)
            yield Group(tuple(sorted(kept)))
        else:
            yield from _split(kept, links, files)


def _fits(group: Collection[str], files: Mapping[str, Facts]) -> bool:
    return len(group) == 1 or (len(group) <= MOST_FILES and sum(files[file].size for file in group) <= MOST_BYTES)


def _pruned(component: Sequence[str], links: Links, files: Mapping[str, Facts]) -> set[str]:
    """The files that matter, what they import and what imports them, and the chains of others between them.

    Who imports a package imports what it hands on.
    """
    near = {other for file in component if files[file].matters for other in (file, *links.neighbours(file))}
    if not near:
        return set()
    near |= {user for file in near if is_package(file) for user in links.importers.get(file, ())}
    kept = set(component)
    degrees = {file: len(links.neighbours(file)) for file in kept}
    ends = [file for file in kept - near if degrees[file] <= 1]
    for file in ends:
        kept.discard(file)
        for other in links.neighbours(file):
            degrees[other] -= 1
            if degrees[other] == 1 and other in kept and other not in near:
                ends.append(other)
    return kept


def _with_imported(kept: set[str], links: Links, files: Mapping[str, Facts]) -> set[str]:
    """Files and what they import, import by import, as far as there is room.

    A training runs those too: a `metrics.py` with `loss.item()` in it need not name torch.
    """
    while True:
        wider = kept.union(*map(links.imported, kept))
        if wider == kept or not _fits(wider, files):
            return kept
        kept = wider


def _split(kept: set[str], links: Links, files: Mapping[str, Facts]) -> Iterator[Group]:
    """Clusters around the files that train, as large as they may be; the other files that matter one by one."""
    clusters = _Clusters(files)
    pairs = {
        (min(file, other), max(file, other))
        for file in kept
        if files[file].trains
        for other in links.neighbours(file) & kept
    }
    for one, other in sorted(pairs, key=lambda pair: (_distance(pair, files), pair)):
        clusters.join(one, other)
    for members in sorted({id(found): found for found in map(clusters.of, sorted(kept))}.values(), key=min):
        if any(files[file].matters for file in members):
            yield Group(tuple(sorted(members)), tuple(sorted(_beside(members, kept, links, files))))


def _distance(pair: tuple[str, str], files: Mapping[str, Facts]) -> tuple[bool, int]:
    """Files that train both come first, then those whose folders lie close to each other."""
    one, other = (posixpath.dirname(file).split("/") for file in pair)
    common = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return not all(files[file].trains for file in pair), len(one) + len(other) - 2 * common


def _beside(members: set[str], kept: set[str], links: Links, files: Mapping[str, Facts]) -> set[str]:
    """What the training files of a cluster import from other clusters, as far as there is room."""
    whole = set(members)
    for file in sorted(file for file in members if files[file].trains):
        for other in sorted(links.imported(file) & kept - whole):
            if _fits(whole | {other}, files):
                whole.add(other)
    return whole - members


@define
class _Clusters:
    """Sets of files that grow together until they would be too large for a group."""

    files: Mapping[str, Facts]
    _clusters: dict[str, set[str]] = field(factory=dict, init=False)

    def of(self, file: str) -> set[str]:
        """The cluster of a file; itself alone at first."""
        return self._clusters.setdefault(file, {file})

    def join(self, one: str, other: str) -> None:
        """Make one cluster of two, where that is small enough."""
        first, second = self.of(one), self.of(other)
        if first is second or not _fits(first | second, self.files):
            return
        first |= second
        self._clusters.update(dict.fromkeys(second, first))
