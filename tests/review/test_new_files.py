"""A rewrite that makes a file: it is shown with the finding, and goes with the decision about it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from golden_harness.golden import ROOT
from review_server import decision, serving

from perfmod.config import Options
from perfmod.examined import Examined
from perfmod.review.items import Verdict
from perfmod.review.session import Review
from perfmod.transforms.compute.recorder import recorder

SCRIPT = (ROOT / "launch-bound-step" / "two-loops.in.py").read_bytes()
Perfmod = Callable[..., subprocess.CompletedProcess[str]]
A, R, U = Verdict.ACCEPTED, Verdict.REJECTED, Verdict.UNDECIDED


@pytest.fixture
def scripts(project: Path) -> Path:
    """Two scripts of two steps each."""
    for path in project.glob("*.py"):
        path.unlink()
    (project / "a.py").write_bytes(SCRIPT)
    (project / "b.py").write_bytes(SCRIPT)
    return project


def opened(folder: Path) -> Review:
    return Review.of((".",), Options(select=("PM314",)), cwd=folder)


def changed(examined: Sequence[Examined]) -> list[str]:
    return [each.result.path for each in examined if each.result.before != each.result.after]


def test_each_finding_shows_it_and_none_builds_on_another(scripts: Path) -> None:
    review = opened(scripts)
    assert [item.finding.path for item in review.items.values()] == ["a.py", "a.py", "b.py", "b.py"]
    for key, item in review.items.items():
        assert [diff.name for diff in item.diffs] == [item.finding.path, "graphed_step.py (new file)"]
        lines = [line for hunk in item.diffs[1].hunks for line in hunk.lines]
        assert "".join(f"{line.sign}{line.text}\n" for line in lines) == "".join(
            f"+{line}\n" for line in recorder().splitlines()
        )
        assert item.builds_on == ()
        assert review.diffs([key]) == item.diffs
    assert [diff.name for diff in review.diffs([*review.items][:2])] == ["a.py", "graphed_step.py (new file)"]


@pytest.mark.parametrize(
    ("verdicts", "accepted", "rest"),
    [
        ((A, A, A, A), ["a.py", "b.py", "graphed_step.py"], ["a.py", "b.py", "graphed_step.py"]),
        ((R, R, A, U), ["b.py", "graphed_step.py"], ["b.py", "graphed_step.py"]),
        ((U, A, R, R), ["a.py", "graphed_step.py"], ["a.py", "graphed_step.py"]),
        ((R, U, U, U), [], ["a.py", "b.py", "graphed_step.py"]),
        ((R, R, R, R), [], []),
    ],
)
def test_it_stays_while_one_of_them_stays(
    scripts: Path, perfmod: Perfmod, verdicts: tuple[Verdict, ...], accepted: list[str], rest: list[str]
) -> None:
    review = opened(scripts)
    for key, verdict in zip(review.items, verdicts, strict=True):
        review.decide([key], verdict)
    assert changed(review.accepted()) == accepted
    assert changed(review.without_rejected()) == rest
    again = opened(scripts)
    assert [item.verdict for item in again.items.values()] == list(verdicts)
    perfmod("apply", ".", "--select", "PM314", "--decisions", ".perfmod/decisions.json")
    assert (scripts / "graphed_step.py").exists() == bool(accepted)
    perfmod("revert")
    perfmod("apply", ".", "--select", "PM314")
    assert (scripts / "graphed_step.py").exists() == bool(rest)


def test_applied_from_the_page(scripts: Path) -> None:
    with serving(scripts, "--select", "PM314") as served:
        (first, *_) = served.items()
        assert first["also"] == "also makes graphed_step.py"
        assert [diff["name"] for diff in first["diffs"]] == ["a.py", "graphed_step.py (new file)"]
        served.post("decisions", {"schema_version": 1, "decisions": [decision(first)]})
        assert served.post("apply", {}) == (
            200,
            {"files": ["a.py", "graphed_step.py"], "findings": 1, "left": []},
        )
        assert (scripts / "graphed_step.py").read_text() == recorder()
        assert len(served.items()) == 3
        assert {item["also"] for item in served.items()} == {""}
