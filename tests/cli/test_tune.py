"""`perfmod tune` from end to end, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import forked_python
import pytest
from cli_fakes.running import Run, Write

from perfmod.errors import ExitCode

SCRIPT = """\
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((4,), float(index)) / 4000


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Slow(), batch_size=4)
    for batch in loader:
        batch = batch.to(device)
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


def real_perfmod(*arguments: str, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **forked_python.THREADS, "PERFMOD_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "perfmod", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.exhaustive
def test_a_slow_loader_gets_workers(write: Write, tmp_path: Path) -> None:
    def real(*arguments: str) -> subprocess.CompletedProcess[str]:
        ran = real_perfmod(*arguments, cache=tmp_path / "cache")
        assert ran.returncode == ExitCode.OK, ran.stderr
        return ran

    script = write("train.py", SCRIPT)
    call = ("tune", "train.py", "--device", "cpu", "--allow", "bitwise", "--budget", "10m", "--report", "found")
    call += ("--python", forked_python.python())
    first = json.loads(real(*call, "--output-format", "json").stdout)
    (offer,) = first["offers"]
    assert (first["best"], offer["verdict"], offer["stack"][:5]) == ("bitwise", "proven", "PM201")
    assert offer["ratio"] > 1.3
    assert script.read_text() == SCRIPT
    # A second call knows all that, and runs nothing but the interpreter.
    assert "with what an earlier call had found" in real(*call, "--write").stderr
    assert "num_workers=" in script.read_text()
    real("revert")
    assert script.read_text() == SCRIPT


@pytest.mark.exhaustive
def test_the_budget_holds(write: Write, tmp_path: Path) -> None:
    write("train.py", SCRIPT)
    began = time.monotonic()
    call = ("tune", "train.py", "--device", "cpu", "--python", forked_python.python(), "--output-format", "json")
    ran = real_perfmod(*call, "--budget", "25s", cache=tmp_path / "cache")
    assert time.monotonic() - began < 25 + 15, "with the start, and the end of what was under way"
    assert ran.returncode == ExitCode.OK, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["complete"], found["interrupted"]) == (False, False)
    assert found["offers"]
    assert not any(offer["tried"] for offer in found["offers"])


@pytest.mark.parametrize(("options", "said"), [
    (("--budget", "soon"), "--budget soon: not a time; write 90s, 10m or 1h"),
    (("--report-every", "10"), "--report-every changes what the script shows: add --allow behavioural"),
])  # fmt: skip
def test_wrong_options_are_one_line(perfmod: Run, write: Write, options: tuple[str, ...], said: str) -> None:
    write("train.py", SCRIPT)
    ran = perfmod("tune", "train.py", "--device", "cpu", *options)
    assert ran.code == ExitCode.USAGE
    assert ran.err.strip() == f"perfmod: {said}"


def test_a_budget_in_which_nothing_can_be_seen(write: Write, tmp_path: Path) -> None:
    write("train.py", SCRIPT)
    call = ("tune", "train.py", "--device", "cpu", "--python", forked_python.python())
    ran = real_perfmod(*call, "--budget", "1s", cache=tmp_path / "cache")
    assert ran.returncode == ExitCode.FAILED
    said = "perfmod: train.py: 1 s is too short to see where its time goes; try --budget 10m"
    assert ran.stderr.splitlines()[-1] == said
