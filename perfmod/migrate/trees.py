r"""What steps leave in a repository, as trees of git: blobs are put into an index, and no file is touched.

A file may lie in the working tree of an analysis in another form than in the repository: with `\r\n`, in another
encoding, or put through a filter, as `.gitattributes` says. Both forms are known by their digests, and a change in
either becomes a blob in the form of the repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from attrs import define, frozen

from perfmod.disk import digest
from perfmod.git import GitFailed
from perfmod.migrate.obstacles import Obstacle
from perfmod.migrate.results import Cause, Outcome, Step
from perfmod.roots import shown

Git = Callable[..., bytes]
"""`WorkingTree.git`."""
_FILES = ("100644", "100755")
"""Modes of what is no link and no submodule."""
_CONVERTING = ("filter", "working-tree-encoding", "eol", "text", "ident")


@frozen
class Committed:
    """A step and the tree that it leaves."""

    step: Step
    tree: str


@define
class _File:
    """A file on a branch: its mode, whether it is told about in the form of the repository, and what it holds now."""

    mode: str
    is_plain: bool
    digest: str


def trees_of(git: Git, commit: str, steps: Sequence[tuple[int, Step]], contents: Path, index: Path) -> list[Committed]:
    """The trees of the steps of one branch that begins at a commit, without steps that change nothing.

    The steps come with their numbers, below which `contents` holds their files. `index` is a file for an index of ours,
    which nobody needs afterwards.

    Raises:
        Obstacle: a file holds something else than a step says, or cannot be put into the form of the repository.
        Failure: git fails. OSError: the contents cannot be read.
    """
    git("read-tree", commit, index=index)
    last = git("rev-parse", f"{commit}^{{tree}}").decode().strip()
    paths = list(dict.fromkeys(path for _, step in steps for path in step.files))
    entries = _entries(git, commit, paths)
    digests = _digests(git, [blob for _, blob in entries.values()])
    files: dict[str, _File] = {}
    made: list[Committed] = []
    for number, step in steps:
        for path, before in zip(step.files, step.before, strict=True):
            if path in files:
                if files[path].digest != before:
                    raise _other(path)
            elif not before:
                files[path] = _new_file(git, commit, path)
            elif path not in entries:
                raise _obstacle(f"{shown(path)}: is no file in the commit {commit[:12]}")
            else:
                mode, blob = entries[path]
                is_plain = digests[blob] == before
                files[path] = _File(mode, True, before) if is_plain else _file(git, commit, path, mode, blob, before)
        sources = [contents / str(number) / path for path in step.files]
        blobs = _blobs(git, [files[path] for path in step.files], step.files, sources)
        lines = [f"{files[path].mode} {blob}\t{path}" for path, blob in zip(step.files, blobs, strict=True)]
        git("update-index", "-z", "--index-info", stdin=b"\0".join([*map(os.fsencode, lines), b""]), index=index)
        tree = git("write-tree", index=index).decode().strip()
        if tree != last:
            made.append(Committed(step, tree))
        last = tree
        for path, source in zip(step.files, sources, strict=True):
            files[path].digest = digest(source.read_bytes())
    return made


def _entries(git: Git, commit: str, paths: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Mode and blob of each path that is a file of a commit."""
    wanted = set(paths)
    found: dict[str, tuple[str, str]] = {}
    for entry in filter(None, git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")):
        about, _, name = entry.partition(b"\t")
        mode, _, blob = about.decode().split()
        if mode in _FILES and (path := os.fsdecode(name)) in wanted:
            found[path] = mode, blob
    return found


def _digests(git: Git, blobs: Sequence[str]) -> dict[str, str]:
    """The digests of blobs."""
    said = git("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
    found: dict[str, str] = {}
    at = 0
    while at < len(said):
        end = said.index(b"\n", at)
        blob, _, size = said[at:end].decode().split()
        at = end + 1 + int(size)
        found[blob] = digest(said[end + 1 : at])
        at += 1
    return found


def _file(git: Git, commit: str, path: str, mode: str, blob: str, before: str) -> _File:
    """A file of a commit that git changes between repository and working tree."""
    conversions = _conversions(git, path)
    try:
        there = git("cat-file", "--filters", f"{commit}:{path}")
    except GitFailed as error:
        raise _other(path, conversions) from error
    if digest(there) != before:
        raise _other(path, conversions)
    if _converted(git, path, there) != blob:
        raise _obstacle(f"{shown(path)}: git would change more of it than its lines{conversions}; normalise it first")
    return _File(mode, is_plain=False, digest=before)


def _new_file(git: Git, commit: str, path: str) -> _File:
    """A file that a step makes; git brings it into the form of the repository."""
    if git("--literal-pathspecs", "ls-tree", "--full-tree", commit, "--", path):
        raise _obstacle(f"{shown(path)}: would be made, and the commit {commit[:12]} has it already")
    return _File(_FILES[0], is_plain=False, digest="")


def _blobs(git: Git, files: Sequence[_File], paths: Sequence[str], sources: Sequence[Path]) -> Iterator[str]:
    """The blobs of new contents, which are written to the repository."""
    plain = [_quoted(source) + b"\n" for file, source in zip(files, sources, strict=True) if file.is_plain]
    options = ("-w", "--no-filters", "--stdin-paths")
    written = iter(git("hash-object", *options, stdin=b"".join(plain)).decode().split())
    for file, path, source in zip(files, paths, sources, strict=True):
        yield next(written) if file.is_plain else _converted(git, path, source.read_bytes())


def _converted(git: Git, path: str, data: bytes) -> str:
    """The blob that git makes of what lies in a working tree."""
    return git("hash-object", "-w", f"--path={path}", "--stdin", stdin=data).decode().strip()


def _quoted(path: Path) -> bytes:
    """A path as git reads it in a line."""
    escaped = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _other(path: str, conversions: str = "") -> Obstacle:
    return _obstacle(f"{shown(path)}: holds something else in the repository than when it was analysed{conversions}")


def _obstacle(reason: str) -> Obstacle:
    return Obstacle(Outcome.FAILED, Cause.GIT, reason)


def _conversions(git: Git, path: str) -> str:
    """What `.gitattributes` says of a file that lets git change its bytes, as the end of a sentence."""
    fields = git("check-attr", "-z", *_CONVERTING, "--", path).split(b"\0")
    said = [
        f"{fields[at + 1].decode()}={shown(os.fsdecode(fields[at + 2]))}"
        for at in range(0, len(fields) - 2, 3)
        if fields[at + 2] not in (b"unspecified", b"unset")
    ]
    return f" (.gitattributes converts it: {', '.join(said)})" if said else ""
