"""Which hook of a repository failed: git does not say so itself, but it writes down what it starts."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod.roots import shown

VARIABLE = "GIT_TRACE2_EVENT"
"""Names the file to which git writes what it does, an event a line."""
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST = 300
"""Characters of a line that is told."""


@frozen
class Hook:
    """A hook that was started; `code` is its exit status, None where it did not end."""

    name: str
    code: int | None


def started(trace: Path) -> list[Hook]:
    """The hooks that one command of git started, in order; none where git is too old to write it down."""
    found: dict[int, Hook] = {}
    for event in _events(trace):
        # What a hook starts itself has an identifier that continues the one of the command.
        if "/" in str(event.get("sid")):
            continue
        number = int(event.get("child_id", -1))
        if event.get("event") == "child_start" and event.get("child_class") == "hook":
            found[number] = Hook(str(event.get("hook_name")), None)
        elif event.get("event") == "child_exit" and number in found:
            found[number] = Hook(found[number].name, event.get("code"))
    return list(found.values())


def _events(trace: Path) -> Iterator[dict[Any, Any]]:
    with contextlib.suppress(OSError):
        for line in trace.read_bytes().splitlines():
            # A full disk, or a kill, leaves half a line.
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def last_line(said: str) -> str:
    """The last line of what a hook said that says something; empty where there is none."""
    lines = (_COLOUR.sub("", line).strip() for line in reversed(said.splitlines()))
    line = shown(next(filter(None, lines), ""))
    return f"{line[:_LONGEST]}…" if len(line) > _LONGEST else line
