"""Scripts as they are: trainers that step by themselves, launchers, notebooks, closures, worker processes.

Each script is run twice by the harness. What it saw has to be a whole training, and the same in every bit; wrong
variants of some of them have to be caught.
"""

from __future__ import annotations

import re
import shutil
import sys
from array import array
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import forked_python
import pytest
import torchvision_cpu
from attrs import field, frozen

from perfmod.transforms.finding import Numerics
from perfmod.verify.calling import Call
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.job import Job, Mode
from perfmod.verify.judging import Controls, judge_ranks
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import Side
from perfmod.verify.trace import Trace
from perfmod.verify.tree import Tree

SCRIPTS = Path(__file__).resolve().parents[1] / "support" / "verify_scripts"
STEPS = 6
REPEATABLE = ("steps", "backwards", "batches", "samples", "skipped", "half", "ended", "events", "snapshots")


@frozen
class Case:
    """A script, how it is called, and what its training consists of.

    Attributes:
        path: in `verify_scripts`.
        needs: modules that may be missing.
        nproc: processes under `torchrun`.
        ranks: how many train.
        backwards: passes for each step of the optimizer; None where the optimizer decides.
        samples: that loaders hand out for each step; 0 where there is no loader.
    """

    path: str
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    nproc: int | None = None
    ranks: int = 1
    backwards: int | None = 1
    samples: int = 0

    def __str__(self) -> str:
        return " ".join([Path(self.path).stem, *self.arguments])


LIGHTNING = Case("frameworks/lightning_fit.py", needs=("lightning",), backwards=2, samples=16)
ACCELERATE = Case("frameworks/accelerate_loop.py", needs=("accelerate",), backwards=2, samples=16)
TRANSFORMERS = Case("frameworks/hf_trainer.py", needs=("accelerate", "transformers"), backwards=2, samples=16)
TORCHRUN = Case("frameworks/ddp_torchrun.py", nproc=2, ranks=2, samples=8)
CASES = (
    LIGHTNING,
    ACCELERATE,
    TRANSFORMERS,
    TORCHRUN,
    Case("frameworks/ddp_spawn.py", ranks=2),
    Case("frameworks/notebook.py", samples=16),
    Case(
        "frameworks/required_arguments.py", ("rows.csv", "--width", "8", "--optimizer", "adam", "--betas", "0.8", "0.9")
    ),
    Case("frameworks/worker_processes.py", ("--start-method", "spawn"), samples=8),
    Case("frameworks/worker_processes.py", ("--start-method", "forkserver"), samples=8),
    Case("frameworks/lbfgs_closure.py", backwards=None, samples=32),
    Case("frameworks/several_loaders.py", backwards=2, samples=24),
    Case("mixed_precision/train_amp.py", samples=4),
    Case("compiled/train_compiled.py", ("--backend", "aot_eager"), samples=8),
)


@frozen
class Wrong:
    """A variant that trains otherwise. `reason` is a regular expression for what has to be said of it."""

    case: Case
    name: str
    old: str
    new: str
    reason: str

    def __str__(self) -> str:
        return f"{self.case}: {self.name}"


WRONG = (
    Wrong(LIGHTNING, "clipped otherwise", "gradient_clip_val=0.5", "gradient_clip_val=0.05", "gradient|parameter"),
    Wrong(LIGHTNING, "steps twice as often", "accumulate_grad_batches=2", "accumulate_grad_batches=1", "^lr is"),
    Wrong(
        ACCELERATE, "loss scaled", "accelerator.backward(loss)", "accelerator.backward(loss * 1.01)", "loss|gradient"
    ),
    Wrong(TRANSFORMERS, "higher learning rate", "learning_rate=1e-3", "learning_rate=1.01e-3", "lr is"),
    Wrong(
        TORCHRUN,
        "one rank's batches halved",
        "source, target = source.to(device), target.to(device)",
        "keep = 8 - 4 * dist.get_rank(); source, target = source[:keep], target[:keep]",
        "gradient|loss|input",
    ),
)


@frozen
class Bench:
    """Runs cases, and remembers how they ran."""

    folder: Path
    ran: dict[Case, list[Ran]] = field(factory=dict)

    def twice(self, case: Case) -> list[Ran]:
        """Two runs of the script as it is."""
        if case not in self.ran:
            side = self.side(case)
            self.ran[case] = self.run(case, side, side)
        return self.ran[case]

    def side(self, case: Case, edit: Callable[[str], str] | None = None) -> Side:
        """The script in a tree of its own, edited or not."""
        source = SCRIPTS / case.path
        tree = self.folder / source.parent.name
        if not tree.exists():
            shutil.copytree(source.parent, tree)
        replacements = {} if edit is None else {Path(source.name): edit(source.read_text()).encode()}
        return Side("original", Tree.of(tree / source.name), Path(source.name), replacements, case.nproc)

    def run(self, case: Case, *sides: Side) -> list[Ran]:
        """One run of each side; fails where one has not trained."""
        for module in case.needs:
            if find_spec(module) is None:
                pytest.skip(f"{module} is not installed")
        job = Job(mode=Mode.EQUALITY, out=self.folder, root=self.folder, device="cpu", steps=STEPS)
        environment = torchvision_cpu.environment() | {"OMP_NUM_THREADS": "1"}
        forked = not (case.nproc or "compiled" in case.path)
        python = forked_python.python() if forked else sys.executable
        call = Call(python, case.arguments, self.folder, environment)
        with Scratch.temporary() as scratch:
            runner = Runner(scratch, call, timeout=600.0, sample_memory=False, forks=not forked)
            ran = runner.run_all([(side, job) for side in sides], concurrency=2)
        for each in ran:
            assert each.trouble is None, f"{each.trouble}\n{each.tail}"
        return ran


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("frameworks"))


def traces(ran: Ran) -> list[Trace]:
    """By rank."""
    return [Trace.read(record, numbers) for record, numbers in zip(ran.records, ran.sketches, strict=True)]


def repeatable(ran: Ran) -> list[tuple[dict[str, Any], array[float]]]:
    """By rank, all that has to be the same in a second run."""
    kept = [{key: record[key] for key in REPEATABLE} for record in ran.records]
    for record in kept:
        # Checkpoints of frameworks hold paths, which lie in the run's own folder.
        record["events"] = [event for event in record["events"] if event["kind"] != "saved"]
    return list(zip(kept, ran.sketches, strict=True))


def always(*shown: Case | Wrong) -> list[object]:
    """Parameters; all but two run with --exhaustive only, for each starts several processes."""
    quick = {LIGHTNING, TRANSFORMERS}
    return [pytest.param(each, marks=[] if each in quick else pytest.mark.exhaustive, id=str(each)) for each in shown]


@pytest.mark.long
@pytest.mark.parametrize("case", always(*CASES))
def test_the_whole_training_is_seen_and_is_the_same_twice(case: Case, bench: Bench) -> None:
    first, second = bench.twice(case)
    assert len(first.records) == case.ranks
    for trace in traces(first):
        assert trace.ended == "steps"
        assert trace.steps["0"] == STEPS
        if case.backwards is None:
            assert trace.backwards > STEPS
        else:
            assert trace.backwards == case.backwards * STEPS
        assert len(trace.losses()) == trace.backwards
        assert len(set(trace.losses())) > 1
        assert sum(batch.samples for batch in trace.batches()) >= case.samples * STEPS
        assert bool(case.samples) == any(True for _ in trace.batches())
        assert any(True for _ in trace.forwards())
        start, end = trace.snapshot("parameters", 0), trace.snapshot("parameters", STEPS)
        assert end
        assert start.keys() >= end.keys()
        assert all(end[key].bits != start[key].bits for key in trace.snapshot("gradients", 1))
        assert trace.snapshot("gradients", 1).keys() == end.keys()
    assert repeatable(first) == repeatable(second)
    assert verdict(first, second, second, Numerics.BITWISE).verdict is Verdict.PROVEN


@pytest.mark.long
@pytest.mark.parametrize("wrong", always(*WRONG))
def test_a_training_that_differs_is_caught(wrong: Wrong, bench: Bench) -> None:
    def edit(text: str) -> str:
        assert text.count(wrong.old) == 1
        return text.replace(wrong.old, wrong.new)

    first, second = bench.twice(wrong.case)
    (variant,) = bench.run(wrong.case, bench.side(wrong.case, edit))
    judged = verdict(first, variant, second, Numerics.ROUNDING)
    assert judged.verdict in (Verdict.REFUTED, Verdict.INCONCLUSIVE)
    assert re.search(wrong.reason, judged.reason), judged.reason


def verdict(original: Ran, other: Ran, repeat: Ran, numerics: Numerics) -> Equality:
    """Of the judge, over all ranks."""
    controls = [Controls(repeats=(trace,)) for trace in traces(repeat)]
    return judge_ranks(traces(original), traces(other), controls, numerics)
