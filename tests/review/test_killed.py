"""`review` killed at any moment, and files that somebody else changes while it is open: nothing decided is lost."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import decisions_file
import pexpect
import pytest
from review_terminal import PROMPT, plain

Start = Callable[..., "pexpect.spawn[str]"]
NUMBER = 40
KILLS = 8
"""How often each way is killed; more in a loop of this test finds no more."""


@pytest.fixture
def many(project: Path) -> list[str]:
    """A project in which one rule finds the same in many functions; their names, in the order of review."""
    names = [f"part_{number:02}" for number in range(NUMBER)]
    steps = (
        f"def {name}(loader, model):\n    total = 0.0\n    for batch in loader:\n"
        f"        loss = model(batch.cuda()).mean()\n        loss.backward()\n        total += loss.item()\n"
        f"    return total\n"
        for name in names
    )
    (project / "train.py").write_text("import torch\n\n\n" + "\n\n".join(steps))
    return names


def decided(project: Path) -> list[str]:
    """The functions that are decided about, from a file that is whole."""
    return sorted(row["scope"] for row in decisions_file.rows(project))


def litter(project: Path) -> list[str]:
    return sorted(path.name for path in (project / ".perfmod").iterdir() if path.name != "decisions.json")


def asked(child: pexpect.spawn[str]) -> str:
    """The function that the question is about."""
    found = re.findall(r"train\.py:\d+:\d+ (part_\d+)", plain(child.before or ""))
    return str(found[-1])


def test_a_terminal_that_is_killed(project: Path, many: list[str], start: Start) -> None:
    """At random moments behind an answer; what was answered last may or may not be kept."""
    draw = random.Random(30)
    told: list[str] = []
    for turn in range(KILLS):
        child = start(".", "--select", "PM106")
        shown = asked(child)
        assert shown == many[len(decided(project))]
        for _ in range(draw.randrange(3)):
            child.sendline(draw.choice(("y", "n why not")))
            child.expect(PROMPT)
            told.append(shown)
            shown = asked(child)
        child.sendline("y")
        # A decision takes some milliseconds: half of the kills come within them.
        time.sleep(draw.uniform(0, 0.03) if turn % 2 else draw.uniform(0, 0.3))
        child.kill(signal.SIGKILL)
        child.wait()
        kept = decided(project)
        assert kept in (told, [*told, shown])
        assert len(litter(project)) <= 2 * (turn + 1)
        told = kept
    child = start(".", "--select", "PM106")
    assert asked(child) == many[len(told)]
