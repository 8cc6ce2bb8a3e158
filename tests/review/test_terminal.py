"""The review in a real terminal of 80 columns."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

Start = Callable[..., "pexpect.spawn[str]"]
PROMPT = r"\((\d+)/(\d+)\) accept (?:this|these \d+) \[[^\]]+\]\? "


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    """Starts `perfmod review` in a terminal, and waits for its first question."""
    children = []

    def begin(*arguments: str, asks: bool = True) -> pexpect.spawn[str]:
        command = ["-m", "perfmod", "review", *(arguments or (".",))]
        child = pexpect.spawn(
            sys.executable, command, cwd=str(project), encoding="utf-8", dimensions=(24, 80), timeout=60
        )
        children.append(child)
        if asks:
            child.expect(PROMPT)
        return child

    yield begin
    for child in children:
        child.close(force=True)


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


def decisions(project: Path) -> list[tuple[str, str, str]]:
    """Rule, verdict and note of what is kept, in order."""
    rows = json.loads((project / ".perfmod" / "decisions.json").read_text())["decisions"]
    return sorted((row["rule"], row["verdict"], row.get("note", "")) for row in rows if row)


def test_a_review_from_end_to_end(project: Path, start: Start) -> None:
    child = start()
    first = plain(child.before or "")
    assert "PM201 loader-without-workers bitwise" in first
    assert "train.py:9:14 main" in first
    assert "+ loader = DataLoader(Digits(), batch_size=32, shuffle=True," in first
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", child.before or "").splitlines()
    assert [len(line) for line in lines if "─" in line] == [80]
    second = answered(child, "y")
    assert "PM202 pageable-transfer" in second
    last = answered(child, "n pinned memory is short on these machines")
    assert "PM106 scalar-accumulation" in last
    told = ended(child, "y")
    assert "2 accepted, 1 rejected in .perfmod/decisions.json" in told
    assert "`perfmod apply . --decisions .perfmod/decisions.json` writes what was accepted" in told
    assert decisions(project) == [
        ("PM106", "accepted", ""),
        ("PM201", "accepted", ""),
        ("PM202", "rejected", "pinned memory is short on these machines"),
    ]


def test_it_goes_on_where_it_was_killed(project: Path, start: Start) -> None:
    child = start()
    answered(child, "y")
    child.kill(signal.SIGKILL)
    child.expect(pexpect.EOF)
    again = start()
    assert "PM202" in plain(again.before or "")
    assert "accepted" in answered(again, "K")
    assert "undecided" in ended(again, "q")
    assert decisions(project) == [("PM201", "accepted", "")]


def test_going_back_searching_and_taking_back(project: Path, start: Start) -> None:
    child = start()
    assert "PM106" in answered(child, "/loss.item")
    assert "PM201" in answered(child, "g 1")
    assert "there are numbers 1 to 3" in answered(child, "g 7")
    listed = answered(child, "g")
    assert [word for word in listed.split() if re.fullmatch(r"PM\d+", word)] == ["PM201", "PM202", "PM106"]
    answered(child, "y")
    assert "accepted" in answered(child, "K")
    assert "accepted" not in answered(child, "u").replace("accept this", "")
    assert decisions(project) == []
    assert "no answer" in answered(child, "what")
    assert "Batches are loaded" in answered(child, "e") or "workers" in answered(child, "e")
    assert "leave undecided" in answered(child, "?")
    child.sendintr()
    child.expect(pexpect.EOF)


def test_all_of_a_class_at_once(project: Path, start: Start) -> None:
    told = ended(start(), "c")
    assert "3 accepted in .perfmod/decisions.json" in told
    assert "goes on" not in told
    assert [verdict for _, verdict, _ in decisions(project)] == ["accepted"] * 3
    nothing = start()
    assert "everything is decided" in plain(nothing.before or "")


def test_neighbours_are_shown_together_and_can_be_split(project: Path, start: Start) -> None:
    """Two tensors that are made on the CPU, in neighbouring lines: one question, or two."""
    text = (project / "train.py").read_text()
    made = "        noise = torch.zeros(32, 8).to(device)\n        more = torch.ones(32, 8).to(device)\n"
    made += "        images = images + noise + more\n"
    (project / "train.py").write_text(
        text.replace("        optimizer.zero_grad()\n", f"{made}        optimizer.zero_grad()\n")
    )
    child = start(".", "--select", "PM206")
    shown = plain(child.before or "") + str(child.after)
    assert "accept these 2" in shown
    assert "(1/2) accept this" in answered(child, "s") + str(child.after)
    answered(child, "n")
    ended(child, "y")
    assert decisions(project) == [("PM206", "accepted", ""), ("PM206", "rejected", "")]


def test_the_code_can_say_no(project: Path, start: Start) -> None:
    child = start()
    assert "PM106" in answered(child, "i no forks here")  # PM202 gains little without workers
    assert "# perfmod: ignore[PM201] no forks here\n" in (project / "train.py").read_text()
    ended(child, "q")


def test_nothing_to_review(project: Path, start: Start) -> None:
    (project / "train.py").write_text("import torch\n")
    child = start(asks=False)
    child.expect("nothing to review")
    child.expect(pexpect.EOF)
