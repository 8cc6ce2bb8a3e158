"""What configurations and shell scripts set to 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmod.config import Settings
from perfmod.files import FoundFile
from perfmod.project import settings_files
from perfmod.project.settings_files import SettingsFiles
from perfmod.transforms.outside import OutsideSetting


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository."""
    root = tmp_path.resolve() / "repo"
    (root / ".git").mkdir(parents=True)
    return root


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def found(root: Path, data: bytes = b"num_workers") -> list[OutsideSetting]:
    file = FoundFile("train.py", root / "src" / "train.py", True, Settings(), root)
    return list(SettingsFiles().of(file, data))


@pytest.mark.parametrize(("file", "line", "name", "code"), [
    ("conf/data.yaml", "  num_workers: 0  # slow", "num_workers", "num_workers: 0"),
    ("a.yml", "loader: {batch_size: 4, workers: 0}", "workers", "workers: 0"),
    ("config.json", '    "n_cpu": 0,', "n_cpu", '"n_cpu": 0'),
    ("train.sh", "python train.py --num-workers 0 --lr 1", "num_workers", "--num-workers 0"),
    ("train.sh", "python train.py --workers=0", "workers", "--workers=0"),
    ("scripts/run.sh", "python train.py data.num_workers=0", "num_workers", "num_workers=0"),
    ("scripts/run.sh", "nThreads=0 \\", "nThreads", "nThreads=0"),
])  # fmt: skip
def test_lines_that_set_a_number_to_0(root: Path, file: str, line: str, name: str, code: str) -> None:
    write(root, file, f"\n{line}\n")
    assert found(root) == [OutsideSetting(name, file, 2, code)]
    assert found(root, b"import torch") == []


@pytest.mark.parametrize(("file", "line"), [
    ("a.yaml", "# num_workers: 0"),
    ("a.yaml", "num_workers: 4  # num_workers: 0"),
    ("a.yaml", "num_workers: 0.5"),
    ("a.yaml", "num_workers: ${workers}"),
    ("a.yaml", "about: workers 0"),
    ("a.sh", "python train.py -m num_workers=0,4"),
    ("a.sh", "python train.py --seed 0"),
    ("a.md", "num_workers: 0"),
    (".github/workflows/test.yml", "run: python train.py --num_workers 0"),
    ("ignored/a.yaml", "num_workers: 0"),
    ("venv/lib/a.yaml", "num_workers: 0"),
    ("large.json", '"num_workers": 0' + " " * 200_000),
])  # fmt: skip
def test_lines_that_do_not(root: Path, file: str, line: str) -> None:
    write(root, ".gitignore", "ignored/\n")
    write(root, file, line)
    write(root, "other.yaml", "workers: 0")
    assert [setting.name for setting in found(root)] == ["workers"]


def test_a_number_that_another_file_chooses(root: Path) -> None:
    write(root, "conf/debug.yaml", "num_workers: 0\nworkers: 0\n")
    write(root, "conf/train.yaml", "num_workers: 8\n")
    assert [setting.name for setting in found(root)] == ["workers"]


def test_a_project_is_searched_once_and_not_without_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_files, "_MOST_FILES", 2)
    for number in range(4):
        write(root, f"{number}.yaml", "num_workers: 0")
    files = SettingsFiles()
    given = [FoundFile(name, root / name, True, Settings(), root) for name in ("a.py", "src/b.py")]
    settings = files.of(given[0], b"num_workers")
    assert [setting.path for setting in settings] == ["0.yaml", "1.yaml"]
    (root / "0.yaml").unlink()
    assert files.of(given[1], b"num_workers") is settings


def test_what_cannot_be_read_sets_nothing(root: Path) -> None:
    root.joinpath("binary.yaml").write_bytes(b"num_workers: 0 \xff")
    assert found(root) == []
