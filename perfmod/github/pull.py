"""The pull request that started the job, and what it changes."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen
from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from perfmod.errors import Failure, explain
from perfmod.git import PLAIN_DIFF, GitFailed, git

_PATIENCE = 600.0
"""Seconds for a command of git, which may fetch a whole history."""


@frozen
class PullRequest:
    """A pull request.

    Attributes:
        repository: the one it is for, `owner/name`.
        base, head: commits.
    """

    repository: str
    number: int
    base: str
    head: str


@frozen
class FileChange:
    """What a pull request does to one file; lines are those of its head, from 1.

    Attributes:
        added: the lines that are new or changed.
        hunks: the lines that its page shows around them, where comments may stand.
    """

    added: frozenset[int]
    hunks: tuple[range, ...]

    def hunk(self, first: int, last: int) -> range | None:
        """The hunk that holds all lines from `first` to `last`."""
        return next((hunk for hunk in self.hunks if first in hunk and last in hunk), None)


def pull_request(event: Path) -> PullRequest | None:
    """The pull request of the event that GitHub has recorded in a file; None for pushes and others.

    Raises:
        Failure: the file cannot be read, or is no event.
    """
    try:
        payload = json.loads(event.read_bytes())
        if "pull_request" not in payload:
            return None
        pull = payload["pull_request"]
        repository = payload["repository"]["full_name"]
        return PullRequest(repository, pull["number"], pull["base"]["sha"], pull["head"]["sha"])
    except OSError as error:
        raise Failure(f"{event}: cannot be read: {explain(error)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{event}: is no event of GitHub: {error!r}") from error


def changes(pull: PullRequest) -> Mapping[str, FileChange]:
    """What the pull request changes in Python files and notebooks since it branched off, by path from the root.

    Commits that a shallow checkout lacks are fetched. Raises `Failure`.
    """
    if not _have_common_commit(pull):
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == b"true"
        _git("fetch", "--quiet", "--no-tags", *(["--unshallow"] if shallow else []), "origin", pull.base, pull.head)
        if not _have_common_commit(pull):
            raise Failure(
                f"{pull.base} and {pull.head} have no commit in common; `fetch-depth: 0` of checkout gets all"
            )
    # As GitHub shows it: three lines of context, renamed files against their old name.
    shape = ("--unified=3", "--find-renames", *PLAIN_DIFF)
    diff = _git("diff", *shape, f"{pull.base}...{pull.head}", "--", "*.py", "*.ipynb")
    try:
        patch = PatchSet(diff.decode("utf-8", "replace"))
    except UnidiffParseError as error:
        raise Failure(f"git diff {pull.base}...{pull.head}: cannot be understood: {error}") from error
    return {
        file.path: FileChange(
            frozenset(line.target_line_no or 0 for hunk in file for line in hunk if line.is_added),
            tuple(range(hunk.target_start, hunk.target_start + hunk.target_length) for hunk in file),
        )
        for file in patch
    }


@contextlib.contextmanager
def checked_out(pull: PullRequest) -> Iterator[Path]:
    """A folder with the head of the pull request: the working tree may hold a merge, where lines are others.

    Raises `Failure`.
    """
    with tempfile.TemporaryDirectory(prefix="perfmod-") as parent:
        folder = Path(parent, "head")
        _git("worktree", "add", "--quiet", "--detach", str(folder), pull.head)
        try:
            yield folder
        finally:
            _git("worktree", "remove", "--force", str(folder))


def _have_common_commit(pull: PullRequest) -> bool:
    with contextlib.suppress(GitFailed):
        _git("merge-base", pull.base, pull.head)
        return True
    return False


def _git(*arguments: str) -> bytes:
    return git(Path.cwd(), *arguments, timeout=_PATIENCE)
