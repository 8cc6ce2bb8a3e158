"""However a script ends, its record is written, once, by the process that trained."""

from __future__ import annotations

import json
from pathlib import Path

import harness_child
import pytest

from perfmod.verify.job import Mode

TRAINING = """
import os, sys
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(width=4):
    model(torch.ones(1, width)).sum().backward()
    optimizer.step()


"""


def ended(folder: Path, end: str, mode: Mode = Mode.EQUALITY) -> harness_child.Child:
    return harness_child.run(folder, TRAINING + end, mode, steps=4)


@pytest.mark.parametrize(("end", "status", "kind", "steps"), [
    ("for _ in range(9): step()\nprint('not reached')", 0, "steps", 4),
    ("step()", 0, "exit", 1),
    ("step(); sys.exit(7)", 7, "exit", 1),
    ("step(); os._exit(7)", 7, "exit", 1),
    ("step()\nif os.fork() == 0:\n    for _ in range(9): step()\n    os._exit(0)\nos.wait()", 0, "exit", 1),
    ("for _ in range(600): model(torch.ones(1, 4)).sum().backward()", 0, "stuck", 0),
])  # fmt: skip
def test_a_script_that_does_not_fail(tmp_path: Path, end: str, status: int, kind: str, steps: int) -> None:
    child = ended(tmp_path, end)
    assert (child.status, child.record["ended"], child.record["error"]) == (status, kind, None), child.stderr
    assert child.record["steps"].get("0", 0) == steps
    assert (child.stdout, child.stderr) == ("", "")
    assert child.record["modules"] == ["train.py"]
    assert child.record["on_cpu"] is True
    assert sorted(path.name for path in child.out.iterdir()) == ["rank0.f64", "rank0.json"]


def test_modules_are_named_by_where_their_files_lie(tmp_path: Path) -> None:
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    tree.mkdir()
    elsewhere.mkdir()
    (tree / "own.py").touch()
    (elsewhere / "inside.py").symlink_to(tree / "own.py")
    (elsewhere / "other.py").touch()
    (tree / "outside.py").symlink_to(elsewhere / "other.py")
    code = f"{TRAINING}import inside, outside\nstep()"
    child = harness_child.run(tmp_path, code, Mode.EQUALITY, steps=4, paths=(elsewhere,))
    assert child.record["modules"] == ["own.py", "train.py"], child.stderr


def test_who_swallows_the_end_meets_it_again(tmp_path: Path) -> None:
    swallow = """
for number in range(7):
    try:
        step()
    except BaseException as error:
        print(number, type(error).__name__)
"""
    child = ended(tmp_path, swallow)
    assert child.stdout == "".join(f"{number} Enough\n" for number in (3, 4, 5, 6))
    assert (child.record["ended"], child.record["steps"]) == ("steps", {"0": 4})


def test_an_error_is_noted_with_the_scripts_own_line(tmp_path: Path) -> None:
    hook = "sys.excepthook = lambda kind, error, trace: print('caught', kind.__name__)\nstep()\nstep(width=5)\n"
    child = ended(tmp_path, hook)
    # The script's own hook is called as if there was no other.
    assert (child.status, child.stdout, child.stderr) == (1, "caught RuntimeError\n", "")
    error = child.record["error"]
    assert child.record["ended"] == "error"
    assert (error["type"], error["file"], error["line"]) == ("RuntimeError", "train.py", 10)
    assert "mat1 and mat2" in error["message"]
    assert len(child.record["snapshots"]) > 3


RANKS = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


def train(rank):
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=2)
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(torch.ones(3, 4) + rank + step).square().sum().backward()
        optimizer.step()
    dist.destroy_process_group()
    FINALLY


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]))
    else:
        mp.spawn(train, nprocs=2)
"""


@pytest.mark.exhaustive
def test_every_rank_writes_its_own_record(tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    for name, options, steps in (("spawn", (), 2), ("torchrun", launcher, 9)):
        folder = tmp_path / name
        folder.mkdir()
        script = RANKS.replace("STEPS", str(steps)).replace("FINALLY", "")
        child = harness_child.run(folder, script, Mode.EQUALITY, options=options, steps=4)
        records = [json.loads((child.out / f"rank{rank}.json").read_text()) for rank in (0, 1)]
        assert [record["rank"] for record in records] == [0, 1]
        assert {record["ended"] for record in records} == {"exit" if steps == 2 else "steps"}, child.stderr
        assert {record["steps"]["0"] for record in records} == {min(steps, 4)}
        losses = [[event["losses"] for event in record["events"] if event["kind"] == "backward"] for record in records]
        assert losses[0] != losses[1]
        for one, other in zip(records[0]["snapshots"], records[1]["snapshots"], strict=True):
            assert list(one["tensors"]) == list(other["tensors"])
            same = [one["tensors"][key]["bits"] == other["tensors"][key]["bits"] for key in one["tensors"]]
            assert all(same), one["name"]
            assert one["name"] == "buffers" or list(one["tensors"]) == ["0.weight", "0.bias"] or not one["tensors"]


@pytest.mark.exhaustive
def test_a_rank_that_fails_says_why(tmp_path: Path) -> None:
    script = RANKS.replace("STEPS", "2").replace("FINALLY", "assert rank == 0, 'too few'")
    child = harness_child.run(tmp_path, script, Mode.EQUALITY, steps=4)
    assert child.status == 1
    record = json.loads((child.out / "rank1.json").read_text())
    assert (record["ended"], record["error"]["type"], record["error"]["message"]) == (
        "error",
        "AssertionError",
        "too few",
    )
    assert record["error"]["file"] == "train.py"
