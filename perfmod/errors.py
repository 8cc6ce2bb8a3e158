"""Exit codes, and the exceptions that end a run.

PerfmodError            one line for the user, and the exit code
├── UsageMistake        2: a wrong path, option or configuration
├── Failure             3: something outside went wrong: disk, permissions, a worker process
└── Interrupted         130: Ctrl-C in the middle of something worth a word
"""

from __future__ import annotations

import enum
import errno
from typing import ClassVar


class ExitCode(enum.IntEnum):
    """What a run tells its caller. A failure never ends with 0."""

    OK = 0
    """It worked, and `check` found nothing that could be rewritten."""
    FOUND = 1
    """`check` found something that `apply` with the same options would rewrite, whether other files failed or not."""
    USAGE = 2
    """A wrong path, option, rule or configuration; nothing was changed."""
    FAILED = 3
    """At least one file failed: unreadable, not Python 3, not writable; the others were done. Or a script that was to
    be verified could not be run."""
    REFUTED = 4
    """The verified training differs, or its step is slower beyond the noise."""
    INCONCLUSIVE = 5
    """The runs did not allow a judgement."""
    INTERRUPTED = 130
    """Ctrl-C."""
    BROKEN_PIPE = 141
    """Whoever read the output went away."""


class PerfmodError(Exception):
    """Ends the run. The message is one line: what, where, what to do."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class UsageMistake(PerfmodError):
    """A wrong path, option or configuration."""

    exit_code = ExitCode.USAGE


class Failure(PerfmodError):
    """Something outside went wrong: disk, permissions, a worker process."""


class Interrupted(PerfmodError):
    """Ctrl-C where the user has to know what was done already."""

    exit_code = ExitCode.INTERRUPTED


def explain(error: OSError) -> str:
    """The operating system's words for `error`, without number and path, as the end of a sentence."""
    words = error.strerror or str(error) or type(error).__name__
    return words[:1].lower() + words[1:]


def is_full(error: OSError) -> bool:
    """Whether a disk, or somebody's share of it, has no room for more."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
