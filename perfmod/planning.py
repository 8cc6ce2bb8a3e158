"""Which files are examined, and which of them together: alone, or with their project."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import field, frozen

from perfmod.codemods.results import Part
from perfmod.config import Configurations, Settings
from perfmod.files import FoundFile
from perfmod.project.groups import Group
from perfmod.project.project import Project
from perfmod.project.territory import roots
from perfmod.roots import shown


@frozen
class Member:
    """One file of a `Unit`; the attributes are those of `perfmod.codemods.results.Given`, with real paths."""

    file: FoundFile
    part: Part = Part.ASKED
    imports: Mapping[str, Path] | None = field(default=None, eq=False)
    imported_elsewhere: bool = False
    is_beside_training: bool = False
    why_read: str = ""


@frozen
class Unit:
    """Files that are examined together.

    Attributes:
        settings: those of one of them; all have the same as far as rules are concerned.
        is_clear: whether their bytes were looked at already, and hold nothing that a rule could look for.
    """

    members: tuple[Member, ...]
    settings: Settings
    is_clear: bool = False


def alone(files: Iterable[FoundFile]) -> list[Unit]:
    """Every file for itself."""
    return [Unit((Member(file),), file.settings) for file in files]


def together(
    files: Sequence[FoundFile], matters: Callable[[bytes], bool], cwd: Path, configurations: Configurations
) -> list[Unit]:
    """The files with those of their projects that they are linked with.

    Every file of `files` is asked about in exactly one unit. So are the files that those given by name import, where
    they are of the same group. No file may be rewritten in two units. `matters` is whether bytes hold what rules look
    for; `configurations` tell the settings of files that were not found before.
    """
    units: list[Unit] = []
    for root in roots(file.given for file in files):
        inside = [file for file in files if file.given.is_relative_to(root)]
        project = Project.read(root, inside, configurations, matters)
        units += _Planning(project, inside, cwd, configurations).units()
    return sorted(units, key=lambda unit: min(_order(member) for member in unit.members))


def _order(member: Member) -> tuple[bool, tuple[str, ...]]:
    return member.part is not Part.ASKED, member.file.real.parts


class _Planning:
    """The units of one project."""

    def __init__(self, project: Project, files: Sequence[FoundFile], cwd: Path, configurations: Configurations) -> None:
        self.project, self.configurations = project, configurations
        self.is_absolute = all(Path(file.shown).is_absolute() for file in files)
        self.cwd = Path(os.path.realpath(cwd))
        self.asked = {self._name(file.real): file for file in files}
        for file in files:
            if file.named:
                for name in project.followed(self._name(file.real)):
                    self.asked.setdefault(name, self._found(name, self._settings(name)))

    def units(self) -> Iterator[Unit]:
        grouped: set[str] = set()
        for group in self.project.groups:
            yield from self._units_of(group)
            grouped.update(group.files)
        for name, file in self.asked.items():
            if name not in grouped:
                is_clear = not file.named and self.project.facts[name] is not None
                is_open = name in self.project.links.open({name})
                yield Unit((self._member(name, file, Part.ASKED, "", {name}, is_open),), file.settings, is_clear)

    def _units_of(self, group: Group) -> Iterator[Unit]:
        """One unit for all settings that files of the group are asked about under; mostly that is one."""
        names = (*group.files, *group.beside)
        asked = {name: self.asked[name].settings.of_rules for name in group.files if name in self.asked}
        for number, settings in enumerate(dict.fromkeys(asked.values())):

            def part(name: str, settings: Settings = settings, is_first: bool = number == 0) -> tuple[Part, str]:
                if name in group.beside:
                    return (
                        Part.READ,
                        "the project is so large that it is analysed in parts, and that file is in another",
                    )
                if asked.get(name) == settings:
                    return Part.ASKED, ""
                is_unnamed = is_first and name not in asked
                return (Part.UNNAMED, "") if is_unnamed else (Part.READ, "other settings hold for that file")

            whole = set(names)
            is_open = self.project.links.open(whole)
            members = (
                self._member(
                    name, self.asked.get(name) or self._found(name, settings), *part(name), whole, name in is_open
                )
                for name in names
            )
            yield Unit(tuple(members), next(self.asked[name].settings for name in asked if asked[name] == settings))

    def _member(self, name: str, file: FoundFile, part: Part, why_read: str, unit: set[str], is_open: bool) -> Member:
        targets = self.project.links.imports[name].items()
        imports = {written: self.project.root / target for written, target in targets if target in unit}
        is_beside_training = not file.named and self.project.is_beside_training(name)
        return Member(file, part, imports, is_open, is_beside_training, why_read)

    def _settings(self, name: str) -> Settings:
        return self.configurations.settings((self.project.root / name).parent)

    def _found(self, name: str, settings: Settings) -> FoundFile:
        path = self.project.root / name
        text = path if self.is_absolute else os.path.relpath(path, self.cwd)
        return FoundFile(shown(text), path, False, settings, path.parent)

    def _name(self, real: Path) -> str:
        return real.relative_to(self.project.root).as_posix()
