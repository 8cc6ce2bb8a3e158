"""A project as it lies on the disk: its files, their imports, and the groups in which they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from attrs import define

from perfmod.config import Configurations, Settings
from perfmod.files import FoundFile, Unreadable, read
from perfmod.project.groups import Facts, Group, groups
from perfmod.project.links import Links
from perfmod.project.modules import INSTALLABLE, Modules
from perfmod.project.statements import Imported, folders_added, imports
from perfmod.project.territory import Territory
from perfmod.transforms.decoding import SourceError, code_of, is_notebook

_TRAINING = (b".backward(", b"training_step", b"DataLoader(")
"""What training loops are told by."""
_LOOKING_UP = (
    b"import_module",
    b"__import__",
    b"spec_from_file",
    b"exec(",
    b"instantiate(",
    b"%run",
    b"run_line_magic",
)
"""What files are told by that find others by texts."""


@define(eq=False, slots=False)
class Project:
    """One project. Files are named by their paths from its root, with slashes.

    Attributes:
        root: absolute, links followed.
        facts: what every file says without being parsed; None for one that cannot be read.
        mentioned: the words of all import statements, whatever they mean; None where files are found by texts.
    """

    root: Path
    modules: Modules
    links: Links
    facts: Mapping[str, Facts | None]
    mentioned: frozenset[str] | None

    @classmethod
    def read(
        cls, root: Path, given: Iterable[FoundFile], configurations: Configurations, matters: Callable[[bytes], bool]
    ) -> Project:
        """Read the project at `root` that holds the `given` files.

        `configurations` tell what is excluded; `matters`, whether a file of these bytes holds what rules look for.
        """
        given = list(given)
        territory = Territory(root, frozenset(INSTALLABLE), configurations=configurations)
        around = territory.files(file.given for file in given)
        paths = sorted({*around, *(file.real for file in given)}, key=lambda path: path.parts)
        statements: dict[str, tuple[Imported, ...]] = {}
        facts: dict[str, Facts | None] = {}
        added: dict[str, tuple[str, ...]] = {}
        blank: set[str] = set()
        looks_up = False
        for path in paths:
            name = path.relative_to(root).as_posix()
            statements[name], facts[name] = (), None
            try:
                data = _code(read(FoundFile(name, path, False, Settings(), root)), name)
            except Unreadable:
                continue
            statements[name] = imports(data)
            added[name] = folders_added(data)
            facts[name] = Facts(len(data), matters(data), any(word in data for word in _TRAINING))
            looks_up = looks_up or any(word in data for word in _LOOKING_UP)
            if not data.strip():
                blank.add(name)
        installable = {folder.relative_to(root).as_posix() for folder in territory.installable}
        modules = Modules(
            frozenset(name for name in facts if name.endswith(".py")),
            frozenset("" if folder == "." else folder for folder in installable),
            added,
        )
        written = (each for found in statements.values() for each in found)
        mentioned = frozenset(word for each in written for word in (*each.module.split("."), *each.names))
        return cls(root, modules, Links.of(statements, modules, blank), facts, None if looks_up else mentioned)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The files that have to be parsed, in the sets in which they are read together."""
        return tuple(groups(self.links, {name: facts or Facts(0, False, False) for name, facts in self.facts.items()}))

    def is_beside_training(self, file: str) -> bool:
        """Whether other files train, and no import names this one, which is no part of a package."""
        path = PurePosixPath(file)
        if (
            self.mentioned is None
            or path.stem in self.mentioned
            or (path.parent / "__init__.py").as_posix() in self.facts
        ):
            return False
        return any(facts.trains for name, facts in self.facts.items() if facts is not None and name != file)

    def followed(self, file: str) -> Iterator[str]:
        """The files that run when `file` does, as far as they are read together with it or with what it imports."""
        reached = self.links.reached(file)
        group = self._nearest_group(file)
        yield from (other for other in (group.files if group is not None else ()) if other in reached)

    def _nearest_group(self, file: str) -> Group | None:
        seen, ring = {file}, [file]
        while ring:
            for each in ring:
                if each in self._group_of:
                    return self._group_of[each]
            ring = sorted({other for each in ring for other in self.links.imported(each)} - seen)
            seen.update(ring)
        return None

    @cached_property
    def _group_of(self) -> Mapping[str, Group]:
        return {file: group for group in self.groups for file in group.files}


def _code(data: bytes, name: str) -> bytes:
    """The Python of a file: of a notebook its cells, without the outputs that most of it may be."""
    if is_notebook(name):
        with suppress(SourceError):
            return code_of(data, name).encode("utf-8", "replace")
    return data
