"""Operations that need not repeat their bits are named by torch's deterministic mode, whatever the script does."""

from __future__ import annotations

from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode

ON_THE_CPU = """\
import warnings
import torch
from torch import nn

warnings.simplefilter("ignore")
torch.use_deterministic_algorithms(False)


class Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.clone().put_(torch.tensor([0]), torch.tensor([1.0]))


model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = Put.apply(model(torch.ones(2, 4))).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ON_A_GPU = """\
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Conv2d(3, 4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    out = F.adaptive_avg_pool2d(model(torch.ones(2, 3, 16, 16, device="cuda")), 5)
    loss = F.nll_loss(F.log_softmax(out, 1), torch.zeros(2, 5, 5, dtype=torch.long, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("deterministic", "named"), [(True, ["put_"]), (False, [])])
def test_they_are_named_only_in_that_mode(tmp_path: Path, deterministic: bool, named: list[str]) -> None:
    child = harness_child.run(tmp_path, ON_THE_CPU, Mode.EQUALITY, steps=3, deterministic=deterministic)
    assert child.record["ended"] == "steps"
    assert child.record["unrepeatable"] == named


@pytest.mark.cuda
def test_kernels_of_a_gpu_are_named(tmp_path: Path) -> None:
    child = harness_child.run(tmp_path, ON_A_GPU, Mode.EQUALITY, "cuda", steps=3, deterministic=True)
    assert child.record["unrepeatable"] == ["nll_loss2d_forward_out_cuda_template", "adaptive_avg_pool2d_backward_cuda"]
