"""Runs scripts one by one, each in a process that is forked when torch is imported; used by `test_attacks.py`.

Reads lines of JSON, `["folder", "script.py"]`, and prints for each a line with exit code, output, and the last line of
standard error.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import IO, NoReturn

import numpy  # noqa: F401, ICN001 - before the forks
import torch
import torch.utils.data


def run(folder: str, script: str) -> tuple[int, str, str]:
    """Exit code, output, and the last line of what it says of errors."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if not child:
            _become(folder, script, out, err)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(status), out.read(), "\n".join(err.read().strip().splitlines()[-1:])


def _become(folder: str, script: str, out: IO[str], err: IO[str]) -> NoReturn:
    os.chdir(folder)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    sys.path.insert(0, folder)
    sys.argv, sys.dont_write_bytecode = [script], True
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    main.__file__ = script
    code = 0
    try:
        exec(compile(Path(script).read_text(), script, "exec"), vars(main))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else bool(ended.code)
    except BaseException as error:  # noqa: BLE001, it is what the script would end with
        print(f"{type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(run(*json.loads(line))), flush=True)
