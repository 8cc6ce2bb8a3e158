"""The verifier on itself: it refuses what is wrong, for the right reason, and proves what is right.

What was rewritten wrongly claims the class `rounding`, which allows more than `bitwise` and is what most rewrites that
change anything at all need.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest
from attrs import evolve
from verify_bench import STEPS, Bench
from verify_variants import Script, Variant, scripts

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.proving import CannotRun

SCRIPTS = scripts()
MUTANTS = [mutant for script in SCRIPTS for mutant in script.mutants]
RIGHTS = [right for script in SCRIPTS for right in script.rights]
KINDS = 6
"""Of script some of whose variants run without --exhaustive."""


def _params(variants: Iterable[Variant]) -> list[object]:
    marks = {True: [pytest.mark.exhaustive], False: []}
    return [pytest.param(variant, marks=marks[variant.exhaustive], id=str(variant)) for variant in variants]


def _itself() -> list[object]:
    """The scripts; all but a few compare themselves with --exhaustive only."""
    marks = {True: [], False: [pytest.mark.exhaustive]}
    return [pytest.param(s, marks=marks[str(s) == "graph"], id=str(s)) for s in SCRIPTS]


def told(equality: Equality) -> str:
    """All that was seen, for a test that fails."""
    rows = (
        f"  {check.verdict.value:12} {check.name}: {check.measured} of {check.allowed}, "
        f"noise {check.noise}, control {check.control}: {check.reason}"
        for check in equality.checks
    )
    return "\n".join([f"{equality.verdict.value}: {equality.reason}", *rows])


@pytest.mark.parametrize("mutant", _params(mutant for mutant in MUTANTS if not mutant.cuda))
def test_refuses_for_the_right_reason(bench: Bench, mutant: Variant) -> None:
    equality = bench.judge(mutant)
    assert equality.verdict in mutant.verdicts, told(equality)
    assert re.search(mutant.reason, equality.reason), told(equality)


@pytest.mark.cuda
@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if mutant.cuda], ids=str)
def test_refuses_on_cuda(bench: Bench, mutant: Variant) -> None:
    equality = bench.judge(mutant, "cuda")
    assert equality.verdict in mutant.verdicts, told(equality)
    assert re.search(mutant.reason, equality.reason), told(equality)


@pytest.mark.long
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("right", _params(RIGHTS))
def test_proves_a_right_rewrite(bench: Bench, right: Variant, device: str) -> None:
    equality = bench.judge(right, device)
    assert equality.verdict is Verdict.PROVEN, told(equality)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("script", _itself())
def test_proves_that_a_script_is_like_itself(bench: Bench, script: Script, device: str) -> None:
    classes = sorted({Numerics.BITWISE, Numerics.ROUNDING, *(right.numerics for right in script.rights)})
    for numerics, equality in zip(classes, bench.judge_itself(script, classes, device), strict=True):
        assert equality.verdict is Verdict.PROVEN, f"as {numerics.value}: {told(equality)}"
        # Another precision is compared over more steps, as many as the script makes.
        assert equality.steps > STEPS if numerics is Numerics.PRECISION else equality.steps == STEPS


def test_judges_nothing_where_nothing_trains(bench: Bench) -> None:
    any_mutant = next(mutant for mutant in MUTANTS if mutant.path.parent.name == "segmentation")
    idle = evolve(any_mutant, both=(("step >= 100", "step >= 0"),))
    with pytest.raises(CannotRun, match="ended before a torch optimizer had stepped"):
        bench.judge(idle)


def test_the_suite_is_wide_enough() -> None:
    for variants, fewest, always in (MUTANTS, 70, 20), (RIGHTS, 35, 8):
        kinds = Counter(variant.path.parent.name for variant in variants if not (variant.exhaustive or variant.cuda))
        assert len(kinds) >= KINDS
        assert kinds.total() >= always
        assert len(variants) >= fewest
    assert not any(Verdict.PROVEN in mutant.verdicts for mutant in MUTANTS)
    assert len({str(variant) for variant in MUTANTS + RIGHTS}) == len(MUTANTS + RIGHTS)
