"""Copies of the user's tree, one per run: a script may write checkpoints into it and resume from them the next time.

What a script writes under an absolute path of its own making (`/data/checkpoints`), no copy can catch.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import Factory, define

from perfmod.errors import Failure, explain
from perfmod.roots import shown
from perfmod.verify.interrupts import held_back
from perfmod.verify.tree import SCRATCH_PREFIX, Tree, TreeFile

if sys.platform == "linux":
    import fcntl

LIMIT = 2 * 2**30
"""Bytes of a tree that is copied for every run, where the file system cannot share them between copies."""
_FICLONE = 0x40049409
_MORE_ROOM = "; free some, or set TMPDIR to a folder with more room"
_LEAVE_OUT = "; --link it if the script does not write there"
_CURES = {errno.ENOSPC: _MORE_ROOM, errno.EDQUOT: _MORE_ROOM, errno.EACCES: _LEAVE_OUT}
_REMOVAL_ATTEMPTS = 5


@define
class Scratch:
    """The temporary folder of a verification. Several threads may make and remove rooms in it.

    Attributes:
        limit: see `LIMIT`.
        at_end: what is closed before it is removed.
    """

    folder: Path
    limit: int = LIMIT
    at_end: contextlib.ExitStack = Factory(contextlib.ExitStack)
    _numbers: Iterator[int] = Factory(itertools.count)

    @classmethod
    @contextlib.contextmanager
    def temporary(cls, limit: int = LIMIT) -> Iterator[Scratch]:
        """A new one in TMPDIR; gone at the end of the block, with all that lies in it.

        Raises:
            Failure: it cannot be made, or cannot be removed.
        """
        try:
            folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve()
        except OSError as error:
            raise Failure(f"no scratch folder: {explain(error)}; set TMPDIR to a folder with room") from error
        scratch = cls(folder, limit)
        try:
            yield scratch
        finally:
            with held_back():
                scratch.at_end.close()
                _remove(folder)

    def states(self) -> Path:
        """An empty folder in which runs hand over states; it stays until the end."""
        folder = self.folder / f"states-{next(self._numbers)}"
        with _explained(f"{shown(folder)}: cannot be made"):
            folder.mkdir()
        return folder

    @contextlib.contextmanager
    def room(self) -> Iterator[Path]:
        """An empty folder for one run, removed after it."""
        folder = self.folder / str(next(self._numbers))
        with _explained(f"{shown(folder)}: cannot be made"):
            folder.mkdir()
        try:
            yield folder
        finally:
            with held_back():
                _remove(folder)

    def copy(self, tree: Tree, replacements: Mapping[Path, bytes], room: Path) -> Path:
        """A fresh copy of `tree` in `room`; returns its root.

        The folders above the root are there, too, with nothing in them but the links beyond the tree: a script that
        writes to `../checkpoints` stays in the room.

        Args:
            tree: what to copy, with modes and times.
            replacements: other bytes for some files, and those of new ones, by their paths relative to the root.
            room: the folder of the run.

        Raises:
            Failure: the tree is too large, the disk is full, a file cannot be read or was edited in the meantime.
        """
        clones = _clones(tree, room)
        if not clones:
            self._check_size(tree)
        top = room / "tree"
        root = top / tree.root.relative_to(tree.root.anchor)
        with _explained(f"{shown(tree.root)}: cannot be copied to {shown(room)}"):
            root.mkdir(parents=True)
            for folder in tree.folders:
                (root / folder).mkdir()
            for path, text in tree.links:
                (root / path).symlink_to(text)
            for path in tree.beyond:
                place = top / path.relative_to(path.anchor)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(path)
        for file in tree.files:
            if file.path not in replacements:
                _copy_file(tree, file, root, clones)
        for path, data in replacements.items():
            _write(tree, path, data, root)
        return root

    def _check_size(self, tree: Tree) -> None:
        size = tree.size
        if size > self.limit:
            largest = ", ".join(f"{shown(path)} {_readable(bytes_)}" for path, bytes_ in tree.largest())
            raise Failure(
                f"{shown(tree.root)}: {_readable(size)} is too much to copy for every run (largest: {largest}); "
                "--link PATH links to data that the script only reads"
            )
        free = shutil.disk_usage(self.folder).free
        if size > free:
            raise Failure(
                f"{shown(self.folder.parent)}: no space for a copy of {shown(tree.root)} ({_readable(size)}, free are "
                f"{_readable(free)}); set TMPDIR to a folder with room, or --link the data that the script only reads"
            )


def _clones(tree: Tree, room: Path) -> bool:
    """Whether the file system shares the bytes of a file between copies, tried on a file of the tree."""
    largest = max(tree.files, key=lambda file: file.size, default=None)
    if sys.platform != "linux" or largest is None:
        return False
    trial = room / "clone"
    try:
        return _clone(tree.root / largest.path, trial)
    finally:
        trial.unlink(missing_ok=True)


def _clone(source: Path, target: Path) -> bool:
    """Make `target` share the bytes of `source` until one of them is written to; False where that is not possible."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError), source.open("rb") as reading, target.open("wb") as writing:
            fcntl.ioctl(writing.fileno(), _FICLONE, reading.fileno())
            return True
    return False


def _copy_file(tree: Tree, file: TreeFile, root: Path, clones: bool) -> None:
    source, target = tree.root / file.path, root / file.path
    code = file.path.suffix == ".py"
    try:
        with _explained(f"{shown(source)}: cannot be copied to {shown(target.parent)}"):
            state = source.stat()
            if code and (state.st_size, state.st_mtime_ns) != (file.size, file.modified_ns):
                raise Failure(f"{shown(source)}: was edited while perfmod ran; run it again")
            if not (clones and _clone(source, target)):
                shutil.copyfile(source, target)
            target.chmod(stat.S_IMODE(state.st_mode))
            os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))
    except FileNotFoundError as error:
        # Other programs' temporary files come and go; code does not.
        if code:
            raise Failure(f"{shown(source)}: was removed while perfmod ran; run it again") from error


def _write(tree: Tree, path: Path, data: bytes, root: Path) -> None:
    target = root / path
    if not target.parent.resolve().is_relative_to(root):
        raise Failure(f"{shown(tree.root / path)}: is reached through a link out of the tree, so it is not copied")
    with _explained(f"{shown(target)}: cannot be written"):
        target.unlink(missing_ok=True)
        target.write_bytes(data)
        with contextlib.suppress(FileNotFoundError):
            target.chmod(stat.S_IMODE((tree.root / path).stat().st_mode))


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn an `OSError` into a `Failure` that says what to do. `FileNotFoundError` goes on as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "")
        raise Failure(f"{what}: {explain(error)}{cure}") from error


def _remove(folder: Path) -> None:
    """Remove a folder whatever the script made of its permissions.

    Raises:
        Failure: something in it cannot be removed.
    """
    for attempt in range(_REMOVAL_ATTEMPTS):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        for parent, folders, _ in os.walk(folder):
            for path in [Path(parent), *(Path(parent, name) for name in folders)]:
                # Never through a link: it may lead to the user's own files.
                if not path.is_symlink():
                    with contextlib.suppress(OSError):
                        path.chmod(0o700)
        time.sleep(0.1 * attempt)
    raise Failure(f"{shown(folder)}: cannot be removed; remove it by hand")


def _readable(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
