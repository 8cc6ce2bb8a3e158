"""Do rewritten scripts train as they did? `perfmod verify --device cpu` on public scripts, with generated data.

    python benchmarks/differential.py --sources DIR [--json FILE] [--reports DIR] [--only NAME ...] [--full]
                                      [--python PY]

The scripts are pinned in `differential.toml` and are no part of this repository; DIR holds their repositories as
`DIR/<owner>/<name>`, at the commits of the manifest, as for `verify_public.py`. Each script is run unmodified and as
perfmod rewrites it, on data that `generated_data.py` makes, and is compared step by step; on a CPU no speed is judged.

FILE gets one row per script, after every script; rows of scripts that this run leaves out are kept. The exit code is 1
unless every script is proven, and at least 25 of them with something rewritten. About a minute per script on two
processors; `--full` repeats the original more often.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from verify_public import Results, Settings, run_all, scripts

MANIFEST = Path(__file__).resolve().parent / "differential.toml"
LEAST = 25
"""Scripts that have to be proven with something rewritten."""


def rewritten_by(row: Mapping[str, Any]) -> list[str]:
    """The rules that rewrote a script and were kept."""
    return [rule["code"] for rule in row.get("rules", ()) if not rule["withdrawn"]]


def failing(rows: Sequence[Mapping[str, Any]], *, least: int = LEAST) -> list[str]:
    """What is missing for the run to show what it has to."""
    found = [f"{row['name']}: {row['verdict']}, {row['reason']}" for row in rows if row["verdict"] not in _SAME]
    found += [
        f"{row['name']}: {rule['code']} was withdrawn: {rule['reason']}"
        for row in rows
        for rule in row.get("rules", ())
        if rule["withdrawn"]
    ]
    proven = [row for row in rows if row["verdict"] == "proven" and rewritten_by(row)]
    return found + (
        [f"{len(proven)} of {least} scripts are proven with something rewritten"] if len(proven) < least else []
    )


_SAME = ("proven", "no measurable change")


def show(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """One line per script."""
    table = Table(title="Public scripts as written against rewritten, on the CPU")
    for heading in ("script", "verdict", "rules", "equality", "seconds", "reason"):
        table.add_column(heading)
    for row in rows:
        rules = " ".join(rewritten_by(row))
        equality = row.get("equality", {}).get("reason", "")
        table.add_row(row["name"], row["verdict"], rules, equality, str(row.get("seconds", "")), row["reason"])
    console.print(table)


def main() -> int:
    """Verify what the command line asks for; the exit code."""
    assert __doc__
    manifest = scripts(MANIFEST)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help="folder with the repositories, as <owner>/<name>")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--reports", type=Path, help="keep the evidence of each script in this folder")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[script.name for script in manifest])
    parser.add_argument("--full", action="store_true", help="as many runs as `perfmod verify` makes without --quick")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which a single run is ended")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the scripts")
    args = parser.parse_args()

    settings = Settings(args.sources.resolve(), "cpu", args.python, not args.full, args.timeout, args.reports)
    chosen = [script for script in manifest if args.only is None or script.name in args.only]
    results = Results(args.json, [script.name for script in manifest])
    run_all(chosen, settings, (), results)
    rows = [results.rows[script.name] for script in chosen]
    show(rows, Console() if sys.stdout.isatty() else Console(width=200))
    problems = failing(rows, least=LEAST if args.only is None else 0)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
