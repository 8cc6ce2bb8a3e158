"""How often does `perfmod verify` call a script faster or slower than itself?

    python benchmarks/false_alarms.py --sources DIR [--json FILE] [--times 10] [--gpus 0,1,2,3] [--only NAME ...]

Each of four scripts is compared with itself (`perfmod verify S --against S --quick`), `--times` times: the two
reference scripts of this folder, and two public ones of `public_scripts.toml`, for which DIR is needed as
`verify_public.py` describes it. `--quick` makes the fewest processes per side, and so is the setting that errs most.
A verdict of "faster" or "slower", or a training that is not called equal, is a false alarm; at most one verdict
in twenty may be one, or the exit code is 1. FILE gets one row per verification.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from gpu_seats import run_verify, spread
from rich.console import Console
from verify_public import scripts

HERE = Path(__file__).resolve().parent
REFERENCE = ("masked_loss", "cifar_resnet18")
PUBLIC = ("mnist", "dcgan")
ALLOWED = 0.05


def placed(name: str, sources: Path, scratch: Path) -> tuple[Path, list[str]]:
    """Put a script and its data into `scratch`; its path there, and its arguments. Raises `LookupError`."""
    if name in REFERENCE:
        path = scratch / "train.py"
        shutil.copy(HERE / "reference" / name / "original.py", path)
        return path, []
    (public,) = (script for script in scripts() if script.name == name)
    return public.place(sources, scratch), list(public.arguments)


def compared(script: Path, arguments: list[str], gpu: str | None) -> dict[str, Any]:
    """The row of comparing a script with itself once."""
    with tempfile.TemporaryDirectory() as reports:
        ran = run_verify(script, ["--against", str(script), "--quick"], arguments, Path(reports), gpu)
    row: dict[str, Any] = {"exit_code": ran.exit_code}
    if ran.evidence is None:
        return row | {"verdict": "failed", "reason": ran.output[-1] if ran.output else "no output"}
    speed = ran.evidence["speed"] or {}
    row |= {name: ran.evidence[name] for name in ("verdict", "reason")}
    return row | {name: speed.get(name) for name in ("ratio", "low", "high", "spread", "original_ms")}


def main() -> int:
    """Compare, print the counts, and write the rows; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the repositories, as <owner>/<name>")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--times", type=int, default=10, help="verifications of each script")
    parser.add_argument("--gpus", help="numbers of the GPUs to spread them over, as 0,1,2,3")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=(*REFERENCE, *PUBLIC))
    args = parser.parse_args()

    rows: list[dict[str, Any]] = []
    lock = threading.Lock()
    talk = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        where = {}
        for name in args.only or (*REFERENCE, *PUBLIC):
            (scratch / name).mkdir()
            where[name] = placed(name, args.sources.resolve(), scratch / name)

        def work(task: tuple[str, int], gpu: str | None) -> None:
            name, number = task
            row = {"name": name, "number": number, **compared(*where[name], gpu)}
            with lock:
                rows.append(row)
                if args.json is not None:
                    args.json.write_text(json.dumps({"schema": 1, "runs": rows}, indent=2) + "\n", encoding="utf-8")
            talk.print(f"{name} {number}: {row['verdict']}, {row['reason']}")

        tasks = [(name, number) for number in range(args.times) for name in where]
        spread(tasks, args.gpus.split(",") if args.gpus else (), work)

    verdicts = Counter(row["verdict"] for row in rows)
    alarms = len(rows) - verdicts["no measurable change"]
    print(f"{len(rows)} comparisons of scripts with themselves: {dict(verdicts)}; {alarms} false alarms")
    return 0 if alarms <= ALLOWED * len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
