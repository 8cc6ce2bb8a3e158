"""Runs a script under the harness alone, as `perfmod verify` has it run, and reads its record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from attrs import frozen
from forked_python import python

from perfmod.verify import harness
from perfmod.verify.job import JOB_VARIABLE, Job, Mode

HARNESS = Path(harness.__file__).parent


@frozen
class Child:
    """What came of a run; `out` holds its records."""

    out: Path
    record: dict[str, Any]
    status: int
    stdout: str
    stderr: str


def run(
    folder: Path,
    script: str,
    mode: Mode,
    device: str = "cpu",
    options: tuple[str, ...] = (),
    paths: tuple[Path, ...] = (),
    **job: Any,
) -> Child:
    """Run the text `script` as `folder/tree/train.py`, with options of Python, the user's PYTHONPATH, and a job."""
    tree, out = folder / "tree", folder / "out"
    tree.mkdir(exist_ok=True)
    out.mkdir()
    (tree / "train.py").write_text(script, encoding="utf-8")
    Job(mode=mode, out=out, root=tree, device=device, **job).write(folder / "job.json")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (HARNESS, *paths))), "OMP_NUM_THREADS": "1"}
    environment[JOB_VARIABLE] = str(folder / "job.json")
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    # The compiler has to find the harness there when it is imported.
    needs_its_own = device != "cpu" or "compile" in script or "_dynamo" in script
    command = [sys.executable if needs_its_own else python(), *options, "train.py"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert (out / "rank0.json").exists(), f"no record, status {done.returncode}\n{done.stderr}"
    record = json.loads((out / "rank0.json").read_text(encoding="utf-8"))
    return Child(out, record, done.returncode, done.stdout, done.stderr)
