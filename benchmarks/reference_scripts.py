"""Two published training scripts: as written, after `perfmod apply`, and as an expert mended them, side by
side in one run.

    python benchmarks/reference_scripts.py [--json FILE] [--device cuda|cpu] [--only NAME] [--repeats N] [--quick]

Every variant runs in processes of its own, interleaved (as written, rewritten, expert, and again), so that a
slow minute of the machine falls on all of them. `measure.py` says how a script is measured without being
edited. What is shown:

- the time of a step, or samples per second where the loader takes part; medians over the repeats with their
  spread, and the ratio of the rewritten script to the expert's with the limit it must keep;
- loss and gradients of 50 steps on the same data, as written against rewritten, beside the same comparison of
  the script with itself;
- the implicit synchronisations of one step, as PyTorch's own debug mode counts them, with their lines.

The masked loss is fed from batches that were made beforehand and lie on the GPU: its dataset draws random
numbers, which takes longer than the step. ResNet-18 is fed by its own loader: the loader is what is
rewritten. Needs torch, torchvision and Pillow; about nine minutes on one H200 with 16 cores. The exit
code is 1 when a limit is not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, evolve, field, frozen
from rich.console import Console
from rich.table import Table

from perfmod import __version__
from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Outcome

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
VARIANTS = ("original", "rewritten", "expert")
RECORDED_STEPS = 50


@frozen
class Run:
    """One window of one script: `warmup` steps, then `steps` measured ones.

    `made_batches` batches of `batch_size` are made beforehand and cycled through; 0 leaves the script its own
    loader.
    """

    batch_size: int
    warmup: int
    steps: int
    made_batches: int = 0


@frozen
class Workload:
    """One reference script.

    Attributes:
        name: its folder in `reference/`.
        by_samples: judged by samples per second (the loader takes part) instead of the time of a step.
        limit: what rewritten / expert may reach at most (time of a step), or must reach at least (samples per
            second).
        repeats: processes per variant.
        runs: the windows measured in each process.
        recorded: the window whose losses and gradients are compared.
        needs: modules that the script imports and that may be missing.
    """

    name: str
    by_samples: bool
    limit: float
    repeats: int
    runs: tuple[Run, ...]
    recorded: Run
    needs: tuple[str, ...] = ()

    def kept(self, ratio: float) -> bool:
        """Whether a ratio rewritten / expert keeps the limit."""
        return ratio >= self.limit if self.by_samples else ratio <= self.limit


WORKLOADS = (
    Workload(
        name="masked_loss",
        by_samples=False,
        limit=1.02,
        repeats=2,
        runs=(
            Run(8, 20, 80, made_batches=8),
            Run(32, 10, 50, made_batches=4),
            Run(256, 3, 12, made_batches=2),
        ),
        recorded=Run(32, 0, RECORDED_STEPS, made_batches=10),
    ),
    Workload(
        name="cifar_resnet18",
        by_samples=True,
        limit=0.98,
        # The loader runs on processors that others may share: more repeats, because single ones may be slow.
        repeats=7,
        # The warm-up is longer than what eight workers prefetch, and all steps fit into one epoch.
        runs=(Run(32, 60, 240),),
        recorded=Run(32, 0, RECORDED_STEPS),
        needs=("torchvision", "PIL"),
    ),
)


@frozen
class Measured:
    """A figure of one variant, once per repeat."""

    values: list[float] = field(factory=list)

    @property
    def median(self) -> float:
        """The middle of the repeats."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Largest minus smallest repeat, as a share of the median."""
        return (max(self.values) - min(self.values)) / self.median


def tiny(workload: Workload) -> Workload:
    """The same workload, small enough to try the plumbing on a CPU; its figures mean nothing."""
    runs = tuple(Run(2, 1, 2, min(run.made_batches, 2)) for run in workload.runs[:1])
    return evolve(workload, repeats=1, runs=runs, recorded=Run(2, 0, 3, min(workload.recorded.made_batches, 3)))


def place_variants(workload: Workload, scratch: Path) -> dict[str, Path]:
    """The workload's scripts, each in a folder of its own; the rewritten one is made here, by the engine."""
    reference = HERE / "reference" / workload.name
    written = (reference / "original.py").read_bytes()
    result = rewrite(written, "train.py", catalog.rules())
    if result.outcome is not Outcome.CHANGED:
        raise SystemExit(f"{workload.name}: perfmod left the script {result.outcome.value}: {result.reason}")
    texts = {"original": written, "rewritten": result.after, "expert": (reference / "expert.py").read_bytes()}
    scripts = {}
    for variant, text in texts.items():
        scripts[variant] = scratch / workload.name / variant / "train.py"
        scripts[variant].parent.mkdir(parents=True)
        scripts[variant].write_bytes(text)
    return scripts


def measure(script: Path, device: str, runs: tuple[Run, ...], record: Path | None = None) -> list[dict[str, Any]]:
    """Start one process that runs `script` once per run, and hand back what it measured."""
    job = {
        "script": str(script),
        "device": device,
        "runs": [asdict(run) for run in runs],
        "record": str(record or ""),
    }
    entries = [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    paths = [str(entry) for entry in entries if entry != CHECKOUT]
    # The checkout must not be importable: a script's own `transforms` would be shadowed by ours.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, str(HERE / "measure.py")],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        cwd=script.parent,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script.parent.name}: the measured process failed\n{done.stderr}")
    results: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    if record is not None:
        # Warnings from the C++ side (the autograd thread, say) never pass through Python.
        results[0]["native_syncs"] = done.stderr.count("called a synchronizing CUDA operation")
    return results


def time_workload(workload: Workload, scripts: dict[str, Path], device: str, talk: Console) -> list[dict[str, Any]]:
    """One row per run: the figures of every variant, and rewritten / expert against the limit."""
    collected: dict[str, list[list[dict[str, Any]]]] = {variant: [] for variant in VARIANTS}
    for repeat in range(workload.repeats):
        for variant in VARIANTS:
            talk.print(f"{workload.name}: {variant}, repeat {repeat + 1} of {workload.repeats}")
            collected[variant].append(measure(scripts[variant], device, workload.runs))
    rows = []
    for index, run in enumerate(workload.runs):
        row: dict[str, Any] = {
            "script": workload.name,
            "batch_size": run.batch_size,
            "steps": run.steps,
            "variants": {},
        }
        figures: dict[str, Measured] = {}
        for variant in VARIANTS:
            times = [repeat[index]["step_ms"] for repeat in collected[variant]]
            values = [1000 * run.batch_size / ms for ms in times] if workload.by_samples else times
            figures[variant] = Measured(values)
            row["variants"][variant] = {
                "values": values,
                "median": figures[variant].median,
                "spread": figures[variant].spread,
                "peak_mib": collected[variant][0][index]["peak_mib"],
            }
        ratio = figures["rewritten"].median / figures["expert"].median
        row |= {
            "unit": "samples/s" if workload.by_samples else "ms/step",
            "speedup": speedup(workload, figures["original"].median, figures["rewritten"].median),
            "rewritten_over_expert": ratio,
            "limit": workload.limit,
            "kept": workload.kept(ratio),
        }
        rows.append(row)
    return rows


def speedup(workload: Workload, original: float, rewritten: float) -> float:
    """How many times faster the rewritten script is than the original."""
    return rewritten / original if workload.by_samples else original / rewritten


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest distance between two rows of two (rows, elements) tensors, relative to the first's length; NaN
    where either holds one.
    """
    distances = (a - b).norm(dim=1) / a.norm(dim=1).clamp_min(torch.finfo(torch.float64).tiny)
    return float(distances.max())


def compare(workload: Workload, scripts: dict[str, Path], device: str, scratch: Path, talk: Console) -> dict[str, Any]:
    """Losses, gradients, synchronisations: the original against the rewritten script, and against itself."""
    recorded: dict[str, dict[str, torch.Tensor]] = {}
    syncs: dict[str, dict[str, Any]] = {}
    for name, variant in (
        ("original", "original"),
        ("again", "original"),
        ("rewritten", "rewritten"),
        ("expert", "expert"),
    ):
        talk.print(f"{workload.name}: {variant}, recording losses and synchronisations")
        path = scratch / f"{workload.name}-{name}.pt"
        (result,) = measure(scripts[variant], device, (workload.recorded,), path)
        recorded[name] = torch.load(path)
        syncs[name] = {"places": result["syncs"], "native": result["native_syncs"]}
    original = recorded["original"]
    differences = {
        name: {
            "loss": largest_difference(original["losses"][:, None], other["losses"][:, None]),
            "gradient": largest_difference(original["gradients"], other["gradients"]),
            "parameters": largest_difference(original["parameters"][None], other["parameters"][None]),
            "bitwise": all(torch.equal(original[key], other[key]) for key in original),
        }
        for name, other in recorded.items()
        if name != "original"
    }
    return {
        "script": workload.name,
        "batch_size": workload.recorded.batch_size,
        "steps": workload.recorded.steps,
        "losses": original["losses"].tolist(),
        "gradient_steps": len(original["gradients"]),
        "smallest_gradient_norm": float(original["gradients"].norm(dim=1).min()),
        "differences": differences,
        "syncs": {name: syncs[name] for name in VARIANTS},
    }


def machine(device: str) -> dict[str, Any]:
    """What the figures were read off."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }
    try:
        facts["torchvision"] = version("torchvision")
    except PackageNotFoundError:
        facts["torchvision"] = None
    if device.startswith("cuda"):
        facts |= {
            "gpu": torch.cuda.get_device_name(),
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        }
        if shutil.which("nvidia-smi"):
            query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
            answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
            facts["driver"] = answer[0] if answer else None
    return facts


def print_timings(rows: list[dict[str, Any]], console: Console, *, judged: bool) -> None:
    """The figures of every script and batch size, and whether the limit was kept if they are to be judged."""
    table = Table("script", "batch", "unit", *VARIANTS, "speed-up", "rewritten / expert", "limit", "")
    for row in rows:
        cells = [f"{v['median']:.2f} ±{50 * v['spread']:.1f}%" for v in row["variants"].values()]
        sign = "≥" if row["unit"] == "samples/s" else "≤"
        table.add_row(
            row["script"],
            str(row["batch_size"]),
            row["unit"],
            *cells,
            f"{row['speedup']:.2f}x",
            f"{row['rewritten_over_expert']:.3f}",
            f"{sign} {row['limit']}",
            ("pass" if row["kept"] else "FAIL") if judged else "not judged",
        )
    console.print(table)
    memory = Table("script", "batch", *(f"{variant}, peak MiB" for variant in VARIANTS))
    for row in rows:
        peaks = [v["peak_mib"] for v in row["variants"].values()]
        memory.add_row(
            row["script"], str(row["batch_size"]), *("-" if peak is None else f"{peak:.0f}" for peak in peaks)
        )
    console.print(memory)


def print_comparisons(comparisons: list[dict[str, Any]], device: str, console: Console) -> None:
    """How far losses and gradients moved, and which synchronisations a step still makes."""
    table = Table(
        "script",
        "against the original",
        "steps",
        "loss",
        "gradient",
        "parameters after",
        "bitwise",
        "syncs in a step",
    )
    for comparison in comparisons:
        original = comparison["syncs"]["original"]
        for name, difference in comparison["differences"].items():
            syncs = comparison["syncs"].get(name, original)
            count = len(syncs["places"]) + syncs["native"] if device.startswith("cuda") else "-"
            table.add_row(
                comparison["script"],
                "itself" if name == "again" else name,
                str(comparison["steps"]),
                *(f"{difference[key]:.2e}" for key in ("loss", "gradient", "parameters")),
                "yes" if difference["bitwise"] else "no",
                str(count),
            )
    console.print(table)
    for comparison in comparisons:
        for name, syncs in comparison["syncs"].items():
            for place in syncs["places"]:
                console.print(f"{comparison['script']}, {name}, line {place}", highlight=False, markup=False)


def main() -> int:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", help="cpu tries the plumbing only")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the plumbing")
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="processes per variant, instead of each script's number"
    )
    parser.add_argument("--only", choices=[workload.name for workload in WORKLOADS], help="measure one script")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    args = parser.parse_args()
    if args.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("there is no CUDA device; `--device cpu --quick` tries the plumbing")

    started = time.perf_counter()
    talk = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    comparisons: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        for full in WORKLOADS:
            workload = tiny(full) if args.quick else evolve(full, repeats=args.repeats or full.repeats)
            missing = [module for module in workload.needs if find_spec(module) is None]
            if args.only not in (None, workload.name):
                continue
            if missing:
                talk.print(f"{workload.name}: skipped, {', '.join(missing)} is not installed")
                continue
            scripts = place_variants(workload, scratch)
            comparisons.append(compare(workload, scripts, args.device, scratch, talk))
            rows += time_workload(workload, scripts, args.device, talk)

    console = Console() if sys.stdout.isatty() else Console(width=140)
    print_timings(rows, console, judged=not args.quick)
    print_comparisons(comparisons, args.device, console)
    if args.json:
        result = {
            "schema": 1,
            "perfmod": __version__,
            "machine": machine(args.device),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            "wall_s": round(time.perf_counter() - started, 1),
            "timings": rows,
            "comparisons": comparisons,
        }
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if args.quick or all(row["kept"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
