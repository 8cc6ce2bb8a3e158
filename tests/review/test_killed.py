"""`review` killed at any moment, and files that somebody else changes while it is open: nothing decided is lost."""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import decisions_file
import pexpect
import pytest
from review_server import decision, serving
from review_terminal import PROMPT, answered, ended, plain

from perfmod.review.decisions import Decision, Decisions
from perfmod.review.items import Verdict

Start = Callable[..., "pexpect.spawn[str]"]
NUMBER = 40
KILLS = 2
"""How often a whole review is killed; what writes its decisions is killed more often, since it starts sooner."""
WRITER = """
import sys
from pathlib import Path
from perfmod.review.decisions import Decision, Decisions
from perfmod.review.items import Verdict
for number in range(1000):
    row = Decision(f"{sys.argv[1]}.py", "PM101", f"{sys.argv[1]}.{number}", f"{number:016}", 1, 1, Verdict.ACCEPTED)
    Decisions.read(Path.cwd()).with_changes([row])
    print(row.scope, flush=True)
"""
"""Decides about one finding after the other, and says what was decided."""
FULL = """
import resource, signal
from pathlib import Path
from perfmod.errors import Failure
from perfmod.review.decisions import Decision, Decisions
from perfmod.review.items import Verdict
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    Decisions.read(Path.cwd()).with_changes([Decision("b.py", "PM101", "main", "1" * 16, 1, 1, Verdict.ACCEPTED)])
except Failure as error:
    print(error)
"""


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
        child = start(".", "--select", "PM106", python=sys.executable)
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
        told = kept
    child = start(".", "--select", "PM106")
    assert asked(child) == many[len(told)]


def test_a_server_that_is_killed(project: Path, many: list[str]) -> None:
    """While requests come in; what was answered is kept, and so may be those whose answer did not arrive."""
    draw = random.Random(31)
    told: set[str] = set()
    for _ in range(KILLS):
        with serving(project, "--select", "PM106") as server:
            left = [item for item in server.items() if item["scope"] not in told]
            assert [item["scope"] for item in left] == [name for name in many if name not in told]

            def kill(process: subprocess.Popen[str] = server.process) -> None:
                process.kill()

            timer = threading.Timer(draw.uniform(0.05, 0.3), kill)
            timer.start()
            asked_for = []
            with contextlib.suppress(OSError, http.client.HTTPException):
                for item in left:
                    asked_for.append(item["scope"])
                    assert server.post("decisions", {"decisions": [decision(item)]}) == (200, {"saved": 1})
                    told.add(item["scope"])
            timer.join()
        kept = set(decided(project))
        assert kept - {asked_for[-1]} == told - {asked_for[-1]}
        told = kept


def test_what_writes_decisions_is_killed(project: Path) -> None:
    """Each of the next ones goes on at once, with all that was said to be decided."""
    draw = random.Random(32)
    told: set[str] = set()
    for turn in range(12):
        command = [sys.executable, "-c", WRITER, str(turn)]
        with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            told.add(writer.stdout.readline().strip())
            time.sleep(draw.uniform(0, 0.1))
            writer.kill()
            told |= set(writer.stdout.read().split())
        kept = set(decided(project))
        assert told <= kept
        assert len(kept - told) <= 1
        told = kept
    for path in (project / ".perfmod").iterdir():
        os.utime(path, (0, 0))
    Decisions.read(project).with_changes([])
    assert litter(project) == []


REVIEW = ["review", "."]
APPLY = ["apply", ".", "--decisions", ".perfmod/decisions.json"]


def changed(name: str, old: str, new: str) -> Callable[[Path], object]:
    """Edits a file of the project by hand."""

    def edit(project: Path) -> None:
        text = (project / name).read_text()
        assert old in text
        (project / name).write_text(text.replace(old, new))

    return edit


MAIN, DECISIONS = "train.py", ".perfmod/decisions.json"
UNFIT = "train.py: no longer fits: the decision {} about {} in main: DataLoader(Digits(), batch_size=32, shuffle=True)"


@pytest.mark.parametrize(("meanwhile", "command", "code", "told"), [
    (changed(MAIN, "def main():", "# Trains.\ndef main():"), APPLY, 0, ["2 rewrites made in 1 of 2 files"]),
    (changed(MAIN, "loader = DataLoader(Digits(), ", "loader = DataLoader(list(Digits()), "), APPLY, 0,
     ["1 rewrite made in 1 of 2 files", UNFIT.format("rejected", "PM202"),
      UNFIT.format("accepted", "PM201") + "; it was applied, or its code has changed"]),
    (changed(MAIN, "def main():", "def main(:"), APPLY, 3, ["train.py: failed: line 7, column 10: syntax error"]),
    pytest.param(changed(MAIN, "def main():", "def main(:"), REVIEW, 3,
                 ["train.py: failed: line 7, column 10: syntax error"], marks=pytest.mark.exhaustive),
    pytest.param(lambda project: (project / MAIN).unlink(), APPLY, 0, ["nothing to rewrite in 1 file"],
                 marks=pytest.mark.exhaustive),
    pytest.param(lambda project: (project / MAIN).rename("main.py"), APPLY, 0, ["2 rewrites made in 1 of 2 files"],
                 marks=pytest.mark.exhaustive),
    (lambda project: (project / DECISIONS).unlink(), REVIEW, 0, ["(1/3) accept this"]),
    pytest.param(changed(DECISIONS, '"rejected"', '"accepted"'), APPLY, 0, ["3 rewrites made in 1 of 2 files"],
                 marks=pytest.mark.exhaustive),
    (changed(DECISIONS, '"rejected"', '"denied"'), APPLY, 2,
     [f"{DECISIONS}: decision 3: \"verdict\" must be accepted or rejected, and is 'denied'"]),
    (changed(DECISIONS, '    {"path"', '<<<<<<< ours\n    {"path"'), REVIEW, 2,
     [f"{DECISIONS}: holds the marks of a merge that git could not finish; keep the lines that you want"]),
])  # fmt: skip
def test_what_somebody_changes_between_review_and_apply(
    project: Path,
    perfmod: Callable[..., subprocess.CompletedProcess[str]],
    meanwhile: Callable[[Path], object],
    command: list[str],
    code: int,
    told: list[str],
) -> None:
    """Decisions that still fit hold, the others are named, and the file of decisions stays as it is."""
    assert perfmod("review", ".", answers="y\nn short\ny\n").returncode == 0
    meanwhile(project)
    file = project / DECISIONS
    before = file.read_bytes() if file.exists() else b""
    ran = perfmod(*command, answers="q\n")
    said = plain(ran.stdout + ran.stderr)
    assert (ran.returncode, [line for line in told if line not in said]) == (code, []), said
    assert said.count("no longer fits") == sum("no longer fits" in line for line in told)
    assert "Traceback" not in said
    assert (file.read_bytes() if file.exists() else b"") == before


def test_the_file_of_decisions_changes_while_a_review_is_open(project: Path, start: Start) -> None:
    """What it cannot take is said in one line; the question is asked again, and answered once it can."""
    file = project / DECISIONS
    child = start()
    answered(child, "y")
    first = file.read_bytes()
    file.write_bytes(b"<<<<<<< ours\n" + first + b"\n>>>>>>> theirs\n")
    assert "holds the marks of a merge that git could not finish" in answered(child, "n")
    file.write_bytes(first)
    answered(child, "n")
    file.unlink()
    assert "2 accepted, 1 rejected" in ended(child, "y")
    # Who deletes decisions has taken them back.
    assert [row["rule"] for row in decisions_file.rows(project)] == ["PM106"]


def test_a_full_disk_loses_no_earlier_decision(project: Path) -> None:
    """A process that may write no more than some bytes stands for a disk that takes no more."""
    row = Decision("a.py", "PM101", "main", "0" * 16, 1, 1, Verdict.ACCEPTED)
    Decisions.read(project).with_changes([row])
    before = (project / DECISIONS).read_bytes()
    ran = subprocess.run([sys.executable, "-c", FULL], cwd=project, capture_output=True, text=True, check=False)
    assert ran.stdout.endswith(f"{DECISIONS}: cannot be written: file too large\n"), ran.stderr
    assert ran.stdout.count("\n") == 1
    assert (project / DECISIONS).read_bytes() == before
    assert litter(project) == []
