"""The code that `corpus.py` runs perfmod over: the manifest, and clean git trees of what it pins.

A tree is a git repository in a scratch folder that borrows the objects of the one it was made from and has the Python
files, notebooks and configuration of one commit checked out, so that large assets cost nothing and nobody's checkout is
written to. The sources of a package are committed to a repository of their own, for `git apply` wants one.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent / "corpus"
READ = (
    *("*.py", "*.ipynb", "*.toml", "*.cfg", "*.ini", ".gitignore", ".gitattributes"),
    *("requirements*.txt", "environment*.yml", "environment*.yaml", "README*", "readme*", "Readme*"),
)
"""What a tree holds, as patterns of `git sparse-checkout`."""


class Unavailable(Exception):
    """Sources that are not where they have to be; the message says what to do."""


@frozen
class Repository:
    """One entry of `corpus/repositories.toml`, `corpus/unseen.toml`, `corpus/public.toml` or `corpus/zoo.toml`; their
    heads say what the fields mean.
    """

    name: str
    commit: str
    kind: str = ""
    licence: str = ""
    note: str = ""
    paths: Sequence[str] = (".",)

    @property
    def url(self) -> str:
        """Where it is cloned from."""
        return f"https://github.com/{self.name}"

    def fetch(self, sources: Path) -> None:
        """Bring the pinned commit from GitHub to `sources`/<owner>/<name>, without the contents of other files than
        are read; nothing is done where it is there already.
        """
        self.fetch_to(sources / self.name)

    def fetch_to(self, folder: Path) -> None:
        """The same, to any folder."""
        if _has(folder, self.commit):
            return
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / ".git").exists():
            git(folder, "init", "--quiet")
            git(folder, "remote", "add", "origin", self.url)
        git(folder, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", self.commit)
        git(folder, "sparse-checkout", "set", "--no-cone", *READ)
        git(folder, "checkout", "--quiet", "--detach", self.commit)

    def tree(self, sources: Path, scratch: Path) -> Path:
        """A clean tree of the pinned commit in `scratch`.

        Raises:
            Unavailable: `sources`/<owner>/<name> is no repository that holds the commit.
        """
        source = sources / self.name
        if not _has(source, self.commit):
            raise Unavailable(f"{source} does not hold commit {self.commit[:10]} of {self.url}; --fetch gets it")
        tree = scratch / self.name.replace("/", "+")
        tree.mkdir(parents=True)
        git(tree, "init", "--quiet")
        _borrow(source, tree)
        git(tree, "sparse-checkout", "set", "--no-cone", *READ)
        git(tree, "checkout", "--quiet", "--detach", self.commit)
        return tree


@frozen
class Package:
    """One entry of `corpus/packages.toml`: a release on PyPI."""

    name: str
    version: str
    paths: Sequence[str] = (".",)

    def tree(self, wheels: Path, scratch: Path, every: int = 1) -> Path:
        """What `unpack` brings, as a clean tree in `scratch`."""
        tree = scratch / self.name
        self.unpack(wheels, tree, every)
        git(tree, "init", "--quiet")
        git(tree, "add", "--all")
        git(
            tree, "-c", "user.name=corpus", "-c", "user.email=corpus@localhost", "commit", "--quiet", "-m", self.version
        )
        return tree

    def unpack(self, wheels: Path, folder: Path, every: int = 1) -> None:
        """Bring the Python files of the wheel in `wheels`, which is downloaded where it is not there, to a folder; only
        each `every`-th of them, in the order of their paths.

        Raises:
            Unavailable: pip cannot get it.
        """
        found = self._wheel(wheels)
        if found is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            done = subprocess.run(
                [*command, f"--dest={wheels}", f"{self.name}=={self.version}"], capture_output=True, text=True
            )
            found = self._wheel(wheels)
            if found is None:
                raise Unavailable(f"pip cannot get {self.name} {self.version}: {done.stderr.strip()}")
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(found) as archive:
            archive.extractall(folder, sorted(name for name in archive.namelist() if name.endswith(".py"))[::every])

    def _wheel(self, wheels: Path) -> Path | None:
        return next(wheels.glob(f"{self.name.replace('-', '_')}-{self.version}-*.whl"), None)


def repositories() -> list[Repository]:
    """What `corpus/repositories.toml` lists, in its order."""
    return [Repository(**entry) for entry in _manifest("repositories.toml")["repository"]]


def unseen() -> list[Repository]:
    """What `corpus/unseen.toml` lists, in its order; `kind` is its group."""
    return [Repository(**entry) for entry in _manifest("unseen.toml")["repository"]]


def public() -> list[Repository]:
    """What `corpus/public.toml` lists, in its order."""
    return [Repository(**entry) for entry in _manifest("public.toml")["repository"]]


def zoo() -> list[Repository]:
    """What `corpus/zoo.toml` lists, in its order."""
    return [Repository(**entry) for entry in _manifest("zoo.toml")["repository"]]


def packages() -> list[Package]:
    """What `corpus/packages.toml` lists, in its order."""
    return [Package(**entry) for entry in _manifest("packages.toml")["package"]]


def git(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder. Raises `subprocess.CalledProcessError` where it fails, unless `check` is false."""
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=check)


def _manifest(name: str) -> dict[str, list[dict[str, str]]]:
    return tomllib.loads((FOLDER / name).read_text("utf-8"))


def _has(folder: Path, commit: str) -> bool:
    return folder.is_dir() and git(folder, "cat-file", "-e", f"{commit}^{{tree}}", check=False).returncode == 0


def _borrow(source: Path, tree: Path) -> None:
    """Let `tree` read the objects of `source`, which may be bare or shallow."""
    folder = Path(git(source, "rev-parse", "--absolute-git-dir").stdout.decode().strip())
    info = tree / ".git" / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{folder / 'objects'}\n", encoding="utf-8")
    if (folder / "shallow").is_file():
        (tree / ".git" / "shallow").write_bytes((folder / "shallow").read_bytes())
