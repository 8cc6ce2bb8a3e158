"""Who imports whom in a project."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, cached_property

from attrs import define, field

from perfmod.project.modules import Modules, is_in_library
from perfmod.project.statements import Imported


def is_package(file: str) -> bool:
    """Whether a file is the `__init__.py` of a package, which mostly hands on what others define."""
    return posixpath.basename(file) == "__init__.py"


@define(eq=False, slots=False)
class Links:
    """The imports of a project that lead to files of it; files are named as in `Modules`.

    Attributes:
        imports: for every file the files that it imports, by dotted name as it is written there.
        through: for files that take names through others (`from pkg import run`, where `pkg/__init__.py` has it from
            `pkg/loop.py`) the files where those have them from.
    """

    imports: Mapping[str, Mapping[str, str]]
    through: Mapping[str, Collection[str]] = field(factory=dict)

    @classmethod
    def of(
        cls, statements: Mapping[str, Sequence[Imported]], modules: Modules, blank: Collection[str] = frozenset()
    ) -> Links:
        """Resolve what files import. A name that may mean several files leads nowhere, like one to a `blank` file.

        Where both a neighbour and a file further up have the name, a script takes the neighbour, since Python puts
        its folder first. In a file that others import, it depends on who runs.
        """
        meant = {
            file: {name: modules.hits(name, file) for imported in found for name in _names(imported)}
            for file, found in statements.items()
        }
        _find_added(meant, modules)
        folders = {file: posixpath.dirname(file) for file in modules.files | statements.keys()}
        imported_from_afar = {
            hit
            for file, names in meant.items()
            for hits in names.values()
            for hit in hits
            if folders[hit] != folders[file]
        }

        def settled(file: str, name: str, hits: tuple[str, ...]) -> str | None:
            if len(hits) > 1:
                is_script = file not in imported_from_afar and not modules.is_package(folders[file])
                return modules.beside(name, file) if is_script else None
            return hits[0] if hits else None

        imports = {
            file: {
                name: target
                for name, hits in names.items()
                if (target := settled(file, name, hits)) is not None and target != file and target not in blank
            }
            for file, names in meant.items()
        }
        return cls(imports, _through(statements, imports))

    @cached_property
    def importers(self) -> Mapping[str, AbstractSet[str]]:
        """For every file that is imported, the files that import it."""
        found: dict[str, set[str]] = {}
        for file in self.imports:
            for target in self.imported(file):
                found.setdefault(target, set()).add(file)
        return found

    def imported(self, file: str) -> frozenset[str]:
        """The files that a file imports itself, or takes names from through these."""
        return frozenset(self.imports.get(file, {}).values()).union(self.through.get(file, ()))

    def open(self, unit: Collection[str]) -> set[str]:
        """Those files of a unit that files outside of it may import, themselves or from a package in it.

        Those of a library that rules know by name are imported by scripts that are not read with them.
        """
        found = {file for file in unit if is_in_library(file) or not self.importers.get(file, frozenset()) <= set(unit)}
        pending = [file for file in found if is_package(file)]
        while pending:
            new = self.imported(pending.pop()) & set(unit) - found
            found |= new
            pending += [file for file in new if is_package(file)]
        return found

    def neighbours(self, file: str) -> frozenset[str]:
        """The files that a file imports or is imported by; not kept, because in a large project these are millions."""
        return self.imported(file) | self.importers.get(file, frozenset())

    def reached(self, file: str) -> set[str]:
        """The files that run when `file` does: itself, what it imports, and so on."""
        found = {file}
        pending = [file]
        while pending:
            new = self.imported(pending.pop()) - found
            found |= new
            pending += new
        return found

    def components(self) -> Iterator[list[str]]:
        """The files in sets that no import leads out of, each sorted, in the order of their first files."""
        seen: set[str] = set()
        for file in sorted(self.imports):
            if file not in seen:
                component = {file}
                pending = [file]
                while pending:
                    new = self.neighbours(pending.pop()) - component
                    component |= new
                    pending += new
                seen |= component
                yield sorted(component)


def _find_added(meant: Mapping[str, dict[str, tuple[str, ...]]], modules: Modules) -> None:
    """Look up what is not found yet in the folders that the script puts on the path, for all that runs with it."""
    missing = {(file, name) for file, names in meant.items() for name, hits in names.items() if not hits}
    for script in filter(modules.added.get, meant) if missing else ():
        reached, pending = {script}, [script]
        while pending:
            file = pending.pop()
            for name, hits in meant.get(file, {}).items():
                if (file, name) in missing:
                    hits = tuple(dict.fromkeys((*hits, *modules.hits_added(name, script))))
                    meant[file][name] = hits
                pending += [hit for hit in hits if hit not in reached]
                reached.update(hits)


def _through(
    statements: Mapping[str, Sequence[Imported]], imports: Mapping[str, Mapping[str, str]]
) -> dict[str, frozenset[str]]:
    named: dict[str, dict[str, str]] = {}
    whole: dict[str, list[str]] = {}
    for file, found in statements.items():
        linked = [(each, imports[file][each.module]) for each in found if each.module in imports[file]]
        named[file] = {name: target for each, target in linked for name in each.names}
        whole[file] = [target for each, target in linked if each.takes_all]

    def taken(file: str, name: str | None) -> Iterator[tuple[str, str | None]]:
        """Where a file has a name from, or all that it has from others, by way of `*` perhaps."""
        if name is None:
            yield from ((target, each) for each, target in named.get(file, {}).items())
        elif name in named.get(file, {}):
            yield named[file][name], name
            return
        yield from ((target, name) for target in whole.get(file, ()))

    @cache
    def passed(file: str, name: str | None) -> frozenset[str]:
        """All files that a file has a name from, one through the other."""
        seen: set[tuple[str, str | None]] = set()
        pending = [(file, name)]
        while pending:
            new = [each for each in taken(*pending.pop()) if each not in seen]
            seen.update(new)
            pending += new
        return kept(frozenset(target for target, _ in seen))

    # Many files take the same things from the same package: of equal sets one is kept.
    same: dict[frozenset[str], frozenset[str]] = {}

    def kept(found: frozenset[str]) -> frozenset[str]:
        return same.setdefault(found, found)

    through: dict[str, frozenset[str]] = {}
    for file in statements:
        direct = {(target, name) for name, target in named[file].items()} | {(target, None) for target in whole[file]}
        found_through = frozenset[str]().union(*(passed(*each) for each in direct)) - {file}
        if found_through:
            through[file] = kept(found_through)
    return through


def _names(imported: Imported) -> Iterator[str]:
    """The dotted names that may be modules in an import, as they would be written to import them."""
    yield imported.module
    if imported.binds_package:
        package = imported.module.rpartition(".")[0]
        while package:
            yield package
            package = package.rpartition(".")[0]
    dot = "" if imported.module.endswith(".") else "."
    for name in imported.names:
        yield f"{imported.module}{dot}{name}"
