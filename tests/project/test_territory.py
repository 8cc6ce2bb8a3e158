"""How far a project reaches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perfmod.project import territory
from perfmod.project.territory import Territory, roots


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def found(root: Path, place: str = ".") -> list[str]:
    walk = Territory(root, frozenset({"setup.py"}))
    return [path.relative_to(root).as_posix() for path in walk.files([root / place])]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository."""
    root = Path(tmp_path, "repo").resolve()
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def test_what_lies_near_comes_first(root: Path) -> None:
    write(root, "a/near.py", "a/deep/x.py", "top.py", "b/far.py", "a/readme.md")
    assert found(root, "a") == ["a/near.py", "a/deep/x.py", "top.py", "b/far.py"]


def test_ignored_excluded_and_installed_files_are_not_entered(root: Path, tmp_path: Path) -> None:
    write(root, "a.py", "venv/b.py", "lib/site-packages/torch.py", "data/c.py", "env/lib/d.py", "old/e.py", "gen_f.py")
    (root / ".gitignore").write_text("data/\ngen_*\n")
    (root / "env" / "pyvenv.cfg").write_text("")
    (root / "link").symlink_to(tmp_path)
    (root / "link.py").symlink_to("a.py")
    (root / "pyproject.toml").write_text('[tool.perfmod]\nexclude = ["old/"]\n')
    assert found(root) == ["a.py"]


def test_a_folder_of_a_million_pictures_ends_the_walk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(territory, "MOST_ENTRIES", 30)
    write(root, "exp/train.py", "exp/engine.py", *(f"exp/pictures/{number}.jpg" for number in range(40)), "z/far.py")
    assert found(root, "exp") == ["exp/engine.py", "exp/train.py"]


def test_installable_folders_are_noticed(root: Path) -> None:
    write(root, "libs/kit/setup.py", "train.py")
    walk = Territory(root, frozenset({"setup.py"}))
    assert len(list(walk.files([root]))) == 2
    assert walk.installable == {root / "libs" / "kit"}


def test_roots(root: Path, tmp_path: Path) -> None:
    write(root, "a/x.py", "venv/lib/site-packages/kit/sub/x.py")
    (tmp_path / "plain" / "sub").mkdir(parents=True)
    assert roots([root / "a", root]) == [root]
    assert roots([tmp_path / "plain", tmp_path / "plain" / "sub"]) == [tmp_path / "plain"]
    installed = root / "venv" / "lib" / "site-packages"
    assert roots([installed / "kit" / "sub"]) == [installed / "kit"]
    assert roots([installed]) == [installed]


def test_the_home_folder_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "work" / "exp").mkdir(parents=True)
    assert roots([tmp_path / "work" / "exp"]) == [tmp_path / "work"]
