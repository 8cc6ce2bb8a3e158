"""What a rounding means where equal bits are wanted: the original is asked again before it refutes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import traced_training
from attrs import define, evolve, field

from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.failures import Kind, Trouble
from perfmod.verify.job import Job, Mode
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.proving import SEED, Candidate, Prover
from perfmod.verify.request import Request
from perfmod.verify.running import Ran
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.tree import Tree

STEPS = 4


@cache
def trained(lr: float, jitter: int | None) -> tuple[dict[str, Any], Any]:
    return traced_training.document(traced_training.Recipe(steps=4, lr=lr, jitter=jitter))


@define
class MadeUp:
    """Stands in for `Runner`.

    Attributes:
        steady: so many runs of the original give equal bits; the next ones do not.
        lr: of the other side.
        warned: operations that torch's deterministic mode names.
        is_by_hand: the script has no optimizer, and steps that count backward passes.
        other_bits: whether it computes other bits.
        drawing: the sides that draw random numbers on the GPU; both where it is not known.
        short: the other side's learning rate in runs whose epochs are short; None where the original fails in these.
        course: factor of the other side's loss over many steps, in which noise moves the original's, and only seeds
            from the fourth on draw other samples; None where there are no such runs.
        seeds: with which the original was run over many steps.
    """

    steady: int = 100
    lr: float = 0.05
    warned: Sequence[str] = ()
    is_by_hand: bool = False
    other_bits: bool = False
    short: float | None = None
    drawing: Sequence[str] | None = None
    course: float | None = None
    seeds: list[int] = field(factory=list)
    originals: int = 0
    deterministic: int = 0
    asked: list[tuple[Mode, int]] = field(factory=list)
    without_dropout: set[str] = field(factory=set)
    scratch: Scratch | None = None

    def run(self, side: Side, job: Job) -> Ran:
        return self._ran(side, job)

    def run_all(self, runs: Sequence[tuple[Side, Job]], _concurrency: int = 1) -> list[Ran]:
        return [self._ran(side, job) for side, job in runs]

    def _ran(self, side: Side, job: Job) -> Ran:
        self.asked.append((job.mode, job.by_hand))
        if not job.dropout:
            self.without_dropout.add(side.name)
        if self.is_by_hand and not job.by_hand:
            stuck = {"steps": {}, "backwards": 101, "optimizers": 0, "handed": [], "modules": [], "on_cpu": False}
            return Ran(Trouble(Kind.NEVER_STEPPED, "no optimizer stepped"), (stuck,))
        if self.course is not None and job.steps > STEPS:
            return self._over_a_course(side, job, self.course)
        if job.epoch and self.short is None:
            return Ran(Trouble(Kind.EXITED, "it wants whole epochs"), ())
        if job.epoch:
            record, numbers = trained(0.05 if side.name == ORIGINAL else self.short, None)
        elif job.mode is not Mode.EQUALITY:
            record, numbers = trained(0.05, None)
        elif side.name != ORIGINAL:
            record, numbers = trained(self.lr, 99 if self.lr == 0.05 else None)
        elif job.deterministic:
            self.deterministic += 1
            record, numbers = trained(0.05, 7 if self.other_bits else None)
        else:
            self.originals += 1
            record, numbers = trained(0.05, None if self.originals <= self.steady else self.originals)
        named = list(self.warned) if job.deterministic else []
        drawn = {} if self.drawing is None else {"draws_on_devices": side.name in self.drawing}
        added = {"unrepeatable": named, "environment": {}, "modules": [], **drawn}
        return Ran(None, ({**added, **record, "optimizers": not self.is_by_hand},), (numbers,))

    def _over_a_course(self, side: Side, job: Job, course: float) -> Ran:
        factor = 1.01 if job.perturb else 1.0 if side.name == ORIGINAL else course
        if side.name == ORIGINAL and not job.perturb:
            self.seeds.append(job.seed - SEED)
        samples = max(0, job.seed - SEED - 3)
        recipe = traced_training.Recipe(steps=16, data_seed=samples, loss=lambda _, loss: factor * loss)
        record, numbers = traced_training.document(recipe)
        return Ran(
            None, ({"unrepeatable": [], "environment": {}, "modules": [], "optimizers": 1, **record},), (numbers,)
        )


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., tuple[Equality, MadeUp]]:
    """The verdict on a side that wants equal bits, and the runs."""

    def judge(runner: MadeUp, numerics: Numerics = Numerics.BITWISE) -> tuple[Equality, MadeUp]:
        script = tmp_path / "train.py"
        script.write_text("import torch\n")
        runner.scratch = Scratch(Path(tempfile.mkdtemp(dir=tmp_path)))
        said = "perfmod verify train.py"
        request = Request(script, None, (), "cuda", "python", STEPS, True, None, 60.0, None, (), said)
        request = evolve(request, course=None if runner.course is None else 16)
        lab = Laboratory(runner, request, lambda _what: None, 1e5)  # type: ignore[arg-type]
        tree = Tree.of(script)
        prover = Prover(lab, Side(ORIGINAL, tree, script.relative_to(tree.root)))
        if runner.drawing is not None:
            prover.imported()
        other = Side("rewritten", tree, script.relative_to(tree.root))
        (equality,) = prover.judge([Candidate(other, numerics)])
        lab.time(other)
        return equality, runner

    return judge


def test_an_original_that_differs_from_itself_at_the_third_run_refutes_nothing(judged: Callable[..., Any]) -> None:
    equality, runner = judged(MadeUp(steady=2, warned=["index_add_cuda_"]))
    assert equality.verdict is Verdict.PROVEN
    assert equality.reason.endswith("; the original does not repeat its own bits because of `index_add_cuda_`")
    assert runner.originals == 5


def test_a_rounding_refutes_once_chance_is_unlikely(judged: Callable[..., Any]) -> None:
    equality, runner = judged(MadeUp())
    assert equality.verdict is Verdict.REFUTED
    assert "the original gave the same bits in 8 runs, and under torch's deterministic mode" in equality.reason
    assert (runner.originals, runner.deterministic) == (8, 1)


@pytest.mark.parametrize(("runner", "said"), [
    (MadeUp(warned=["a_backward_cuda", "b_cuda"]), "`a_backward_cuda`, `b_cuda` need not repeat their bits"),
    (MadeUp(other_bits=True), "it uses operations that need not repeat their bits"),
])  # fmt: skip
def test_operations_that_need_not_repeat_leave_a_doubt(judged: Callable[..., Any], runner: MadeUp, said: str) -> None:
    equality, _ = judged(runner)
    assert equality.verdict is Verdict.INCONCLUSIVE
    assert f"that may be chance: the original gave the same bits in 8 runs, but {said}" in equality.reason


def test_more_than_a_rounding_refutes_at_once(judged: Callable[..., Any]) -> None:
    equality, runner = judged(MadeUp(lr=0.06))
    assert equality.verdict is Verdict.REFUTED
    assert (runner.originals, runner.deterministic) == (2, 0)


@pytest.mark.parametrize(("factor", "verdict", "seeds"), [
    (1.0, Verdict.PROVEN, {0, 1, 2, 3}),
    (1.005, Verdict.PROVEN, set(range(8))),
    (2.0, Verdict.REFUTED, {0, 1, 2, 3}),
])  # fmt: skip
def test_what_lies_just_beyond_a_few_seeds_is_compared_with_more(
    judged: Callable[..., Any], factor: float, verdict: Verdict, seeds: set[int]
) -> None:
    equality, runner = judged(MadeUp(course=factor), Numerics.PRECISION)
    assert equality.verdict is verdict, equality.reason
    assert set(runner.seeds) == seeds


def test_a_script_without_an_optimizer_is_run_again(judged: Callable[..., Any]) -> None:
    equality, runner = judged(MadeUp(steady=2, is_by_hand=True))
    assert equality.verdict is Verdict.PROVEN
    assert runner.asked[0] == (Mode.EQUALITY, 0)
    # A step of the made-up training is a backward pass.
    assert runner.asked[-1] == (Mode.TIMING, 1)
    first = runner.asked.index((Mode.EQUALITY, 1))
    assert all(by_hand == 1 for mode, by_hand in runner.asked[first:])


@pytest.mark.parametrize(("short", "verdict"), [(0.05, Verdict.PROVEN), (0.06, Verdict.REFUTED)])
def test_what_differs_where_epochs_are_short(judged: Callable[..., Any], short: float, verdict: Verdict) -> None:
    equality, _ = judged(MadeUp(short=short), Numerics.ROUNDING)
    assert equality.verdict is verdict
    assert equality.reason.startswith("with short epochs: ") is (verdict is Verdict.REFUTED)
    assert any(check.name == "with short epochs" for check in equality.checks)


def test_an_original_that_cannot_have_short_epochs_is_judged_without_them(judged: Callable[..., Any]) -> None:
    equality, _ = judged(MadeUp(), Numerics.ROUNDING)
    assert equality.verdict is Verdict.PROVEN
    assert not any("short epochs" in check.name for check in equality.checks)


@pytest.mark.parametrize(("drawing", "sides"), [
    (None, {ORIGINAL, "rewritten"}),
    ((ORIGINAL, "rewritten"), {ORIGINAL, "rewritten"}),
    (("rewritten",), {ORIGINAL, "rewritten"}),
    ((), set()),
])  # fmt: skip
def test_where_nothing_is_drawn_there_is_no_dropout(
    judged: Callable[..., Any], drawing: Sequence[str] | None, sides: set[str]
) -> None:
    equality, runner = judged(MadeUp(drawing=drawing), Numerics.SAMPLING)
    assert equality.verdict is Verdict.PROVEN
    assert runner.without_dropout == sides
