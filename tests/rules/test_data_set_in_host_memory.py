"""PM315: batches are taken out of a data set on the device, the same ones in the same order."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.compute._resident_edits import DEFINITION
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.policy import Policy
from perfmod.transforms.questions import Predicate

GOLDENS = Path(__file__).resolve().parents[2] / "golden" / "data-set-in-host-memory"
SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
{extra}

def main(seen):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(3, 1).to(device)
    {data}
    {generator}
    data = TensorDataset({tensors})
    loader = DataLoader(data, {settings})
    {between}
    for epoch in range(3):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            seen += [x, y, torch.rand(1)]
            model(x).sum().backward()
            {last}
    return {result}
"""
USUAL = {
    "extra": "", "data": "a, b = torch.arange(33.0).reshape(11, 3), torch.arange(11)", "generator": "pass",
    "tensors": "a, b", "settings": "batch_size=4, shuffle=True", "between": "pass", "last": "pass",
    "result": "len(loader)",
}  # fmt: skip


def written(*rules: str, unsafe: bool = True, policy: Policy = Policy(), **parts: str) -> FileResult:
    chosen = [rule for rule in catalog.rules() if rule.code in ("PM315", *rules)]
    choice = Choice(unsafe=unsafe, opted_in=frozenset({"PM315"}), policy=policy)
    result = rewrite(SCRIPT.format(**{**USUAL, **parts}).encode(), "train.py", chosen, choice)
    assert not result.reason
    return result


def trained(code: bytes) -> tuple[list[torch.Tensor], int, torch.Tensor, int]:
    """All batches and draws of a training, the number of batches, and the state of the generators behind it."""
    names: dict[str, Any] = {"__name__": "train"}
    exec(compile(code, "train.py", "exec"), names)
    seen: list[torch.Tensor] = []
    torch.manual_seed(5)
    number = names["main"](seen)
    own = names.get("own")
    return seen, number, torch.get_rng_state(), own.initial_seed() + own.get_state().sum() if own is not None else 0


SHUFFLES = ("", ", shuffle=True", ", shuffle=False")
DROPS = ("", ", drop_last=True", ", drop_last=False")
GENERATORS = ("", ", generator=own")


@pytest.mark.parametrize(("shuffle", "drop", "generator"), list(itertools.product(SHUFFLES, DROPS, GENERATORS)))
def test_batches_and_random_numbers_are_the_same(shuffle: str, drop: str, generator: str) -> None:
    settings = f"batch_size=4{shuffle}{drop}{generator}"
    result = written(settings=settings, extra="own = torch.Generator().manual_seed(9)")
    (finding,) = result.applied
    assert finding.numerics is Numerics.BITWISE
    same(result)


@pytest.mark.parametrize("settings", [
    "batch_size=4, shuffle=True, num_workers=2", "batch_size=4, num_workers=1, prefetch_factor=2", "4, True", "",
    "shuffle=True, num_workers=0, pin_memory=False, batch_size=16",
    "batch_size=4, shuffle=device is not None", "4, False, None, None, 0, None, False, True",
])  # fmt: skip
def test_workers_and_arguments_by_position(settings: str) -> None:
    result = written(settings=settings)
    assert "num_workers" not in result.after.decode()
    same(result)


@pytest.mark.parametrize(("data", "tensors"), [
    ("a, b = torch.zeros(11, 3, dtype=torch.bool), torch.rand(11).double()", "a.float(), b[:]"),
    ("a, b = torch.rand(22, 3)[::2], torch.rand(11, 1).expand(11, 2)", "a, b"),
    ("a, b = torch.rand(11, 3), torch.randn(11)", "a * 2 + 1, b"),
])  # fmt: skip
def test_tensors_of_any_kind(data: str, tensors: str) -> None:
    same(written(data=data, tensors=tensors))


def same(result: FileResult) -> None:
    assert result.applied, [each.reason for each in result.refused]
    before, after = trained(result.before), trained(result.after)
    assert before[1] == after[1]
    assert torch.equal(before[2], after[2])
    assert before[3] == after[3]
    assert len(before[0]) == len(after[0])
    for one, other in zip(before[0], after[0], strict=True):
        assert torch.equal(one, other)
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())


def test_indices_begin_on_the_host_whatever_the_default_device_is() -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(DEFINITION, names)
    data = torch.utils.data.TensorDataset(torch.arange(5.0), torch.arange(5))
    taken = names["batches_of"](data)
    with torch.device("meta"):
        x, y = taken([3, 1])
    assert (x.tolist(), y.tolist()) == ([3.0, 1.0], [3, 1])


@pytest.mark.cuda
@pytest.mark.parametrize("default", ["cpu", "cuda"])
def test_no_batch_waits_for_the_device(default: str) -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(DEFINITION, names)
    data = torch.utils.data.TensorDataset(torch.arange(5.0).cuda(), torch.arange(5).cuda())
    with torch.device(default):
        taken = names["batches_of"](data)
        taken([0])
        torch.cuda.set_sync_debug_mode("error")
        try:
            x, y = taken([3, 1])
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert (x.tolist(), y.tolist()) == ([3.0, 1.0], [3, 1])


@pytest.mark.parametrize("name", ["training_loop", "workers_and_pinned_memory"])
def test_what_it_replaces_is_not_improved_before(name: str) -> None:
    text = (GOLDENS / f"{name}.in.py").read_bytes()
    codes = frozenset({"PM201", "PM202", "PM203", "PM204", "PM315"})
    rules = [rule for rule in catalog.rules() if rule.code in codes]
    choice = Choice(unsafe=True, opted_in=codes)
    alone = rewrite(text, "train.py", [rule for rule in rules if rule.code == "PM315"], choice)
    result = rewrite(text, "train.py", rules, choice)
    assert {finding.code for finding in result.applied} == {"PM315"}
    assert result.after == alone.after


def test_nobody_can_see_whether_it_fits() -> None:
    (held,) = written(unsafe=False).held_back
    assert held.safety is Safety.UNSAFE
    assert [each.predicate for each in held.questions] == [Predicate.FITS_ON_THE_DEVICE]
    assumed = Policy(assumed=frozenset({Predicate.FITS_ON_THE_DEVICE.value}))
    assert written(unsafe=False, policy=assumed).applied


def test_what_was_written_is_left_alone() -> None:
    again = rewritten(written().after.decode())
    assert not again.applied
    assert not again.refused
    by_hand = written(settings="batch_size=None")
    assert not by_hand.applied
    assert not by_hand.refused


def test_other_draws_are_said() -> None:
    (kept,) = written(settings="batch_size=4, num_workers=2, persistent_workers=True").applied
    assert (kept.numerics, kept.reason.partition(" ")[0]) == (Numerics.SAMPLING, "persistent")
    (ahead,) = written(settings="batch_size=4, num_workers=2, generator=torch.Generator()").applied
    assert ahead.numerics is Numerics.SAMPLING


def test_rules_for_loaders_leave_it_alone() -> None:
    result = written("PM201", "PM202", "PM203", "PM206", settings="batch_size=4, shuffle=True, num_workers=0")
    choice = Choice(unsafe=True, low_impact=True, opted_in=frozenset({"PM203"}))
    further = rewrite(written().after, "train.py", catalog.rules(), choice)
    for after in (result.after.decode(), further.after.decode()):
        assert "range(len(data)), batch_size=4, shuffle=True, collate_fn=batches_of(data)\n" in after


@pytest.mark.parametrize("loop", [
    "for x, y in tqdm(loader, leave=False):\n            x, y = x.to(device), y.to(device)",
    "for step, (x, y) in enumerate(tqdm(loader)):\n            x, y = x.to(device=device), y.to(device)",
    "bar = tqdm(loader)\n        for x, y in bar:\n            x, y = x.to(device), y.to(device, torch.float)",
    "for x, _ in loader:\n            x = y = x.to(device)",
    "for batch in loader:\n            x, y = (part.to(device) for part in batch)",
    "for batch in loader:\n            x, y = batch[0].to(device), batch[1].to(device, copy=True)",
])  # fmt: skip
def test_loops(loop: str) -> None:
    text = SCRIPT.format(**{**USUAL, "extra": "from tqdm import tqdm"})
    text = text.replace("for x, y in loader:\n            x, y = x.to(device), y.to(device)", loop)
    result = rewritten(text)
    assert result.applied, [each.reason for each in result.refused]


@pytest.mark.parametrize(("parts", "line"), [
    ({"extra": "device = 'cuda'", "data": "a, b = torch.rand(9, 3), torch.rand(9)"},
     "data = TensorDataset(a.to(device), b.to(device))"),
    ({"tensors": "a + 1, b"}, "data = TensorDataset((a + 1).to(device), b.to(device))"),
    ({"tensors": "a[:5], b[:5]"}, "data = TensorDataset(a[:5].to(device), b[:5].to(device))"),
])  # fmt: skip
def test_what_is_written(parts: dict[str, str], line: str) -> None:
    assert line in written(**parts).after.decode()


@pytest.mark.parametrize(("old", "new", "line"), [
    (".to(device), y.to(device)", ".cuda(), y.cuda()", "data = TensorDataset(a.cuda(), b.cuda())"),
    (".to(device), y.to(device)", '.to("cuda:1"), y.to("cuda:1", non_blocking=True)',
     'data = TensorDataset(a.to("cuda:1"), b.to("cuda:1"))'),
    ("from torch.utils.data import DataLoader, TensorDataset", "from torch.utils import data as D",
     "loader = D.DataLoader("),
    ("from torch.utils.data import DataLoader, TensorDataset", "from torch.utils.data import TensorDataset, DataLoader",
     "from torch.utils.data import TensorDataset, DataLoader"),
    ("DataLoader(data,", "DataLoader(dataset=data,",
     "dataset=range(len(data)),"),
    ("for x, y in loader", "for step, (x, y) in enumerate(loader)",
     "range(len(data)), batch_size=4, shuffle=True, collate_fn=batches_of(data)"),
])  # fmt: skip
def test_how_it_is_spelled(old: str, new: str, line: str) -> None:
    text = SCRIPT.format(**USUAL).replace(old, new)
    if "as D" in new:
        text = text.replace("= DataLoader(", "= D.DataLoader(").replace("= TensorDataset(", "= D.TensorDataset(")
    result = rewritten(text)
    assert line in [each.strip() for each in result.after.decode().splitlines()], [r.reason for r in result.refused]


REFUSED = [
    ({"generator": "kwargs = {'batch_size': 4}\n    if device.type == 'cpu': kwargs['batch_size'] = None",
      "settings": "**kwargs"}, "only known at run time"),
    ({"extra": "batches_of = None"}, "batches_of has another meaning"),
    ({"settings": "batch_size=4, worker_init_fn=print"}, "worker_init_fn=print"),
    ({"settings": "**dict(batch_size=4)"}, "not all written out"),
    ({"settings": "batch_size=4,  # small\n    "}, "a comment stands"),
    ({"settings": "batch_size=4, sampler=torch.utils.data.SubsetRandomSampler([1])"}, "in its own way"),
    ({"between": "torch.save(data, 'data.pt')"}, "uses the data set, too"),
    ({"between": "first = data[0]"}, "uses the data set, too"),
    ({"between": "x, y = next(iter(loader))"}, "for more than its batches"),
    ({"between": "pairs = zip(loader, loader)"}, "for more than its batches"),
    ({"between": "prepare(loader)", "extra": "from engine import prepare"}, "for more than its batches"),
    ({"last": "a.add_(1)"}, "may write into `a`"),
    ({"last": "a[0] = 0"}, "may write into `a`"),
    ({"last": "scale(a)", "extra": "from engine import scale"}, "may write into `a`"),
    ({"data": "array = np.zeros((11, 3)); a, b = torch.from_numpy(array), torch.rand(11)", "last": "array[0] = 1",
      "extra": "import numpy as np"}, "may write into `a`"),
    ({"data": "a, b = load()", "extra": "from data import load"}, "nothing in sight shows that `a` is a tensor"),
    ({"data": "a, b = torch.tensor(images), torch.rand(11)", "extra": "from data import images"}, "is not in sight"),
    ({"data": "a, b = torch.rand(3, 11).t(), torch.rand(11)"}, "another order"),
    ({"data": "a, b = turned(torch.rand(3, 11).transpose(0, 1)), torch.rand(11)",
      "extra": "def turned(t):\n    return t"}, "another order"),
    ({"data": "a, b = torch.arange(13.0).unfold(0, 3, 1), torch.rand(11)"}, "another order"),
    ({"data": "a, b = torch.linalg.inv(torch.rand(11, 3, 3)), torch.rand(11)"}, "not in sight"),
    ({"data": "a, b = torch.rand(11, 3), torch.rand(11); view = a.numpy()", "last": "view[0] = 1"},
     "may write into `a`"),
    ({"data": "a, b = torch.rand(11, 3), torch.rand(11); view = a[:2].view(6)", "last": "view[0] = 1"},
     "may write into `a`"),
    ({"between": "a.requires_grad_()"}, "may make `a` another tensor"),
    ({"between": "a.data = torch.zeros(11, 3)"}, "may make `a` another tensor"),
    ({"between": "for c in (a, b):\n        c.add_(1)"}, "may write into `a`"),
    ({"between": "data.tensors[0][0] = 1"}, "uses the data set, too"),
    ({"last": "device = 'cpu'"}, "may move its batches to the CPU"),
    ({"between": "loader.dataset.tensors[0].mul_(2)"}, "for more than its batches"),
    ({"between": "loader.sampler = None"}, "for more than its batches"),
    ({"data": "a, b = torch.rand(11, 3, requires_grad=True), torch.rand(11)"}, "a part of a graph"),
    ({"data": "a, b = torch.rand(11, 3, device=device), torch.rand(11)"}, "on the device already"),
    ({"data": "parts = []; parts.append(model(torch.rand(11, 3))); a, b = torch.cat(parts), torch.rand(11)"}, "model"),
    ({"extra": "import torch.distributed as dist"}, "several processes"),
    ({"result": "loader.batch_size"}, "for more than its batches"),
    ({"result": "loader"}, "for more than its batches"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "reason"), REFUSED)
def test_what_stays(parts: dict[str, str], reason: str) -> None:
    result = written(**parts)
    assert not result.applied
    assert reason in " | ".join(finding.reason for finding in result.refused)


TRAINER = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

class Trainer{base}:
    def __init__(self):
        {first}
        self.model = torch.nn.Linear(3, 1)
        {second}
        self.model.to(self.device)

    def build(self):
        self.data = TensorDataset(torch.rand(11, 3), torch.rand(11))
        self.loader = DataLoader(self.data, batch_size=4)

    def fit(self):
        {third}
        for batch in self.loader:
            x, y = [part.to(self.device) for part in batch]
            self.model(x).sum().backward()

Trainer().fit()
"""


@pytest.mark.parametrize(("parts", "is_written"), [
    ({"first": 'self.device = torch.device("cuda")', "second": "self.build()"}, True),
    ({"first": "self.build()", "second": 'self.device = torch.device("cuda")'}, False),
    ({"first": 'self.device = torch.device("cuda")', "third": "self.build()"}, True),
    ({"first": "self.build()"}, False),
    ({"first": "self.build()", "base": "(Foreign)"}, False),
    ({"first": 'self.device = "cuda:0"', "second": "self.build()", "third": 'self.device = "cuda:1"'}, False),
])  # fmt: skip
def test_a_device_in_an_attribute(parts: dict[str, str], is_written: bool) -> None:
    text = TRAINER.format(**{"first": "pass", "second": "pass", "third": "pass", "base": "", **parts})
    result = rewritten(text)
    assert bool(result.applied) is is_written, [each.reason for each in result.refused]
    assert ("torch.rand(11, 3).to(self.device)" in result.after.decode()) is is_written


def rewritten(text: str) -> FileResult:
    (rule,) = (rule for rule in catalog.rules() if rule.code == "PM315")
    return rewrite(text.encode(), "train.py", [rule], Choice(unsafe=True, opted_in=frozenset({"PM315"})))


@pytest.mark.parametrize("move", [
    "y = y.to(device)\n            x = x.float() if epoch else x\n            x = x.to(device)",
    "if epoch:\n                x = x.to(device)\n            y = y.to(device)",
    "print(y)\n            x, y = x.to(device), y.to(device)",
    "kept.append(y)\n            x, y = x.to(device), y.to(device)",
    "x.mul_(2)\n            x, y = x.to(device), y.to(device)",
    "x, y = move(x, y)",
    "z = x\n            print(z.sum())\n            x, y = x.to(device), y.to(device)",
    "later = lambda: x.numpy()\n            z, y = x.to(device), y.to(device)\n            later()",
    "assert not x.is_cuda\n            x, y = x.to(device), y.to(device)",
    "x, y = x.to(device), y.cpu()",
    "x, y = x.to(device), y.to('cuda:1')",
    "x, y = x.to(torch.float), y.to(device)",
    "z, y = x.to(device), y.to(device)\n            z.add_(1)\n            x = x.to(device)",
    "y = y.to(device)\n            for _ in range(2):\n                z = x.to(device)\n                z += 1",
])  # fmt: skip
def test_batches_that_the_host_uses(move: str) -> None:
    text = SCRIPT.format(**{**USUAL, "extra": "from engine import move\nkept = []"})
    text = text.replace("x, y = x.to(device), y.to(device)", move)
    result = rewritten(text)
    assert not result.applied
    assert result.refused
