"""One process with whole batches against several with their parts: PM311 is proven, and what is like it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked_python
import pytest
from attrs import evolve, frozen
from traced_training import Recipe, train, with_events, with_losses

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice
from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.judging import Controls
from perfmod.verify.proving import Candidate
from perfmod.verify.request import Request
from perfmod.verify.sides import REWRITTEN, Side
from perfmod.verify.spreading import judge_spread
from perfmod.verify.template import Template
from perfmod.verify.trace import Batch, Event, Trace
from perfmod.verify.verification import opened

SCRIPT = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
samples = TensorDataset(torch.randn({count}, 6), torch.randint(3, ({count},)))
loader = DataLoader(samples, batch_size=8, shuffle=True)
model = nn.Sequential({layers}).to(device)
model = nn.DataParallel(model)
{optimizer}
for epoch in range({first}, {first} + 2):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {late}
    {end}
"""
USUAL = {
    "count": "32",
    "layers": "nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3)",
    "optimizer": "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)",
    "first": "0",
    "late": "print(step, loss.item())",
    "end": "print(epoch)",
}
MLP = SCRIPT.format(**USUAL)
SCHEDULED = SCRIPT.format(
    **{
        **USUAL,
        "layers": "nn.Linear(6, 12), nn.Tanh(), nn.Dropout(0.1), nn.Linear(12, 3)",
        "optimizer": (
            "optimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
            "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)"
        ),
        "first": "1",
        "end": "scheduler.step()",
    }
)
SAVED = SCRIPT.format(
    **{**USUAL, "end": "torch.save({'epoch': epoch, 'model': model.state_dict()}, f'{epoch}.pt')"},
)
NORMALISED = SCRIPT.format(**{**USUAL, "layers": "nn.Linear(6, 12), nn.BatchNorm1d(12), nn.Linear(12, 3)"})
UNWRAPPED = NORMALISED.replace("model = nn.Data", "if torch.cuda.device_count() > 1:\n    model = nn.Data")
UNEVEN = SCRIPT.format(**{**USUAL, "count": "31"})
NOT_AVERAGED = "after step 1: they do not average"
WRAPPED = re.compile(r"model = nn\.parallel\.DistributedDataParallel\((.|\n)*?\n *\)")


def rewritten(code: str) -> str:
    """What PM311 makes of a script."""
    rules = [rule for rule in catalog.rules() if rule.code == "PM311"]
    after = rewrite(code.encode(), "train.py", rules, Choice(opted_in=frozenset({"PM311"}), unsafe=True)).after.decode()
    assert WRAPPED.search(after)
    return after


def changed(old: str | re.Pattern[str], new: str) -> str:
    """The rewritten MLP with something in it changed."""
    code = rewritten(MLP)
    pattern = re.compile(re.escape(old)) if isinstance(old, str) else old
    assert len(pattern.findall(code)) == 1, code
    return pattern.sub(new, code)


@frozen
class Trial:
    """Judges versions of a script, which are run by two processes, against one process with the original."""

    folder: Path

    def judge(self, original: str, *versions: str) -> list[Equality]:
        script = self.folder / "train.py"
        script.write_text(original, encoding="utf-8")
        request = Request(
            script=script,
            against=None,
            arguments=(),
            device="cpu",
            python=forked_python.python(),
            steps=8,
            quick=True,
            nproc=2,
            timeout=120.0,
            numerics=None,
            links=(),
            command="",
            spread=True,
        )
        with opened(request, lambda _: None) as verification:
            tree, name = verification.original.tree, verification.original.script
            sides = [Side(REWRITTEN, tree, name, {name: version.encode()}, 2) for version in versions]
            return verification.prover.judge([Candidate(side, Numerics.SAMPLING) for side in sides])


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    for name, value in {**forked_python.THREADS, forked_python.RANKS_BY: forked_python.python()}.items():
        monkeypatch.setenv(name, value)
    # To be forked from that Python is quicker than from a process of the verification that imports torch itself.
    monkeypatch.setattr(Template, "fork", lambda *_: None)
    return Trial(tmp_path)


def told(equality: Equality) -> str:
    rows = (f"  {check.verdict.value:12} {check.name}: {check.reason}" for check in equality.checks)
    return "\n".join([f"{equality.verdict.value}: {equality.reason}", *rows])


# A plain model is proven every time by tests/cli/test_verify.py, one with batch normalisation below.
@pytest.mark.exhaustive
@pytest.mark.parametrize("code", [MLP, SCHEDULED, SAVED], ids=["MLP", "schedule", "checkpoints"])
def test_two_processes_that_train_as_one_are_proven(trial: Trial, code: str) -> None:
    (equality,) = trial.judge(code, rewritten(code))
    proven_as_one(equality, saves=code is SAVED)


def proven_as_one(equality: Equality, *, saves: bool) -> None:
    assert equality.verdict is Verdict.PROVEN, told(equality)
    held = {check.name for check in equality.checks}
    assert {"without dropout: batches", "without dropout: loss curve", "with short epochs"} <= held, held
    assert ("without dropout: checkpoints" in held) is saves


MUTANTS = {
    "gradients are not averaged": (WRAPPED, "pass", NOT_AVERAGED),
    "both have the same samples": (
        "DistributedSampler(samples, ",
        "DistributedSampler(samples, 2, 0, ",
        "several processes are given the same samples in step 1",
    ),
    "the loss is divided twice": ("loss.backward()", "(loss / dist.get_world_size()).backward()", "loss"),
    "one rank steps": (
        "        optimizer.step()",
        "        if dist.get_rank() == 0:\n            optimizer.step()",
        "rank",
    ),
    "one rank has another learning rate": (
        "lr=0.1",
        "lr=0.1 + dist.get_rank() / 100",
        "parameters of rank 1 are not those of rank 0 after step 1",
    ),
}


# The judge is shown all of them below, by traces.
@pytest.mark.exhaustive
def test_what_trains_otherwise_is_refuted(trial: Trial) -> None:
    codes = [changed(old, new) for old, new, _ in MUTANTS.values()]
    for (name, (*_, reason)), equality in zip(MUTANTS.items(), trial.judge(MLP, *codes), strict=True):
        assert equality.verdict is Verdict.REFUTED, f"{name}: {told(equality)}"
        assert reason in equality.reason, f"{name}: {told(equality)}"


@pytest.mark.long
def test_one_that_normalises_is_told_from_what_trains_or_normalises_otherwise(trial: Trial) -> None:
    right = rewritten(NORMALISED)
    other_averages = right.replace("nn.BatchNorm1d(12)", "nn.BatchNorm1d(12, momentum=0.5)")
    not_averaged = WRAPPED.sub("pass", right)
    assert len({right, other_averages, not_averaged}) == 3
    proven, inconclusive, refuted = trial.judge(NORMALISED, right, other_averages, not_averaged)
    proven_as_one(proven, saves=False)
    assert inconclusive.verdict is Verdict.INCONCLUSIVE, told(inconclusive)
    assert refuted.verdict is Verdict.REFUTED, told(refuted)
    assert NOT_AVERAGED in refuted.reason, told(refuted)


def given(part: slice) -> Callable[[Trace], Trace]:
    """Makes of a trace one whose loader handed out a part of each batch of four samples."""

    def change(event: Event) -> Event:
        if not isinstance(event, Batch):
            return event
        single = tuple(f"{event.step} {sample}" for sample in range(4))[part]
        # Only the parts of a batch differ from the whole in their tensors.
        leaves = event.leaves if part == WHOLE else tuple(evolve(leaf, bits=str(single)) for leaf in event.leaves)
        return evolve(event, single=single, leaves=leaves)

    return lambda trace: with_events(_without_buffers(trace), change)


def _without_buffers(trace: Trace) -> Trace:
    """That of a model that does not normalise by its batches."""
    kept = {place: {} if "buffers" in place[0] else tensors for place, tensors in trace.snapshots.items()}
    return evolve(trace, snapshots=kept)


WHOLE, FIRST, SECOND = slice(4), slice(2), slice(2, 4)


def spread(rank: int, trace: Trace, part: slice) -> Trace:
    """What a process saw that was given a part of each batch."""
    return evolve(given(part)(trace), rank=rank)


def judged(*ranks: Trace) -> Equality:
    """The verdict on processes that trained in the place of one."""
    original = given(WHOLE)(train(LIKE))
    return judge_spread([original], ranks, [Controls(repeats=(original,))], Numerics.ROUNDING, {})


LIKE = Recipe(steps=3)


def test_processes_that_did_together_what_one_did_are_like_it() -> None:
    seen = train(LIKE)
    ahead, behind = (with_losses(seen, lambda _, loss, by=by: loss + by) for by in (0.25, -0.25))  # type: ignore[misc]
    equality = judged(spread(0, ahead, FIRST), spread(1, behind, SECOND))
    assert equality.verdict is Verdict.PROVEN, told(equality)


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [
        pytest.param([({}, FIRST), ({"data_seed": 5}, SECOND)], NOT_AVERAGED, id="gradients of its own"),
        pytest.param(
            [({}, FIRST), ({}, FIRST)], "several processes are given the same samples in step 1", id="same samples"
        ),
        pytest.param(
            [({"loss": lambda _, loss: loss / 2}, FIRST), ({"loss": lambda _, loss: loss / 2}, SECOND)],
            "loss",
            id="the loss is divided twice",
        ),
        pytest.param(
            [({}, FIRST), ({"lr": 0.06}, SECOND)],
            "parameters of rank 1 are not those of rank 0 after step 1",
            id="another learning rate",
        ),
        pytest.param(
            [({}, FIRST), ({"lr": 0.0}, SECOND)],
            "parameters of rank 1 are not those of rank 0 after step 1",
            id="one rank does not step",
        ),
    ],
)
def test_processes_that_differ_from_one_are_refuted(ranks: list[tuple[dict[str, Any], slice]], reason: str) -> None:
    traces = [spread(rank, train(LIKE, **changes), part) for rank, (changes, part) in enumerate(ranks)]
    equality = judged(*traces)
    assert equality.verdict is Verdict.REFUTED, told(equality)
    assert reason in equality.reason, told(equality)


@pytest.mark.exhaustive
def test_epochs_that_the_sampler_is_not_told_of_are_not_proven(trial: Trial) -> None:
    (equality,) = trial.judge(MLP, changed("    sampler.set_epoch(epoch)\n", ""))
    assert equality.verdict is Verdict.INCONCLUSIVE, told(equality)
    assert "batches differ from step 5 on" in equality.reason


@pytest.mark.exhaustive
@pytest.mark.parametrize(("code", "reason"), [
    (UNWRAPPED, "the model normalises by the statistics of a batch (1.running_mean)"),
    (UNEVEN, "in step 4: the processes fill up an epoch's last one with samples twice"),
])  # fmt: skip
def test_what_cannot_be_compared_is_said(trial: Trial, code: str, reason: str) -> None:
    (equality,) = trial.judge(code, rewritten(code))
    assert equality.verdict is Verdict.INCONCLUSIVE, told(equality)
    assert reason in equality.reason
