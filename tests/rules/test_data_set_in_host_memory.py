"""PM315: a data set of tensors lies on the device, and its loader gives the same batches in the same order."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, TensorDataset

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.compute.data_set_in_host_memory import DataSetInHostMemory
from perfmod.transforms.finding import Numerics, Safety

CODE = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from data import x, y, collate, watch

device = torch.device("cuda")
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = TensorDataset(x, y)
loader = DataLoader(data, batch_size=32, shuffle=True)
for a, b in loader:
    a, b = a.to(device), b.to(device)
    optimizer.zero_grad()
    F.cross_entropy(model(a), b).backward()
    optimizer.step()
"""
LOADER = "DataLoader(data, batch_size=32, shuffle=True)"
LOOP = "for a, b in loader:\n    a, b = a.to(device), b.to(device)\n"


def run(code: str, *, selected: bool = True) -> FileResult:
    choice = Choice(opted_in=frozenset({"PM315"} if selected else ()))
    result = rewrite(code.encode(), "train.py", [DataSetInHostMemory()], choice)
    assert not result.reason
    return result


def test_is_on_request() -> None:
    result = run(CODE, selected=False)
    assert not result.applied
    assert [(f.safety, f.numerics) for f in result.held_back] == [(Safety.OPT_IN, Numerics.BITWISE)]


@pytest.mark.parametrize(("before", "after"), [
    (LOADER, "DataLoader(data, sampler=BatchSampler(RandomSampler(data), 32, drop_last=False), batch_size=None)"),
    ("DataLoader(data, 32, True)",
     "DataLoader(data, sampler=BatchSampler(RandomSampler(data), 32, drop_last=False), batch_size=None)"),
    ("DataLoader(dataset=data, batch_size=n, drop_last=last)",
     "DataLoader(dataset=data, sampler=BatchSampler(SequentialSampler(data), n, drop_last=last), batch_size=None)"),
    ("DataLoader(data, num_workers=4, persistent_workers=True, shuffle=False, batch_size=8, pin_memory=True)",
     "DataLoader(data, sampler=BatchSampler(SequentialSampler(data), 8, drop_last=False), batch_size=None)"),
])  # fmt: skip
def test_what_the_loader_is_told(before: str, after: str) -> None:
    result = run(CODE.replace(LOADER, before))
    assert after in "".join(line.strip() + " " for line in result.after.decode().splitlines()).replace(", b", ", b")
    assert "data = TensorDataset(x.to(device), y.to(device))" in result.after.decode()


@pytest.mark.parametrize(("old", "new", "reason"), [
    (LOADER, "DataLoader(data, batch_size=32, collate_fn=collate)", "the loader is given `collate_fn`"),
    (LOADER, "DataLoader(data, batch_size=32, generator=torch.Generator())", "the loader is given `generator`"),
    (LOADER, "DataLoader(data, batch_size=32, shuffle=watch)", "whether it shuffles is decided elsewhere"),
    (LOADER, "DataLoader(data)", "its batches are single samples"),
    (LOADER, "DataLoader(shuffle=True, dataset=data, batch_size=4)", "the data set is not its first argument"),
    (LOOP, "for batch in loader:\n    a, b = (each.to(device) for each in batch)\n", "does not unpack the batch"),
    (LOOP, LOOP.replace("    a, b", "    watch(a)\n    a, b"), "uses `a` before it is copied"),
    (LOOP, LOOP.replace("b.to(device)", "b.to('cuda:1')"), "go to several devices"),
    (LOOP, "print(loader.batch_size)\n" + LOOP, "may ask the loader"),
    (LOOP, "watch(loader)\n" + LOOP, "may ask the loader"),
    (LOOP, "watch(data)\n" + LOOP, "uses the data set, too"),
    (LOOP, "x.sub_(1)\n" + LOOP, "writes into the tensors of the data set"),
    ('device = torch.device("cuda")\n', "", None),
])  # fmt: skip
def test_stays(old: str, new: str, reason: str | None) -> None:
    code = CODE.replace(old, new)
    assert code != CODE
    result = run(code)
    assert not result.applied
    assert (reason is None) or reason in result.refused[0].reason


@pytest.mark.parametrize("move", ["cuda()", "cuda(non_blocking=True)"])
def test_batches_that_go_to_the_gpu_by_name(move: str) -> None:
    code = CODE.replace(LOOP, LOOP.replace("to(device)", move))
    assert 'data = TensorDataset(x.to("cuda"), y.to("cuda"))' in run(code).after.decode()


def test_batches_that_go_there_under_a_condition() -> None:
    loop = "for a, b in loader:\n    if watch:\n        a, b = a.cuda(), b.cuda()\n"
    result = run(CODE.replace(LOOP, loop))
    assert not result.applied
    assert "uses `a` before it is copied" in result.refused[0].reason


def test_a_device_that_is_chosen_behind_the_data_set() -> None:
    code = CODE.replace('device = torch.device("cuda")\n', "").replace("model = nn.Linear(4, 3).to(device)\n", "")
    code = code.replace(LOOP, 'device = torch.device("cuda")\nmodel = nn.Linear(4, 3).to(device)\n' + LOOP)
    result = run(code)
    assert not result.applied
    assert "`device`, which is not known where the data set is made" in result.refused[0].reason


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_and_random_numbers_are_the_same(shuffle: bool, drop_last: bool, workers: int) -> None:
    """What PyTorch draws when it begins an epoch and shuffles it is the same in both forms of the loader."""
    data = TensorDataset(torch.randn(50, 3), torch.randint(5, (50,)), torch.rand(50) > 0.5)
    sampler = RandomSampler(data) if shuffle else SequentialSampler(data)
    before = DataLoader(data, batch_size=16, shuffle=shuffle, drop_last=drop_last, num_workers=workers)
    after = DataLoader(data, sampler=BatchSampler(sampler, 16, drop_last=drop_last), batch_size=None)
    assert len(before) == len(after)
    drawn = []
    for loader in (before, after):
        torch.manual_seed(3)
        batches = [batch for _ in range(2) for batch in loader]
        drawn.append((batches, torch.get_rng_state()))
    (old, old_state), (new, new_state) = drawn
    assert torch.equal(old_state, new_state)
    assert len(old) == len(new) > 0
    for one, other in zip(old, new, strict=True):
        assert type(one) is type(other)
        assert all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(one, other, strict=True))
