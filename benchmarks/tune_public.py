"""`perfmod tune` on the reference scripts and on public ones, next to a stack of settings that was chosen by hand.

    python benchmarks/tune_public.py [--sources DIR] [--hand DIR] [--graphed DIR] [--json FILE] [--reports DIR]
                                     [--only NAME ...] [--budget 5m] [--allow CLASS] [--rounds 5]
                                     [--found DIR] [--device cuda|cpu] [--python PY]

The public scripts are those of `public_scripts.toml`, which `verify_public.py` describes; they are left out without
`--sources`. A stack by hand is a patch of such a script, `<name>.patch` in the folder of `--hand`, and the expert's
version of a reference script. Whoever writes one does not know what perfmod writes, and may do everything but record
the whole step as a CUDA graph; those in the folder of `--graphed` do that too (a line `steps of a replay: 10` in front
of such a patch says that a graph holds several). The patches hold lines of other people's scripts and are no part of
this repository.

Each script is tuned first. Then the script as written, as tuned and as made faster by hand are timed in turns, in
processes that are warm at the same time, with new processes in each round; one that records its steps by hand is timed
by `replay_timing.py` at the end of each round. FILE gets a row for each script, once it is
tuned and again once it is timed: the stack, its verdict, the times of a step in every round, and how close the tuned
script comes to those by hand (1.0 is as fast). Rows of scripts that this run leaves out are kept. A journal in
the folder of `--reports` lets a second call go on with the search. The exit code is 1 when a script was slower than
0.85 of the one by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from rich.console import Console
from rich.table import Table
from verify_public import PublicScript, Results, scripts

from perfmod.tune.bench import mean_ms, no_time
from perfmod.verify.request import Request
from perfmod.verify.sides import Side
from perfmod.verify.tree import Tree
from perfmod.verify.verification import opened

HERE = Path(__file__).resolve().parent
REFERENCE = {
    "masked_loss": ("masked_loss", None),
    "cifar_resnet18": ("cifar_resnet18", None),
    "cifar_resnet18_1024": ("cifar_resnet18", 1024),
}
"""Folder, and the batch size that is asked for; None for the script's own."""
MORE_SAMPLES = "size=(10000", "size=(100000"
"""So many are enough for steps of large batches."""
USUAL_BATCH = 32
"""Of a reference script that is trained with another one."""
VARIANTS = ("original", "tuned", "hand", "graphed")
NUMBERS = ("gain", "by_hand", "of_hand", "by_graphed", "of_graphed")
LEAST = 0.85
"""Of the speed of the script by hand."""


@frozen
class Case:
    """A script that is tuned: one of the reference scripts, or a public one."""

    name: str
    public: PublicScript | None = None

    @property
    def batch(self) -> int | None:
        """The batch size to train with; None for the script's own."""
        return REFERENCE[self.name][1] if self.public is None else None

    @property
    def arguments(self) -> Sequence[str]:
        """Of the script."""
        return self.public.arguments if self.public is not None else ()

    def place(self, variant: str, settings: Settings, scratch: Path) -> Path | None:
        """Put a variant into a folder of its own; its script, or None where there is no such variant.

        Raises:
            LookupError: the public script is missing.
            CalledProcessError: the patch does not apply.
        """
        patches = {"hand": settings.hand if self.public else None, "graphed": settings.graphed}.get(variant)
        patch = patches / f"{self.name}.patch" if patches is not None else None
        is_patched = patch is not None and patch.exists()
        if not is_patched and (variant == "graphed" or (variant == "hand" and self.public)):
            return None
        folder = scratch / variant
        folder.mkdir()
        if self.public is None:
            root, script = folder, self._place_reference(folder, by_hand=variant == "hand")
        else:
            assert settings.sources is not None
            root, script = folder / self.public.slug.rpartition("/")[2], self.public.place(settings.sources, folder)
        if is_patched:
            subprocess.run(["git", "apply", "--unsafe-paths", str(patch)], cwd=root, check=True)
        return script

    def _place_reference(self, folder: Path, *, by_hand: bool) -> Path:
        script = folder / "train.py"
        expert = "expert.py" if self.batch is None else f"expert_{self.batch}.py"
        source = HERE / "reference" / REFERENCE[self.name][0] / (expert if by_hand else "original.py")
        text = source.read_text("utf-8")
        script.write_text(text if self.batch is None else text.replace(*MORE_SAMPLES), "utf-8")
        (folder / "pyproject.toml").touch()
        return script


@frozen
class Settings:
    """The options of this program."""

    sources: Path | None
    hand: Path | None
    graphed: Path | None
    reports: Path | None
    found: Path | None
    budget: str
    allow: str
    rounds: int
    device: str
    python: str


def placed(case: Case, settings: Settings, scratch: Path) -> dict[str, Path]:
    """The script of each variant, in `scratch`. Raises `LookupError` or `CalledProcessError`."""
    found = {variant: case.place(variant, settings, scratch) for variant in VARIANTS}
    return {variant: path for variant, path in found.items() if path is not None}


def tuned(case: Case, settings: Settings, script: Path, scratch: Path) -> dict[str, Any]:
    """Tune a script, as it stands there afterwards; its row, without times."""
    started = time.perf_counter()
    row: dict[str, Any] = {"name": case.name, "verdict": "failed", "reason": ""}
    reports = (settings.reports or scratch / "reports") / case.name
    reports.mkdir(parents=True, exist_ok=True)
    options = ["--budget", settings.budget, "--allow", settings.allow, "--device", settings.device]
    options += ["--python", settings.python, "--report", str(reports.resolve()), "--write", "--output-format", "json"]
    if case.batch is not None:
        options += ["--batch", str(case.batch)]
    with (reports / "progress.txt").open("w+", encoding="utf-8") as progress:
        done = subprocess.run(
            [sys.executable, "-m", "perfmod", "tune", str(script), *options, "--verbose", "--", *case.arguments],
            # Not the script's folder, whose modules perfmod would meet.
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
            check=False,
        )
        progress.seek(0)
        said = progress.read()
    row["seconds"] = round(time.perf_counter() - started, 1)
    if done.returncode:
        return row | {"reason": (said.strip().splitlines() or ["no output"])[-1]}
    return row | told(json.loads(done.stdout))


def found(case: Case, settings: Settings, script: Path) -> dict[str, Any]:
    """Write what an earlier search has found; the row of that."""
    assert settings.found is not None
    file = settings.found / case.name / "tune.json"
    search = json.loads(file.read_text("utf-8"))
    row = {"name": case.name, "reason": "", "seconds": round(search["seconds"], 1)} | told(search)
    diff = next((offer["diff"] for offer in search["offers"] if offer["numerics"] == search["best"]), "")
    if diff:
        root = Tree.of(script, ()).root
        subprocess.run(["git", "apply", "--unsafe-paths", "-"], cwd=root, input=diff, text=True, check=True)
    return row


def told(search: dict[str, Any]) -> dict[str, Any]:
    """What a row says of a search."""
    offers = {offer["numerics"]: {key: offer[key] for key in ("stack", "verdict", "reason", "ratio", "low", "high")}
              for offer in search["offers"]}  # fmt: skip
    row = {"offers": offers, "best": search["best"], "trials": len(search["rows"]), "gpu": search["gpu"]}
    row |= {"torch": search["torch"], "driver": search["driver"], "verdict": "proven" if search["best"] else "none"}
    return row | {"as_written_ms": search["profile"]["step_ms"], "advice": search["advice"]}


def rows_of(case: Case, settings: Settings, scratch: Path) -> Iterator[dict[str, Any]]:
    """The row of a case: first without times, so that something is left of it when the rest is cut off."""
    try:
        paths = placed(case, settings, scratch)
    except (LookupError, subprocess.CalledProcessError) as error:
        yield {"name": case.name, "verdict": "failed", "reason": f"not run: {error}"}
        return
    if settings.found is None:
        row = tuned(case, settings, paths["tuned"], scratch)
    else:
        row = found(case, settings, paths["tuned"])
    yield row
    if row["verdict"] != "failed":
        yield row | timed(case, settings, paths)


def timed(case: Case, settings: Settings, paths: dict[str, Path]) -> dict[str, Any]:
    """Milliseconds of a step of each variant, in every round, and what is made of them."""
    request = Request(
        script=paths["original"],
        against=None,
        arguments=tuple(case.arguments),
        device=settings.device,
        python=settings.python,
        steps=10,
        quick=True,
        nproc=None,
        timeout=600.0,
        numerics=None,
        links=(),
        command=shlex.join(sys.argv),
    )
    by_replays = paths.pop("graphed", None)
    times: dict[str, list[float]] = {variant: [] for variant in paths}
    with opened(request, lambda _text: None) as verification:
        trees = {variant: Tree.of(path, ()) for variant, path in paths.items()}
        sides = [
            Side(variant, trees[variant], path.relative_to(trees[variant].root)) for variant, path in paths.items()
        ]
        if case.batch is not None:
            # The loader of the script by hand has that size already.
            verification.lab.batch = USUAL_BATCH, case.batch
        for _ in range(settings.rounds):
            for variant, (ran, _load) in zip(paths, verification.lab.time_by_turns(sides), strict=True):
                reason = no_time(ran)
                if reason:
                    return {"reason": f"{variant}: {reason}"}
                times[variant].append(round(mean_ms(ran), 4))
            if by_replays is not None:
                times.setdefault("graphed", []).append(replayed(case, settings, by_replays))
    gains = [before / after for before, after in zip(times["original"], times["tuned"], strict=True)]
    result: dict[str, Any] = {"ms": times, "gain": round(statistics.median(gains), 3)}
    for variant in [each for each in ("hand", "graphed") if all(times.get(each, [None]))]:
        reached = [hand / own for hand, own in zip(times[variant], times["tuned"], strict=True)]
        gained = [before / hand for before, hand in zip(times["original"], times[variant], strict=True)]
        result |= {f"by_{variant}": round(statistics.median(gained), 3)}
        result |= {f"of_{variant}": round(statistics.median(reached), 3)}
    return result


def replayed(case: Case, settings: Settings, script: Path) -> float | None:
    """Milliseconds of a step of a script that records its steps by hand; None where it failed."""
    assert settings.graphed is not None
    said = re.search(r"steps of a replay: (\d+)", (settings.graphed / f"{case.name}.patch").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "time.json"
        timing = [settings.python, str(HERE / "replay_timing.py"), str(file), str(script), *case.arguments]
        done = subprocess.run(
            timing, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
        )
        if not file.exists():
            print(done.stderr[-2000:], file=sys.stderr)
            return None
        return round(float(json.loads(file.read_text("utf-8"))["ms"]) / int(said[1] if said else 1), 4)


def show(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """One line per script."""
    table = Table(title="As written, tuned, and made faster by hand")
    for heading in ("script", "stack", "gain", "by hand", "of hand", "graphed", "of graphed", "reason"):
        table.add_column(heading, justify="left" if heading in ("script", "stack", "reason") else "right")
    for row in rows:
        best = row.get("offers", {}).get(row.get("best"), {})
        numbers = [f"{row[key]:.2f}" if key in row else "" for key in NUMBERS]
        table.add_row(row["name"], best.get("stack", ""), *numbers, row["reason"])
    console.print(table)


def main() -> int:
    """Tune what the command line asks for, print the table, and write the result; the exit code."""
    assert __doc__
    cases = [*(Case(name) for name in REFERENCE), *(Case(script.name, script) for script in scripts())]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=Path, help="folder with the repositories, as <owner>/<name>")
    parser.add_argument("--hand", type=Path, help="folder with a patch for each script, <name>.patch")
    parser.add_argument("--graphed", type=Path, help="the same, for scripts that record the whole step")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--reports", type=Path, help="keep journals and evidence in this folder")
    parser.add_argument("--found", type=Path, help="the reports of an earlier call, whose stacks are timed")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[case.name for case in cases])
    parser.add_argument("--budget", default="5m", help="time for the search of each script")
    parser.add_argument("--allow", default="precision", help="the widest class of results")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each variant that are timed")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the scripts")
    args = parser.parse_args()

    folders = [each.resolve() if each is not None else None for each in (args.sources, args.hand, args.graphed)]
    kept = args.reports, args.found
    settings = Settings(*folders, *kept, args.budget, args.allow, args.rounds, args.device, args.python)
    chosen = [case for case in cases if args.only is None or case.name in args.only]
    chosen = [case for case in chosen if case.public is None or args.sources is not None]
    results = Results(args.json, [case.name for case in cases])
    os.environ.setdefault("PERFMOD_CACHE_DIR", tempfile.mkdtemp(prefix="perfmod-tune-"))
    for case in chosen:
        with tempfile.TemporaryDirectory() as folder:
            for row in rows_of(case, settings, Path(folder).resolve()):
                results.add(row)
    rows = [results.rows[case.name] for case in chosen]
    show(rows, Console() if sys.stdout.isatty() else Console(width=160))
    return 0 if all(row.get("of_hand", 1.0) >= LEAST and row["verdict"] != "failed" for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
