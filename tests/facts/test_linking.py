"""Names, classes, calls, values, traces and steps across files that import each other."""

from __future__ import annotations

import re
from collections.abc import Mapping

import libcst as cst
import pytest

from perfmod.transforms.facts.file import FileFacts, Linkage, World
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.source import Source
from tests.support.snippets import linked, used


def seen(files: Mapping[str, str], path: str = "main.py") -> str:
    """The files and marks (`# a`) of the definitions that the arguments of `use` in one file may see."""
    world = linked(files)
    return " ".join(
        sorted({_mark(world[path], d.node) for node in used(world[path]) for d in _definitions(world[path], node)})
    )


def _definitions(file: FileFacts, node: cst.CSTNode) -> tuple[Definition, ...]:
    return file.flow.definitions(node) if file.flow.is_variable(node) else ()


def _mark(file: FileFacts, node: cst.CSTNode) -> str:
    source = file.source_of(node)
    found = re.search(r"# (\w+)$", source.text.splitlines()[source.line(node) - 1])
    return f"{source.path}:{found[1]}" if found else f"{source.path}:{source.line(node)}"


ENGINE = """
def train(loader):  # a
    pass
"""


@pytest.mark.parametrize("main", [
    "from engine import train\nuse(train)",
    "from engine import train as run\nuse(run)",
    "import engine\nuse(engine.train)",
    "import engine as e\nuse(e.train)",
    "from engine import *\nuse(train)",
    "def main():\n    from engine import train\n    use(train)",
    "from engine import train\ndef main():\n    use(train)",
    "try:\n    from engine import train\nexcept ImportError:\n    raise\nuse(train)",
])  # fmt: skip
def test_imported_names_lead_to_their_definition(main: str) -> None:
    assert seen({"engine.py": ENGINE, "main.py": main}) == "engine.py:a"


@pytest.mark.parametrize(("path", "main"), [
    ("src/main.py", "from .engine import train\nuse(train)"),
    ("src/main.py", "from . import engine\nuse(engine.train)"),
    ("src/tools/main.py", "from ..engine import train\nuse(train)"),
    ("src/tools/main.py", "from .. import engine\nuse(engine.train)"),
    ("main.py", "import src.engine\nuse(src.engine.train)"),
    ("main.py", "import src.engine as e\nuse(e.train)"),
    ("main.py", "from src import engine\nuse(engine.train)"),
    ("main.py", "import src\nuse(src.engine.train)"),
])  # fmt: skip
@pytest.mark.parametrize("package", [{}, {"src/__init__.py": ""}])
def test_packages_and_relative_imports(path: str, main: str, package: dict[str, str]) -> None:
    assert seen({"src/engine.py": ENGINE, path: main, **package}, path) == "src/engine.py:a"


@pytest.mark.parametrize(
    "export", ["from .engine import train", "from .engine import *", "from src.engine import train"]
)
@pytest.mark.parametrize(
    "main", ["from src import train\nuse(train)", "import src\nuse(src.train)", "from src import *\nuse(train)"]
)
def test_reexports(export: str, main: str) -> None:
    assert seen({"src/engine.py": ENGINE, "src/__init__.py": export, "main.py": main}) == "src/engine.py:a"


def test_what_a_package_and_a_submodule_call_the_same_is_left_open() -> None:
    files = {
        "src/engine.py": ENGINE,
        "src/__init__.py": "engine = 3  # b",
        "main.py": "from src import engine\nuse(engine)",
    }
    assert seen(files) == "main.py:1"
    named = {
        "src/train.py": ENGINE,
        "src/__init__.py": "from .train import train",
        "main.py": "from src import train\nuse(train)",
    }
    assert seen(named) == "src/train.py:a"


def test_alternatives_are_all_seen() -> None:
    main = "try:\n    from engine import train\nexcept ImportError:\n    def train(): ...  # b\nuse(train)"
    assert seen({"engine.py": ENGINE, "main.py": main}) == "engine.py:a main.py:b"
    both = "if fast:\n    from engine import train\nelse:\n    from other import train\nuse(train)"
    other = "def train():  # c\n    pass"
    assert seen({"engine.py": ENGINE, "other.py": other, "main.py": both}) == "engine.py:a other.py:c"


def test_local_names_hide_imported_ones() -> None:
    main = "from engine import train\ntrain = 1  # b\nuse(train)"
    assert seen({"engine.py": ENGINE, "main.py": main}) == "main.py:b"
    shadowed = "from engine import *\ndef train(): ...  # b\nuse(train)"
    assert seen({"engine.py": ENGINE, "main.py": shadowed}) == "main.py:b"


def test_ambiguous_modules_are_nobody() -> None:
    source = {name: Source.parse(ENGINE.encode(), f"{name}/engine.py") for name in "ab"}
    main = Source.parse(b"from engine import train\nuse(train)\n", "main.py")
    world = World({source["a"]: Linkage(("engine",)), source["b"]: Linkage(("engine",)), main: Linkage()})
    (node,) = used(world.files[main])
    assert world.names.qualified(node) == "engine.train"


def test_imports_that_were_looked_up_decide() -> None:
    source = {name: Source.parse(ENGINE.encode(), f"{name}/engine.py") for name in "ab"}
    main = Source.parse(b"from engine import train\nimport b.engine\nuse(train, b.engine.train)\n", "main.py")
    imports = {"engine": "a/engine.py", "b.engine": "b/engine.py"}
    world = World({source["a"]: Linkage(("engine",)), source["b"]: Linkage(("engine",)), main: Linkage((), imports)})
    file = world.files[main]
    assert [_mark(file, d.node) for node in used(file) for d in _definitions(file, node)] == [
        "a/engine.py:a",
        "b/engine.py:a",
    ]
    nothing = World({source["a"]: Linkage(("engine",)), main: Linkage((), {})})
    assert nothing.names.qualified(used(nothing.files[main])[0]) == "engine.train"


def test_circles_end() -> None:
    files = {
        "a.py": "from b import x\nfrom b import y\n",
        "b.py": "from a import x\ny = 1  # b",
        "main.py": "from a import x, y\nuse(x, y)",
    }
    assert "b.py:b" in seen(files)
    stars = {
        "a.py": "from b import *\np = 1  # a",
        "b.py": "from a import *\nq = 2  # b",
        "main.py": "from a import *\nuse(p, q)",
    }
    assert seen(stars) == "a.py:a b.py:b"
    itself = {"a.py": "from a import x\nimport a\n", "main.py": "from a import x\nuse(x)"}
    assert seen(itself) == "main.py:1"


def test_assignments_from_other_files_count() -> None:
    files = {
        "config.py": "size = 3  # a\nuse(size)\ndef f():\n    use(size)",
        "main.py": "import config\nconfig.size = 4  # b\nuse(config.size)",
    }
    assert seen(files) == "config.py:a main.py:b"
    assert seen(files, "config.py") == "config.py:a main.py:b"


def test_uses_of_a_definition_are_in_all_files() -> None:
    world = linked(
        {
            "engine.py": ENGINE + "train(1)",
            "main.py": "from engine import train as run\nimport engine\nrun(2)\nengine.train(3)",
            "other.py": "def train(): ...\ntrain(4)",
        }
    )
    file = world["engine.py"]
    (function,) = find_all(file.source.module, cst.FunctionDef)
    (definition,) = file.flow.defined(function)
    assert [file.line(use) for use in file.flow.uses(definition)] == ["3", "3 of main.py", "4 of main.py"]
    assert [file.code(call) for call in file.values.calls.callers(function)] == [
        "train(1)",
        "run(2)",
        "engine.train(3)",
    ]
    assert file.values.calls.is_only_called(function)


def test_a_function_that_another_file_hands_on_is_not_only_called() -> None:
    world = linked({"engine.py": ENGINE, "main.py": "import engine\nspawn(engine.train)"})
    file = world["engine.py"]
    (function,) = find_all(file.source.module, cst.FunctionDef)
    assert not file.values.calls.is_only_called(function)


def names(files: Mapping[str, str]) -> list[str | None]:
    """The qualified names of what main.py uses."""
    file = linked(files)["main.py"]
    return [file.names.qualified(node) for node in used(file)]


def test_names_of_libraries_come_through_and_those_of_the_project_have_none() -> None:
    common = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nloss = 1"
    main = (
        "from common import torch, nn, F, loss\nimport common\n"
        "use(torch.zeros, nn.Linear, F.relu, loss, common.nn.ReLU, common, common.loss)"
    )
    assert names({"common.py": common, "main.py": main}) == [
        "torch.zeros", "torch.nn.Linear", "torch.nn.functional.relu", None, "torch.nn.ReLU", None, None,
    ]  # fmt: skip
    star = "from common import *\nuse(torch.zeros, nn.Linear, len)"
    assert names({"common.py": common, "main.py": star}) == ["torch.zeros", "torch.nn.Linear", "builtins.len"]


def test_star_imports_that_are_not_in_sight_hide_builtins() -> None:
    main = "from common import *\nuse(sum)"
    assert names({"common.py": "from elsewhere import *", "main.py": main}) == [None]
    assert names({"common.py": "__all__ = ['x']\nfrom elsewhere import *\nx = 1", "main.py": main}) == ["builtins.sum"]
    assert names({"common.py": "__all__ = helper()\nx = 1", "main.py": main}) == [None]


def test_names_that_are_not_in_sight_are_imports_as_before() -> None:
    main = "from engine import missing\nimport engine\nfrom lib import f\nuse(missing, engine.missing, f)"
    assert names({"engine.py": ENGINE, "main.py": main}) == ["engine.missing", "engine.missing", "lib.f"]


def test_private_names_are_not_starred() -> None:
    assert names({"common.py": "_x = 1\ny = 2", "main.py": "from common import *\nuse(_x, y)"}) == [None, None]
    assert seen({"common.py": "_x = 1\ny = 2", "main.py": "from common import *\nuse(_x, y)"}) == "common.py:2"


def test_classes_derive_from_imported_ones() -> None:
    world = linked(
        {
            "base.py": "from torch import nn\nclass Base(nn.Module):\n    def forward(self, x):\n        return x",
            "models.py": "import base\nclass Net(base.Base):\n    def helper(self): ...",
            "main.py": "from models import Net as Model\nnet = Model()\nuse(net, net.helper)",
        }
    )
    file = world["main.py"]
    value = file.value(used(file)[0])
    assert value.kind is Kind.MODULE
    assert value.cls is not None
    assert value.cls.name == "Net"
    assert value.cls.is_module
    forward = value.cls.method("forward")
    assert forward is not None
    assert file.source_of(forward).path == "base.py"


def test_values_come_from_other_files() -> None:
    world = linked(
        {
            "config.py": "import torch\nSIZE = 3\nDEVICE = torch.device('cpu')",
            "helpers.py": "import torch\ndef make(n):\n    return torch.zeros(n), [1, 2]",
            "main.py": (
                "import config\nfrom helpers import make\n"
                "x, y = make(config.SIZE)\nuse(config.SIZE, x, y, config.DEVICE)"
            ),
        }
    )
    kinds = [world["main.py"].value(node).kind for node in used(world["main.py"])]
    assert kinds == [Kind.NUMBER, Kind.TENSOR, Kind.SEQUENCE, Kind.DEVICE]


def test_parameters_are_given_by_callers_in_other_files() -> None:
    world = linked(
        {
            "helpers.py": "def mean(values):\n    use(values)",
            "main.py": "import numpy as np\nfrom helpers import mean\nmean(np.zeros(3))\n",
        }
    )
    file = world["helpers.py"]
    assert file.value(used(file)[0]).kind is Kind.ARRAY


DATA = """
from torch.utils.data import DataLoader
def make_loaders(root):
    train = DataLoader(root, batch_size=4)
    return {"train": train, "val": DataLoader(root)}, 3
"""
LOOP = """
def train(net, loader, opt):
    for x, y in loader:
        loss = net(x).sum()
        loss.backward()
"""


@pytest.mark.parametrize("main", [
    ("from data import make_loaders\nimport loop\nloaders, n = make_loaders('.')\n"
      "loop.train(None, loaders['train'], None)"),
    ("import data\nfrom loop import train\nfor epoch in range(9):\n"
      "    train(net, opt=1, loader=data.make_loaders('.')[0]['train'])"),
    ("import data, loop\nclass Trainer:\n    def __init__(self):\n"
      "        self.loaders, _ = data.make_loaders('.')\n    def run(self):\n"
      "        loop.train(1, self.loaders['train'], 2)\nTrainer().run()"),
])  # fmt: skip
def test_loaders_of_one_file_feed_the_loops_of_another(main: str) -> None:
    world = linked({"data.py": DATA, "loop.py": LOOP, "main.py": main})
    train, val = world["data.py"].loaders
    assert train.trains
    assert not val.trains
    assert [world["main.py"].line(each.node) for each in train.iterations] == ["2 of loop.py"]
    assert list(world["main.py"].loaders) == []
    assert len(list(world["main.py"].loaders.everywhere)) == 2


def test_loops_train_through_functions_of_other_files() -> None:
    step = (
        "def train_step(net, x):\n    loss = net(x).sum()\n    loss.backward()\n"
        "    return loss.item()\ndef unused(x):\n    return x.item()"
    )
    main = "from step import train_step\nfor epoch in range(3):\n    for x in loader:\n        train_step(net, x)"
    world = linked({"step.py": step, "main.py": main})
    file = world["step.py"]
    assert [world["main.py"].line(region) for region in file.steps.regions] == ["3"]
    calls = {file.code(call): call for call in find_all(file.source.module, cst.Call)}
    assert file.steps.in_sight(calls["loss.item()"])
    assert file.steps.reaches(calls["loss.item()"])
    assert file.steps.reaches(calls["x.item()"]), "who calls it is not in sight"


def test_epoch_loops_around_the_loop_of_another_file_are_no_steps() -> None:
    main = "import loop\nfor epoch in range(3):\n    loop.train(net, loader, opt)"
    world = linked({"loop.py": LOOP, "main.py": main})
    assert [world["main.py"].line(region) for region in world["main.py"].steps.regions] == ["2 of loop.py"]


def test_functions_whose_callers_are_seen_not_to_train_are_not_reached() -> None:
    helpers = "def accuracy(x):\n    return x.sum().item()"
    main = (
        "from helpers import accuracy\ndef evaluate():\n"
        "    accuracy(net(1))\nfor x in loader:\n    net(x).sum().backward()"
    )
    world = linked({"helpers.py": helpers, "main.py": main})
    file = world["helpers.py"]
    call = next(call for call in find_all(file.source.module, cst.Call) if file.code(call) == "x.sum().item()")
    assert not file.steps.reaches(call)


def test_values_are_followed_into_other_files() -> None:
    world = linked(
        {
            "main.py": (
                "from torchvision import transforms as T\nfrom data import build\nnorm = T.Normalize(1, 2)\nbuild(norm)"
            ),
            "data.py": "def build(transform):\n    return wrap(transform)",
        }
    )
    file = world["main.py"]
    call = next(call for call in find_all(file.source.module, cst.Call) if file.code(call.func) == "T.Normalize")
    assert [file.line(held.node) for held in file.handing.uses(call)] == ["2 of data.py"]


def test_callers_that_are_not_in_sight_keep_a_parameter_open() -> None:
    sources = {name: Source.parse(code.encode(), name) for name, code in {"data.py": DATA, "loop.py": LOOP}.items()}
    main = Source.parse(b"import data, loop\nloop.train(1, data.make_loaders('.')[0]['train'], 2)\n", "main.py")
    for is_open in (False, True):
        world = World(
            {
                sources["data.py"]: Linkage(("data",)),
                sources["loop.py"]: Linkage(("loop",), imported_elsewhere=is_open),
                main: Linkage(),
            }
        )
        file = world.files[sources["loop.py"]]
        loop = next(find_all(file.source.module, cst.For))
        ends = {type(end.node).__name__ for end in file.tracing.ends(loop.iter)}
        assert ends == ({"Call", "Param"} if is_open else {"Call"})


def test_lines_name_their_files() -> None:
    world = linked({"a/data.py": "x = 1", "b/data.py": "y = 2", "main.py": "z = 1\nz = 2"})
    names = [next(find_all(file.source.module, cst.AssignTarget)) for file in world.values()]
    file = world["main.py"]
    assert [file.line(node) for node in names] == ["1 of a/data.py", "1 of b/data.py", "1"]
    two = list(find_all(file.source.module, cst.AssignTarget))
    assert file.lines([names[0], *two]) == "lines 1, 2 and line 1 of a/data.py"


def test_a_module_is_taken_out_of_a_package_by_the_paths_that_a_project_knows() -> None:
    files = {
        "a/main.py": "from tools import engine as e\nfrom tools import helper\nuse(e.train)\nuse(helper)\n",
        "a/tools/__init__.py": "from .other import helper\n",
        "a/tools/other.py": "def helper():  # b\n    pass\n",
        "a/tools/engine.py": ENGINE,
    }
    imports = {
        "a/main.py": {"tools": "a/tools/__init__.py", "tools.engine": "a/tools/engine.py"},
        "a/tools/__init__.py": {".other": "a/tools/other.py"},
    }
    sources = {path: Source.parse(text.encode(), path) for path, text in files.items()}
    world = World({source: Linkage(imports=imports.get(path, {})) for path, source in sources.items()})
    main = world.files[sources["a/main.py"]]
    assert [_mark(main, d.node) for node in used(main) for d in _definitions(main, node)] == [
        "a/tools/engine.py:a",
        "a/tools/other.py:b",
    ]
    alias = main.tree.all(cst.ImportAlias)[0]
    assert sources["a/tools/engine.py"].module in main.flow.imported(alias)


@pytest.mark.parametrize(("library", "name"), [("dgl", "dgl.batch"), ("graphs", None)])
def test_libraries_that_rules_know_keep_their_names_beside_their_sources(library: str, name: str | None) -> None:
    sources = {f"{library}/__init__.py": "from .making import batch\n", f"{library}/making.py": "def batch(): pass\n"}
    for main in (f"import {library}\nuse({library}.batch)", f"from {library} import batch\nuse(batch)"):
        world = linked({**sources, "main.py": main})
        assert [world["main.py"].names.qualified(node) for node in used(world["main.py"])] == [name]


def test_a_function_with_the_name_of_its_module_is_only_called() -> None:
    files = linked(
        {
            "train.py": "from evaluate import evaluate\nevaluate(1)\n",
            "evaluate.py": "def evaluate(x):\n    return x\n",
        }
    )
    file = files["evaluate.py"]
    (function,) = file.tree.all(cst.FunctionDef)
    assert file.values.calls.is_only_called(function)
