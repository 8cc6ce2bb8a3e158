"""`apply --from`: a patch that a person edited."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cli_fakes.running import Ran, Run, Write
from repositories import commit_all, git

from perfmod.errors import ExitCode

CODE = "".join(f"line_{number} = {number}\n" for number in range(1, 40))
BEFORE = CODE.replace("line_10 = 10", "torch_slow(10)").replace("line_30 = 30", "torch_slow(30)")
AFTER = BEFORE.replace("torch_slow", "torch_fast")
FILES = {
    "bom.py": b"\xef\xbb\xbfx = 1\r\ntorch_slow()\r\n\x0c\r\ntorch_slow(2)\r\n",
    "lone_cr.py": b"a = 1\rtorch_slow()\nb = '\\\r'\n",
    "open.py": b"if x:\n\ttorch_slow()",
    "latin.py": b"# coding: latin-1\ntorch_slow('\xe9')\n",
    "pkg/odd name.py": "torch_slow('a\u2028b\x85')  # ä\n".encode(),
    "book.ipynb": b'{"nbformat": 4, "nbformat_minor": 2, "metadata": {}, "cells": [\n{"cell_type": "code",'
    b' "metadata": {}, "execution_count": null, "outputs": [],\n "source": ["# torch\\n", "torch_slow()"]}\n]}',
}


@pytest.fixture
def patch(project: Path, write: Write, perfmod: Run) -> Path:
    """Of a.py and b.py, each with two hunks."""
    write("a.py", BEFORE)
    write("b.py", BEFORE)
    assert perfmod("apply", ".", "--patch", "p.patch").code == ExitCode.OK
    return project / "p.patch"


def test_a_patch_of_an_inner_repository_is_applied_there(project: Path, write: Write, perfmod: Run) -> None:
    """Its paths begin at the root of that."""
    file = write("inner/a.py", BEFORE)
    git(file.parent, "init", "-q")
    ran = perfmod("apply", "inner/a.py", "--patch", "p.patch")
    hint = f"`cd {file.parent} && perfmod apply --from {project / 'p.patch'}` applies p.patch"
    assert hint in ran.err
    subprocess.run(["git", "apply", project / "p.patch"], cwd=file.parent, check=True)
    assert file.read_text() == AFTER


def edit(patch: Path, *replacements: tuple[str, str]) -> None:
    """Edit a patch as a person does; asserts that there is something to replace."""
    text = patch.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    patch.write_text(text)


def without_hunk(patch: Path, number: int) -> None:
    """Delete a hunk, from 1, but not what stands above it of its file."""
    lines = patch.read_text().splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if line.startswith("@@")]
    ends = [at for at, line in enumerate(lines) if line.startswith(("@@", "diff "))] + [len(lines)]
    start = starts[number - 1]
    patch.write_text("".join([*lines[:start], *lines[min(end for end in ends if end > start) :]]))


def failures(ran: Ran) -> list[str]:
    """What failed; asserts how it ends."""
    assert ran.code == ExitCode.FAILED
    return [line for line in ran.err.splitlines() if ": failed: " in line]


def test_the_whole_patch_is_what_apply_writes(project: Path, write: Write, perfmod: Run) -> None:
    for name, content in FILES.items():
        write(name, content)
    perfmod("apply", ".")
    expected = {name: (project / name).read_bytes() for name in FILES}
    assert all(b"torch_fast" in content for content in expected.values())
    perfmod("revert")
    perfmod("apply", ".", "--patch", "p.patch")
    ran = perfmod("apply", "--from", "p.patch")
    assert (ran.code, ran.out) == (ExitCode.OK, b"")
    assert ran.err.endswith("6 of 6 files changed\n")
    assert {name: (project / name).read_bytes() for name in FILES} == expected
    assert perfmod("revert").code == ExitCode.OK
    assert {name: (project / name).read_bytes() for name in FILES} == FILES


@pytest.mark.parametrize("form", [["diff"], ["diff", "--no-prefix"], ["format-patch", "--stdout", "-1", "main"]])
def test_a_patch_by_git(project: Path, write: Write, perfmod: Run, form: list[str]) -> None:
    write("pkg/a.py", BEFORE)
    git(project, "checkout", "-q", "-b", "main")
    commit_all(project)
    perfmod("apply", ".")
    if form[0] == "format-patch":
        commit_all(project)
    data = git(project, *form)
    write("pkg/a.py", BEFORE)
    write("p.patch", data)
    assert perfmod("apply", "--from", "p.patch").code == ExitCode.OK
    assert (project / "pkg/a.py").read_text() == AFTER


def test_outside_of_a_repository(project: Path, write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(project / ".git")
    write("pyproject.toml", "")
    write("deep/pkg/a.py", BEFORE)
    monkeypatch.chdir(project / "deep")
    perfmod("apply", ".", "--patch", "p.patch")
    assert perfmod("apply", "--from", "p.patch").err == "pkg/a.py: changed\n1 of 1 file changed\n"
    assert (project / "deep/pkg/a.py").read_text() == AFTER
    assert perfmod("revert").code == ExitCode.OK


def test_hunks_that_were_deleted(project: Path, patch: Path, perfmod: Run) -> None:
    without_hunk(patch, 4)
    without_hunk(patch, 1)
    assert perfmod("apply", "--from", "p.patch").code == ExitCode.OK
    assert (project / "a.py").read_text() == BEFORE.replace("slow(30)", "fast(30)")
    assert (project / "b.py").read_text() == BEFORE.replace("slow(10)", "fast(10)")


def test_nothing_left(project: Path, patch: Path, perfmod: Run) -> None:
    for _ in range(4):
        without_hunk(patch, 1)
    for content in (patch.read_text(), "", "\n"):
        patch.write_text(content)
        ran = perfmod("apply", "--from", "p.patch")
        assert (ran.code, ran.err) == (ExitCode.OK, "0 of 0 files changed\n")
    assert (project / "a.py").read_text() == BEFORE


def test_lines_that_were_edited(project: Path, patch: Path, perfmod: Run) -> None:
    """Whatever the counts in the headers say."""
    edit(patch, ("+torch_fast(10)", "+# because it is faster\n+torch_fast(10)\n+checked = True"))
    edit(patch, ("-torch_slow(30)\n+torch_fast(30)\n", " torch_slow(30)\n"))
    assert perfmod("apply", "--from", "p.patch").code == ExitCode.OK
    expected = BEFORE.replace("torch_slow(10)", "# because it is faster\ntorch_fast(10)\nchecked = True")
    assert (project / "a.py").read_text() == expected
    assert (project / "b.py").read_text() == AFTER


@pytest.mark.usefixtures("patch")
def test_a_file_that_moved_on(project: Path, write: Write, perfmod: Run) -> None:
    write("a.py", "import os\n\n\n" + BEFORE.replace("line_20 = 20\n", "") + "torch_slow(10)\n")
    assert perfmod("apply", "--from", "p.patch").code == ExitCode.OK
    expected = "import os\n\n\n" + AFTER.replace("line_20 = 20\n", "") + "torch_slow(10)\n"
    assert (project / "a.py").read_text() == expected


@pytest.mark.usefixtures("patch")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BEFORE.replace("line_9 ", "line_nine "), "line 7: the lines that the hunk takes away or keeps are not in the"),
        (AFTER, "line 7: what the hunk makes is there already"),
        (BEFORE.replace("\n", "\r\n"), "line 7: the hunk fits but for its line endings; an editor changed those"),
    ],
)
def test_what_no_longer_fits(project: Path, write: Write, perfmod: Run, content: str, reason: str) -> None:
    """Of such a patch nothing is written; with --partial what fits."""
    write("b.py", content)
    first, second = failures(perfmod("apply", "--from", "p.patch"))
    assert first == "a.py: failed: was not changed, because b.py cannot be; --partial changes what fits"
    assert second.startswith(f"b.py: failed: {reason}")
    assert (project / "a.py").read_text() == BEFORE
    ran = perfmod("apply", "--from", "p.patch", "--partial")
    assert failures(ran) == [second]
    assert (project / "a.py").read_text() == AFTER
    assert (project / "b.py").read_bytes() == content.encode()


def test_two_places_alike(write: Write, perfmod: Run) -> None:
    write("a.py", "x = 1\n\n\ny = 2\n\n\nx = 1\n")
    write("p.patch", "--- a/a.py\n+++ b/a.py\n@@ -4 +4 @@\n-x = 1\n+x = 2\n")
    assert failures(perfmod("apply", "--from", "p.patch")) == [
        "a.py: failed: line 4: the hunk fits at lines 1 and 7 alike"
    ]


@pytest.mark.usefixtures("patch")
def test_only_some_files(project: Path, perfmod: Run) -> None:
    assert perfmod("apply", "--from", "p.patch", "b.py").err == "b.py: changed\n1 of 1 file changed\n"
    assert (project / "a.py").read_text() == BEFORE
    assert perfmod("apply", "--from", "p.patch", "c.py").complaint == "c.py: no such file or folder"


def test_a_look_before(project: Path, patch: Path, perfmod: Run) -> None:
    without_hunk(patch, 1)
    ran = perfmod("apply", "--from", "p.patch", "--dry-run")
    assert ran.code == ExitCode.OK
    assert ran.err == "a.py: fits\nb.py: fits\n2 of 2 files fit; nothing was written\n"
    assert (project / "a.py").read_text() == BEFORE
    subprocess.run(["git", "apply"], cwd=project, input=ran.out, check=True)
    assert (project / "a.py").read_text() == BEFORE.replace("slow(30)", "fast(30)")


def test_code_that_does_not_parse(project: Path, patch: Path, perfmod: Run) -> None:
    edit(patch, ("+torch_fast(10)", "+torch_fast(10"))
    first, _ = failures(perfmod("apply", "--from", "p.patch"))
    assert first.startswith("a.py: failed: as the patch leaves it, ")
    assert "line 11" in first or "line 10" in first
    assert (project / "a.py").read_text() == BEFORE


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"torch_fast()"]}', '"torch_fast()"}', "is not a notebook: broken JSON: "),
        ('"source": ["# torch', '"stray": 1, "source": ["# torch', "is not a valid notebook: "),
    ],
)
def test_a_notebook_that_is_none_any_more(
    project: Path, write: Write, perfmod: Run, old: str, new: str, reason: str
) -> None:
    write("book.ipynb", FILES["book.ipynb"])
    perfmod("apply", ".", "--patch", "p.patch")
    above, below = (project / "p.patch").read_text().split("\n+ ")
    assert old in below
    write("p.patch", "\n+ ".join((above, below.replace(old, new))))
    (line,) = failures(perfmod("apply", "--from", "p.patch"))
    assert line.startswith(f"book.ipynb: failed: as the patch leaves it, {reason}")
    assert (project / "book.ipynb").read_bytes() == FILES["book.ipynb"]


HUNK = "@@ -1 +1 @@\n-x = 1\n+x = 2\n"
INDEX = "diff --git a/a.py b/a.py\n"


def test_a_new_file_is_made_and_taken_back(project: Path, write: Write, perfmod: Run) -> None:
    write("p.patch", "--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n")
    perfmod("apply", "--from", "p.patch")
    assert (project / "new.py").read_text() == "x = 1\n"
    perfmod("revert")
    assert not (project / "new.py").exists()


@pytest.mark.parametrize(
    ("patch", "path", "reason"),
    [
        (f"--- /etc/a.py\n+++ /etc/a.py\n{HUNK}", "/etc/a.py", "is not named by a path inside of the project"),
        (f"--- a/../a.py\n+++ b/../a.py\n{HUNK}", "../a.py", "is not named by a path inside of the project"),
        (f'--- "a/a\\000.py"\n+++ "b/a\\000.py"\n{HUNK}', r"a\x00.py", "cannot be read: "),
        (f"--- a/.git/a.py\n+++ b/.git/a.py\n{HUNK}", ".git/a.py", "belongs to git"),
        (f"--- a/a.md\n+++ b/a.md\n{HUNK}", "a.md", "is neither a Python file nor a notebook"),
        (f"--- a/gone.py\n+++ b/gone.py\n{HUNK}", "gone.py", "is not there; paths in a patch begin at the root of the"),
        (f"--- a/out.py\n+++ b/out.py\n{HUNK}", "out.py", "is reached by a symbolic link to a place outside of the"),
        (f"--- a/in/a.py\n+++ b/in/a.py\n{HUNK}", "in/a.py", "is reached by a symbolic link to a place in the project"),
        ("--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+x = 2\n", "a.py", "is there already, with other content"),
        (f"{INDEX}new file mode 100644\n", "a.py", "is a new file without content, and perfmod takes changes only"),
        ("--- a/a.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x = 1\n", "a.py", "is deleted, and perfmod takes changes only"),
        (f"--- a/a.py\n+++ b/b.py\n{HUNK}", "b.py", "is renamed, and perfmod takes changes only"),
        (f"{INDEX}rename from a.py\nrename to b.py\n", "a.py", "is renamed, and perfmod takes changes only"),
        (f"{INDEX}old mode 100644\nnew mode 100755\n", "a.py", "gets another mode, and perfmod takes changes of the"),
        (f"{INDEX}index 1..2 100644\nGIT binary patch\nliteral 3\nabc\n", "a.py", "is changed by a binary patch"),
        (f"{INDEX}Binary files a/a.py and b/a.py differ\n", "a.py", "is changed by a binary patch"),
        ("--- a/a.py\n+++ b/a.py\n@@ -1,0 +2 @@\n+x = 2\n", "a.py", "line 1: the hunk has no lines around it by which"),
    ],
)
def test_what_is_not_taken(project: Path, write: Write, perfmod: Run, patch: str, path: str, reason: str) -> None:
    write("a.py", "x = 1\n")
    write("../elsewhere.py", "x = 1\n")
    (project / "out.py").symlink_to("../elsewhere.py")
    (project / "in").symlink_to(".")
    write("p.patch", patch)
    (line,) = failures(perfmod("apply", "--from", "p.patch"))
    assert line.startswith(f"{path}: failed: {reason}")
    assert (project / "a.py").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        ("torch_slow()\n", "p.patch: holds no diff"),
        (f"{INDEX}{HUNK}", "p.patch: line 2 begins a hunk, but no file is named above it"),
        ("--- a/a.py\n+++ b/a.py\n@@ one @@\n-x\n+y\n", "p.patch: line 3 begins a hunk, but does not read like"),
        (f"--- a/a.py\n+++ b/a.py\n@@ -1,{'9' * 5000} +1 @@\n-x\n", "p.patch: line 3 begins a hunk, but does not read"),
        (
            "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x\n+y\nz = 1\n",
            "p.patch: line 6 stands in a hunk and begins with neither a blank nor + nor -",
        ),
        (
            "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\nz = 1\n",
            "p.patch: line 6 stands in a hunk and begins with neither a blank nor + nor -",
        ),
    ],
)
def test_what_is_no_patch(write: Write, perfmod: Run, patch: str, complaint: str) -> None:
    write("p.patch", patch)
    ran = perfmod("apply", "--from", "p.patch")
    assert ran.code == ExitCode.USAGE
    assert ran.complaint.startswith(complaint)
