"""In which order the processes of the T-run follow each other.

Machines drift: they warm up, neighbours come and go. So the sides alternate, and every second round runs backwards:
A B B A A B B A. Each side then has the same mean place in time, and the original has neighbours of its own kind,
whose ratios are the A/A control.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

ROUNDS: Final = {False: (4, 8), True: (2, 4)}
"""Processes per side, at first and at most; and with `--quick`."""


def mirrored(sides: Sequence[T], rounds: int, *, first: int = 0) -> list[T]:
    """`rounds` rounds over `sides`; those with an odd number (counted from `first`) run backwards."""
    return [side for number in range(first, first + rounds) for side in (sides if number % 2 == 0 else sides[::-1])]
