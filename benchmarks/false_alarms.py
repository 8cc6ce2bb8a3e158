"""How often does `perfmod verify` call a script faster or slower than itself?

    python benchmarks/false_alarms.py --sources DIR [--json FILE] [--times 10] [--gpus 0,1,2,3] [--only NAME ...]

Each of four scripts is timed against itself as `perfmod verify S --against S --quick` does it, `--times` times: the
two reference scripts of this folder, and two public ones of `public_scripts.toml`, for which DIR is needed as
`verify_public.py` describes it. `--quick` makes the fewest processes per side, and so is the setting that errs most.
Only the T-runs are made. A verdict of "faster" or "slower" is a false alarm; at most one verdict in twenty may be
one, or the exit code is 1. FILE gets one row per comparison.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from gpu_seats import spread
from revision import revision
from rich.console import Console
from verify_public import scripts

from perfmod.verify import machine
from perfmod.verify.calling import Call
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.measuring import Stopwatch
from perfmod.verify.request import Request
from perfmod.verify.running import Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, REWRITTEN, Side
from perfmod.verify.tree import Tree

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
    """The row of timing a script against itself once."""
    request = Request(
        script=script,
        against=script,
        arguments=tuple(arguments),
        device="cuda",
        python=sys.executable,
        steps=10,
        quick=True,
        nproc=None,
        timeout=300.0,
        numerics=None,
        links=(),
        command="",
    )
    free_mib = machine.probe(sys.executable).free_mib
    environment = os.environ | ({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})
    call = Call(sys.executable, request.arguments, script.parent, environment=environment)
    tree = Tree.of(script)
    with Scratch.temporary() as scratch:
        lab = Laboratory(Runner(scratch, call, request.timeout), request, lambda _what: None, free_mib)
        sides = [Side(name, tree, script.relative_to(tree.root)) for name in (ORIGINAL, REWRITTEN)]
        speed = Stopwatch(lab, *sides).speed()
    kept = ("ratio", "low", "high", "spread", "original_ms", "rewritten_ms")
    return {"verdict": speed.verdict.value, "reason": speed.reason, **{name: getattr(speed, name) for name in kept}}


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
            row = {"name": name, "number": number, **compared(*where[name], gpu), "commit": revision()}
            with lock:
                rows.append(row)
                if args.json is not None:
                    result = {"schema": 1, "runs": rows}
                    args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
            talk.print(f"{name} {number}: {row['verdict']}, {row['reason']}")

        tasks = [(name, number) for number in range(args.times) for name in where]
        spread(tasks, args.gpus.split(",") if args.gpus else (), work)

    verdicts = Counter(row["verdict"] for row in rows)
    alarms = len(rows) - verdicts["no measurable change"]
    print(f"{len(rows)} comparisons of scripts with themselves: {dict(verdicts)}; {alarms} false alarms")
    return 0 if alarms <= ALLOWED * len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
