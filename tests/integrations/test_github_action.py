"""The steps of action.yml on a recorded event, with a real repository and a server in GitHub's place."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked_python
import pytest
import yaml
from attrs import frozen
from github_server import TOKEN, GitHubServer, serving

from perfmod.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]
EVENT = Path(__file__).parent / "events" / "pull_request.json"

STEP = """\
def {name}(model, loader, optimizer, loss_of):
    total = 0.0
    for images, labels in loader:
        loss = loss_of(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += {loss}
    return total
"""
HEADER = "import torch\n\n\n"
SLOW, FINE = "loss.item()", "loss.detach()"
SPACE = "\n\n" + "".join(f"CONSTANT_{number} = {number}\n" for number in range(12)) + "\n\n"


def step(name: str, loss: str = SLOW) -> str:
    return STEP.format(name=name, loss=loss)


BASE = {
    "old.py": HEADER + step("untouched") + SPACE + step("edited", FINE),
    "loop.py": HEADER + SPACE + step("renamed", FINE) + SPACE,
    "gone.py": HEADER + step("deleted"),
    "less.py": HEADER + step("kept") + SPACE + step("deleted"),
    "notes.txt": "notes\n",
}
HEAD = {
    "old.py": HEADER + step("untouched") + SPACE + step("edited"),
    "src/my engine.py": HEADER + SPACE + step("renamed") + SPACE,
    "less.py": HEADER + step("kept") + SPACE.rstrip("\n") + "\n",
    "new.py": HEADER + step("one") + "\n\n" + step("two"),
    "notes.txt": "more notes\n",
}


def feeding(name: str) -> str:
    """A loop far below its loader, whose rewrite changes both."""
    between = "".join(f"    note_{number} = {number}\n" for number in range(12))
    return f"""\
from torch.utils.data import DataLoader


def train(dataset, model, optimizer, device, other):
    loader = DataLoader(dataset, batch_size=32, num_workers=4)
    losses = []
{between}    for images, labels in loader:
        images = images.to(device)
        labels = labels.to({name})
        loss = model(images, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def notebook(code: str) -> str:
    cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": code}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


BASE |= {"feed.py": feeding("other")}
HEAD |= {"feed.py": feeding("device"), "notebook.ipynb": notebook("import torch\n\n" + step("train"))}


@frozen
class Ran:
    code: int
    log: str
    summary: str


class Job:
    """A job of GitHub Actions for a pull request: a clone as checkout makes it, and the environment of its steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.origin, self.clone = folder / "origin", folder / "clone"
        self.origin.mkdir()
        self.git(self.origin, "init", "-q", "-b", "main")
        self.base = self.head = ""

    def git(self, cwd: Path, *arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *who, *arguments], cwd=cwd, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, files: dict[str, str], branch: str) -> str:
        """A commit that holds these files and no others, on a branch of the origin."""
        self.git(self.origin, "checkout", "-q", "-B", branch)
        for old in self.git(self.origin, "ls-files", "-z").split("\0"):
            (self.origin / old).unlink() if old else None
        for name, text in files.items():
            (self.origin / name).parent.mkdir(exist_ok=True)
            (self.origin / name).write_bytes(text.encode())
        self.git(self.origin, "add", "--all")
        self.git(self.origin, "commit", "-q", "--allow-empty", "-m", branch)
        return self.git(self.origin, "rev-parse", "HEAD")

    def check_out(self, base: dict[str, str], head: dict[str, str]) -> None:
        """What checkout does without options: the merge of base and head, and no other commit."""
        self.base = self.commit(base, "main")
        self.head = self.commit(head, "change")
        self.git(self.origin, "checkout", "-q", "-B", "merged", "main")
        self.git(self.origin, "merge", "-q", "--no-ff", "-m", "merge", "change")
        self.git(self.folder, "clone", "-q", "--depth", "1", "--branch", "merged", self.origin.as_uri(), "clone")

    def push(self, head: dict[str, str]) -> None:
        """Another commit on the branch of the pull request, for the next run, which fetches it."""
        self.git(self.origin, "checkout", "-q", "change")
        self.head = self.commit(head, "change")

    def run(self, api: str, event: Path = EVENT, **inputs: str) -> Ran:
        """Run the last step of action.yml, with these inputs."""
        action = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
        given = {name: str(each.get("default", "")) for name, each in action["inputs"].items()} | {"token": TOKEN}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        assert given.keys() == action["inputs"].keys()
        step = action["runs"]["steps"][-1]
        variables = {
            name: re.sub(r"\$\{\{ inputs\.(\S+) \}\}", lambda match: given[match[1]], value)
            for name, value in step["env"].items()
        }
        python = self.folder / "temp" / "perfmod-action" / "bin" / "python"
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        recorded = event.read_text("utf-8").replace("BASE_SHA", self.base).replace("HEAD_SHA", self.head)
        (self.folder / "event.json").write_text(recorded)
        summary = self.folder / "summary.md"
        summary.write_text("")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.clone,
            env=os.environ
            | variables
            | {
                "GITHUB_API_URL": api,
                "GITHUB_EVENT_PATH": str(self.folder / "event.json"),
                "GITHUB_REPOSITORY": "vision-lab/segmenter",
                "GITHUB_RUN_ID": "77",
                "GITHUB_STEP_SUMMARY": str(summary),
                "PERFMOD_CACHE_DIR": str(self.folder / "cache"),
                "RUNNER_TEMP": str(self.folder / "temp"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout + done.stderr, summary.read_text("utf-8"))

    def applied(self, *arguments: str) -> dict[str, str]:
        """What `perfmod apply` writes into files of the head."""
        self.git(self.origin, "checkout", "-q", "--detach", self.head)
        command = [forked_python.perfmod(), "-m", "perfmod", "apply", "--no-cache", *arguments]
        environment = os.environ | {"PERFMOD_STATE_DIR": str(self.folder / "state")}
        subprocess.run(command, cwd=self.origin, check=True, capture_output=True, env=environment)
        return {path: (self.origin / path).read_bytes().decode() for path in arguments if path in HEAD}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def github(job: Job) -> Iterator[GitHubServer]:
    with serving(job.origin) as server:
        yield server


def places(comments: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(each["path"], each.get("start_line", each["line"]), each["line"]) for each in comments]


def committed(text: str, comments: list[dict[str, Any]]) -> str:
    """A file after somebody has committed the suggestions of all comments."""
    lines = text.splitlines(keepends=True)
    for comment in sorted(comments, key=lambda each: -each["line"]):
        offered = re.search(r"(?ms)^```suggestion\n(.*?)^```$", comment["body"])
        assert offered, comment["body"]
        lines[comment.get("start_line", comment["line"]) - 1 : comment["line"]] = [offered[1]]
    return "".join(lines)


def test_a_review_says_what_apply_would_write_on_changed_lines(job: Job, github: GitHubServer) -> None:
    job.check_out(BASE, HEAD)
    ran = job.run(github.url, args="--low-impact")
    assert (ran.code, ran.log) == (ExitCode.OK, "")
    (review,) = github.reviews
    comments = review["comments"]
    assert review["commit_id"] == job.head
    assert places(comments) == [
        ("feed.py", 21, 21),
        ("new.py", 11, 11),
        ("new.py", 22, 22),
        ("old.py", 36, 36),
        ("src/my engine.py", 27, 27),
    ]
    assert review["body"] == (
        "perfmod: 6 places that could be faster in the lines that this pull request changes. New comments: 5; all "
        "places are in the [summary of the job](https://github.com/vision-lab/segmenter/actions/runs/77)."
    )
    # Its rewrite needs a line far above, which the page of the pull request does not show.
    assert "`perfmod apply feed.py --low-impact` rewrites it." in comments[0]["body"]
    paths = ("new.py", "old.py", "src/my engine.py")
    written = job.applied("--low-impact", *paths)
    for path in ("new.py", "src/my engine.py"):
        assert committed(HEAD[path], [each for each in comments if each["path"] == path]) == written[path]
    assert committed(HEAD["old.py"], [comments[3]]) != written["old.py"]  # what was there before is left alone
    assert "`notebook.ipynb:cell 1:10:9` | PM106" in ran.summary
    assert "[`old.py:36:9`](https://github.com/vision-lab/segmenter/blob/" in ran.summary
    assert ran.summary.count("PM106") == 5
    assert "less.py" not in ran.summary

    again = job.run(github.url, args="--low-impact")
    assert (again.code, again.log, again.summary) == (ExitCode.OK, "", ran.summary)
    assert len(github.reviews) == 1
    job.push(HEAD | {"old.py": "# moved\n" * 5 + HEAD["old.py"], "newer.py": HEADER + "\n\n".join(map(step, "abc"))})
    ran = job.run(github.url, args="--low-impact")
    assert (ran.code, ran.log) == (ExitCode.OK, "")
    assert places(github.reviews[1]["comments"]) == [("newer.py", line, line) for line in (11, 22, 33)]


def test_a_pull_request_gets_no_more_comments_than_it_may(job: Job, github: GitHubServer) -> None:
    many = "\n\n".join(step(f"train{number}") for number in range(12))
    job.check_out({"README": ""}, {"README": "", "many.py": HEADER + many})
    for _ in range(2):
        ran = job.run(github.url, args="--low-impact", max_comments="3", fail_on="finding")
        assert ran.code == ExitCode.FOUND
        assert ran.summary.count("PM106") == 12
        assert len(github.comments) == 3
    assert len(github.reviews) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize(("trouble", "level", "said", "codes"), [
    ("read-only", "notice", "GitHub answered 403 Resource not accessible by integration", (0, 0)),
    ("away", "warning", "GitHub could not be reached", (0, 3)),
])  # fmt: skip
def test_annotations_are_the_way_out(
    job: Job, github: GitHubServer, trouble: str, level: str, said: str, codes: tuple[int, int]
) -> None:
    job.check_out({"README": ""}, {"README": "", "a,b.py": HEADER + step("train")})
    github.read_only = trouble == "read-only"
    api = github.url if github.read_only else "http://127.0.0.1:9"
    for fail_on, code in zip(("never", "error"), codes, strict=True):
        ran = job.run(api, args="--low-impact", fail_on=fail_on)
        first, second = ran.log.splitlines()
        assert first.startswith(f"::{level} title=perfmod::no review, annotations instead: {said}")
        place = "file=a%2Cb.py,line=11,endLine=11,col=9,endColumn=29,title=PM106 scalar-accumulation"
        assert second.startswith(f"::warning {place}::A scalar is read")
        assert ran.code == code
    assert github.comments == []


def test_nothing_found_is_no_review(job: Job, github: GitHubServer) -> None:
    job.check_out({"old.py": HEADER + step("untouched")}, {"old.py": HEADER + step("untouched") + SPACE})
    ran = job.run(github.url, args="--low-impact", fail_on="finding")
    assert (ran.code, ran.log, github.reviews) == (ExitCode.OK, "", [])
    assert ran.summary == "### perfmod\n\nNothing to rewrite in the lines that this pull request changes.\n"


def test_a_push_is_annotated_as_a_whole(job: Job, github: GitHubServer, tmp_path: Path) -> None:
    job.check_out({"README": ""}, {"README": "", "many.py": HEADER + "\n\n".join(map(step, "abcdefghijkl"))})
    event = tmp_path / "push.json"
    event.write_text('{"ref": "refs/heads/main", "after": "HEAD_SHA"}')
    ran = job.run(github.url, event, args="--low-impact")
    *shown, rest = ran.log.splitlines()
    assert len(shown) == 10
    assert rest == "::notice title=perfmod::2 more are in the summary of this job"
    assert ran.summary.startswith("### perfmod\n\n12 places that could be faster in the whole code; ")
    assert github.reviews == []


@pytest.mark.parametrize(("inputs", "said"), [
    ({"mode": "reviews"}, "input mode: 'reviews' is none of review, annotate, sarif, summary"),
    ({"fail_on": "all"}, "input fail-on: 'all' is none of never, error, finding"),
    ({"max_comments": "few"}, "input max-comments: 'few' is no number"),
    ({"args": "--select '"}, "input args: No closing quotation"),
    ({"args": "--select PM999"}, "perfmod check refused the inputs paths or args; see the log"),
])  # fmt: skip
def test_a_mistake_in_the_workflow_fails(job: Job, inputs: dict[str, str], said: str) -> None:
    job.check_out({"README": ""}, {"README": "", "train.py": "import torch\n"})
    ran = job.run("http://127.0.0.1:9", **inputs)
    assert ran.code == ExitCode.USAGE
    assert f"::error title=perfmod::{said}\n" in ran.log
