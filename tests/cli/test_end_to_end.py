"""The program with its real rules, over the examples of this repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from cli_fakes.running import Ran, Write

from perfmod.errors import ExitCode

EXAMPLES = Path(__file__).parents[2] / "examples"


def perfmod_itself(*arguments: str, python: str = sys.executable) -> Ran:
    """Runs `perfmod` as it is installed."""
    done = subprocess.run([python, "-m", "perfmod", *arguments], capture_output=True, check=False)
    return Ran(done.returncode, done.stdout, done.stderr.decode())


@pytest.mark.long
@pytest.mark.parametrize("flags", [pytest.param([], marks=pytest.mark.exhaustive), ["--unsafe"]])
def test_there_and_back(project: Path, flags: list[str]) -> None:
    """The dry run shows what is written; git takes it; a second run finds nothing; revert restores all."""
    for script in EXAMPLES.glob("*/*.py"):
        shutil.copytree(script.parent, project / script.parent.name, dirs_exist_ok=True)
    originals = {path: path.read_bytes() for path in project.rglob("*.py")}
    assert originals

    dry = perfmod_itself("apply", ".", "--dry-run", *flags)
    assert dry.code == ExitCode.OK
    assert dry.out.count(b"\ndiff --git ") + dry.out.startswith(b"diff --git ") >= 1
    assert {path: path.read_bytes() for path in originals} == originals
    assert perfmod_itself("check", ".", *flags).code == ExitCode.FOUND

    subprocess.run(["git", "apply", "-"], input=dry.out, check=True, cwd=project)
    patched = {path: path.read_bytes() for path in originals}
    subprocess.run(["git", "apply", "-R", "-"], input=dry.out, check=True, cwd=project)
    assert {path: path.read_bytes() for path in originals} == originals

    assert perfmod_itself("apply", ".", *flags).code == ExitCode.OK
    assert {path: path.read_bytes() for path in originals} == patched
    second = perfmod_itself("apply", ".", *flags)
    assert f"nothing to rewrite in {len(originals)} files\n" in second.err
    assert perfmod_itself("check", ".", *flags).code == ExitCode.OK
    assert {path: path.read_bytes() for path in originals} == patched

    assert perfmod_itself("revert").code == ExitCode.OK
    assert {path: path.read_bytes() for path in originals} == originals


CONFIGURED = """\
import hydra
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 8000

    def __getitem__(self, index):
        return torch.load(f"{index}.pt")


@hydra.main(config_path="conf", config_name="train")
def main(cfg):
    model = nn.Linear(3, 1).cuda()
    loader = DataLoader(Samples(), batch_size=32, num_workers=cfg.data.num_workers)
    for x in loader:
        model(x.cuda()).sum().backward()


main()
"""


def test_workers_of_a_configuration(write: Write) -> None:
    """The cache notices what the configuration says, and the line at which it says so."""
    write("src/train.py", CONFIGURED)
    write(".gitignore", "outputs/\n")
    write("outputs/train.yaml", "num_workers: 4\n")

    def advice() -> list[str]:
        ran = perfmod_itself("check", "src", "-v", "--select", "PM201", python=forked_python.perfmod())
        assert ran.code == ExitCode.OK
        return [line.strip() for line in ran.out.decode().splitlines()[1::2]]

    assert advice() == []
    told = "`num_workers: 0`: with 4, workers load batches during the step"
    write("conf/train.yaml", "data:\n  num_workers: 0\n")
    assert advice() == [f"advice: conf/train.yaml:2 sets {told}"]
    write("conf/train.yaml", "data:\n  batch_size: 32\n  num_workers: 0\n")
    assert advice() == [f"advice: conf/train.yaml:3 sets {told}"]
    write("conf/train.yaml", "data:\n  num_workers: 4\n")
    assert advice() == []
