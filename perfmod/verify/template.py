"""A process of the user's interpreter that has imported torch; runs are forked from it where that makes no difference.

To import torch takes longer than a short training. The harness's `template` is the other side.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil
from attrs import define, field

from perfmod.verify.disguise import Disguise
from perfmod.verify.family import alive
from perfmod.verify.job import RUN_VARIABLE
from perfmod.verify.terminal import nobodys

_LONGEST_START = 60.0
"""Seconds; a torch that takes longer to import is imported by every run."""
_POLL = 0.05
_MESSAGE = 64
"""Bytes; longer than any answer."""


@define
class Template:
    """Starts its process with the first run. Several threads may fork runs from it.

    Attributes:
        folder: of the verification; what runs are told is written there.
    """

    harness: Disguise
    folder: Path
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _control: socket.socket | None = field(default=None, init=False)
    _is_usable: bool = sys.platform == "linux"
    _opened: contextlib.ExitStack = field(factory=contextlib.ExitStack, init=False)

    def fork(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        stdin: int,
        cancelled: threading.Event,
    ) -> Forked | None:
        """Start a run, as `Popen` would. None where it has to be a process of its own."""
        run = self.folder / f"run-{uuid.uuid4().hex}.json"
        told = {"arguments": [*arguments], "cwd": str(cwd), "environment": {**environment}, "mark": RUN_VARIABLE}
        with self._lock:
            if self._is_usable and self._control is None:
                self._is_usable = self._start(arguments[0], environment, cancelled)
            if not self._is_usable:
                return None
            run.write_text(json.dumps({**told, "unfit": str(_unfit(run))}), encoding="utf-8")
            reading, writing = os.pipe()
            try:
                answer = self._ask(os.fsencode(run), [stdin, writing])
            finally:
                os.close(writing)
            if not answer:
                os.close(reading)
                self._is_usable = False
                return None
        return Forked(self, int(answer), os.fdopen(reading, "rb"), _unfit(run))

    def code(self, pid: int) -> int:
        """The exit status of a run that is dead; as if killed where nobody knows any more."""
        with self._lock:
            answer = self._ask(str(pid).encode(), [])
        return int(answer) if answer else -signal.SIGKILL

    def abandon(self) -> None:
        """Fork no more runs."""
        self._is_usable = False

    def close(self) -> None:
        """End its process. No run goes on."""
        self._opened.close()

    def _start(self, python: str, environment: Mapping[str, str], cancelled: threading.Event) -> bool:
        """Returns whether it can fork."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._opened.push(ours)
        with theirs:
            # Streams of the same kinds as a run's: Python's files keep what they once found out about them.
            process = subprocess.Popen(
                [python, "-c", f"from {self.harness.package} import template; template.serve({theirs.fileno()})"],
                cwd=self.folder,
                env=self._environment(environment),
                stdin=self._opened.enter_context(nobodys()),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._opened.callback(_end, process)
        self._control = ours
        deadline = time.monotonic() + _LONGEST_START
        ours.settimeout(_POLL)
        while not cancelled.is_set() and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                is_ready = bool(ours.recv(_MESSAGE))
                ours.settimeout(None)
                return is_ready
        self._opened.close()
        return False

    def _environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """That of a run without what is this run's own."""
        search = environment["PYTHONPATH"].split(os.pathsep)
        scratch = self.folder
        outside = [entry for entry in search if entry == str(self.harness.folder) or scratch not in Path(entry).parents]
        own = {name: value for name, value in environment.items() if name != self.harness.job_variable}
        return {
            **own,
            "PYTHONPATH": os.pathsep.join(outside),
            "TMPDIR": str(scratch),
            RUN_VARIABLE: uuid.uuid4().hex,
        }

    def _ask(self, message: bytes, streams: Sequence[int]) -> bytes:
        """The answer; empty where nobody is there any more."""
        assert self._control is not None
        try:
            socket.send_fds(self._control, [message], streams)
            return self._control.recv(_MESSAGE)
        except OSError:
            return b""


class Forked:
    """A run, with those members of `Popen` that are needed.

    Attributes:
        stdout: its output.
    """

    def __init__(self, template: Template, pid: int, stdout: IO[bytes], unfit: Path) -> None:
        self.pid = pid
        self.stdout = stdout
        self._template = template
        self._unfit = unfit
        self._code: int | None = None
        with contextlib.suppress(psutil.Error):
            self._process = psutil.Process(pid)

    def poll(self) -> int | None:
        """The exit status, if it is over."""
        if self._code is None and not alive(self._process):
            self._code = self._template.code(self.pid)
        return self._code

    def wait(self) -> int:
        """The exit status, once it is over."""
        while self.poll() is None:
            time.sleep(_POLL)
        assert self._code is not None
        return self._code

    def is_unfit(self) -> bool:
        """Whether it has to be run again as a process of its own."""
        return self._unfit.exists()


def _unfit(run: Path) -> Path:
    return run.with_suffix(".unfit")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
