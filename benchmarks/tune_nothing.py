"""How often does `perfmod tune` choose something where there is nothing to find? And how long does a second call take?

    python benchmarks/tune_nothing.py [--searches 10] [--jobs 1] [--budget 60s] [--python PY] [--json FILE]

`reference/nothing_to_find/original.py` is searched anew so many times. Rules have something to write there, and nothing
of it has an effect on how long a step takes. With `--jobs`, searches go on beside each other and disturb each other's
times, which is harder than what a user has. All find what torch has compiled in earlier runs, as whoever trains the
script every day does. Then the last search is called once more, with its journal.

FILE gets a row for each search, as soon as it has ended: how many stacks were timed, what was chosen, if anything, what
that was said to bring, and the seconds it took. The exit code is 1 where anything was chosen. Needs CUDA.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from revision import revision

SCRIPT = Path(__file__).resolve().parent / "reference" / "nothing_to_find" / "original.py"


def searched(folder: Path, budget: str, python: str) -> dict[str, Any]:
    """Search in a folder that holds a copy of the script, and the journal of an earlier search if there was one."""
    began = time.perf_counter()
    options = ["--budget", budget, "--report", "report", "--output-format", "json", "--python", python]
    done = subprocess.run(
        [sys.executable, "-m", "perfmod", "tune", "train.py", *options],
        cwd=folder,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder.parent / "compiled")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    row: dict[str, Any] = {"seconds": round(time.perf_counter() - began, 1), "best": "", "reason": ""}
    if done.returncode:
        return row | {"reason": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    found = json.loads(done.stdout)
    offers = [offer for offer in found["offers"] if offer["numerics"] == found["best"]]
    row |= {"best": offers[0]["stack"] if offers else "", "ratio": offers[0]["ratio"] if offers else None}
    row |= {"trials": sum(each["ms"] is not None for each in found["rows"]), "complete": found["complete"]}
    return row | {"gpu": found["gpu"], "torch": found["torch"], "driver": found["driver"]}


def main() -> int:
    """Make the searches, and write what they found; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1, help="searches that go on beside each other")
    parser.add_argument("--budget", default="60s", help="of a search")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the script")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    args = parser.parse_args()

    rows: list[dict[str, Any]] = []

    def told(which: str, row: dict[str, Any]) -> None:
        what = row["reason"] or (f"{row['best']}, {row['ratio']:.2f}x" if row["best"] else "nothing")
        print(f"{which}: {what} ({row['seconds']} s)", flush=True)
        if args.json is not None:
            result = {"schema": 1, "perfmod_commit": revision(), "jobs": args.jobs, "searches": rows}
            result |= {"again": row} if which == "again" else {}
            args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch).resolve() / str(number) for number in range(args.searches)]
        for folder in folders:
            folder.mkdir()
            (folder / "pyproject.toml").touch()
            shutil.copy(SCRIPT, folder / "train.py")
        with ThreadPoolExecutor(args.jobs) as pool:
            for row in pool.map(lambda folder: searched(folder, args.budget, args.python), folders):
                rows.append(row)
                told(str(len(rows)), row)
        again = searched(folders[-1], args.budget, args.python)
        told("again", again)
    return 1 if any(row["best"] or row["reason"] for row in [*rows, again]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
