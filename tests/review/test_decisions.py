"""Decisions: the file that a team commits, and how they find their findings again."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve

from perfmod.config import Options
from perfmod.errors import Failure, UsageMistake
from perfmod.review.decisions import Decision, Decisions, render
from perfmod.review.items import Verdict
from perfmod.review.session import Review
from perfmod.writing import exclusive

Perfmod = Callable[..., subprocess.CompletedProcess[str]]
ROW = Decision("train.py", "PM106", "main", "0123456789abcdef", 1, 1, Verdict.ACCEPTED, "loss.item()", "fine")


def opened(project: Path, *targets: str) -> Review:
    return Review.of(targets or (".",), Options(), cwd=project)


def verdicts(review: Review) -> list[tuple[str, str]]:
    """Rule and verdict of all items, in order."""
    return [(item.finding.code, item.verdict.value) for item in review.items.values()]


def decided(project: Path, *wanted: Verdict) -> Review:
    """The review, with verdicts about its items in order."""
    review = opened(project)
    for key, verdict in zip(list(review.items), wanted, strict=True):
        review.decide([key], verdict)
    return review


A, R, U = Verdict.ACCEPTED, Verdict.REJECTED, Verdict.UNDECIDED
KEPT = [("PM201", "accepted"), ("PM202", "rejected"), ("PM106", "accepted")]


@pytest.mark.parametrize("edits", [
    [("import torch\n", "import math\n\nimport torch\n"), ("    main()\n", "    main()\n    print(math.pi)\n")],
    [("DataLoader(Digits(), batch_size=32, shuffle=True)", "DataLoader(\n      Digits(),  # all\n    batch_size=8)")],
    [("total += loss.item()", "total  +=  loss.item( )  # summed up")],
    [("        optimizer.zero_grad()\n", "        optimizer.zero_grad(set_to_none=True)\n        model.train()\n")],
])  # fmt: skip
def test_edits_around_a_finding_lose_no_decision(project: Path, edits: list[tuple[str, str]]) -> None:
    decided(project, A, R, A)
    text = (project / "train.py").read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (project / "train.py").write_text(text)
    again = opened(project)
    assert (verdicts(again), again.unfit) == (KEPT, ())


def test_a_renamed_file_keeps_its_decisions(project: Path) -> None:
    decided(project, A, R, A)
    (project / "train.py").rename(project / "main.py")
    again = opened(project)
    assert (verdicts(again), again.unfit) == (KEPT, ())
    again.decide([list(again.items)[1]], A)
    assert {row.path for row in again.decisions.rows.values()} == {"train.py", "main.py"}
    assert [verdict for _, verdict in verdicts(opened(project))] == ["accepted"] * 3


def test_what_no_longer_fits_is_told(project: Path, perfmod: Perfmod) -> None:
    decided(project, A, R, A)
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(text.replace("DataLoader(Digits(), ", "DataLoader(list(Digits()), "))
    again = opened(project)
    assert [(row.rule, row.verdict) for row in again.unfit] == [("PM201", A), ("PM202", R)]
    told = perfmod("review", ".", answers="q\n").stdout
    assert "train.py: no longer fits: the decision rejected about PM202 in main: DataLoader(Digits()" in " ".join(
        told.split()
    )


TWINS = """\
        one = torch.zeros(32, 8).to(device)
        two = torch.zeros(32, 8).to(device)
        images = images + one + two
"""


def test_twins_are_told_apart_by_their_order(project: Path, perfmod: Perfmod) -> None:
    """The second is accepted and applied; the first, which stays, is the rejected one and not the accepted."""
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(text.replace("        optimizer.zero", f"{TWINS}        optimizer.zero"))
    review = opened(project)
    twins = [item for item in review.items.values() if item.finding.code == "PM206"]
    assert [(item.occurrence, item.of) for item in twins] == [(1, 2), (2, 2)]
    assert twins[0].finding.fingerprint == twins[1].finding.fingerprint
    review.decide([twins[0].key], R)
    review.decide([twins[1].key], A)
    assert perfmod("apply", ".", "--decisions", ".perfmod/decisions.json").returncode == 0
    after = (project / "train.py").read_text()
    assert "one = torch.zeros(32, 8).to(device)" in after
    assert "two = torch.zeros(32, 8, device=device)" in after
    assert perfmod("apply", ".", "--select", "PM206").returncode == 0
    assert (project / "train.py").read_text() == after


def test_twins_that_cannot_be_told_apart_are_asked_about_again(project: Path) -> None:
    text = (project / "train.py").read_text()
    (project / "train.py").write_text(text.replace("        optimizer.zero", f"{TWINS}        optimizer.zero"))
    review = opened(project)
    twins = [item.key for item in review.items.values() if item.finding.code == "PM206"]
    review.decide(twins[:1], R)
    more = TWINS.replace("        images", "        three = torch.zeros(32, 8).to(device)\n        images").replace(
        "+ two", "+ two + three"
    )
    (project / "train.py").write_text(text.replace("        optimizer.zero", f"{more}        optimizer.zero"))
    again = opened(project)
    assert [item.verdict for item in again.items.values() if item.finding.code == "PM206"] == [U, U, U]
    assert [row.rule for row in again.unfit] == ["PM206"]


def test_one_of_those_that_are_left_is_decided_otherwise(project: Path, perfmod: Perfmod) -> None:
    """The numbers of twins change once one of them is applied; what was decided about the others stays."""
    text = (project / "train.py").read_text()
    more = TWINS.replace("        images", "        three = torch.zeros(32, 8).to(device)\n        images").replace(
        "+ two", "+ two + three"
    )
    (project / "train.py").write_text(text.replace("        optimizer.zero", f"{more}        optimizer.zero"))
    review = opened(project)
    twins = [key for key, item in review.items.items() if item.finding.code == "PM206"]
    for key, verdict in zip(twins, (A, R, R), strict=True):
        review.decide([key], verdict, "no" if verdict is R else "")
    assert perfmod("apply", ".", "--decisions", ".perfmod/decisions.json").returncode == 0
    review = opened(project)
    twins = [key for key, item in review.items.items() if item.finding.code == "PM206"]
    assert [review.items[key].verdict for key in twins] == [R, R]
    review.decide(twins[:1], A)
    again = opened(project)
    assert [(again.items[key].verdict, again.items[key].note) for key in twins] == [(A, ""), (R, "no")]


def test_rejected_rewrites_are_not_made_and_not_counted(project: Path, perfmod: Perfmod) -> None:
    decided(project, A, R, U)
    checked = perfmod("check", ".")
    assert checked.returncode == 1
    assert "PM202" not in checked.stdout
    assert "2 rewrites in 1 of 2 files" in checked.stderr
    assert "1 rejected in the review" in checked.stderr
    explained = perfmod("check", ".", "--explain-all").stdout
    assert "rejected: rejected in .perfmod/decisions.json" in explained
    assert perfmod("apply", ".").returncode == 0
    text = (project / "train.py").read_text()
    assert ("num_workers" in text, "pin_memory" in text, "loss.detach()" in text) == (True, False, True)
    assert perfmod("check", ".").returncode == 0


def test_only_what_was_accepted_is_made(project: Path, perfmod: Perfmod) -> None:
    decided(project, U, R, A)
    made = perfmod("apply", ".", "--decisions", ".perfmod/decisions.json")
    assert "1 undecided in the review" in made.stderr
    text = (project / "train.py").read_text()
    assert ("num_workers" in text, "pin_memory" in text, "loss.detach()" in text) == (False, False, True)


def test_accepting_takes_what_it_builds_on_along(project: Path) -> None:
    lines = (project / "train.py").read_text().splitlines(keepends=True)
    start = next(number for number, line in enumerate(lines) if line.startswith("    for "))
    end = lines.index("    print(total)\n")
    epochs = ["    for epoch in range(3):\n", *(f"    {line}" for line in lines[start:end])]
    (project / "train.py").write_text("".join([*lines[:start], *epochs, *lines[end:]]))
    review = Review.of((".",), Options(extend_select=("PM203",)), cwd=project)
    items = {item.finding.code: item for item in review.items.values()}
    assert items["PM203"].builds_on == (items["PM201"].key,)
    review.decide([items["PM201"].key], A, "eight cores")
    review.decide([items["PM203"].key], A)
    assert review.items[items["PM201"].key].note == "eight cores"
    assert dict(verdicts(review)) == {
        "PM201": "accepted",
        "PM202": "undecided",
        "PM203": "accepted",
        "PM106": "undecided",
    }
    review.decide([items["PM201"].key], R)
    assert dict(verdicts(review))["PM203"] == "undecided"
    assert {row.rule: row.verdict for row in review.decisions.rows.values()} == {"PM201": R}


def test_the_file_is_readable_and_merged_by_git(project: Path) -> None:
    """Two people decide about neighbouring findings on two branches."""

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True)

    (project.parent / "attributes").write_text(".perfmod/decisions.json merge=union\n")
    git("add", ".")
    git("commit", "-q", "-m", "code")
    review = opened(project)
    review.decide([next(iter(review.items))], A)
    git("add", ".")
    git("commit", "-q", "-m", "first")
    for branch, number in (("one", 1), ("two", 2)):
        git("switch", "-q", "-c", branch, "main")
        review = opened(project)
        review.decide([list(review.items)[number]], R)
        git("commit", "-q", "-a", "-m", branch)
    git("-c", "core.attributesFile=../attributes", "merge", "-q", "one", "-m", "both")
    assert verdicts(opened(project)) == [("PM201", "accepted"), ("PM202", "rejected"), ("PM106", "rejected")]
    text = (project / ".perfmod" / "decisions.json").read_text()
    assert next(line for line in text.splitlines() if "PM106" in line).startswith(
        '    {"path": "train.py", "rule": "PM106"'
    )


def test_two_reviews_at_once_keep_each_others_decisions(project: Path) -> None:
    one, other = opened(project), opened(project)
    one.decide([next(iter(one.items))], A)
    other.decide([list(other.items)[1]], R)
    assert verdicts(opened(project)) == [("PM201", "accepted"), ("PM202", "rejected"), ("PM106", "undecided")]


def test_many_writers_at_once_lose_nothing(project: Path) -> None:
    """Processes that write at the same time, each some decisions one after the other."""
    code = """
import sys
from pathlib import Path
from perfmod.review.decisions import Decision, Decisions
from perfmod.review.items import Verdict
for number in range(20):
    row = Decision(f"{sys.argv[1]}.py", "PM101", "", f"{number:016}", 1, 1, Verdict.ACCEPTED)
    Decisions.read(Path.cwd()).with_changes([row])
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, name], cwd=project) for name in "abcd"]
    assert [writer.wait(timeout=120) for writer in writers] == [0] * 4
    assert len(Decisions.read(project).rows) == 80
    assert [path.name for path in (project / ".perfmod").iterdir()] == ["decisions.json"]


def test_a_lock_that_nobody_gives_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfmod.writing._PATIENCE", 0.1)
    decisions = Decisions.read(project).with_changes([])
    with exclusive(decisions.file), pytest.raises(Failure, match="another perfmod is writing it, and does not end"):
        decisions.with_changes([ROW])
    assert decisions.with_changes([ROW]).rows


def test_what_a_killed_process_leaves_is_cleared_away(project: Path) -> None:
    """Its lock holds nobody up, and its temporary file goes once nobody can be writing it any more."""
    folder = project / ".perfmod"
    folder.mkdir()
    for name, hours in (
        ("decisions.json.lock", 0),
        (".perfmod-0abc_xyz", 2),
        (".perfmod-1abc_xyz", 0),
        (".perfmod-", 2),
    ):
        (folder / name).touch()
        os.utime(folder / name, (time.time() - hours * 3600,) * 2)
    assert Decisions.read(project).with_changes([ROW]).rows
    assert {path.name for path in folder.iterdir()} == {".perfmod-", ".perfmod-1abc_xyz", "decisions.json"}


def test_the_file_is_written_where_it_lies_and_as_others_may_read_it(project: Path, tmp_path: Path) -> None:
    (project / ".perfmod").mkdir()
    (project / ".perfmod" / "decisions.json").symlink_to(tmp_path / "shared.json")
    Decisions.read(project).with_changes([ROW])
    assert (project / ".perfmod" / "decisions.json").is_symlink()
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "shared.json").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize(("content", "complaint"), [
    (b"{", "is not valid JSON"),
    (b"[]", 'it has no list "decisions"'),
    (b'{"decisions": []}', "was written by another version of perfmod"),
    (b'{"schema_version": 1, "decisions": [3]}', "decision 1: must be an object"),
    (b'{"schema_version": 1, "decisions": [{"path": "a.py"}]}', 'decision 1: lacks "rule"'),
    (render([ROW]).replace(b'"accepted"', b'"maybe"'), "\"verdict\" must be accepted or rejected, and is 'maybe'"),
    (render([ROW]).replace(b'"occurrence": 1', b'"occurrence": "1"'), '"occurrence" must be a number'),
    (b"{\n<<<<<<< HEAD\n=======\n>>>>>>> two\n}", "the marks of a merge that git could not finish"),
    (b"\xff", "is not valid JSON"),
    (b"[" * 100_000, "is not valid JSON"),
    (render([ROW]).replace(b'"occurrence": 1', b'"occurrence": 2'), '"occurrence" must be from 1 to 1, and is 2'),
])  # fmt: skip
def test_files_that_hold_no_decisions(project: Path, content: bytes, complaint: str) -> None:
    file = project / ".perfmod" / "decisions.json"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(UsageMistake, match=r"\.perfmod/decisions\.json: ") as raised:
        Decisions.read(project)
    assert complaint in str(raised.value)
    assert file.read_bytes() == content


def test_rows_come_back(project: Path) -> None:
    rows = [
        ROW,
        evolve(ROW, path='päth with "quotes".py', note="line\nbreak", scope=""),
        evolve(ROW, occurrence=2, of=2),
    ]
    empty = Decisions.read(project)
    assert empty.rows == {}
    kept = Decisions.read(project, empty.with_changes(rows[:2]).file)
    assert sorted(kept.rows.values()) == sorted(rows[:2])
    # Of the same code at the same place there are two now, so what was known about one is out of date.
    assert sorted(kept.with_changes(rows[2:]).rows.values()) == sorted(rows[1:])


def test_a_file_that_cannot_be_read_is_named(project: Path, perfmod: Perfmod) -> None:
    (project / "data.py").write_text("def broken(:\n")
    done = perfmod("review", "data.py", answers="q\n")
    assert done.returncode == 3
    assert "data.py: failed: line 1" in done.stdout
