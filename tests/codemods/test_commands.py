from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import libcst as cst
import pytest
import toy_rules as toys
from libcst.codemod import CodemodContext, TransformFailure, TransformSuccess, transform_module

from perfmod.codemods import catalog
from perfmod.codemods.commands.compute import ComputeCommand
from perfmod.codemods.commands.feeding import FeedingCommand
from perfmod.codemods.commands.leftovers import LeftoversCommand
from perfmod.codemods.commands.syncs import SyncsCommand
from perfmod.transforms.finding import Family, Numerics, Safety


@pytest.fixture
def toy_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = toys.renaming("lazy", "eager", code="PM902", name="second", triggers=("lazy",), family=Family.FEEDING)
    monkeypatch.setattr(catalog, "rules", lambda: [toys.renaming(), lazy])


CODE = "import torch\r\nx = slow(lazy)  # perfmod: ignore[nothing]\r\n"


@pytest.mark.usefixtures("toy_catalog")
def test_a_command_applies_its_family() -> None:
    done = transform_module(SyncsCommand(CodemodContext(filename="a.py")), CODE)
    assert isinstance(done, TransformSuccess), done
    assert done.code == CODE.replace("slow", "fast")
    assert done.warning_messages == ["line 2: unknown rule 'nothing'; `perfmod rules` lists them"]
    done = transform_module(FeedingCommand(CodemodContext(filename="a.py")), CODE)
    assert isinstance(done, TransformSuccess), done
    assert done.code == CODE.replace("lazy", "eager")


def test_the_compute_command_opts_in_to_what_keeps_the_mathematics(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = toys.renaming(family=Family.COMPUTE)
    other = toys.renaming("lazy", "eager", code="PM902", name="second", triggers=("lazy",), family=Family.COMPUTE)
    kept.safety = other.safety = Safety.OPT_IN  # type: ignore[misc]
    other.numerics = Numerics.PRECISION  # type: ignore[misc]
    monkeypatch.setattr(catalog, "rules", lambda: [kept, other])
    done = transform_module(ComputeCommand(CodemodContext(filename="a.py")), CODE)
    assert isinstance(done, TransformSuccess), done
    assert done.code == CODE.replace("slow", "fast")


def test_the_leftovers_command_keeps_opt_in_rules_back(monkeypatch: pytest.MonkeyPatch) -> None:
    removed = toys.renaming(family=Family.LEFTOVERS)
    monkeypatch.setattr(catalog, "rules", lambda: [removed])
    done = transform_module(LeftoversCommand(CodemodContext(filename="a.py")), CODE)
    assert isinstance(done, TransformSuccess), done
    assert done.code == CODE.replace("slow", "fast")
    removed.safety = Safety.OPT_IN  # type: ignore[misc]
    done = transform_module(LeftoversCommand(CodemodContext(filename="a.py")), CODE)
    assert isinstance(done, TransformSuccess), done
    assert done.code == CODE


@pytest.mark.usefixtures("toy_catalog")
def test_a_command_leaves_other_code_alone() -> None:
    tree = cst.parse_module("x = 1\n")
    assert SyncsCommand(CodemodContext()).transform_module(tree).code == tree.code


def test_a_failure_is_reported_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "rules", lambda: [toys.renaming(new="(")])
    done = transform_module(SyncsCommand(CodemodContext(filename="a.py")), "import torch\nslow\n")
    assert isinstance(done, TransformFailure), done
    assert "PM901 would write invalid code" in str(done.error)


STEP = b"""\
import torch\r
\r
\r
def train(model, loader, optimizer, loss_of):\r
    total = 0.0\r
    for images, labels in loader:\r
        loss = loss_of(model(images.cuda()), labels.cuda())\r
        optimizer.zero_grad()\r
        loss.backward()\r
        optimizer.step()\r
        total += loss.item()\r
    return total\r
\r
\r
if __name__ == "__main__":\r
    train(*torch.load("all.pt"))\r
"""


def tool(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "libcst.tool", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("configuration", "command"), [
    ("", ["-x", "perfmod.codemods.commands.syncs.SyncsCommand"]),
    ("modules: [perfmod.codemods.commands]\n", ["syncs.SyncsCommand"]),
])  # fmt: skip
def test_the_tool_of_libcst_runs_a_command_on_a_project(tmp_path: Path, configuration: str, command: list[str]) -> None:
    files = {"train.py": STEP, "pkg/eval.py": STEP, "fine.py": b"import torch\r\nx = 1\r\n", "broken.py": b"x = (\n"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    if configuration:
        (tmp_path / ".libcst.codemod.yaml").write_text(configuration)
    done = tool(tmp_path, "codemod", "--no-format", *command, ".")
    assert done.returncode == 1, done.stderr
    assert f"Failed to codemod {tmp_path / 'broken.py'}" in done.stderr
    assert "Transformed 3 files successfully" in done.stderr
    after = {name: (tmp_path / name).read_bytes() for name in files}
    assert after["train.py"] == after["pkg/eval.py"] != STEP
    assert after["train.py"].replace(b".detach()", b".item()").replace(b"    total = float(total)\r\n", b"") == STEP
    assert (after["fine.py"], after["broken.py"]) == (files["fine.py"], files["broken.py"])


def test_the_tool_of_libcst_lists_the_families(tmp_path: Path) -> None:
    (tmp_path / ".libcst.codemod.yaml").write_text("modules: [perfmod.codemods.commands]\n")
    done = tool(tmp_path, "list")
    assert [line.split(" - ")[0] for line in done.stdout.splitlines()] == [
        "compute.ComputeCommand",
        "feeding.FeedingCommand",
        "leftovers.LeftoversCommand",
        "syncs.SyncsCommand",
    ]
