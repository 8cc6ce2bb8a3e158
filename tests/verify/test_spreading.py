"""One process with whole batches against several with their parts: PM311 is proven, and what is like it is not."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from attrs import frozen

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice
from perfmod.transforms.finding import Numerics
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.proving import Candidate
from perfmod.verify.request import Request
from perfmod.verify.sides import REWRITTEN, Side
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
WRAPPED = re.compile(r"model = nn\.parallel\.DistributedDataParallel\((.|\n)*?\n *\)")


def rewritten(code: str) -> str:
    """What PM311 makes of a script."""
    rules = [rule for rule in catalog.rules() if rule.code == "PM311"]
    after = rewrite(code.encode(), "train.py", rules, Choice(opted_in=frozenset({"PM311"}), unsafe=True)).after.decode()
    assert WRAPPED.search(after)
    return after


def changed(old: str, new: str) -> str:
    """The rewritten MLP with something in it changed."""
    code = rewritten(MLP)
    assert code.count(old) == 1, code
    return code.replace(old, new)


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
            python=sys.executable,
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
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Trial(tmp_path)


def told(equality: Equality) -> str:
    rows = (f"  {check.verdict.value:12} {check.name}: {check.reason}" for check in equality.checks)
    return "\n".join([f"{equality.verdict.value}: {equality.reason}", *rows])


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(MLP, id="MLP"),
        pytest.param(SCHEDULED, id="schedule", marks=pytest.mark.exhaustive),
        pytest.param(SAVED, id="checkpoints", marks=pytest.mark.exhaustive),
        pytest.param(NORMALISED, id="batch normalisation"),
    ],
)
def test_two_processes_that_train_as_one_are_proven(trial: Trial, code: str) -> None:
    (equality,) = trial.judge(code, rewritten(code))
    assert equality.verdict is Verdict.PROVEN, told(equality)
    held = {check.name for check in equality.checks}
    assert {"without dropout: batches", "without dropout: loss curve", "with short epochs"} <= held, held
    assert ("without dropout: checkpoints" in held) is (code is SAVED)


def test_what_trains_otherwise_is_refuted(trial: Trial) -> None:
    mutants = {
        "gradients are not averaged": (WRAPPED.sub("pass", rewritten(MLP)), "after step 1: they do not average"),
        "the loss is divided twice": (
            changed("loss.backward()", "(loss / dist.get_world_size()).backward()"),
            "loss",
        ),
        "both have the same samples": (
            changed("DistributedSampler(samples, ", "DistributedSampler(samples, 2, 0, "),
            "several processes are given the same samples in step 1",
        ),
        "one rank steps": (
            changed("        optimizer.step()", "        if dist.get_rank() == 0:\n            optimizer.step()"),
            "rank",
        ),
        "one rank has another learning rate": (
            changed("lr=0.1", "lr=0.1 + dist.get_rank() / 100"),
            "parameters of rank 1 are not those of rank 0 after step 1",
        ),
    }
    for (name, (_, reason)), equality in zip(
        mutants.items(), trial.judge(MLP, *(code for code, _ in mutants.values())), strict=True
    ):
        assert equality.verdict is Verdict.REFUTED, f"{name}: {told(equality)}"
        assert reason in equality.reason, f"{name}: {told(equality)}"


def test_what_normalises_otherwise_is_not_proven(trial: Trial) -> None:
    after = rewritten(NORMALISED).replace("nn.BatchNorm1d(12)", "nn.BatchNorm1d(12, momentum=0.5)")
    (equality,) = trial.judge(NORMALISED, after)
    assert equality.verdict is Verdict.INCONCLUSIVE, told(equality)


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
