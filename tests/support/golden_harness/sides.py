"""Both sides of a golden, run on the same inputs: the functions that the tests ask."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
import torchvision_cpu
from forked_python import THREADS, python
from torch import Tensor, nn

from golden_harness.compare import differences
from golden_harness.make import FLAVOURS, MASKS, Make
from golden_harness.probe import Outcome, arguments, load, run
from golden_harness.settings import restored_settings
from perfmod.transforms.finding import Numerics

TRIALS: Final = len(FLAVOURS) * len(MASKS)
"""Every flavour of values with every kind of mask."""
SCRIPT_SECONDS: Final = 300
_SYNC: Final = "called a synchronizing CUDA operation"
_STARTED_BY: Final = """
import multiprocessing, runpy, sys
multiprocessing.set_start_method(sys.argv.pop(1))
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class NothingShown(Exception):
    """A golden that proves nothing: none of its calls came back with a result."""


def compare_probes(
    before: bytes, after: bytes, numerics: Numerics, folder: Path, device: str = "cpu", trials: int = TRIALS
) -> list[str]:
    """Run the `probe` of both sides on the cases of `trials` trials and name every difference.

    Raises:
        NothingShown: every call of the original raised, so that equality would mean nothing.
    """
    found: list[str] = []
    returned = 0
    for trial in range(trials if b"def cases(" in before else min(trials, 2)):
        old = _outcomes(before, "old", folder, trial, device)
        new = _outcomes(after, "new", folder, trial, device)
        shaken: list[Outcome] = []
        if numerics is Numerics.ROUNDING:
            shaken = _outcomes(before, "shaken", folder, trial, device, nudge=True)
        returned += sum("raised" not in outcome for outcome in old)
        for index, pair in enumerate(zip(old, new, strict=True)):
            place = f"trial {trial} ({Make(trial).flavour} values, {Make(trial).masks} masked), case {index}"
            control = shaken[index] if shaken else None
            found += [f"{place}: {line}" for line in differences(*pair, numerics, control)]
    if not returned:
        raise NothingShown("every call of the original raised an exception")
    return found


def _outcomes(code: bytes, side: str, folder: Path, trial: int, device: str, *, nudge: bool = False) -> list[Outcome]:
    outcomes = []
    with restored_settings():
        module, printed = load(code, f"golden_{side}", folder, seed=trial)
        for index, args in enumerate(arguments(module, Make(trial, device))):
            if nudge:
                _nudge(args, seed=trial)
            outcome = run(module.probe, args, seed=1000 * trial + index)
            outcomes.append({**outcome, "printed at import": printed})
    return outcomes


def _nudge(args: Sequence[Any], seed: int) -> None:
    """Move every floating-point argument up or down by about one rounding step, or leave it."""
    generator = torch.Generator().manual_seed(seed)
    for arg in args:
        for tensor in arg.parameters() if isinstance(arg, nn.Module) else (arg,):
            if isinstance(tensor, Tensor) and tensor.dtype.is_floating_point:
                steps = torch.randint(-1, 2, tensor.shape, generator=generator).to(tensor)
                with torch.no_grad():
                    tensor.mul_(1 + torch.finfo(tensor.dtype).eps * steps)


_ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
"""What `torchrun --nproc-per-node=1` tells its process."""


def run_script(code: bytes, folder: Path, start_method: str | None = None) -> tuple[int, str]:
    """Run `code` as a user does, in an empty folder of its own; exit status and what it printed on stdout.

    `start_method` starts worker processes by `spawn` or `forkserver` instead of the platform's default.
    """
    return run_project({"train.py": code}, folder, start_method)


def run_project(files: Mapping[str, bytes], folder: Path, start_method: str | None = None) -> tuple[int, str]:
    """Run the `train.py` among files that import each other, like `run_script`."""
    for path, code in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(code)
    script = folder / "train.py"
    code = b"\n".join(files.values())
    command = [python(), str(script)]
    if start_method:
        command = [sys.executable, "-c", _STARTED_BY, start_method, str(script)]
    environment = torchvision_cpu.environment() if b"torchvision" in code else dict(os.environ)
    environment |= _ALONE if b"init_process_group" in code else {}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **THREADS, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stderr)
    return done.returncode, done.stdout


def count_syncs(code: bytes, hot: str, folder: Path) -> int:
    """How many implicit synchronisations a call of the function `hot` makes on CUDA; the first call warms up.

    Where calls differ the most counts, so that an empty last batch hides nothing.

    Raises:
        NothingShown: the probe raised, or called `hot` only once.
    """
    counts: list[int] = []
    with restored_settings(), _counting(module := load(code, "golden_counted", folder)[0], hot, counts):
        for trial in range(2):
            for index, args in enumerate(arguments(module, Make(trial, "cuda"))):
                outcome = run(module.probe, args, seed=index)
                if "raised" in outcome:
                    raise NothingShown(f"the probe raised {outcome['raised']!r} on CUDA")
    if len(counts) < 2:
        raise NothingShown(f"{hot} was called {len(counts)} times; the first call only warms up")
    return max(counts[1:])


@contextmanager
def _counting(module: ModuleType, hot: str, counts: list[int]) -> Iterator[None]:
    owner: Any = module
    *path, name = hot.split(".")
    for part in path:
        owner = getattr(owner, part)
    original: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(original)
    def counted(*args: object, **kwargs: object) -> object:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                return original(*args, **kwargs)
            finally:
                torch.cuda.set_sync_debug_mode("default")
                counts.append(sum(_SYNC in str(warning.message) for warning in caught))

    setattr(owner, name, counted)
    try:
        yield
    finally:
        setattr(owner, name, original)
