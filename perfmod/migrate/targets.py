"""The projects of a campaign: whole repositories, folders with Python, and addresses to clone from."""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from attrs import frozen

from perfmod import disk
from perfmod.errors import UsageMistake, explain
from perfmod.files import SUFFIXES
from perfmod.ignores import DEFAULT_EXCLUDES
from perfmod.roots import shown

_SCHEMES = ("https", "ssh", "file")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_SCP = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<path>[^:].*)")
"""What ssh is also written as: `git@host:owner/name`."""
_HOST_AT_FIRST = re.compile(r"(?:[\w-]+\.)+[a-z]{2,}/[^/]+/[^/]+/?")
_OWNER_AND_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_REVISION = re.compile(r"[^\s\x00-\x1f\x7f~^:?*\[\\-][^\s\x00-\x1f\x7f:?*\[\\]*")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_USER = re.compile(r"(?<=://)[^/\s]*@")
_UNSAFE = re.compile(r"[^\w.+-]")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
"""Names that are none for files on Windows."""
_DEPTH = 2
"""How many levels down repositories are looked for."""
_LONGEST = 120
"""Characters of a folder's name, which file systems limit to 255 bytes."""
_NO_CODE = frozenset(pattern.rstrip("/") for pattern in DEFAULT_EXCLUDES)


@frozen
class Project:
    """One project of a campaign.

    Attributes:
        name: unique in the campaign, such as `owner/name`; parts of it are safe as names of folders.
        location: the folder, or the address as it was given; `without_secrets` shows it.
        repository: its root, absolute. It may not exist: a clone that is still to be made, or a folder that vanished.
            A folder without repository is told by `is_repository`.
        revision: what is worked on; empty for what HEAD points at.
    """

    name: str
    location: str
    repository: Path
    revision: str = ""

    @property
    def is_remote(self) -> bool:
        """Whether its repository is cloned from an address."""
        return is_address(self.location)


@frozen
class _Found:
    """A project without its name.

    Attributes:
        key: the same for the same repository.
        names: what it may be called, the shortest first.
        folder: None for an address.
    """

    key: str
    location: str
    names: tuple[str, ...]
    folder: Path | None
    revision: str = ""


def projects(targets: Sequence[str], listing: Path | None, clones: Path) -> list[Project]:
    """The projects that targets lead to, each once, in the order in which they are given.

    A target is a repository, or a folder in one, which stands for all of it: only whole repositories are worked on.
    It is a folder that is in no repository: then it stands for the repositories that it holds, up to two levels down,
    or for itself where there are none and it holds Python. Or it is an address: https://, ssh://, git@host:, file://.

    Args:
        targets: relative to the current folder.
        listing: a file with one target a line, relative to its folder, with a revision behind a blank where it is
            wanted; `#` begins a comment. A path in it that does not exist is a project that has vanished.
        clones: the folder for the repositories of addresses.

    Raises:
        UsageMistake: a target that is none, with file and line where it is in the listing.
    """
    found: dict[str, _Found] = {}
    for each in (*_given(targets), *(() if listing is None else _listed(listing))):
        known = found.setdefault(each.key, each)
        if known.revision != each.revision:
            revisions = " and ".join(shown(one.revision or "HEAD") for one in (known, each))
            raise UsageMistake(f"{shown(without_secrets(each.location))}: is given with two revisions: {revisions}")
    return [
        Project(name, each.location, each.folder or clones.absolute() / folder_name(name), each.revision)
        for each, name in zip(found.values(), _names(tuple(found.values())), strict=True)
    ]


def folder_name(project_name: str) -> str:
    """The name of a folder for a project: one part, safe on every system, and unique as names in a campaign are."""
    flat = project_name.replace("/", "+")
    if len(flat) > _LONGEST:
        flat = f"{flat[:_LONGEST]}-{_digest(project_name)}"
    return f"_{flat}" if flat.startswith((".", "-")) or _RESERVED.match(flat) else flat


def is_address(target: str) -> bool:
    """Whether a target is cloned from somewhere."""
    return _SCHEME.match(target) is not None or (_SCP.fullmatch(target) is not None and not Path(target).exists())


def without_secrets(location: str) -> str:
    """A location as it may be shown: without the password or token of an address."""
    return _USER.sub("", location)


def is_repository(folder: Path) -> bool:
    """Whether a folder is the root of a repository, or a bare one; one that was emptied is none."""
    inner = folder / ".git"
    # A file in place of the folder leads to it: of worktrees and submodules.
    return _is_git_folder(folder) or _is_git_folder(inner) or inner.is_file()


def python_files(folder: Path) -> Iterator[Path]:
    """The Python files and notebooks in a folder, those on top first, without the folders that no walk enters."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NO_CODE)
        yield from (Path(place, name) for name in sorted(files) if name.endswith(SUFFIXES))


def _is_git_folder(folder: Path) -> bool:
    return os.path.lexists(folder / "HEAD") and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _given(targets: Iterable[str]) -> Iterator[_Found]:
    for target in targets:
        if not target:
            raise UsageMistake("a target is empty; . stands for the current folder")
        path = Path(os.path.realpath(target))
        if not is_address(target) and not os.path.lexists(path):
            raise UsageMistake(f"{shown(target)}: no such folder{_hint(target, path)}")
        yield from _of(target, Path())


def _listed(listing: Path) -> Iterator[_Found]:
    try:
        text = listing.read_bytes().decode("utf-8-sig", "surrogateescape")
    except OSError as error:
        raise UsageMistake(f"{shown(listing)}: cannot be read: {explain(error)}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if wanted := _COMMENT.sub("", line).strip():
            try:
                yield from _in_line(wanted, listing.parent)
            except (UsageMistake, ValueError) as error:
                raise UsageMistake(f"{shown(listing)}:{number}: {error}") from error


def _in_line(line: str, folder: Path) -> Iterator[_Found]:
    target, revision = line, ""
    # Folders may have blanks in their names.
    if len(words := line.split()) > 1 and not os.path.lexists(folder / line):
        target, revision = line[: -len(words[-1])].rstrip(), words[-1]
        if len(words) > 2 and not os.path.lexists(folder / target):
            raise UsageMistake(
                f"{shown(line)}: a line is one target, with a revision behind a blank where it is wanted"
            )
        if not _REVISION.fullmatch(revision):
            raise UsageMistake(f"{shown(revision)}: is no revision")
    if "\0" in target:
        raise UsageMistake(f"{shown(target)}: is no path")
    path = Path(os.path.realpath(folder / target))
    if is_address(target) or os.path.lexists(path):
        yield from _of(target, folder, revision)
    elif _HOST_AT_FIRST.fullmatch(target):
        raise UsageMistake(f"{shown(target)}: no such folder{_hint(target, path)}")
    else:
        yield _in_folder(path, revision)


def _of(target: str, base: Path, revision: str = "") -> Iterator[_Found]:
    """The projects of a target; paths are relative to `base`, and there is something."""
    if is_address(target):
        yield _at_address(target, revision)
        return
    real = Path(os.path.realpath(base / target))
    around = next((folder for folder in (real, *real.parents) if is_repository(folder)), None)
    if around is not None and real.is_dir():
        yield _in_folder(around.parent if around.name == ".git" else around, revision)
        return
    inner = sorted(set(_repositories(_entries(real, target), _DEPTH)))
    if inner:
        for folder in inner:
            yield _in_folder(folder, revision)
    elif next(python_files(real), None) is not None:
        if revision:
            raise UsageMistake(f"{shown(target)}: is in no repository, so it has no revision {shown(revision)}")
        yield _in_folder(real, "")
    else:
        raise UsageMistake(f"{shown(target)}: holds neither repositories, two levels down, nor Python files")


def _entries(folder: Path, target: str) -> list[Path]:
    """What lies in the folder that a target is. Raises `UsageMistake`."""
    try:
        return list(folder.iterdir())
    except NotADirectoryError as error:
        hint = "name the repository that it is in, or give a list of targets with --list"
        raise UsageMistake(f"{shown(target)}: is a file; {hint}") from error
    except OSError as error:
        raise UsageMistake(f"{shown(target)}: cannot be listed: {explain(error)}") from error


def _repositories(entries: Iterable[Path], depth: int) -> Iterator[Path]:
    """The repositories among entries of folders and below them; links to folders are followed."""
    for entry in entries:
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        if is_repository(entry):
            yield Path(os.path.realpath(entry))
        elif depth > 1:
            try:
                inner = list(entry.iterdir())
            except OSError:
                continue  # what cannot be listed holds nothing that could be worked on
            yield from _repositories(inner, depth - 1)


def _in_folder(folder: Path, revision: str) -> _Found:
    return _Found(str(folder), str(folder), _endings(folder.parts[1:]), folder, revision)


def _at_address(address: str, revision: str) -> _Found:
    if scp := _SCP.fullmatch(address):
        host, path = scp["host"], scp["path"]
    else:
        url = urlsplit(address)
        if url.scheme.lower() not in _SCHEMES:
            raise UsageMistake(
                f"{shown(without_secrets(address))}: begins with none of https://, ssh://, file://, git@"
            )
        host, path = url.hostname or "", url.path
        if not host and url.scheme.lower() != "file":
            raise UsageMistake(f"{shown(without_secrets(address))}: names no host")
    if any(not char.isprintable() for char in address):
        raise UsageMistake(f"{shown(without_secrets(address))}: holds a character that no address has")
    parts = PurePosixPath(path.rstrip("/").removesuffix(".git")).parts
    parts = tuple(part for part in parts if part not in ("/", "."))
    if not parts:
        raise UsageMistake(f"{shown(without_secrets(address))}: names no repository")
    places = (*([host.lower()] if host else []), *parts)
    names = [name for name in _endings(places) if name.count("/") or len(parts) == 1]
    return _Found(f"//{'/'.join(places)}", address, tuple(names), None, revision)


def _endings(parts: Sequence[str]) -> tuple[str, ...]:
    """The ends of a path as names, the shortest first."""
    safe = [_safe(part) for part in parts] or ["root"]
    return tuple("/".join(safe[-length:]) for length in range(1, len(safe) + 1))


def _safe(part: str) -> str:
    text = _UNSAFE.sub("-", part).rstrip(".")
    return text if text.strip(".") else "-"


def _names(found: Sequence[_Found]) -> list[str]:
    """Names for projects: the shortest that no other has, also where systems do not tell capital letters apart."""
    lengths = [0] * len(found)
    while True:
        names = [each.names[min(at, len(each.names) - 1)] for each, at in zip(found, lengths, strict=True)]
        used = Counter(map(_folded, names))
        shared = [index for index, name in enumerate(names) if used[_folded(name)] > 1]
        longer = [index for index in shared if lengths[index] + 1 < len(found[index].names)]
        if not longer:
            break
        for index in longer:
            lengths[index] += 1
    for index in shared:
        names[index] = f"{names[index]}-{_digest(found[index].key)}"
    return names


def _folded(name: str) -> str:
    return folder_name(name).casefold()


def _digest(text: str) -> str:
    return disk.digest(text.encode("utf-8", "surrogateescape"))[:8]


def _hint(target: str, path: Path) -> str:
    """What may have been meant where nothing is, as the end of a sentence."""
    if _HOST_AT_FIRST.fullmatch(target):
        return f"; an address begins with https://: https://{shown(target)}"
    try:
        near = difflib.get_close_matches(path.name, [each.name for each in path.parent.iterdir()], n=1)
    except OSError:
        near = []
    if near:
        return f"; did you mean {shown(Path(target).parent / near[0])}?"
    if _OWNER_AND_NAME.fullmatch(target):
        return f"; for a repository of GitHub say https://github.com/{shown(target)}"
    return ""
