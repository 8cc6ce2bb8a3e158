"""What is compared: a script in its tree of files, some of them rewritten."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path

from attrs import field, frozen

from perfmod.codemods.patch import unified_diff
from perfmod.verify.tree import Tree

ORIGINAL = "original"
REWRITTEN = "rewritten"


@frozen
class Side:
    """One side of a comparison.

    Attributes:
        name: `original`, `rewritten`, or the rules of a stack, as `PM101+PM104`.
        tree: the user's files around the script.
        script: the script, relative to the tree's root.
        replacements: other bytes for some files, and those of new ones, by their paths relative to the root.
        nproc: processes that run it under `torchrun`; None runs it alone.
    """

    name: str
    tree: Tree
    script: Path
    replacements: Mapping[Path, bytes] = field(factory=dict)
    nproc: int | None = None

    @property
    def content(self) -> Hashable:
        """Equal for sides that run the same code, whatever they are called."""
        return self.tree.root, self.script, tuple(sorted(self.replacements.items())), self.nproc

    def holds(self, path: Path) -> bool:
        """Whether there is such a file on this side."""
        return path in self.replacements or (self.tree.root / path).exists()

    def data(self, path: Path) -> bytes:
        """The bytes of a file of this side; none where it cannot be read."""
        if path in self.replacements:
            return self.replacements[path]
        try:
            return (self.tree.root / path).read_bytes()
        except OSError:
            return b""

    def text(self, path: Path) -> str:
        """The code of a file of this side."""
        return self.data(path).decode("utf-8", "replace")


def difference(one: Side, other: Side) -> str:
    """What tells the sides apart, as a unified diff: of the rewritten and the new files, or of two scripts."""
    files = {path: path for path in other.replacements} or {one.script: other.script}
    diffs = (
        unified_diff(new.as_posix(), one.data(old) if one.holds(old) else None, other.data(new))
        for old, new in sorted(files.items())
    )
    return b"".join(diffs).decode("utf-8", "replace")
