"""The flow of a verification, with runs that are made up: what is kept, withdrawn, repeated and told."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import traced_training
from attrs import define, field

from perfmod.codemods.results import Choice
from perfmod.config import Options
from perfmod.errors import ExitCode
from perfmod.examine import examine
from perfmod.examined import Examined
from perfmod.verify import machine
from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.failures import Kind, Trouble
from perfmod.verify.job import SEED, Job, Mode
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.load import Meter
from perfmod.verify.recorder import Recorder
from perfmod.verify.request import Request
from perfmod.verify.running import Ran, Watched
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.stacks import Rewriting
from perfmod.verify.tree import Tree
from perfmod.verify.verification import Verification, exit_code

SCRIPT = """\
import torch
from torch import nn

model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def step(inputs: torch.Tensor, target: torch.Tensor):
    found = torch.nonzero(target == 2, as_tuple=True)
    target[found] = -1
    mask = target != -1
    loss = criterion(model(inputs)[mask], target[mask])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(3):
    step(torch.randn(8, 4).cuda(), torch.randint(0, 3, (8,)).cuda())
"""
Milliseconds = Callable[[set[str]], float]
"""The time of a step, given the rules that are in the code."""


@cache
def trained(lr: float) -> tuple[dict[str, Any], Any]:
    return traced_training.document(traced_training.Recipe(steps=4, lr=lr))


def rules_in(side: Side) -> set[str]:
    text = side.text(side.script)
    return {code for code, sign in (("PM101", "nonzero"), ("PM104", "[mask]")) if sign not in text}


@define
class MadeUp:
    """Stands in for `Runner`."""

    step_ms: Milliseconds
    busy_ms: float = 0.5
    spoiled_by: str = ""
    trouble: Trouble | None = None
    troubled_seed: int | None = None
    ends_early: bool = False
    ends_before_turns: bool = False
    jobs: list[tuple[set[str], Mode, int]] = field(factory=list)
    scratch: Scratch | None = None
    reaches: bool = True
    files: Sequence[Examined] = ()

    def run(self, side: Side, job: Job) -> Ran:
        return self.run_all([(side, job)])[0]

    def run_all(self, runs: Sequence[tuple[Side, Job]], _concurrency: int = 1, _conduct: object = None) -> list[Ran]:
        return [self._ran(side, job) for side, job in runs]

    def _ran(self, side: Side, job: Job) -> Ran:
        rules = rules_in(side)
        self.jobs.append((rules, job.mode, job.seed))
        if self.trouble is not None and self.troubled_seed in (None, job.seed):
            return Ran(self.trouble)
        record, numbers = trained(0.05 if self.spoiled_by not in rules else 0.06)
        if job.mode is Mode.EQUALITY:
            seen = tuple(Watched(number, True, "") for number in range(len(job.points)) if self.reaches)
            return Ran(None, ({"loaders": [], "modules": [], "environment": {}, **record},), (numbers,), watched=seen)
        if job.mode is Mode.PROFILE:
            count = 5 * (2 - len(rules))
            sync = {"file": "train.py", "line": 10, "function": "step", "count": count, "ms": 1.0, "inside": ""}
            trace = {"step_ms": 2 * self.busy_ms, "busy_share": 0.5}
            return Ran(None, ({"sync_steps": 5, "syncs": [sync] if count else [], "trace": trace},))
        place = len(self.jobs)
        ms = self.step_ms(rules)
        steps = [ms * (1.0 + 0.001 * ((place + number) % 3)) for number in range(40)]
        timing = {"step_ms": steps, "window_seconds": sum(steps) / 1000, "window_steps": 40, "steps": {"0": 60}}
        if job.turns and self.ends_before_turns:
            timing |= {"step_ms": [], "window_steps": 0}
        timing["ended"] = "exit" if self.ends_early else "steps"
        memory = {"peak_allocated_mib": 100.0, "peak_reserved_mib": 120.0}
        return Ran(None, ({**timing, **memory, "first_step_seconds": 2.0, "compile_seconds": 0.0},))


@pytest.fixture
def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Evidence, list[str], MadeUp]]:
    """Verify the script with made-up runs: the record, the rules that `apply --verify` keeps, and the runs."""
    # These take no time, whatever else goes on.
    monkeypatch.setattr(Meter, "share", 0.0)
    monkeypatch.setattr(machine, "device_activity", machine.Activity)

    def verify(runner: MadeUp, *, quick: bool = False, keep: bool = True) -> tuple[Evidence, list[str], MadeUp]:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT)
        runner.scratch = Scratch(Path(tempfile.mkdtemp(dir=tmp_path)))
        found = examine([str(script)], Options(select=("PM101", "PM104")), cwd=tmp_path, use_cache=False)
        request = Request(script, None, (), "cuda", "python", 4, quick, None, 60.0, None, (), "perfmod verify train.py")
        lab = Laboratory(runner, request, lambda _what: None, 1e5)  # type: ignore[arg-type]
        tree = Tree.of(script)
        verification = Verification(
            request,
            lab,
            Side(ORIGINAL, tree, script.relative_to(tree.root)),
            Recorder(request),
            machine.Facts("python", "3.12.0", "2.11.0"),
        )
        if not keep:
            return verification.of_stack(Rewriting.of(found)), [], runner
        evidence, left = verification.of_best_stack(Rewriting.of(found))
        runner.files = left
        return evidence, sorted({each.code for file in left for each in file.result.applied}), runner

    return verify


def test_few_steps_are_timed_and_the_verdict_says_so(verified: Callable[..., Any]) -> None:
    evidence, _, _ = verified(MadeUp(lambda rules: 10.0 - 2.0 * len(rules), ends_early=True))
    assert evidence.speed.verdict is Verdict.PROVEN
    assert evidence.speed.reason.endswith("; the script ends after 60 steps: as few as 40 of a process were timed")


def test_what_pays_is_kept(verified: Callable[..., Any]) -> None:
    evidence, kept, runner = verified(MadeUp(lambda rules: 10.0 - 2.0 * len(rules)))
    assert (evidence.verdict, kept) == (Verdict.PROVEN, ["PM101", "PM104"])
    assert evidence.speed.ratio == pytest.approx(10 / 6, rel=0.01)
    assert [(row.code, row.equality, row.withdrawn) for row in evidence.rules] == [
        ("PM101", Verdict.PROVEN, False),
        ("PM104", Verdict.PROVEN, False),
    ]
    assert evidence.rules[0].ratio == pytest.approx(10 / 8, rel=0.01)
    assert evidence.rules[1].ratio == pytest.approx(8 / 6, rel=0.01)
    assert (evidence.why.original.syncs, evidence.why.rewritten.syncs) == (2.0, 0.0)
    timed = ["".join(sorted(rules)) for rules, mode, _ in runner.jobs if mode is Mode.TIMING]
    both = "PM101PM104"
    assert timed == ["", both, both, "", "PM101", "PM101", "", both, both, ""]


@pytest.mark.parametrize(
    ("threads", "ends_before", "expected"),
    [(16, False, "ABBAAB"), (8, False, "ABBA"), (4, False, "ABBA"), (16, True, "ABBAABABBA")],
)
def test_in_a_hurry_processes_are_timed_by_turns_where_so_many_fit(
    verified: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, threads: int, ends_before: bool, expected: str
) -> None:
    monkeypatch.setattr("perfmod.verify.laboratory.usable_cpus", lambda: threads)
    evidence, _, runner = verified(
        MadeUp(lambda rules: 10.0 - 2.0 * len(rules), ends_before_turns=ends_before), quick=True, keep=False
    )
    timed = "".join("B" if rules else "A" for rules, mode, _ in runner.jobs if mode is Mode.TIMING)
    assert timed == expected
    assert evidence.verdict is Verdict.PROVEN


def test_what_brings_nothing_is_withdrawn(verified: Callable[..., Any]) -> None:
    evidence, kept, _ = verified(MadeUp(lambda _rules: 10.0))
    assert (evidence.verdict, kept) == (Verdict.NO_CHANGE, [])
    assert all(row.withdrawn and "noise" in row.reason for row in evidence.rules)
    assert exit_code(evidence) is ExitCode.OK


def test_verify_alone_withdraws_nothing(verified: Callable[..., Any]) -> None:
    evidence, _, _ = verified(MadeUp(lambda _rules: 10.0), keep=False)
    assert evidence.verdict is Verdict.NO_CHANGE
    assert not any(row.withdrawn for row in evidence.rules)


def test_what_slows_the_others_down_is_withdrawn_alone(verified: Callable[..., Any]) -> None:
    evidence, kept, _ = verified(MadeUp(lambda rules: 10.0 + 2.0 * ("PM101" in rules) - 5.0 * ("PM104" in rules)))
    assert (evidence.verdict, kept) == (Verdict.PROVEN, ["PM104"])
    assert [(row.code, row.withdrawn) for row in evidence.rules] == [("PM101", True), ("PM104", False)]
    assert "slower" in evidence.rules[0].reason


def test_what_nobody_asked_for_does_not_spoil_the_gain_of_the_rest(
    verified: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Choice, "is_chosen", lambda _self, finding, _rule: finding.code == "PM104")
    monkeypatch.setattr(Choice, "admits", lambda *_args: True)
    slow = MadeUp(lambda rules: 10.0 + 6.0 * ("PM101" in rules) - 5.0 * ("PM104" in rules))
    evidence, kept, _ = verified(slow, quick=True)
    assert (evidence.verdict, kept) == (Verdict.PROVEN, ["PM104"])
    assert [(row.code, row.withdrawn) for row in evidence.rules] == [("PM101", True), ("PM104", False)]
    assert "no faster" in evidence.rules[0].reason


def test_what_is_open_is_not_written_and_is_told(verified: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Choice, "is_chosen", lambda *_args: False)
    monkeypatch.setattr(Choice, "admits", lambda *_args: True)
    evidence, kept, runner = verified(MadeUp(lambda rules: 10.0 - 2.0 * len(rules), reaches=False))
    assert (evidence.verdict, kept) == (Verdict.NO_CHANGE, [])
    assert {(row.code, row.outcome) for row in evidence.findings} == {("PM101", "open"), ("PM104", "open")}
    held_back = [finding for file in runner.files for finding in file.result.held_back]
    assert len(held_back) == len(evidence.findings)
    assert all("do not run this code" in finding.reason for finding in held_back)


def test_slower_is_refuted(verified: Callable[..., Any]) -> None:
    evidence, kept, _ = verified(MadeUp(lambda rules: 10.0 + len(rules)))
    assert (evidence.verdict, kept, exit_code(evidence)) == (Verdict.REFUTED, [], ExitCode.REFUTED)


@pytest.mark.parametrize("quick", [False, True])
def test_what_spoils_the_training_is_dropped(verified: Callable[..., Any], quick: bool) -> None:
    runner = MadeUp(lambda rules: 10.0 - 2.0 * len(rules), spoiled_by="PM101")
    evidence, kept, _ = verified(runner, quick=quick)
    assert (evidence.verdict, kept) == (Verdict.PROVEN, ["PM104"])
    assert [(row.code, row.equality, row.withdrawn) for row in evidence.rules] == [
        ("PM101", Verdict.REFUTED, True),
        ("PM104", Verdict.PROVEN, False),
    ]
    whole, _, runner = verified(MadeUp(runner.step_ms, spoiled_by="PM101"), quick=quick, keep=False)
    assert whole.verdict is Verdict.REFUTED
    assert whole.reason.endswith("without PM101 the training is the same")
    assert not any(mode is Mode.TIMING for _, mode, _ in runner.jobs)


def test_too_good_is_repeated_on_fresh_inputs(verified: Callable[..., Any]) -> None:
    evidence, kept, runner = verified(MadeUp(lambda rules: 40.0 if not rules else 2.0, busy_ms=10.5))
    assert (evidence.verdict, kept) == (Verdict.PROVEN, ["PM101", "PM104"])
    assert "repeated on fresh inputs" in evidence.speed.suspicious
    seeds = {seed for _, mode, seed in runner.jobs if mode is Mode.EQUALITY}
    assert len(seeds) == 2


def test_removing_overhead_can_give_what_the_gpu_does_not_do(verified: Callable[..., Any]) -> None:
    evidence, _, runner = verified(MadeUp(lambda rules: 40.0 if not rules else 2.0, busy_ms=1.0))
    assert (evidence.verdict, evidence.speed.suspicious) == (Verdict.PROVEN, "")
    assert len({seed for _, mode, seed in runner.jobs if mode is Mode.EQUALITY}) == 1


def test_an_original_that_fails_on_fresh_inputs_proves_nothing(verified: Callable[..., Any]) -> None:
    trouble = Trouble(Kind.CRASHED, "it crashed")
    runner = MadeUp(lambda rules: 40.0 if not rules else 2.0, busy_ms=10.5, trouble=trouble, troubled_seed=SEED + 1)
    evidence, kept, _ = verified(runner)
    assert (evidence.verdict, kept) == (Verdict.INCONCLUSIVE, [])
    assert "on fresh inputs: the original cannot be judged: it crashed" in evidence.reason


def test_a_step_shorter_than_the_gpu_is_busy_is_repeated(verified: Callable[..., Any]) -> None:
    evidence, _, _ = verified(MadeUp(lambda rules: 10.0 - 2.0 * len(rules), busy_ms=9.0))
    assert "busy" in evidence.speed.suspicious


def test_in_a_hurry_the_gpu_is_busy_with_other_runs(verified: Callable[..., Any]) -> None:
    evidence, kept, _ = verified(MadeUp(lambda rules: 10.0 - 2.0 * len(rules), busy_ms=9.0), quick=True)
    assert (evidence.speed.suspicious, kept) == ("", ["PM101", "PM104"])


@pytest.mark.parametrize(("kind", "code"), [
    (Kind.CRASHED, ExitCode.FAILED),
    (Kind.NEVER_STEPPED, ExitCode.INCONCLUSIVE),
    (Kind.ON_CPU, ExitCode.INCONCLUSIVE),
])  # fmt: skip
def test_an_original_in_trouble(verified: Callable[..., Any], kind: Kind, code: ExitCode) -> None:
    evidence, kept, _ = verified(MadeUp(lambda _rules: 10.0, trouble=Trouble(kind, "it is no good")))
    assert (exit_code(evidence), kept) == (code, [])
    assert evidence.reason == "train.py: it is no good"
