"""The steps of an analysis on branches of a repository, while nobody's working tree, index or HEAD moves.

All commits of a branch are made in a working tree of its own, on no branch; at the end the branch is made to point at
the last one, at once. So a run can be killed at any moment: it leaves a whole branch or none, and the next run in the
same folder removes what else is left.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from perfmod.errors import Failure, PerfmodError, UsageMistake
from perfmod.git import GitFailed, git
from perfmod.migrate.obstacles import Obstacle
from perfmod.migrate.results import Branch, Branches, BranchesRequest, Cause, Outcome, Refused, Step
from perfmod.migrate.trees import Committed, trees_of
from perfmod.migrate.working_tree import WorkingTree
from perfmod.patches.messages import Message
from perfmod.report.wording import counted
from perfmod.roots import shown
from perfmod.verify.interrupts import terminable

_AUTHOR = re.compile(r"\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+)>\s*")
_MOST_NAMES = 3
_MOST_COMMITS = 200
"""Commits of others whose authors are looked at."""
_REBASED = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")
"""Files that name the branch to which somebody's working tree goes back later."""


def run(request: BranchesRequest, folder: Path) -> Branches | Refused:
    """Make the branches; `folder` is for what is needed meanwhile, and the same one when it is tried again.

    SIGTERM ends it after it has cleaned up, where this is the main thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    try:
        with terminable() if is_main else contextlib.nullcontext():
            return _run(request, Path(os.path.realpath(folder)))
    except Obstacle as error:
        return Refused(error.outcome, error.cause, error.reason)
    except (PerfmodError, OSError) as error:
        found = Obstacle.of(error) if request.repository.is_dir() else _vanished(request.repository)
        return Refused(found.outcome, found.cause, found.reason)


def clear(repository: Path, folder: Path) -> None:
    """Remove what a killed `run` in a folder has left in a repository, and end what it had started.

    Raises `Failure` where the repository is none any more or a process cannot be ended.
    """
    try:
        WorkingTree(repository, Path(os.path.realpath(folder)), {}, time.monotonic() + 60.0).remove()
    except UsageMistake as error:
        raise Failure(str(error)) from error


def _run(request: BranchesRequest, folder: Path) -> Branches:
    commit = _commit(request)
    by_branch, waiting = _by_branch(request), tuple(f"{request.branch}/{each}" for each in request.waiting)
    if not by_branch:
        return Branches((), waiting)
    tree = WorkingTree(request.repository, folder, _identity(request.repository, request.author), _deadline(request))
    branches: list[Branch] = []
    with tree.added(commit):
        for name, steps in by_branch.items():
            branching = _Branching(request, commit, name, evolve(tree, deadline=_deadline(request)))
            branches.append(branching.branch(steps))
    return Branches(tuple(branches), waiting)


def _deadline(request: BranchesRequest) -> float:
    return time.monotonic() + request.time_limit


def _commit(request: BranchesRequest) -> str:
    """The full name of the commit that was analysed. Raises `Obstacle`, `Failure`."""
    where = shown(request.repository)
    if not request.repository.is_dir():
        raise _vanished(request.repository)
    if not request.commit:
        raise Obstacle(Outcome.SKIPPED, Cause.NO_COMMITS, f"{where}: has no commits, so there is nothing to branch off")
    try:
        git(request.repository, "rev-parse", "--git-dir")
    except UsageMistake as error:
        raise Obstacle.failed(Cause.NO_REPOSITORY, str(error)) from error
    try:
        name = git(request.repository, "rev-parse", "--verify", "--quiet", f"{request.commit}^{{commit}}")
    except GitFailed as error:
        what = f"the commit {request.commit[:12]}, which was analysed, is not in it any more"
        raise Obstacle.failed(Cause.VANISHED, f"{where}: {what}; analyse it again") from error
    return name.decode().strip()


def _vanished(repository: Path) -> Obstacle:
    return Obstacle.failed(Cause.VANISHED, f"{shown(repository)}: is not there any more")


def _identity(repository: Path, author: str) -> dict[str, str]:
    """Variables that name author and committer: git's own, and where it has none, the author for both.

    Raises `Obstacle` where there is nobody.
    """
    given: dict[str, str] = {}
    if author:
        found = _AUTHOR.fullmatch(author)
        if found is None:
            raise Obstacle.failed(Cause.CONFIGURATION, f"{shown(author)}: is no author; write it as `Name <address>`")
        given = {"GIT_AUTHOR_NAME": found[1], "GIT_AUTHOR_EMAIL": found[2]}
        if not _is_known(repository, "COMMITTER"):
            given |= {"GIT_COMMITTER_NAME": found[1], "GIT_COMMITTER_EMAIL": found[2]}
    elif not (_is_known(repository, "AUTHOR") and _is_known(repository, "COMMITTER")):
        way_out = "set user.name and user.email with `git config`, or give --author 'Name <address>'"
        raise Obstacle.failed(Cause.GIT, f"{shown(repository)}: git does not know who makes commits there; {way_out}")
    return given


def _is_known(repository: Path, role: str) -> bool:
    try:
        git(repository, "-c", "user.useConfigOnly=true", "var", f"GIT_{role}_IDENT")
    except GitFailed:
        return False
    return True


def _by_branch(request: BranchesRequest) -> dict[str, list[tuple[int, Step]]]:
    """The steps of each branch that has not to wait, with their numbers."""
    found: dict[str, list[tuple[int, Step]]] = {}
    for number, step in enumerate(request.steps, start=1):
        if step.branch in request.waiting:
            continue
        name = f"{request.branch}/{step.branch}" if step.branch else request.branch
        found.setdefault(name, []).append((number, step))
    return found


@frozen
class _Branching:
    """One branch, made in a working tree that is there."""

    request: BranchesRequest
    start: str
    name: str
    tree: WorkingTree

    def branch(self, steps: Sequence[tuple[int, Step]]) -> Branch:
        """The branch as it is then."""
        try:
            self._require_possible()
            contents = Path(os.path.realpath(self.request.contents))
            planned = trees_of(self.tree.git, self.start, steps, contents, self.tree.spare_index)
            if not planned:
                return Branch(self.name, "", 0, Outcome.UNCHANGED, reason="its steps change nothing")
            return Branch(self.name, self._tip(planned), len(planned), Outcome.CHANGED)
        except Obstacle as error:
            return Branch(self.name, "", 0, error.outcome, error.cause, error.reason)
        except (PerfmodError, OSError) as error:
            found = Obstacle.of(error)
            return Branch(self.name, "", 0, found.outcome, found.cause, found.reason)

    def _tip(self, planned: Sequence[Committed]) -> str:
        """The last commit of the branch, which is made where it is not there. Raises `Obstacle`, `Failure`."""
        old = self._refs().get(self.name, "")
        if old and self._is_made(old, planned):
            return old
        if old:
            self._require_ours(old)
        self.tree.check_out(self.start)
        tip = self.start
        for each in planned:
            tip = self.tree.commit(each.tree, Message(each.step.subject, each.step.body).text)
        try:
            self.tree.point(self.name, tip, old or "0" * len(tip))
        except GitFailed as error:
            if self._refs().get(self.name, "") == old:
                raise
            raise self._somebody("was made or moved by somebody else meanwhile") from error
        return tip

    def _require_possible(self) -> None:
        """Raise `Obstacle` where there cannot be a branch of this name."""
        try:
            checked = git(self.request.repository, "check-ref-format", "--branch", self.name)
        except GitFailed as error:
            raise self._obstacle("is no name for a branch; give --branch another one") from error
        if os.fsdecode(checked).removesuffix("\n") != self.name:
            raise self._obstacle("is no name for a branch; give --branch another one")
        for other in self._refs():
            if other.startswith(f"{self.name}/") or self.name.startswith(f"{other}/"):
                way_out = f"delete it (`git branch -D {shown(other)}`) or give --branch another name"
                raise self._obstacle(f"git takes no such branch beside the branch {shown(other)}; {way_out}")

    def _refs(self) -> Mapping[str, str]:
        """The branches of this name, above it and below it, with their commits."""
        parts = self.name.split("/")
        names = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
        # For a name, git lists what is below it, too.
        patterns = [f"refs/heads/{name}" for name in names]
        listed = git(self.request.repository, "for-each-ref", "--format=%(objectname) %(refname)", *patterns)
        pairs = (line.split(" ", 1) for line in os.fsdecode(listed).splitlines())
        return {ref.removeprefix("refs/heads/"): commit for commit, ref in pairs}

    def _is_made(self, tip: str, planned: Sequence[Committed]) -> bool:
        """Whether the commits up to a tip leave just these trees: those of a run that was killed before it said so."""
        log = ("log", "--format=%T %P", f"--max-count={len(planned)}", "--first-parent", tip)
        rows = [line.split() for line in self.tree.git(*log).decode().splitlines()]
        parents = [row[1:] for row in rows]
        trees = [row[0] for row in reversed(rows)]
        is_straight = all(len(each) == 1 for each in parents) and parents[-1] == [self.start]
        return is_straight and trees == [each.tree for each in planned]

    def _require_ours(self, old: str) -> None:
        """Raise `Obstacle` unless the branch may be moved."""
        if self.request.tips.get(self.name) != old:
            count = int(self.tree.git("rev-list", "--count", f"{self.start}..{old}"))
            raise self._somebody(f"is there already, {self._whose(old, count)}")
        where = next((place for place, name in _in_use(self.request.repository) if name == self.name), None)
        if where is not None:
            way_out = "switch to another branch there, or give --branch another name"
            raise self._obstacle(f"is checked out in {shown(where)}, so it is not moved; {way_out}")

    def _whose(self, old: str, count: int) -> str:
        if not count:
            return f"at the commit {old[:12]}, where this campaign did not put it"
        log = ("log", "--format=%an", f"--max-count={_MOST_COMMITS}", f"{self.start}..{old}")
        authors = sorted(set(self.tree.git(*log).decode("utf-8", "backslashreplace").splitlines()))
        names = ", ".join(map(shown, authors[:_MOST_NAMES])) + (" and others" if len(authors) > _MOST_NAMES else "")
        return f"with {counted(count, 'commit')} by {names} that this campaign did not make"

    def _somebody(self, what: str) -> Obstacle:
        return self._obstacle(f"{what}; delete it (`git branch -D {shown(self.name)}`) or give --branch another name")

    def _obstacle(self, what: str) -> Obstacle:
        return Obstacle(Outcome.NEEDS_A_PERSON, Cause.BRANCH, f"the branch {shown(self.name)}: {what}")


def _in_use(repository: Path) -> Iterator[tuple[Path, str]]:
    """Working trees and the branches that they are on, or go back to after a rebase or bisection."""
    where = repository
    listed = git(repository, "worktree", "list", "--porcelain", "-z").split(b"\0")
    for line in map(os.fsdecode, listed):
        key, _, value = line.partition(" ")
        if key == "worktree":
            where = Path(value)
            yield from ((where, name) for name in _gone_from(where))
        elif key == "branch":
            yield where, value.removeprefix("refs/heads/")


def _gone_from(where: Path) -> Iterator[str]:
    """The branches to which a working tree goes back."""
    with contextlib.suppress(PerfmodError, OSError):
        folder = Path(os.fsdecode(git(where, "rev-parse", "--absolute-git-dir")).removesuffix("\n"))
        for name in _REBASED:
            if (folder / name).is_file():
                yield os.fsdecode((folder / name).read_bytes()).strip().removeprefix("refs/heads/")
