"""The wheel holds the program and nothing else, and works without the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "perfmod": ROOT / "perfmod",
    "perfmod.codemods": ROOT / "codemods",
    "perfmod.transforms": ROOT / "transforms",
}
# What a user's own `transforms.py` must survive: perfmod run in its folder, with the folder on PYTHONPATH.
USERS_MODULE = "raise RuntimeError('the user\\'s transforms was imported')\n"
SLOW_SCRIPT = """\
import torch
from torch.utils.data import DataLoader


def train(dataset, model, optimizer, device):
    loader = DataLoader(dataset, batch_size=32, num_workers=4)
    total = 0.0
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


def on_disk() -> dict[str, Path]:
    """Import name and folder of every package in the checkout."""
    packages = {}
    for name, folder in FOLDERS.items():
        for path in [folder, *folder.rglob("*")]:
            inner = path.relative_to(folder).parts
            linked = any(folder.joinpath(*inner[: depth + 1]).is_symlink() for depth in range(len(inner)))
            if path.is_dir() and not linked and any(path.glob("*.py")):
                packages[".".join((name, *inner))] = path
    return packages


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a `build/` folder in the checkout would leak old modules into it."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "golden", "tests")
    copytree(ROOT, folder / "source", symlinks=True, ignore=ignored)
    pip(
        "wheel",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(folder / "source"),
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs, far away from the sources."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    return target


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)


def perfmod(
    installed: Path, cwd: Path, arguments: Sequence[str], path: Sequence[Path] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the installed program in `cwd`; the checkout is not importable."""
    # The dependencies are those of this environment; PYTHONPATH stands before the checkout in it.
    ours = f"import perfmod; assert perfmod.__file__.startswith({str(installed)!r})"
    start = f"{ours}; from perfmod.cli.main import run; run()"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(each) for each in (installed, *path))}
    return subprocess.run(
        [sys.executable, "-c", start, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_package_is_listed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(on_disk())


def test_wheel_holds_every_module_under_perfmod_and_nothing_else(wheel: Path) -> None:
    expected = {"perfmod/py.typed"}
    for name, folder in on_disk().items():
        held_files = [*folder.glob("*.py"), *folder.glob("*.j2")]
        expected |= {f"{name.replace('.', '/')}/{path.name}" for path in held_files}
    for folder in ("perfmod/migrate/report/page", "perfmod/review/page"):
        expected |= {f"{folder}/{path.name}" for path in (ROOT / folder).iterdir()}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}
    assert held == expected


def test_links_show_the_installed_layout() -> None:
    for name in ("codemods", "transforms"):
        assert (ROOT / "perfmod" / name).resolve() == ROOT / name


@pytest.mark.exhaustive
def test_users_own_transforms_is_left_alone(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "transforms.py").write_text(USERS_MODULE)
    (tmp_path / "codemods.py").write_text(USERS_MODULE)
    (tmp_path / "train.py").write_text(SLOW_SCRIPT)
    ran = perfmod(installed, tmp_path, ["apply", "train.py", "--dry-run"], path=[tmp_path])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("diff --git a/train.py b/train.py\n")
    assert (tmp_path / "train.py").read_text() == SLOW_SCRIPT


def test_installed_program_rewrites_and_reverts(installed: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SLOW_SCRIPT)
    assert perfmod(installed, tmp_path, ["check", "train.py"]).returncode == 1
    assert perfmod(installed, tmp_path, ["apply", "train.py"]).returncode == 0
    assert script.read_text() != SLOW_SCRIPT
    assert perfmod(installed, tmp_path, ["revert"]).returncode == 0
    assert script.read_text() == SLOW_SCRIPT


def test_nothing_static_imports_torch(installed: Path, tmp_path: Path) -> None:
    """A `torch` that cannot be imported stands in the way; none of the commands may notice."""
    if find_spec("torch") is None:
        pytest.skip("torch is not installed, so every run shows it")
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch was imported')\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text(SLOW_SCRIPT)
    for arguments, code in (
        (["check", "train.py"], 1),
        (["apply", "train.py", "--dry-run"], 0),
        (["rules"], 0),
        (["explain", "PM101"], 0),
    ):
        ran = perfmod(installed, work, arguments, path=[tmp_path])
        assert ran.returncode == code, ran.stderr
