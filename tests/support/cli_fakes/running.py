"""What the fixtures of the command line's tests hand out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from attrs import frozen

Write = Callable[[str, str | bytes], Path]
"""Writes a file of the project, with the folders above it."""


@frozen
class Ran:
    """How a run of `perfmod` ended."""

    code: int
    out: bytes
    err: str

    @property
    def complaint(self) -> str:
        """The one line that a mistake is answered with; asserts that it is one line and nothing else."""
        assert self.err.count("\n") == 1
        return self.last_words

    @property
    def last_words(self) -> str:
        """The one line that a mistake is answered with, behind what was found until then; asserts that it is last."""
        assert not self.out
        *_, last = self.err.splitlines()
        assert last.startswith("perfmod: ")
        assert self.err.count("perfmod: ") == 1
        return last.removeprefix("perfmod: ")


class Run(Protocol):
    """Runs `perfmod` in this process."""

    def __call__(self, *arguments: str) -> Ran: ...


class RunProcess(Protocol):
    """Runs `perfmod` in a process of its own."""

    def __call__(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ran: ...
