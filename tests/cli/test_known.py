"""What `check` leaves out: findings of a baseline, and those on lines that did not change."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import notebooks
import pytest
from cli_fakes.running import Run, Write

from perfmod.errors import ExitCode

SLOW = "PM901 slow-call: a slow call"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a")


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


def test_only_what_is_not_in_the_baseline_is_reported(write: Write, perfmod: Run) -> None:
    path = write("src/a.py", "torch_slow()\ntorch_risky()\n")
    ran = perfmod("check", ".", "--baseline", "b.json", "--write-baseline")
    assert (ran.code, ran.out) == (ExitCode.OK, b"")
    assert ran.err == "nothing to rewrite in 1 file\nb.json: 2 findings written\n"
    ran = perfmod("check", ".", "--baseline", "b.json", "--unsafe")
    assert (ran.code, ran.out) == (ExitCode.OK, b"")
    assert ran.err == "nothing to rewrite in 1 file\n2 findings left out: known from b.json\n"

    path.write_text("# more\n\ntorch_risky()\ntorch_slow()\n\ndef f():\n    torch_slow()\n")
    ran = perfmod("check", ".", "--baseline", "b.json")
    assert (ran.code, lines(ran.out)) == (ExitCode.FOUND, [f"src/a.py:7:5: {SLOW}"])
    assert ran.err.startswith("1 rewrite in 1 of 1 file;")
    assert perfmod("check", ".", "--baseline", "b.json", "--exit-zero").code == ExitCode.OK
    document = json.loads(perfmod("check", ".", "--baseline", "b.json", "--output-format", "json").out)
    assert [row["line"] for row in document["findings"]] == [7]


def test_the_file_is_readable_and_stable(project: Path, write: Write, perfmod: Run) -> None:
    write("b.py", "torch_slow()\ntorch_slow()\ntorch_minor()\n")
    path = write("täg lich/a.py", "class A:\n    def f(self):\n        torch_slow()\n")
    perfmod("check", ".", "--baseline", "b.json", "--write-baseline")
    written = (project / "b.json").read_bytes()
    rows = json.loads(written)["findings"]
    assert [(row["path"], row["rule"], row["scope"], row["count"]) for row in rows] == [
        ("b.py", "PM901", "", 2),
        ("b.py", "PM909", "", 1),
        ("täg lich/a.py", "PM901", "A.f", 1),
    ]
    assert len(written.splitlines()) == len(rows) + 5
    (project / "b.json").chmod(0o664)
    path.write_text(f"# more\n\n\n{path.read_text()}", "utf-8")
    perfmod("check", "b.py", path.parent.name, "--baseline", "b.json", "--write-baseline")
    assert (project / "b.json").read_bytes() == written
    assert (project / "b.json").stat().st_mode & 0o777 == 0o664


def test_of_equal_findings_as_many_are_known_as_there_were(write: Write, perfmod: Run) -> None:
    path = write("a.py", "torch_slow()\n")
    perfmod("check", ".", "--baseline", "b.json", "--write-baseline")
    path.write_text("torch_slow()\n" * 3)
    assert len(lines(perfmod("check", ".", "--baseline", "b.json").out)) == 2


def test_what_is_gone_is_told_with_the_command_that_removes_it(write: Write, perfmod: Run) -> None:
    write("a.py", "torch_slow()\ntorch_slow()\n")
    write("other.py", "torch_slow()\n")
    baseline = write("my b.json", "{}")
    baseline.unlink()
    perfmod("check", ".", "--baseline", "my b.json", "--write-baseline")
    write("a.py", "torch_slow()\n")
    # A file that is not checked, or a rule that does not run, says nothing of its entries.
    assert "no longer" not in perfmod("check", "a.py", "--baseline", "my b.json", "--select", "PM902").err
    *_, note = perfmod("check", "a.py", "--baseline", "my b.json").err.splitlines()
    command = "perfmod check a.py --baseline 'my b.json' --write-baseline"
    assert note == f"1 entry is no longer found: `{command}` removes it from my b.json"
    perfmod("check", "a.py", "--baseline", "my b.json", "--write-baseline")
    assert [(row["path"], row["count"]) for row in json.loads(baseline.read_bytes())["findings"]] == [
        ("a.py", 1),
        ("other.py", 1),
    ]


def test_a_renamed_file_is_known(project: Path, write: Write, perfmod: Run) -> None:
    path = write("a.py", "torch_slow()\n")
    perfmod("check", ".", "--baseline", "b.json", "--write-baseline")
    path.rename(project / "c.py")
    ran = perfmod("check", ".", "--baseline", "b.json")
    assert (ran.code, ran.err.splitlines()[1:]) == (ExitCode.OK, ["1 finding left out: known from b.json"])
    # Two may be it.
    write("d.py", "torch_slow()\n")
    assert len(lines(perfmod("check", ".", "--baseline", "b.json").out)) == 2


def test_the_configuration_names_it(write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("pyproject.toml", '[tool.perfmod]\nbaseline = "ci/known.json"\n')
    path = write("src/a.py", "torch_slow()\n")
    ran = perfmod("check", ".")
    assert (ran.code, ran.complaint) == (
        ExitCode.USAGE,
        "ci/known.json: there is no such baseline; `perfmod check . --write-baseline` writes it",
    )
    write("ci/.gitkeep", "")
    assert perfmod("check", ".", "--write-baseline").code == ExitCode.OK
    monkeypatch.chdir(path.parent)
    assert perfmod("check", "a.py").code == ExitCode.OK
    perfmod("apply", "a.py")
    assert path.read_text() == "torch_fast()\n"


@pytest.mark.parametrize(("content", "complaint"), [
    (None, "b.json: there is no such baseline; `perfmod check . --baseline b.json --write-baseline` writes it"),
    ("<<<<<<< HEAD\n", "b.json: is no baseline, since it is not JSON"),
    ("[]", "b.json: is no baseline of perfmod, which `--write-baseline` writes"),
    ('{"schema_version": 1, "findings": [{"path": 1}]}', "b.json: is no baseline of perfmod"),
    ('{"schema_version": 1, "findings": [{"path": "a", "rule": "b", "scope": "", "fingerprint": "c", "count": 0}]}',
     "b.json: is no baseline of perfmod"),
    ('{"schema_version": 9, "findings": []}', "b.json: has schema version 9, and this perfmod reads 1"),
])  # fmt: skip
def test_a_baseline_that_is_none(write: Write, perfmod: Run, content: str | None, complaint: str) -> None:
    write("a.py", "torch_slow()\n")
    if content is not None:
        path = write("b.json", content)
        assert perfmod("check", ".", "--baseline", "b.json", "--write-baseline").code == ExitCode.USAGE
        assert path.read_text() == content
    ran = perfmod("check", ".", "--baseline", "b.json")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith(complaint)


@pytest.mark.parametrize(("options", "complaint"), [
    (["--write-baseline"], "--write-baseline needs a file: add --baseline FILE"),
    (["--write-baseline", "--baseline", "b.json", "--new-only"], "--write-baseline takes all findings"),
    (["--since", "nowhere"], "nowhere: git knows no such revision in "),
])  # fmt: skip
def test_options_that_do_not_work(write: Write, perfmod: Run, options: list[str], complaint: str) -> None:
    write("a.py", "torch_slow()\n")
    ran = perfmod("check", ".", *options)
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith(complaint)


def test_only_changed_lines_are_reported(project: Path, write: Write, perfmod: Run) -> None:
    hard = 'a "b"\t\u00e4 \\ c.py'
    body = "".join(f"torch_slow({number})\n" for number in range(10))
    for name in ("plain.py", "moved.py", hard, "gone.py"):
        write(name, body)
    commit(project)
    ran = perfmod("check", ".", "--new-only")
    assert (ran.code, ran.out) == (ExitCode.OK, b"")
    assert ran.err.splitlines()[-1] == "40 findings left out: on lines unchanged since HEAD"

    write("plain.py", body.replace("(3)", "(33)").replace("torch_slow(5)\n", ""))
    # A line that looks like a header of a diff.
    write(hard, f"'''\n++ b/plain.py\n@@ -1 +1,9 @@\n'''\n{body}torch_slow(\n    10)\n")
    git(project, "mv", "moved.py", "to here.py")
    write("to here.py", body.replace("(0)", "(00)"))
    (project / "gone.py").unlink()
    write("untracked.py", "torch_slow()\n")
    write("staged.py", "torch_slow()\n")
    git(project, "add", "staged.py", "plain.py")
    found = lines(perfmod("check", ".", "--new-only").out)
    assert found == [
        f"{name}: {SLOW}"
        for name in (
            'a "b"\\t\u00e4 \\ c.py:15:1',
            "plain.py:4:1",
            "staged.py:1:1",
            "to here.py:1:1",
            "untracked.py:1:1",
        )
    ]


def test_since_a_branch(project: Path, write: Write, perfmod: Run) -> None:
    """What others did on that branch meanwhile is not what this one changed."""
    write("a.py", "torch_slow(0)\n\n\n\n\ntorch_slow(1)\n")
    commit(project)
    git(project, "branch", "-M", "main")
    git(project, "switch", "-q", "-c", "feature")
    write("a.py", "torch_slow(0)\n\n\n\n\ntorch_slow(2)\n")
    commit(project)
    git(project, "switch", "-q", "main")
    write("a.py", "torch_slow(9)\n\n\n\n\ntorch_slow(1)\n")
    commit(project)
    git(project, "switch", "-q", "feature")
    assert lines(perfmod("check", ".", "--since", "main").out) == [f"a.py:6:1: {SLOW}"]
    assert perfmod("check", ".", "--new-only").code == ExitCode.OK
    git(project, "switch", "-q", "--orphan", "lonely")
    write("b.py", "torch_slow()\n")
    commit(project)
    assert "main and HEAD have no commit in common here" in perfmod("check", ".", "--since", "main").complaint


def test_before_the_first_commit_all_is_new(write: Write, perfmod: Run) -> None:
    write("a.py", "torch_slow()\n")
    assert perfmod("check", ".", "--new-only").code == ExitCode.FOUND


def test_of_notebooks_the_cells_whose_code_is_new(project: Path, write: Write, perfmod: Run) -> None:
    write("a.ipynb", notebooks.document("torch_slow(1)", "torch_slow(2)", "torch_slow(3)"))
    commit(project)
    cells = (
        notebooks.code("torch_slow(2)", outputs=[]),
        notebooks.text("new"),
        "torch_slow(1)",
        "x = 3\ntorch_slow(3)",
    )
    write("a.ipynb", notebooks.document(*cells, indent=2))
    assert lines(perfmod("check", ".", "--new-only").out) == [f"a.ipynb:cell 4:2:1: {SLOW}"]


def test_a_rewrite_that_reaches_a_changed_line_is_new(project: Path, write: Write, perfmod: Run) -> None:
    write("library.py", "def torch_far(): ...\n")
    write("train.py", "from library import torch_far\n\ntorch_far()\n")
    commit(project)
    write("library.py", "def torch_far(): pass\n")
    assert [line.split()[1] for line in lines(perfmod("check", ".", "--new-only").out)] == ["PM906"]


def test_outside_of_repositories(tmp_path: Path, perfmod: Run) -> None:
    path = tmp_path / "a.py"
    path.write_text("torch_slow()\n")
    ran = perfmod("check", str(path), "--new-only")
    assert (ran.code, "is in no git repository" in ran.complaint) == (ExitCode.USAGE, True)


def test_without_git(project: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", "torch_slow()\n")
    monkeypatch.setenv("PATH", str(project))
    ran = perfmod("check", ".", "--new-only")
    assert (ran.code, ran.complaint) == (ExitCode.FAILED, "git is not installed, or not on the PATH")


def test_in_a_hook(project: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where git has set which repository and index its commands are for."""
    write("sub/a.py", "torch_slow()\n")
    commit(project)
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index.lock")
    monkeypatch.chdir(project / "sub")
    assert perfmod("check", ".", "--new-only").code == ExitCode.OK
