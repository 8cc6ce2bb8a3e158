"""Folders as bytes that travel between machines: files and folders, no links, nothing outside of the folder."""

from __future__ import annotations

import contextlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from perfmod.errors import Failure
from perfmod.migrate.jobs import RESULT

LIMIT: Final = 200 * 10**6
"""Bytes that are sent at most, packed: all of it is held in memory by both sides and by what is between."""
_LEVEL: Final = 1
_MODE: Final = 0o777


def packed(folder: Path, names: Iterable[str]) -> bytes:
    """The files and folders of these names, as far as they are there. Raises `OSError`, and `Failure` for too much."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz", compresslevel=_LEVEL) as archive:
        for name in names:
            if (folder / name).exists():
                archive.add(folder / name, name, filter=_kept)
    if len(found.getbuffer()) > LIMIT:
        size = len(found.getbuffer()) / 10**6
        raise Failure(f"{size:.0f} MB are more than the {LIMIT // 10**6} MB that travel; use a shared folder")
    return found.getvalue()


def unpack(data: bytes, folder: Path) -> None:
    """Put what was packed into a folder that is there. Raises `OSError`, and `Failure` where it is not sound."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                _unpack(archive, member, folder)
    except (tarfile.TarError, EOFError) as error:
        raise Failure(f"what came back cannot be unpacked: {error}") from error


def unpack_results(data: bytes, folder: Path) -> None:
    """Put what came back into a job's folder: the result last, so that where it is, all is. Raises as `unpack`."""
    with tempfile.TemporaryDirectory(prefix=".back-", dir=folder) as name:
        back = Path(name)
        unpack(data, back)
        for path in sorted(back.iterdir(), key=lambda path: path.name == RESULT):
            target = folder / path.name
            if path.is_dir():
                with contextlib.suppress(FileNotFoundError):
                    shutil.rmtree(target)
            path.rename(target)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return member if member.isfile() or member.isdir() else None


def _unpack(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise Failure("what came back has files outside of its folder")
    target = folder / path
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
    elif member.isfile() and (content := archive.extractfile(member)) is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(member.mode & _MODE)
