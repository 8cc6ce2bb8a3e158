"""Every golden is rewritten into exactly its `.out.py`, and does before and after the same."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest
import torchvision_cpu
from golden_harness.beside import put_beside, rewrite_with_beside
from golden_harness.golden import ROOT, Golden, goldens
from golden_harness.sides import compare_probes, count_syncs, run_script

from perfmod.codemods import catalog
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.rule import Rule

EVERY = 4
GOLDENS = list(goldens())
CHANGES = [golden for golden in GOLDENS if golden.head.change]
STAYS = [golden for golden in GOLDENS if not golden.head.change]
ASKED = (Safety.OPT_IN, Safety.LOW_IMPACT)
OPT_IN = [golden for golden in CHANGES if golden.head.opt_in]
UNSAFE = [golden for golden in CHANGES if golden.head.unsafe]
PROBES = [golden for golden in GOLDENS if not golden.head.script]
SCRIPTS = [golden for golden in GOLDENS if golden.head.script]
COUNTED = [golden for golden in CHANGES if golden.head.syncs is not None]
OUTPUTS = sorted(ROOT.glob("*/*.out.py"))
STARTS_PROCESSES = (b"workers", b"multiprocessing", b"spawn", b"fork")
"""A script without any of these words asks for no process, and does the same however processes are started."""
RULES = {rule.name: rule for rule in catalog.rules()}


def _params(goldens: Iterable[Golden]) -> list[object]:
    """Each fourth of those that change runs every time.

    Those that stay are equal before and after; running them shows that they run.
    """
    changed = [golden for golden in goldens if golden.head.change]
    usual = {golden.name for golden in changed[::EVERY]}
    return [
        pytest.param(golden, marks=[] if golden.name in usual else [pytest.mark.exhaustive], id=golden.name)
        for golden in goldens
    ]


def _rules(golden: Golden) -> list[Rule]:
    missing = [name for name in golden.rules if name not in RULES]
    assert not missing, f"no such rule: {missing}"
    return [RULES[name] for name in golden.rules]


def _rewritten(golden: Golden, code: bytes | None = None, *, unsafe: bool | None = None) -> FileResult:
    rules = _rules(golden)
    selected = frozenset(rule.code for rule in rules)
    unsafe = golden.head.unsafe if unsafe is None else unsafe
    admitted = Choice(unsafe=unsafe, opted_in=selected, low_impact=golden.head.opt_in, policy=golden.head.policy)
    result = rewrite_with_beside(golden.before if code is None else code, golden.path.name, rules, admitted)
    assert result.outcome is not Outcome.FAILED, result.reason
    return result


def _numerics(golden: Golden) -> Numerics:
    return golden.head.numerics or max((rule.numerics for rule in _rules(golden)), key=list(Numerics).index)


def _numerics_of_figures(golden: Golden) -> Numerics:
    """The numerics of the rule, or rounding where a finding says that shown figures may differ by that."""
    shown = any(finding.figures_may_differ for finding in _rewritten(golden).applied)
    numerics = _numerics(golden)
    return Numerics.ROUNDING if shown and numerics is not Numerics.BEHAVIOURAL else numerics


def _needs(golden: Golden) -> None:
    if b"torchvision" in golden.before:
        torchvision_cpu.load_or_skip()


@pytest.mark.parametrize("golden", CHANGES, ids=lambda golden: golden.name)
def test_is_rewritten_into(golden: Golden, request: pytest.FixtureRequest) -> None:
    result = _rewritten(golden)
    refusals = [finding.reason for finding in result.refused]
    assert result.after != golden.before, f"was not rewritten; refused: {refusals}"
    if request.config.getoption("--regen-goldens"):
        if not golden.out_path.exists() or golden.out_path.read_bytes() != result.after:
            golden.out_path.write_bytes(result.after)
            pytest.fail(f"wrote {golden.out_path.name}: read it, then run again without --regen-goldens")
        return
    assert golden.out_path.exists(), f"no {golden.out_path.name} yet: run pytest --regen-goldens and read it"
    assert result.after.decode() == golden.after.decode()
    assert result.applied
    chosen = {finding for finding in result.applied if finding.safety in ASKED}
    assert golden.head.opt_in or all(RULES[golden.rule].safety is Safety.OPT_IN for _ in chosen)


@pytest.mark.parametrize("golden", STAYS, ids=lambda golden: golden.name)
def test_stays(golden: Golden) -> None:
    result = _rewritten(golden, unsafe=True)
    assert result.after == golden.before
    assert not result.applied
    if golden.head.silent:
        assert not result.refused, "reports something where nothing is wrong"
        return
    is_advice = golden.head.advised is not None
    reasons = [finding.reason for finding in result.refused if finding.refused is not is_advice]
    assert reasons, "nothing was reported"
    assert (golden.head.advised or golden.head.refused or "").lower() in " | ".join(reasons).lower()


@pytest.mark.parametrize("golden", UNSAFE, ids=lambda golden: golden.name)
def test_is_held_back_without_unsafe(golden: Golden) -> None:
    result = _rewritten(golden, unsafe=False)
    assert result.after == golden.before
    assert result.held_back


@pytest.mark.parametrize("golden", OPT_IN, ids=lambda golden: golden.name)
def test_is_held_back_unless_it_is_asked_for(golden: Golden) -> None:
    result = rewrite_with_beside(
        golden.before, golden.path.name, _rules(golden), Choice(unsafe=True, policy=golden.head.policy)
    )
    assert result.after == golden.before
    assert result.held_back
    assert all(finding.safety in ASKED for finding in result.held_back)


@pytest.mark.parametrize("golden", CHANGES, ids=lambda golden: golden.name)
def test_second_run_finds_nothing(golden: Golden) -> None:
    result = _rewritten(golden, golden.after)
    assert (result.after, result.applied, result.held_back) == (golden.after, (), ())


@pytest.mark.parametrize("golden", _params(PROBES))
def test_does_the_same(golden: Golden, folder: Path) -> None:
    if golden.head.cuda:
        pytest.skip("needs a CUDA device")
    _needs(golden)
    assert compare_probes(golden.before, golden.after, _numerics_of_figures(golden), folder) == []


@pytest.mark.long
@pytest.mark.parametrize("golden", _params(SCRIPTS))
def test_script_prints_the_same(golden: Golden, tmp_path: Path) -> None:
    _needs(golden)
    status, printed = run_script(golden.before, tmp_path / "before")
    assert (status, bool(printed)) == (0, True)
    if golden.head.change:
        assert run_script(golden.after, put_beside(golden.after, tmp_path / "after")) == (0, printed)
        if any(word in golden.after for word in STARTS_PROCESSES):
            assert run_script(golden.after, put_beside(golden.after, tmp_path / "spawned"), "spawn") == (0, printed)


@pytest.mark.cuda
@pytest.mark.parametrize("golden", _params(PROBES))
def test_does_the_same_on_cuda(golden: Golden, folder: Path) -> None:
    _needs(golden)
    assert compare_probes(golden.before, golden.after, _numerics_of_figures(golden), folder, "cuda") == []


@pytest.mark.cuda
@pytest.mark.parametrize("golden", COUNTED, ids=lambda golden: golden.name)
def test_synchronisations_are_gone(golden: Golden, folder: Path) -> None:
    before = count_syncs(golden.before, golden.head.hot, folder)
    after = count_syncs(golden.after, golden.head.hot, folder)
    assert before > after == golden.head.syncs


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_outputs_parse_and_belong_to_a_change(path: Path) -> None:
    ast.parse(path.read_bytes())
    assert path.with_name(path.name.replace(".out.py", ".in.py")) in {golden.path for golden in CHANGES}
