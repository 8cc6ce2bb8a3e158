"""What examining comes to, file by file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from attrs import evolve, field, frozen

from perfmod.codemods.results import FileResult, Outcome
from perfmod.files import FoundFile

if TYPE_CHECKING:
    from perfmod.task import Task


@frozen
class Examined:
    """One file and what became of it.

    Attributes:
        result: holds the bytes of the file only where it is changed.
        asked: gives what the engine was asked, for a file that is changed or whose findings change others; else None.
    """

    file: FoundFile
    result: FileResult
    asked: Callable[[], Task] | None = field(default=None, eq=False)

    @property
    def task(self) -> Task | None:
        """What the engine was asked. Raises `Failure` where that was by an earlier run, and files changed meanwhile."""
        return None if self.asked is None else self.asked()

    def left_alone(self) -> Examined:
        """The same without its rewrites."""
        if self.asked is None:
            return self
        result = evolve(self.result, outcome=Outcome.UNCHANGED, before=b"", after=b"", applied=(), together=())
        return evolve(self, result=result, asked=None)


def once(examined: Sequence[Examined]) -> list[Examined]:
    """The files without repetitions: scripts that were not read together may need the same new file."""
    new: dict[str, Examined] = {}
    for each in examined:
        if each.result.is_new:
            new.setdefault(each.result.path, each)
    return [each for each in examined if not each.result.is_new or new[each.result.path] is each]


def path_of(each: Examined) -> tuple[str, ...]:
    """What files are ordered by."""
    return each.file.real.parts


def in_order(examined: Sequence[Examined]) -> list[Examined]:
    """The files as `examine` gives them, where new ones were added at the end."""
    if not examined or not examined[-1].result.is_new:
        return list(examined)
    return sorted(examined, key=path_of)


class Progress(Protocol):
    """Told what is done."""

    def __call__(self, done: int, total: int, new: Sequence[Examined]) -> None:
        """So many of all files are done, and these were done last."""
