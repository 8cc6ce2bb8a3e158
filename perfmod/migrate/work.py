"""The process of one piece of work, `python -P -m perfmod.migrate.work KIND FOLDER`; `jobs` says what the folder holds.

It dies with whoever started it: its standard input is a pipe that ends then.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Final

from perfmod.errors import Failure, PerfmodError, UsageMistake, explain, is_full
from perfmod.migrate.jobs import NO_ROOM, OUT, REQUEST, RESULT, Kind
from perfmod.migrate.relatives import MARK, Relatives
from perfmod.migrate.results import (
    Analysis,
    AnalysisRequest,
    Branches,
    BranchesRequest,
    Cause,
    Cloned,
    CloneRequest,
    Outcome,
    Refused,
    Result,
    Verification,
    VerificationRequest,
)
from perfmod.records import plain, restored
from perfmod.roots import shown
from perfmod.writing import NotWritten, write_new

_PIECES: Final[dict[Kind, tuple[str, type]]] = {
    Kind.CLONE: ("perfmod.migrate.clones", CloneRequest),
    Kind.ANALYSIS: ("perfmod.migrate.analysis", AnalysisRequest),
    Kind.VERIFICATION: ("perfmod.migrate.verification", VerificationRequest),
    Kind.BRANCHES: ("perfmod.migrate.branching", BranchesRequest),
}
"""The module whose `run(request, folder)` does it, and what it is asked; only the one that is needed is imported."""
_CAUSES: Final = {
    Kind.CLONE: Cause.CLONE,
    Kind.ANALYSIS: Cause.CRASH,
    Kind.VERIFICATION: Cause.SCRIPT,
    Kind.BRANCHES: Cause.GIT,
}
"""What a failure is put down to where nothing better is known."""
_RESULTS: Final[dict[str, type[Result]]] = {
    kind.__name__: kind for kind in (Analysis, Verification, Branches, Cloned, Refused)
}


def read_result(folder: Path) -> Result:
    """What a piece of work in `folder` came to. Raises `Failure` where there is no result, or no whole one."""
    path = folder / RESULT
    try:
        name, value = json.loads(path.read_bytes())
        return restored(_RESULTS[name], value)
    except OSError as error:
        raise Failure(f"{shown(path)}: cannot be read: {explain(error)}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Failure(f"{shown(path)}: is no result of this version of perfmod") from error


def write_result(folder: Path, result: Result) -> None:
    """Write what a piece of work came to, so that the whole of it is there or nothing. Raises `OSError`."""
    write_new(folder / RESULT, json.dumps([type(result).__name__, plain(result)]).encode("utf-8", "surrogateescape"))


def main(kind: Kind, folder: Path) -> None:
    """Do what the request in `folder` asks for; what is raised here is a crash, but for a disk without room."""
    module, asked = _PIECES[kind]
    request: object = restored(asked, json.loads((folder / REQUEST).read_bytes()))
    # Files that were laid out in the folder belong to no repository around it.
    os.environ["GIT_CEILING_DIRECTORIES"] = str(folder)
    result = _result(kind, module, request, folder)
    try:
        write_result(folder, result)
    except OSError as error:
        if not is_full(error):
            raise
        print(f"{shown(folder)}: {explain(error)}", file=sys.stderr)
        sys.exit(NO_ROOM)


def _result(kind: Kind, module: str, request: object, folder: Path) -> Result:
    try:
        (folder / OUT).mkdir(exist_ok=True)
        found: Result = importlib.import_module(module).run(request, folder)
    except (PerfmodError, NotWritten) as error:
        return Refused(Outcome.FAILED, _cause(kind, error), str(error))
    except OSError as error:
        if not is_full(error):
            raise
        return Refused(Outcome.FAILED, Cause.DISK, f"{shown(error.filename or folder)}: {explain(error)}")
    return found


def _cause(kind: Kind, error: Exception) -> Cause:
    reasons: list[BaseException] = [error]
    while (before := reasons[-1].__cause__) is not None:
        reasons.append(before)
    if any(isinstance(each, OSError) and is_full(each) for each in reasons):
        return Cause.DISK
    return Cause.CONFIGURATION if isinstance(error, UsageMistake) else _CAUSES[kind]


def _follow_the_starter() -> None:
    """End with whoever started this process, where that left a pipe as standard input; nobody else reads from it."""
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        return
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_end_with_the_starter, args=(pipe,), daemon=True).start()


def _end_with_the_starter(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    try:
        Relatives(os.getpid(), os.environ.get(MARK, "")).kill()
    finally:
        # The whole group where it is ours; somebody else's, as a shell's, is left alone.
        leads = os.getpgrp() == os.getpid()
        (os.killpg if leads else os.kill)(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # As -P does, which Python 3.10 does not know: nothing is imported from the folder in which it stands.
    if not getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    _follow_the_starter()
    main(Kind(sys.argv[1]), Path(sys.argv[2]))
