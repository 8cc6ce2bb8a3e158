"""Copies of the user's tree: what is in them, what is not, and what may go wrong."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfmod.errors import Failure, UsageMistake
from perfmod.verify import scratch as scratch_module
from perfmod.verify.scratch import Scratch
from perfmod.verify.tree import Tree, tree_root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a script and a module."""
    root = tmp_path / "project"
    (root / "package").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "train.py").write_text("import package\n")
    (root / "package" / "__init__.py").touch()
    return root


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """TMPDIR; empty again at the end of every test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def names(root: Path) -> set[str]:
    """Relative paths of all that lies below a folder."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


def copied(tree: Tree, scratch: Scratch, replacements: dict[Path, bytes] | None = None) -> Path:
    """A copy that stays until the scratch folder goes."""
    room = Path(tempfile.mkdtemp(dir=scratch.folder))
    return scratch.copy(tree, replacements or {}, room)


@pytest.mark.parametrize("marker", [".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg"])
def test_root_is_the_nearest_project(tmp_path: Path, marker: str) -> None:
    script = tmp_path / "outer" / "inner" / "deep" / "train.py"
    script.parent.mkdir(parents=True)
    (tmp_path / "outer" / "setup.py").touch()
    (tmp_path / "outer" / "inner" / marker).touch()
    assert tree_root(script) == tmp_path / "outer" / "inner"


def test_root_is_the_scripts_folder_where_there_is_no_project(tmp_path: Path) -> None:
    assert tree_root(tmp_path / "a" / "train.py") == tmp_path / "a"


def test_home_is_never_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    assert tree_root(tmp_path / "a" / "b" / "train.py") == tmp_path / "a" / "b"


def test_script_behind_a_link_is_in_its_own_tree(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere.py"
    link.symlink_to(project / "train.py")
    assert Tree.of(link).root == project


@pytest.mark.usefixtures("temporary")
def test_copy_holds_the_tree_and_the_replacements(project: Path) -> None:
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o755)
    (project / "empty").mkdir()
    (project / "umläut ☃").write_bytes(b"\xff")
    os.utime(project / "run.sh", ns=(10**18, 10**18))
    (project / "train.py").chmod(0o600)
    with Scratch.temporary() as scratch:
        root = copied(
            Tree.of(project / "train.py"), scratch, {Path("train.py"): b"changed\n", Path("new.py"): b"new\n"}
        )
        assert names(root) == names(project) | {"new.py"}
        assert (root / "train.py").read_bytes() == b"changed\n"
        assert stat.S_IMODE((root / "train.py").stat().st_mode) == 0o600
        assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
        assert (root / "run.sh").stat().st_mtime_ns == 10**18
        assert (root / "umläut ☃").read_bytes() == b"\xff"
        assert root.name == "project"
        assert root.is_relative_to(scratch.folder)
    assert (project / "train.py").read_text() == "import package\n"


@pytest.mark.usefixtures("temporary")
def test_copies_are_apart(project: Path) -> None:
    tree = Tree.of(project / "train.py")
    with Scratch.temporary() as scratch:
        first = copied(tree, scratch)
        (first / "train.py").write_text("overwritten")
        (first / "checkpoint.pt").touch()
        second = copied(tree, scratch)
        assert (second / "train.py").read_text() == "import package\n"
        assert not (second / "checkpoint.pt").exists()


@pytest.mark.usefixtures("temporary")
def test_what_no_training_reads_is_left_out(project: Path) -> None:
    for name in (".git", "__pycache__", "node_modules", ".mypy_cache", "package/__pycache__"):
        (project / name).mkdir()
        (project / name / "file").touch()
    for name, marker in (("anything", "pyvenv.cfg"), ("conda", "conda-meta")):
        (project / name).mkdir()
        (project / name / marker).touch()
    os.mkfifo(project / "pipe")
    with Scratch.temporary() as scratch:
        root = copied(Tree.of(project / "train.py"), scratch)
        assert names(root) == {"pyproject.toml", "train.py", "package", "package/__init__.py"}


def test_scratch_folder_in_the_tree_is_not_copied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(project))
    with Scratch.temporary() as scratch:
        root = copied(Tree.of(project / "train.py"), scratch)
        assert names(root) == {"pyproject.toml", "train.py", "package", "package/__init__.py"}


@pytest.mark.usefixtures("temporary")
def test_links(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "data"
    outside.mkdir()
    (outside / "x").touch()
    (project / ".git" / "annex").mkdir(parents=True)
    (project / ".git" / "annex" / "big").write_text("big")
    links = {
        "relative": "package/__init__.py",
        "package/up": "../train.py",
        "absolute": str(project / "package"),
        "detour": "../project/train.py",
        "chain": "relative",
        "outside": str(outside),
        "outside_relative": "../data/x",
        "annexed": ".git/annex/big",
        "dangling": "nowhere",
        "dangling_outside": str(tmp_path / "nothing"),
    }
    for name, target in links.items():
        (project / name).symlink_to(target)
    tree = Tree.of(project / "train.py")
    assert set(tree.outside_links) == {Path("outside"), Path("outside_relative"), Path("annexed")}
    with Scratch.temporary() as scratch:
        root = copied(tree, scratch)
        found = {path.name: path for path in root.rglob("*") if path.is_symlink()}
        assert set(found) == {Path(name).name for name in links} - {"dangling", "dangling_outside"}
        for name in ("relative", "up", "absolute", "detour", "chain"):
            assert not found[name].readlink().is_absolute()
            assert found[name].resolve().is_relative_to(root), name
            assert found[name].exists()
        assert found["outside"].resolve() == outside
        assert found["outside_relative"].resolve() == outside / "x"
        assert found["annexed"].read_text() == "big"
    assert (outside / "x").exists()
    assert (project / ".git" / "annex" / "big").exists()


@pytest.mark.usefixtures("temporary")
def test_replacement_behind_a_link_does_not_touch_the_target(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "library"
    outside.mkdir()
    (outside / "module.py").write_text("mine\n")
    (project / "library").symlink_to(outside)
    (project / "alias.py").symlink_to(outside / "module.py")
    tree = Tree.of(project / "train.py")
    with Scratch.temporary() as scratch:
        root = copied(tree, scratch, {Path("alias.py"): b"changed\n"})
        assert (root / "alias.py").read_bytes() == b"changed\n"
        with pytest.raises(Failure, match="through a link out of the tree"):
            copied(tree, scratch, {Path("library/module.py"): b"changed\n"})
    assert (outside / "module.py").read_text() == "mine\n"


@pytest.mark.usefixtures("temporary")
def test_linked_data_is_not_copied(project: Path, tmp_path: Path) -> None:
    (project / "data").mkdir()
    (project / "data" / "x").write_text("x")
    (project / "model.bin").write_text("weights")
    (project / "shortcut").symlink_to("data/x")
    beside = tmp_path / "datasets"
    beside.mkdir()
    tree = Tree.of(project / "train.py", [project / "data", project / "model.bin", beside])
    assert tree.outside_links == ()
    with Scratch.temporary() as scratch:
        root = copied(tree, scratch)
        assert (root / "data").readlink() == project / "data"
        assert (root / "model.bin").readlink() == project / "model.bin"
        assert (root / "shortcut").read_text() == "x"
        assert (root / ".." / "datasets").resolve() == beside
        (root / "../out").resolve().mkdir()
    assert not (tmp_path / "out").exists()
    assert (project / "data" / "x").exists()


def test_the_scripts_own_folder_cannot_be_linked(project: Path) -> None:
    with pytest.raises(UsageMistake, match="holds the script itself"):
        Tree.of(project / "train.py", [project])


@pytest.mark.usefixtures("temporary")
def test_large_tree_is_refused_with_its_largest_folders(project: Path) -> None:
    for name, size in (("data/images/a", 3000), ("runs/b", 2000), ("c.bin", 1000), ("small/d", 10), ("tiny/e", 5)):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        with (project / name).open("wb") as file:
            file.truncate(size * 2**20)
    tree = Tree.of(project / "train.py")
    with Scratch.temporary() as scratch, pytest.raises(Failure) as error:
        copied(tree, scratch)
    assert "largest: data/images/a 2.9 GiB, runs/b 2.0 GiB, c.bin 1000.0 MiB" in str(error.value)
    assert "--link" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def sharing_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that can share the bytes of a file between copies."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(200 * 2**20)
    commands = (["mkfs.btrfs", "-q", str(image)], ["mount", "-o", "loop", str(image), str(folder)])
    if not shutil.which("mkfs.btrfs") or any(
        subprocess.run(each, capture_output=True, check=False).returncode for each in commands
    ):
        pytest.skip("no such file system can be made here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_size_does_not_matter_where_copies_share_their_bytes(
    sharing_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(sharing_disk))
    project = sharing_disk / "project"
    project.mkdir()
    (project / "train.py").touch()
    content = os.urandom(2**20)
    (project / "data.bin").write_bytes(content)
    with Scratch.temporary(limit=1) as scratch:
        root = copied(Tree.of(project / "train.py"), scratch)
        with (root / "data.bin").open("r+b") as file:
            file.write(b"changed")
        assert (root / "data.bin").read_bytes()[7:] == content[7:]
    assert (project / "data.bin").read_bytes() == content


@pytest.mark.usefixtures("temporary")
def test_limit_is_lifted_by_a_trial_on_a_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no such file system can be made, a copy stands in for what costs nothing there."""

    def share(source: Path, target: Path) -> bool:
        shutil.copyfile(source, target)
        return True

    monkeypatch.setattr(scratch_module, "_clone", share)
    with Scratch.temporary(limit=1) as scratch:
        root = copied(Tree.of(project / "train.py"), scratch)
        assert (root / "train.py").read_text() == "import package\n"


@pytest.mark.usefixtures("temporary")
def test_clone_that_is_refused_becomes_a_copy(project: Path) -> None:
    """Between two file systems none can share."""
    if sys.platform != "linux" or not Path("/dev/shm").is_dir():
        pytest.skip("there is no second file system to try")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        assert not scratch_module._clone(project / "train.py", Path(other, "clone"))
        with Scratch.temporary() as scratch:
            scratch.folder, kept = Path(other).resolve(), scratch.folder
            root = copied(Tree.of(project / "train.py"), scratch)
            assert (root / "train.py").read_text() == "import package\n"
            scratch.folder = kept


@pytest.mark.usefixtures("temporary")
def test_full_disk(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever no small disk can be mounted (below), the system's answer is made up."""

    def no_space(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", no_space)
    with Scratch.temporary() as scratch, pytest.raises(Failure, match=r"no space left on device; .* set TMPDIR"):
        copied(Tree.of(project / "train.py"), scratch)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB and few files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=1m,nr_inodes=12", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("sizes", [[2 * 2**20], [1] * 20], ids=["bytes", "files"])
def test_full_disk_mounted(project: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    for number, size in enumerate(sizes):
        (project / f"data{number}").write_bytes(bytes(size))
    with Scratch.temporary() as scratch, pytest.raises(Failure, match=r"no space .* set TMPDIR"):
        copied(Tree.of(project / "train.py"), scratch)
    assert list(small_disk.iterdir()) == []


@pytest.mark.usefixtures("temporary")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_cannot_be_read_is_named(what: str) -> None:
    """In a process that may not read everything, as the superuser may."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        root = Path(name)
        root.chmod(0o755)
        (root / "train.py").touch()
        private = root / "private"
        private.mkdir() if what == "folder" else private.touch()
        private.chmod(0)
        code = (
            "from pathlib import Path\nfrom perfmod.errors import Failure\n"
            "from perfmod.verify.scratch import Scratch\nfrom perfmod.verify.tree import Tree\n"
            "import os\n"
            "if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "with Scratch.temporary() as scratch, scratch.room() as room:\n"
            f"    try: scratch.copy(Tree.of(Path({str(root / 'train.py')!r})), {{}}, room)\n"
            "    except Failure as error: print(error)\n"
        )
        environment = {**os.environ, "TMPDIR": "/tmp"}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        private.chmod(0o700)
    assert ran.stdout.startswith(f"{private}: cannot be ")
    assert "permission denied" in ran.stdout
    assert "--link" in ran.stdout
    assert ran.stdout.count("\n") == 1


@pytest.mark.usefixtures("temporary")
def test_code_that_changes_meanwhile_is_noticed(project: Path) -> None:
    tree = Tree.of(project / "train.py")
    (project / "package" / "__init__.py").write_text("edited = True\n")
    with Scratch.temporary() as scratch:
        with pytest.raises(Failure, match="was edited while perfmod ran"):
            copied(tree, scratch)
        (project / "package" / "__init__.py").unlink()
        with pytest.raises(Failure, match="was removed while perfmod ran"):
            copied(tree, scratch)


@pytest.mark.usefixtures("temporary")
def test_other_files_may_come_and_go(project: Path) -> None:
    (project / "log.txt").write_text("1")
    (project / "lock").touch()
    tree = Tree.of(project / "train.py")
    (project / "log.txt").write_text("12")
    (project / "lock").unlink()
    with Scratch.temporary() as scratch:
        assert (copied(tree, scratch) / "log.txt").read_text() == "12"


@pytest.mark.usefixtures("temporary")
def test_everything_is_removed_whatever_was_made_of_it(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o500)
    with Scratch.temporary() as scratch, scratch.room() as room:
        (room / "locked" / "inner").mkdir(parents=True)
        (room / "locked" / "inner" / "file").touch()
        (room / "locked" / "link").symlink_to(mine)
        (room / "locked" / "inner").chmod(0)
        (room / "locked").chmod(0o500)
    assert stat.S_IMODE(mine.stat().st_mode) == 0o500


@pytest.mark.usefixtures("temporary")
def test_scratch_goes_with_an_exception() -> None:
    def interrupted() -> None:
        with Scratch.temporary() as scratch:
            (scratch.folder / "x").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_no_scratch_folder_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(Failure, match="no scratch folder: no such file or directory; set TMPDIR"), Scratch.temporary():
        pass
