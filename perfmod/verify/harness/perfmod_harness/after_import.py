"""Doing something to a module right after the script has imported it, without importing it ourselves."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any, Callable, Sequence

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def call(name: str, action: Callable[[], None]) -> None:
    """Call `action` once, as soon as the module `name` has been executed; at once where that has happened."""
    if name in sys.modules:
        action()
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) and finder.name == name:
            finder.actions.append(action)
            return
    sys.meta_path.insert(0, _Finder(name, action))


class _Finder(MetaPathFinder):
    """Lets the other finders find the module, and has its loader call us at the end.

    The loader found stays the object that it is, for everybody who asks for the module's spec; only its
    `exec_module` is ours until it has run.
    """

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name = name
        self.actions = [action]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = self._found_by_others(path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._watch(spec.loader)
        return spec

    def _found_by_others(self, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if isinstance(finder, _Finder) or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(self.name, path, target)
            if spec is not None:
                return spec
        return None

    def _watch(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == self.name and self in sys.meta_path:
                del loader.exec_module
                sys.meta_path.remove(self)
                for action in self.actions:
                    action()

        loader.exec_module = exec_module
