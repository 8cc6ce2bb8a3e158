"""Real git in the repositories of tests, whatever is configured on the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PLAIN = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada Löve",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0200",
    "GIT_COMMITTER_NAME": "Ada Löve",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}
"""The environment of somebody who has configured nothing but a name."""


def git(repository: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints; asserts that it succeeds."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=repository,
        env={**os.environ, **PLAIN},
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def commit_all(repository: Path) -> None:
    """Commit everything that is there."""
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--message=everything", "--no-verify")


def subjects(repository: Path) -> list[str]:
    """The subjects of the commits on HEAD, the first one first."""
    return git(repository, "log", "--reverse", "--format=%s").decode().splitlines()
