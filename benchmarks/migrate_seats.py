"""`perfmod migrate --verify` on one GPU or more: six scripts, by the local engine, by Dask, and with a worker killed.

    python benchmarks/migrate_seats.py [--stand-ins N] [--ways local,dask,killed] [--limit S] [--json FILE]

Six committed scripts are put into repositories of their own, beside sixty repositories that only have to be analysed
(the inputs of the goldens). Verifications must come one after the other on a card while the analyses go on beside;
in the way `killed`, a worker of Dask with a verification is killed in the middle of it, and all verdicts must come all
the same. With `--stand-ins N`, which needs no GPU, the scripts run on the CPU, N at a time, each with its own processor
cores. Which card each verification has is read from the environment of its process. The exit code is 1 where verdicts
are missing or two of them were timed on one seat at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil
from process_cost import machine
from revision import revision
from rich.console import Console
from verify_quick import CASES, Case

from perfmod import __version__
from perfmod.seats import VISIBLE, gpus_of_this_machine

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
SCRIPTS: Final = {
    "text": CASES["text"],
    "classifier": CASES["classifier"],
    "digits": CASES["digits"],
    "segmentation": CASES["segmentation"],
    "masked-loss": CASES["masked_loss, batch 8"],
    "cifar": Case("benchmarks/reference/cifar_resnet18/original.py"),
}
ON_THE_CPU: Final = {
    name: Case(path, ("--steps", "40"))
    for name, path in {
        "text": "examples/text/train.py",
        "digits": "examples/digits/train.py",
        "segmentation": "examples/segmentation/train.py",
    }.items()
}
BESIDE: Final = 60
COPIES: Final = 12
"""Files in each of the repositories that are only analysed."""


def repository(folder: Path, files: dict[str, str]) -> None:
    """A repository with one commit."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    who = ("-c", "user.name=perfmod", "-c", "user.email=perfmod@localhost")
    for command in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "-m", "Add files")):
        subprocess.run(["git", *command], cwd=folder, check=True)


def build(folder: Path, cases: dict[str, Case], *, device: str) -> Path:
    """The zoo, and its ZOO.toml."""
    entries = []
    for name, case in cases.items():
        text = (ROOT / case.path).read_text("utf-8")
        for old, new in case.edits:
            assert old in text, f"{case.path}: has no {old!r} any more"
            text = text.replace(old, new)
        repository(folder / "zoo" / name, {"train.py": text})
        arguments = json.dumps(list(case.arguments))
        entries.append(
            f'[[script]]\nproject = "{name}"\nscript = "train.py"\narguments = {arguments}\nquick = true\n'
            f'device = "{device}"\ntimeout = 300\n'
        )
    inputs = sorted((ROOT / "golden").rglob("*.py"))
    for number in range(BESIDE):
        chosen = inputs[number * COPIES % len(inputs) :][:COPIES]
        files = {f"part_{at}.py": path.read_text("utf-8") for at, path in enumerate(chosen)}
        repository(folder / "zoo" / f"other-{number:02}", files)
    path = folder / "ZOO.toml"
    path.write_text("\n".join(entries), "utf-8")
    return path


def verifications() -> dict[psutil.Process, str]:
    """The processes that run a verification at present, and the cards that each has."""
    cards = {process: cards_of(process) for process in psutil.Process().children(recursive=True)}
    return {process: card for process, card in cards.items() if card is not None}


def cards_of(process: psutil.Process) -> str | None:
    """The cards of a verification; None where a process is none, or is over."""
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()
        if "perfmod.migrate.work" in command and "verification" in command:
            return process.environ().get(VISIBLE, "")
    return None


def kill_a_worker() -> bool:
    """Kill the process of a worker that runs a verification; whether there is one."""
    for process in verifications():
        parent = process.parent()
        if parent is not None:
            os.kill(parent.pid, signal.SIGKILL)
            return True
    return False


def run(folder: Path, zoo: Path, way: str, gpus: str, limit: float) -> dict[str, Any]:
    """One campaign."""
    campaign = folder / way
    command = [
        sys.executable,
        "-m",
        "perfmod",
        "migrate",
        str(folder / "zoo"),
        "--out",
        str(campaign),
        "--verify",
        str(zoo),
        "--no-cache",
    ]
    command += ["--jobs", "2", *([] if not gpus else ["--gpus", gpus])]
    command += [] if way == "local" else ["--engine", "dask"]
    began, killed = time.monotonic(), False
    most: dict[str, int] = {}
    with (folder / f"{way}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None and time.monotonic() - began < limit:
            # By then the first script runs.
            if way == "killed" and not killed and time.monotonic() - began > 25:
                killed = kill_a_worker()
            for card, count in Counter(verifications().values()).items():
                most[card] = max(most.get(card, 0), count)
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        code = process.wait()
    seconds = time.monotonic() - began
    said = (folder / f"{way}.log").read_text("utf-8", "replace")[-1500:]
    rows = json.loads((campaign / "report.json").read_text("utf-8"))["projects"] if code in (0, 3) else []
    verdicts = {row["name"]: row["verdicts"] for row in rows if row["verdicts"]}
    return {
        "way": way,
        "seconds": round(seconds, 1),
        "exit_code": code,
        "killed": killed,
        "verdicts": verdicts,
        "at_once_on_a_card": most,
        "spans": spans(campaign),
        "said": "" if rows else said,
    }


def spans(campaign: Path) -> list[tuple[str, float, float]]:
    """When each piece of work began and ended, in seconds since the first began."""
    if not (campaign / "state.sqlite").exists():
        return []
    with sqlite3.connect(campaign / "state.sqlite") as connection:
        pieces = connection.execute("SELECT project, step, finished, seconds FROM pieces").fetchall()
    ends = [
        (f"{step} {project}", datetime.fromisoformat(end).timestamp(), taken) for project, step, end, taken in pieces
    ]
    start = min((end - taken for _, end, taken in ends), default=0.0)
    return sorted(
        ((name, round(end - taken - start, 2), round(end - start, 2)) for name, end, taken in ends),
        key=lambda row: row[1],
    )


def most_at_once(found: Sequence[tuple[str, float, float]]) -> int:
    """How many of these spans overlap at one moment."""
    return max((sum(begin <= at < end for _, begin, end in found) for _, at, _ in found), default=0)


def beside(row: dict[str, Any]) -> int:
    """Analyses that went on while a verification did."""
    first = [span for span in row["spans"] if span[0].startswith("analysis")]
    timed = [span for span in row["spans"] if span[0].startswith("verification")]
    return sum(any(a[1] < v[2] and v[1] < a[2] for v in timed) for a in first)


def main() -> int:
    """Run the ways, print and keep the rows; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stand-ins", type=int, default=0)
    parser.add_argument("--ways", default="local,dask,killed")
    parser.add_argument("--limit", type=float, default=550.0, help="seconds for one way")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seats = arguments.stand_ins or len(gpus_of_this_machine())
    cases = ON_THE_CPU if arguments.stand_ins else SCRIPTS
    talk, is_right, rows = Console(), True, []
    for way in arguments.ways.split(","):
        folder = Path(tempfile.mkdtemp())
        zoo = build(folder, cases, device="cpu" if arguments.stand_ins else "cuda")
        row = run(folder, zoo, way, ",".join(["cpu"] * arguments.stand_ins), arguments.limit)
        timed = [span for span in row["spans"] if span[0].startswith("verification")]
        row |= {"at_once": most_at_once(timed), "analysed_beside": beside(row)}
        is_right &= len(row["verdicts"]) == len(cases) and row["at_once"] <= seats
        # Stand-ins have no card.
        is_right &= bool(arguments.stand_ins) or max(row["at_once_on_a_card"].values(), default=0) == 1
        rows.append(row)
        talk.print(row)
        shutil.rmtree(folder, ignore_errors=True)
        if arguments.json is not None:
            result = {"perfmod": __version__, "commit": revision(), "machine": machine(), "seats": seats, "rows": rows}
            arguments.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
