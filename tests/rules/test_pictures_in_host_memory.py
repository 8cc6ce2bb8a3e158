"""PM315 for pictures of torchvision: batches of prepared samples are what they were, in every bit and stride."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision_cpu

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.finding import Numerics

SCRIPT = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.transforms import v2
{extra}

def main(root, seen):
    {device}
    model = torch.nn.Linear(3, 1).to(device)
    {first}
    data = datasets.{kind}(root, {settings})
    {between}
    loader = DataLoader(data, {loading})
    {last}
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            seen += [x, y, torch.rand(1)]
            model(torch.rand(3, device=device)).sum().backward()
    return len(loader), len(loader.dataset)
"""
USUAL = {
    "extra": "", "device": 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")', "first": "pass",
    "kind": "MNIST", "settings": "transform=transforms.ToTensor()", "between": "pass",
    "loading": "batch_size=4, shuffle=True", "last": "pass",
}  # fmt: skip


def written(text: str = "", **parts: str) -> FileResult:
    (rule,) = (rule for rule in catalog.rules() if rule.code == "PM315")
    choice = Choice(unsafe=True, opted_in=frozenset({"PM315"}))
    result = rewrite((text or SCRIPT.format(**{**USUAL, **parts})).encode(), "train.py", [rule], choice)
    assert not result.reason
    return result


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Eleven pictures in the files of MNIST and CIFAR-10."""
    torchvision_cpu.load_or_skip()
    from torchvision.datasets import CIFAR10

    draw = torch.Generator().manual_seed(3)
    grey = torch.randint(256, (11, 28, 28), dtype=torch.uint8, generator=draw)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for part in ("train", "t10k"):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, 11, 28, 28) + grey.numpy().tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, 11) + bytes(range(11)))
    batches = tmp_path / CIFAR10.base_folder
    batches.mkdir()
    coloured = torch.randint(256, (11, 3 * 32 * 32), dtype=torch.uint8, generator=draw)
    (batches / "one").write_bytes(pickle.dumps({"data": coloured.numpy(), "labels": list(range(11))}))
    (batches / "names").write_bytes(pickle.dumps({"label_names": [f"{number}" for number in range(11)]}))
    monkeypatch.setattr(CIFAR10, "train_list", [["one", None]])
    monkeypatch.setattr(CIFAR10, "test_list", [])
    monkeypatch.setattr(CIFAR10, "meta", {"filename": "names", "key": "label_names", "md5": None})
    return str(tmp_path)


def trained(code: bytes, root: str) -> tuple[list[torch.Tensor], Any, torch.Tensor]:
    """All batches and draws of a training, its lengths, and the state of the generator behind it."""
    names: dict[str, Any] = {"__name__": "train"}
    exec(compile(code, "train.py", "exec"), names)
    seen: list[torch.Tensor] = []
    torch.manual_seed(5)
    lengths = names["main"](root, seen)
    return seen, lengths, torch.get_rng_state()


def same(result: FileResult, root: str) -> None:
    (finding,) = result.applied
    assert (finding.numerics, finding.min_torch) == (Numerics.BITWISE, "1.11")
    before, after = trained(result.before, root), trained(result.after, root)
    assert before[1] == after[1]
    assert torch.equal(before[2], after[2])
    for one, other in zip(before[0], after[0], strict=True):
        assert torch.equal(one, other)
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())


@pytest.mark.parametrize("kind", ["MNIST", "CIFAR10"])
@pytest.mark.parametrize("transform", [
    "transforms.ToTensor()",
    "transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])",
    "transforms.Compose((transforms.Grayscale(3), transforms.Resize(12), transforms.Pad(2), transforms.ToTensor()))",
    "transforms.Compose([transforms.ToTensor(), transforms.Compose([transforms.CenterCrop(7)])])",
    "transforms.Compose([transforms.PILToTensor(), transforms.ConvertImageDtype(torch.float)])",
    "v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])])",
    "v2.ToImage()",
])  # fmt: skip
def test_batches_are_the_same(kind: str, transform: str, root: str) -> None:
    same(written(kind=kind, settings=f"transform={transform}"), root)


@pytest.mark.parametrize("parts", [
    {"loading": "4, drop_last=True"},
    {"loading": ""},
    {"loading": "batch_size=1, num_workers=2"},
    {"settings": "False, transforms.ToTensor(), None, True"},
    {"first": "keywords = {'num_workers': 2} if device.type == 'cuda' else {}", "loading": "4, True, **keywords"},
    {"first": "keywords = dict(batch_size=3, shuffle=True)", "loading": "**keywords"},
    {"first": "keywords = dict(batch_size=3)\n    if root:\n        keywords['shuffle'] = True",
     "loading": "**keywords"},
    {"first": "keywords = {}\n    if not root:\n        keywords.update(shuffle=True, batch_size=2)",
     "loading": "**keywords"},
    {"first": "keywords = dict(batch_size=3)\n    others = keywords\n    others['shuffle'] = True",
     "loading": "**keywords"},
    {"extra": "def told(root):\n    made = {}\n    if root:\n        made.update(batch_size=3, shuffle=True)\n"
              "    return made", "first": "keywords = told(root)", "loading": "**keywords"},
    {"loading": "4, True, generator=own", "first": "own = torch.Generator().manual_seed(2)"},
    {"between": "names, sample, size = data.classes, data[3], data.data.shape"},
    {"extra": "data = []", "last": "print(len(data))"},
    {"extra": "datasets.MNIST.mirrors = []", "first": "mean = [0.5]; print(len(mean), torch.tensor(mean))",
     "settings": "transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, mean)])"},
])  # fmt: skip
def test_loaders_and_uses(parts: dict[str, str], root: str) -> None:
    same(written(**parts), root)


def test_persistent_workers_draw_other_orders() -> None:
    (finding,) = written(first="keywords = {'persistent_workers': True}", loading="4, **keywords").applied
    assert finding.numerics is Numerics.SAMPLING


@pytest.mark.parametrize(("parts", "reason"), [
    ({"settings": "transform=None"}, "not one that is in sight"),
    ({"settings": "train=True"}, "not one that is in sight"),
    ({"settings": "transform=transforms.Resize(9)"}, "makes no tensors"),
    ({"settings": "transform=transforms.Compose([*steps, transforms.ToTensor()])", "extra": "steps = []"},
     "may make another sample"),
    ({"settings": "transform=transforms.Compose(steps)", "extra": "steps = [transforms.ToTensor()]"},
     "are not written out"),
    ({"settings": "transform=transforms.Compose([crop, transforms.ToTensor()])", "extra": "from net import crop"},
     "may make another sample"),
    ({"settings": "transform=prepare", "extra": "def prepare(picture):\n    return picture"},
     "not one that is in sight"),
    ({"settings": "transform=Own()", "extra": "class Own:\n    pass"}, "may make another sample"),
    ({"settings": "transform=transforms.Compose([transforms.RandomApply([transforms.ToTensor()])])"},
     "may make another sample"),
    ({"settings": "transform=v2.Compose([v2.ToImage(), v2.GaussianNoise()])"}, "may make another sample"),
    ({"settings": "transform=transforms.ToTensor(), target_transform=int"}, "makes the labels"),
    ({"settings": "True, transforms.ToTensor(), int"}, "makes the labels"),
    ({"settings": "**dict(transform=transforms.ToTensor())"}, "not written out"),
    ({"extra": "torch.set_default_dtype(torch.float64)"}, "may get another type"),
    ({"first": "crop = transforms.CenterCrop(8)", "last": "crop.size = 9",
      "settings": "transform=transforms.Compose([crop, transforms.ToTensor()])"}, "may change the transform"),
    ({"first": "mean = [0.5]", "last": "mean[0] = 0.2",
      "settings": "transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, (0.5,))])"},
     "may change the transform"),
    ({"first": "mean = torch.tensor([0.5])", "last": "mean.mul_(2)",
      "settings": "transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, (0.5,))])"},
     "may change the transform"),
    ({"first": "kinds = {'eval': transforms.ToTensor()}\n    kinds.update(eval=transforms.RandomCrop(3))",
      "settings": "transform=kinds['eval']"}, "not one that is in sight"),
    ({"last": "other.transform.transforms.append(transforms.RandomCrop(3))",
      "between": "other = datasets.MNIST(root, transform=whole)",
      "first": "whole = transforms.Compose([transforms.ToTensor()])", "settings": "transform=whole"},
     "may change the transform"),
    ({"extra": "class Known:\n    mean = [0.5]", "last": "Known.mean[0] = 0.1",
      "settings": "transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(Known.mean, 1.0)])"},
     "may change the transform"),
    ({"extra": "datasets.MNIST.__getitem__ = torch.nn.Module"}, "changes how torchvision makes samples"),
    ({"extra": "from torch.utils.data.dataloader import DataLoader"}, "comes from a module"),
    ({"between": "data.transform = None"}, "uses the data set, too"),
    ({"between": "data.targets[0] = 3"}, "uses the data set, too"),
    ({"between": "labels = data.targets"}, "uses the data set, too"),
    ({"between": "other = torch.utils.data.Subset(data, [1])"}, "uses the data set, too"),
    ({"last": "loader.dataset.transform = None"}, "may change the transform"),
    ({"last": "print(loader.dataset.classes)"}, "for more than its batches"),
    ({"between": "data_on_device = data.classes"}, "`data_on_device` is something else"),
    ({"extra": "default_collate = None"}, "`default_collate` is something else"),
    ({"device": "pass", "last": "device = torch.device(str(root))"}, "has no name on line"),
    ({"device": "pass", "last": 'device = torch.device("cuda")', "extra": 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"'},
     "has no name on line"),
    ({"first": "keywords = dict(batch_size=3); keywords.pop('batch_size')", "loading": "**keywords"},
     "not all written out"),
    ({"first": "keywords = dict(collate_fn=None)", "loading": "**keywords"}, "not all written out"),
    ({"extra": "def told(made):\n    made['shuffle'] = True\n    return made",
      "first": "keywords = told(dict(batch_size=3))", "loading": "**keywords"}, "not all written out"),
    ({"first": "keywords = {}; others = keywords; others['collate_fn'] = list", "loading": "**keywords"},
     "not all written out"),
    ({"kind": "FakeData", "settings": "8, (1, 5, 5), 4, transforms.ToTensor()", "extra": "# like MNIST"},
     "is no TensorDataset"),
])  # fmt: skip
def test_what_stays(parts: dict[str, str], reason: str) -> None:
    result = written(**parts)
    assert not result.applied
    assert reason in " | ".join(finding.reason for finding in result.refused)


@pytest.mark.parametrize("move", [
    "if device.type == 'cuda': x, y = x.cuda(), y.cuda()",
    "if device.type == 'cuda': x, y = x.to(device), y.to(device)",
])  # fmt: skip
def test_batches_that_are_moved_under_a_condition_stay(move: str) -> None:
    text = SCRIPT.format(**USUAL).replace("x, y = x.to(device), y.to(device)", move)
    text = text.replace("            seen += [x, y, torch.rand(1)]\n", "")
    (finding,) = written(text).refused
    assert "moves batches under a condition" in finding.reason


AFTER = """
    data_set = datasets.MNIST(
        "d", transform=transforms.Compose([transforms.ToTensor()])
    )
    data_set = TensorDataset(
        *(part.to(device) for part in default_collate([*data_set]))
    )
    loader = DataLoader(
        range(len(data_set)),
        batch_size=4,
        shuffle=True,
        collate_fn=batches_of(data_set),
    )
"""


def test_a_data_set_without_a_name() -> None:
    made = 'datasets.MNIST("d",\n        transform=transforms.Compose([\n            transforms.ToTensor(),\n    ]))'
    text = SCRIPT.format(**USUAL).replace("    data = datasets.MNIST(root, transform=transforms.ToTensor())\n", "")
    result = written(text.replace("DataLoader(data,", f"DataLoader({made},"))
    assert AFTER in result.after.decode()
    commented = written(text.replace("DataLoader(data,", f"DataLoader({made.replace('([', '([  # one')},"))
    assert "a comment stands" in commented.refused[0].reason
