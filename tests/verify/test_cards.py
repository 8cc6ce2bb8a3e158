"""Groups that are timed beside each other have a card each, here a stand-in, with processor cores of its own."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import forked_python
import pytest
from verify_workshop import Workshop, job

from perfmod.seats import Seat
from perfmod.verify import laboratory
from perfmod.verify.calling import Call
from perfmod.verify.failures import Kind
from perfmod.verify.laboratory import PLAIN, Laboratory
from perfmod.verify.request import Request
from perfmod.verify.running import Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.seated_runs import Group, run_beside
from perfmod.verify.sides import ORIGINAL, Side
from perfmod.verify.tree import Tree

SCRIPT = """
    import json, os, sys, time
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    cores = sorted(os.sched_getaffinity(0))
    loader = torch.utils.data.DataLoader(torch.ones(40000, 4), batch_size=4)
    with open(os.path.join(sys.argv[1], f"{time.monotonic_ns()}-{os.getpid()}"), "w") as out:
        json.dump([cores, os.environ.get("CUDA_VISIBLE_DEVICES")], out)
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        time.sleep(0.001)
"""


def request(script: Path, device: str = "cpu") -> Request:
    return Request(script, None, (), device, "python", 4, True, None, 120.0, None, (), "perfmod tune train.py")


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> str:
    """One that has imported torch already, and runs on the cores that it is started on."""
    for name, value in forked_python.THREADS.items():
        monkeypatch.setenv(name, value)
    return forked_python.python()


@pytest.mark.parametrize("forks", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_each_group_has_its_own_cores(
    tmp_path: Path, python: str, forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laboratory, "_SECONDS_OF_TURNS", {False: (0.02, 0.05)})  # the times are not looked at
    told, script = tmp_path / "told", tmp_path / "project" / "train.py"
    for folder in (told, script.parent):
        folder.mkdir()
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    one = Side(ORIGINAL, Tree.of(script), Path("train.py"))
    broken = Side("broken", one.tree, one.script, {one.script: b"raise SystemExit('it fails')\n"})
    cores = sorted(os.sched_getaffinity(0))
    seats = (Seat("cpu0", (cores[0],)), Seat("cpu1", (cores[-1],)))
    call = Call(python, (str(told),), script.parent)
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, call, 120.0, sample_memory=False, forks=forks)
        lab = Laboratory(runner, request(script), lambda _: None, seats=seats)
        found = lab.time_beside([[one, broken, one], [one]], 0)
    assert [[ran.trouble and ran.trouble.kind for ran in group] for group in found] == [
        [None, Kind.EXITED, None],
        [None],
    ]
    assert all(group[0].records[0]["window_steps"] >= 10 for group in found)
    seen = [json.loads(path.read_text("utf-8")) for path in sorted(told.iterdir())]
    assert sorted(tuple(own) for own, _ in seen) == sorted([seats[0].cores, seats[0].cores, seats[1].cores])
    assert {visible for _, visible in seen} == {""}
    assert sorted(os.sched_getaffinity(0)) == cores


def test_forked_runs_have_the_cores_of_their_seat(workshop: Workshop) -> None:
    workshop.write("record(cores=sorted(os.sched_getaffinity(0)), parent=os.getppid())")
    cores = sorted(os.sched_getaffinity(0))
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, workshop.call())
        runs = [(workshop.side(), job())] * 2
        seats = (Seat("cpu0", (cores[0],)), Seat("cpu1", (cores[-1],)))
        found = run_beside([Group(runner.seated(seat), runs, lambda _over: None) for seat in seats])
    assert [[ran.records[0]["cores"] for ran in group] for group in found] == [[[cores[0]]] * 2, [[cores[-1]]] * 2]
    forked_from = [{ran.records[0]["parent"] for ran in group} for group in found]
    assert [len(parents) for parents in forked_from] == [1, 1]
    assert len(set.union(*forked_from) - {os.getpid()}) == 2


def test_watched_runs_take_whichever_seat_is_free(tmp_path: Path, python: str) -> None:
    told, script = tmp_path / "told", tmp_path / "project" / "train.py"
    for folder in (told, script.parent):
        folder.mkdir()
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    one = Side(ORIGINAL, Tree.of(script), Path("train.py"))
    cores = sorted(os.sched_getaffinity(0))
    seats = (Seat("cpu0", (cores[0],)), Seat("cpu1", (cores[-1],)))
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, Call(python, (str(told),), script.parent), 120.0, sample_memory=False, forks=False)
        lab = Laboratory(runner, request(script), lambda _: None, seats=seats)
        found = lab.watch([(one, PLAIN)] * 3, 1)
    assert [ran.trouble for ran in found] == [None] * 3
    first, *others = (ran.traces[0] for ran in found)
    assert all(trace.losses() == first.losses() for trace in others)
    seen = {tuple(json.loads(path.read_text("utf-8"))[0]) for path in told.iterdir()}
    assert seen == {seat.cores for seat in seats}


def test_a_conductor_that_fails_ends_the_runs_of_all(workshop: Workshop) -> None:
    workshop.write("import time; time.sleep(60)")
    ended = []

    def fails(_over: Callable[[int], bool]) -> None:
        time.sleep(0.5)
        raise OSError("no space left")

    def waits(over: Callable[[int], bool]) -> None:
        while not over(0):
            time.sleep(0.05)
        ended.append(over(0))

    with Scratch.temporary() as scratch:
        runner = Runner(scratch, workshop.call(), forks=False)
        groups = [Group(runner, [(workshop.side(), job())], conduct) for conduct in (fails, waits)]
        began = time.monotonic()
        with pytest.raises(OSError, match="no space left"):
            run_beside(groups)
    assert ended == [True]
    assert time.monotonic() - began < 30


def test_a_seat_shows_one_card(tmp_path: Path) -> None:
    with Scratch.temporary() as scratch:
        runner = Runner(scratch, Call(sys.executable, (), tmp_path, {"CUDA_VISIBLE_DEVICES": "2,3"}))
        lab = Laboratory(runner, request(tmp_path / "train.py", "cuda"), lambda _: None, seats=(Seat("3", ()),))
        on_it = lab.on(lab.seats[0])
        assert lab.on(lab.seats[0]).runner is on_it.runner
    assert on_it.runner.call.environment["CUDA_VISIBLE_DEVICES"] == "3"
    assert runner.call.environment["CUDA_VISIBLE_DEVICES"] == "2,3"
