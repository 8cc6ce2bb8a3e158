"""`perfmod` with the made-up rules; with `CLI_FAKES_DIE_AFTER=N` it is killed after it wrote N files."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cli_fakes import install
from perfmod import applying, writing
from perfmod.cli.main import run


def _die_after(number: int) -> None:
    written: list[Path] = []

    def replace(path: Path, data: bytes, expected: bytes) -> None:
        if len(written) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        writing.replace(path, data, expected)
        written.append(path)

    vars(applying)["replace"] = replace


if __name__ == "__main__":
    install()
    if "CLI_FAKES_DIE_AFTER" in os.environ:
        _die_after(int(os.environ["CLI_FAKES_DIE_AFTER"]))
    run()
