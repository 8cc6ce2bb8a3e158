"""The harness goes by another name in each verification."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from perfmod.verify.disguise import PLAIN, Disguise
from perfmod.verify.job import Job, Mode

SCRIPT = """
import os, sys, traceback
import torch

names = [*os.environ, *os.environ.values(), *sys.modules, *sys.path]
parameter = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([parameter], lr=0.1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        names.extend(frame.filename + frame.name for frame in traceback.extract_stack())
        return x * self.weight


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    net(torch.ones(3)).sum().backward()
    optimizer.step()
names += [torch.nn.Module.__call__.__module__, type(sys.stdout).__module__]
for home in HOMES:  # where the clone, its environment and this test's folder lie says nothing
    names = [name.replace(home, "") for name in names]
told = [name for name in names if "perfmod" in name.lower() or "harness" in name.lower()]
print(len(names) > 100, [name for name in told if "editable" not in name])  # how the package itself is installed
"""


def test_nothing_tells_its_name(tmp_path: Path) -> None:
    disguise = Disguise.made_in(tmp_path)
    for folder in ("tree", "out"):
        (tmp_path / folder).mkdir()
    root = Path(__file__).resolve().parents[2]
    places = [tmp_path, root, Path(sys.prefix), Path(sys.base_prefix)]
    homes = sorted({str(path) for place in places for path in (place, place.resolve())}, key=len, reverse=True)
    (tmp_path / "tree" / "train.py").write_text(SCRIPT.replace("HOMES", repr(homes)), encoding="utf-8")
    Job(Mode.EQUALITY, tmp_path / "out", tmp_path / "tree", "cpu", steps=9).write(tmp_path / "job.json")
    kept = {name: value for name, value in os.environ.items() if "perfmod" not in f"{name}{value}".lower()}
    environment = {**kept, "PYTHONPATH": str(disguise.folder), disguise.job_variable: str(tmp_path / "job.json")}
    command = [sys.executable, "-c", f"exec(open({str(tmp_path / 'tree' / 'train.py')!r}).read())"]
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert json.loads((tmp_path / "out" / "rank0.json").read_text("utf-8"))["steps"] == {"0": 4}, done.stderr
    assert done.stdout == "True []\n"


def test_every_file_is_there_under_names_of_its_own(tmp_path: Path) -> None:
    one, other = Disguise.made_in(tmp_path), Disguise.made_in(tmp_path)
    assert one.job_variable != other.job_variable
    assert len(list(one.folder.rglob("*.py"))) == len(list(PLAIN.rglob("*.py"))) > 40
    for path in one.folder.rglob("*.py"):
        assert "perfmod" not in path.read_text("utf-8").lower()
        assert "perfmod" not in str(path.relative_to(tmp_path))
