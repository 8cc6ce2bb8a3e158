"""`perfmod migrate` over a hundred and fifty public repositories: what it takes, what becomes of them, what survives.

    python benchmarks/migrate_zoo.py [--checkouts DIR] [--parts all,dask,branches,kills,edits] [--only N]

The repositories are those of `corpus/zoo.toml`; DIR holds each as `DIR/<owner>+<name>` with the pinned commit, and what
is missing is fetched from GitHub. They are cloned before they are migrated, so that nothing is written to DIR.

- `all`: all of them, dry, nothing cached, two at a time: seconds, memory, outcomes, failures by cause, and what ten
  thousand of the kind would take on the same machine.
- `dask`: forty of them by one local process, and through Dask with two and four workers: the rows have to be the same.
- `branches`: of those with changes forty get branches. In a clean clone, `git am` of the patches, `git apply` of the
  diff, `perfmod apply` and the branch have to come to the same tree, byte for byte.
- `kills`: six with branches are killed (SIGKILL) at twenty random moments, each time followed by `resume`; rows and
  trees have to be those of an undisturbed run.
- `edits`: the forty once more, after a commit in three of them: three have to be analysed.

Every part adds to `results/migrate_zoo.json`. The exit code is 1 where something is not as it has to be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from attrs import frozen
from corpus_sources import Repository, zoo
from process_cost import PERFMOD, cost, machine
from revision import revision
from rich.console import Console

RESULTS: Final = Path(__file__).resolve().parent / "results" / "migrate_zoo.json"
SEED: Final = 31
FORTY: Final = 40
LOOKED: Final = 120
"""Projects among which those with changes are looked for."""
LARGE: Final = frozenset({"huggingface/diffusers", "dmlc/dgl", "pyg-team/pytorch_geometric"})
"""Those that take minutes each; only the part `all` has them."""
KILLED: Final = 6
KILLS: Final = 20
FAR: Final = 10_000
LONGEST: Final = 3600.0
AUTHOR: Final = ("-c", "user.name=perfmod", "-c", "user.email=perfmod@localhost")
COMMITTER: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "perfmod"), ("EMAIL", "perfmod@localhost"))
}
Row = dict[str, Any]


@frozen
class Zoo:
    """Clones that may be written to.

    Attributes:
        clones: by the name of the repository, in random order.
        scratch: an empty folder for campaigns.
    """

    clones: Mapping[str, Path]
    scratch: Path

    def some(self, count: int) -> list[str]:
        """So many of them that are not large."""
        return [name for name in self.clones if name not in LARGE][:count]

    def listing(self, name: str, projects: Sequence[str]) -> Path:
        """A file for `--list`."""
        path = self.scratch / f"{name}.txt"
        path.write_text("".join(f"{self.clones[project]}\n" for project in projects), "utf-8")
        return path


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What git prints. Raises `CalledProcessError`."""
    command = ["git", *AUTHOR, "-c", "core.autocrlf=false", *arguments]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, check=True).stdout


def clone(repository: Repository, checkouts: Path, folder: Path) -> Path | None:
    """A clone with the pinned commit on a branch; None where the source lacks some of its files."""
    source = checkouts / repository.name.replace("/", "+")
    repository.fetch_to(source)
    try:
        git(folder.parent, "clone", "--quiet", "--no-checkout", str(source), str(folder))
        git(folder, "checkout", "--quiet", "-B", "main", repository.commit)
    except subprocess.CalledProcessError as error:
        if b"missing" not in error.stderr and b"unable to read" not in error.stderr:
            raise
    return folder


def is_whole(folder: Path) -> bool:
    """Whether all files of the commit are there: what was fetched may lack large ones."""
    return b"?" not in git(
        folder, "rev-list", "--objects", "--missing=print", "--no-object-names", "HEAD", "--max-count=1"
    )


def migrate(folder: Path, *arguments: str | Path, limit: float = LONGEST) -> Row:
    """Run `perfmod migrate`; seconds, memory and exit code."""
    found = cost([*PERFMOD, "migrate", *arguments], folder, limit, **COMMITTER)
    if found.code not in (0, 3):
        raise SystemExit(f"perfmod migrate {' '.join(map(str, arguments))}: {found.code}: {found.errors}")
    return {"seconds": found.seconds, "processor_seconds": found.processor_seconds, "peak_mib": found.peak_mib}


def report(campaign: Path) -> Row:
    """The rows of a campaign."""
    return dict(json.loads((campaign / "report.json").read_text("utf-8")))


def stable(campaign: Path) -> bytes:
    """The rows without what may differ from run to run."""
    from perfmod.migrate.overview import overview
    from perfmod.migrate.report.tables import stable_rows
    from perfmod.migrate.state import State

    return stable_rows(overview(Path("campaign"), State(campaign)))


def everything(zoo: Zoo) -> Row:
    """The part `all`."""
    campaign = zoo.scratch / "all"
    taken = migrate(
        zoo.scratch, "--list", zoo.listing("all", list(zoo.clones)), "--out", campaign, "--jobs", "2", "--no-cache"
    )
    projects = report(campaign)["projects"]
    seconds = sorted(row["seconds"] for row in projects)
    each = taken["seconds"] / len(projects)
    memory = [row["peak_mib"] for row in projects if row["peak_mib"] is not None]
    slowest = sorted(projects, key=lambda row: -row["seconds"])[:5]
    return {
        **taken,
        "projects": len(projects),
        "outcomes": Counter(row["outcome"] for row in projects),
        "causes": Counter(row["cause"] for row in projects if row["cause"]),
        "failed": [[row["name"], row["cause"], row["reason"]] for row in projects if row["outcome"] == "failed"],
        "files": Counter(file["outcome"] for row in projects if row["analysis"] for file in row["analysis"]["files"]),
        "rewrites": Counter(
            finding["code"]
            for row in projects
            if row["analysis"]
            for finding in row["analysis"]["findings"]
            if finding["state"] == "rewritten"
        ),
        "seconds_of_a_project": {
            "median": statistics.median(seconds),
            "p95": seconds[int(0.95 * (len(seconds) - 1))],
            "slowest": [[row["name"], row["seconds"]] for row in slowest],
        },
        "peak_mib_of_a_project": {"median": statistics.median(memory), "largest": max(memory)} if memory else {},
        "hours_for_10000": round(each * FAR / 3600, 1),
        "campaign_mib": round(sum(path.stat().st_size for path in campaign.rglob("*") if path.is_file()) / 2**20, 1),
    }


def dask(zoo: Zoo) -> Row:
    """The part `dask`."""
    listing = zoo.listing("dask", zoo.some(FORTY))
    ways: Mapping[str, Sequence[str]] = {
        "local, 1 process": ("--jobs", "1"),
        "local, 2 processes": ("--jobs", "2"),
        "Dask, 2 workers": ("--jobs", "2", "--engine", "dask"),
        "Dask, 4 workers": ("--jobs", "4", "--engine", "dask"),
    }
    found: Row = {"projects": FORTY, "ways": {}}
    rows = []
    for number, (name, options) in enumerate(ways.items()):
        campaign = zoo.scratch / f"dask-{number}"
        taken = migrate(zoo.scratch, "--list", listing, "--out", campaign, "--no-cache", *options)
        rows.append(stable(campaign))
        found["ways"][name] = taken
    first = found["ways"]["local, 1 process"]["seconds"]
    for taken in found["ways"].values():
        taken["speed_up"] = round(first / taken["seconds"], 2)
    found["identical"] = len(set(rows)) == 1
    return found


def branches(zoo: Zoo) -> Row:
    """The part `branches`."""
    chosen = _with_changes(zoo, FORTY)
    campaign = zoo.scratch / "branches"
    listing = zoo.listing("branches", chosen)
    taken = migrate(zoo.scratch, "--list", listing, "--out", campaign, "--write", "--branch", "perfmod/zoo")
    wrong: list[list[str]] = []
    patches = commits = 0
    for row in report(campaign)["projects"]:
        source, folder = Path(row["location"]), campaign / row["folder"]
        if row["outcome"] != "changed":
            wrong.append([row["name"], f"{row['outcome']}: {row['reason']}"])
            continue
        trees = _trees(source, folder, zoo.scratch / "clean" / source.name)
        patches += len(list((folder / "patches").iterdir()))
        commits += row["branches"][0]["commits"]
        wrong += [[row["name"], way] for way, tree in trees.items() if tree != trees["branch"]]
        if git(source, "status", "--porcelain", "--untracked-files=no") or len(_worktrees(source)) != 1:
            wrong.append([row["name"], "its working tree was touched"])
    return {**taken, "projects": len(chosen), "patches": patches, "commits": commits, "wrong": wrong}


def _trees(source: Path, results: Path, folder: Path) -> Mapping[str, bytes]:
    """The trees that the ways lead to, each begun in a clean clone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    git(source.parent, "clone", "--quiet", "--branch", "main", str(source), str(folder))
    mails = sorted(map(str, (results / "patches").glob("*.patch")))

    def by(*command: str, stdin: bytes = b"") -> bytes:
        git(folder, "reset", "--quiet", "--hard", "origin/main")
        git(folder, *command, stdin=stdin)
        if command[0] != "am":
            git(folder, "add", "--update")
            return git(folder, "write-tree")
        return git(folder, "rev-parse", "HEAD^{tree}")

    def applied() -> bytes:
        git(folder, "reset", "--quiet", "--hard", "origin/main")
        cost([*PERFMOD, "apply", "."], folder, LONGEST)
        git(folder, "add", "--update")
        return git(folder, "write-tree")

    return {
        "branch": git(source, "rev-parse", "refs/heads/perfmod/zoo^{tree}"),
        "git am": by("am", "--quiet", "--keep-cr", *mails),
        "git apply": by("apply", stdin=(results / "changes.diff").read_bytes()),
        "perfmod apply": applied(),
    }


def _worktrees(source: Path) -> Sequence[bytes]:
    return git(source, "worktree", "list", "--porcelain").strip().split(b"\n\n")


def _with_changes(zoo: Zoo, count: int) -> list[str]:
    """Projects that `perfmod migrate` changes, and whose files are all there."""
    campaign = zoo.scratch / "looked"
    if not campaign.exists():
        migrate(zoo.scratch, "--list", zoo.listing("looked", zoo.some(LOOKED)), "--out", campaign)
    by_folder = {str(path): name for name, path in zoo.clones.items()}
    changed = [by_folder[row["location"]] for row in report(campaign)["projects"] if row["outcome"] == "changed"]
    return [name for name in changed if is_whole(zoo.clones[name])][:count]


def kills(zoo: Zoo) -> Row:
    """The part `kills`."""
    chosen, draw = _with_changes(zoo, FORTY)[-KILLED:], random.Random(SEED)
    listing = zoo.listing("kills", chosen)
    options = ("--list", listing, "--write", "--branch", "perfmod/kills")
    quiet = zoo.scratch / "undisturbed"
    taken = migrate(zoo.scratch, *options, "--out", quiet, "--no-cache")
    wanted, trees = stable(quiet), _branch_trees(zoo, chosen)
    found: list[Row] = []
    for number in range(KILLS):
        _delete_branches(zoo, chosen)
        campaign, moment = zoo.scratch / f"killed-{number}", draw.uniform(0.3, taken["seconds"])
        command = [*PERFMOD, "migrate", *map(str, options), "--out", str(campaign), "--no-cache"]
        process = subprocess.Popen(
            command,
            cwd=zoo.scratch,
            env={**os.environ, **COMMITTER},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        done = _done(campaign)
        go_on = ("resume", campaign) if (campaign / "state.sqlite").exists() and _planned(campaign) else None
        migrate(zoo.scratch, *(go_on or (*options, "--out", campaign, "--no-cache")))
        found.append(
            {
                "moment": round(moment, 2),
                "pieces_done": len(done),
                "rows": stable(campaign) == wanted,
                "trees": _branch_trees(zoo, chosen) == trees,
                "repeated": _repeated(campaign, done),
                "worktrees": all(len(_worktrees(zoo.clones[name])) == 1 for name in chosen),
            }
        )
    same = [row["rows"] and row["trees"] and row["worktrees"] and not row["repeated"] for row in found]
    return {"projects": len(chosen), "undisturbed": taken, "kills": found, "same": sum(same), "of": len(same)}


def _done(campaign: Path) -> Mapping[str, str]:
    """The pieces that are done, with the time of their end."""
    if not (campaign / "state.sqlite").exists():
        return {}
    with sqlite3.connect(campaign / "state.sqlite") as connection:
        try:
            rows = connection.execute("SELECT project, step, key, finished FROM pieces").fetchall()
        except sqlite3.OperationalError:
            return {}
    return {f"{step} {project} {key}": finished for project, step, key, finished in rows}


def _repeated(campaign: Path, before: Mapping[str, str]) -> int:
    """How many pieces were done once more that had been done."""
    now = _done(campaign)
    return sum(now.get(name) != finished for name, finished in before.items())


def _planned(campaign: Path) -> bool:
    with sqlite3.connect(campaign / "state.sqlite") as connection:
        try:
            return bool(connection.execute("SELECT count(*) FROM projects").fetchone()[0])
        except sqlite3.OperationalError:
            return False


def _branch_trees(zoo: Zoo, projects: Sequence[str]) -> Sequence[bytes]:
    return [git(zoo.clones[name], "rev-parse", "refs/heads/perfmod/kills^{tree}") for name in projects]


def _delete_branches(zoo: Zoo, projects: Sequence[str]) -> None:
    for name in projects:
        git(zoo.clones[name], "update-ref", "-d", "refs/heads/perfmod/kills")


def edits(zoo: Zoo) -> Row:
    """The part `edits`."""
    chosen = zoo.some(FORTY)
    campaign, listing = zoo.scratch / "edits", zoo.listing("edits", chosen)
    migrate(zoo.scratch, "--list", listing, "--out", campaign)
    before = _done(campaign)
    for name in random.Random(SEED).sample(chosen, 3):
        tree, script = zoo.clones[name], "added_by_benchmark.py"
        (tree / script).write_text("import torch\n\nprint(torch.ones(1))\n", "utf-8")
        git(tree, "add", "--force", script)
        git(tree, "commit", "--quiet", "--no-verify", "-m", "One more file")
    taken = migrate(zoo.scratch, "--list", listing, "--out", campaign)
    after = _done(campaign)
    return {"projects": len(chosen), **taken, "analysed": sum(name not in before for name in after)}


PARTS: Final[Mapping[str, tuple[Callable[[Zoo], Row], Callable[[Row], bool]]]] = {
    "all": (everything, lambda row: row["outcomes"].total() == row["projects"]),
    "dask": (dask, lambda row: bool(row["identical"])),
    "branches": (branches, lambda row: not row["wrong"]),
    "kills": (kills, lambda row: row["same"] == row["of"]),
    "edits": (edits, lambda row: row["analysed"] == 3),
}


def main() -> int:
    """Run the parts; whether all is as it has to be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkouts", type=Path, default=Path("zoo"))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--only", type=int, help="take so many of the repositories")
    arguments = parser.parse_args()
    talk, is_right = Console(stderr=True), True
    results: Row = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "clones").mkdir()
        listed = zoo()
        random.Random(SEED).shuffle(listed)
        clones = {}
        for repository in listed[: arguments.only]:
            folder = clone(
                repository, arguments.checkouts.absolute(), scratch / "clones" / repository.name.replace("/", "+")
            )
            if folder is not None:
                clones[repository.name] = folder
        for part in arguments.parts.split(","):
            run, holds = PARTS[part]
            row = run(Zoo(clones, scratch))
            is_right &= holds(row)
            results[part] = {"perfmod": revision(), "machine": machine(), "python": sys.version.split()[0], **row}
            talk.print(part, row)
            if arguments.only is None:
                RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
