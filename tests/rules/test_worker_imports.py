"""PM201: what workers started by spawn or forkserver find where they import the modules of a training again."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from perfmod.codemods.engine import Choice, Given, rewrite_together
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from perfmod.transforms.rule import Safety

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
        model(x).mean().backward()


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


def said(code: str | Mapping[str, str]) -> str:
    """Why nothing is rewritten, or `""` where it is."""
    written = {"train.py": code} if isinstance(code, str) else code
    given = [Given(path, text.encode(), (path.removesuffix(".py"),)) for path, text in written.items()]
    results = rewrite_together(given, [LoaderWithoutWorkers()], Choice())
    assert not [result.reason for result in results if result.reason]
    findings = [f for result in results for f in (*result.refused, *result.held_back)]
    applied = [f for result in results for f in result.applied]
    assert bool(findings) != bool(applied)
    assert all(finding.safety is Safety.SAFE for finding in applied)
    return " | ".join(finding.reason for finding in findings)


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
    model(x).mean().backward()
"""


def test_what_changes_it_stays_outside_of_the_guard() -> None:
    (result,) = rewrite_together([Given("train.py", SCRIPT.encode(), ("train",))], [LoaderWithoutWorkers()], Choice())
    assert result.after is not None
    assert '\nITEMS["scale"] = 2.0\nif __name__ == "__main__":\n    model = ' in result.after.decode()
