"""`perfmod verify` on public training scripts, unmodified, fed with generated data.

    python benchmarks/verify_public.py --sources DIR [--json FILE] [--reports DIR] [--only NAME ...]
                                       [--device cuda|cpu] [--gpus 0,1,2,3] [--quick] [--python PY]
                                       [--apply] [--select CODES]

The scripts are pinned in `public_scripts.toml` and are no part of this repository. DIR holds each of their
repositories as `DIR/<owner>/<name>`, at the commit that the manifest names:

    git clone https://github.com/<owner>/<name> DIR/<owner>/<name>
    git -C DIR/<owner>/<name> checkout <commit>

A script whose bytes are not those of the manifest is not run. For each script its repository is copied to a scratch
folder, `generated_data.py` puts the data where the script looks for it, and `perfmod verify` runs there, once. With
several GPUs, one script at a time runs on each, with an equal share of the processors.

With `--apply` it is `perfmod apply --verify` that runs: it proposes all that a run can prove, and writes what is
proven; the row says what became of which finding. `--select` names other rules than those that it writes by default.

FILE gets one row per script: verdict, ratio of the step times with its interval, implicit synchronisations per step
before and after, rules, reason. It is written after every script; rows of scripts that this run leaves out are kept.
`--reports` keeps the full evidence of each. The exit code is 1 when a script was refuted, could not be decided or
could not be run. About five minutes per script on one H200, a minute with `--quick`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen
from generated_data import RECIPES
from gpu_seats import run_verify, spread
from revision import revision
from rich.console import Console
from rich.table import Table

from perfmod import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "public_scripts.toml"
DECIDED = ("proven", "no measurable change")


@frozen
class PublicScript:
    """One script of the manifest; `public_scripts.toml` says what its fields mean."""

    name: str
    repository: str
    commit: str
    path: str
    sha256: str
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    needs: Sequence[str] = ()
    data: Sequence[Mapping[str, Any]] = field(factory=list)

    @property
    def slug(self) -> str:
        """Owner and name of the repository."""
        return self.repository.removeprefix("https://github.com/")

    def place(self, sources: Path, scratch: Path) -> Path:
        """Copy the repository to `scratch` and put the data there; the script's path in the copy.

        Raises:
            LookupError: the script is not under `sources`, or not as the manifest pins it.
        """
        source = sources / self.slug
        script = source / self.path
        if not script.is_file():
            raise LookupError(f"{script} is missing; `git clone {self.repository} {source}`")
        if hashlib.sha256(script.read_bytes()).hexdigest() != self.sha256:
            raise LookupError(f"{script} is not the file of commit {self.commit}")
        root = scratch / self.slug.rpartition("/")[2]
        shutil.copytree(source, root, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        # Marks where the tree begins, which is to be copied as a whole.
        (root / "pyproject.toml").touch()
        for recipe in self.data:
            details = {key: value for key, value in recipe.items() if key not in ("recipe", "folder")}
            folder = root / recipe["folder"]
            folder.mkdir(parents=True, exist_ok=True)
            RECIPES[recipe["recipe"]](folder, **details)
        return root / self.path


@frozen
class Settings:
    """How the scripts are verified; the fields are the options of this program."""

    sources: Path
    device: str
    python: str
    quick: bool
    timeout: float
    reports: Path | None
    applies: bool
    select: str | None


def scripts(manifest: Path = MANIFEST) -> list[PublicScript]:
    """What a manifest lists, in its order."""
    return [PublicScript(**entry) for entry in tomllib.loads(manifest.read_text("utf-8"))["script"]]


def missing_modules(script: PublicScript, python: str) -> list[str]:
    """The modules among `needs` that the interpreter does not have."""
    if not script.needs:
        return []
    code = "import sys, importlib.util as u; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None))"
    done = subprocess.run([python, "-c", code, *script.needs], capture_output=True, text=True, check=True)
    return done.stdout.split()


def verify(script: PublicScript, settings: Settings, gpu: str | None) -> dict[str, Any]:
    """Verify one script; its row of the result. A script that cannot be run has `reason` say why."""
    started = time.perf_counter()
    row: dict[str, Any] = {
        "name": script.name,
        "repository": script.repository,
        "commit": script.commit,
        "script": script.path,
        "arguments": list(script.arguments),
        "options": list(script.options),
        "verdict": "failed",
    }
    missing = missing_modules(script, settings.python)
    if missing:
        return row | {"reason": f"not run: {', '.join(missing)} is not installed"}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        try:
            path = script.place(settings.sources, scratch)
        except LookupError as error:
            return row | {"reason": f"not run: {error}"}
        reports = (settings.reports or scratch) / script.name
        prepared = time.perf_counter()
        options = ["--device", settings.device, "--python", settings.python, "--timeout", str(settings.timeout)]
        options += ["--quick"] if settings.quick else []
        options += [] if settings.applies else script.options
        options += ["--select", settings.select] if settings.select else []
        ran = run_verify(path, options, script.arguments, reports.resolve(), gpu, applies=settings.applies)
    row |= {"exit_code": ran.exit_code, "seconds": round(time.perf_counter() - prepared, 1)}
    if ran.evidence is None:
        return row | {"reason": ran.output[-1] if ran.output else "no output", "output": ran.output[-40:]}
    evidence = ran.evidence
    row["preparation_seconds"] = round(prepared - started, 1)
    return row | summary(evidence)


def summary(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """What a row keeps of an `evidence.json`."""
    speed, why, equality = evidence["speed"], evidence["why"], evidence["equality"]
    kept_of_rule = (
        *("code", "name", "numerics", "lines", "equality", "ratio", "low", "high"),
        *("syncs_removed", "sync_ms_removed", "withdrawn", "reason"),
    )
    kept_of_speed = ("verdict", "ratio", "low", "high", "spread", "original_ms", "rewritten_ms", "saved_ms")
    sides = {"before": why and why["original"], "after": why and why["rewritten"]}
    return {
        "verdict": evidence["verdict"],
        "reason": evidence["reason"],
        "equality": {key: equality[key] for key in ("verdict", "reason", "numerics", "steps", "short_horizon")},
        "speed": speed and {key: speed[key] for key in kept_of_speed},
        "profile": {when: side for when, side in sides.items() if side},
        "syncs": [row for row in (why["syncs"] if why else []) if row["before"] or row["after"]],
        "rules": [{key: rule[key] for key in kept_of_rule} for rule in evidence["rules"]],
        "findings": evidence["findings"],
        "warnings": evidence["warnings"],
        "environment": evidence["environment"],
    }


class Results:
    """The rows, in the order of `names`, and the file that they are written to after every script."""

    def __init__(self, path: Path | None, names: Sequence[str]) -> None:
        self.path = path
        self.names = names
        self.rows: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()
        if path is not None and path.exists():
            self.rows = {row["name"]: row for row in json.loads(path.read_text("utf-8"))["scripts"]}

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row in the place of an older one of its script, with the commit of perfmod that it was made with."""
        with self.lock:
            self.rows[row["name"]] = row | {"perfmod_commit": revision()}
            if self.path is None:
                return
            rows = [self.rows[name] for name in self.names if name in self.rows]
            result = {"schema": 2, "perfmod": __version__, "scripts": rows}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def run_all(chosen: Sequence[PublicScript], settings: Settings, gpus: Sequence[str], results: Results) -> None:
    """Verify the scripts one by one, or one at a time on each GPU."""
    talk = Console(stderr=True)

    def verified(script: PublicScript, gpu: str | None) -> None:
        talk.print(f"{script.name}: started" + (f" on GPU {gpu}" if gpu else ""))
        row = verify(script, settings, gpu)
        results.add(row)
        talk.print(f"{script.name}: {row['verdict']}, {row['reason']}")

    spread(chosen, gpus, verified)


def show(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """One line per script."""
    table = Table(title="Public training scripts, as written against rewritten")
    for heading in ("script", "verdict", "rules kept", "ratio", "95 % interval", "ms/step", "syncs/step", "reason"):
        table.add_column(
            heading, justify="left" if heading in ("script", "verdict", "rules kept", "reason") else "right"
        )
    for row in rows:
        speed, profile = row.get("speed"), row.get("profile", {})
        syncs = [f"{profile[side]['syncs']:g}" if side in profile else "-" for side in ("before", "after")]
        table.add_row(
            row["name"],
            row["verdict"],
            " ".join(rule["code"] for rule in row.get("rules", ()) if not rule["withdrawn"]),
            f"{speed['ratio']:.3f}" if speed else "",
            f"{speed['low']:.3f} to {speed['high']:.3f}" if speed else "",
            f"{speed['original_ms']:.2f} -> {speed['rewritten_ms']:.2f}" if speed else "",
            " -> ".join(syncs) if profile else "",
            row["reason"],
        )
    console.print(table)


def main() -> int:
    """Verify what the command line asks for, print the table, and write the result; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the repositories, as <owner>/<name>")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--reports", type=Path, help="keep the evidence of each script in this folder")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[script.name for script in scripts()])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--gpus", help="numbers of the GPUs to spread the scripts over, as 0,1,2,3")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and no rows per rule")
    parser.add_argument("--apply", action="store_true", help="run `apply --verify` instead of `verify`")
    parser.add_argument("--select", metavar="CODES", help="the rules that `--apply` proposes, as PM1,PM314")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which a single run is ended")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that runs the scripts")
    args = parser.parse_args()

    settings = Settings(
        args.sources.resolve(),
        args.device,
        args.python,
        args.quick,
        args.timeout,
        args.reports,
        args.apply,
        args.select,
    )
    chosen = [script for script in scripts() if args.only is None or script.name in args.only]
    results = Results(args.json, [script.name for script in scripts()])
    run_all(chosen, settings, args.gpus.split(",") if args.gpus else (), results)
    rows = [results.rows[script.name] for script in chosen]
    show(rows, Console() if sys.stdout.isatty() else Console(width=180))
    return 0 if all(row["verdict"] in DECIDED for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
