"""Where the projects of a campaign come from, and that their files are read as they were committed, with real git."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forked_python
import notebooks
import psutil
import pytest
from repositories import PLAIN, commit_all, git

from perfmod.errors import Failure, UsageMistake
from perfmod.git import git as asked
from perfmod.migrate.clones import NotCloned, clone, refresh
from perfmod.migrate.kinds import kind_in, kind_of, kind_of_snapshot, pilot
from perfmod.migrate.snapshot import Incomplete, NoCommits, commit_of, content_digest, is_dirty, pack, unpack
from perfmod.migrate.targets import folder_name, is_repository, projects, without_secrets

TRAIN = """\
import torch
from torch import nn

model = nn.Linear(3, 1).cuda()
total = 0.0
for x in torch.rand(8, 4, 3).cuda():
    loss = model(x).mean()
    loss.backward()
    total += loss.item()
print(total)
"""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of somebody who has configured nothing but a name."""
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)


def written(root: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def made(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """A repository in which these files are committed."""
    root.mkdir(parents=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    written(root, files)
    commit_all(root)
    return root


def names(targets: list[str], listing: Path | None = None) -> list[str]:
    return [project.name for project in projects(targets, listing, Path("clones"))]


def held(data: bytes) -> dict[str, bytes | str]:
    """What a snapshot holds; of links, where they lead."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        found: dict[str, bytes | str] = {}
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            found[member.name] = member.linkname if file is None else file.read()
        return found


def snapshot(repository: Path, *, everything: bool = True) -> bytes:
    return pack(repository, commit_of(repository), everything=everything)


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def state(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything about a folder that somebody could have written."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in [root, *sorted(root.rglob("*"))]
    }


# What targets lead to.


def test_a_repository_a_folder_in_it_and_its_git_folder_are_one_project(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"sub/train.py": TRAIN})
    (tmp_path / "link").symlink_to(root)
    given = [str(root), str(root / "sub"), str(root / ".git"), str(tmp_path / "link"), f"{root}/sub/../"]
    (project,) = projects(given, None, tmp_path / "clones")
    assert (project.name, project.repository, project.location) == ("zoo", root, str(root))
    assert not project.is_remote


def test_a_folder_of_checkouts(tmp_path: Path) -> None:
    """Two levels down, whether bare or of a worktree; not in another repository, and not further down."""
    zoo = tmp_path / "zoo"
    made(zoo / "b", {"train.py": TRAIN})
    made(zoo / "b/inner", {"train.py": TRAIN})
    made(zoo / "owner/a", {"train.py": TRAIN})
    made(zoo / "deep/er/still", {"train.py": TRAIN})
    made(zoo / ".cache/hidden", {"train.py": TRAIN})
    git(zoo, "clone", "--quiet", "--bare", "b", "bare.git")
    git(zoo / "b", "worktree", "add", "--quiet", "--detach", "../tree")
    written(zoo, {"loose/train.py": TRAIN})
    (zoo / "round").symlink_to(zoo)
    found = projects([str(zoo)], None, tmp_path / "clones")
    assert [project.repository for project in found] == [zoo / "b", zoo / "bare.git", zoo / "owner/a", zoo / "tree"]
    for project in found:
        assert held(snapshot(project.repository))["train.py"] == TRAIN.encode()


def test_a_folder_without_repositories(tmp_path: Path) -> None:
    plain = written(tmp_path / "scripts", {"deep/er/still/train.py": TRAIN})
    (project,) = projects([str(plain)], None, tmp_path / "clones")
    assert (project.name, project.repository, is_repository(project.repository)) == ("scripts", plain, False)
    only_installed = written(tmp_path / "other", {".venv/lib/torch.py": "", "notes.txt": ""})
    with pytest.raises(UsageMistake, match="other: holds neither repositories, two levels down, nor Python"):
        projects([str(only_installed)], None, tmp_path)


def test_an_emptied_git_folder_makes_no_repository(tmp_path: Path) -> None:
    root = written(tmp_path / "unpacked", {"train.py": TRAIN})
    (root / ".git").mkdir()
    assert not is_repository(root)
    with pytest.raises(UsageMistake, match="is in no git repository"):
        commit_of(root)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://github.com/owner/project", "owner/project"),
        ("https://user:secret@github.com:443/owner/project.git/", "owner/project"),
        ("git@github.com:owner/project.git", "owner/project"),
        ("ssh://git@host.example:2222/group/owner/project.git", "owner/project"),
        ("file:///srv/zoo/project.git", "zoo/project"),
        ("git@host:project", "project"),
        ("https://host/../../etc", "-/etc"),
        ("https://host/a/..", "a/-"),
        ("https://host/ow ner/pro|ject", "ow-ner/pro-ject"),
    ],
)
def test_names_of_addresses(address: str, name: str) -> None:
    (project,) = projects([address], None, Path("/campaign/clones"))
    assert project.name == name
    assert project.repository == Path("/campaign/clones") / folder_name(name)
    assert project.location == address
    assert project.is_remote
    assert "secret" not in without_secrets(address)


def test_names_that_two_share_and_those_that_systems_do_not_tell_apart(tmp_path: Path) -> None:
    for place in ("x/zoo", "y/zoo", "owner+name", "UPPER", "z/upper", "p/q/same", "r/q/same"):
        made(tmp_path / place, {"train.py": TRAIN})
    given = [str(tmp_path / place) for place in ("x/zoo", "y/zoo", "owner+name", "UPPER", "z/upper")]
    given += [str(tmp_path / "p/q/same"), str(tmp_path / "r/q/same")]
    given += ["https://github.com/owner/name", "https://gitlab.com/Owner/name", "https://github.com/b/c"]
    found = names(given)
    above = tmp_path.name
    assert found == [
        "x/zoo",
        "y/zoo",
        f"{above}/owner+name",
        f"{above}/UPPER",
        "z/upper",
        "p/q/same",
        "r/q/same",
        "github.com/owner/name",
        "gitlab.com/Owner/name",
        "b/c",
    ]
    assert sorted(names(given[::-1])) == sorted(found)
    assert len({folder_name(name).casefold() for name in found}) == len(found)


def test_names_are_safe_whatever_folders_are_called(tmp_path: Path) -> None:
    given = ["a\nb", "..b", "con", "-rf", "ü", "x" * 250, "dots...", "a b"]
    for name in given:
        made(tmp_path / name, {"train.py": TRAIN})
    for project in projects([str(tmp_path / name) for name in given], None, tmp_path):
        flat = folder_name(project.name)
        assert flat.isprintable()
        assert len(flat) < 200
        assert not {".", "..", "con"} & {flat, *project.name.split("/")} or project.name == "con"
        assert flat[0] not in ".-"
        assert flat != "con"
        assert "/" not in flat


def test_the_same_repository_by_two_addresses_is_one_and_by_two_revisions_a_mistake(tmp_path: Path) -> None:
    both = ["https://github.com/owner/name.git", "git@GitHub.com:owner/name"]
    assert names(both) == ["owner/name"]
    listing = tmp_path / "list.txt"
    listing.write_text(f"{both[0]} v1\n")
    with pytest.raises(UsageMistake, match="is given with two revisions: HEAD and v1"):
        projects([both[1]], listing, tmp_path)


def test_a_listing(tmp_path: Path) -> None:
    """Paths are from its folder, may hold blanks, and a vanished one is no mistake."""
    made(tmp_path / "zoo/with blank", {"train.py": TRAIN})
    made(tmp_path / "zoo/b", {"train.py": TRAIN})
    listing = tmp_path / "lists/all.txt"
    listing.parent.mkdir()
    listing.write_bytes(
        "\ufeff# all of them\r\n\r\n../zoo/b  main # the good one\r\n../zoo/with blank\r\n../zoo/gone v2\r\n"
        "https://github.com/owner/name\tv1.2#3 # a branch\r\n../zoo/b main\r\n".encode()
    )
    found = projects([], listing, tmp_path / "clones")
    assert [(project.name, project.revision) for project in found] == [
        ("b", "main"),
        ("with-blank", ""),
        ("gone", "v2"),
        ("owner/name", "v1.2#3"),
    ]
    assert [project.repository.exists() for project in found] == [True, True, False, False]
    assert found[2].repository == tmp_path / "zoo/gone"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("https://github.com/a/b v1 v2", "a line is one target, with a revision behind a blank"),
        ("https://github.com/a/b --upload-pack=x", "--upload-pack=x: is no revision"),
        ("http://github.com/a/b", "begins with none of https://, ssh://, file://, git@"),
        ("https://token@github.com", "https://github.com: names no repository"),
        ("https:///a/b", "names no host"),
        ("https://[::1/a/b", "Invalid IPv6 URL"),
        ("github.com/a/b", "no such folder; an address begins with https://: https://github.com/a/b"),
        ("list.txt", "is a file"),
        ("a\0b", r"a\x00b: is no path"),
    ],
)
def test_wrong_lines_of_a_listing(tmp_path: Path, line: str, said: str) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text(f"# first\n{line}\n")
    with pytest.raises(UsageMistake) as found:
        projects([], listing, tmp_path)
    assert str(found.value).startswith(f"{listing}:2: ")
    assert said in str(found.value)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("zo", "zo: no such folder; did you mean zoo?"),
        ("owner/name", "; for a repository of GitHub say https://github.com/owner/name"),
        ("github.com/owner/name", "; an address begins with https://: https://github.com/owner/name"),
        ("", "a target is empty"),
        ("zoo/train.py", "zoo/train.py: is a file; name the repository that it is in"),
    ],
)
def test_wrong_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: str) -> None:
    written(tmp_path, {"zoo/train.py": TRAIN})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageMistake) as found:
        projects([target], None, tmp_path)
    assert said in str(found.value)


def test_a_listing_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageMistake, match=r"gone.txt: cannot be read: no such file"):
        projects([], tmp_path / "gone.txt", tmp_path)


# Commits and states.


def test_commits_of_all_sorts_of_repositories(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    git(root, "tag", "-a", "-m", "one", "v1")
    first = git(root, "rev-parse", "HEAD").decode().strip()
    written(root, {"train.py": "# other\n"})
    commit_all(root)
    second = git(root, "rev-parse", "HEAD").decode().strip()
    assert (commit_of(root), commit_of(root, "main"), commit_of(root, "v1")) == (second, second, first)
    git(tmp_path, "clone", "--quiet", "--depth=1", root.as_uri(), "shallow")
    git(tmp_path, "clone", "--quiet", "--bare", "zoo", "bare.git")
    git(root, "worktree", "add", "--quiet", "--detach", "../tree", "v1")
    assert commit_of(tmp_path / "shallow") == commit_of(tmp_path / "bare.git") == second
    assert commit_of(tmp_path / "tree") == first
    for revision in ("nowhere", "-x", "HEAD:train.py"):
        with pytest.raises(Failure, match=f"zoo: git knows no revision {revision}"):
            commit_of(root, revision)
    assert [is_dirty(tmp_path / name) for name in ("zoo", "shallow", "bare.git", "tree")] == [False] * 4
    written(tmp_path, {"tree/train.py": "# edited\n", "shallow/untracked.py": ""})
    assert [is_dirty(tmp_path / name) for name in ("zoo", "shallow", "bare.git", "tree")] == [False] * 3 + [True]
    assert held(snapshot(tmp_path / "tree")) == {"train.py": TRAIN.encode()}
    assert held(snapshot(tmp_path / "shallow")) == {"train.py": b"# other\n"}


def test_no_commits_is_told_from_what_is_broken(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "new")
    with pytest.raises(NoCommits, match="new: has no commits"):
        commit_of(tmp_path / "new")
    broken = made(tmp_path / "broken", {"train.py": TRAIN})
    (broken / ".git/HEAD").write_text("0" * 39 + "1\n")
    with pytest.raises(Failure, match="broken: HEAD leads nowhere") as found:
        commit_of(broken)
    assert not isinstance(found.value, NoCommits)
    gone = tmp_path / "gone"
    with pytest.raises(UsageMistake, match="gone: is in no git repository"):
        commit_of(gone)


# Clones.


def test_a_clone_is_fresh_and_stays_so(tmp_path: Path) -> None:
    """Branches that were made in it stay; the other side's new commits and revisions come."""
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    git(root, "tag", "v1")
    git(root, "checkout", "--quiet", "-b", "dev")
    written(root, {"dev.py": ""})
    commit_all(root)
    git(root, "checkout", "--quiet", "main")
    there = tmp_path / "clones/zoo"
    clone(root.as_uri(), there)
    assert listed(there) == [".git"]
    assert listed(tmp_path / "clones") == ["zoo"]
    assert commit_of(there) == commit_of(there, "main") == commit_of(root)
    assert commit_of(there, "dev") == commit_of(root, "dev")
    assert not is_dirty(there)
    git(there, "branch", "perfmod", "HEAD")
    old = commit_of(there)

    written(root, {"more.py": ""})
    commit_all(root)
    refresh(there)
    assert commit_of(there) == commit_of(there, "main") == commit_of(root) != old
    assert commit_of(there, "perfmod") == old
    refresh(there, "dev")
    assert commit_of(there) == commit_of(root, "dev")
    assert list(held(snapshot(there))) == ["dev.py", "train.py"]


def test_a_clone_of_a_revision_that_is_on_no_branch(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    written(root, {"pull.py": ""})
    commit_all(root)
    git(root, "update-ref", "refs/pull/3/head", "HEAD")
    git(root, "reset", "--quiet", "--hard", "HEAD~1")
    clone(root.as_uri(), tmp_path / "pull", "refs/pull/3/head")
    assert commit_of(tmp_path / "pull") == commit_of(root, "refs/pull/3/head")
    with pytest.raises(NotCloned, match=r"zoo nowhere: cannot be cloned: .*couldn't find remote ref nowhere"):
        clone(root.as_uri(), tmp_path / "none", "nowhere")
    assert listed(tmp_path) == ["pull", "zoo"]


def test_a_clone_of_nothing(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "new")
    clone((tmp_path / "new").as_uri(), tmp_path / "there")
    refresh(tmp_path / "there")
    with pytest.raises(NoCommits):
        commit_of(tmp_path / "there")


def test_what_cannot_be_cloned_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotCloned, match=r"^file://.*/gone: cannot be cloned: .*does not appear to be a git repository"):
        clone((tmp_path / "gone").as_uri(), tmp_path / "clones/gone")
    assert not list((tmp_path / "clones").iterdir())
    taken = written(tmp_path / "taken", {"notes.txt": "mine"})
    with pytest.raises(NotCloned, match=r"cannot be cloned to .*taken: "):
        clone(made(tmp_path / "zoo", {"a.py": ""}).as_uri(), taken)
    assert listed(taken) == ["notes.txt"]


def test_the_network_is_tried_again_and_secrets_are_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens on the port; by another reason than the network's, there is one try."""
    monkeypatch.setattr("perfmod.migrate.clones._PAUSE", 0.01)
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NotCloned) as found:
        clone("https://user:secret@localhost:1/owner/name", tmp_path / "clones/name")
    said = str(found.value)
    assert said.startswith("https://localhost:1/owner/name: cannot be cloned (3 times): ")
    assert "secret" not in said
    assert not list((tmp_path / "clones").iterdir())


def test_a_clone_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """Git asks another program to reach the other side, which would go on by itself."""
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    mark = f"{tmp_path}/pid"
    slow = tmp_path / "slow.sh"
    slow.write_text(f"#!/bin/sh\necho $$ > {mark}\nsleep 60\n")
    slow.chmod(0o755)
    clone(root.as_uri(), tmp_path / "there")
    git(tmp_path / "there", "config", "remote.origin.uploadpack", str(slow))
    start = time.monotonic()
    with pytest.raises(NotCloned, match="git fetch takes more than 1 s"):
        refresh(tmp_path / "there", timeout=1.0)
    assert time.monotonic() - start < 20
    process = int(Path(mark).read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}").exists() and "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    """Killed in the middle, there is either no clone or a whole one."""
    root = made(tmp_path / "zoo", {"big.bin": os.urandom(8_000_000), "train.py": TRAIN})
    start = "import sys; from pathlib import Path; from perfmod.migrate.clones import clone"
    code = f"{start}; clone(sys.argv[1], Path(sys.argv[2]))"
    there = tmp_path / "clones/zoo"
    process = subprocess.Popen([sys.executable, "-c", code, root.as_uri(), str(there)])
    deadline = time.monotonic() + 30
    while not (there.parent.is_dir() and list(there.parent.iterdir())):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    process.wait()
    if there.exists():
        assert held(snapshot(there))["train.py"] == TRAIN.encode()
        return
    while any(str(tmp_path) in " ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # git itself was not killed
    clone(root.as_uri(), there)
    assert listed(there.parent) == ["zoo"]
    assert held(snapshot(there))["train.py"] == TRAIN.encode()


# Snapshots.


def test_bytes_are_as_committed_whatever_attributes_say(tmp_path: Path) -> None:
    """Filters that would fail, line ends, expanded keywords, and files that an archive leaves out."""
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 123\n"
    files: dict[str, str | bytes] = {
        "crlf.py": b"x = 1\r\ny = 2\n",
        "ident.py": "# $Id$\n",
        "model.bin": pointer,
        "data.json": pointer,
        "hidden.py": "x = 1\n",
        "run.sh": "#!/bin/sh\n",
        "ignored.py": "x = 1\n",
        ".gitignore": "ignored.py\n",
        "utf16.txt": "torch".encode("utf-16"),
    }
    root = made(tmp_path / "zoo", files)
    attributes = (
        "*.bin filter=lfs diff=lfs -text\n*.json filter=lfs\n*.py text eol=crlf ident\nhidden.py export-ignore\n"
        "*.txt working-tree-encoding=UTF-16\n"
    )
    (root / "run.sh").chmod(0o755)
    commit_all(root)
    (root / ".gitattributes").write_text(attributes)
    git(root, "add", ".gitattributes")
    git(root, "commit", "--quiet", "--message=attributes", ".gitattributes")
    for key, value in {
        "filter.lfs.required": "true",
        "filter.lfs.smudge": "false",
        "filter.lfs.clean": "false",
    }.items():
        git(root, "config", key, value)
    git(root, "config", "core.autocrlf", "true")
    before = state(root)
    data = snapshot(root)
    assert held(data) == {
        name: content.encode() if isinstance(content, str) else content
        for name, content in sorted({**files, ".gitattributes": attributes}.items())
    }
    assert snapshot(root) == data
    assert set(held(snapshot(root, everything=False))) == {*files, ".gitattributes"} - {"model.bin"}
    assert state(root) == before
    unpack(data, tmp_path / "there")
    modes = {path.name: bool(path.stat().st_mode & stat.S_IXUSR) for path in (tmp_path / "there").iterdir()}
    assert [name for name, is_executable in modes.items() if is_executable and name != ".git"] == ["run.sh"]


def test_what_an_analysis_may_read(tmp_path: Path) -> None:
    root = made(
        tmp_path / "zoo",
        {
            "train.py": TRAIN,
            "picture.png": b"\x89",
            ".github/CODEOWNERS": "* @a",
            ".perfmod/decisions.json": "{}",
            ".perfmod/deep/evidence": "x",
            "large.json": b"0" * 20_000_001,
            "large.py": b"#" * 20_000_001,
            "shared/code": TRAIN,
        },
    )
    (root / "linked.py").symlink_to("shared/again")
    (root / "shared/again").symlink_to("code")
    (root / "lib").symlink_to("shared")
    (root / "picture.lnk").symlink_to("picture.png")
    (root / "out.py").symlink_to("../other.py")
    (root / "absolute.py").symlink_to("/etc/passwd")
    (root / "sub").mkdir()
    (root / "sub/git.py").symlink_to("../.git/config")
    commit_all(root)
    found = held(snapshot(root, everything=False))
    assert sorted(found) == [
        ".github/CODEOWNERS",
        ".perfmod/decisions.json",
        ".perfmod/deep/evidence",
        "large.py",
        "lib",
        "linked.py",
        "picture.lnk",
        "shared/again",
        "shared/code",
        "train.py",
    ]
    unpack(snapshot(root, everything=False), tmp_path / "there")
    assert (tmp_path / "there/linked.py").read_text() == TRAIN
    assert (tmp_path / "there/lib/code").read_text() == TRAIN


def test_submodules_are_left_out(tmp_path: Path) -> None:
    inner = made(tmp_path / "inner", {"inner.py": TRAIN})
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.as_uri(), "third")
    commit_all(root)
    assert sorted(held(snapshot(root))) == [".gitmodules", "train.py"]
    (project,) = projects([str(root / "third")], None, tmp_path)
    assert list(held(snapshot(project.repository))) == ["inner.py"]
    clone(root.as_uri(), tmp_path / "there")
    assert sorted(held(snapshot(tmp_path / "there"))) == [".gitmodules", "train.py"]


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    odd = [b"na\xefve.py", "ü\n\t\"'.py".encode(), b"a" * 200 + b"/" + b"b" * 200 + b".py", b"back\\slash.py"]
    for name in odd:
        written(root, {os.fsdecode(name): "x = 1\n"})
    commit_all(root)
    data = snapshot(root)
    unpack(data, tmp_path / "there")
    for name in odd:
        assert (tmp_path / "there" / os.fsdecode(name)).read_text() == "x = 1\n"
    assert len(held(data)) == 5


def test_a_partial_clone_names_what_is_missing_and_fetches_nothing(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"a.py": TRAIN, "big/data.json": b"0" * 50_000, "z.txt": "small\n"})
    git(root, "config", "uploadpack.allowFilter", "true")
    for option, name in (("blob:none", "none"), ("blob:limit=10k", "limited")):
        git(tmp_path, "clone", "--quiet", "--no-checkout", f"--filter={option}", root.as_uri(), name)
    before = state(tmp_path)
    with pytest.raises(Incomplete, match=r"^a\.py is missing from git's store"):
        snapshot(tmp_path / "none", everything=False)
    with pytest.raises(Incomplete, match=r"^big/data\.json is missing"):
        snapshot(tmp_path / "limited")
    # Large data is what such clones leave out, and what an analysis leaves out.
    assert list(held(snapshot(tmp_path / "limited", everything=False))) == ["a.py", "z.txt"]
    assert state(tmp_path) == before


def test_a_store_that_lacks_a_file(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"a.py": TRAIN, "b.py": "", "c.txt": "c"})
    names = git(root, "rev-parse", "HEAD:b.py", "HEAD:c.txt").decode().split()
    for name in names:
        (root / f".git/objects/{name[:2]}/{name[2:]}").unlink()
    with pytest.raises(Incomplete, match=r"^b\.py is missing"):
        snapshot(root)


def test_plain_folders(tmp_path: Path) -> None:
    """They are read from the disk, and known by a digest; what no walk enters is not in them."""
    root = written(
        tmp_path / "scripts",
        {
            "train.py": TRAIN,
            "run.sh": "",
            "data/x.bin": "x",
            "__pycache__/train.pyc": "",
            ".ipynb_checkpoints/a.ipynb": "",
            "env/pyvenv.cfg": "",
            "env/lib/torch.py": "",
            "build/lib/train.py": "",
        },
    )
    (root / "link.py").symlink_to("train.py")
    (root / "run.sh").chmod(0o755)
    os.mkfifo(root / "pipe.py")
    data = pack(root, "", everything=True)
    assert held(data) == {"data/x.bin": b"x", "link.py": "train.py", "run.sh": b"", "train.py": TRAIN.encode()}
    assert sorted(held(pack(root, "", everything=False))) == ["link.py", "run.sh", "train.py"]
    unpack(data, tmp_path / "there")
    assert os.access(tmp_path / "there/run.sh", os.X_OK)
    assert (tmp_path / "there/link.py").readlink() == Path("train.py")

    digest = content_digest(root)
    shutil.copytree(root, tmp_path / "copy", symlinks=True, ignore=shutil.ignore_patterns("pipe.py"))
    assert content_digest(tmp_path / "copy") == digest
    (root / "env/lib/torch.py").write_text("changed")
    assert content_digest(root) == digest
    seen = {digest}
    (root / "data/x.bin").write_text("y")
    seen.add(content_digest(root))
    (root / "train.py").chmod(0o755)
    seen.add(content_digest(root))
    (root / "train.py").rename(root / "other.py")
    seen.add(content_digest(root))
    assert len(seen) == 4
    (root / "data").chmod(0)
    try:
        if os.geteuid() != 0:
            with pytest.raises(Failure, match="data: cannot be read: permission denied"):
                content_digest(root)
    finally:
        (root / "data").chmod(0o755)
    with pytest.raises(Failure, match="gone: cannot be read: no such file"):
        pack(tmp_path / "gone", "", everything=False)


# Hostile trees.


def tar_of(*members: tuple[str, bytes | str | None]) -> bytes:
    """A tar with files, with links where a text is given, and hard links to the first member for None."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                member.type = tarfile.LNKTYPE if content is None else tarfile.SYMTYPE
                member.linkname = content or members[0][0]
                tar.addfile(member)
    return written.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        [("../escaped.py", b"x")],
        [("a/../../escaped.py", b"x")],
        [("/tmp/perfmod-escaped.py", b"x")],
        [("d", ".."), ("d/escaped.py", b"x")],
        [("d", "../outside"), ("d/escaped.py", b"x")],
        [("d", "/"), ("d/tmp/perfmod-escaped.py", b"x")],
        [("a/b/d", "../.."), ("e", "a/b/d/../outside/kept"), ("e", b"x")],
        [("a/b/d", "../.."), ("e", "a/b/d/.."), ("e/escaped.py", b"x")],
        [("../outside/kept", b"x"), ("hard", None)],
        [(".git/config", b"x"), (".GIT/hooks/pre-commit", b"x"), ("sub/.git", b"x"), ("GIT~1/x", b"x")],
        [(".g\u200cit/config", b"x"), (".git /config", b"x"), (".git::$INDEX_ALLOCATION/config", b"x")],
        [("g", ".git"), ("h", "./.git/config"), ("i/j", "../.git")],
        [("loop", "loop"), ("a1", "a2"), ("a2", "a1")],
        [("", b"x"), (".", b"x"), ("..", b"x"), ("a//b", b"x"), ("a/./b", b"x")],
    ],
)
def test_nothing_is_written_outside_or_into_git(tmp_path: Path, members: list[tuple[str, bytes | str | None]]) -> None:
    outside = written(tmp_path / "outside", {"kept": "kept"})
    there = tmp_path / "there"
    unpack(tar_of(*members, ("train.py", b"good")), there)
    assert (there / "train.py").read_bytes() == b"good"
    assert listed(tmp_path) == ["outside", "there"]
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"kept": "kept"}
    assert not Path("/tmp/perfmod-escaped.py").exists()
    assert not list((there / ".git").iterdir())
    for path in there.rglob("*"):
        assert not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(there)
        assert path == there / ".git" or ".git" not in path.name.lower()


def test_a_tree_of_git_that_git_itself_would_not_check_out(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"train.py": TRAIN})
    blob = git(root, "rev-parse", "HEAD:train.py").decode().strip()
    raw = bytes.fromhex(blob)
    inner = git(root, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=b"100644 config\0" + raw)
    folder = bytes.fromhex(inner.decode().strip())
    tree = b"40000 ..\0" + folder + b"40000 .GIT\0" + folder + b"100644 a/b\0" + raw + b"100644 train.py\0" + raw
    top = git(root, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=tree).decode().strip()
    commit = git(root, "commit-tree", "-m", "hostile", top).decode().strip()
    assert set(held(pack(root, commit, everything=True))) <= {"a/b", "train.py"}
    assert "train.py" in held(pack(root, commit, everything=True))


def test_names_that_fold_leave_both_or_the_first(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"a.py": "lower", "A.py": "upper"})
    unpack(snapshot(root), tmp_path / "there")
    expected = {"A.py": "upper", "a.py": "lower"} if len(listed(root)) == 3 else {"A.py": "upper"}
    assert {path.name: path.read_text() for path in (tmp_path / "there").glob("*.py")} == expected


def test_what_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="a snapshot is damaged"):
        unpack(b"nonsense" * 200, tmp_path / "there")
    file = written(tmp_path, {"file": "x"}) / "file"
    with pytest.raises(Failure, match="file: a snapshot cannot be written: "):
        unpack(tar_of(("a.py", b"")), file)


# That an analysis of a snapshot comes to the same.


def told(folder: Path, cache: Path, *command: str) -> dict[str, Any]:
    """What perfmod says about a project, run in a process of its own."""
    done = subprocess.run(
        [forked_python.perfmod(), "-m", "perfmod", *command, "--output-format", "json", "--low-impact", "."],
        cwd=folder,
        env={**os.environ, "PERFMOD_CACHE_DIR": str(cache), "PERFMOD_STATE_DIR": str(cache / "state")},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """A project with everything that decides how it is read."""
    split = TRAIN.replace("model = nn", "from net import Net\nmodel = nn")
    root = made(
        tmp_path / "zoo",
        {
            "train.py": split,
            "net.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n",
            "crlf.py": TRAIN.replace("\n", "\r\n"),
            "notebook.ipynb": notebooks.document(TRAIN),
            "broken.py": "def (:\n",
            "old/train.py": TRAIN,
            "old/requirements.txt": "torch==1.4\n",
            "quiet/train.py": TRAIN,
            "quiet/perfmod.toml": 'ignore = ["PM1", "PM3"]\n',
            "excluded/train.py": TRAIN,
            "pyproject.toml": '[tool.perfmod]\nexclude = ["excluded/"]\n',
            "ignored/train.py": TRAIN,
            "ignored.py": TRAIN,
            ".gitignore": "ignored*\n",
            "build/train.py": TRAIN,
            ".gitattributes": "*.py text=auto\ncrlf.py -text\nold/** export-ignore\n",
            "hidden/code": TRAIN,
            "conf/loader.yaml": "num_workers: 0\n",
        },
    )
    (root / "by_link.py").symlink_to("hidden/code")
    (root / "again.py").symlink_to("train.py")
    (root / "folder").symlink_to("old")
    commit_all(root)
    return root


def test_the_same_findings_as_in_a_clean_clone(zoo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "zoo", "clean")
    git(tmp_path, "clone", "--quiet", "--config=core.autocrlf=true", "zoo", "windows")
    unpack(snapshot(zoo, everything=False), tmp_path / "there")
    clean = told(tmp_path / "clean", tmp_path / "c1", "apply", "--dry-run")
    there = told(tmp_path / "there", tmp_path / "c2", "apply", "--dry-run")
    assert there == clean
    paths = {row["path"] for row in clean["findings"]}
    assert paths == {"again.py", "by_link.py", "crlf.py", "notebook.ipynb", "old/train.py"}
    assert {row["path"] for row in clean["files"]} >= {"broken.py", *paths}
    windows = told(tmp_path / "windows", tmp_path / "c3", "check")
    known = [(row["path"], row["line"], row["code"], row["fingerprint"]) for row in windows["findings"]]
    assert known == [(row["path"], row["line"], row["code"], row["fingerprint"]) for row in clean["findings"]]


def test_rewritten_in_place_a_snapshot_is_what_a_clean_clone_becomes(zoo: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "zoo", "clean")
    unpack(snapshot(zoo), tmp_path / "there")
    for name in ("clean", "there"):
        told(tmp_path / name, tmp_path / name[::-1], "apply")
        shutil.rmtree(tmp_path / name / ".git")
    digests = [content_digest(tmp_path / name) for name in ("clean", "there")]
    assert digests[0] == digests[1]
    shutil.rmtree(zoo / ".git")
    assert content_digest(zoo) != digests[0]


# Kinds.

LOOP = "for x in loader:\n    loss = model(x)\n    loss.backward()\n"
LIT = "import pytorch_lightning as pl\nclass A(pl.LightningModule): ...\npl.Trainer().fit(A())\n"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"a.py": f"import torch\n{LOOP}"}, "plain"),
        ({"a.py": f"from torch import nn\n{LOOP}", "b.py": "dist.init_process_group('nccl')"}, "distributed"),
        ({"a.py": LOOP, "b.py": "import torch"}, "plain"),
        ({"a.py": f"import torch\n# {LOOP}"}, "plain"),
        ({"a.py": "import torch\n# loss.backward()\n"}, "other"),
        ({"a.py": "import torch\nprint(torch.ones(3))"}, "other"),
        ({"a.py": f"import jax\n{LOOP}"}, "other"),
        ({"a.py": LIT}, "lightning"),
        ({"a.py": LIT, **{f"{number}.py": f"import torch\n{LOOP}" for number in range(3)}}, "plain"),
        ({"a.py": "from transformers import Trainer\nTrainer(model).train()"}, "transformers"),
        ({"a.py": "from transformers import AutoModel"}, "other"),
        ({"a.py": "import torch\nfrom accelerate import Accelerator\naccelerator = Accelerator()\n"}, "accelerate"),
        ({"a.ipynb": notebooks.document(f"import torch\n{LOOP}")}, "notebooks"),
        ({"a.ipynb": notebooks.document(f"import torch\n{LOOP}"), "b.py": f"import torch\n{LOOP}"}, "plain"),
        ({"a.py": b"\xff\xfe"}, "other"),
        ({"notes.txt": f"import torch\n{LOOP}"}, "other"),
    ],
)
def test_kinds(tmp_path: Path, files: dict[str, str | bytes], kind: str) -> None:
    root = made(tmp_path / "zoo", files)
    assert kind_of(root) == kind
    assert kind_of([path for path in root.iterdir() if path.suffix in (".py", ".ipynb")]) == kind
    assert kind_of_snapshot(snapshot(root, everything=False)) == kind


def test_a_long_line_takes_no_time() -> None:
    data = b"import torch\nlightning transformers trl .backward accelerate\n" + b"aTrainer " * 500_000 + b"(" * 500_000
    start = time.monotonic()
    kind_in([("a.py", data)])
    assert time.monotonic() - start < 5


def test_a_pilot_is_spread_over_kinds() -> None:
    kinds = {f"plain{number}": "plain" for number in range(60)}
    kinds |= {f"ddp{number}": "distributed" for number in range(30)}
    kinds |= {f"lit{number}": "lightning" for number in range(9)} | {"note": "notebooks"}

    def of(count: int) -> Counter[str]:
        return Counter(kinds[name] for name in pilot(kinds, count))

    assert of(0) == {}
    assert of(2) == {"plain": 1, "distributed": 1}
    assert of(4) == {"plain": 1, "distributed": 1, "lightning": 1, "notebooks": 1}
    assert of(10) == {"plain": 6, "distributed": 2, "lightning": 1, "notebooks": 1} or of(10)["plain"] in (5, 6)
    assert of(1000) == Counter(kinds.values())
    backwards = dict(reversed(kinds.items()))
    for count in range(0, 101, 7):
        chosen = pilot(kinds, count)
        assert len(set(chosen)) == count
        assert chosen == pilot(backwards, count)
        assert set(chosen) <= set(pilot(kinds, count + 1))
    assert pilot(kinds, 5) != sorted(kinds)[:5]


# git itself.


def test_git_is_ended_with_what_it_started_and_says_what_is_wrong(tmp_path: Path) -> None:
    root = made(tmp_path / "zoo", {"a.py": ""})
    pid = tmp_path / "pid"
    start = time.monotonic()
    with pytest.raises(Failure, match="git -c takes more than 1 s"):
        asked(root, "-c", f"alias.slow=!echo $$ > {pid}; sleep 30; true", "slow", timeout=1.0, is_apart=True)
    assert time.monotonic() - start < 10
    process = int(pid.read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{process}").exists() and "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    told = asked(root, "-c", "alias.say=!echo $GIT_LFS_SKIP_SMUDGE", "say", environment={"GIT_LFS_SKIP_SMUDGE": "1"})
    assert told == b"1\n"
    with pytest.raises(Failure, match="gone: no such folder"):
        asked(tmp_path / "gone", "status")
