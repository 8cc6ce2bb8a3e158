"""The shell that a notebook's exported code finds."""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HARNESS = Path(__file__).resolve().parents[3] / "perfmod" / "verify" / "harness"


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the exported code finds as its own module."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def shell_for(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    """What `get_ipython()` gives in a script with this text; None where there is no such name."""
    script = folder / "notebook.py"
    script.write_text(text)
    monkeypatch.syspath_prepend(HARNESS)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(builtins, "get_ipython", None, raising=False)
    importlib.import_module("perfmod_harness.notebook").begin()
    made = vars(builtins)["get_ipython"]
    return made and made()


@pytest.mark.usefixtures("main")
def test_a_script_that_does_not_ask_meets_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell_for("import torch\n", tmp_path, monkeypatch) is None


def test_code_within_magics_is_the_notebooks(main: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = shell_for("get_ipython().run_line_magic('matplotlib', 'inline')\n", tmp_path, monkeypatch)
    vars(main)["steps"] = [1]
    shell.run_cell_magic("time", "", "for step in (2, 3):\n    steps.append(step)\ndone = True\n")
    shell.run_line_magic("time", "steps.append(4)")
    shell.run_cell_magic("capture", "output", "steps.append(5)\n")
    assert vars(main)["steps"] == [1, 2, 3, 4, 5]
    assert vars(main)["done"]


def test_what_is_around_the_code_is_left_out(main: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = shell_for("get_ipython().system('pip install x')\n", tmp_path, monkeypatch)
    vars(main)["steps"] = []
    shell.run_line_magic("timeit", "-n 100 steps.append(1)")
    shell.run_cell_magic("timeit", "-n 100", "steps.append(1)\n")
    shell.run_cell_magic("writefile", str(tmp_path / "model.py"), "import torch\n")
    shell.magic("load_ext autoreload")
    shell.system(f"touch {tmp_path}/made")
    assert shell.getoutput("nvidia-smi") == []
    assert vars(main)["steps"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["notebook.py"]
