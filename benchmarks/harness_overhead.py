"""What does the harness of a timing run cost?

    python benchmarks/harness_overhead.py [--json FILE] [--device cuda|cpu] [--repeats N] [--quick] [--only LOOP]

A plain training loop measures its own steps, a tiny one (some 0.3 ms, bound by the host) and a bigger one (some 5 ms,
bound by the device). Two comparisons:

- fresh processes with and without the harness, in the order A B B A ...: the ratio of their steps, as the median of the
  neighbours' ratios with a 95 % interval. It includes everything, and the noise between processes.
- blocks of steps with and without the harness's hook, alternating within one process: what the hook adds to a step.
  Nothing else differs, so the noise is small.

The exit code is 1 where the hook takes more than 0.5 % of a step, or where the interval of the ratio lies above 1.005.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen
from revision import revision

from perfmod.verify import harness
from perfmod.verify.job import JOB_VARIABLE, Job, Mode

LIMIT = 0.005
WARM_UP = 200
BLOCK = 20
HARNESS = Path(harness.__file__).parent


@frozen
class Loop:
    """A multilayer perceptron of `layers` square layers, and how many of its steps are measured."""

    name: str
    layers: int
    width: int
    batch: int
    steps: int


LOOPS = {
    "cuda": (Loop("tiny", 3, 64, 32, 2000), Loop("bigger", 3, 2048, 4096, 400)),
    "cpu": (Loop("tiny", 3, 64, 32, 2000), Loop("bigger", 3, 256, 256, 400)),
}


@frozen
class Overhead:
    """Of one loop.

    Attributes:
        without_ms, with_ms: medians over the processes of a step's time.
        ratio, low, high: with / without.
        hook_us: what the hook adds to a step, median over the processes.
        hook_share: of the step without it.
    """

    loop: str
    without_ms: float
    with_ms: float
    ratio: float
    low: float
    high: float
    hook_us: float
    hook_share: float

    def kept(self) -> bool:
        """Whether the limit is kept."""
        return self.hook_share <= LIMIT and self.low <= 1 + LIMIT


# In the measured process


def measure(loop: Loop, device: str) -> dict[str, float]:
    """Milliseconds of a step; and what the hook adds in microseconds, where there is one."""
    import torch
    from torch.optim import optimizer as optimizers

    torch.manual_seed(0)
    layers = [layer for _ in range(loop.layers) for layer in (torch.nn.Linear(loop.width, loop.width), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(loop.batch, loop.width, device=device)

    def train(steps: int) -> float:
        """Seconds of so many steps, from an idle device to an idle device."""
        started = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - started

    train(WARM_UP)
    result = {"ms": 1000 * train(loop.steps) / loop.steps}
    hooks = optimizers._global_optimizer_post_hooks
    if hooks:
        kept = dict(hooks)
        blocks: dict[bool, list[float]] = {True: [], False: []}
        for number in range(loop.steps // BLOCK):
            hooked = number % 4 in (1, 2)
            hooks.update(kept) if hooked else hooks.clear()
            blocks[hooked].append(train(BLOCK) / BLOCK)
        hooks.update(kept)
        result["hook_us"] = 1e6 * (statistics.median(blocks[True]) - statistics.median(blocks[False]))
    return result


# In the measuring one


def run(loop: Loop, device: str, *, with_harness: bool) -> dict[str, float]:
    """Measure the loop in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ)
        if with_harness:
            # A window that the loop does not outlast, begun while the loop warms up.
            job = Job(
                mode=Mode.TIMING,
                out=Path(folder),
                root=Path(folder),
                device=device,
                warmup_steps=20,
                warmup_seconds=0.0,
                window_steps=2 * loop.steps + WARM_UP,
                window_seconds=0.0,
                longest_seconds=3600.0,
            )
            path = Path(folder, "job.json")
            job.write(path)
            search = os.pathsep.join(filter(None, (str(HARNESS), os.environ.get("PYTHONPATH"))))
            environment.update({"PYTHONPATH": search, JOB_VARIABLE: str(path)})
        command = [sys.executable, __file__, "--device", device, "--measure", loop.name, "--steps", str(loop.steps)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        result: dict[str, float] = json.loads(done.stdout)
        if with_harness:
            record = json.loads(Path(folder, "rank0.json").read_text(encoding="utf-8"))
            assert record["window_steps"] >= loop.steps, "the window did not cover the loop"
        return result


def compare(loop: Loop, device: str, repeats: int) -> Overhead:
    """Run the loop `repeats` times with and without the harness."""
    without: list[dict[str, float]] = []
    with_it: list[dict[str, float]] = []
    for number in range(repeats):
        for harnessed in (False, True) if number % 2 == 0 else (True, False):
            (with_it if harnessed else without).append(run(loop, device, with_harness=harnessed))
    ratios = [one["ms"] / other["ms"] for one, other in zip(with_it, without, strict=True)]
    low, high = interval(ratios)
    plain = statistics.median(each["ms"] for each in without)
    hook = statistics.median(each["hook_us"] for each in with_it)
    return Overhead(
        loop=loop.name,
        without_ms=plain,
        with_ms=statistics.median(each["ms"] for each in with_it),
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        hook_us=hook,
        hook_share=hook / (1000 * plain),
    )


def interval(values: Sequence[float], resamples: int = 2000) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(resamples))
    return medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


def line(overhead: Overhead) -> str:
    """What came out, to be read."""
    return (
        f"{overhead.loop:7} {overhead.without_ms:8.4f} ms without, {overhead.with_ms:8.4f} ms with the harness: "
        f"{overhead.ratio:.4f} ({overhead.low:.4f} to {overhead.high:.4f}); "
        f"hook {overhead.hook_us:+.2f} us, {100 * overhead.hook_share:+.2f} % of the step"
        f"{'' if overhead.kept() else f'; above the limit of {100 * LIMIT} %'}"
    )


def main() -> int:
    """Compare both loops and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=sorted(LOOPS), default="cuda")
    parser.add_argument("--repeats", type=int, default=10, help="processes with and without the harness, per loop")
    parser.add_argument("--quick", action="store_true", help="a quarter of the steps, for trying")
    parser.add_argument("--only", choices=[loop.name for loop in LOOPS["cuda"]], help="one of the loops")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    loops = [loop for loop in LOOPS[options.device] if options.only in (None, loop.name)]
    if options.measure:
        (loop,) = (each for each in loops if each.name == options.measure)
        print(json.dumps(measure(evolve(loop, steps=options.steps), options.device)))
        return 0
    found = []
    for loop in loops:
        steps = loop.steps // 4 if options.quick else loop.steps
        found.append(compare(evolve(loop, steps=steps), options.device, options.repeats))
        print(line(found[-1]), flush=True)
    if options.json:
        rows: list[dict[str, Any]] = [{**asdict(each), "kept": each.kept()} for each in found]
        document = {
            "schema": 1,
            "commit": revision(),
            "device": options.device,
            "repeats": options.repeats,
            "limit": LIMIT,
            "loops": rows,
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0 if all(each.kept() for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
