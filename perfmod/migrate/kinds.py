"""What sort of project it is, told from what its files import: a pilot looks at some of each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfmod.transforms.decoding import is_notebook

_IMPORT = re.compile(rb'^[ \t"]*(?:from|import)[ \t]+([A-Za-z_][\w.]*)', re.MULTILINE)
"""An import as the first thing on a line, in the text of a script or in the JSON of a notebook."""
_FRAMEWORKS = {
    "lightning": ("lightning", "pytorch_lightning"),
    "accelerate": ("accelerate",),
    "ignite": ("ignite",),
    "fastai": ("fastai",),
    "transformers": ("transformers",),
}
"""Packages that run training loops, by the name of the kind."""


def kind_of(files: Iterable[tuple[str, bytes]]) -> str:
    """The kind of a project with these files, by path.

    That is a framework that runs its training, `distributed`, `notebooks`, `script` or `project` (one file with torch,
    or several), or `other` without torch.
    """
    imported: set[str] = set()
    trains: list[str] = []
    for path, data in files:
        modules = {match[1].decode() for match in _IMPORT.finditer(data)}
        imported |= modules
        if any(_is_of(module, "torch") for module in modules):
            trains.append(path)
    for kind, packages in _FRAMEWORKS.items():
        if any(_is_of(module, package) for module in imported for package in packages):
            return kind
    if not trains:
        return "other"
    if any(_is_of(module, "torch.distributed") or _is_of(module, "torch.multiprocessing") for module in imported):
        return "distributed"
    if all(is_notebook(path) for path in trains):
        return "notebooks"
    return "script" if len(trains) == 1 else "project"


def _is_of(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
