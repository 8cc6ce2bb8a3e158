"""The files of a project as a commit holds them, read from git's store: bytes are what was committed, whatever filters,
line ends and attributes a checkout would apply, and nobody's working tree or index is looked at or written.

A snapshot is an uncompressed tar. Symbolic links that leave the tree are not in it, and neither are submodules.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import posixpath
import re
import stat
import tarfile
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from perfmod import disk
from perfmod.errors import Failure, UsageMistake, explain
from perfmod.files import SUFFIXES
from perfmod.git import GitFailed, commit, git
from perfmod.ignores import DEFAULT_EXCLUDES, Ignores, Patterns
from perfmod.migrate.targets import is_repository
from perfmod.project.territory import ENVIRONMENTS
from perfmod.roots import shown

_READ = frozenset({"CODEOWNERS", ".gitignore", ".gitattributes"})
"""What the analysis may read beside files with the endings that somebody looks for, and our own folder."""
_OURS = ".perfmod"
_LARGEST = 20_000_000
"""Bytes of a file that is data, not code."""
_MOST = 4_000_000_000
"""Bytes of a snapshot, which is held in memory."""
_MOST_LINKS = 40
"""That lead to one another; where systems give up as well."""
_PATIENCE = 600.0
_OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
"""What is missing from a partial clone is not fetched, which would write to it; the second is for git before 2.44."""
_GIT_FOLDER = re.compile(r"\.git[ .]*(?::.*)?|git~\d+[ .]*", re.IGNORECASE)
"""How git's own folder may be written on some system."""
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that macOS passes over in names."""
_T = TypeVar("_T")


class NoCommits(Failure):
    """A repository in which nothing was committed yet."""


class Incomplete(Failure):
    """A repository that lacks files of the commit, as a partial clone does."""


@frozen
class _Entry:
    """A file or a link, by its path from the root, with `/`; undecodable bytes are surrogates.

    Attributes:
        source: name of the object in git's store, or the path on the disk.
    """

    path: str
    source: str
    is_link: bool
    is_executable: bool


def commit_of(repository: Path, revision: str = "") -> str:
    """The commit that a revision stands for, here or at `origin`; that of HEAD where it is empty.

    Raises:
        NoCommits: HEAD is asked for and there is none.
        Failure: git knows no such revision, or cannot be asked.
    """
    for name in (revision, f"refs/remotes/origin/{revision}") if revision else ("HEAD",):
        with contextlib.suppress(GitFailed):
            return commit(_root(repository), name)
    if revision:
        raise Failure(f"{shown(repository)}: git knows no revision {shown(revision)}")
    try:
        # Without a commit, HEAD leads to a branch that is not there; what is broken fails in another way.
        git(repository, "symbolic-ref", "--quiet", "HEAD")
        git(repository, "rev-list", "--max-count=1", "--all")
    except GitFailed as error:
        raise Failure(f"{shown(repository)}: HEAD leads nowhere: {error.said}") from error
    raise NoCommits(f"{shown(repository)}: has no commits")


def is_dirty(repository: Path) -> bool:
    """Whether the working tree, if there is one, differs from HEAD in files that git tracks. Raises `Failure`."""
    root = _root(repository)
    index = os.fsdecode(git(root, "rev-parse", "--git-path", "index")).removesuffix("\n")
    if not (root / index).exists():
        return False  # bare, or never checked out
    options = ("--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return bool(git(root, "-c", "core.fsmonitor=false", "status", *options, timeout=_PATIENCE))


def content_digest(folder: Path) -> str:
    """Stands for the commit of a folder that is no repository: another one as soon as a file of it changes.

    Large files are known by size and time. Raises `Failure`.
    """
    found = hashlib.blake2b(digest_size=16)
    for entry in _on_disk(folder):
        path = Path(entry.source)
        try:
            state = path.lstat()
            content = f"{state.st_size} {state.st_mtime_ns}" if state.st_size > _LARGEST else disk.digest(_data(entry))
        except OSError as error:
            raise Failure(f"{shown(path)}: cannot be read: {explain(error)}") from error
        line = f"{entry.path}\0{entry.is_link:d}{entry.is_executable:d}{content}\0"
        found.update(line.encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def pack(repository: Path, commit: str, *, everything: bool) -> bytes:
    """The files of a commit as a tar, always the same for the same commit.

    Without `everything`, only what an analysis may read: Python, notebooks, configurations, lists of requirements and
    owners. Of a folder that is no repository (`is_repository`), `commit` means nothing: it is read from the disk,
    without what no walk enters: caches, virtual environments, `build` and the like.

    Raises:
        Incomplete: a file is missing from the store; it names the first one.
        Failure: something cannot be read, or is more than a snapshot may hold.
    """
    if is_repository(repository):
        entries = _committed(_root(repository), commit)
        store: _Store = _Objects(_root(repository), commit)
    else:
        entries = _on_disk(repository)
        store = _Files()
    return _tar(_chosen(entries, store, everything), store)


def unpack(data: bytes, folder: Path) -> None:
    """Write the files of a snapshot to a folder, which is empty or does not exist.

    It looks like the root of a repository then, in which git finds none. Nothing is written outside of it, over another
    file or through a link, whatever the tar holds; names that the system does not tell apart leave the first file.

    Raises `Failure`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        root = Path(os.path.realpath(folder))
        (root / ".git").mkdir()
        links: list[tuple[str, str]] = []
        for member, content in _members(data):
            if member.issym():
                links.append((member.name, member.linkname))
            elif _is_safe(member.name):
                _write(root, member.name, content(), is_executable=bool(member.mode & stat.S_IXUSR))
        # Last, so that no file is written through one.
        _link(root, [(path, target) for path, target in links if _is_safe(path) and _stays(path, target)])
    except OSError as error:
        raise Failure(f"{shown(folder)}: a snapshot cannot be written: {explain(error)}") from error


def contents(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The Python files and notebooks in a snapshot: paths and contents. Raises `Failure`."""
    for member, content in _members(data):
        if member.isreg() and member.name.endswith(SUFFIXES):
            yield member.name, content()


def _root(repository: Path) -> Path:
    """Raises `UsageMistake` where it is no repository: git would look for one further up."""
    if not is_repository(repository):
        raise UsageMistake(f"{shown(repository)}: is in no git repository")
    return repository


class _Store:
    """Where contents come from."""

    def sizes(self, entries: Sequence[_Entry]) -> list[int]:
        """Bytes of each, in the order of the entries."""
        raise NotImplementedError

    def read(self, entries: Sequence[_Entry]) -> Iterator[bytes]:
        """The contents, in the order of the entries; of links, where they lead."""
        raise NotImplementedError


@frozen
class _Objects(_Store):
    """git's store."""

    repository: Path
    commit: str

    def sizes(self, entries: Sequence[_Entry]) -> list[int]:
        lines = self._batch("--batch-check", entries).split(b"\n")
        found: list[int] = []
        for entry, line in zip(entries, lines, strict=False):
            self._require(entry, line)
            found.append(int(line.split()[-1]))
        return found

    def read(self, entries: Sequence[_Entry]) -> Iterator[bytes]:
        printed = memoryview(self._batch("--batch", entries))
        at = 0
        for entry in entries:
            # A line is short; to look for its end in all that follows would copy it.
            line = bytes(printed[at : at + 200]).partition(b"\n")[0]
            self._require(entry, line)
            start = at + len(line) + 1
            at = start + int(line.split()[-1]) + 1
            yield bytes(printed[start : at - 1])

    def _batch(self, option: str, entries: Sequence[_Entry]) -> bytes:
        names = "".join(f"{entry.source}\n" for entry in entries).encode()
        try:
            return self._git("cat-file", option, stdin=names)
        except GitFailed as error:
            # Of a partial clone: git wants to fetch what is missing, and says nothing of where it belongs.
            missing = self._missing()
            first = next((entry for entry in entries if entry.source in missing), None)
            if first is None:
                raise
            raise self._incomplete(first) from error

    def _missing(self) -> Collection[str]:
        options = ("--objects", "--no-object-names", "--no-walk", "--missing=print")
        lines = self._git("rev-list", *options, self.commit).decode().splitlines()
        return {line[1:] for line in lines if line.startswith("?")}

    def _require(self, entry: _Entry, line: bytes) -> None:
        if not line or line.endswith(b" missing"):
            raise self._incomplete(entry)

    def _incomplete(self, entry: _Entry) -> Incomplete:
        what = f"{shown(self.repository)}: {shown(entry.path)} is missing from git's store"
        return Incomplete(f"{what}; get the whole of a partial clone with `git fetch --refetch --no-filter`")

    def _git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return git(self.repository, *arguments, stdin=stdin, timeout=_PATIENCE, environment=_OFFLINE)


class _Files(_Store):
    """The disk."""

    def sizes(self, entries: Sequence[_Entry]) -> list[int]:
        return [self._try(lambda entry: os.lstat(entry.source).st_size, entry) for entry in entries]

    def read(self, entries: Sequence[_Entry]) -> Iterator[bytes]:
        return (self._try(_data, entry) for entry in entries)

    def _try(self, what: Callable[[_Entry], _T], entry: _Entry) -> _T:
        try:
            return what(entry)
        except OSError as error:
            raise Failure(f"{shown(entry.source)}: cannot be read: {explain(error)}") from error


def _committed(repository: Path, commit: str) -> list[_Entry]:
    """What a commit holds, without submodules. Raises `Failure`."""
    listing = ("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)
    printed = git(repository, *listing, timeout=_PATIENCE, environment=_OFFLINE)
    entries: list[_Entry] = []
    for line in printed.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, kind, name = facts.decode().split()
        if kind == "blob":
            text = path.decode("utf-8", "surrogateescape")
            entries.append(_Entry(text, name, mode == "120000", mode == "100755"))
    return entries


def _on_disk(folder: Path) -> list[_Entry]:
    """What a folder holds, sorted, without what no walk enters. Raises `Failure`."""
    ignores = Ignores((), Patterns.of(folder, DEFAULT_EXCLUDES))
    entries: list[_Entry] = []
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            with os.scandir(current) as listing:
                found = list(listing)
            for entry in found:
                path = Path(entry.path)
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(state.st_mode):
                    is_environment = any(os.path.lexists(path / marker) for marker in ENVIRONMENTS)
                    if not is_environment and not ignores.match(path, is_folder=True):
                        pending.append(path)
                elif entry.name != ".git" and (stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode)):
                    inner = path.relative_to(folder).as_posix()
                    is_executable = bool(state.st_mode & stat.S_IXUSR) and not entry.is_symlink()
                    entries.append(_Entry(inner, entry.path, entry.is_symlink(), is_executable))
        except OSError as error:
            raise Failure(f"{shown(current)}: cannot be read: {explain(error)}") from error
    return sorted(entries, key=lambda entry: entry.path.split("/"))


def _data(entry: _Entry) -> bytes:
    return os.fsencode(os.readlink(entry.source)) if entry.is_link else Path(entry.source).read_bytes()  # noqa: PTH115


def _chosen(entries: Iterable[_Entry], store: _Store, everything: bool) -> list[tuple[_Entry, str]]:
    """What goes into a snapshot; of links, where they lead. Raises `Failure`."""
    held = {entry.path: entry for entry in entries if _is_safe(entry.path)}
    links = [entry for entry in held.values() if entry.is_link]
    texts = (data.decode("utf-8", "surrogateescape") for data in (store.read(links) if links else ()))
    targets = {link.path: text for link, text in zip(links, texts, strict=True) if _stays(link.path, text)}
    wanted = {path for path in held if everything or _is_read(path)}
    # A file may be read by the name of a link to it.
    wanted |= {inner for path in wanted & targets.keys() for inner in _led_to(path, targets) if inner in held}
    # Links to folders are cheap, and lead to what is read.
    chosen = [entry for path, entry in held.items() if path in targets or (path in wanted and not entry.is_link)]
    sizes = store.sizes(chosen) if chosen else []
    sized = [
        (entry, size)
        for entry, size in zip(chosen, sizes, strict=True)
        if everything or size <= _LARGEST or entry.path.endswith(SUFFIXES)
    ]
    if sum(size for _, size in sized) > _MOST:
        largest, size = max(sized, key=lambda pair: pair[1])
        what = (
            f"has more than {_MOST / 1e9:g} GB of files, the largest is {shown(largest.path)} with {size / 1e9:.1f} GB"
        )
        raise Failure(f"a snapshot cannot be held: the project {what}; keep data elsewhere")
    return [(entry, targets.get(entry.path, "")) for entry, _ in sized]


def _is_read(path: str) -> bool:
    """Whether an analysis may read a file."""
    *folders, name = path.split("/")
    return name in _READ or name.endswith(disk.ENDINGS) or _OURS in folders


def _led_to(path: str, targets: Mapping[str, str]) -> Iterator[str]:
    """What a link leads to, and that one in turn."""
    for _ in range(_MOST_LINKS):
        if path not in targets:
            return
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), targets[path]))
        yield path


def _is_safe(path: str) -> bool:
    """Whether a path can be written below a folder on every system that this runs on, and is not git's own."""
    parts = path.split("/")
    if os.name == "nt" and re.search(r'[\\:*?"<>|\x00-\x1f]|[ .](?:/|$)', path):
        return False
    return not any(part in ("", ".", "..") or _is_git_folder(part) for part in parts) and "\0" not in path


def _is_git_folder(part: str) -> bool:
    seen = _UNSEEN.sub("", unicodedata.normalize("NFKC", part))
    return _GIT_FOLDER.fullmatch(seen) is not None


def _stays(path: str, target: str) -> bool:
    """Whether a link leads to something in the tree, as it is written."""
    if not target or target.startswith("/") or "\0" in target or (os.name == "nt" and re.search(r"[\\:]", target)):
        return False
    inner = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return inner == "." or _is_safe(inner)


def _tar(chosen: Sequence[tuple[_Entry, str]], store: _Store) -> bytes:
    files = [entry for entry, target in chosen if not target]
    contents = store.read(files) if files else iter(())
    written = io.BytesIO()
    # In this format names are kept as bytes.
    with tarfile.open(
        fileobj=written, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for entry, target in chosen:
            member = tarfile.TarInfo(entry.path)
            if target:
                member.type, member.linkname = tarfile.SYMTYPE, target
                tar.addfile(member)
            else:
                data = next(contents)
                member.size, member.mode = len(data), 0o755 if entry.is_executable else 0o644
                tar.addfile(member, io.BytesIO(data))
    return written.getvalue()


def _members(data: bytes) -> Iterator[tuple[tarfile.TarInfo, Callable[[], bytes]]]:
    """The files and links in a tar, each with what reads it. Raises `Failure`."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() else None
                if file is not None:
                    yield member, file.read
                elif member.issym():
                    yield member, bytes
    except tarfile.TarError as error:
        raise Failure(f"a snapshot is damaged: {error}") from error


def _write(root: Path, path: str, data: bytes, *, is_executable: bool) -> None:
    place = _made(root, path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(place, flags, 0o777 if is_executable else 0o666)
    except (FileExistsError, NotADirectoryError):
        return  # the system does not tell the name from one that was before
    with os.fdopen(handle, "wb") as file:
        file.write(data)


def _link(root: Path, links: Iterable[tuple[str, str]]) -> None:
    """Make links, and remove those that leave the folder by way of others."""
    made: list[Path] = []
    for path, target in links:
        place = _made(root, path)
        # What is spelled otherwise may be a link by now, where the system does not tell names apart.
        if Path(os.path.realpath(place.parent)) == place.parent:
            with contextlib.suppress(FileExistsError, NotADirectoryError):
                place.symlink_to(target)
                made.append(place)
    while escaping := [place for place in made if not _is_inside(Path(os.path.realpath(place)), root)]:
        for place in escaping:
            place.unlink()
        made = [place for place in made if place not in escaping]


def _made(root: Path, path: str) -> Path:
    place = root / path
    with contextlib.suppress(FileExistsError, NotADirectoryError):
        place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _is_inside(real: Path, root: Path) -> bool:
    return real.is_relative_to(root) and not any(map(_is_git_folder, real.relative_to(root).parts))
