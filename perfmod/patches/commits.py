"""The steps of a series as commits, made by git itself: its hooks run, and author and signature are the user's.

`git commit --only` takes the named files and leaves the index and all other files as they are.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from perfmod.errors import Failure, Interrupted, UsageMistake, explain
from perfmod.git import OF_ONE_REPOSITORY, GitFailed, git
from perfmod.patches.messages import Message
from perfmod.patches.steps import Step
from perfmod.roots import git_root, shown
from perfmod.writing import NotWritten, replace

_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or `git am`",
}
"""What git is in the middle of, by what lies in its folder then."""
_PATIENCE = 10.0
"""Seconds that git has to clean up after Ctrl-C."""


def commit_command(message: str, only: Sequence[str] = ()) -> list[str]:
    """The command that commits with all hooks and as the user has configured it.

    Args:
        message: the file with the message, `-` for standard input.
        only: paths that are committed as they are in the working tree; without any, the index is.
    """
    commit = ["commit", "--quiet", "--cleanup=whitespace", f"--file={message}"]
    # What is said of pathspecs holds in hooks, too, so it is said only where there are some.
    return ["git", "--literal-pathspecs", *commit, "--only", "--", *only] if only else ["git", *commit]


def commit_environment() -> dict[str, str]:
    """Our environment, without what would lead git to another repository."""
    return {name: value for name, value in os.environ.items() if name not in OF_ONE_REPOSITORY}


class _Refused(Exception):
    """A commit that was not made; the files are as they were before it. The message says why."""


@frozen
class Repository:
    """A repository that is ready for commits.

    Attributes:
        root: its folder, links followed.
        branch: the current one; empty where HEAD is detached.
    """

    root: Path
    branch: str

    @classmethod
    def ready(cls, cwd: Path, new_branch: str | None) -> Repository:
        """The repository around `cwd`.

        Raises:
            UsageMistake: there is none, it is in the middle of something, or the new branch is there already.
        """
        found = git_root(Path(os.path.realpath(cwd)))
        if found is None:
            raise UsageMistake(f"{shown(cwd)}: is in no git repository, so --commits cannot make commits here")
        folder = Path(os.fsdecode(git(found, "rev-parse", "--absolute-git-dir")).removesuffix("\n"))
        for name, what in _UNDER_WAY.items():
            if (folder / name).exists():
                raise UsageMistake(f"{shown(found)}: is in the middle of {what}; finish it or abort it first")
        if new_branch is not None:
            _require_new(found, new_branch)
        with contextlib.suppress(GitFailed):
            branch = os.fsdecode(git(found, "symbolic-ref", "--short", "-q", "HEAD")).strip()
            return cls(found, branch)
        return cls(found, "")

    def require_clean(self, paths: Sequence[Path], new: Collection[Path] = ()) -> None:
        """Raise `UsageMistake` unless files (real paths) are as they were committed, or free to be made if `new`."""
        for path in paths:
            if git_root(path.parent) != self.root:
                raise UsageMistake(f"{shown(path)}: is not in the repository {shown(self.root)}")
        if not paths:
            return
        names = [path.relative_to(self.root).as_posix() for path in paths]
        tracked = git(self.root, "--literal-pathspecs", "ls-files", "-z", "--", *names).split(b"\0")
        for path, name in zip(paths, names, strict=True):
            if path in new:
                self._require_free(name, is_tracked=os.fsencode(name) in tracked)
            elif os.fsencode(name) not in tracked:
                raise UsageMistake(f"{shown(name)}: is not under version control; commit it first")
        status = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
        states = git(self.root, "--literal-pathspecs", *status, "--", *names).split(b"\0")
        for state in filter(None, states):
            name = shown(os.fsdecode(state[3:]))
            raise UsageMistake(f"{name}: has changes that are not committed; commit or stash them first")

    def _require_free(self, name: str, *, is_tracked: bool) -> None:
        """Raise `UsageMistake` unless git takes a new file of that name."""
        if is_tracked:
            raise UsageMistake(f"{shown(name)}: was removed, and would be made again; commit its removal first")
        with contextlib.suppress(GitFailed):  # where it is not ignored
            git(self.root, "check-ignore", "--quiet", "--", f"./{name}")
            raise UsageMistake(
                f"{shown(name)}: has to be made and committed, and git ignores it; change .gitignore first, or leave "
                "--commits out"
            )

    def switch_to_new(self, branch: str) -> Repository:
        """The repository on a new branch. Raises `Failure`."""
        git(self.root, "checkout", "--quiet", "-b", branch)
        return Repository(self.root, branch)

    def commit(self, steps: Sequence[tuple[Step, Message]], again: str) -> None:
        """Write the files of each step and commit them; `again` is the command that makes what is left.

        Raises:
            Failure: git or a hook refused a commit. The files are as they were before that one; those before it stay.
            Interrupted: Ctrl-C; likewise.
        """
        start = self._head()
        for number, (step, message) in enumerate(steps, start=1):
            with self._told(f"commit {number} of {len(steps)} ({message.subject})", start, again):
                self._commit(step, message)

    @contextlib.contextmanager
    def _told(self, what: str, start: bytes, again: str) -> Iterator[None]:
        """Turns the end of it into words about what was done since the commit `start`."""
        try:
            yield
        except _Refused as error:
            which = f"{what} was not made, and its files are as before"
            raise Failure(f"{which}: {error}; {self._made(start)}; `{again}` makes what is left") from error
        except KeyboardInterrupt as error:
            raise Interrupted(f"interrupted; {self._made(start)}; `{again}` makes what is left") from error

    def _made(self, start: bytes) -> str:
        count = int(git(self.root, "rev-list", "--count", f"{start.decode().strip()}..HEAD"))
        return f"{count} {'commit was' if count == 1 else 'commits were'} made"

    def _commit(self, step: Step, message: Message) -> None:
        """Raises `_Refused`, or `Failure` where a hook changed what was committed."""
        head = self._head()
        try:
            with self._refused(step):
                for path, after in step.after.items():
                    replace(path, after, step.before[path])
                self._announce(step.new)
                is_made = self._run_git(step, message)
        except KeyboardInterrupt:
            if self._head() == head:
                self._take_back(step)
            raise
        different = [shown(path.relative_to(self.root)) for path in _different(step.after)]
        if not is_made:
            self._take_back(step)
            if different:
                raise _Refused(
                    f"a hook changed {', '.join(different)}, as formatters do; to let it, run perfmod without "
                    "--commits and commit the result yourself, or switch the hook off"
                )
            raise _Refused("git or a hook refused it, for the reason above; remove that")
        if different:
            names = ", ".join(different)
            raise Failure(
                f"the commit ({message.subject}) was made, but a hook changed {names} in it; look at `git show HEAD`, "
                "and run perfmod again for the rest"
            )

    def _announce(self, new: Sequence[Path]) -> None:
        """Tell the index of new files without their content, or `git commit --only` would not know them.

        Raises `GitFailed`, for one that is ignored.
        """
        if new:
            names = [path.relative_to(self.root).as_posix() for path in new]
            git(self.root, "--literal-pathspecs", "add", "--intent-to-add", "--", *names)

    def _take_back(self, step: Step) -> None:
        """Give the files the bytes that they had before a step. Raises `Failure`."""
        _restore(step)
        if step.new:
            names = [path.relative_to(self.root).as_posix() for path in step.new]
            forget = ("rm", "--cached", "--force", "--quiet", "--ignore-unmatch")
            git(self.root, "--literal-pathspecs", *forget, "--", *names)

    @contextlib.contextmanager
    def _refused(self, step: Step) -> Iterator[None]:
        """Turns what goes wrong with the disk, or with git before it commits, into a refusal."""
        try:
            yield
        except NotWritten as error:
            # What somebody else wrote meanwhile stays.
            _restore(step, only_ours=True)
            raise _Refused(f"a file {error.reason}") from error
        except GitFailed as error:
            self._take_back(step)
            raise _Refused(str(error)) from error
        except OSError as error:
            self._take_back(step)
            raise _Refused(f"git cannot be run: {explain(error)}") from error

    def _run_git(self, step: Step, message: Message) -> bool:
        """Whether git made the commit; what it and the hooks say goes to stderr."""
        names = [path.relative_to(self.root).as_posix() for path in step.after]
        process = subprocess.Popen(
            commit_command("-", names),
            cwd=self.root,
            env=commit_environment(),
            stdin=subprocess.PIPE,
            stdout=2,
        )
        try:
            process.communicate(message.text.encode())
        except KeyboardInterrupt:
            # Killed, it would leave its lock behind.
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
            raise
        return process.returncode == 0

    def _head(self) -> bytes:
        return git(self.root, "rev-parse", "HEAD")


def _require_new(root: Path, branch: str) -> None:
    try:
        git(root, "check-ref-format", "--branch", branch)
    except GitFailed as error:
        raise UsageMistake(f"--branch {shown(branch)}: is no name for a branch") from error
    with contextlib.suppress(GitFailed):
        git(root, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        raise UsageMistake(f"--branch {shown(branch)}: that branch is there already; name a new one")


def _different(contents: Mapping[Path, bytes | None]) -> list[Path]:
    return [path for path, data in contents.items() if _read(path) != data]


def _restore(step: Step, *, only_ours: bool = False) -> None:
    """Give the files the bytes that they had before a step; `only_ours` those that hold what it writes.

    Raises `Failure`.
    """
    different = [path for path in _different(step.before) if not only_ours or _read(path) == step.after[path]]
    try:
        for path in different:
            replace(path, step.before[path], _read(path))
    except NotWritten as error:
        names = shlex.join(map(str, different))
        raise Failure(f"a file {error.reason}; `git checkout HEAD -- {names}` restores it") from error


def _read(path: Path) -> bytes | None:
    """The bytes of a file; None where it cannot be read, or is not there."""
    try:
        return path.read_bytes()
    except OSError:
        return None
