"""Every golden of several files is rewritten into exactly its `.out`, and prints before and after the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import torchvision_cpu
from golden_harness.projects import ROOT, Project, projects
from golden_harness.sides import run_project
from snippets import dotted_names

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome

PROJECTS = list(projects())
CHANGES = [project for project in PROJECTS if project.head.change]
STAYS = [project for project in PROJECTS if not project.head.change]
RULES = {rule.name: rule for rule in catalog.rules()}


def _params(given: Iterable[Project]) -> list[object]:
    """Those that stay are equal before and after; running them shows that they run."""
    marks = {True: [], False: [pytest.mark.exhaustive]}
    return [pytest.param(project, marks=marks[project.head.change], id=project.name) for project in given]


def _rewritten(project: Project, files: Mapping[str, bytes], *, unsafe: bool = False) -> tuple[FileResult, ...]:
    rules = [RULES[name] for name in project.rules]
    opted_in = frozenset(rule.code for rule in rules)
    is_low = project.head.opt_in or project.head.unsafe
    admitted = Choice(
        unsafe=unsafe or project.head.unsafe, opted_in=opted_in, low_impact=is_low, policy=project.head.policy
    )
    given = [Given(path, data, dotted_names(path)) for path, data in files.items()]
    results = rewrite_together(given, rules, admitted)
    assert not [result.reason for result in results if result.outcome is Outcome.FAILED]
    return results


@pytest.mark.parametrize("project", CHANGES, ids=lambda project: project.name)
def test_is_rewritten_into(project: Project, request: pytest.FixtureRequest) -> None:
    results = _rewritten(project, project.before)
    refusals = [finding.reason for result in results for finding in result.refused]
    changed = {result.path: result.after for result in results if result.outcome is Outcome.CHANGED}
    assert changed, f"was not rewritten; refused: {refusals}"
    if request.config.getoption("--regen-goldens") and changed != dict(_out(project)):
        for path, data in changed.items():
            (project.out_path / path).parent.mkdir(parents=True, exist_ok=True)
            (project.out_path / path).write_bytes(data)
        pytest.fail(f"wrote {project.out_path.name}: read it, then run again without --regen-goldens")
    assert {path: data.decode() for path, data in changed.items()} == {
        path: data.decode() for path, data in _out(project).items()
    }


def _out(project: Project) -> Mapping[str, bytes]:
    return {path: data for path, data in project.after.items() if data != project.before.get(path)}


@pytest.mark.parametrize("project", STAYS, ids=lambda project: project.name)
def test_stays(project: Project) -> None:
    results = _rewritten(project, project.before, unsafe=True)
    assert {result.outcome for result in results} == {Outcome.UNCHANGED}
    reasons = [finding.reason for result in results for finding in result.refused]
    if project.head.refused is None:
        assert not reasons, "reports something where nothing is wrong"
    else:
        assert project.head.refused.lower() in " | ".join(reasons).lower()


@pytest.mark.parametrize("project", CHANGES, ids=lambda project: project.name)
def test_second_run_finds_nothing(project: Project) -> None:
    results = _rewritten(project, project.after)
    assert {result.outcome for result in results} == {Outcome.UNCHANGED}
    assert not any(result.applied or result.held_back for result in results)


@pytest.mark.exhaustive
@pytest.mark.parametrize("project", _params(PROJECTS))
def test_prints_the_same(project: Project, tmp_path: Path) -> None:
    if b"torchvision" in b"".join(project.before.values()):
        torchvision_cpu.load_or_skip()
    status, printed = run_project(project.before, tmp_path / "before")
    assert (status, bool(printed)) == (0, True)
    if project.head.change:
        assert run_project(project.after, tmp_path / "after") == (0, printed)
        assert run_project(project.after, tmp_path / "spawned", "spawn") == (0, printed)


def test_outputs_belong_to_a_change() -> None:
    assert set(ROOT.glob("*/*.out/")) == {project.out_path for project in CHANGES}
    assert not any(path not in project.before for project in CHANGES for path in project.after)
