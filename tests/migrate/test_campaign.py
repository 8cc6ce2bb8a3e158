"""Campaigns from the command line, over real repositories."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import forked_python
import pytest

from perfmod.migrate.sandbox import can_isolate

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits" / "train.py"
WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"))
}


def perfmod(cwd: Path, *arguments: str, python: str = "") -> subprocess.CompletedProcess[str]:
    command = [python or forked_python.perfmod(), "-m", "perfmod", "migrate", *arguments]
    return subprocess.run(command, cwd=cwd, env={**os.environ, **WHO}, capture_output=True, text=True, timeout=120)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **WHO}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
    if files:
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "-m", "Add files")
    return folder


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    example = EXAMPLE.read_text("utf-8")
    repository(tmp_path / "zoo" / "digits", {"train.py": example})
    repository(tmp_path / "zoo" / "idle", {"main.py": "print('no training here')\n"})
    repository(tmp_path / "zoo" / "empty", {})
    repository(tmp_path / "zoo" / "hooked", {"train.py": example})
    hook = tmp_path / "zoo" / "hooked" / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho no commits on Fridays >&2\nexit 1\n", "utf-8")
    hook.chmod(0o755)
    return tmp_path / "zoo"


def rows(campaign: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((campaign / "report.json").read_text("utf-8"))
    return {row["name"]: row for row in document["projects"]}


def pieces(campaign: Path) -> dict[tuple[str, str], str]:
    with sqlite3.connect(campaign / "state.sqlite") as connection:
        found = connection.execute("SELECT project, step, finished FROM pieces").fetchall()
    return {(project, step): finished for project, step, finished in found}


def test_a_dry_campaign_touches_nothing_and_makes_patches_that_apply(tmp_path: Path, zoo: Path) -> None:
    # With all processes as they are for users; the other tests fork theirs.
    done = perfmod(tmp_path, "zoo", "--out", "campaign", python=sys.executable)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "campaign")
    outcomes = {name: (row["outcome"], row["cause"]) for name, row in found.items()}
    assert outcomes == {
        "digits": ("changed", ""),
        "empty": ("skipped", "no-commits"),
        "hooked": ("changed", ""),
        "idle": ("unchanged", ""),
    }
    assert git(zoo / "digits", "status", "--porcelain") == ""
    assert git(zoo / "digits", "branch", "--format=%(refname:short)") == "main"
    patches = sorted((tmp_path / "campaign/projects/digits/patches").iterdir())
    git(zoo / "digits", "am", "--quiet", *map(str, patches))
    assert "non_blocking" in (zoo / "digits" / "train.py").read_text("utf-8")
    assert (tmp_path / "campaign/report.html").stat().st_size > 10_000


def test_branches_are_made_beside_a_dirty_tree_and_what_fails_stops_no_other(tmp_path: Path, zoo: Path) -> None:
    (zoo / "digits" / "train.py").write_text("# half-finished\n", "utf-8")
    shutil.copytree(zoo / "digits", tmp_path / "gone")
    (tmp_path / "list.txt").write_text("zoo  # all of them\ngone\n", "utf-8")
    first = perfmod(tmp_path, "--list", "list.txt", "--out", "campaign", "--pilot", "1")
    assert first.returncode in (0, 3), first.stderr
    assert "`perfmod migrate resume campaign` does the other" in first.stderr
    done = perfmod(tmp_path, "--list", "list.txt", "--out", "campaign", "--write", "--branch", "faster")
    assert done.returncode == 3, done.stderr
    found = rows(tmp_path / "campaign")
    assert (found["hooked"]["outcome"], found["hooked"]["cause"]) == ("failed", "hook")
    assert "no commits on Fridays" in str(found["hooked"]["reason"])
    assert (zoo / "digits" / "train.py").read_text("utf-8") == "# half-finished\n"
    assert "non_blocking" in git(zoo / "digits", "show", "faster:train.py")
    assert len(git(zoo / "digits", "worktree", "list").splitlines()) == 1
    shutil.rmtree(tmp_path / "gone")
    (zoo / "hooked" / ".git" / "hooks" / "pre-commit").unlink()
    again = perfmod(tmp_path, "retry", "campaign", "--cause", "hook")
    assert again.returncode == 3, again.stderr
    found = rows(tmp_path / "campaign")
    assert found["hooked"]["outcome"] == "changed"
    assert (found["gone"]["outcome"], found["gone"]["cause"]) == ("failed", "vanished")
    shown = perfmod(tmp_path, "status", "campaign")
    assert "branch faster" in shown.stdout


def test_only_what_has_changed_is_done_again(tmp_path: Path, zoo: Path) -> None:
    assert perfmod(tmp_path, "zoo", "--out", "campaign").returncode == 0
    before = pieces(tmp_path / "campaign")
    (zoo / "idle" / "more.py").write_text("print(2)\n", "utf-8")
    git(zoo / "idle", "add", "more.py")
    git(zoo / "idle", "commit", "--quiet", "-m", "Add more")
    assert perfmod(tmp_path, "resume", "campaign").returncode == 0
    after = pieces(tmp_path / "campaign")
    changed = {key for key in after if after[key] != before.get(key)}
    # What has no commits yet is looked at each time.
    assert changed - {("empty", "analysis")} == {("idle", "analysis")}


def test_a_killed_campaign_goes_on(tmp_path: Path, zoo: Path) -> None:
    command = [sys.executable, "-m", "perfmod", "migrate", "zoo", "--out", "campaign", "--write", "--jobs", "1"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, **WHO}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "campaign" / "work").glob("*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = perfmod(tmp_path, "resume", "campaign")
    assert done.returncode == 3, done.stderr
    assert rows(tmp_path / "campaign")["digits"]["outcome"] == "changed"
    assert "non_blocking" in git(zoo / "digits", "show", "perfmod:train.py")


def owned(folder: Path) -> Path:
    root = repository(folder, {"CODEOWNERS": "/one.py @ann\n/two.py @bob\n"})
    for name in ("one.py", "two.py"):
        shutil.copy(EXAMPLE, root / name)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "Add scripts")
    return root


def branches(root: Path) -> list[str]:
    return git(root, "branch", "--format=%(refname:short)").splitlines()


@pytest.mark.exhaustive
def test_as_many_shards_of_owners_are_open_as_reviewers_want(tmp_path: Path) -> None:
    first, second = owned(tmp_path / "zoo" / "a"), owned(tmp_path / "zoo" / "b")
    start = ("zoo", "--out", "campaign", "--write", "--owners", "3", "--jobs", "1")
    assert perfmod(tmp_path, *start).returncode == 0
    assert len(branches(first)) + len(branches(second)) == 3 + len(("main", "main"))
    assert "held back: perfmod/" in perfmod(tmp_path, "status", "campaign").stdout
    (full, other) = (first, second) if len(branches(first)) == 3 else (second, first)
    merged = branches(full)[1]
    git(full, "merge", "--quiet", "--no-edit", merged)
    git(full, "branch", "--quiet", "--delete", merged)
    assert perfmod(tmp_path, "resume", "campaign").returncode == 0
    # What was merged is rewritten no more, and its place is taken by the one that waited.
    assert len(branches(full)) == 2
    assert len(branches(other)) == 3
    assert "held back" not in perfmod(tmp_path, "status", "campaign").stdout


@pytest.mark.parametrize("filled", [pytest.param(550_000, marks=pytest.mark.exhaustive), 700_000])
def test_a_disk_that_is_full_loses_nothing(tmp_path: Path, zoo: Path, filled: int) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"needs to mount a tmpfs: {mounted.stderr.strip()}")
    try:
        filler = place / "filler"
        filler.write_bytes(bytes(filled))
        full = perfmod(tmp_path, "zoo", "--out", "small/campaign", "--write")
        assert full.returncode == 3, full.stderr
        assert "Traceback" not in full.stderr
        assert re.search("no space left on device|disk is full", full.stderr, re.IGNORECASE)
        assert branches(zoo / "digits") in (["main"], ["main", "perfmod"])
        filler.unlink()
        # Only the hook still fails.
        assert perfmod(tmp_path, "zoo", "--out", "small/campaign", "--write").returncode == 3
        assert perfmod(tmp_path, "retry", "small/campaign", "--cause", "disk").returncode == 3
        found = {name: row["cause"] for name, row in rows(place / "campaign").items()}
        assert found == {"digits": "", "empty": "no-commits", "hooked": "hook", "idle": ""}
        assert branches(zoo / "digits") == ["main", "perfmod"]
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.exhaustive
def test_two_runs_exclude_each_other(tmp_path: Path, zoo: Path) -> None:
    assert perfmod(tmp_path, str(zoo), "--out", "campaign").returncode == 0
    holds = "import sys, time; from pathlib import Path; from perfmod.migrate.lock import locked\n"
    holds += "with locked(Path('campaign')):\n    print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", holds], cwd=tmp_path, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        done = perfmod(tmp_path, "resume", "campaign")
        assert done.returncode == 2
        assert f"process {holder.pid} on " in done.stderr
    finally:
        holder.kill()
        holder.communicate()


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    for arguments, said in (
        (("zoo",), "--out"),
        (("--out", "campaign"), "TARGET"),
        (("zoo", "--out", "campaign"), "zoo"),
        (("status", "nowhere"), "holds no campaign"),
        (("resume", "nowhere"), "holds no campaign"),
        ((".", "--out", "campaign", "--owners", "2"), "--owners goes with --write"),
    ):
        done = perfmod(tmp_path, *arguments)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


GUARD = """
import os
import socket
assert "API_TOKEN" not in os.environ, "a token was let through"
assert open("data.txt").read() == "made"
assert os.path.expanduser("~") != os.environ["USERS_HOME"]
with socket.socket() as probe:
    probe.settimeout(2)
    assert probe.connect_ex(("127.0.0.1", int(os.environ["PORT"]))) or os.environ["OPEN"], "the network is there"
print("api-token", "hf_" + "a" * 34)
"""


@pytest.mark.exhaustive
def test_scripts_are_verified_in_surroundings_of_their_own(tmp_path: Path) -> None:
    example = EXAMPLE.read_text("utf-8")
    guarded = example.replace("\nimport argparse\n", f"\nimport argparse\n{GUARD}", 1)
    assert guarded != example
    repository(tmp_path / "zoo" / "good", {"train.py": guarded})
    broken = example.replace("\nimport argparse\n", "\nimport argparse\nimport no_such_module\n", 1)
    repository(tmp_path / "zoo" / "broken", {"train.py": broken})
    with socket.create_server(("127.0.0.1", 0)) as server:
        makes = "\"python -c \\\"open('data.txt', 'w').write('made')\\\"\""
        home, port = str(Path.home()), server.getsockname()[1]
        is_open = "" if can_isolate() else "yes"
        (tmp_path / "ZOO.toml").write_text(
            '[defaults]\ndevice = "cpu"\nquick = true\nsteps = 4\ntimeout = 240\n\n'
            f'[[script]]\nproject = "good"\ncommand = "python train.py --steps 30"\ndata = {makes}\n'
            f'environment = {{ USERS_HOME = "{home}", PORT = "{port}", OPEN = "{is_open}" }}\n\n'
            '[[script]]\nproject = "broken"\nscript = "train.py"\n',
            "utf-8",
        )
        command = [sys.executable, "-m", "perfmod", "migrate", "zoo", "--out", "campaign", "--verify", "ZOO.toml"]
        environment = {**os.environ, **WHO, "API_TOKEN": "s3cr3t-value-1"}
        done = subprocess.run(
            [*command, "--gpus", "cpu"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
        )
    found = rows(tmp_path / "campaign")
    told = json.dumps(found, indent=1) + done.stderr
    (good,), (wrong,) = (found[name]["verdicts"] for name in ("good", "broken"))
    assert good["verification"]["verdict"] in ("proven", "no measurable change", "refuted", "inconclusive"), told
    assert good["verification"]["cause"] in ("", "refuted"), told
    assert (wrong["verification"]["verdict"], wrong["verification"]["cause"]) == ("failed", "fails-before"), told
    assert "no_such_module" in wrong["verification"]["reason"], told
    evidence = tmp_path / "campaign" / "projects" / "good" / "verify"
    written = b"".join(path.read_bytes() for path in evidence.rglob("*") if path.is_file())
    assert b"the same training" in written or b"slower" in written
    assert b"a" * 34 not in written
    assert str(tmp_path).encode() not in written
