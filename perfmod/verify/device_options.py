"""Options of a script's own command line that look as if they chose the device, read off its files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_MOST = 3
_DECLARED = re.compile(r"""\b(?:add_argument|option)\(\s*((?:["'][\w-]+["']\s*,?\s*)+)""")
"""As argparse and click have it."""
_NAME = re.compile(r"""["'](--[\w-]+)["']""")
_OF_DEVICES = re.compile(
    r"--(?!no[-_])(?:\w+[-_])*(?:cuda|gpus?|gpu[-_]ids?|devices?|accel|accelerator)", re.IGNORECASE
)


def device_options(files: Iterable[Path]) -> tuple[str, ...]:
    """The first few of them, as they are written; `--no-cuda` is none, because it is off unless given."""
    found = (name for text in _texts(files) for declared in _DECLARED.findall(text) for name in _NAME.findall(declared))
    return tuple(dict.fromkeys(name for name in found if _OF_DEVICES.fullmatch(name)))[:_MOST]


def _texts(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        with contextlib.suppress(OSError):
            yield file.read_text(encoding="utf-8", errors="replace")
