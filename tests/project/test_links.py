"""What imports mean on the disk."""

from __future__ import annotations

import pytest

from perfmod.project.links import Links
from perfmod.project.modules import Modules
from perfmod.project.statements import folders_added, imports


def linked(files: dict[str, str], installable: tuple[str, ...] = ()) -> Links:
    statements = {file: imports(code.encode()) for file, code in files.items()}
    blank = {file for file, code in files.items() if not code.strip()}
    added = {file: folders_added(code.encode()) for file, code in files.items()}
    return Links.of(statements, Modules(frozenset(files), installable, added), blank)


def meant(files: dict[str, str], importer: str, installable: tuple[str, ...] = ()) -> dict[str, str]:
    return dict(linked(files, installable).imports[importer])


def test_a_neighbour() -> None:
    files = {"exp/train.py": "import engine\nimport torch", "exp/engine.py": "x = 1"}
    assert meant(files, "exp/train.py") == {"engine": "exp/engine.py"}


def test_neighbours_of_the_same_name_in_two_folders() -> None:
    files = {f"{folder}/{name}.py": "import model" for folder in "ab" for name in ("train", "model")}
    assert meant(files, "a/train.py") == {"model": "a/model.py"}
    assert meant(files, "b/train.py") == {"model": "b/model.py"}
    assert list(linked(files).components()) == [["a/model.py", "a/train.py"], ["b/model.py", "b/train.py"]]


def test_a_script_takes_its_neighbour_before_what_lies_above() -> None:
    files = {"exp/train.py": "import utils", "exp/utils.py": "x = 1", "utils.py": "x = 2"}
    assert meant(files, "exp/train.py") == {"utils": "exp/utils.py"}


@pytest.mark.parametrize("path", ["", "import sys\nsys.path.append('..')\n"])
def test_the_sources_of_a_library_that_rules_know_are_no_code_of_its_examples(path: str) -> None:
    files = {
        "examples/gat.py": f"{path}import net\nfrom torch_geometric.nn import GATConv",
        "examples/net.py": "x = 1",
        "torch_geometric/nn.py": "from torch_geometric import utils",
        "torch_geometric/utils.py": "x = 1",
    }
    assert meant(files, "examples/gat.py") == {"net": "examples/net.py"}
    assert meant(files, "torch_geometric/nn.py") == {"torch_geometric.utils": "torch_geometric/utils.py"}
    assert linked(files).open(files.keys()) == {"torch_geometric/nn.py", "torch_geometric/utils.py"}


def test_a_module_may_mean_either() -> None:
    """`exp/net.py` is imported from above, where Python's path begins with another folder."""
    files = {
        "exp/net.py": "import utils",
        "exp/utils.py": "x = 1",
        "utils.py": "x = 2",
        "train.py": "from exp.net import Net",
    }
    assert meant(files, "exp/net.py") == {}
    assert meant(files, "train.py") == {"exp.net": "exp/net.py"}


def test_in_a_package_a_bare_name_may_mean_either() -> None:
    files = {"pkg/__init__.py": "x = 1", "pkg/train.py": "import utils", "pkg/utils.py": "x = 1", "utils.py": "x = 2"}
    assert meant(files, "pkg/train.py") == {}


def test_from_the_root_and_from_src() -> None:
    files = {
        "tools/train.py": "from lib.engine import run\nfrom pkg import model",
        "lib/engine.py": "x = 1",
        "src/pkg/__init__.py": "from .model import Net",
        "src/pkg/model.py": "x = 1",
    }
    assert meant(files, "tools/train.py") == {
        "lib.engine": "lib/engine.py",
        "pkg": "src/pkg/__init__.py",
        "pkg.model": "src/pkg/model.py",
    }
    assert meant(files, "src/pkg/__init__.py") == {".model": "src/pkg/model.py"}


def test_an_installable_project_is_found_from_everywhere() -> None:
    files = {"examples/train.py": "import kit.data", "libs/kit/src/kit/data.py": "x = 1"}
    assert meant(files, "examples/train.py") == {}
    assert meant(files, "examples/train.py", ("libs/kit",)) == {"kit.data": "libs/kit/src/kit/data.py"}


@pytest.mark.parametrize(("statement", "found"), [
    ("from . import loop", {".": "pkg/sub/__init__.py", ".loop": "pkg/sub/loop.py"}),
    ("from .loop import run", {".loop": "pkg/sub/loop.py"}),
    ("from .. import data", {"..data": "pkg/data.py"}),
    ("from ..data import load", {"..data": "pkg/data.py"}),
    ("from ...top import x", {"...top": "top.py"}),
    ("from ....beyond import x", {}),
    ("from pkg.data import load", {"pkg.data": "pkg/data.py"}),
    ("import pkg.sub.loop", {"pkg.sub.loop": "pkg/sub/loop.py", "pkg.sub": "pkg/sub/__init__.py"}),
    ("import pkg.sub.loop as l", {"pkg.sub.loop": "pkg/sub/loop.py"}),
    ("from pkg import data, sub, other", {"pkg.data": "pkg/data.py", "pkg.sub": "pkg/sub/__init__.py"}),
    ("from .loop import *", {".loop": "pkg/sub/loop.py"}),
    ("from . import train", {".": "pkg/sub/__init__.py"}),
])  # fmt: skip
def test_packages(statement: str, found: dict[str, str]) -> None:
    """An empty `__init__.py` says nothing, and a file is not linked with itself."""
    files = {
        "top.py": "x = 1",
        "pkg/__init__.py": "\n",
        "pkg/data.py": "x = 1",
        "pkg/sub/__init__.py": "x = 1",
        "pkg/sub/loop.py": "x = 1",
        "pkg/sub/train.py": statement,
    }
    assert meant(files, "pkg/sub/train.py") == found


def test_a_package_comes_before_a_module_and_needs_no_init() -> None:
    files = {"train.py": "import a, b.c", "a.py": "x = 1", "a/__init__.py": "x = 1", "b/c.py": "x = 1"}
    assert meant(files, "train.py") == {"a": "a/__init__.py", "b.c": "b/c.py"}


def test_circles_end() -> None:
    links = linked({"a.py": "import b", "b.py": "import c", "c.py": "import a", "d.py": "import a", "e.py": ""})
    assert links.reached("a.py") == {"a.py", "b.py", "c.py"}
    assert links.reached("d.py") == {"a.py", "b.py", "c.py", "d.py"}
    assert list(links.components()) == [["a.py", "b.py", "c.py", "d.py"], ["e.py"]]
    assert links.importers["a.py"] == {"c.py", "d.py"}


def test_names_are_taken_through_packages() -> None:
    files = {
        "train.py": "from pkg import run, data",
        "pkg/__init__.py": "from .loop import run, evaluate",
        "pkg/loop.py": "from .deep import run",
        "pkg/deep.py": "x = 1",
        "pkg/data.py": "x = 1",
    }
    links = linked(files)
    assert links.through["train.py"] == {"pkg/loop.py", "pkg/deep.py"}
    assert links.imports["train.py"] == {"pkg": "pkg/__init__.py", "pkg.data": "pkg/data.py"}
    assert links.neighbours("pkg/loop.py") == {"pkg/__init__.py", "pkg/deep.py", "train.py"}


def test_names_are_taken_through_stars() -> None:
    files = {
        "train.py": "from pkg import *",
        "test.py": "from pkg import Meter",
        "pkg/__init__.py": "from .misc import *\nfrom .loop import run",
        "pkg/misc.py": "from .meter import *",
        "pkg/meter.py": "from .misc import *",
        "pkg/loop.py": "x = 1",
    }
    links = linked(files)
    assert links.through["train.py"] == {"pkg/misc.py", "pkg/meter.py", "pkg/loop.py"}
    assert links.through["test.py"] == {"pkg/misc.py", "pkg/meter.py"}
    assert links.through["pkg/__init__.py"] == {"pkg/meter.py", "pkg/misc.py"}


def test_folders_that_a_script_puts_on_the_path() -> None:
    files = {
        "train.py": "import sys\nsys.path.append('core')\nfrom raft import RAFT\nimport data",
        "tools/test.py": "import sys\nsys.path.insert(0, os.path.join(root, 'core'))\nfrom raft import RAFT",
        "tools/eval.py": "from raft import RAFT",
        "core/raft.py": "import update",
        "core/update.py": "x = 1",
        "core/data.py": "x = 1",
        "data.py": "x = 1",
    }
    assert meant(files, "train.py") == {"raft": "core/raft.py", "data": "data.py"}
    assert meant(files, "tools/test.py") == {"raft": "core/raft.py"}
    assert meant(files, "tools/eval.py") == {}


def test_folders_on_the_path_are_there_for_what_a_script_imports() -> None:
    files = {
        "main.py": "import sys\nsys.path.insert(1, 'evaluation')\nfrom loop import train",
        "loop.py": "from metrics import evaluate",
        "evaluation/metrics.py": "from helpers import mean",
        "evaluation/helpers.py": "x = 1",
        "alone.py": "from metrics import evaluate",
    }
    assert meant(files, "loop.py") == {"metrics": "evaluation/metrics.py"}
    assert meant(files, "alone.py") == {}
    files["other.py"] = "import sys\nsys.path.insert(1, 'other')\nfrom loop import train"
    files["other/metrics.py"] = "x = 1"
    assert meant(files, "loop.py") == {}


def test_what_others_may_call_is_open() -> None:
    files = {
        "main.py": "from pkg import run",
        "other.py": "import pkg",
        "pkg/__init__.py": "from .loop import run",
        "pkg/loop.py": "from . import data",
        "pkg/data.py": "x = 1",
    }
    links = linked(files)
    everything = set(files)
    assert links.open(everything) == set()
    assert links.open(everything - {"other.py"}) == {"pkg/__init__.py", "pkg/loop.py"}
    assert links.open({"pkg/loop.py"}) == {"pkg/loop.py"}
    assert links.open({"main.py"}) == set()
