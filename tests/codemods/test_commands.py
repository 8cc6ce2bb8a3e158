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


def test_the_tool_of_libcst_finds_the_command(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"import torch\r\nx = 1\r\n")
    command = [sys.executable, "-m", "libcst.tool", "codemod", "-x", "--no-format"]
    command += ["perfmod.codemods.commands.syncs.SyncsCommand", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Transformed 1 files successfully" in done.stderr
    assert file.read_bytes() == b"import torch\r\nx = 1\r\n"
