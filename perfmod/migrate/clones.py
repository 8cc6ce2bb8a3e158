"""Repositories that are cloned for a campaign. Nobody works in them, so they have no working tree."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from perfmod.errors import Failure, UsageMistake, explain
from perfmod.git import GitFailed, commit, git
from perfmod.migrate.targets import without_secrets
from perfmod.roots import shown

_ENVIRONMENT = {"GIT_LFS_SKIP_SMUDGE": "1"}
_TRIES = 3
_PAUSE = 2.0
"""Seconds before the second try; before the third, it is four times as long."""
_NETWORK = re.compile(
    r"could not resolve|connection (?:refused|reset|timed out|closed)|operation timed out|timed? ?out|early eof|"
    r"rpc failed|hung up|unexpected disconnect|network is unreachable|no route to host|broken pipe|"
    r"returned error: (?:429|5\d\d)|(?:tls|ssl|gnutls).*(?:error|reset|terminated)|failed to connect|couldn't connect|"
    r"temporary failure|kex_exchange",
    re.IGNORECASE,
)
"""What git says when it is the network's fault."""
_Result = TypeVar("_Result")


class NotCloned(Failure):
    """A repository could not be cloned, or brought up to date."""


def clone(address: str, folder: Path, revision: str = "", timeout: float = 600.0) -> None:
    """Clone a repository to `folder`, which does not exist; whatever happens, nothing half is there then.

    HEAD is detached at `revision`, or at the branch that HEAD is on there. There is neither a branch nor a working
    tree; submodules and what LFS holds are not fetched. Failures of the network are tried again, twice.
    `timeout` is in seconds, for each try.

    Raises `NotCloned` with what git said.
    """
    place = shown(without_secrets(address))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{folder.name}."
        for left in folder.parent.glob(f"{_literal(prefix)}*"):
            shutil.rmtree(left, ignore_errors=True)  # of a run that was killed
        with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent, ignore_cleanup_errors=True) as temporary:
            made = Path(temporary) / "clone"
            _patiently(lambda: _clone(address, made, timeout), place)
            _settle(made, revision, timeout, place)
            made.rename(folder)
    except OSError as error:
        raise NotCloned(f"{place}: cannot be cloned to {shown(folder)}: {explain(error)}") from error


def refresh(folder: Path, revision: str = "", timeout: float = 600.0) -> None:
    """Bring a clone that `clone` has made up to date; branches that were made in it stay. Raises `NotCloned`."""
    place = shown(folder)
    _patiently(lambda: _fetch(folder, timeout, "--tags", "--force", "origin"), place)
    with contextlib.suppress(GitFailed):  # the other side has no branch, or is on none
        _git(folder, timeout, "remote", "set-head", "origin", "--auto")
    _settle(folder, revision, timeout, place)


def _clone(address: str, folder: Path, timeout: float) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _git(
        folder.parent,
        timeout,
        "clone",
        "--quiet",
        "--no-checkout",
        "--no-recurse-submodules",
        "--",
        address,
        str(folder),
    )


def _settle(folder: Path, revision: str, timeout: float, place: str) -> None:
    """Detach HEAD at a revision; what is not in the clone yet, such as a commit on no branch, is fetched."""
    found = _known(folder, revision)
    if found is None and revision:
        _patiently(lambda: _fetch(folder, timeout, "origin", revision), f"{place} {shown(revision)}")
        found = _known(folder, "FETCH_HEAD")
    if found is None:
        return  # nothing was committed yet
    born = ""
    with contextlib.suppress(GitFailed):  # HEAD is detached already
        born = os.fsdecode(git(folder, "symbolic-ref", "--quiet", "HEAD")).strip()
    try:
        git(folder, "update-ref", "--no-deref", "HEAD", found)
        # The branch that a clone is born with would hide the one of the same name on the other side, once that goes on.
        if born:
            git(folder, "update-ref", "-d", born)
    except Failure as error:
        raise NotCloned(f"{place}: {error}") from error


def _known(folder: Path, revision: str) -> str | None:
    """The commit of a revision as the other side has it; None where the clone does not know it."""
    for name in (f"refs/remotes/origin/{revision or 'HEAD'}", revision or "HEAD"):
        with contextlib.suppress(GitFailed):
            return commit(folder, name)
    return None


def _patiently(attempt: Callable[[], _Result], place: str) -> _Result:
    """What an attempt comes to, tried again where the network fails. Raises `NotCloned`."""
    for number in range(1, _TRIES + 1):
        try:
            return attempt()
        except (Failure, UsageMistake) as error:
            said = error.said if isinstance(error, GitFailed) else str(error)
            if number == _TRIES or not isinstance(error, GitFailed) or not _NETWORK.search(said):
                tried = f" ({number} times)" if number > 1 else ""
                raise NotCloned(f"{place}: cannot be cloned{tried}: {without_secrets(said)}") from error
        time.sleep(_PAUSE * 4 ** (number - 1))
    raise AssertionError


def _fetch(folder: Path, timeout: float, *arguments: str) -> None:
    _git(folder, timeout, "fetch", "--quiet", "--prune", "--no-recurse-submodules", "--no-auto-gc", *arguments)


def _git(folder: Path, timeout: float, *arguments: str) -> None:
    git(folder, *arguments, timeout=timeout, environment=_ENVIRONMENT, is_apart=True)


def _literal(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)
