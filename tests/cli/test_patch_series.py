"""`apply --patch-series`: what `git am` makes of it is what `apply` writes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from attrs import evolve
from cli_fakes.running import Run, Write
from repositories import PLAIN, commit_all, git, subjects
from verify_evidence import rich

from perfmod.errors import ExitCode
from perfmod.verify.evidence import RuleRow, Verdict
from perfmod.verify.report import evidence_json

FILES = {
    "crlf.py": b"\xef\xbb\xbfx = 1\r\ntorch_slow()\r\n\x0c\r\ntorch_slow(2)\r\n",
    "lone_cr.py": b"a = 1\rtorch_slow()\nb = '\\\r'\n",
    "open.py": b"if x:\n\ttorch_slow()\n\ttorch_optional(1)",
    "latin.py": b"# coding: latin-1\ntorch_slow('\xe9')\n",
    "separators.py": "torch_slow('a\u2028b\x85')  # ä\n".encode(),
    "twice.py": b"torch_twice(1)\ntorch_slow(2)\n",
    "pkg/lib.py": b"def torch_far():\n    pass\n\n\ntorch_slow()\n",
    "main.py": b"from pkg.lib import torch_far\n\ntorch_far()\ntorch_far()\n",
    "book.ipynb": b'{"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": [\n{"cell_type": "code",'
    b' "metadata": {}, "execution_count": null, "outputs": [],\n "source": ["# torch\\n", "torch_slow()\\n",'
    b' "torch_optional()"]}\n]}',
}
EVERYTHING = ("--extend-select", "PM903")


@pytest.fixture
def repository(project: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    for name, content in FILES.items():
        write(name, content)
    write("CODEOWNERS", "*  @core\n*.ipynb @books @core\n/pkg/ @lib # they know\nopen.py\n")
    commit_all(project)
    return project


def contents(project: Path) -> dict[str, bytes]:
    return {name: (project / name).read_bytes() for name in FILES}


def applied(project: Path, perfmod: Run) -> dict[str, bytes]:
    """What `apply` writes."""
    assert perfmod("apply", ".", *EVERYTHING).code == ExitCode.OK
    found = contents(project)
    assert perfmod("revert").code == ExitCode.OK
    return found


@pytest.mark.parametrize(
    ("by", "names"),
    [
        (
            "rule",
            [
                "0001-PM903-optional-call.patch",
                "0002-PM906-far-call.patch",
                "0003-PM908-twice-call.patch",
                "0004-PM901-slow-call.patch",
            ],
        ),
        ("finding", None),
        (
            "file",
            [
                "0001-book-ipynb.patch",
                "0002-crlf-py.patch",
                "0003-latin-py.patch",
                "0004-lone_cr-py.patch",
                "0005-main-py-pkg-lib-py.patch",
                "0006-open-py.patch",
                "0007-separators-py.patch",
                "0008-twice-py.patch",
            ],
        ),
        ("owner", ["0001-books-core.patch", "0002-core.patch", "0003-core-lib.patch", "0004-without-owner.patch"]),
    ],
)
def test_git_makes_of_it_what_apply_writes(
    repository: Path, tmp_path: Path, perfmod: Run, by: str, names: list[str] | None
) -> None:
    expected = applied(repository, perfmod)
    ran = perfmod("apply", ".", *EVERYTHING, "--patch-series", "../series", "--by", by)
    assert (ran.code, ran.out) == (ExitCode.OK, b"")
    assert contents(repository) == FILES
    mails = sorted((tmp_path / "series").iterdir())
    assert names is None or [mail.name for mail in mails] == names
    assert f"{len(mails)} patches in ../series: `git am --keep-cr ../series/*.patch`" in ran.err
    for mail in mails:
        git(repository, "am", "--quiet", "--keep-cr", str(mail))
        for name, content in contents(repository).items():
            if name.endswith(".py"):
                compile(content, name, "exec")
    assert contents(repository) == expected
    assert git(repository, "status", "--porcelain") == b""


def test_the_message(repository: Path, tmp_path: Path, perfmod: Run) -> None:
    perfmod("apply", "open.py", "--patch-series", str(tmp_path / "series"))
    git(repository, "am", "--quiet", str(tmp_path / "series" / "0001-PM901-slow-call.patch"))
    said = git(repository, "log", "-1", "--format=%an <%ae>%n%ad%n%B", "--date=raw").decode()
    fingerprint = said.split()[-1]
    assert said == (
        "Ada Löve <ada@example.org>\n1700000000 +0200\n"
        "PM901 slow-call: Call the fast function (open.py:2)\n\n"
        "PM901 slow-call: a slow call. Call the fast function.\n\n"
        "open.py:2: a slow call\n"
        "  Why: the fast one does the same\n"
        "  Numerics: bitwise: equal to the last bit\n\n"
        "When PM901 changes results: Never: both functions are made up.\n\n"
        f"Perfmod-Finding: open.py PM901 {fingerprint}\n\n"
    )
    trailers = git(repository, "log", "-1", "--format=%(trailers:key=Perfmod-Finding,valueonly)").decode()
    assert trailers.split() == ["open.py", "PM901", fingerprint]


def test_what_a_verification_found_out(repository: Path, tmp_path: Path, write: Write, perfmod: Run) -> None:
    (row,) = json.loads(perfmod("check", "open.py", "--output-format", "json").out)["findings"][:1]
    rule = RuleRow("PM901", "slow-call", "bitwise", ("open.py:2",), Verdict.PROVEN, 1.21, 1.18, 1.25, 2.0)
    record = evolve(rich(), files=(), rules=(evolve(rule, fingerprints=(row["fingerprint"],)),))
    write(".perfmod/runs/evidence.json", evidence_json.render(record))
    perfmod("apply", "open.py", "--patch-series", "../series")
    git(repository, "am", "--quiet", *map(str, (tmp_path / "series").iterdir()))
    said = " ".join(git(repository, "log", "-1", "--format=%B").decode().split())
    assert "Evidence: training proven, step 1.21x as fast (1.18 to 1.25), 2 fewer synchronisations per" in said
    assert "[.perfmod/runs/evidence.json] When PM901 changes results" in said


def test_a_finding_comes_after_what_it_builds_on(repository: Path, tmp_path: Path, perfmod: Run) -> None:
    perfmod("apply", "twice.py", "--patch-series", str(tmp_path / "series"))
    git(repository, "am", "--quiet", *map(str, sorted((tmp_path / "series").iterdir())))
    assert [subject.split(":")[0] for subject in subjects(repository)[1:]] == ["PM908 twice-call", "PM901 slow-call"]


def test_patches_of_different_places_can_be_left_out(repository: Path, tmp_path: Path, perfmod: Run) -> None:
    expected = applied(repository, perfmod)
    perfmod("apply", "latin.py", "open.py", "separators.py", "--patch-series", "../series", "--by", "finding")
    first, *between, last = sorted((tmp_path / "series").iterdir())
    git(repository, "am", "--quiet", *map(str, between))
    changed = [name for name, content in contents(repository).items() if content != FILES[name]]
    assert changed == ["open.py"]
    git(repository, "am", "--quiet", str(last), str(first))
    for name in ("latin.py", "separators.py"):
        assert (repository / name).read_bytes() == expected[name]


@pytest.mark.usefixtures("repository")
def test_of_what_was_accepted(write: Write, perfmod: Run, tmp_path: Path) -> None:
    write("none.json", '{"schema_version": 1, "decisions": []}')
    ran = perfmod("apply", ".", "--decisions", "none.json", "--patch-series", "../series")
    assert ran.code == ExitCode.OK
    assert "nothing to rewrite" in ran.err
    assert not (tmp_path / "series").exists()


def test_owners_have_to_be_written_down(repository: Path, perfmod: Run) -> None:
    (repository / "CODEOWNERS").unlink()
    ran = perfmod("apply", "open.py", "--patch-series", "../series", "--by", "owner")
    assert ran.code == ExitCode.USAGE
    assert ran.last_words.startswith(f"{repository}: has no CODEOWNERS file; it may be .github/CODEOWNERS, CODEOWNERS")


@pytest.mark.usefixtures("repository")
def test_another_series_is_not_mixed_up(tmp_path: Path, perfmod: Run) -> None:
    assert perfmod("apply", ".", "--patch-series", "../series").code == ExitCode.OK
    ran = perfmod("apply", ".", "--patch-series", "../series")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint == "../series: holds patches already, such as 0001-PM906-far-call.patch; name a new folder"
    shutil.rmtree(tmp_path / "series")
    (tmp_path / "series").write_text("")
    assert perfmod("apply", ".", "--patch-series", "../series").complaint.endswith("--patch-series takes a folder")


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--patch-series", "d", "--dry-run"], "--patch-series and --dry-run do not go together; leave one out"),
        (["--patch-series", "d", "--patch", "f"], "--patch-series and --patch do not go together; leave one out"),
        (["--commits", "--patch-series", "d"], "--commits and --patch-series do not go together; leave one out"),
        (["--commits", "--dry-run"], "--commits and --dry-run do not go together; leave one out"),
        (["--by", "rule"], "--by goes with --patch-series or --commits"),
        (["--branch", "b"], "--branch goes with --commits"),
        (["--partial"], "--partial goes with --from"),
        (["--from", "open.py", "--verify"], "--from and --verify do not go together; leave one out"),
        (["--from", "open.py", "--select", "PM901"], "--from and --select do not go together; leave one out"),
    ],
)
def test_what_does_not_go_together(perfmod: Run, arguments: list[str], complaint: str) -> None:
    ran = perfmod("apply", "open.py", *arguments)
    assert (ran.code, ran.complaint) == (ExitCode.USAGE, complaint)


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("option", [["--patch-series", "d"], ["--commits"], ["--from", "open.py"]])
def test_not_of_standard_input(perfmod: Run, option: list[str]) -> None:
    assert perfmod("apply", "-", *option).complaint == f"{option[0]} takes files and folders, not standard input"


def test_outside_of_a_repository(tmp_path: Path, project: Path, write: Write, perfmod: Run) -> None:
    """The series is for whoever has the files in one."""
    shutil.rmtree(project / ".git")
    write("a.py", "torch_slow()\n")
    assert perfmod("apply", ".", "--patch-series", "../series").code == ExitCode.OK
    subprocess.run(["git", "apply", *(tmp_path / "series").iterdir()], cwd=project, check=True)
    assert (project / "a.py").read_text() == "torch_fast()\n"
