"""A working tree of our own of somebody's repository, with an index and a HEAD of its own, which leaves no trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from perfmod.disk import digest
from perfmod.errors import Failure
from perfmod.git import git
from perfmod.migrate import hooks
from perfmod.migrate.obstacles import Obstacle, cause_of
from perfmod.migrate.results import Cause
from perfmod.patches.commits import commit_command, commit_environment
from perfmod.roots import shown
from perfmod.verify.family import Family
from perfmod.verify.interrupts import held_back
from perfmod.verify.job import RUN_VARIABLE
from perfmod.verify.processes import Command, End, Ended

_SETTINGS = {
    "core.autocrlf": "false",
    # The last word of a power cut: a branch whose commits are not on the disk yet would be a broken one.
    "core.fsync": "committed",
    "core.fsmonitor": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    # A name that git makes up from the name of the machine is none for hundreds of commits.
    "user.useConfigOnly": "true",
}
"""What git is told about our working tree; its hooks inherit it."""
_WITHOUT_HOOKS = {"core.hooksPath": os.devnull}
_WAY_OUT = "to let it, apply the patches by hand, or switch the hook off"
_LEAST = 1.0
"""Seconds that a command of git gets in any case."""


@frozen
class WorkingTree:
    """The working tree; it is not there before it is added.

    Attributes:
        repository: whose it is; bare or not.
        folder: where it lies, and a few files of ours beside it.
        identity: variables that name author and committer.
        deadline: of everything that is done in it, by the monotonic clock.
    """

    repository: Path
    folder: Path
    identity: Mapping[str, str]
    deadline: float

    @property
    def path(self) -> Path:
        """Its own folder, whose name no other working tree has: git calls what it keeps of it by that name."""
        return self.folder / f"perfmod-{self._mark}"

    @property
    def _mark(self) -> str:
        return digest(os.fsencode(self.folder))[:16]

    @contextlib.contextmanager
    def added(self, commit: str) -> Iterator[None]:
        """Within it, it is there, detached at a commit: its index, and of its files what says how git converts others.

        Whatever an earlier run in the same folder has left is removed before. Raises `Failure`, `OSError`.
        """
        self.remove()
        try:
            add = ("worktree", "add", "--quiet", "--detach", "--no-checkout")
            self._git(self.repository, *add, str(self.path), commit)
            self.git("read-tree", commit)
            names = self.git("ls-files", "-z", "--", ":(glob)**/.gitattributes")
            self.git("checkout-index", "--quiet", "--force", "-z", "--stdin", stdin=names)
            yield
        finally:
            with held_back():
                self._remove()

    def remove(self) -> None:
        """Remove what a killed run has left, in whatever state it is, and end its processes. Raises `Failure`."""
        Family(None, self._mark).end()
        self._remove()

    def _remove(self) -> None:
        """Remove it, with all that git knows of it."""
        with contextlib.suppress(Failure):
            # Twice, since git locks what it has not finished.
            self._git(self.repository, "worktree", "remove", "--force", "--force", str(self.path))
        shutil.rmtree(self.path, ignore_errors=True)
        # Half of it: git does not know it, and would forget it only together with what others have lost.
        known = self._shared() / "worktrees"
        shutil.rmtree(known / self.path.name, ignore_errors=True)
        with contextlib.suppress(OSError):
            known.rmdir()

    def _shared(self) -> Path:
        """The folder of the repository itself."""
        name = os.fsdecode(git(self.repository, "rev-parse", "--git-common-dir")).removesuffix("\n")
        return self.repository / name

    @property
    def spare_index(self) -> Path:
        """A file for another index, which goes when it is removed. Raises `Failure`."""
        return Path(os.fsdecode(self.git("rev-parse", "--absolute-git-dir")).removesuffix("\n")) / "spare-index"

    def git(self, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> bytes:
        """What git prints in it, without hooks; `index` is used in place of its own. Raises `Failure`."""
        return self._git(self.path, *arguments, stdin=stdin, index=index)

    def _git(self, where: Path, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> bytes:
        environment = self._environment({**_SETTINGS, **_WITHOUT_HOOKS})
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        return git(where, *arguments, stdin=stdin, timeout=self._left(), environment=environment)

    def _left(self) -> float:
        return max(self.deadline - time.monotonic(), _LEAST)

    def _environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {**self.identity, **_configured(settings), RUN_VARIABLE: self._mark, "GIT_LFS_SKIP_SMUDGE": "1"}

    def check_out(self, commit: str) -> None:
        """Make HEAD, index and files those of a commit; what hooks have left is removed. Raises `Failure`."""
        self.git("reset", "--quiet", "--hard", commit)
        self.git("clean", "--quiet", "--force", "-d")

    def commit(self, tree: str, message: str) -> str:
        """Commit a tree on HEAD, with the hooks of the repository; the commit.

        Raises:
            Obstacle: a hook refused it or changed it, or does not end; or git cannot.
            Failure: git cannot take the tree.
            OSError: the disk does not take it.
        """
        parent = self._read("HEAD")
        self.git("read-tree", "--reset", "-u", tree)
        self._commit(message)
        commit = self._read("HEAD")
        # A hook that added a file to the commit, amended it or made one of its own.
        if self._read(f"{commit}^@", f"{commit}^{{tree}}") != f"{parent}\n{tree}":
            names = ", ".join(self._names("diff-tree", "-r", tree, commit)) or "what was committed"
            raise Obstacle.failed(Cause.HOOK, f"a hook changed {names} in the commit; {_WAY_OUT}")
        return commit

    def _commit(self, message: str) -> None:
        text, trace = self.folder / "message", self.folder / "trace"
        text.write_bytes(message.encode("utf-8", "surrogateescape"))
        trace.unlink(missing_ok=True)
        environment = self._environment({**_SETTINGS, "i18n.commitEncoding": "utf-8"})
        command = Command(
            arguments=commit_command(str(text)),
            cwd=self.path,
            environment={**commit_environment(), **environment, "LC_MESSAGES": "C", hooks.VARIABLE: str(trace)},
            run=self._mark,
            timeout=self._left(),
            sample_memory=False,
        )
        ended = command.execute(lambda: None, threading.Event())
        if ended.how is not End.EXITED or ended.code != 0:
            raise self._refusal(ended, hooks.started(trace), f"{command.timeout:.0f} s")

    def _refusal(self, ended: Ended, known: list[hooks.Hook], limit: str) -> Obstacle:
        """Why a commit was not made."""
        said = hooks.last_line(ended.tail)
        if ended.how is not End.EXITED:
            running = next((hook.name for hook in known if hook.code is None), None)
            if running is None:
                return Obstacle.failed(Cause.TIMEOUT, f"git commit takes more than {limit}")
            words = f"its last words: {said}" if said else "it said nothing"
            return Obstacle.failed(Cause.HOOK, f"the hook {running} does not end within {limit}; {words}")
        failed = next((hook.name for hook in known if hook.code), None)
        if failed is None:
            words = next((line for line in ended.tail.splitlines() if line.startswith(("fatal: ", "error: "))), said)
            return Obstacle.failed(cause_of(ended.tail), f"git commit: {shown(words) or f'ended with {ended.code}'}")
        reformatted = ", ".join(self._names("diff"))
        if reformatted:
            why = f"the hook {failed} changed {reformatted}, as formatters do, and refused; {_WAY_OUT}"
            return Obstacle.failed(Cause.HOOK, f"{why}; it said: {said}" if said else why)
        return Obstacle.failed(Cause.HOOK, f"the hook {failed} refused: {said or 'it said nothing'}")

    def _names(self, command: str, *arguments: str) -> list[str]:
        listed = self.git(command, "--name-only", "-z", *arguments).split(b"\0")
        return [shown(os.fsdecode(name)) for name in listed if name]

    def _read(self, *revisions: str) -> str:
        return self.git("rev-parse", *revisions).decode().strip()

    def point(self, branch: str, commit: str, old: str) -> None:
        """Make a branch point at a commit in place of `old`, zeros where it is a new one, at once or not at all.

        Raises `GitFailed` where it is not at `old`, the disk does not take it or a hook refuses.
        """
        command = ("update-ref", "--no-deref", "-m", "perfmod: migrated", f"refs/heads/{branch}", commit, old)
        environment = self._environment(_SETTINGS)
        git(self.repository, *command, timeout=self._left(), environment=environment)


def _configured(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables that configure git, beside what is configured that way already."""
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    start = int(given) if given.isdecimal() else 0
    variables = {"GIT_CONFIG_COUNT": str(start + len(settings))}
    for number, (key, value) in enumerate(settings.items(), start=start):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables
