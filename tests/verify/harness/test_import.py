"""How the harness gets into a process: without importing anything for the script, and without being seen by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import harness_child

from perfmod.verify.job import JOB_VARIABLE, Job, Mode


def run(folder: Path, script: str, *paths: Path, job: bool = True) -> tuple[int, str, str]:
    """Status, output and errors of a script that need not import torch."""
    path = folder / "train.py"
    path.write_text(script, encoding="utf-8")
    out = folder / "out"
    out.mkdir(exist_ok=True)
    Job(mode=Mode.EQUALITY, out=out, root=folder, device="cpu").write(folder / "job.json")
    search = os.pathsep.join(map(str, (harness_child.HARNESS, *paths)))
    environment = {**os.environ, "PYTHONPATH": search, JOB_VARIABLE: str(folder / "job.json") if job else ""}
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


WITHOUT_TORCH = """
import importlib.util, random, sys
assert not {"torch", "numpy", "multiprocessing"} & set(sys.modules), sorted(sys.modules)
before = set(sys.modules)
spec = importlib.util.find_spec("torch")
assert type(spec.loader).__name__ == "SourceFileLoader" and spec.loader.get_filename() == spec.origin
assert "torch" not in sys.modules
print(sorted({name.split(".")[0] for name in before if "perfmod_harness" in name}), sys.path[0])
print(random.random())
"""


def test_a_script_without_torch_runs_as_it_does_alone(tmp_path: Path) -> None:
    status, output, errors = run(tmp_path, WITHOUT_TORCH)
    assert (status, errors) == (0, "")
    assert output.startswith(f"['perfmod_harness'] {tmp_path}\n")
    assert list((tmp_path / "out").iterdir()) == []
    # Python's stream is seeded before the script has begun.
    assert run(tmp_path, WITHOUT_TORCH)[1] == output


def test_without_a_job_the_harness_sleeps(tmp_path: Path) -> None:
    script = "import random, sys, torch\nprint(sys.meta_path[0].__class__.__name__, random.random())"
    first, second = (run(tmp_path, script, job=False) for _ in range(2))
    assert first[0] == 0
    assert "_Finder" not in first[1]
    assert first[1] != second[1]


def test_the_environments_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys\nsys.greeting = 'here'\nname = __name__\n", encoding="utf-8")
    script = "import sys, sitecustomize\nprint(sys.greeting, sitecustomize.name, sitecustomize.__file__)"
    status, output, errors = run(tmp_path, script, theirs)
    assert (status, errors) == (0, "")
    assert output == f"here sitecustomize {theirs / 'sitecustomize.py'}\n"


CHANCE = """
import sys
import numpy as np
import torch
assert not any(type(finder).__name__ == "_Finder" and finder.name == "torch" for finder in sys.meta_path)
assert "exec_module" not in vars(torch.__spec__.loader)
first = np.random.default_rng().random(), np.random.default_rng().random()
np.random.seed()
torch.seed()
print(first, np.random.rand(), torch.rand(1).item(), torch.initial_seed())
assert first[0] != first[1]
"""


def test_what_is_left_to_chance_is_the_same_in_every_run(tmp_path: Path) -> None:
    first, second = (run(tmp_path, CHANCE) for _ in range(2))
    assert first[0] == 0, first[2]
    assert first == second
