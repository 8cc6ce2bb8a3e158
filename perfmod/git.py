"""git, asked through its own command."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from perfmod.codemods.patch import unquoted
from perfmod.errors import Failure, UsageMistake, explain
from perfmod.roots import shown

OF_ONE_REPOSITORY = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIFF_OPTS",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
)
"""What git sets for its hooks, which would lead a command in another folder astray, and what changes its output."""
PLAIN_DIFF = (
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
"""Options with which `git diff` says the same under any configuration."""
_BESIDE = ("warning:", "hint:", "remote:")
"""How lines begin that come before the one that tells what is wrong."""
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class GitFailed(Failure):
    """git ended with an error.

    Attributes:
        said: the first line that it said, apart from what it says beside.
    """

    def __init__(self, command: str, said: str) -> None:
        super().__init__(f"git {command}: {said}")
        self.said = said


def git(
    folder: Path,
    *arguments: str,
    stdin: bytes = b"",
    timeout: float = 60.0,
    environment: Mapping[str, str] = MappingProxyType({}),
    is_apart: bool = False,
) -> bytes:
    """What git prints when it is run in `folder`, for at most `timeout` seconds.

    `environment` are variables beside those of the user. Where it `is_apart`, it runs in a session of its own: it has
    no terminal to ask questions on, and is ended with everything that it started.

    Raises:
        UsageMistake: `folder` is in no repository.
        GitFailed: git says that something is wrong.
        Failure: git is not installed, or does not end.
    """
    unset = {name: value for name, value in os.environ.items() if name not in OF_ONE_REPOSITORY}
    ours = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
    try:
        process = subprocess.Popen(
            ["git", "-c", "core.quotePath=off", *arguments],
            cwd=folder,
            env={**unset, **ours, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=is_apart,
        )
    except FileNotFoundError as error:
        # The same error tells that there is no such folder.
        reason = "git is not installed, or not on the PATH" if folder.is_dir() else f"{shown(folder)}: no such folder"
        raise Failure(reason) from error
    except OSError as error:
        raise Failure(f"git cannot be run: {explain(error)}") from error
    # The end of `with` waits for the process and not for those that it started, which may hold the pipes open.
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout)
        except subprocess.TimeoutExpired as error:
            _kill(process, is_apart)
            raise Failure(f"git {arguments[0]} takes more than {timeout:g} s") from error
        except BaseException:
            _kill(process, is_apart)
            raise
    if process.returncode == 0:
        return stdout
    said = _said(stderr.decode("utf-8", "backslashreplace").splitlines()) or f"ended with {process.returncode}"
    if "not a git repository" in said:
        raise UsageMistake(f"{shown(folder)}: is in no git repository")
    raise GitFailed(arguments[0], said)


def _kill(process: subprocess.Popen[bytes], is_apart: bool) -> None:
    if is_apart and hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _said(lines: Sequence[str]) -> str:
    """The line that tells what is wrong; empty where there is none."""
    telling = (line for line in lines if line.strip() and not line.lower().startswith(_BESIDE))
    return shown(next(telling, lines[0] if lines else ""))


Lines = tuple[tuple[int, int], ...]
"""Ranges of lines, first and last, from 1; lines end where git says."""


class Changes:
    """What changed in a working tree since it forked from a revision, committed or not."""

    def __init__(self, root: Path, since: str) -> None:
        """`root` is the folder of the repository, links followed.

        Raises:
            UsageMistake: git does not know the revision, or it has no commit in common with the current one.
            Failure: see `git`.
        """
        self._root = root
        self._base = _base(root, since)
        listed = git(root, "ls-tree", "-r", "-z", "--name-only", "--full-tree", self._base).split(b"\0")
        self._old_names = {os.fsdecode(name): os.fsdecode(name) for name in listed if name}
        self._old_names |= {new: old for old, new in self._renames()}
        self._lines = dict(self._changed_lines())

    def lines(self, path: Path) -> Lines | None:
        """What was added or changed in a file, given by its real path; None where all of it is new."""
        name = self._name(path)
        return self._lines.get(name, ()) if name in self._old_names else None

    def before(self, path: Path) -> bytes | None:
        """The bytes that a file, given by its real path, had; None where it was not there. Raises `Failure`."""
        old = self._old_names.get(self._name(path))
        return None if old is None else git(self._root, "cat-file", "blob", f"{self._base}:{old}")

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _renames(self) -> Iterator[tuple[str, str]]:
        fields = self._diff("--name-status", "--diff-filter=R", "-z").split(b"\0")
        for number in range(0, len(fields) - 2, 3):
            yield os.fsdecode(fields[number + 1]), os.fsdecode(fields[number + 2])

    def _changed_lines(self) -> Iterator[tuple[str, Lines]]:
        diff = self._diff("--unified=0", "--inter-hunk-context=0")
        lines = iter(diff.split(b"\n"))
        name, ranges = "", list[tuple[int, int]]()
        for line in lines:
            if line.startswith(b"+++ "):
                name, ranges = _path(line[4:]), []
            elif hunk := _HUNK.match(line):
                start, added = int(hunk[2]), int(hunk[3] or 1)
                if added:
                    ranges.append((start, start + added - 1))
                    yield name, tuple(ranges)
                # Lines of the content may look like headers.
                left = int(hunk[1] or 1) + added
                while left:
                    left -= not next(lines).startswith(b"\\")

    def _diff(self, *options: str) -> bytes:
        return git(self._root, "diff", *PLAIN_DIFF, "--find-renames", *options, self._base, "--")


def _base(root: Path, since: str) -> str:
    """The commit since which something counts as changed: where the current branch forked from a revision."""
    try:
        revision = commit(root, since)
    except GitFailed as error:
        if since == "HEAD":
            # Nothing was committed yet, so everything is new: the empty tree.
            return git(root, "hash-object", "-t", "tree", "--stdin").decode().strip()
        raise UsageMistake(f"{shown(since)}: git knows no such revision in {shown(root)}") from error
    try:
        return git(root, "merge-base", revision, "HEAD").decode().split()[0]
    except GitFailed as error:
        hint = "fetch more of the history (in GitHub Actions: `fetch-depth: 0`)"
        raise UsageMistake(f"{shown(since)} and HEAD have no commit in common here; {hint}") from error


def commit(root: Path, revision: str) -> str:
    """The name of the commit that a revision stands for. Raises `GitFailed` where it stands for none."""
    return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()


def _path(written: bytes) -> str:
    """The path in a `+++` line: with a prefix, a tab behind it if it holds blanks, and in C quotes where it has to."""
    return unquoted(written.rstrip(b"\r\t")).removeprefix("b/")
