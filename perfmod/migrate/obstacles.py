"""What keeps a branch from being made, in the words of results."""

from __future__ import annotations

import errno

from perfmod.errors import PerfmodError, explain
from perfmod.git import GitFailed, GitSlow
from perfmod.migrate.results import Cause, Outcome

_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG)
_WORDS_OF_DISK = (
    "No space left on device",
    "Out of diskspace",
    "Disk quota exceeded",
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "insufficient permission",
    "Input/output error",
    "File too large",
    "unable to write",
)
"""What the system, and git, say where a disk does not take something."""


class Obstacle(Exception):
    """Something is not done; `reason` is one line."""

    def __init__(self, outcome: Outcome, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.cause = cause
        self.reason = reason

    @classmethod
    def failed(cls, cause: Cause, reason: str) -> Obstacle:
        """Something went wrong, and may be tried again."""
        return cls(Outcome.FAILED, cause, reason)

    @classmethod
    def of(cls, error: PerfmodError | OSError) -> Obstacle:
        """What an error of git, or of the system, stands for."""
        if isinstance(error, OSError):
            cause = Cause.DISK if error.errno in _OF_DISK else Cause.GIT
            return cls.failed(cause, f"{error.filename}: {explain(error)}" if error.filename else explain(error))
        if isinstance(error, GitFailed):
            return cls.failed(cause_of(error.said), str(error))
        return cls.failed(Cause.TIMEOUT if isinstance(error, GitSlow) else Cause.GIT, str(error))


def cause_of(said: str) -> Cause:
    """Whether git failed because of the disk, by what it said."""
    if "aborted by hook" in said:
        return Cause.HOOK
    return Cause.DISK if any(words in said for words in _WORDS_OF_DISK) else Cause.GIT
