"""`perfmod profile` from end to end, on the CPU."""

from __future__ import annotations

import json
import sys

import forked_python
import pytest
from cli_fakes.running import Run, Write

from perfmod.errors import ExitCode

SCRIPT = """\
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((4,), float(index))


model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for step, batch in enumerate(DataLoader(Slow(), batch_size=4)):
    if step == int(sys.argv[1]):
        break
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def _forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", forked_python.python())
    for name, value in forked_python.THREADS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.long
def test_a_loader_that_is_waited_for(perfmod: Run, write: Write) -> None:
    script = write("train.py", SCRIPT)
    ran = perfmod("profile", "train.py", "--device", "cpu", "--steps", "10", "--output-format", "json", "--", "60")
    assert ran.code == ExitCode.OK, ran.err
    found = json.loads(ran.out)
    assert (found["bound"], found["steps"]) == ("starved", 10)
    assert 4 * 4.0 <= found["loader_ms"] <= found["step_ms"]
    assert found["loaders"][0]["batch_size"] == 4
    assert script.read_text() == SCRIPT


@pytest.mark.exhaustive
def test_what_cannot_be_profiled_is_one_line(perfmod: Run, write: Write) -> None:
    write("train.py", SCRIPT)
    needed = "30 are needed, 10 of them to warm up"
    too_few = f"ended after 15 steps, {needed}; give it more data, or perfmod a lower --steps"
    for arguments, said in (
        (("--", "15"), f"train.py: {too_few}"),
        ((), "train.py: it crashed: IndexError"),
    ):
        ran = perfmod("profile", "train.py", "--device", "cpu", *arguments)
        assert ran.code == ExitCode.FAILED
        assert said in ran.err
        assert len(ran.err.strip().splitlines()) == 1
    assert perfmod("profile", "nowhere.py", "--device", "cpu").code == ExitCode.USAGE
