"""`DataParallel` over two GPUs against what PM311 makes of it: is it the same training, and how long does a step take?

    python benchmarks/data_parallel.py [--scripts NAMES] [--parts prove,time] [--device cuda] [--rounds 3] [--json FILE]

`reference/data_parallel` has two scripts, with and without batch normalisation. PM311 is applied to each of them, and
`perfmod verify --nproc 2 --quick` compares one process with two, for all scripts at once: what it says of their speed
is not looked at. Then the scripts are timed, one run at a time and in turns: as written, started by `python`, and
rewritten, started by `torchrun` with two processes. They print a line at the end of every epoch, which waits for the
GPU; the seconds between the first of these lines and the last, by the number of steps between them, are those of a
step, with the loader and without the start.

FILE gets a row for each script. The exit code is 1 where a training is not proven the same or the rewritten script is
not faster. Needs two GPUs; with `--device cpu`, where two processes talk through gloo, there are few steps of a small
model, and nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from gpu_seats import run_verify
from revision import revision
from rich.console import Console

from perfmod.verify import machine

FOLDER: Final = Path(__file__).resolve().parent / "reference" / "data_parallel"
SCRIPTS: Final = ("original", "normalised")
PROCESSES: Final = 2
EPOCHS: Final = 5
"""Of a timed run; the first one warms up."""
STEPS: Final = 16
"""Of an epoch, with the arguments that the scripts have by themselves."""
SMALL: Final = ("--samples", "128", "--batch-size", "16", "--width", "4", "--epochs", "3")
LIMIT: Final = 120.0
"""Seconds for a timed run."""


def apply(folder: Path) -> None:
    """Have PM311 rewrite the script in a folder. Raises `CalledProcessError`."""
    command = [sys.executable, "-m", "perfmod", "apply", "train.py", "--select", "PM311"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def prove(name: str, folder: Path, device: str) -> dict[str, Any]:
    """What `verify` says of the training of a script."""
    options = ("--select", "PM311", "--nproc", str(PROCESSES), "--quick", "--device", device)
    began = time.perf_counter()
    ran = run_verify(folder / "train.py", options, SMALL if device == "cpu" else (), folder / "report", None)
    row: dict[str, Any] = {"seconds": round(time.perf_counter() - began, 1), "exit_code": ran.exit_code}
    if ran.evidence is None:
        return row | {"verdict": "failed", "reason": f"{name}: {' '.join(ran.output[-3:])}"}
    equality = ran.evidence["equality"]
    return row | {key: equality[key] for key in ("verdict", "reason", "numerics", "steps")}


def step_ms(command: Sequence[str], folder: Path) -> float:
    """Milliseconds of a step, by the lines that a run prints at the end of its epochs. Raises `CalledProcessError`."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    environment.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // PROCESSES)))
    # With a session of its own, all of torchrun's processes can be ended at once.
    own: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, cwd=folder, env=environment, **own) as process:
        assert process.stdout is not None
        limit = threading.Timer(LIMIT, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        ends = [time.perf_counter() for line in process.stdout if line.startswith("epoch ")]
        code = process.wait()
        limit.cancel()
    if code or len(ends) != EPOCHS:
        raise subprocess.CalledProcessError(code, list(command), f"{len(ends)} of {EPOCHS} epochs")
    return 1000.0 * (ends[-1] - ends[0]) / (STEPS * (EPOCHS - 1))


def timed(written: Path, rewritten: Path, rounds: int) -> dict[str, Any]:
    """Times of the versions of a script, which take turns, every second time in the other order."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    arguments = ["train.py", "--epochs", str(EPOCHS)]
    versions = {"as written": ([], written), "rewritten": (torchrun, rewritten)}
    found: dict[str, list[float]] = {version: [] for version in versions}
    for number in range(rounds):
        for version, (start, folder) in list(versions.items())[:: -1 if number % 2 else 1]:
            found[version].append(round(step_ms([sys.executable, *start, *arguments], folder), 3))
    ratios = [a / b for a, b in zip(found["as written"], found["rewritten"], strict=True)]
    return {"ms": found, "steps": STEPS * (EPOCHS - 1), "ratio": statistics.median(ratios), "ratios": ratios}


def gpus() -> list[str]:
    """The names of those that can be seen."""
    code = "import torch\nfor at in range(torch.cuda.device_count()): print(torch.cuda.get_device_name(at))"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main() -> int:
    """Apply, prove and time; print and keep the rows; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scripts", default=",".join(SCRIPTS))
    parser.add_argument("--parts", default="prove,time")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    args = parser.parse_args()
    names, parts, talk = args.scripts.split(","), args.parts.split(","), Console()
    on_cuda = args.device == "cuda"
    cards = gpus() if on_cuda else []
    if on_cuda and len(cards) != PROCESSES:
        parser.error(f"DataParallel uses all GPUs that it sees: CUDA_VISIBLE_DEVICES has to name {PROCESSES}")

    began = time.perf_counter()
    rows: dict[str, dict[str, Any]] = {name: {"script": name} for name in names}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: Path(scratch).resolve() / name for name in names}
        for name, folder in folders.items():
            for version in ("written", "rewritten"):
                (folder / version).mkdir(parents=True)
                (folder / version / "pyproject.toml").touch()
                shutil.copy(FOLDER / f"{name}.py", folder / version / "train.py")
            apply(folder / "rewritten")
        if "prove" in parts:
            with ThreadPoolExecutor(len(names) if on_cuda else 1) as pool:
                proofs = pool.map(lambda name: prove(name, folders[name] / "written", args.device), names)
                for name, proof in zip(names, proofs, strict=True):
                    rows[name]["proof"] = proof
                    talk.print(f"{name}: {proof['verdict']} ({proof['seconds']} s): {proof['reason']}")
        if "time" in parts and on_cuda:
            for name, folder in folders.items():
                times = rows[name]["times"] = timed(folder / "written", folder / "rewritten", args.rounds)
                talk.print(f"{name}: {times['ratio']:.2f}x: {times['ms']} ms for a step")
    if args.json is not None:
        result = {
            "schema": 1,
            "perfmod_commit": revision(),
            "gpus": cards,
            "driver": machine.gpu().driver if on_cuda else None,
            "torch": machine.probe(sys.executable).torch,
            "processes": PROCESSES,
            "seconds": round(time.perf_counter() - began, 1),
            "scripts": list(rows.values()),
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    is_right = all(row.get("proof", {"verdict": "proven"})["verdict"] == "proven" for row in rows.values())
    return 0 if is_right and all(row["times"]["ratio"] > 1.0 for row in rows.values() if "times" in row) else 1


if __name__ == "__main__":
    raise SystemExit(main())
