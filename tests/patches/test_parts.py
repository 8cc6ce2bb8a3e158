"""In which order findings become patches, and what the files hold after each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from golden_harness.golden import Golden, goldens

from perfmod.codemods import catalog
from perfmod.codemods.results import Choice, FileResult, Given, Outcome
from perfmod.config import Settings
from perfmod.examined import Examined
from perfmod.files import FoundFile
from perfmod.patches.by import By
from perfmod.patches.parts import parts_of
from perfmod.patches.steps import steps_of
from perfmod.task import Task
from perfmod.transforms.finding import Change, Edit, Finding, Numerics, Place, Safety
from perfmod.transforms.source import Source

CHANGING = [golden for golden in goldens() if golden.head.change and golden.path.is_file()]
NAMES = {card.code: card.name for card in catalog.cards()}
EVERYTHING = Choice(unsafe=True, low_impact=True, opted_in=frozenset(NAMES))
ROOT = Path("/project")


def examined(result: FileResult, task: Task | None = None) -> Examined:
    file = FoundFile(result.path, ROOT / result.path, True, Settings(), ROOT)
    return Examined(file, result, None if task is None else lambda: task)


def finding(code: str, start: int, builds_on: Sequence[Place] = (), elsewhere: str = "") -> Finding:
    return Finding(
        code=code,
        start=start,
        end=start + 1,
        line=1,
        column=start + 1,
        message="",
        reason="",
        safety=Safety.SAFE,
        numerics=Numerics.BITWISE,
        min_torch="2.1",
        edits=(Edit(start, start + 1, "x"),),
        elsewhere=(Change(elsewhere, (Edit(0, 1, "x"),)),) if elsewhere else (),
        builds_on=tuple(builds_on),
    )


def files(**findings: list[Finding]) -> list[Examined]:
    return [
        examined(FileResult(f"{name}.py", Outcome.CHANGED, b"a", b"b", applied=tuple(applied)))
        for name, applied in findings.items()
    ]


def parted(found: Sequence[Examined], by: By) -> list[list[str]]:
    """Each part as its findings: file, rule, start."""
    parts = parts_of(found, by, dict.fromkeys(("A", "B", "C"), "rule"), lambda _path: ())
    return [[f"{one.place.path[0]}{one.place.code}{one.place.start}" for one in part.applied] for part in parts]


def test_rules_take_turns_where_they_build_on_each_other() -> None:
    found = files(
        f=[
            finding("A", 1),
            finding("A", 2, [Place("f.py", "B", 3)]),
            finding("B", 3, [Place("f.py", "A", 1)]),
            finding("C", 4),
        ]
    )
    assert parted(found, By.RULE) == [["fC4"], ["fA1"], ["fB3"], ["fA2"]]
    assert parted(found, By.FINDING) == [["fA1"], ["fB3"], ["fA2"], ["fC4"]]
    assert parted(found, By.FILE) == [["fA1", "fA2", "fB3", "fC4"]]


def test_files_that_one_finding_changes_stay_together() -> None:
    found = files(f=[finding("A", 1)], g=[finding("B", 1)], h=[finding("A", 2, elsewhere="f.py")])
    assert parted(found, By.FILE) == [["fA1", "hA2"], ["gB1"]]
    owners = {"f.py": ("@a",), "g.py": ("@a",), "h.py": ("@b",)}
    parts = parts_of(found, By.OWNER, dict.fromkeys("AB", "rule"), lambda path: owners[path.name])
    assert [(part.label, part.owners) for part in parts] == [("@a", ("@a",)), ("@a @b", ("@a", "@b"))]


@pytest.mark.parametrize("golden", CHANGING[::20], ids=lambda golden: golden.name)
@pytest.mark.parametrize("by", [By.RULE, By.FINDING])
def test_rewrites_of_real_rules(golden: Golden, by: By) -> None:
    """One after the other lead to the file as a whole, and every state parses."""
    path = golden.path.name
    task = Task((Given(path, golden.before),), frozenset({path}), catalog.cards(), EVERYTHING)
    (result,) = task.run()
    found = [examined(result, task)]
    parts = parts_of(found, by, NAMES, lambda _path: ())
    steps = steps_of(found, parts, None)
    current = result.before
    for step in steps:
        (before,), (after,) = step.before.values(), step.after.values()
        assert current == before != after
        Source.parse(after, path)
        current = after
    assert current == result.after
    assert sum(len(step.part.applied) for step in steps) == len(result.applied)
