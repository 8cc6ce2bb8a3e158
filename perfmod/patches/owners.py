"""Who owns files, by the `CODEOWNERS` of GitHub or GitLab."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen
from pathspec import GitIgnoreSpec

from perfmod import disk
from perfmod.errors import Failure, explain
from perfmod.roots import shown

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""Where such a file may lie, from the root of the repository; the first one counts."""

_SECTION = re.compile(r"\^?\[(?P<name>[^\]]+)\](?:\[\d+\])?(?P<owners>(?:\s+\S+)*)\s*")
_BLANK = re.compile(r"(?<!\\)[ \t]+")


@frozen
class _Rule:
    """One line: a pattern and its owners.

    Attributes:
        excludes: whether its files have no owner in the section, whatever lines behind it say.
    """

    spec: GitIgnoreSpec
    is_flat: bool
    owners: tuple[str, ...]
    excludes: bool

    @classmethod
    def of(cls, pattern: str, owners: tuple[str, ...]) -> _Rule:
        excludes, plain = pattern.startswith("!"), pattern.removeprefix("!")
        # Unlike in .gitignore, `docs/*` is about what lies in the folder itself.
        return cls(GitIgnoreSpec.from_lines([plain]), plain.endswith("/*"), owners, excludes)

    def matches(self, path: str) -> bool:
        if not self.spec.match_file(path):
            return False
        folder = path.rpartition("/")[0]
        return not (self.is_flat and folder and self.spec.match_file(folder))


@frozen
class Owners:
    """The owners of a repository's files.

    Attributes:
        root: what paths are relative to.
        sections: the rules of each section; of GitHub's files, there is one.
    """

    root: Path
    sections: tuple[tuple[_Rule, ...], ...] = ()

    @classmethod
    def read(cls, root: Path) -> Owners:
        """Those of the repository at `root`; none where it names none. Raises `Failure`."""
        for place in PLACES:
            if disk.is_file(root / place):
                try:
                    text = disk.read(root / place).decode("utf-8", "surrogateescape")
                except OSError as error:
                    raise Failure(f"{shown(place)}: cannot be read: {explain(error)}") from error
                return cls(root, _parsed(text.splitlines()))
        return cls(root)

    def of(self, real: Path) -> tuple[str, ...]:
        """The owners of a file (real path): in each section, those of the last line that matches."""
        path = real.relative_to(self.root).as_posix()
        return tuple(dict.fromkeys(owner for rules in self.sections for owner in _owners(rules, path)))


def _owners(rules: Iterable[_Rule], path: str) -> tuple[str, ...]:
    owners: tuple[str, ...] = ()
    for rule in rules:
        if rule.matches(path):
            if rule.excludes:
                return ()
            owners = rule.owners
    return owners


def _parsed(lines: Iterable[str]) -> tuple[tuple[_Rule, ...], ...]:
    """The sections; those of the same name are one."""
    sections: dict[str, list[_Rule]] = {"": []}
    name, default = "", ()
    for line in map(str.strip, lines):
        if not line or line.startswith("#"):
            continue
        if section := _SECTION.fullmatch(line):
            name, default = section["name"].strip().lower(), tuple(section["owners"].split())
            sections.setdefault(name, [])
            continue
        pattern, *words = _BLANK.split(line)
        owners = tuple(_until_comment(words)) or default
        try:
            sections[name].append(_Rule.of(pattern, owners))
        except ValueError:
            continue  # no pattern, which GitHub passes over as well
    return tuple(map(tuple, sections.values()))


def _until_comment(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("#"):
            return
        yield word
