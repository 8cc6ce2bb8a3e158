"""What does the harness of a timing run cost?

    python benchmarks/harness_overhead.py [--json FILE] [--device cuda|cpu] [--repeats N] [--quick] [--only LOOP]

A plain training loop measures its own steps, a tiny one (some 0.3 ms, bound by the host) and a bigger one (some 5 ms,
bound by the device). Three measurements, each with a 95 % interval:

- the time from the call of the harness's hook to its return, the mean over the steps of a process; the clock's own time
  counts with it. The hook is all that the harness does during the window, so a step is longer by no more than this. The
  device may hide it: where the host is ahead, it is time that the host would have waited for a place in the queue.
- blocks of steps with and without the hook, alternating within one process: how much longer a step is with it.
- fresh processes with and without the harness, in the order A B B A ...: the ratio of their steps. It includes
  everything, and the noise between processes.

Each of the first two can show that the limit of 0.5 % of a step is kept, with its whole interval. The exit code is 1
where neither does, or where the interval of the last one lies above the limit.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen
from revision import revision

from perfmod.verify import harness
from perfmod.verify.job import JOB_VARIABLE, Job, Mode

LIMIT = 0.005
WARM_UP = 200
BLOCK = 20
ALTERNATING = 4
"""Times a loop's steps that the blocks have together."""
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
class Estimate:
    """A median with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], resamples: int = 2000) -> Estimate:
        """Of these values."""
        draw = random.Random(0)
        medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(resamples))
        return cls(statistics.median(values), medians[int(0.025 * resamples)], medians[int(0.975 * resamples)])


@frozen
class Overhead:
    """Of one loop.

    Attributes:
        without_ms, with_ms: medians over the processes of a step's time.
        ratio: with / without.
        hook_us: microseconds from the hook's call to its return.
        hook_share: of the step without it.
        added_share: of the step without it, by which a step was longer in blocks with the hook.
    """

    loop: str
    without_ms: float
    with_ms: float
    ratio: Estimate
    hook_us: Estimate
    hook_share: Estimate
    added_share: Estimate

    def kept(self) -> bool:
        """Whether the limit is kept."""
        return min(self.hook_share.high, self.added_share.high) <= LIMIT and self.ratio.low <= 1 + LIMIT


# In the measured process


def measure(loop: Loop, device: str) -> dict[str, Any]:
    """Milliseconds of a step; with a hook also the microseconds that it takes, and the milliseconds that it adds."""
    import torch
    from torch.optim import optimizer as optimizers

    torch.manual_seed(0)
    layers = [layer for _ in range(loop.layers) for layer in (torch.nn.Linear(loop.width, loop.width), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(loop.batch, loop.width, device=device)

    def train(steps: int) -> float:
        """Milliseconds of a step, from an idle device to an idle device."""
        started = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - started) / steps

    train(WARM_UP)
    result: dict[str, Any] = {"ms": train(loop.steps)}
    hooks = optimizers._global_optimizer_post_hooks
    if hooks:
        kept = dict(hooks)
        seconds = 0.0

        def timed(hook: Callable[..., None]) -> Callable[..., None]:
            def call(*arguments: Any) -> None:
                nonlocal seconds
                called = time.perf_counter()
                hook(*arguments)
                seconds += time.perf_counter() - called

            return call

        hooks.update({key: timed(hook) for key, hook in kept.items()})
        train(loop.steps)
        result["hook_us"] = 1e6 * seconds / loop.steps

        def block(hooked: bool) -> float:
            hooks.update(kept) if hooked else hooks.clear()
            return train(BLOCK)

        # In the order off, on, on, off a drift cancels.
        result["added_ms"] = []
        for _ in range(ALTERNATING * loop.steps // (4 * BLOCK)):
            off, on, again_on, again_off = block(False), block(True), block(True), block(False)
            result["added_ms"].append((on + again_on - off - again_off) / 2)
        hooks.update(kept)
    return result


# In the measuring one


def run(loop: Loop, device: str, *, with_harness: bool) -> dict[str, Any]:
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
                window_steps=(2 + ALTERNATING) * loop.steps + WARM_UP,
                window_seconds=0.0,
                longest_seconds=3600.0,
            )
            path = Path(folder, "job.json")
            job.write(path)
            search = os.pathsep.join(filter(None, (str(HARNESS), os.environ.get("PYTHONPATH"))))
            environment.update({"PYTHONPATH": search, JOB_VARIABLE: str(path)})
        command = [sys.executable, __file__, "--device", device, "--measure", loop.name, "--steps", str(loop.steps)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
        result: dict[str, Any] = json.loads(done.stdout)
        if with_harness:
            record = json.loads(Path(folder, "rank0.json").read_text(encoding="utf-8"))
            assert record["window_steps"] >= loop.steps, "the window did not cover the loop"
        return result


def compare(loop: Loop, device: str, repeats: int) -> Overhead:
    """Run the loop `repeats` times with and without the harness."""
    without: list[dict[str, Any]] = []
    with_it: list[dict[str, Any]] = []
    for number in range(repeats):
        for harnessed in (False, True) if number % 2 == 0 else (True, False):
            (with_it if harnessed else without).append(run(loop, device, with_harness=harnessed))
    plain = statistics.median(each["ms"] for each in without)
    return Overhead(
        loop=loop.name,
        without_ms=plain,
        with_ms=statistics.median(each["ms"] for each in with_it),
        ratio=Estimate.of([one["ms"] / other["ms"] for one, other in zip(with_it, without, strict=True)]),
        hook_us=Estimate.of([each["hook_us"] for each in with_it]),
        hook_share=Estimate.of([each["hook_us"] / (1000 * plain) for each in with_it]),
        added_share=Estimate.of([added / plain for each in with_it for added in each["added_ms"]]),
    )


def line(overhead: Overhead) -> str:
    """What came out, to be read."""

    def percent(share: Estimate) -> str:
        return f"{100 * share.median:+.2f} % ({100 * share.low:+.2f} to {100 * share.high:+.2f})"

    ratio = overhead.ratio
    return (
        f"{overhead.loop:7} {overhead.without_ms:8.4f} ms; the hook takes {overhead.hook_us.median:.2f} us, "
        f"{percent(overhead.hook_share)} of the step; switched on and off {percent(overhead.added_share)}; "
        f"between processes {ratio.median:.4f} ({ratio.low:.4f} to {ratio.high:.4f})"
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
            "schema": 2,
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
