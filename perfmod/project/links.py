"""Who imports whom in a project."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

from attrs import define

from perfmod.project.modules import Modules
from perfmod.project.statements import Imported


@define(eq=False, slots=False)
class Links:
    """The imports of a project that lead to files of it; files are named as in `Modules`.

    Attributes:
        imports: for every file the files that it imports, by dotted name as it is written there.
    """

    imports: Mapping[str, Mapping[str, str]]

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
        imported_from_afar = {
            hit
            for file, names in meant.items()
            for hits in names.values()
            for hit in hits
            if posixpath.dirname(hit) != posixpath.dirname(file)
        }

        def settled(file: str, name: str, hits: tuple[str, ...]) -> str | None:
            if len(hits) > 1:
                is_script = file not in imported_from_afar and not modules.is_package(posixpath.dirname(file))
                return modules.beside(name, file) if is_script else None
            return hits[0] if hits else None

        return cls(
            {
                file: {
                    name: target
                    for name, hits in names.items()
                    if (target := settled(file, name, hits)) is not None and target != file and target not in blank
                }
                for file, names in meant.items()
            }
        )

    @cached_property
    def importers(self) -> Mapping[str, frozenset[str]]:
        """For every file that is imported, the files that import it."""
        found: dict[str, set[str]] = {}
        for file, targets in self.imports.items():
            for target in targets.values():
                found.setdefault(target, set()).add(file)
        return {file: frozenset(importers) for file, importers in found.items()}

    def imported(self, file: str) -> frozenset[str]:
        """The files that a file imports itself."""
        return frozenset(self.imports.get(file, {}).values())

    @cached_property
    def neighbours(self) -> Mapping[str, frozenset[str]]:
        """For every file the files that it imports or is imported by."""
        return {file: self.imported(file) | self.importers.get(file, frozenset()) for file in self.imports}

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
                    new = self.neighbours[pending.pop()] - component
                    component |= new
                    pending += new
                seen |= component
                yield sorted(component)


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
