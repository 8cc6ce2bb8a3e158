"""Files that are written for a torch before 0.4, whose copies take no `non_blocking`: their `async=` is no Python since
3.7.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath

from corpus_index import File, last

_PIN = re.compile(r"^\s*(?:-\s*)?(?:py)?torch\s*={1,2}\s*0\.[0-3](?!\d)", re.MULTILINE)
_LISTS = ("requirements*.txt", "environment*.yml", "environment*.yaml")


def dated_folders(tree: Path) -> frozenset[str]:
    """The folders of a tree with a list of requirements that asks for such a torch; the tree itself is `.`."""
    lists = (path for pattern in _LISTS for path in tree.rglob(pattern) if path.is_file())
    return frozenset(
        path.parent.relative_to(tree).as_posix()
        for path in lists
        if _PIN.search(path.read_text(encoding="utf-8", errors="replace"))
    )


def is_dated(file: File, folders: frozenset[str]) -> bool:
    """Whether a file stands under such a folder, or reads what it runs `backward` on as one had to: `loss.data[0]`."""
    if not folders.isdisjoint(map(str, PurePosixPath(file.path).parents)):
        return True
    nodes = list(ast.walk(file.module)) if ".data[0]" in file.text else []
    trained = {
        ast.unparse(call.func.value)
        for call in nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and last(call.func) == "backward"
    }
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "data"
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == 0
        and ast.unparse(node.value.value) in trained
        for node in nodes
    )
