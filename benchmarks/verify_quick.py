"""How long `perfmod verify --quick` takes where steps take less than 20 ms, and how noisy it finds them.

    python benchmarks/verify_quick.py [--before DIR] [--repeats N] [--only NAME ...] [--json FILE]

DIR is another checkout of perfmod, which is run by turns with this one: before, after, after, before. Each
verification is one row of FILE (`benchmarks/results/verify_quick_<gpu>.json` unless given, written after every one):
seconds of the whole, runs of the script by their kind and the seconds spent on each kind, the time of a step, the ratio
with its interval, the noise, and the verdict. None of the scripts compiles. The exit code is 1 when a verification with
this checkout takes more than 60 s or comes to no decision. Needs a GPU, which it does not share, and
`perfmod[verify]`; about four minutes for a repeat with one checkout on an H100.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from revision import revision
from rich.console import Console
from rich.table import Table

from perfmod import __version__

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
LONGEST: Final = 60.0
"""Seconds that a verification may take."""
DECIDED: Final = ("proven", "no measurable change")


@frozen
class Case:
    """A committed script.

    Attributes:
        path: from the root of the repository.
        arguments: with which it makes steps enough for a window.
        edits: texts and what stands in their place, where arguments cannot say it.
    """

    path: str
    arguments: tuple[str, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()


CASES: Final = {
    "text": Case("examples/text/train.py", ("--steps", "2000")),
    "classifier": Case("examples/classifier/train.py", ("--steps", "2000", "--size", "32")),
    "digits": Case("examples/digits/train.py", ("--steps", "800")),
    "segmentation": Case("examples/segmentation/train.py", ("--steps", "1000", "--size", "64")),
    "masked_loss, batch 8": Case(
        "benchmarks/reference/masked_loss/original.py",
        edits=(("batch_size=32", "batch_size=8"), ("step >= 100", "step >= 2000")),
    ),
}


def verified(case: Case, checkout: Path) -> dict[str, Any]:
    """The row of one verification, by the perfmod of a checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        script, counts, evidence = folder / "code" / "train.py", folder / "runs.json", folder / "report/evidence.json"
        text = (ROOT / case.path).read_text("utf-8")
        for old, new in case.edits:
            assert old in text, f"{case.path}: has no {old!r} any more"
            text = text.replace(old, new)
        script.parent.mkdir()
        script.write_text(text, encoding="utf-8")
        command = [sys.executable, str(HERE / "counted_runs.py"), str(counts), "verify", str(script), "--quick"]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--report", str(evidence.parent), "--", *case.arguments],
            cwd=folder,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        row: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1), "exit_code": done.returncode}
        if not evidence.exists():
            return row | {"verdict": "failed", "reason": done.stdout.strip()[-2000:]}
        record, counted = json.loads(evidence.read_text("utf-8")), json.loads(counts.read_text("utf-8"))
    speed = record["speed"] or {}
    figures = ("ratio", "low", "high", "spread", "original_ms", "rewritten_ms", "load")
    return row | {
        "verdict": record["verdict"],
        "reason": record["reason"],
        "speed": speed and {key: speed[key] for key in figures if key in speed},
        "timed": [run["mean_ms"] for run in speed.get("runs", ()) if run["side"] == "original"],
        "runs": counted["runs"],
        "seconds_by_kind": {kind: round(seconds, 1) for kind, seconds in counted["seconds"].items()},
        "environment": {key: record["environment"][key] for key in ("gpu", "torch", "python", "cpu", "driver")},
    }


def show(rows: list[dict[str, Any]]) -> None:
    """A line for each verification."""
    table = Table("script", "perfmod", "seconds", "runs", "original", "ratio", "noise", "verdict")
    for row in rows:
        speed = row.get("speed") or {}
        ratio = f"{speed['ratio']:.2f}x ({speed['low']:.2f} to {speed['high']:.2f})" if speed else ""
        noise, step = (f"{speed['spread']:.1%}", f"{speed['original_ms']:.2f} ms") if speed else ("", "")
        runs = ", ".join(f"{count} {kind}" for kind, count in row.get("runs", {}).items())
        table.add_row(row["script"], row["perfmod"], f"{row['seconds']:.0f}", runs, step, ratio, noise, row["verdict"])
    Console().print(table)


def main() -> int:
    """Verify by turns, write the rows, print them; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout of perfmod, to be run by turns with this one")
    parser.add_argument("--repeats", type=int, default=1, help="how often each script is verified by each")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    args = parser.parse_args()
    checkouts = {"before": args.before.resolve()} if args.before else {}
    checkouts["after"] = ROOT
    rows: list[dict[str, Any]] = []
    path = args.json
    for name in args.only:
        for repeat in range(args.repeats):
            for when in list(checkouts) if repeat % 2 == 0 else list(checkouts)[::-1]:
                row = {"script": name, "perfmod": when, **verified(CASES[name], checkouts[when])}
                rows.append(row)
                print(f"{name}, {when}: {row['verdict']} in {row['seconds']:.0f} s: {row['reason']}", flush=True)
                path = path or _results(row)
                result = {
                    "schema": 1,
                    "perfmod": __version__,
                    "commit": revision(),
                    "before": args.before and revision(args.before),
                    "longest": LONGEST,
                    "rows": rows,
                }
                if path is not None:
                    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    show(rows)
    own = [row for row in rows if row["perfmod"] == "after"]
    return int(any(row["seconds"] > LONGEST or row["verdict"] not in DECIDED for row in own))


def _results(row: dict[str, Any]) -> Path | None:
    """Where rows are kept, by the GPU's name; None before one was used."""
    words = re.findall(r"[A-Za-z]+\d+\w*", row.get("environment", {}).get("gpu", ""))
    return HERE / "results" / f"verify_quick_{words[0].lower()}.json" if words else None


if __name__ == "__main__":
    raise SystemExit(main())
