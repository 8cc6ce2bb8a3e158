"""The lock of a campaign: one run at a time, and none before everything that an earlier one started has ended."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from perfmod.errors import Failure, UsageMistake, explain
from perfmod.roots import shown

LOCK = "lock"
_PATIENCE = 5.0
"""Seconds that what a killed run had started has to end."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Within it, no other run works on the campaign; gives the descriptor of the lock, for processes to inherit.

    Raises:
        UsageMistake: another run does.
        Failure: the folder cannot be written.
    """
    path = folder / LOCK
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    except OSError as error:
        raise Failure(f"{shown(path)}: cannot be written: {explain(error)}") from error
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _is_ours(descriptor):
            if time.monotonic() > deadline:
                raise UsageMistake(f"{shown(folder)}: {_holder(descriptor)} is at work on this campaign; wait for it")
            time.sleep(0.1)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        try:
            # Behind what is written there, which others may want to read.
            os.lseek(descriptor, 1 << 20, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return shown(os.read(descriptor, 200).decode("utf-8", "replace")) or "another run"
    except OSError:
        return "another run"
