"""The commit that a benchmark measures, for its results."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

_ARCHIVED: Final = "$Format:%H$"
"""`git archive` writes the commit here; in a checkout it is left as it is."""


def revision() -> str | None:
    """The full hash of the commit, with a plus sign where files of it were edited; None outside of git."""
    if not _ARCHIVED.startswith("$"):
        return _ARCHIVED
    try:
        commit, edited = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + "+" * bool(edited)


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
