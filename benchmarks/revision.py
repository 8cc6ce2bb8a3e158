"""The commit that a benchmark measures, for its results."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

_ARCHIVED: Final = "$Format:%H$"
"""`git archive` writes the commit here; in a checkout it is left as it is."""


def revision(checkout: Path = Path(__file__).parent) -> str | None:
    """The full hash of the commit, with a plus sign where files of it were edited; None outside of git."""
    if checkout == Path(__file__).parent and not _ARCHIVED.startswith("$"):
        return _ARCHIVED
    try:
        commit, edited = (
            _git(checkout, *words)
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + "+" * bool(edited)


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
