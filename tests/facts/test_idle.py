"""What no training runs is of low impact: it is rewritten where that is asked for."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given
from tests.support.snippets import dotted_names

TRAIN = """\
import torch
from layers import {name}

for x, y in loader:
    x = x.cuda()
    optimizer.zero_grad()
    loss = {call}
    loss.backward()
    optimizer.step()
"""
FUNCTIONS = """\
import torch


def used(x):
    return x + torch.zeros(x.shape).to(x.device)


def unused(x):
    return x + torch.ones(x.shape).to(x.device)


def only_called_by_the_unused(x):
    return unused(x) + torch.ones(x.shape).to(x.device)
"""


def codes(files: Mapping[str, str], path: str, choice: Choice | None = None) -> tuple[str, list[str]]:
    """The code of a file behind all rules, and why what is held back is."""
    given = [Given(name, textwrap.dedent(code).encode(), dotted_names(name)) for name, code in files.items()]
    results = {result.path: result for result in rewrite_together(given, catalog.rules(), choice or Choice())}
    result = results[path]
    return result.after.decode(), [finding.reason for finding in result.held_back]


def test_functions_that_no_file_uses_stay() -> None:
    files = {"train.py": TRAIN.format(name="used", call="used(x).mean()"), "layers.py": FUNCTIONS}
    after, held_back = codes(files, "layers.py")
    assert "torch.zeros(x.shape, device=x.device)" in after
    assert after.count("torch.ones(x.shape).to(x.device)") == 2
    assert [reason.partition("; ")[2] for reason in held_back] == [
        "`unused` is never used",
        "`only_called_by_the_unused` is never used",
    ]
    after, held_back = codes(files, "layers.py", Choice(low_impact=True))
    assert after.count("device=x.device") == 3
    assert not held_back


def test_what_a_package_only_hands_on_is_not_used() -> None:
    files = {
        "train.py": TRAIN.format(name="used", call="used(x).mean()").replace("from layers", "from nets"),
        "nets/__init__.py": "from .layers import unused, used\n\n__all__ = ['unused', 'used']\n",
        "nets/layers.py": FUNCTIONS,
    }
    after, held_back = codes(files, "nets/layers.py")
    assert "torch.zeros(x.shape, device=x.device)" in after
    assert held_back[0].endswith("`unused` is never used")


@pytest.mark.parametrize("train", [
    "import torch\nimport layers\n\nlayers.unused(torch.ones(3).cuda()).mean().backward()\n",
    "import torch\nimport layers\n\ngetattr(layers, 'unused')(torch.ones(3).cuda()).mean().backward()\n",
    "import torch\nfrom layers import used as f, unused as g\n\nf(torch.ones(3).cuda()).mean().backward()\n",
])  # fmt: skip
def test_whatever_names_a_function_may_use_it(train: str) -> None:
    after, _ = codes({"train.py": train, "layers.py": FUNCTIONS}, "layers.py")
    assert "torch.ones(x.shape, device=x.device)" in after


@pytest.mark.parametrize("train", [
    # A method of that name.
    ("class Task:\n    def unused(self, x):\n        return used(x)\n\n    def step(self, x):\n"
      "        return self.unused(x)\n"),
    # A variable of that name, and a text that nobody looks up.
    "unused = used(torch.ones(3).cuda())\nunused.mean().backward()\nwriter.add_scalar('unused', unused.item())\n",
    "layer = getattr(torch.nn, kind)\nwriter.add_scalar('unused', 1)\n",
    # Another file's function of that name.
    "from others import unused\nunused(used(torch.ones(3).cuda())).mean().backward()\n",
])  # fmt: skip
def test_what_only_has_the_name_of_a_function_does_not_use_it(train: str) -> None:
    files = {
        "train.py": f"import torch\nfrom layers import used\n\n{train}",
        "layers.py": FUNCTIONS,
        "others.py": "def unused(x):\n    return x + 1\n",
    }
    after, held_back = codes(files, "layers.py")
    assert after.count("torch.ones(x.shape).to(x.device)") == 2
    assert any("`unused` is never used" in reason for reason in held_back)


@pytest.mark.parametrize("train", [
    "from layers import *\n\nunused(torch.ones(3).cuda()).mean().backward()\n",
    "from nets import *\n\nunused(torch.ones(3).cuda()).mean().backward()\n",
    "from nets import shift\n\nshift(torch.ones(3).cuda()).mean().backward()\n",
    "import nets\n\nnets.unused(torch.ones(3).cuda()).mean().backward()\n",
    "import layers\n\nlosses = {'unused': 1.0}\nfor name in losses:\n    getattr(layers, name)(x).backward()\n",
    "from layers import *\n\nnames = ['unused']\nglobals()[names[0]](torch.ones(3).cuda()).mean().backward()\n",
    "from elsewhere.that_is.not_read import *\nimport layers\n\nunused(torch.ones(3).cuda()).mean().backward()\n",
])  # fmt: skip
def test_whatever_may_come_by_a_function_uses_it(train: str) -> None:
    files = {
        "train.py": f"import torch\n{train}",
        "nets/__init__.py": "from layers import unused, unused as shift\n",
        "layers.py": FUNCTIONS,
    }
    _, held_back = codes(files, "layers.py")
    assert not any(reason.endswith("uses `unused`") for reason in held_back)


def test_a_file_that_no_other_imports_may_be_used_from_elsewhere() -> None:
    after, held_back = codes({"layers.py": FUNCTIONS}, "layers.py")
    assert after.count("device=x.device") == 3
    assert not held_back


def test_methods_and_classes() -> None:
    layers = """\
        import torch
        from torch import nn

        @register
        class Registered(nn.Module):
            def forward(self, x):
                return x + torch.zeros(x.shape).to(x.device)

        class Layer(nn.Module):
            def forward(self, x):
                return self.shift(x) + torch.zeros(x.shape).to(x.device)

            def shift(self, x):
                return x + torch.zeros(x.shape).to(x.device)

            def scale(self, x):
                return x * torch.ones(x.shape).to(x.device)

        class Old(nn.Module):
            def forward(self, x):
                return x + torch.ones(x.shape).to(x.device)
        """
    files = {"train.py": TRAIN.format(name="Layer", call="Layer()(x).mean()"), "layers.py": layers}
    after, held_back = codes(files, "layers.py")
    assert after.count("torch.zeros(x.shape, device=x.device)") == 3
    assert after.count("torch.ones(x.shape).to(x.device)") == 2
    assert [reason.partition("; ")[2] for reason in held_back] == [
        "`scale` is never used",
        "`Old` is never used",
    ]


EVALUATION = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

from helper import net

loader = DataLoader(datasets.CIFAR10("data", train=False), batch_size=8, num_workers=4)
net.eval()
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    print((net(x).argmax(1) == y).sum().item())
"""
HELPER = """\
from torch import nn

net = nn.Linear(3, 4).cuda()


def train(loader, optimizer):
    for x, y in loader:
        net(x.cuda()).mean().backward()
        optimizer.step()
"""


def test_a_program_that_only_evaluates_stays() -> None:
    after, held_back = codes({"evaluate.py": EVALUATION, "helper.py": HELPER}, "evaluate.py")
    assert after == EVALUATION
    assert any(reason.endswith("this script only evaluates") for reason in held_back)


def test_what_a_training_runs_as_well_does_not() -> None:
    files = {"evaluate.py": EVALUATION, "train.py": "import evaluate\n\nevaluate.net(x).mean().backward()\n"}
    files["helper.py"] = HELPER
    after, _ = codes(files, "evaluate.py")
    assert "pin_memory=True" in after
    assert "non_blocking=True" in after


def test_functions_that_evaluate_may_be_a_trainings() -> None:
    body = textwrap.indent(EVALUATION.partition("helper import net\n\n")[2], "    ")
    imports = EVALUATION.partition("from helper")[0]
    code = f"{imports}\n\ndef evaluate(net):\n{body}"
    after, _ = codes({"evaluate.py": code}, "evaluate.py")
    assert "pin_memory=True" in after


STEP = """\
import torch
{imports}
model = torch.nn.Linear(3, 4).cuda()


{decorator}
def {name}(x):
    noise = torch.zeros(x.shape).to(x.device)
    model(x + noise).mean().backward()
"""


def reasons(path: str, imports: str = "", name: str = "step", decorator: str = "", behind: str = "") -> list[str]:
    """Why the rewrite of a step in a file of this name is held back."""
    code = STEP.format(imports=imports, name=name, decorator=decorator) + behind
    after, held_back = codes({path: code}, path)
    assert ("torch.zeros(x.shape, device=x.device)" in after) is not bool(held_back)
    return [reason.rpartition("; ")[2] for reason in held_back]


@pytest.mark.parametrize(("path", "imports", "name"), [
    ("tests/check_step.py", "import pytest", "step"),
    ("pkg/test/check_step.py", "from unittest import TestCase", "step"),
    ("pkg/test_step.py", "", "test_step"),
    ("pkg/step_test.py", "", "test_step"),
])  # fmt: skip
def test_unit_tests_stay(path: str, imports: str, name: str) -> None:
    assert reasons(path, imports, name) == ["only unit tests run it"]


@pytest.mark.parametrize(("path", "imports", "name", "behind"), [
    ("test.py", "", "test_step", ""),
    ("tests/train.py", "", "step", ""),
    ("pkg/train_test.py", "", "test_step", "\n\nfor x in loader:\n    test_step(x.cuda())\n"),
    ("pkg/train.py", "import unittest", "test_step", ""),
])  # fmt: skip
def test_scripts_that_are_called_like_tests_do_not(path: str, imports: str, name: str, behind: str) -> None:
    assert reasons(path, imports, name, behind=behind) == []


@pytest.mark.parametrize(("test", "is_dead"), [("False", True), ("0", True), ("True", False), ("debug", False)])
def test_what_an_if_false_switches_off_stays(test: str, is_dead: bool) -> None:
    code = f"import torch\n\nfor x in it:\n    if {test}:\n        y = torch.ones(3).cuda()\n    net(x, y).backward()\n"
    after, held_back = codes({"train.py": code}, "train.py")
    assert not is_dead or after == code
    assert any(reason.endswith("the condition on line 4 is never true") for reason in held_back) is is_dead


def test_what_only_unit_tests_use_stays() -> None:
    helper = STEP.format(imports="", name="step", decorator="")
    user = "from tests.steps import step\n\n\ndef test_step():\n    step(x)\n"
    files = {"tests/__init__.py": "", "tests/steps.py": helper, "tests/test_step.py": user}
    after, held_back = codes(files, "tests/steps.py")
    assert after == helper
    assert [reason.rpartition("; ")[2] for reason in held_back] == ["only unit tests run it"]
    after, _ = codes(files | {"train.py": "from tests.steps import step\n\nstep(x.cuda())\n"}, "tests/steps.py")
    assert after != helper


@pytest.mark.parametrize(("code", "is_beside", "stays"), [
    (FUNCTIONS, True, True),
    (FUNCTIONS, False, False),
    (FUNCTIONS + "\n\nRATE = 0.1\nNAMES = ['a']\n", True, True),
    (FUNCTIONS + "\n\nfor x in loader:\n    used(x.cuda())\n", True, False),
    (FUNCTIONS + "\n\nif __name__ == '__main__':\n    used(x.cuda())\n", True, False),
    (FUNCTIONS + "\n\nused(x.cuda())\n", True, False),
    (FUNCTIONS.replace("def used", "@register\ndef used"), True, False),
])  # fmt: skip
def test_files_that_only_define_functions_which_nothing_imports(code: str, is_beside: bool, stays: bool) -> None:
    (result,) = rewrite_together(
        [Given("layers.py", code.encode(), is_beside_training=is_beside)], catalog.rules(), Choice()
    )
    ends = [finding.reason.rpartition("; ")[2] for finding in result.held_back]
    assert not stays or result.after.decode() == code
    assert ("nothing in the project imports this file" in ends) == stays
