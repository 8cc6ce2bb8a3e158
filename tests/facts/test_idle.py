"""Where no training runs the code, nothing is gained: rewrites are held back until they are asked for by name."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import Choice, Given, rewrite_together
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
        "nothing in the files read here uses `unused`",
        "nothing in the files read here uses `only_called_by_the_unused`",
    ]
    after, held_back = codes(files, "layers.py", Choice(opted_in=frozenset({"PM206"})))
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
    assert held_back[0].endswith("nothing in the files read here uses `unused`")


@pytest.mark.parametrize(
    "train",
    [
        "import torch\nimport layers\n\nlayers.unused(torch.ones(3).cuda()).mean().backward()\n",
        "import torch\nimport layers\n\ngetattr(layers, 'unused')(torch.ones(3).cuda()).mean().backward()\n",
        "import torch\nfrom layers import used as f, unused as g\n\nf(torch.ones(3).cuda()).mean().backward()\n",
    ],
)
def test_whatever_names_a_function_may_use_it(train: str) -> None:
    after, _ = codes({"train.py": train, "layers.py": FUNCTIONS}, "layers.py")
    assert "torch.ones(x.shape, device=x.device)" in after


@pytest.mark.parametrize(
    "train",
    [
        # A method of that name.
        (
            "class Task:\n    def unused(self, x):\n        return used(x)\n\n"
            "    def step(self, x):\n        return self.unused(x)\n"
        ),
        # A variable of that name, and a text that nobody looks up.
        "unused = used(torch.ones(3).cuda())\nunused.mean().backward()\nwriter.add_scalar('unused', unused.item())\n",
        "layer = getattr(torch.nn, kind)\nwriter.add_scalar('unused', 1)\n",
        # Another file's function of that name.
        "from others import unused\nunused(used(torch.ones(3).cuda())).mean().backward()\n",
    ],
)
def test_what_only_has_the_name_of_a_function_does_not_use_it(train: str) -> None:
    files = {
        "train.py": f"import torch\nfrom layers import used\n\n{train}",
        "layers.py": FUNCTIONS,
        "others.py": "def unused(x):\n    return x + 1\n",
    }
    after, held_back = codes(files, "layers.py")
    assert after.count("torch.ones(x.shape).to(x.device)") == 2
    assert any("nothing in the files read here uses `unused`" in reason for reason in held_back)


@pytest.mark.parametrize(
    "train",
    [
        "from layers import *\n\nunused(torch.ones(3).cuda()).mean().backward()\n",
        "from nets import *\n\nunused(torch.ones(3).cuda()).mean().backward()\n",
        "from nets import shift\n\nshift(torch.ones(3).cuda()).mean().backward()\n",
        "import nets\n\nnets.unused(torch.ones(3).cuda()).mean().backward()\n",
        "import layers\n\nlosses = {'unused': 1.0}\nfor name in losses:\n    getattr(layers, name)(x).backward()\n",
        "from layers import *\n\nnames = ['unused']\nglobals()[names[0]](torch.ones(3).cuda()).mean().backward()\n",
        "from elsewhere.that_is.not_read import *\nimport layers\n\nunused(torch.ones(3).cuda()).mean().backward()\n",
    ],
)
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
        "nothing in the files read here uses `scale`",
        "nothing in the files read here uses `Old`",
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
    assert any(reason.endswith("trains with it, they only evaluate") for reason in held_back)


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


def test_a_method_that_its_class_defines_again() -> None:
    method = "    def forward(self, x):\n        return x + torch.ones(x.shape).to(x.device)\n"
    code = f"import torch\n\n\nclass Net(torch.nn.Module):\n{method}\n{method}"
    after, held_back = codes({"net.py": code}, "net.py")
    assert after.count("device=x.device") == 1
    assert after.rindex("torch.ones(x.shape).to") < after.index("device=x.device")
    assert [reason.partition("; ")[2] for reason in held_back] == [
        "line 8 defines `forward` once more, so that this one never runs"
    ]


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


@pytest.mark.parametrize(
    ("path", "imports", "name"),
    [
        ("tests/check_step.py", "import pytest", "step"),
        ("pkg/test/check_step.py", "from unittest import TestCase", "step"),
        ("pkg/test_step.py", "", "test_step"),
        ("pkg/step_test.py", "", "test_step"),
    ],
)
def test_unit_tests_stay(path: str, imports: str, name: str) -> None:
    assert reasons(path, imports, name) == [
        "the file holds unit tests, or what only they use, and no training runs them"
    ]


@pytest.mark.parametrize(
    ("path", "imports", "name", "behind"),
    [
        ("test.py", "", "test_step", ""),
        ("tests/train.py", "", "step", ""),
        ("pkg/train_test.py", "", "test_step", "\n\nfor x in loader:\n    test_step(x.cuda())\n"),
        ("pkg/train.py", "import unittest", "test_step", ""),
    ],
)
def test_scripts_that_are_called_like_tests_do_not(path: str, imports: str, name: str, behind: str) -> None:
    assert reasons(path, imports, name, behind=behind) == []


@pytest.mark.parametrize(
    ("decorator", "reason"),
    [
        ("@functools.lru_cache(maxsize=None)", "`step` (line 7) keeps its results, and seldom runs"),
        ("@cache", "`step` (line 7) keeps its results, and seldom runs"),
        ("@logged", ""),
    ],
)
def test_functions_that_keep_their_results_stay(decorator: str, reason: str) -> None:
    assert reasons("train.py", "import functools", decorator=decorator) == ([reason] if reason else [])


@pytest.mark.parametrize(("call", "stays"), [("torch.jit.trace({}, ())", True), ("model.apply({})", False)])
def test_what_is_only_traced_stays(call: str, stays: bool) -> None:
    code = f"import torch\n\ndef load(model, device):\n    return {call}\n"
    file = {"load.py": code.format("lambda *_: torch.ones([]).to(device)")}
    after, held_back = codes(file, "load.py")
    assert ("device=device" in after) is not stays
    reason = "`torch.jit.trace` runs the `lambda` on line 4 once, to record what it does"
    assert [each.partition("; ")[2] for each in held_back] == [reason] * stays


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
    assert [reason.rpartition("; ")[2] for reason in held_back] == [
        "the file holds unit tests, or what only they use, and no training runs them"
    ]
    after, _ = codes(files | {"train.py": "from tests.steps import step\n\nstep(x.cuda())\n"}, "tests/steps.py")
    assert after != helper


@pytest.mark.parametrize("path", ["losses/_archive.py", "old/train.py", "Backup/pkg/train.py", "legacy.py"])
def test_old_code_stays(path: str) -> None:
    (reason,) = reasons(path)
    assert reason.endswith("in its path says that this is old code, and nothing in use imports it")


def test_old_code_that_is_in_use_does_not() -> None:
    train = "from legacy import step\n\nfor x in loader:\n    step(x.cuda())\n"
    files = {"legacy.py": STEP.format(imports="", name="step", decorator=""), "train.py": train}
    after, _ = codes(files, "legacy.py")
    assert "device=x.device" in after
    after, held_back = codes({"legacy.py": files["legacy.py"], "old/train.py": train}, "legacy.py")
    assert held_back


@pytest.mark.parametrize("path", ["threshold.py", "folder/older.py", "gold.py", "/home/old/train.py"])
def test_names_that_only_contain_such_a_word(path: str) -> None:
    assert reasons(path) == []


@pytest.mark.parametrize("decorator", ["@deprecated", '@warnings.deprecated("use other")'])
def test_what_is_marked_as_deprecated_stays(decorator: str) -> None:
    assert reasons("train.py", "import warnings", decorator=decorator) == ["`step` (line 7) is marked as deprecated"]


@pytest.mark.parametrize(
    ("test", "is_else", "stays"),
    [
        ("not self.training", False, True),
        ("not (self.training or last is None)", False, True),
        ("last is not None and not self.training", False, True),
        ("self.training", True, True),
        ("self.training or last is None", True, True),
        ("self.training", False, False),
        ("not self.training", True, False),
        ("not self.training or last is None", False, False),
        ("self.training and last is None", True, False),
    ],
)
def test_branches_that_training_never_takes(test: str, is_else: bool, stays: bool) -> None:
    shift = "            x = x + torch.ones(x.shape).to(x.device)\n"
    body = f"            x = x * 2\n        else:\n{shift}" if is_else else shift
    head = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x, last):\n"
    after, held_back = codes({"net.py": f"{head}        if {test}:\n{body}        return x\n"}, "net.py")
    assert ("device=x.device" in after) is not stays
    why = [reason.rpartition("; ")[2] for reason in held_back]
    assert why == ["training never takes this branch of the `if` on line 6"] * stays


@pytest.mark.parametrize(
    ("code", "is_beside", "stays"),
    [
        (FUNCTIONS, True, True),
        (FUNCTIONS, False, False),
        (FUNCTIONS + "\n\nRATE = 0.1\nNAMES = ['a']\n", True, True),
        (FUNCTIONS + "\n\nfor x in loader:\n    used(x.cuda())\n", True, False),
        (FUNCTIONS + "\n\nif __name__ == '__main__':\n    used(x.cuda())\n", True, False),
        (FUNCTIONS + "\n\nused(x.cuda())\n", True, False),
        (FUNCTIONS.replace("def used", "@register\ndef used"), True, False),
    ],
)
def test_files_that_only_define_functions_which_nothing_imports(code: str, is_beside: bool, stays: bool) -> None:
    (result,) = rewrite_together(
        [Given("layers.py", code.encode(), is_beside_training=is_beside)], catalog.rules(), Choice()
    )
    ends = [finding.reason.rpartition("; ")[2] for finding in result.held_back]
    assert not stays or result.after.decode() == code
    assert ("the file only defines functions and classes, and nothing in its project imports it" in ends) == stays
