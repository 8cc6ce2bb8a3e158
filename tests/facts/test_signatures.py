"""Calls that raise because of their arguments: code that they keep from training gains nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import libcst as cst
import pytest

from perfmod.transforms.facts.file import Linkage, World
from perfmod.transforms.facts.signatures import why_it_raises
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.source import Source
from tests.support.snippets import dotted_names

TOOLS = """\
import torch
from torch import nn


class Trainer:
    def __init__(self, net, *, folder="runs"):
        self.net = net


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()


class Deeper(Net):
    pass


class Registered(Known):
    def __init__(self):
        pass


class Point(metaclass=Meta):
    def __init__(self):
        pass


def load(path, /, size, limit=None):
    return path


def gather(*paths, size=3, **more):
    return paths


@cached
def kept(path):
    return path


def starts(net):
    trainer = Trainer(net, log="runs")
    trainer.fit()


def returns_before(net):
    if net is None:
        return
    Trainer(net, log="runs")


def yields(net):
    yield Trainer(net, log="runs")
"""


def reason(files: Mapping[str, str], mark: str = "mark()") -> str | None:
    """Why the code around `mark()` raises."""
    sources = {name: Source.parse(textwrap.dedent(code).encode(), name) for name, code in files.items()}
    world = World({source: Linkage(dotted_names(name)) for name, source in sources.items()})
    for source in sources.values():
        for call in find_all(source.module, cst.Call):
            if source.code(call) == mark:
                return why_it_raises(world.files[source], call)
    raise AssertionError(f"no {mark}")


def in_program(code: str) -> str | None:
    """The same for a program that has `TOOLS`."""
    return reason({"tools.py": TOOLS, "train.py": "import tools\nfrom tools import *\n" + textwrap.dedent(code)})


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("Trainer()", "without its required argument `net`"),
        ("Trainer(net, 'runs')", "with more arguments than it takes"),
        ("tools.Trainer(net, log='runs')", "with an argument `log` that it does not take"),
        ("Deeper(3, width=4)", "with two values for `width`"),
        ("load('a')", "without its required argument `size`"),
        ("load(path='a', size=3)", "with an argument `path` that it does not take"),
        ("Trainer(net, folder='logs')", None),
        ("Trainer(*nets)", None),
        ("Trainer(**settings)", None),
        ("Net(3)", None),
        ("load('a', 3, limit=4)", None),
        ("gather('a', 'b', other=3)", None),
        ("kept()", None),
        ("Registered(3)", None),
        ("Point(3)", None),
        ("unknown(3)", None),
    ],
)
def test_arguments(call: str, why: str | None) -> None:
    found = in_program(f"value = {call}\nmark()\n")
    assert found == (f"line 3 calls `{call.partition('(')[0]}` {why}, which raises" if why is not None else None)


@pytest.mark.parametrize(
    ("code", "raises"),
    [
        ("for name in names:\n    nets.append(Net())\nmark()", True),
        ("for name in names:\n    if name: continue\n    nets.append(Net())\nmark()", False),
        ("if small:\n    net = Net()\nmark()", False),
        ("net = Net() if small else None\nmark()", False),
        ("nets = [Net() for _ in names]\nmark()", False),
        ("make = lambda: Net()\nmark()", False),
        ("try:\n    net = Net()\nexcept TypeError:\n    net = None\nmark()", False),
        ("with suppress(TypeError):\n    net = Net()\nmark()", False),
        ("with torch.no_grad():\n    net = Net()\nmark()", True),
        ("starts(net)\nmark()", True),
        ("returns_before(net)\nmark()", False),
        ("yields(net)\nmark()", False),
        ("def step():\n    mark()\n\nnet = Net()\nstep()", True),
        ("def step():\n    mark()\n\nfor x in loader:\n    step()\nnet = Net()", False),
        ("def step(x):\n    mark()\n\nstep()", True),
        ("def step(x):\n    mark()\n\nif small:\n    step()\nelse:\n    step(3)", False),
        ("def step(x):\n    mark()\n\nstep()\nhooks.append(step)", False),
        ("loader = mark()\nprint(loader)\nstarts(loader)", True),
        ("loader = mark()\nfor x in loader:\n    net(x)\nstarts(loader)", False),
        ("loader = mark()\nhistory = net.fit(loader)\nstarts(loader)", False),
        ("loader = mark()\nrun(loader)\nstarts(loader)", False),
        ("for name in names:\n    loader = mark()\n    starts(loader)", False),
        ("if small:\n    loader = mark()\nNet()", True),
        ("loader = mark()\nif small: exit()\nNet()", False),
    ],
)
def test_places(code: str, raises: bool) -> None:
    assert (in_program(f"{code}\n") is not None) == raises


def test_functions_that_call_each_other_often_are_looked_at_once() -> None:
    """Two ways at each of forty functions would be a trillion paths."""
    chain = "\n".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(40))
    assert in_program(f"{chain}\ndef f40():\n    pass\n\ndef never():\n    Net()\n\nf0()\nmark()\n") is None
    found = in_program(f"{chain}\ndef f40():\n    Net()\n\nf0()\nmark()\n")
    assert found is not None
    assert "calls `Net` without its required argument `width`" in found
