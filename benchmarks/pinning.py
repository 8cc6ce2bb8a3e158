"""What do pinned batches gain, with workers and without? The figures behind PM202's default.

    python benchmarks/pinning.py [--batch SIZE] [--out FILE]

Trains on a CUDA device through a `DataLoader` of generated samples, as written and with `pin_memory=True` and
`non_blocking=True` on the copies; for small and large batches, samples that come from memory and samples that cost
time, a step of many small kernels and one of few large ones, and 0 or 4 workers. The two are interleaved in one
process; what is written to `results/pinning_h200.json` is the median of milliseconds per step of each, and their
ratio with the quartiles of the paired rounds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from revision import revision
from torch.utils.data import DataLoader, Dataset

RESULTS = Path(__file__).resolve().parent / "results" / "pinning_h200.json"
_SHAPES = {"0.1 MiB": (32, 28 * 28), "1.5 MiB": (128, 3 * 32 * 32), "18 MiB": (32, 3 * 224 * 224)}
"""Samples of a batch and values of a sample, by the size of a batch of float32."""
_ROUNDS = 7
_STEPS = 20


class Samples(Dataset[tuple[torch.Tensor, int]]):
    """Samples from memory, or ones that arithmetic on the CPU makes first, as decoding and augmenting would."""

    def __init__(self, batch: int, values: int, *, costly: bool) -> None:
        self.stored = torch.rand(64, values)
        self.length = batch * _STEPS
        self.costly = costly

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        sample = self.stored[index % len(self.stored)]
        if self.costly:
            for _ in range(4):
                sample = sample.mul(0.9).add(0.1)
        return sample, index % 10


def small_kernels(values: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A step that the launches of many small kernels fill."""
    first = torch.nn.Linear(values, 64)
    hidden = [layer for _ in range(20) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    return _step(torch.nn.Sequential(first, *hidden, torch.nn.Linear(64, 10)))


def large_kernels(values: int) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A step of a few kernels that keep the device busy for some ten milliseconds."""
    model = torch.nn.Sequential(torch.nn.Linear(values, 4096), Repeated(), torch.nn.Linear(4096, 10))
    return _step(model)


class Repeated(torch.nn.Module):
    """A wide layer's products, over and over."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4096, 4096) / 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, 4096), as it comes in."""
        product = self.weight
        for _ in range(2):
            product = product @ self.weight
        return x @ product


def _step(model: torch.nn.Module) -> Callable[[torch.Tensor, torch.Tensor], None]:
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def epoch(
    loader: DataLoader[tuple[torch.Tensor, int]],
    step: Callable[[torch.Tensor, torch.Tensor], None],
    *,
    pinned: bool,
) -> float:
    """Milliseconds per step of an epoch; the first four steps, with the start of the workers, are left out."""
    begun = 0.0
    for done, (x, y) in enumerate(loader):
        if done == 4:
            torch.cuda.synchronize()
            begun = time.perf_counter()
        step(x.cuda(non_blocking=pinned), y.cuda(non_blocking=pinned))
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) * 1000 / (len(loader) - 4)


def measured(shape: str, kind: str, *, costly: bool, workers: int) -> dict[str, Any]:
    """The row of one case."""
    batch, values = _SHAPES[shape]
    samples = Samples(batch, values, costly=costly)
    step = {"small kernels": small_kernels, "large kernels": large_kernels}[kind](values)
    times: dict[bool, list[float]] = {False: [], True: []}
    loaders = {
        pinned: DataLoader(
            samples, batch_size=batch, num_workers=workers, pin_memory=pinned, persistent_workers=workers > 0
        )
        for pinned in times
    }
    for index in range(_ROUNDS + 1):
        order = (False, True) if index % 2 else (True, False)
        for pinned in order:
            taken = epoch(loaders[pinned], step, pinned=pinned)
            if index:
                times[pinned].append(taken)
    ratios = [plain / pinned for plain, pinned in zip(times[False], times[True], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return {
        "batch": shape,
        "samples": "costly" if costly else "from memory",
        "step": kind,
        "workers": workers,
        "as_written_ms": round(statistics.median(times[False]), 3),
        "pinned_ms": round(statistics.median(times[True]), 3),
        "ratio": round(middle, 3),
        "quartiles": [round(low, 3), round(high, 3)],
    }


def main() -> None:
    """Measure every case and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batch", choices=_SHAPES, help="batches of this size alone")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    out: Path = asked.out
    rows = []
    shapes = [asked.batch] if asked.batch else list(_SHAPES)
    cases = itertools.product(shapes, ("small kernels", "large kernels"), (False, True), (0, 4))
    for shape, kind, costly, workers in cases:
        rows.append(measured(shape, kind, costly=costly, workers=workers))
        print(json.dumps(rows[-1]), flush=True)
    found = {
        "commit": revision(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cpu": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "rows": rows,
    }
    out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
