"""PM205: images travel as bytes only where nobody but their copies to the device could tell, and to the same bits."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision_cpu

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.feeding.cpu_normalisation import CpuNormalisation
from perfmod.transforms.finding import Safety

HEAD = """\
from itertools import cycle

import numpy as np
import torch
import torchvision.transforms.functional as TF
from PIL import Image
from torch import nn
from torch.autograd import Variable
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, WeightedRandomSampler, random_split
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms
from torchvision.transforms import v2
from torchvision.utils import make_grid

seen = []


def train(images, labels):
    seen.append(images.clone())
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()

"""
NORMALIZE = "transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))"
PIPELINE = f"transform = transforms.Compose([transforms.ToTensor(), {NORMALIZE}])"
HALVES = "transforms.Normalize((0.5,) * 3, (0.5,) * 3)"
FAKE = "datasets.FakeData(6, (3, 8, 8), 3, transform={})"
DATA = "dataset = " + FAKE.format("transform")
LOADER = "loader = DataLoader(dataset, batch_size=2)"
DEVICE = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")'
LOOP = "for images, labels in loader:"
MOVE = "images, labels = images.to(device), labels.to(device)"
STEP = "train(images, labels)"
TEST = "for x, y in {}:\n    seen.append(model(x.to(device)))"


def script(
    *,
    pipeline: str = PIPELINE,
    data: str = DATA,
    loader: str = LOADER,
    device: str = DEVICE,
    loop: str = LOOP,
    body: str = f"{MOVE}\n{STEP}",
    after: str = "",
) -> str:
    model = "torch.manual_seed(0)\nmodel = nn.Sequential(nn.Flatten(), nn.Linear(192, 3)).to(device)"
    return HEAD + "\n".join((pipeline, data, loader, device, model, loop, textwrap.indent(body, "    "), after)) + "\n"


def run(code: str, *, is_selected: bool = True) -> FileResult:
    return rewrite(code.encode(), "train.py", [CpuNormalisation()], Choice(low_impact=is_selected))


def outcome(code: str) -> list[torch.Tensor]:
    """Every batch that the script trained on and every output that it looked at, and the gradients at its end."""
    torchvision_cpu.load_or_skip()
    names: dict[str, Any] = {"__name__": "__main__"}
    torch.manual_seed(1)
    exec(compile(code, "train.py", "exec"), names)
    return [*names["seen"], *(parameter.grad for parameter in names["model"].parameters())]


def assert_same(code: str, after: str) -> None:
    pairs = list(zip(outcome(code), outcome(after), strict=True))
    assert pairs
    for old, new in pairs:
        assert old.dtype is new.dtype
        assert torch.equal(old, new)


CLASS = """\
class Photos(Dataset):
    def __init__(self, transform=None):
        self.tf = transform
        self.extra = 0

    def __len__(self):
        return 4

    def __getitem__(self, index):
        image = Image.fromarray(np.full((8, 8, 3), index * 9, dtype=np.uint8))
        if self.tf is not None:
            image = self.tf(image)
        return image, index % 3

"""
MADE = "dataset = Photos(transform)"
V2 = (
    "transform = v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True), "
    "v2.Normalize(mean=(0.5,) * 3, std=(0.25,) * 3)])"
)
BY_HAND = """\
class Frames(Dataset):
    def __init__(self):
        self.frames = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        x = self.frames[index]
        return (x.float().div(255) - 0.485) / 0.229, 0

dataset = Frames()"""
TENSORS = BY_HAND.replace(
    "        return (x.float().div(255) - 0.485) / 0.229, 0",
    """\
        mean = torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
        x = x.permute(0, 1, 2) / 255.0
        x = x.sub(mean)
        std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
        x = x / std
        return x, 0""",
)
SPLIT = f"{DATA}\na, b = random_split(dataset, [4, 2])"
TWO = (
    "def loaders():\n"
    "    return DataLoader(dataset, batch_size=2), DataLoader(dataset, batch_size=3)\n"
    "loader, test = loaders()"
)
AUGMENTED = f"transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor(), {NORMALIZE}])"
PLAIN = f"transforms.Compose([transforms.ToTensor(), {NORMALIZE}])"
DICTIONARY = {
    "pipeline": f'tfs = {{"train": {AUGMENTED}, "val": {PLAIN}}}',
    "data": f"sets = {{x: {FAKE.format('tfs[x]')} for x in ['train', 'val']}}\n"
    "sizes = {x: len(sets[x]) for x in sets}",
    "loader": 'loaders = {x: DataLoader(sets[x], batch_size=2) for x in ["train", "val"]}',
    "loop": 'for phase in ["train", "val"]:',
    "body": (
        f"for images, labels in loaders[phase]:\n    {MOVE}\n"
        f'    if phase == "train":\n        {STEP}\n    else:\n        seen.append(model(images))'
    ),
}

ONE = "transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5], [0.25])])"
OTHER = ONE.replace("transform =", "other =")
ARGS = "import argparse\nargs = argparse.Namespace(cuda=False)\nargs.cuda = torch.cuda.is_available()"
IF_CUDA = f"if args.cuda:\n    images, labels = images.cuda(), labels.cuda()\n{STEP}"
CHECKED = CLASS.replace("Image.fromarray(", "Image.open(stored(").replace(
    "dtype=np.uint8))", 'dtype=np.uint8)))\n        if image.mode != "RGB":\n            raise ValueError("not RGB")'
)
CHECKED = f"""\
import io

def stored(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file

{CHECKED}"""
COLLATE = """\
def collate(batch):
    images, labels = tuple(zip(*batch))
    images = torch.stack(images, dim=0)
    return images, torch.as_tensor(labels)

"""
COLLATED = f"{COLLATE}loader = DataLoader(dataset, batch_size=2, collate_fn=collate)"

CHANGES: dict[str, dict[str, str]] = {
    "plain": {},
    "whole batch moved": {"loop": "for batch in loader:",
        "body": f"batch = tuple(part.to(device) for part in batch)\nimages, labels = batch\n{STEP}"},
    "whole batch moved and unpacked": {"loop": "for batch in loader:",
        "body": f"images, labels = [part.to(device) for part in batch]\n{STEP}"},
    "stacked by their own function": {"loader": COLLATED},
    "stacked out of a comprehension": {
        "loader": COLLATED.replace(
            "    images, labels = tuple(zip(*batch))\n    images = torch.stack(images, dim=0)\n",
            "    images = torch.stack([sample[0] for sample in batch])\n    labels = [sample[1] for sample in batch]\n",
        )
    },
    "stacked in another order": {
        "loader": COLLATED.replace(
            "    images, labels", "    batch.sort(key=lambda s: s[1], reverse=True)\n    images, labels"
        )
    },
    "stacked in another place": {
        "loader": COLLATED.replace(
            "return images, torch.as_tensor(labels)", 'return {"y": torch.as_tensor(labels), "x": images}'
        ),
        "loop": "for batch in loader:",
        "body": 'train(batch["x"].to(device), batch["y"].to(device))',
    },
    "stacked by a static method": {
        "data": CLASS
        + "    @staticmethod\n"
        + "".join("    " + line + "\n" for line in COLLATE.strip().splitlines())
        + "\n"
        + MADE,
        "loader": "loader = DataLoader(dataset, batch_size=2, collate_fn=dataset.collate)",
    },
    "a mode that is checked": {"data": CHECKED + MADE},
    "a mode that is made": {
        "data": CHECKED.replace('raise ValueError("not RGB")', 'image = image.convert("RGB")') + MADE
    },
    "a mode that is given": {"data": CLASS.replace("dtype=np.uint8)", 'dtype=np.uint8), mode="RGB"') + MADE},
    "resized in the dataset": {
        "data": CLASS.replace(
            "        if self.tf", "        image = image.resize((9, 9)).crop((0, 0, 8, 8))\n        if self.tf"
        )
        + MADE
    },
    "other constants for others": {
        "pipeline": f"{PIPELINE}\nother = transforms.Compose([transforms.ToTensor(), {HALVES}])",
        "data": f"{DATA}\nmore = {FAKE.format('other')}",
        "loop": "for (images, labels), (x, y) in zip(loader, DataLoader(more, batch_size=2)):",
        "body": f"{MOVE}\nx = x.to(device)\nseen.append(x)\n{STEP}\ntrain(x, labels)",
    },
    "no dataset in a branch": {"data": f"{DATA} if len(seen) == 0 else None"},
    "no loader in a branch": {"data": f"{DATA}\nother = dataset if len(seen) == 0 else None",
        "loader": "loader = DataLoader(other, batch_size=2) if other is not None else None"},
    "asserted": {"data": f"{DATA}\nassert dataset"},
    "behind a progress bar of their own": {
        "loop": "def log_every(items):\n    for item in items:\n        yield item\n"
        "for images, labels in log_every(loader):"
    },
    "one after the other": {"body": f"images = images.to(device)\nlabels = labels.to(device)\n{STEP}"},
    "inside the call": {"body": "train(images.to(device), labels.to(device))"},
    "one line": {"body": f"{MOVE}; {STEP}"},
    "non-blocking": {"body": f"images = images.to(device, non_blocking=True)\n{STEP}"},
    "variable": {"body": f"images = Variable(images.to(device))\n{STEP}"},
    "variable first": {"body": f"images = Variable(images).to(device)\n{STEP}"},
    "viewed afterwards": {"body": f"images = images.to(device).view(-1, 192)\n{STEP}"},
    "mixed afterwards": {"body": f"{MOVE}\nimages = 0.5 * images + 0.5 * images.flip(0)\n{STEP}"},
    "in both branches": {
        "body": "if len(images) > 1:\n    train(images.to(device), labels)\nelse:\n    train(images.to(device), labels)"
    },
    "with a gradient": {"body": f"{MOVE}\nimages.requires_grad_()\n{STEP}"},
    "deleted": {"body": "x = images.to(device)\ndel images\ntrain(x, labels)"},
    "used behind the loop": {"after": "seen.append(images)"},
    "enumerated": {"loop": "for i, data in enumerate(loader, 0):", "body": f"images, labels = data\n{MOVE}\n{STEP}"},
    "zipped": {"loop": "for (images, labels), (x, _) in zip(loader, DataLoader(dataset, batch_size=2)):",
        "body": f"{MOVE}\nseen.append(x.to(device))\n{STEP}"},
    "shape of the first batch": {"after": "seen.append(torch.tensor(next(iter(loader))[0].shape))"},
    "cut": {"data": f"{DATA}\ndataset = Subset(dataset, [0, 1, 3])"},
    "split": {"data": SPLIT, "loader": "loader = DataLoader(a)\ntest = DataLoader(b)", "after": TEST.format("test")},
    "split and picked": {"data": f"{DATA}\nparts = random_split(dataset, [4, 2])",
        "loader": "loader = DataLoader(parts[0])", "after": TEST.format("DataLoader(parts[1])")},
    "joined": {"loader": "loader = DataLoader(ConcatDataset([dataset, dataset]), batch_size=2)"},
    "sampled": {
        "loader": "sampler = WeightedRandomSampler([1.0] * len(dataset), len(dataset))\n"
        "loader = DataLoader(dataset, batch_size=2, sampler=sampler)"
    },
    "distributed": {
        "loader": "sampler = DistributedSampler(dataset, num_replicas=1, rank=0)\n"
        "loader = DataLoader(dataset, batch_size=2, sampler=sampler)",
        "body": f"loader.sampler.set_epoch(0)\n{MOVE}\n{STEP}",
    },
    "two loaders from a function": {"loader": TWO, "after": TEST.format("test")},
    "loader as a parameter": {
        "loop": "def run(loader, device):\n    for images, labels in loader:\n"
        "        train(images.to(device), labels)\nrun(loader, device)\nif True:",
        "body": "run(DataLoader(dataset), device)",
    },
    "closure": {
        "loop": f"def step(images, labels):\n    images = images.to(device)\n    {STEP}\nfor images, labels in loader:",
        "body": "step(images, labels)",
    },
    "attributes": {
        "loop": "class Trainer:\n    def __init__(self, loader, device):\n"
        "        self.loader, self.device = loader, device\n"
        "    def run(self):\n        for images, labels in self.loader:\n"
        "            train(images.to(self.device), labels)\n"
        "Trainer(loader, device).run()\nif True:",
        "body": "pass",
    },
    "dictionaries": DICTIONARY,
    "items of a dictionary": {
        **DICTIONARY,
        "loop": "for phase, loader in loaders.items():",
        "body": DICTIONARY["body"].replace("loaders[phase]", "loader"),
    },
    "nested pictures": {
        "pipeline": "grow = transforms.Compose([transforms.Resize(9), transforms.CenterCrop(8)])\n"
        f"transform = transforms.Compose([grow, transforms.ToTensor(), {NORMALIZE}])"
    },
    "applied at random": {
        "pipeline": "transform = transforms.Compose([transforms.RandomApply([transforms.ColorJitter(0.4)], p=0.5), "
        f"transforms.ToTensor(), {NORMALIZE}])"
    },
    "made with a flag": {
        "pipeline": f"def make(train):\n    if train:\n        return {AUGMENTED}\n    return {PLAIN}\n"
        "transform = make(True)"
    },
    "default argument": {
        "data": f"def make(transform=transform):\n    return {FAKE.format('transform')}\ndataset = make()"
    },
    "constants written differently": {
        "pipeline": "a = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, (0.25,) * 3)])\n"
        "transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((1 / 2,) * 3, [0.25] * 3)])",
        "after": TEST.format(f"DataLoader({FAKE.format('a')})"),
    },
    "constants of a function": {
        "pipeline": "def make():\n    mean = [x / 255 for x in [125.3, 123.0, 113.9]]\n    std = [0.2, 0.3, 0.4]\n"
        "    return transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean, std)])\ntransform = make()"
    },
    "constants below": {
        "pipeline": "def make():\n"
        "    return transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, MEAN)])",
        "data": "",
        "loader": "",
        "device": f"{DEVICE}\nMEAN = (0.5, 0.25, 0.125)",
        "loop": f"for images, labels in DataLoader({FAKE.format('make()')}):",
    },
    "a name that is taken": {"pipeline": f"normalize = 1\n{PIPELINE}", "after": "assert normalize == 1"},
    "a class": {"data": CLASS + MADE},
    "a class without transform": {"data": f"{CLASS}{MADE}\nother = Photos()"},
    "a subclass": {
        "data": f"{CLASS}class More(Photos):\n    def size(self):\n        return 4\n\ndataset = More(transform)"
    },
    "a transform of the class": {
        "data": CLASS.replace(
            "    def __init__(self, transform=None):\n        self.tf = transform\n        self.extra = 0\n",
            "    tf = transform\n",
        )
        + "dataset = Photos()"
    },
    "version 2": {"pipeline": V2},
    "version 2, bytes in between": {
        "pipeline": V2.replace("v2.ToImage(), ", "v2.ToImage(), v2.ToDtype(torch.uint8, scale=True), ")
    },
    "version 2, old names": {
        "pipeline": "transform = v2.Compose([v2.ToTensor(), v2.Normalize((0.5,) * 3, (0.3,) * 3)])"
    },
}  # fmt: skip


CHANGES |= {
    "kept batches": {"loop": "batches = list(loader)\nfor images, labels in batches:"},
    "made contiguous before the copy": {"body": f"images = images.contiguous().detach()\n{MOVE}\n{STEP}"},
    "copied twice": {"body": "for _ in range(2):\n    moved = images.to(device)\n    train(moved, labels.to(device))"},
}


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_changes(case: dict[str, str]) -> None:
    code = script(**case)
    result = run(code)
    assert {finding.safety for finding in result.applied} == {Safety.SAFE}, [f.reason for f in result.refused]
    after = result.after.decode()
    assert "Normalize(" not in after
    assert run(after).outcome is Outcome.UNCHANGED
    assert_same(code, after)


GLOBAL = (
    "def run():\n    global images\n    for images, labels in loader:\n"
    "        train(images.to(device), labels)\nrun()\nif True:"
)
ASKED = "def chosen():\n    {}return torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
REFUSED: dict[str, tuple[str, dict[str, str]]] = {
    "device of a module": ("no place before the loop",
        {"body": f"images, labels = images.to(next(model.parameters()).device), labels.to(device)\n{STEP}"}),
    # What is done once for all batches is done as often as before, and before what it depends on.
    "device that is told": ("no place before the loop",
        {"loop": ASKED.format("print('here')\n    ") + LOOP,
         "body": f"images, labels = images.to(chosen()), labels.to(device)\n{STEP}"}),
    "device that is counted": ("no place before the loop",
        {"loop": "asked = 0\n" + ASKED.format("global asked\n    asked += 1\n    ") + LOOP,
         "body": f"images, labels = images.to(chosen()), labels.to(device)\n{STEP}"}),
    "device out of an iterator": ("no place before the loop",
        {"loop": f"devices = cycle([device])\n{LOOP}",
         "body": f"images, labels = images.to(next(devices)), labels.to(device)\n{STEP}"}),
    "another GPU in every step": ("no place before the loop",
        {"body": f"torch.cuda.set_device(len(seen) % 2)\nimages = images.cuda()\n{STEP}"}),
    "gradient of the images": (("may set requires_grad on the images before they are copied, which uint8 images do "
          "not allow"),
        {"loop": f"from torch.autograd import Variable\n{LOOP}",
         "body": f"images = Variable(images, requires_grad=True)\n{MOVE}\n{STEP}"}),
    "deviation of nothing": ("std is 0", {"pipeline": PIPELINE.replace("0.229, 0.224, 0.225", "0.229, 0.0, 0.225")}),
    "kept batches that are written into": ("writes into",
        {"loop": "batches = list(loader)\nfor images, labels in batches:",
         "body": f"{MOVE}\nimages.mul_(0.5)\n{STEP}"}),
    "repeated batches that are written into": ("writes into",
        {"loop": "for images, labels in cycle(loader):",
         "body": f"{MOVE}\nimages += 1\n{STEP}\nif len(seen) > 9:\n    break"}),
    "copied twice and written into": (
        "writes into",
        {
            "body": "for _ in range(2):\n    moved = images.to(device)\n    moved.mul_(0.5)\n"
            "    train(moved, labels.to(device))"
        },
    ),
    "copied again": ("applied again",
        {"body": "for _ in range(2):\n    images = images.to(device)\n    train(images, labels.to(device))"}),
    # Copies that happen only sometimes.
    "copied if, and seen inside": ("only under the `if`",
        {"body": f"if torch.cuda.is_available():\n    images = images.cuda()\n    images.mean()\n{STEP}"}),
    "copied if, and seen behind the loop": ("only under the `if`",
        {"body": f"if len(seen) > 1:\n    break\nif torch.cuda.is_available():\n    images = images.cuda()\n{STEP}",
         "after": "seen.append(images)"}),
    "copied now and then": ("under the `if` on line 30",
        {"body": f"if len(seen) > 1:\n    images = images.cuda()\n{STEP}"}),
    "copied if asked": ("under the `if` on line 33", {"device": f"{DEVICE}\n{ARGS}", "body": IF_CUDA}),
    "copied where a GPU is told": ("only under the `if`",
        {"device": f"{DEVICE}\ngpu = 0 if torch.cuda.is_available() else None",
         "body": f"if gpu is not None:\n    images = images.cuda(gpu, non_blocking=True)\n{STEP}"}),
    "copied if there is one, on one line": ("only under the `if`",
        {"body": f"if torch.cuda.is_available(): images = images.cuda()\n{STEP}"}),
    "copied or changed": ("before they are copied",
        {"body": f"if len(seen):\n    images = images.cuda()\nelse:\n    images = images * 2\n{STEP}"}),
    "by its type": ("`.type` on line",
        {"device": f"{DEVICE}\nTensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor",
         "body": f"images = images.type(Tensor)\n{STEP}"}),
    "no place before the loop": ("no place before the loop",
        {"loop": "def step(images, labels):\n    images = images.cuda()\n    train(images, labels)\n" + LOOP,
         "body": "step(images, labels)"}),
    # Work before the copy.
    "one constant, flattened before": ("`.view` on line",
        {"pipeline": ONE, "body": f"images = images.view(images.size(0), -1).to(device)\n{STEP}"}),
    # Collate functions.
    "stacked along another dimension": ("more than stack",
        {"loader": COLLATED.replace("dim=0", "dim=1"), "body": f"images = images.to(device).transpose(0, 1)\n{STEP}"}),
    "scaled when stacked": ("more than stack", {"loader": COLLATED.replace("dim=0)", "dim=0) * 2")}),
    "sorted by brightness": (
        "more than stack",
        {
            "loader": COLLATED.replace(
                "    images, labels", "    batch.sort(key=lambda s: s[0].mean())\n    images, labels"
            )
        },
    ),
    "stacked twice": ("more than stack",
        {"loader": COLLATED.replace("return images,", "return torch.stack([images, images]),")}),
    "stacked, and means beside": ("more than stack",
        {"loader": COLLATED.replace("return images, torch.as_tensor(labels)", "return images, images.mean()")}),
    "one of two functions": (
        "one of several",
        {
            "loader": COLLATED.replace("collate_fn=collate", "collate_fn=collate if seen else None").replace(
                "return images, torch.as_tensor(labels)", "return torch.as_tensor(labels), images"
            )
        },
    ),
    # Modes.
    "a mode that is printed": ("8 bits per channel",
        {"data": CHECKED.replace('raise ValueError("not RGB")', 'print("not RGB")') + MADE}),
    "a mode of sixteen bits": ("8 bits per channel", {"data": CHECKED.replace('"RGB"', '"I;16"') + MADE}),
    "a mode that is converted sometimes": (
        "8 bits per channel",
        {
            "data": CHECKED.replace(
                'raise ValueError("not RGB")', 'if index:\n                image = image.convert("RGB")'
            )
            + MADE
        },
    ),
    "a mode of another picture": ("8 bits per channel",
        {"data": CHECKED.replace("image.mode !=", "Image.open('x.png').mode !=") + MADE}),
    "a picture opened anew": (
        "8 bits per channel",
        {
            "data": CHECKED.replace("        if self.tf", "        image = Image.open('x.png')\n        if self.tf")
            + MADE
        },
    ),
    "Normalize of their own": (
        "the project's own class",
        {
            "pipeline": "class Normalize:\n    def __call__(self, x):\n        return x * 2\n"
            "transform = transforms.Compose([transforms.ToTensor(), Normalize()])"
        },
    ),
    "other constants in the same loop": ("normalise with different constants",
        {"pipeline": f"{PIPELINE}\n{OTHER}", "data": f"{DATA}\nmore = {FAKE.format('other')}",
         "loader": "loader = DataLoader(ConcatDataset([dataset, more]), batch_size=2)"}),
    # Somebody else sees the images.
    "transform read": ("read outside of loaders", {"after": "show = dataset.transform"}),
    "transform replaced": ("`dataset.transform` is replaced", {"after": "dataset.transform = transforms.ToTensor()"}),
    "transform of a part replaced": ("is replaced",
        {"data": f"{SPLIT}\nb.dataset.transform = transforms.ToTensor()", "loader": "loader = DataLoader(a)"}),
    "sample of the loader's dataset": ("read outside of loaders", {"after": "print(loader.dataset[0])"}),
    "other part shown": ("read outside of loaders",
        {"data": SPLIT, "loader": "loader = DataLoader(a)", "after": "print(b[0][0].mean())"}),
    "batch shown": ("before they are copied", {"after": "images, labels = next(iter(loader))\nmake_grid(images)"}),
    "batch handed on": ("whole batch is used", {"after": "print(next(iter(loader)))"}),
    "batch of a list": ("cannot follow how",
        {"loop": "batches = list(loader)\nfor images, labels in batches:", "after": "print(batches[0])"}),
    "shown once": ("before they are copied", {"body": f"if len(seen) == 0:\n    make_grid(images)\n{MOVE}\n{STEP}"}),
    "images behind the loop": ("`.mean` on line",
        {"body": "train(images.to(device), labels)", "after": "images.mean()"}),
    "trained on the host": ("before they are copied", {"body": STEP}),
    "copied in one branch": ("only under the `if`",
        {"body": "if len(seen):\n    train(images.to(device), labels)\nelse:\n    train(images, labels)"}),
    "viewed before": ("`.view` on line", {"body": f"images = images.view(-1, 192).to(device)\n{STEP}"}),
    "halved before": ("`.half` on line", {"body": f"images = images.half().to(device)\n{STEP}"}),
    "scaled before": ("before they are copied", {"body": f"images *= 2\n{MOVE}\n{STEP}"}),
    "given by a star": ("before they are copied",
        {"body": f"def show(*parts):\n    print(parts)\nshow(images)\n{MOVE}\n{STEP}"}),
    "kept in a tuple": ("before they are copied", {"body": f"pair = images, labels\nprint(pair)\n{MOVE}\n{STEP}"}),
    "unpacked": ("before they are copied", {"body": f"a, b = images\nprint(a)\n{MOVE}\n{STEP}"}),
    "kept in attributes": ("whole batch is used",
        {"loop": "for batch in loader:", "body": f"model.x, model.y = batch\nimages, labels = batch\n{MOVE}\n{STEP}"}),
    "whole batch moved, and used": ("whole batch is used",
        {"loop": "for batch in loader:",
         "body": f"batch = [p.to(device) for p in batch]\nimages, labels = batch\nprint(batch[0].mean())\n{STEP}"}),
    "whole batch moved, but what is even": ("whole batch is used",
        {"loop": "for batch in loader:",
         "body": f"images, labels = [part.to(device) for part in batch if len(part) > 1]\n{STEP}"}),
    "whole batch moved and scaled": ("whole batch is used",
        {"loop": "for batch in loader:", "body": f"images, labels = [p.to(device) * 2 for p in batch]\n{STEP}"}),
    "global images": ("`global` on line 32", {"loop": GLOBAL, "body": "print(images.mean())"}),
    "global loader": ("cannot follow how",
        {"loader": "loader = None\ndef setup():\n    global loader\n    loader = DataLoader(dataset)\nsetup()"}),
    "loader handed on": ("cannot follow how", {"after": "model.fit(loader)"}),
    "transform saved": ("passed to torch.save", {"after": "torch.save(transform, 'transform.pt')"}),
    "dataset printed": ("read outside of loaders", {"after": "print(dataset)"}),
    "collated": ("collate function", {"loader": "loader = DataLoader(dataset, collate_fn=lambda batch: batch)"}),
    "no batches": ("has batch_size=None", {"loader": "loader = DataLoader(dataset, batch_size=None)"}),
    "loader of their own": ("is not a torch.utils.data.DataLoader",
        {"loader": "class Loader(DataLoader):\n    pass\nloader = Loader(dataset, batch_size=2)"}),
    # The copies or the loader serve other data.
    "other transform in a branch": ("also read the dataset",
        {"data": f"if len(seen):\n    dataset = {FAKE.format('transforms.ToTensor()')}\nelse:\n    {DATA}"}),
    "other transform by condition": ("another transform",
        {"data": f"plain = transforms.ToTensor()\ndataset = {FAKE.format('transform if seen else plain')}"}),
    "other transform of a function": (
        "another transform",
        {
            "pipeline": f"def make(full):\n    if full:\n        return {PLAIN}\n"
            "    return transforms.ToTensor()\ntransform = make(True)"
        },
    ),
    "other dataset joined": ("also read the dataset",
        {"loader": f"loader = DataLoader(ConcatDataset([dataset, {FAKE.format('transforms.ToTensor()')}]))"}),
    "other loader in the same loop": (
        "also copies other batches",
        {
            "loop": "def run(loader):\n    for images, labels in loader:\n"
            "        train(images.to(device), labels)\nrun(loader)\nif True:",
            "body": f"run(DataLoader({FAKE.format('transforms.ToTensor()')}))",
        },
    ),
    "one of two in a dictionary": ("another transform",
        {**DICTIONARY, "pipeline": f'tfs = {{"train": {AUGMENTED}, "val": transforms.ToTensor()}}'}),
    "batch of a dictionary shown": ("before they are copied",
        {**DICTIONARY, "after": 'inputs, classes = next(iter(loaders["train"]))\nmake_grid(inputs)'}),
    # What reaches ToTensor, or leaves it, is something else.
    "loader of pictures": ("own loader function",
        {"data": "dataset = datasets.ImageFolder('photos', transform, None, Image.open)"}),
    "lambda": ("Lambda before", {"pipeline": PIPELINE.replace("[", "[transforms.Lambda(np.float32), ", 1)}),
    "lambda at random": ("Lambda before",
        {"pipeline": PIPELINE.replace("[", "[transforms.RandomApply([transforms.Lambda(np.float32)]), ", 1)}),
    "tensors to pictures": ("ToPILImage before", {"pipeline": PIPELINE.replace("[", "[transforms.ToPILImage(), ", 1)}),
    "part of another pipeline": ("part of another pipeline",
        {"pipeline": f"inner = {PLAIN}\ntransform = transforms.Compose([transforms.Resize(8), inner])"}),
    "list that grows": (
        "not written in one list",
        {
            "pipeline": f"steps = [transforms.ToTensor()]\nsteps.append({NORMALIZE})\n"
            "transform = transforms.Compose(steps)"
        },
    ),
    "16 bits": ("8 bits per channel", {"data": CLASS.replace("uint8", "uint16") + MADE}),
    "mode I": ("8 bits per channel", {"data": CLASS.replace("np.uint8))", "np.uint8)).convert('I')") + MADE}),
    "mode of the file": ("8 bits per channel",
        {"data": CLASS.replace("fromarray(np.full((8, 8, 3), index * 9, dtype=np.uint8))", "open('x.png')") + MADE}),
    "array": ("8 bits per channel", {"data": CLASS.replace("Image.fromarray(", "(") + MADE}),
    "returned twice": ("at the same position", {"data": CLASS.replace("return image,", "return image, image,") + MADE}),
    "flipped in the dataset": ("more with the",
        {"data": CLASS.replace("return image,", "return image.flip(0),") + MADE}),
    "zeros instead": (
        "another image",
        {
            "data": CLASS.replace(
                "        if self.tf",
                "        if index == 9:\n            return torch.zeros(3, 8, 8), 0\n        if self.tf",
            )
            + MADE
        },
    ),
    "another transform of the class": ("another transform",
        {"data": f"{CLASS}{MADE}\nother = Photos(transforms.ToTensor())"}),
    "transform of the class replaced": ("`dataset.tf` is replaced", {"data": f"{CLASS}{MADE}\ndataset.tf = None"}),
    "transform of the class used": ("outside of datasets",
        {"data": f"{CLASS}{MADE}\nprint(dataset.tf(Image.new('RGB', (2, 2))))"}),
    "subclass with samples of its own": (
        "more with the",
        {
            "data": f"{CLASS}class More(Photos):\n    def __getitem__(self, i):\n"
            f"        return super().__getitem__(i)[0] * 2, 0\n\n{MADE}\nother = More(transform)"
        },
    ),
    "own samples read": (
        "its own samples",
        {"data": f"{CLASS.rstrip()}\n\n    def first(self):\n        return self[0]\n\n{MADE}\nprint(dataset.first())"},
    ),
    "class handed on": ("itself is passed on", {"data": f"{CLASS}{MADE}\nkinds = [Photos]"}),
    # Arithmetic.
    "cast by the copy": ("dtype or memory format",
        {"body": f"images = images.to(device, dtype=torch.float64)\n{STEP}"}),
    "to the CPU": ("stay on the CPU", {"device": 'device = torch.device("cpu")'}),
    "two devices": ("goes to another device",
        {"body": "train(images.to(device), labels.to(device))\ntrain(images.to('cuda:1'), labels)"}),
    "device chosen later": (
        "no place before the loop",
        {
            "loop": "torch.cuda.set_device(0)\ndef step(images, labels):\n    images = images.to(device)\n"
            f"    {STEP}\nfor images, labels in loader:",
            "body": "step(images, labels)",
        },
    ),
    "default type": ("default dtype", {"pipeline": f"torch.set_default_dtype(torch.float64)\n{PIPELINE}"}),
    "constants from the command line": (
        "not a constant",
        {
            "pipeline": "import sys\n"
            "transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(sys.argv, sys.argv)])"
        },
    ),
    "constants that change": (
        "not a constant",
        {
            "pipeline": "M = [0.5]\nM[0] = 0.4\n"
            "transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize(M, M)])"
        },
    ),
    "version 2 without scale": ("does not scale", {"pipeline": V2.replace(", scale=True", "")}),
    "version 2 in half": ("torch.float32", {"pipeline": V2.replace("float32", "float16")}),
    "version 2, floats flipped": (
        "not ToTensor",
        {
            "pipeline": "transform = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), "
            "v2.GaussianNoise(), v2.Normalize([0.5], [0.5])])"
        },
    ),
    "version 2, noise": ("GaussianNoise before",
        {"pipeline": V2.replace("v2.RandomHorizontalFlip()", "v2.GaussianNoise()")}),
    "Albumentations": ("Albumentations",
        {"pipeline": "import albumentations as A\ntransform = A.Compose([A.Normalize(), A.ToTensorV2()])"}),
    "by hand, as a function": ("a torchvision function",
        {"pipeline": "",
         "data": BY_HAND.replace("(x.float().div(255) - 0.485) / 0.229", "TF.normalize(x / 255, [0.5], [0.5])")}),
    "by hand, numbers": ("normalises by hand", {"data": BY_HAND, "pipeline": ""}),
    "by hand, tensors": ("normalises by hand", {"data": TENSORS, "pipeline": ""}),
    # No step.
    "drawn by a generator": (
        "no loop over",
        {
            "loop": "def moved():\n    for images, labels in loader:\n"
            "        yield images.to(device), labels.to(device)\nfor images, labels in moved():",
            "body": STEP,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "case"), REFUSED.values(), ids=REFUSED)
def test_refused(reason: str, case: dict[str, str]) -> None:
    result = run(script(**case))
    assert result.outcome is Outcome.UNCHANGED, result.after.decode()
    assert reason in " | ".join(finding.reason for finding in result.refused)


@pytest.mark.parametrize("case", [
    {"pipeline": "transform = transforms.ToTensor()"},
    {"pipeline": "", "data": BY_HAND.replace("(x.float().div(255) - 0.485) / 0.229", "x.float().div(255)")},
    {"pipeline": "transform = transforms.ToTensor()", "body": f"{MOVE}\nimages = {NORMALIZE}(images)\n{STEP}"},
])  # fmt: skip
def test_silent(case: dict[str, str]) -> None:
    result = run(script(**case))
    assert (result.outcome, result.refused) == (Outcome.UNCHANGED, ())


def test_a_pipeline_in_the_way_is_left_alone() -> None:
    """The prediction keeps its own pipeline, and the training still moves."""
    code = script(after=f"predict = {PLAIN}\nseen.append(predict(Image.new('RGB', (8, 8), (9, 8, 7))))")
    result = run(code)
    assert len(result.applied) == 1
    assert ["it also prepares images outside of datasets" in finding.reason for finding in result.refused] == [True]
    assert_same(code, result.after.decode())


@pytest.mark.parametrize(("data", "moves"), [
    (FAKE, False),
    ("datasets.CIFAR10('data', transform={})", True),
])  # fmt: skip
def test_training_and_evaluation_of_one_data_set_move_together(data: str, moves: bool) -> None:
    shown = f"tested = {data.format(PLAIN)}\nimages, labels = next(iter(DataLoader(tested)))\nmake_grid(images)"
    result = run(script(after=shown))
    assert bool(result.applied) is moves
    reasons = [finding.reason for finding in result.refused]
    own = "the normalised images are used on line 34 before they are copied to the device"
    assert reasons == (
        [own] if moves else [f"the transform on line 32, of a dataset of the same class, has to stay: {own}", own]
    )


EVERY_BYTE = """\
class Bytes(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        levels = np.asarray(np.arange(192) + 64 * index, dtype=np.uint8)
        return transform(Image.fromarray(levels.reshape(8, 8, 3))), 0

dataset = Bytes()"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "mean", ["(0.485, 0.456, 0.406)", "(0.5,) * 3", "(0, 0, 0)", "[0.1307, 1 / 3, 2.5e-8]", "[0.1307]"]
)
@pytest.mark.parametrize("std", ["(0.229, 0.224, 0.225)", "(1, 1, 1)", "[0.3081, 1e-6, 1 / 255]", "(1,)"])
@pytest.mark.parametrize("steps", [
    "transforms.ToTensor(), transforms.Normalize",
    "v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize",
    "v2.PILToTensor(), v2.ConvertImageDtype(), v2.Normalize",
])  # fmt: skip
def test_every_byte(steps: str, mean: str, std: str) -> None:
    code = script(pipeline=f"transform = v2.Compose([{steps}({mean}, {std})])", data=EVERY_BYTE)
    result = run(code)
    assert result.applied, [finding.reason for finding in result.refused]
    assert_same(code, result.after.decode())


def test_imports_follow() -> None:
    """Names imported one by one: what nobody reads any more goes, what somebody else reads stays."""
    names = (
        "from torchvision.transforms import Compose, Normalize, ToTensor\n"
        "from torchvision.transforms import Resize as R"
    )
    pipeline = f"{names}\ntransform = Compose([R(8), ToTensor(), Normalize((0.5,) * 3, (0.5,) * 3)])"
    after = run(script(pipeline=pipeline)).after.decode()
    assert "from torchvision.transforms import Compose, PILToTensor\n" in after
    two = pipeline + "\nother = Compose([ToTensor(), Normalize((0.1,) * 3, (0.5,) * 3)])"
    data = f"{DATA}\nmore = {FAKE.format('other')}"
    loop = "for (images, labels), (x, _) in zip(loader, DataLoader(more)):"
    body = f"x = x.to(device)\n{MOVE}\n{STEP}"
    after = run(script(pipeline=two, data=data, loop=loop, body=body)).after.decode()
    assert "from torchvision.transforms import Compose, PILToTensor\n" in after
    after = run(script(pipeline=pipeline, after="plain = ToTensor()")).after.decode()
    assert "from torchvision.transforms import Compose, PILToTensor, ToTensor\n" in after


def test_constants_stay_in_use() -> None:
    """The module is made below them, and takes them by their names; comments stay on their lines."""
    steps = "[\n    transforms.ToTensor(),  # a tensor\n    transforms.Normalize(mean, std),\n]"
    made = f"mean = [0.5, 0.4, 0.3]\nstd = (0.2, 0.3, 0.1)\ntransform = transforms.Compose({steps})"
    after = run(script(pipeline=DEVICE, device=LOADER, data=made, loader=DATA)).after.decode()
    assert "std = (0.2, 0.3, 0.1)\nnormalize = NormalizeOnDevice(mean, std).to(device)\n" in after
    assert "    transforms.PILToTensor(),  # a tensor\n]" in after
    body = textwrap.indent(script(pipeline=made)[len(HEAD) :], "    ")
    after = run(f"{HEAD}def main():\n{body}\n\nmain()\n").after.decode()
    assert "    mean = [0.5" in after
    assert "normalize = NormalizeOnDevice(mean, std).to(device)\n" in after


SECOND = f"""
def step():
    {DEVICE}
    {LOOP}
        images = images.to(device)
        model(images)
"""


def test_the_reference_script_is_rewritten_by_default() -> None:
    original = Path(__file__).parents[2] / "benchmarks/reference/cifar_resnet18/original.py"
    assert run(original.read_text("utf-8"), is_selected=False).applied


@pytest.mark.parametrize(("code", "reason"), [
    (script(), ""),
    (script(pipeline=V2), ""),
    (script(pipeline=ONE), "images of one channel cost little on the CPU"),
    (script(after=SECOND), "2 functions would have to create the module"),
], ids=["colours", "colours of the newer transforms", "one channel", "two functions"])  # fmt: skip
def test_where_a_module_is_more_than_most_want(code: str, reason: str) -> None:
    result = run(code, is_selected=False)
    assert bool(result.applied) is not bool(reason)
    assert [(each.safety, each.reason.rpartition("; ")[2]) for each in result.held_back] == (
        [(Safety.LOW_IMPACT, reason)] if reason else []
    )
    assert run(code).applied
