"""Which modules of the world imports mean."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import libcst as cst
from attrs import define, field, frozen


@frozen
class Namespace:
    """A package without an `__init__.py` that holds modules of the world, as `importer` writes it."""

    importer: cst.Module
    name: str


Place = cst.Module | Namespace
"""What an import of the world gives."""


@define(eq=False)
class Links:
    """Modules of the world, by the dotted names under which they are imported.

    A name that two modules claim means neither of them.
    """

    _names: dict[cst.Module, tuple[str, ...]] = field(factory=dict, init=False)
    _claims: dict[str, set[cst.Module]] = field(factory=dict, init=False)
    _above: set[str] = field(factory=set, init=False)
    _imports: dict[cst.Module, Mapping[str, cst.Module]] = field(factory=dict, init=False)
    _packages: set[cst.Module] = field(factory=set, init=False)
    _open: set[cst.Module] = field(factory=set, init=False)

    def add(
        self,
        module: cst.Module,
        names: Collection[str],
        imports: Mapping[str, cst.Module] | None,
        *,
        is_package: bool,
        is_open: bool,
    ) -> None:
        """Make a module known.

        Args:
            module: the module.
            names: its dotted names.
            imports: the modules that it imports, by dotted name as it writes them; None where names tell.
            is_package: whether it is the `__init__.py` of a package.
            is_open: whether others import it that are not of the world.
        """
        self._names[module] = tuple(names)
        for name in names:
            self._claims.setdefault(name, set()).add(module)
            parts = name.split(".")
            self._above.update(".".join(parts[:end]) for end in range(1, len(parts)))
        if imports is not None:
            self._imports[module] = imports
        if is_package:
            self._packages.add(module)
        if is_open:
            self._open.add(module)

    def is_open(self, module: cst.Module) -> bool:
        """Whether others import a module that are not of the world."""
        return module in self._open

    def place(self, importer: cst.Module, name: str) -> Place | None:
        """What an import takes from, by its dotted name as written; `None` for what is not of the world."""
        imports = self._imports.get(importer)
        if imports is not None:
            inside = _joined(name, "")
            is_above = any(other.startswith(inside) for other in imports)
            return imports.get(name) or (Namespace(importer, name) if is_above else None)
        if name.startswith("."):
            return self._only(self._claimed(importer, absolute) for absolute in self._absolute(importer, name))
        return self._claimed(importer, name)

    def within(self, importer: cst.Module, package: str, name: str) -> Place | None:
        """What `from package import name` takes, where it is a module of its own."""
        place = self.place(importer, _joined(package, name))
        around = self.place(importer, package)
        return self.below(around, name) if place is None and around is not None else place

    def below(self, place: Place, name: str) -> Place | None:
        """The submodule of this name."""
        if isinstance(place, Namespace):
            return self.place(place.importer, _joined(place.name, name))
        own = self._names[place] if place in self._packages else ()
        return self._only(self._claimed(place, _joined(package, name)) for package in own)

    def _claimed(self, importer: cst.Module, name: str) -> Place | None:
        claimed = self._claims.get(name)
        if claimed is None:
            return Namespace(importer, name) if name in self._above else None
        return next(iter(claimed)) if len(claimed) == 1 else None

    def _absolute(self, importer: cst.Module, relative: str) -> Iterator[str]:
        """The dotted names that a relative one may stand for."""
        name = relative.lstrip(".")
        level = len(relative) - len(name)
        for own in self._names[importer]:
            parts = own.split(".")
            kept = len(parts) - level + (importer in self._packages)
            if kept > 0:
                yield ".".join((*parts[:kept], name)) if name else ".".join(parts[:kept])

    def _only(self, places: Iterable[Place | None]) -> Place | None:
        found = {place for place in places if place is not None}
        modules = {place for place in found if isinstance(place, cst.Module)} or found
        return modules.pop() if len(modules) == 1 else None


def _joined(package: str, name: str) -> str:
    return f"{package}{name}" if package.endswith(".") else f"{package}.{name}"
