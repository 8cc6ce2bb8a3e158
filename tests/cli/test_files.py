"""Which files a path leads to."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Protocol

import pytest
from cli_fakes.running import Write

from perfmod.config import Options
from perfmod.files import discover


class Find(Protocol):
    def __call__(self, *targets: str, cwd: Path = ...) -> list[str]: ...


@pytest.fixture
def found(project: Path) -> Find:
    """The files that paths lead to, as they are shown."""

    def find(*targets: str, cwd: Path = project) -> list[str]:
        return [file.shown for file in discover(targets, Options(), cwd).files]

    return find


def test_sorted_and_only_python(write: Write, found: Find) -> None:
    checkpoint = ".ipynb_checkpoints/train-checkpoint.ipynb"
    for name in ("b.py", "a.py", "a/z.py", "a.pyi", "a.txt", "py", "train.ipynb", ".hidden.py", checkpoint):
        write(name, "")
    assert found(".") == [".hidden.py", "a/z.py", "a.py", "b.py", "train.ipynb"]


def test_order_of_the_paths_does_not_matter(write: Write, found: Find) -> None:
    for name in ("b.py", "a.py", "pkg/c.py"):
        write(name, "")
    assert found("pkg", "b.py", "a.py") == found("a.py", "b.py", "pkg") == ["a.py", "b.py", "pkg/c.py"]


def test_every_file_once(project: Path, write: Write, found: Find) -> None:
    write("pkg/a.py", "")
    (project / "pkg" / "link.py").symlink_to("a.py")
    (project / "other").symlink_to("pkg")
    assert len(found("pkg", "pkg/a.py", "pkg/link.py", "other", "./pkg/../pkg/a.py", str(project))) == 1


def test_links_to_elsewhere_are_left(project: Path, tmp_path: Path, write: Write, found: Find) -> None:
    (tmp_path / "elsewhere.py").write_text("")
    write("pkg/a.py", "")
    (project / "pkg" / "link.py").symlink_to(tmp_path / "elsewhere.py")
    assert found("pkg") == ["pkg/a.py"]
    assert found("pkg/link.py") == ["pkg/link.py"]


def test_paths_are_shown_as_they_were_given(project: Path, write: Write, found: Find) -> None:
    write("pkg/a.py", "")
    assert found(str(project / "pkg")) == [str(project / "pkg" / "a.py")]
    assert found("../pkg", cwd=project / "pkg") == ["../pkg/a.py"]


def test_default_excludes(write: Write, found: Find) -> None:
    for folder in (
        ".venv",
        "venv",
        "node_modules",
        "build",
        "dist",
        "__pycache__",
        "lib/site-packages",
        ".git",
    ):
        write(f"{folder}/a.py", "")
    write("src/a.py", "")
    assert found(".") == ["src/a.py"]
    assert found("build", "src") == ["build/a.py", "src/a.py"]


def test_git_agrees(project: Path, write: Write, found: Find) -> None:
    """Nested files, negation, anchors, folders, `.git/info/exclude`, all against git itself."""
    write(
        ".gitignore",
        "*_gen.py\n!keep_gen.py\n/top.py\ndata/\nlogs/*\n!logs/kept.py\n# note\n\\#odd.py\n**/deep/*.py\n",
    )
    write("pkg/.gitignore", "!b_gen.py\nlocal.py\n/anchored.py\n")
    write(".git/info/exclude", "private.py\n")
    names = """
        a_gen.py keep_gen.py top.py private.py #odd.py data/a.py logs/a.py logs/kept.py deep/a.py plain.py
        pkg/b_gen.py pkg/c_gen.py pkg/local.py pkg/anchored.py pkg/sub/anchored.py pkg/sub/local.py pkg/top.py
        pkg/data/x.py pkg/private.py pkg/deep/a.py
    """
    for name in names.split():
        write(name, "")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard", "-z", "*.py"],
        cwd=project,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    expected = sorted(name for name in listed if name)
    assert sorted(found(".")) == expected
    assert sorted(found("pkg")) == [name for name in expected if name.startswith("pkg/")]
    assert len(expected) == 6


@pytest.mark.parametrize("patterns", [
    "*\n!*/\n!*.*\n",
    "*\n!*/\n!*.py\npkg/sub/\n",
    "/*\n!/pkg/\n!top.py\n",
    "pkg/**\n!pkg/sub/\n!pkg/sub/a.py\n",
    "pkg\n!pkg/sub/a.py\n",
    "*.py\n!pkg/*.py\n",
    "**/sub/*\n!a.py\n",
    "!\n[\npkg/a.py\n",
    "pkg/*\n!pkg/sub\n",
    "a.*/\n",
])  # fmt: skip
def test_git_agrees_on_what_is_taken_back(project: Path, write: Write, found: Find, patterns: str) -> None:
    write(".gitignore", patterns)
    names = ["top.py", "other/a.py", "pkg/a.py", "pkg/b.py", "pkg/sub/a.py", "pkg/sub/sub/a.py", "a.py", "a.d/c.py"]
    for name in names:
        write(name, "")
    asked = ["git", "check-ignore", "--no-index", *names]
    ignored = subprocess.run(asked, cwd=project, capture_output=True, check=False, text=True).stdout.splitlines()
    assert len(ignored) < len(names)
    assert sorted(found(".")) == sorted(set(names) - set(ignored))


def test_ignored_folder_by_name(write: Write, found: Find) -> None:
    write(".gitignore", "data/\nscratch_*.py\n")
    write("data/sub/a.py", "")
    assert found("data") == ["data/sub/a.py"]
    assert found("data/sub") == ["data/sub/a.py"]


def test_ignored_file_by_name(write: Write, found: Find) -> None:
    write(".gitignore", "*.py\n")
    write("a.py", "")
    assert found("a.py") == ["a.py"]


def test_repository_inside_a_repository(project: Path, write: Write, found: Find) -> None:
    write(".gitignore", "a.py\n")
    subprocess.run(["git", "init", "-q", project / "inner"], check=True)
    write("inner/a.py", "")
    assert found(".") == ["inner/a.py"]


def test_configured_exclude(write: Write, found: Find) -> None:
    write("pyproject.toml", '[tool.perfmod]\nexclude = ["legacy/", "/pkg/b.py", "*_pb2.py"]\n')
    for name in ("legacy/a.py", "pkg/b.py", "pkg/legacy/a.py", "pkg/x_pb2.py", "pkg/sub/b.py"):
        write(name, "")
    assert found(".") == found("pkg") == ["pkg/sub/b.py"]
    assert found("pkg/b.py") == ["pkg/b.py"]
