"""Runs a training script as it stands and measures its optimizer steps; `reference_scripts.py` starts one
process per variant.

Nothing of the script is edited. `DataLoader` and the optimizer's step hook are patched instead: the batch
size is overridden, the data can be made beforehand, and the script is stopped from the hook once enough
steps are done. Only the standard library and torch are imported, so the script meets the modules that it
would meet on its own.

A job is read from standard input as JSON and its results are written to standard output as one line of JSON.
"""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import json
import random
import runpy
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import DataLoader

SEED = 20240501
# Above this many parameters only the first step's gradients are kept, not those of every step.
FEW_PARAMETERS = 1_000_000


class Enough(BaseException):
    """Stops the script; no `Exception`, because scripts swallow those."""


def synchronize(device: str) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


class StepClock:
    """Wall-clock time of `steps` optimizer steps after `warmup`, with one synchronisation at each end."""

    def __init__(self, device: str, warmup: int, steps: int) -> None:
        self.device, self.warmup, self.steps = device, warmup, steps
        self.done = 0
        self.started = 0.0
        self.elapsed = 0.0

    def after_step(self, *_: object) -> None:
        """Count a step; start the clock after the last one of the warm-up, stop the script after the last one
        of all.
        """
        self.done += 1
        if self.done == self.warmup:
            synchronize(self.device)
            if self.device.startswith("cuda"):
                torch.cuda.reset_peak_memory_stats()
            self.started = time.perf_counter()
        elif self.done == self.warmup + self.steps:
            synchronize(self.device)
            self.elapsed = time.perf_counter() - self.started
            raise Enough

    def result(self) -> dict[str, object]:
        """Milliseconds per step, and the peak of allocated device memory in MiB."""
        cuda = self.device.startswith("cuda")
        return {
            "step_ms": 1000 * self.elapsed / self.steps,
            "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if cuda else None,
        }


class Recorder:
    """Loss and gradients of `steps` steps, then the implicit synchronisations of one more."""

    def __init__(self, device: str, steps: int) -> None:
        self.device, self.steps = device, steps
        self.done = 0
        self.losses: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []
        self.parameters: torch.Tensor | None = None

    def record_loss(self, loss: torch.Tensor) -> None:
        """Keep the loss on its device; reading it would be a synchronisation of ours."""
        if self.done < self.steps:
            self.losses.append(loss.detach().clone())

    def after_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        """Keep the step's gradients, and watch one step for synchronisations once `steps` are done."""
        self.done += 1
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if self.done <= self.steps and (self.done == 1 or sum(p.numel() for p in parameters) < FEW_PARAMETERS):
            self.gradients.append(torch.cat([p.grad.flatten() for p in parameters]))
        if self.done == self.steps:
            self.parameters = torch.cat([p.detach().flatten() for p in parameters])
            if self.device.startswith("cuda"):
                torch.cuda.set_sync_debug_mode("warn")
        elif self.done > self.steps:
            if self.device.startswith("cuda"):
                torch.cuda.set_sync_debug_mode("default")
            raise Enough

    def save(self, path: Path) -> None:
        """Write losses (steps), gradients (steps, elements) and the last parameters as float64 on the CPU."""
        assert self.parameters is not None, "the script ended before the last step that was to be recorded"
        tensors = {
            "losses": torch.stack(self.losses),
            "gradients": torch.stack(self.gradients),
            "parameters": self.parameters,
        }
        torch.save({name: tensor.double().cpu() for name, tensor in tensors.items()}, path)


def loader_with_batch_size(batch_size: int) -> Callable[..., None]:
    """`DataLoader.__init__` with another batch size."""
    original = DataLoader.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(self: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
        arguments = signature.bind(self, *args, **kwargs)
        arguments.arguments["batch_size"] = batch_size
        original(*arguments.args, **arguments.kwargs)

    return init


def iteration_over_made_batches(count: int, device: str) -> Callable[[DataLoader[Any]], Iterator[list[torch.Tensor]]]:
    """`DataLoader.__iter__` over `count` batches that were made beforehand and lie on the device, again and
    again.

    Every step gets its own copy, because a script may write into its batch. Drawing the batches leaves the
    script's random numbers alone.
    """

    def iterate(self: DataLoader[Any]) -> Iterator[list[torch.Tensor]]:
        assert self.batch_size is not None
        batches = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            for first in range(0, count * self.batch_size, self.batch_size):
                batch = self.collate_fn([self.dataset[first + i] for i in range(self.batch_size)])
                batches.append([part.to(device) for part in batch])
        for batch in itertools.cycle(batches):
            yield [part.clone() for part in batch]

    return iterate


class _Device(type):
    """Lets `torch.device("cuda:0")` be the CPU, for trying the plumbing of this benchmark on a machine
    without a GPU.
    """

    real = torch.device

    def __call__(cls, *_: object) -> torch.device:
        return cls.real("cpu")

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.real)


class _CpuOnly(metaclass=_Device):
    pass


def _stays_on_cpu(module: torch.nn.Module, *_: object) -> torch.nn.Module:
    return module


def uncounted(items: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """`enumerate` that stays at 0: the reference scripts leave their loop at step 100, too early for a long
    window.
    """
    return ((0, item) for item in items)


@contextmanager
def patched(job: dict[str, Any], run: dict[str, Any], watch: StepClock | Recorder) -> Iterator[None]:
    """Everything that makes a script measurable, for as long as the context lasts."""
    with ExitStack() as stack:
        if run["batch_size"]:
            stack.enter_context(mock.patch.object(DataLoader, "__init__", loader_with_batch_size(run["batch_size"])))
        if run["made_batches"]:
            made = iteration_over_made_batches(run["made_batches"], job["device"])
            stack.enter_context(mock.patch.object(DataLoader, "__iter__", made))
        if isinstance(watch, Recorder):
            original = torch.Tensor.backward

            @functools.wraps(original)
            def backward(self: torch.Tensor, *args: Any, **kwargs: Any) -> None:
                watch.record_loss(self)
                original(self, *args, **kwargs)  # type: ignore[no-untyped-call]

            stack.enter_context(mock.patch.object(torch.Tensor, "backward", backward))
        if job["device"] == "cpu":
            stack.enter_context(mock.patch.object(torch, "device", _CpuOnly))
            stack.enter_context(mock.patch.object(torch.nn.Module, "cuda", _stays_on_cpu))
        handle = register_optimizer_step_post_hook(watch.after_step)
        stack.callback(handle.remove)
        yield


def seed() -> None:
    """Seed every source of random numbers that a script draws from."""
    random.seed(SEED)
    torch.manual_seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED % 2**32)


def run_script(job: dict[str, Any], run: dict[str, Any], watch: StepClock | Recorder) -> list[str]:
    """Run the job's script until `watch` has seen enough; the implicit synchronisations that were warned of,
    as `line: code`.
    """
    script = Path(job["script"])
    sys.path[0] = str(script.parent)
    sys.argv = [str(script), job["device"]]
    seed()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with patched(job, run, watch):
            try:
                runpy.run_path(str(script), init_globals={"enumerate": uncounted}, run_name="__main__")
            except Enough:
                pass
            else:
                raise RuntimeError(f"{script} ended after {watch.done} optimizer steps, too early to be measured")
    lines = script.read_text().splitlines()
    return [
        f"{warning.lineno}: {lines[warning.lineno - 1].strip()}"
        if Path(warning.filename) == script
        else f"{warning.filename.rpartition('site-packages/')[2]}:{warning.lineno}"
        for warning in caught
        if "synchronizing CUDA operation" in str(warning.message)
    ]


def main() -> None:
    """Read the job, do its runs one after the other, write their results."""
    job = json.load(sys.stdin)
    # Imported before seeding, so that NumPy's global generator is seeded for every script that uses it.
    import numpy as np  # noqa: F401

    results: list[dict[str, object]] = []
    for run in job["runs"]:
        if job["record"]:
            torch.backends.cudnn.deterministic = True
            recorder = Recorder(job["device"], run["steps"])
            syncs = run_script(job, run, recorder)
            recorder.save(Path(job["record"]))
            results.append({"syncs": syncs})
        else:
            clock = StepClock(job["device"], run["warmup"], run["steps"])
            run_script(job, run, clock)
            results.append(clock.result())
        gc.collect()
        if job["device"].startswith("cuda"):
            torch.cuda.empty_cache()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
