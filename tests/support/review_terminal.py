"""`perfmod review` in a real terminal of 80 columns."""

from __future__ import annotations

import re
from pathlib import Path

import forked_python
import pexpect

PROMPT = r"\((\d+)/(\d+)\) accept (?:this|these \d+) \[[^\]]+\]\? "


def spawned(project: Path, *arguments: str, python: str = "") -> pexpect.spawn[str]:
    """A review that starts, of the project or of what is named; `python` runs it where it is to be killed at once."""
    command = ["-m", "perfmod", "review", *(arguments or (".",))]
    python = python or forked_python.perfmod()
    return pexpect.spawn(python, command, cwd=str(project), encoding="utf-8", dimensions=(24, 80), timeout=60)


def plain(text: str) -> str:
    """The text without the codes of colours, blanks joined."""
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).split())


def answered(child: pexpect.spawn[str], answer: str) -> str:
    """What is shown once an answer was given, up to the next question."""
    child.sendline(answer)
    child.expect(PROMPT)
    return plain(child.before or "")


def ended(child: pexpect.spawn[str], answer: str) -> str:
    """What is shown once the last answer was given."""
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    return plain(child.before or "")
