"""Which floor may import what, read off the sources."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {"transforms": "perfmod.transforms", "codemods": "perfmod.codemods", "perfmod": "perfmod"}
NEVER_IMPORTED = {"torch", "torchvision", "numpy", "runpy"}
HARNESS = ROOT / "perfmod" / "verify" / "harness"
"""Runs in the user's interpreter, as a package of its own that has nothing but the standard library and torch."""


def sources(floor: str) -> list[Path]:
    """The Python files of a top-level folder, without what the symbolic links show a second time."""
    folder = ROOT / floor
    links = [path for path in folder.iterdir() if path.is_symlink()]
    apart = [*links, HARNESS]
    return sorted(path for path in folder.rglob("*.py") if not any(path.is_relative_to(other) for other in apart))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every module that is imported anywhere in a file; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path.is_relative_to(HARNESS), f"{path}:{node.lineno}: relative import"
            yield from ((node.lineno, f"{'.' * node.level}{node.module or ''}.{alias.name}") for alias in node.names)


def within(name: str, package: str) -> bool:
    """Whether `name` is `package` or something in it."""
    return name == package or name.startswith(f"{package}.")


def allowed(floor: str, name: str) -> bool:
    """Whether a file of `floor` may import `name`."""
    if any(within(name, module) for module in NEVER_IMPORTED):
        return False
    if any(within(name, top) for top in ("codemods", "transforms")):
        return False
    if not within(name, "perfmod") or floor == "perfmod" or name == "perfmod.__version__":
        return True
    below = {"transforms": ("transforms",), "codemods": ("codemods", "transforms")}[floor]
    return any(within(name, FLOORS[other]) for other in below)


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_stay_on_their_floor(floor: str) -> None:
    # What is put into users' scripts needs torch, and is never imported here.
    files = [path for path in sources(floor) if path.parent.name != "recorder"]
    assert files
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for line, name in imports(path)
        if not allowed(floor, name)
    ]
    assert wrong == []


def test_the_harness_needs_the_standard_library_and_torch_only() -> None:
    files = sorted(HARNESS.rglob("*.py"))
    assert files
    own = {"torch", "perfmod_harness"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for line, name in imports(path)
        if not name.startswith(".") and (top := name.split(".")[0]) not in own and top not in sys.stdlib_module_names
    ]
    assert wrong == []


@pytest.mark.parametrize(("floor", "name"), [
    ("transforms", "perfmod.codemods.engine"),
    ("transforms", "perfmod.codemods"),
    ("transforms", "perfmod.cli.main"),
    ("codemods", "perfmod.config.Options"),
    ("codemods", "transforms.rule"),
    ("perfmod", "torch"),
    ("perfmod", "torch.utils.data"),
])  # fmt: skip
def test_what_is_refused(floor: str, name: str) -> None:
    assert not allowed(floor, name)
