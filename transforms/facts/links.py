"""Which modules of the world imports mean."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import libcst as cst

Place = cst.Module | str
"""A module of the world, or the dotted name of a package without an `__init__.py` that holds some."""


class Links:
    """Modules by the dotted names under which they may be imported.

    A name that two modules claim means neither of them.
    """

    def __init__(self, names: Mapping[cst.Module, Collection[str]], packages: Collection[cst.Module] = ()) -> None:
        self._names = names
        self._packages = frozenset(packages)
        claims: dict[str, set[cst.Module]] = {}
        for module, own in names.items():
            for name in own:
                claims.setdefault(name, set()).add(module)
        self._modules = {name: claimed.pop() for name, claimed in claims.items() if len(claimed) == 1}
        parts = [name.split(".") for name in self._modules]
        self._above = {".".join(part[:end]) for part in parts for end in range(1, len(part))}
        self._above.difference_update(claims)

    def place(self, name: str) -> Place | None:
        """What `import name` imports; `None` for what is not of the world."""
        return self._modules.get(name) or (name if name in self._above else None)

    def below(self, place: Place, name: str) -> Place | None:
        """The submodule of this name."""
        own = [place] if isinstance(place, str) else self._names[place] if place in self._packages else ()
        return self._only(f"{package}.{name}" for package in own)

    def origin(self, importer: cst.Module, module: str) -> Place | None:
        """The module that `from module import ...` takes from, where `module` may begin with dots."""
        name = module.lstrip(".")
        level = len(module) - len(name)
        if not level:
            return self.place(name)
        return self._only(self._absolute(importer, name, level))

    def _absolute(self, importer: cst.Module, name: str, level: int) -> Iterator[str]:
        """The dotted names that a relative one may stand for."""
        for own in self._names.get(importer, ()):
            parts = own.split(".")
            kept = len(parts) - level + (importer in self._packages)
            if kept > 0:
                yield ".".join((*parts[:kept], name)) if name else ".".join(parts[:kept])

    def _only(self, names: Iterator[str]) -> Place | None:
        found = {place for place in map(self.place, names) if place is not None}
        modules = {place for place in found if isinstance(place, cst.Module)} or found
        return modules.pop() if len(modules) == 1 else None
