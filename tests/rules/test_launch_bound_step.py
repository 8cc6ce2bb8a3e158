"""What keeps a step from being recorded where a golden cannot show it: processes have found each other elsewhere."""

from __future__ import annotations

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice

LOOP = """\
optimizer = optim.SGD(model.parameters(), lr=0.01)
for x in loader:
    x = PREPARED
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
print(loss.item())
"""

TRAINING = """\
import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.distributed.fsdp import FullyShardedDataParallel
from cluster import join

device = torch.device("cuda", join())
loader = [torch.randn(8, 4) for _ in range(4)]
model = {model}
"""


MOVED = "x.to(device)"


def refusals(code: str) -> list[str]:
    """Why steps of a script are not recorded."""
    rules = [rule for rule in catalog.rules() if rule.code == "PM314"]
    result = rewrite(code.encode(), "train.py", rules, Choice(opted_in=frozenset({"PM314"}), unsafe=True))
    return [finding.reason for finding in result.refused]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("nn.Linear(4, 1).to(device)", "the recorder is a file of its own"),
        ("DistributedDataParallel(nn.Linear(4, 1).to(device))", "line 9: `DistributedDataParallel` makes every step"),
        ("nn.parallel.DistributedDataParallel(nn.Linear(4, 1).to(device))", "line 9: `DistributedDataParallel` makes"),
        ("FullyShardedDataParallel(nn.Linear(4, 1).to(device))", "line 9: `FullyShardedDataParallel` makes every step"),
        ("nn.DataParallel(nn.Linear(4, 1).to(device))", "the recorder is a file of its own"),  # which looks at devices
    ],
)
def test_trainings_of_several_processes_stay(model: str, reason: str) -> None:
    assert any(reason in each for each in refusals(TRAINING.format(model=model) + LOOP.replace("PREPARED", MOVED)))


GRAPHS = """\
import torch
import torch.nn.functional as F
from torch import optim
from torch_geometric.nn import {layer}

device = torch.device("cuda")
x, y = torch.randn(8, 4).to(device), torch.zeros(8, dtype=torch.long).to(device)
edges = torch.randint(8, (2, 20)).to(device)
model = {layer}(4, 3{arguments}).to(device)
optimizer = optim.Adam(model.parameters(), lr=0.01, capturable=True)


def train():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x, edges), y)
    loss.backward()
    optimizer.step()
    return loss


for epoch in range(20):
    loss = train()
print(loss.item())
"""
WAITS = "looks for self-loops in every step, which waits for the device"


@pytest.mark.parametrize(
    ("layer", "arguments", "waits"),
    [
        ("GATConv", "", True),
        ("GATConv", ", add_self_loops=False", False),
        ("GCNConv", "", True),
        ("GCNConv", ", cached=True", False),
        ("GCNConv", ", cached=cached", True),
        ("SAGEConv", "", False),
    ],
)
def test_layers_that_look_for_self_loops_wait(layer: str, arguments: str, *, waits: bool) -> None:
    reasons = refusals(GRAPHS.format(layer=layer, arguments=arguments))
    assert any(f"line 9: `{layer}` {WAITS}" in reason for reason in reasons) is waits
    assert len(reasons) == 1


IMAGES = """\
import torch
from torch import nn, optim


class Scale(nn.Module):
    def __init__(self, mean):
        super().__init__()
        {held}

    def forward(self, images):
        return images.float().sub_(self.mean)


device = torch.device("cuda")
loader = torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=8)
scale = Scale(0.5).to(device)
model = nn.Linear(4, 1).to(device)
"""


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ('self.register_buffer("mean", torch.tensor(mean))', "the recorder is a file of its own"),
        ("self.mean = nn.Parameter(torch.tensor(mean))", "line 20: `x.to(device)` copies from the host"),
        (
            'self.register_parameter("mean", nn.Parameter(torch.tensor(mean)))',
            "line 20: `x.to(device)` copies from the host",
        ),
    ],
)
def test_batches_may_be_prepared_by_a_module_without_weights(held: str, reason: str) -> None:
    (found,) = refusals(IMAGES.format(held=held) + LOOP.replace("PREPARED", f"scale({MOVED})"))
    assert reason in found


UNSEEN = """\
import torch
from torch import nn
from tools import make

device = torch.device("cuda")
loader = [torch.randn(8, 4) for _ in range(4)]
model = nn.Linear(4, 1).to(device)
made = make(model)
for x in loader:
    loss = model(x.to(device)).square().mean()
    loss.backward()
    STEP
"""


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("made.optimizer.step()", "line 12: where the optimizer `made.optimizer` is made is not in sight"),
        ("made['opt'].step()", "line 12: where the optimizer `made['opt']` is made is not in sight"),
        ("made.step_and_update()", "line 9: no step of an optimizer is in sight in this loop"),
    ],
)
def test_an_optimizer_that_is_made_elsewhere_is_named(step: str, reason: str) -> None:
    assert refusals(UNSEEN.replace("STEP", step)) == [reason]
