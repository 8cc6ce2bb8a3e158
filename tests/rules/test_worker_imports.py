"""PM201: what workers started by spawn or forkserver find where they import the modules of a training again."""

from __future__ import annotations

import json
import re

import pytest

from perfmod.codemods.engine import Choice, Given, rewrite_together
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from tests.rules.test_worker_traps import said

TRAIN = """\
import argparse, sys
import torch
from torch import nn
from torch.utils.data import DataLoader
import config
from config import cfg, CONSTANTS
from data import Numbers, Base, collate, load


def prepare(settings, path):
    settings.merge_from_file(path)


class Trainer:
    def __init__(self, settings):
        self.settings = settings

    def set_up(self):
        self.settings.merge({"scale": 2.0})


def main():
    CHANGE
    model = nn.Linear(1, 1)
    for x in DataLoader(Numbers(ARGUMENT), batch_size=2, collate_fn=collate):
        model(x.to(model.weight.device)).mean().backward()


TOP
if __name__ == "__main__":
    main()
"""
DATA = """\
import torch
import config
from config import cfg, DATA

FACTOR = cfg.factor


def load(index):
    READ
    return float(index)


class Base(torch.utils.data.Dataset):
    scale = 1.0
    items = []


class Numbers(Base):
    size = 1.0

    def __init__(self, scale=1.0):
        self.own = cfg.scale
        KEEP

    @classmethod
    def configure(cls, size):
        cls.size = size

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([load(index)]).sqrt() * self.size * self.scale * self.own


def collate(batch):
    return torch.stack(batch)
"""
CONFIG = """\
class Config(dict):
    def __getattr__(self, name):
        return self[name]

    def merge(self, other):
        for name, value in other.items():
            self._set(name, value)

    def _set(self, name, value):
        self.update({name: value})

    def parse(self, argv):
        self.__dict__.update(argv)

    def copied(self):
        return dict(self)


class Child(Config):
    def merge(self, other):
        super().merge(other)


cfg = MADE
DATA = cfg.data
CONSTANTS = [1]
"""


def files(
    change: str = "pass",
    read: str = "index *= cfg.scale",
    argument: str = "",
    top: str = "pass",
    keep: str = "pass",
    made: str = "Config(scale=1.0)",
) -> dict[str, str]:
    """A training of three files with these parts."""
    train = TRAIN.replace("CHANGE", change).replace("ARGUMENT", argument).replace("TOP", top)
    data = DATA.replace("READ", read).replace("KEEP", keep)
    return {"train.py": train, "data.py": data, "config.py": CONFIG.replace("MADE", made)}


CHANGES = [
    "cfg.merge({'scale': 2.0})", "cfg.parse({'scale': 2.0})", "cfg.update(scale=2.0)", "cfg['scale'] = 2.0",
    "cfg.scale = 2.0", "setattr(cfg, 'scale', 2.0)", "vars(cfg).update(scale=2.0)", "cfg.__dict__['scale'] = 2.0",
    "config.cfg.merge({'scale': 2.0})", "settings = cfg; settings.merge({'scale': 2.0})",
    "Trainer(cfg).set_up()", "argparse.ArgumentParser().parse_args(namespace=cfg)",
    "for k, v in {'scale': 2.0}.items(): setattr(cfg, k, v)",
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("made", ["Config(scale=1.0)", "Child(scale=1.0)"])
def test_a_configuration_is_changed_by_a_function(change: str, made: str) -> None:
    reason = said(files(change, made=made))
    assert re.search("cfg, which the workers read on line [0-9]+ of data.py, is changed on line ", reason)


@pytest.mark.parametrize(
    "change",
    [
        "cfg.merge_from_file('a.yaml')", "cfg.merge_from_list(['scale', 2.0])", "prepare(cfg, 'a.yaml')",
        "cfg.data.merge_from_list(['scale', 2.0])", "cfg.read('a.ini')",
    ],
)  # fmt: skip
def test_a_configuration_of_a_library_is_changed_by_a_function(change: str) -> None:
    made = "CfgNode(dict(scale=1.0))\n"
    given = files(change, made=made)
    given["config.py"] = "from yacs.config import CfgNode\n" + given["config.py"]
    assert "cfg, which the workers read" in said(given)
    given["train.py"] = given["train.py"].replace(change, "cfg.freeze()")
    assert said(given) == ""


def test_what_shares_a_configuration() -> None:
    assert "is changed on line" in said(files("cfg.merge({'size': 1})", read="index *= DATA.size"))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"change": "print(cfg.copied(), cfg.scale, len(cfg), cfg.get('scale'))"},
        {"change": "local = dict(cfg); local.update(scale=2.0)"},
        {"change": "own = config.Config(); own.merge({'scale': 2.0}); own.scale = 3.0"},
        {"change": "cfg.merge({'scale': 2.0})", "read": "pass"},  # the constructor runs in the training alone
        {"change": "cfg.merge({'scale': 2.0})", "read": "pass", "argument": "cfg.scale"},
        {"change": "settings = cfg; settings.epochs = 2"},
        {"top": "cfg.merge({'scale': 2.0})"},
        {"top": "def configured():\n    cfg.merge({'scale': 2.0})\n\n\nconfigured()"},
        {"change": "CONSTANTS.append(1)"},
        {"change": "model = nn.Linear(1, 1); model.scale = 2.0"},
        {"change": "made = Numbers(); made.scale = 2.0"},
        {"change": "Numbers.unread = 2.0"},
    ],
)
def test_configurations_that_workers_see(parts: dict[str, str]) -> None:
    assert said(files(**parts)) == ""


@pytest.mark.parametrize(
    "parts",
    [
        {"change": "Numbers.scale = 2.0"},
        {"change": "Numbers.size = 2.0"},
        {"change": "Base.scale = 2.0"},
        {"change": "setattr(Numbers, 'size', 2.0)"},
        {"change": "Numbers.configure(2.0)"},
        {"change": "type(Numbers()).size = 2.0"},
        {"keep": "self.__class__.size = scale"},
        {"keep": "Numbers.size = scale"},
        {"keep": "self.items.append(scale)", "read": "index = len(Base.items)"},
        {"change": "load.scale = 2.0", "read": "index *= load.scale"},
        {"change": "Numbers.__getitem__ = load"},
    ],
)
def test_a_class_is_changed_by_a_function(parts: dict[str, str]) -> None:
    assert "which spawned workers do not run" in said(files(**parts))


SCRIPT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ITEMS = {}


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.tensor([float(index) * ITEMS["scale"]]).sqrt()


ITEMS["scale"] = 2.0
model = nn.Linear(1, 1)
for x in DataLoader(Numbers(), batch_size=2):
    model(x.to(model.weight.device)).mean().backward()
"""


def test_what_changes_it_stays_outside_of_the_guard() -> None:
    (result,) = rewrite_together([Given("train.py", SCRIPT.encode(), ("train",))], [LoaderWithoutWorkers()], Choice())
    assert result.after is not None
    assert '\nITEMS["scale"] = 2.0\nif __name__ == "__main__":\n    model = ' in result.after.decode()


SWITCHED = """\
import csv, locale, random, sys, time
import cv2
import numpy as np
import torch
import torchvision
from PIL import Image, ImageFile
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self):
        self.table = torch.ones(8)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        x = torch.from_numpy(np.full((3,), index, dtype=np.float32)).sqrt()
        SAMPLE
        return x

    def down(self, index):
        return index and self.down(index - 1)


TOP


def main():
    CHANGE
    model = nn.Linear(3, 1)
    for x in DataLoader(Numbers(), batch_size=2):
        model(x.to(model.weight.device)).mean().backward()


if __name__ == "__main__":
    main()
"""
SWITCHES = [
    ("torch.set_default_dtype(torch.float64)", "x = torch.tensor([0.5])"),
    ("torch.set_default_dtype(DTYPE)", "x = torch.zeros(3)"),
    ("torch.set_default_tensor_type('torch.DoubleTensor')", "x = torch.arange(3) / 2"),
    ("torch.set_default_tensor_type(torch.DoubleTensor)", "x = torchvision.transforms.functional.to_tensor(x)"),
    ("ImageFile.LOAD_TRUNCATED_IMAGES = True", "Image.open('a.jpg').load()"),
    ("Image.MAX_IMAGE_PIXELS = None", "x = torchvision.io.read_image('a.jpg')"),
    ("sys.setrecursionlimit(10000)", "self.down(index)"),
    ("np.seterr(all='raise')", "x = x * float(np.log(index))"),
    ("locale.setlocale(locale.LC_ALL, 'de_DE')", "x = x * len(time.strftime('%A', time.gmtime(index)))"),
    ("csv.field_size_limit(sys.maxsize)", "row = next(csv.reader(['1,2']))"),
    ("torchvision.set_image_backend('accimage')", "x = torchvision.datasets.folder.default_loader('a.jpg')"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "sample"), SWITCHES)
def test_a_process_is_set_up_by_a_function(change: str, sample: str) -> None:
    code = SWITCHED.replace("CHANGE", change).replace("SAMPLE", sample)
    assert "in the main process only, on which line" in said(code.replace("TOP", "pass"))
    assert said(SWITCHED.replace("TOP", change).replace("SAMPLE", sample).replace("CHANGE", "pass")) == ""


@pytest.mark.parametrize(
    ("change", "sample"),
    [
        ("torch.set_default_dtype(torch.float64)", "x = x * 2"),
        ("torch.set_default_dtype(torch.float64)", "x = torch.tensor([0.5], dtype=torch.float32)"),
        ("torch.set_default_dtype(torch.float64)", "x = torch.LongTensor([1, 2])"),
        ("torch.set_default_dtype(torch.float32)", "x = torch.tensor([0.5])"),
        ("torch.set_default_tensor_type('torch.FloatTensor')", "x = torch.tensor([0.5])"),
        ("ImageFile.LOAD_TRUNCATED_IMAGES = True", "x = x * 2"),
        ("sys.setrecursionlimit(10000)", "x = x * 2"),
        ("cv2.setNumThreads(0)", "cv2.imread('a.jpg')"),
        ("torch.set_num_threads(4)", "x = torch.tensor([0.5])"),
        ("torch.backends.cudnn.benchmark = True", "x = torch.tensor([0.5])"),
        ("np.set_printoptions(precision=3)", "x = x * float(np.log(2))"),
    ],
)
def test_settings_that_no_sample_depends_on(change: str, sample: str) -> None:
    assert said(SWITCHED.replace("TOP", "pass").replace("CHANGE", change).replace("SAMPLE", sample)) == ""


def test_a_script_is_set_up_outside_of_its_guard() -> None:
    code = SWITCHED.replace("TOP", "torch.set_default_dtype(torch.float64)").replace("SAMPLE", "x = torch.zeros(3)")
    code = code.replace("CHANGE", "pass").replace("def main():", "if True:").replace("    main()\n", "    pass\n")
    (result,) = rewrite_together([Given("train.py", code.encode(), ("train",))], [LoaderWithoutWorkers()], Choice())
    assert result.after is not None
    assert "\ntorch.set_default_dtype(torch.float64)\n" in result.after.decode()


IMPORTED = """\
import datetime, random, tempfile, time
import numpy as np
import torch
from torch.utils.data import Dataset

TOP


class Numbers(Dataset):
    scale = SCALE

    def __init__(self):
        self.names = list(set("abc"))
        self.drawn = random.random()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        x = torch.tensor([float(index)]).sqrt()
        SAMPLE
        return x * self.scale
"""
TRAINS = """\
from torch import nn
from torch.utils.data import DataLoader
from data import Numbers


def main():
    model = nn.Linear(1, 1)
    for x in DataLoader(Numbers(), batch_size=2):
        model(x.to(model.weight.device)).mean().backward()


if __name__ == "__main__":
    main()
"""


def imported(top: str = "pass", sample: str = "pass", scale: str = "1") -> dict[str, str]:
    """A training whose dataset stands in a module with these parts."""
    data = IMPORTED.replace("TOP", top).replace("SAMPLE", sample).replace("SCALE", scale)
    return {"train.py": TRAINS, "data.py": data}


USED = "x = x * IDS[index]"
SHUFFLED = "order = list(range(8))\nrandom.shuffle(order)\nIDS = order[:8]"
PERMUTED = "IDS = np.random.permutation(8)"


@pytest.mark.parametrize(
    "top",
    [
        SHUFFLED, PERMUTED, "IDS = torch.randperm(8)", "IDS = random.sample(range(8), 8)",
        "rng = np.random.default_rng()\nIDS = rng.permutation(8)",
        "def drawn():\n    return np.random.permutation(8)\n\n\nIDS = drawn()",
        "IDS = []\nfor n in range(8):\n    IDS.append(random.random())",
        "IDS = [random.random() for n in range(8)]", "A, IDS = 1, np.random.rand(8)",
        "IDS = frame.sample(frac=1)", "IDS = random.sample(range(8), 8)\nIDS.sort()",
        "random.seed(time.time())\n" + SHUFFLED, "np.random.seed(0)\n" + SHUFFLED, SHUFFLED + "\nrandom.seed(0)",
        "if len(names):\n    random.seed(0)\n" + SHUFFLED, "IDS = [time.time()] * 8",
    ],
)  # fmt: skip
def test_draws_of_an_import(top: str) -> None:
    reason = said(imported(top, USED))
    assert re.search("is (drawn|created) again in every spawned worker", reason)


@pytest.mark.parametrize(
    ("top", "sample"),
    [
        (SHUFFLED, "pass"),
        ("random.seed(0)\n" + SHUFFLED, USED),
        ("SEED = 3\nrandom.seed(SEED)\n" + SHUFFLED, USED),
        ("np.random.seed(0)\n" + PERMUTED, USED),
        ("IDS = np.random.RandomState(0).permutation(8)", USED),
        ("rng = np.random.default_rng(7)\nIDS = rng.permutation(8)", USED),
        ("IDS = frame.sample(frac=1, random_state=0)", USED),
        ("IDS = torch.randperm(8, generator=torch.Generator().manual_seed(0))", USED),
        ("IDS = list(range(8))", USED),
    ],
)
def test_draws_that_every_import_repeats(top: str, sample: str) -> None:
    assert said(imported(top, sample)) == ""


@pytest.mark.parametrize(
    ("top", "sample", "scale"),
    [
        ("IDS = list({'cat', 'dog'})", "x = x * IDS.index('cat')", "1"),
        ("IDS = list(set(labels))", "x = x * IDS.index('cat')", "1"),
        ("IDS = {c: n for n, c in enumerate(set(labels))}", "x = x * IDS['cat']", "1"),
        ("IDS = {}\nfor c in set(labels):\n    IDS[c] = len(IDS)", "x = x * IDS['cat']", "1"),
        ("labels = {'cat', 'dog'}\nIDS = [*labels]", "x = x * IDS.index('cat')", "1"),
        ("IDS = {'cat', 'dog'}", "x = x * list(IDS).index('cat')", "1"),
        ("IDS = {'cat', 'dog'}", "for c in IDS: x = x + len(c)", "1"),
        ("IDS = hash('cat')", "x = x * IDS", "1"),
        ("pass", "x = x * (hash(str(index)) % 5)", "1"),
        ("pass", "pass", "len(list({'cat', 'dog'})[0])"),
        ("pass", "pass", "random.random()"),
    ],
)
def test_hashes_of_texts(top: str, sample: str, scale: str) -> None:
    reason = said(imported(top, sample, scale))
    assert re.search("hash differently|differs for strings|hash\\(\\) of a string|drawn again", reason)


@pytest.mark.parametrize(
    ("top", "sample"),
    [
        ("IDS = sorted(set(labels))", "x = x * IDS.index('cat')"),
        ("IDS = sorted(list(set(labels)))", "x = x * IDS.index('cat')"),
        ("IDS = list(set(labels))\nIDS.sort()", "x = x * IDS.index('cat')"),
        ("IDS = sorted(c.lower() for c in set(labels))", "x = x * IDS.index('cat')"),
        ("IDS = {'cat', 'dog'}", "x = x * ('cat' in IDS)"),
        ("IDS = list({1, 2, 3})", "x = x * IDS[0]"),
        ("IDS = list(set(range(8)))", "x = x * IDS[0]"),
        ("IDS = list({'cat', 'dog'})", "pass"),
        ("IDS = len(set(labels))", "x = x * IDS"),
        ("pass", "x = x * self.names.index('a')"),
        ("pass", "x = x * (hash(3) % 5)"),
    ],
)
def test_sets_whose_order_is_not_read(top: str, sample: str) -> None:
    assert said(imported(top, sample)) == ""


@pytest.mark.parametrize("asks", ["get_rank()", "get_world_size()", "is_initialized()"])
def test_a_spawned_worker_is_in_no_process_group(asks: str) -> None:
    sample = f"x = x * float(torch.distributed.{asks})"
    assert f"torch.distributed.{asks} (line 21 of data.py) returns another value in a worker process" in said(
        imported("pass", sample)
    )


@pytest.mark.parametrize(("change", "matters"), [("Numbers.scale = 2.0", True), ("made = 2.0", False)])
def test_workers_run_no_cells(change: str, matters: bool) -> None:
    cells = [TRAINS.partition("def main")[0], change, "model = nn.Linear(1, 1)"]
    cells.append(
        "for x in DataLoader(Numbers(), batch_size=2):\n    model(x.to(model.weight.device)).mean().backward()"
    )
    parts = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": cell} for cell in cells
    ]
    notebook = json.dumps({"cells": parts, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    given = [Given("train.ipynb", notebook.encode()), Given("data.py", imported()["data.py"].encode(), ("data",))]
    results = rewrite_together(given, [LoaderWithoutWorkers()], Choice())
    reasons = [finding.reason for result in results for finding in result.refused]
    assert any("which spawned workers do not run" in reason for reason in reasons) is matters
    assert any(result.applied for result in results) is not matters
