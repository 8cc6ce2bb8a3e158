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
        if isinstance(finder, _Once) and finder.name == name:
            finder.actions.append(action)
            return
    sys.meta_path.insert(0, _Once(name, action))


def call_each(matches: Callable[[str], bool], action: Callable[[ModuleType], None]) -> None:
    """Call `action` with each module whose full name matches, whenever one has been executed from now on."""
    sys.meta_path.insert(0, _Each(matches, action))


class _Finder(MetaPathFinder):
    """Lets the other finders find a module, and has its loader call us at the end.

    The loader found stays the object that it is, for everybody who asks for the module's spec; only its
    `exec_module` is ours until it has run.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self._is_meant(fullname):
            return None
        spec = self._found_by_others(fullname, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._watch(fullname, spec.loader)
        return spec

    def _is_meant(self, name: str) -> bool:
        raise NotImplementedError

    def _executed(self, module: ModuleType) -> None:
        raise NotImplementedError

    @staticmethod
    def _found_by_others(name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if isinstance(finder, _Finder) or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _watch(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if module.__name__ == name and self in sys.meta_path:
                del loader.exec_module
                self._executed(module)

        loader.exec_module = exec_module


class _Once(_Finder):
    """For one module, the first time."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name = name
        self.actions = [action]

    def _is_meant(self, name: str) -> bool:
        return name == self.name

    def _executed(self, module: ModuleType) -> None:
        sys.meta_path.remove(self)
        for action in self.actions:
            action()


class _Each(_Finder):
    """For all modules whose names match."""

    def __init__(self, matches: Callable[[str], bool], action: Callable[[ModuleType], None]) -> None:
        self._matches = matches
        self._action = action

    def _is_meant(self, name: str) -> bool:
        return self._matches(name)

    def _executed(self, module: ModuleType) -> None:
        self._action(module)
