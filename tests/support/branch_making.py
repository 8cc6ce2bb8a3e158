"""Repositories with a dirty working tree, requests for branches of them, and everything that must not change there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from repositories import commit_all, git

from perfmod.disk import digest
from perfmod.migrate.results import BranchesRequest, Step

FILES = {
    "train.py": b"import torch\nslow()\nslow()\n",
    "pkg/model.py": b"slow()\n\xc3\xa4 = 1\n",
    "pkg/crlf.py": b"slow()\r\nx = 1\r\n",
    "tool.sh": b"#!/bin/sh\nslow()\n",
    "other.txt": b"other\n",
}
MERGED = ("logs/refs/heads", "objects", "refs/heads")
"""Folders of a repository to which a branch adds files."""


def make(root: Path, files: Mapping[str, bytes] = FILES) -> Path:
    """A repository with one commit; `tool.sh` can be run."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    if (root / "tool.sh").exists():
        (root / "tool.sh").chmod(0o755)
    commit_all(root)
    return root


def head(root: Path, revision: str = "HEAD") -> str:
    return git(root, "rev-parse", revision).decode().strip()


def request(
    repository: Path,
    contents: Path,
    changes: Sequence[Mapping[str, tuple[bytes | None, bytes]]],
    branches: Sequence[str] = (),
    branch: str = "perfmod",
    commit: str | None = None,
    author: str = "",
    tips: Mapping[str, str] | None = None,
    time_limit: float = 60.0,
) -> BranchesRequest:
    """Steps that change files from some bytes to others; from None they make a file."""
    steps = []
    for number, files in enumerate(changes, start=1):
        for path, (_, after) in files.items():
            target = contents / str(number) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(after)
        step = Step(
            subject=f"PM{number}: Step {number}, schön",
            body=f"What it does.\n\n# no comment {number}",
            label=f"PM{number}",
            owners=(),
            patch=f"{number:04}.patch",
            branch=branches[number - 1] if branches else "",
            files=tuple(files),
            before=tuple("" if before is None else digest(before) for before, _ in files.values()),
            findings=1,
            added=1,
            removed=1,
        )
        steps.append(step)
    return BranchesRequest(
        project="owner/project",
        repository=repository,
        commit=head(repository) if commit is None else commit,
        steps=tuple(steps),
        contents=contents,
        branch=branch,
        author=author,
        tips=dict(tips or {}),
        time_limit=time_limit,
    )


def changes() -> list[dict[str, tuple[bytes, bytes]]]:
    """Three steps over the files, the last of which goes on with a file of the first."""
    train, model, crlf, tool = (FILES[name] for name in ("train.py", "pkg/model.py", "pkg/crlf.py", "tool.sh"))
    once = train.replace(b"slow()", b"fast()", 1)
    return [
        {"train.py": (train, once), "pkg/model.py": (model, model.replace(b"slow", b"fast"))},
        {"pkg/crlf.py": (crlf, crlf.replace(b"slow", b"fast")), "tool.sh": (tool, tool.replace(b"slow", b"fast"))},
        {"train.py": (once, once.replace(b"slow()", b"fast()"))},
    ]


def soil(root: Path) -> None:
    """Leave staged, unstaged and untracked changes, a stash and a merge that is not finished."""
    git(root, "checkout", "-q", "-b", "side")
    (root / "other.txt").write_bytes(b"side\n")
    git(root, "commit", "-qam", "side")
    git(root, "checkout", "-q", "main")
    (root / "train.py").write_bytes(b"stashed\n")
    git(root, "stash", "-q")
    git(root, "merge", "-q", "--no-ff", "--no-commit", "side")
    (root / "staged.py").write_bytes(b"staged\n")
    git(root, "add", "staged.py")
    (root / "staged.py").write_bytes(b"staged, and changed since\n")
    (root / "train.py").write_bytes(b"unstaged\n")
    (root / "untracked").mkdir()
    (root / "untracked" / "file.py").write_bytes(b"untracked\n")
    (root / "pkg" / "crlf.py").unlink()


def snapshot(root: Path) -> dict[str, object]:
    """All files with their times, and of the repository itself all that a new branch leaves alone."""
    found: dict[str, object] = {}
    for folder, folders, names in os.walk(root):
        inside = Path(folder).relative_to(root).as_posix()
        if any(inside.startswith((f".git/{merged}", merged)) for merged in MERGED):
            folders.clear()
            continue
        for name in names:
            path = Path(folder) / name
            state = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[f"{inside}/{name}"] = state.st_mode, state.st_mtime_ns, state.st_ino, state.st_size, content
        found[inside] = sorted(folders)
    for command in (
        ("worktree", "list"),
        ("stash", "list"),
        ("reflog", "show", "HEAD"),
        ("rev-parse", "HEAD", "refs/heads/main", "refs/stash"),
        ("status", "--porcelain"),
    ):
        found[" ".join(command)] = git(root, "--no-optional-locks", *command)
    return found


def trees(root: Path, branch: str = "perfmod", start: str = "main") -> list[str]:
    """The trees of the commits of a branch, the first one first."""
    return git(root, "log", "--reverse", "--format=%T", f"{start}..{branch}").decode().split()


def hook(root: Path, script: str, name: str = "pre-commit") -> None:
    """Put a hook into a repository with a working tree, or a bare one."""
    folder = (root / ".git" if (root / ".git").is_dir() else root) / "hooks"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
