"""Branches made by real git with real hooks, in repositories in which nothing else may change."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import branch_making
import forked_python
import pytest
from branch_making import FILES, changes, head, hook, make, request, snapshot, soil, trees
from repositories import PLAIN, git

from perfmod.migrate.branching import clear, run
from perfmod.migrate.results import Branch, Branches, BranchesRequest, Cause, Outcome, Refused
from perfmod.records import plain

KILLS = 5
RUNNER = """
import json, sys
from pathlib import Path
from perfmod.migrate.branching import run
from perfmod.migrate.results import BranchesRequest
from perfmod.records import plain, restored
request = restored(BranchesRequest, json.loads(Path(sys.argv[1]).read_text()))
print(json.dumps(plain(run(request, Path(sys.argv[2])))))
"""
ONE = [{"train.py": (FILES["train.py"], b"fast()\n")}]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make(tmp_path / "repository")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "campaign" / "job"
    path.mkdir(parents=True)
    return path


def made(request: BranchesRequest, folder: Path) -> tuple[Branch, ...]:
    done = run(request, folder)
    assert isinstance(done, Branches), done
    left = [path.name for path in folder.glob("perfmod-*")]
    assert left == []
    assert not any(path.is_dir() for path in request.repository.glob(".git/worktrees"))
    return done.branches


def one(request: BranchesRequest, folder: Path) -> Branch:
    (branch,) = made(request, folder)
    return branch


def refused(request: BranchesRequest, folder: Path) -> Refused:
    done = run(request, folder)
    assert isinstance(done, Refused), done
    return done


def refs(repository: Path) -> bytes:
    return git(repository, "for-each-ref")


def test_commits_on_a_branch_and_nothing_else(repository: Path, folder: Path) -> None:
    soil(repository)
    wanted = request(repository, folder / "steps", changes())
    before = snapshot(repository)
    branch = one(wanted, folder)
    assert snapshot(repository) == before
    assert branch == Branch("perfmod", head(repository, "perfmod"), 3, Outcome.CHANGED)
    log = git(repository, "log", "--reverse", "--format=%an|%cn|%B", "main..perfmod").decode()
    assert log.split("\n")[:4] == [
        "Ada Löve|Ada Löve|PM1: Step 1, schön",
        "",
        "What it does.",
        "",
    ]
    assert "# no comment 3" in log
    for path, name in (("pkg/crlf.py", b"fast()\r\nx = 1\r\n"), ("train.py", b"import torch\nfast()\nfast()\n")):
        assert git(repository, "cat-file", "blob", f"perfmod:{path}") == name
    assert git(repository, "ls-tree", "perfmod", "tool.sh").startswith(b"100755")
    names = git(repository, "log", "--reverse", "--format=", "--name-only", "main..perfmod").decode().split()
    assert names == ["pkg/model.py", "train.py", "pkg/crlf.py", "tool.sh", "train.py"]


def test_a_branch_for_each_ending(repository: Path, folder: Path) -> None:
    train, once = FILES["train.py"], b"once\n"
    steps = [
        {"train.py": (train, once)},
        {"pkg/model.py": (FILES["pkg/model.py"], b"model\n")},
        {"train.py": (once, b"twice\n")},
    ]
    branches = made(request(repository, folder / "steps", steps, ["team-a", "team/b", "team-a"]), folder)
    assert [(each.name, each.commits) for each in branches] == [("perfmod/team-a", 2), ("perfmod/team/b", 1)]
    assert git(repository, "show", "perfmod/team-a:train.py") == b"twice\n"
    assert git(repository, "show", "perfmod/team/b:train.py") == train


def test_a_step_that_makes_a_file(repository: Path, folder: Path) -> None:
    (repository / ".gitattributes").write_bytes(b"*.py text eol=crlf\n")
    git(repository, "add", ".gitattributes")
    git(repository, "commit", "-qm", "attributes")
    steps = [
        {"train.py": (b"import torch\r\nslow()\r\nslow()\r\n", b"once\r\n"), "pkg/new.py": (None, b"new\n")},
        {"pkg/new.py": (b"new\n", b"newer\n")},
    ]
    branch = one(request(repository, folder / "steps", steps), folder)
    assert (branch.outcome, branch.reason, branch.commits) == (Outcome.CHANGED, "", 2)
    assert git(repository, "ls-tree", "perfmod", "pkg/new.py").startswith(b"100644 blob")
    assert git(repository, "show", "perfmod~1:pkg/new.py", "perfmod:pkg/new.py") == b"new\nnewer\n"
    git(repository, "checkout", "-q", "perfmod")
    git(repository, "revert", "--no-edit", "HEAD", "HEAD~1")
    assert not (repository / "pkg" / "new.py").exists()


@pytest.mark.parametrize("path", ["train.py", "pkg"])
def test_a_file_that_would_be_made_is_not_there(repository: Path, folder: Path, path: str) -> None:
    branch = one(request(repository, folder / "steps", [{path: (None, b"new\n")}]), folder)
    assert (branch.outcome, branch.cause) == (Outcome.FAILED, Cause.GIT)
    commit = head(repository)[:12]
    assert branch.reason == f"{path}: would be made, and the commit {commit} has it already"


def test_one_that_fails_does_not_stop_the_others(repository: Path, folder: Path) -> None:
    steps = [{"train.py": (b"something else\n", b"once\n")}, {"tool.sh": (FILES["tool.sh"], b"tool\n")}]
    first, second = made(request(repository, folder / "steps", steps, ["a", "b"]), folder)
    assert (first.outcome, first.cause, first.tip, first.commits) == (Outcome.FAILED, Cause.GIT, "", 0)
    assert first.reason == "train.py: holds something else in the repository than when it was analysed"
    assert second.outcome is Outcome.CHANGED


def test_a_bare_repository(repository: Path, folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(bare))
    branch = one(request(bare, folder / "steps", changes()), folder)
    one(request(repository, folder / "steps", changes()), folder)
    assert trees(bare) == trees(repository)
    assert branch.commits == 3
    assert not (bare / "worktrees").exists()


def test_hooks_run(repository: Path, folder: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    for name in ("pre-commit", "prepare-commit-msg", "post-commit", "post-checkout"):
        hook(repository, f"echo {name} >> {seen}; git diff --cached --name-only -- '*.py' >> {seen}", name)
    hook(repository, f"echo commit-msg >> {seen}; echo 'Change-Id: 1' >> $1", "commit-msg")
    assert one(request(repository, folder / "steps", ONE), folder).outcome is Outcome.CHANGED
    assert seen.read_text().split() == [
        *("pre-commit", "train.py", "prepare-commit-msg", "train.py", "commit-msg", "post-commit"),
    ]
    assert "Change-Id: 1" in git(repository, "log", "-1", "--format=%B", "perfmod").decode()


@pytest.mark.parametrize(
    ("script", "name", "reason"),
    [
        (
            "echo first; printf '\\033[31mflake8: E501 in train.py\\033[0m\\n\\n'; exit 3",
            "pre-commit",
            "flake8: E501 in train.py",
        ),
        ("exit 1", "commit-msg", "it said nothing"),
    ],
)
def test_a_hook_that_refuses(repository: Path, folder: Path, script: str, name: str, reason: str) -> None:
    hook(repository, script, name)
    before = refs(repository)
    branch = one(request(repository, folder / "steps", changes()), folder)
    assert branch == Branch("perfmod", "", 0, Outcome.FAILED, Cause.HOOK, f"the hook {name} refused: {reason}")
    assert refs(repository) == before


def test_a_hook_that_refuses_the_last_commit_leaves_no_half_branch(repository: Path, folder: Path) -> None:
    hook(repository, "grep -q 'Step 3' $1 && echo no third >&2 && exit 1; exit 0", "commit-msg")
    branch = one(request(repository, folder / "steps", changes()), folder)
    assert branch.reason == "the hook commit-msg refused: no third"
    assert b"perfmod" not in refs(repository)
    hook(repository, "exit 0", "commit-msg")
    assert one(request(repository, folder / "steps", changes()), folder).commits == 3


@pytest.mark.parametrize("staged", [False, True])
def test_a_hook_that_reformats(repository: Path, folder: Path, staged: bool) -> None:
    """As pre-commit's do: the files are changed, and the commit fails; or they are added and it does not."""
    hook(
        repository, f"echo '# fmt' >> train.py; {'git add train.py' if staged else 'echo files were modified; exit 1'}"
    )
    branch = one(request(repository, folder / "steps", changes()), folder)
    assert (branch.outcome, branch.cause, branch.tip) == (Outcome.FAILED, Cause.HOOK, "")
    what = (
        "a hook changed train.py in the commit; " if staged else "the hook pre-commit changed train.py, as formatters"
    )
    assert branch.reason.startswith(what)
    assert staged or branch.reason.endswith("it said: files were modified")
    assert b"perfmod" not in refs(repository)


def test_a_hook_that_hangs_ends_with_all_that_it_started(repository: Path, folder: Path, tmp_path: Path) -> None:
    hook(repository, f"echo waiting; sleep 300 & echo $! > {tmp_path}/pid; wait")
    start = time.monotonic()
    branch = one(request(repository, folder / "steps", ONE, time_limit=1.5), folder)
    assert time.monotonic() - start < 20
    assert (branch.outcome, branch.cause) == (Outcome.FAILED, Cause.HOOK)
    assert branch.reason.startswith("the hook pre-commit does not end within ")
    assert branch.reason.endswith("its last words: waiting")
    assert not running(int((tmp_path / "pid").read_text()))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_hook_that_leaves_something_running_does_not_hold_it_up(repository: Path, folder: Path) -> None:
    hook(repository, "sleep 300 &")
    start = time.monotonic()
    assert one(request(repository, folder / "steps", ONE), folder).outcome is Outcome.CHANGED
    assert time.monotonic() - start < 20


def test_nobody_is_known(repository: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = request(repository, folder / "steps", ONE)
    with monkeypatch.context() as patched:
        for name in PLAIN:
            if "NAME" in name or "EMAIL" in name:
                patched.delenv(name)
        answer = refused(wanted, folder)
        assert (answer.outcome, answer.cause) == (Outcome.FAILED, Cause.GIT)
        assert answer.reason == (
            f"{repository}: git does not know who makes commits there; set user.name and user.email with `git config`, "
            "or give --author 'Name <address>'"
        )
        given = request(repository, folder / "steps", ONE, author="Bo Bee <bo@example.org>")
        assert one(given, folder).outcome is Outcome.CHANGED
        assert who(repository) == "Bo Bee <bo@example.org> Bo Bee"
    given = request(repository, folder / "steps", ONE, author="Cy <cy@example.org>", branch="second")
    assert one(given, folder).outcome is Outcome.CHANGED
    assert who(repository, "second") == "Cy <cy@example.org> Ada Löve"
    assert refused(request(repository, folder / "steps", ONE, author="Cy"), folder).cause is Cause.CONFIGURATION


def who(repository: Path, branch: str = "perfmod") -> str:
    return git(repository, "log", "-1", "--format=%an <%ae> %cn", branch).decode().strip()


def test_what_was_made_before_is_kept(repository: Path, folder: Path, tmp_path: Path) -> None:
    """As where a run was killed between making the branch and saying so."""
    first = one(request(repository, folder / "steps", changes()), folder)
    hook(repository, f"touch {tmp_path}/ran")
    second = one(request(repository, folder / "steps", changes()), folder)
    assert second == first
    assert not (tmp_path / "ran").exists()


def test_what_this_campaign_made_is_replaced(repository: Path, folder: Path) -> None:
    first = one(request(repository, folder / "steps", changes()), folder)
    shorter = request(repository, folder / "steps", changes()[:2], tips={"perfmod": first.tip})
    second = one(shorter, folder)
    assert (second.commits, second.outcome) == (2, Outcome.CHANGED)
    assert head(repository, "perfmod") == second.tip
    assert head(repository, "perfmod^^") == head(repository, "main")


def test_what_others_made_is_left_alone(repository: Path, folder: Path) -> None:
    first = one(request(repository, folder / "steps", changes()), folder)
    git(repository, "checkout", "-q", "perfmod")
    git(repository, "commit", "-q", "--allow-empty", "-m", "mine")
    git(repository, "checkout", "-q", "main")
    before = refs(repository)
    branch = one(request(repository, folder / "steps", changes(), tips={"perfmod": first.tip}), folder)
    assert (branch.outcome, branch.cause, branch.tip) == (Outcome.NEEDS_A_PERSON, Cause.BRANCH, "")
    assert branch.reason == (
        "the branch perfmod: is there already, with 4 commits by Ada Löve that this campaign did not make; delete it "
        "(`git branch -D perfmod`) or give --branch another name"
    )
    assert refs(repository) == before
    at_main = one(request(repository, folder / "steps", changes(), branch="main"), folder)
    assert at_main.reason.startswith(f"the branch main: is there already, at the commit {head(repository)[:12]}, ")


def test_a_branch_in_somebodys_working_tree_is_not_moved(repository: Path, folder: Path, tmp_path: Path) -> None:
    first = one(request(repository, folder / "steps", changes()), folder)
    git(repository, "worktree", "add", "-q", str(tmp_path / "theirs"), "perfmod")
    shorter = request(repository, folder / "steps", changes()[:2], tips={"perfmod": first.tip})
    where = f"the branch perfmod: is checked out in {tmp_path / 'theirs'}, so it is not moved; "
    for is_rebasing in (False, True):
        if is_rebasing:
            git(tmp_path / "theirs", "-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "main")
        done = run(shorter, folder)
        assert isinstance(done, Branches)
        assert done.branches[0].outcome is Outcome.NEEDS_A_PERSON
        assert done.branches[0].reason.startswith(where)
        assert head(repository, "perfmod") == first.tip
    assert (repository / ".git" / "worktrees" / "theirs").is_dir()


@pytest.mark.parametrize("name", ["a..b", "-x", "HEAD", "with blank", "@{-1}", "ends.lock", "perf\nmod"])
def test_no_name_for_a_branch(repository: Path, folder: Path, name: str) -> None:
    git(repository, "checkout", "-q", "-b", "x")
    git(repository, "checkout", "-q", "main")
    branch = one(request(repository, folder / "steps", ONE, branch=name), folder)
    assert (branch.outcome, branch.cause) == (Outcome.NEEDS_A_PERSON, Cause.BRANCH)
    assert branch.reason.endswith("is no name for a branch; give --branch another one")
    assert "\n" not in branch.reason


@pytest.mark.parametrize(("there", "wanted"), [("perfmod", "perfmod/team"), ("perfmod/team/a", "perfmod/team")])
def test_a_name_that_does_not_go_with_another(repository: Path, folder: Path, there: str, wanted: str) -> None:
    git(repository, "branch", there)
    branch = one(request(repository, folder / "steps", ONE, branch=wanted), folder)
    assert (branch.outcome, branch.cause) == (Outcome.NEEDS_A_PERSON, Cause.BRANCH)
    assert branch.reason == (
        f"the branch {wanted}: git takes no such branch beside the branch {there}; delete it (`git branch -D {there}`) "
        "or give --branch another name"
    )


ATTRIBUTES = b"*.py text eol=crlf\nwide.txt working-tree-encoding=UTF-16LE\nup.txt filter=up\n"
CONVERTED = {
    ".gitattributes": ATTRIBUTES,
    "a.py": b"slow()\nx = 1\n",
    "pkg/.gitattributes": b"*.txt ident\n",
    "pkg/i.txt": b"$Id$\nslow\n",
}


@pytest.mark.parametrize("plain", [True, False])
def test_files_that_git_converts(tmp_path: Path, folder: Path, plain: bool) -> None:
    """Analysed as they are in the repository, or as they are in a working tree."""
    repository = make(tmp_path / "converted", CONVERTED)
    git(repository, "checkout", "-q", "-f", "main", "--", ".")
    shutil.copytree(repository, tmp_path / "copy")
    (repository / "a.py").unlink()
    (repository / "pkg" / "i.txt").unlink()
    git(repository, "checkout", "-q", "--", ".")
    names = ("a.py", "pkg/i.txt")
    was = {
        name: git(repository, "cat-file", "blob", f"HEAD:{name}") if plain else (repository / name).read_bytes()
        for name in names
    }
    assert (was["a.py"] == b"slow()\r\nx = 1\r\n") is not plain
    steps = [{name: (data, data.replace(b"slow", b"fast"))} for name, data in was.items()]
    assert one(request(repository, folder / "steps", steps), folder).commits == 2
    assert git(repository, "cat-file", "blob", "perfmod:a.py") == b"fast()\nx = 1\n"
    assert git(repository, "cat-file", "blob", "perfmod:pkg/i.txt") == b"$Id$\nfast\n"


def test_a_converted_file_that_is_another_one(tmp_path: Path, folder: Path) -> None:
    repository = make(tmp_path / "converted", CONVERTED)
    branch = one(request(repository, folder / "steps", [{"a.py": (b"other\n", b"fast\n")}]), folder)
    assert (branch.outcome, branch.cause) == (Outcome.FAILED, Cause.GIT)
    assert branch.reason.endswith("than when it was analysed (.gitattributes converts it: eol=crlf, text=set)")


def test_a_file_that_is_not_in_the_form_that_its_attributes_want(repository: Path, folder: Path) -> None:
    (repository / ".gitattributes").write_bytes(b"pkg/mixed.py text eol=crlf\n")
    blob = git(repository, "hash-object", "-w", "--no-filters", "--stdin", stdin=b"a\r\nslow\n").decode().strip()
    git(repository, "add", ".gitattributes")
    git(repository, "update-index", "--add", "--cacheinfo", f"100644,{blob},pkg/mixed.py")
    git(repository, "commit", "-q", "-m", "mixed")
    steps = [{"pkg/mixed.py": (b"a\r\nslow\n", b"a\r\nfast\n")}]
    assert one(request(repository, folder / "steps", steps), folder).outcome is Outcome.CHANGED
    assert git(repository, "cat-file", "blob", "perfmod:pkg/mixed.py") == b"a\r\nfast\n"
    there = git(repository, "cat-file", "--filters", "HEAD:pkg/mixed.py")
    assert there == b"a\r\nslow\r\n"
    other = request(repository, folder / "other", [{"pkg/mixed.py": (there, b"x\n")}], branch="second")
    assert "git would change more of it than its lines" in one(other, folder).reason


def test_large_files_and_submodules_are_left_alone(repository: Path, folder: Path, tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    (repository / "big.bin").write_bytes(pointer)
    (repository / ".gitattributes").write_bytes(b"*.bin filter=lfs diff=lfs merge=lfs -text\n")
    inner = make(tmp_path / "inner")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "more")
    # What `git lfs install` configures, with a program that would fetch.
    smudge = f'test "$GIT_LFS_SKIP_SMUDGE" = 1 || touch {tmp_path}/fetched; cat'
    git(repository, "config", "filter.lfs.smudge", smudge)
    git(repository, "config", "filter.lfs.clean", "cat")
    git(repository, "config", "filter.lfs.required", "true")
    git(repository, "config", "submodule.recurse", "true")
    assert one(request(repository, folder / "steps", changes()), folder).commits == 3
    assert not (tmp_path / "fetched").exists()
    assert git(repository, "diff", "--name-only", "main", "perfmod", "--", "inner", "big.bin") == b""


def test_vanished_and_no_repository(repository: Path, folder: Path, tmp_path: Path) -> None:
    wanted = request(repository, folder / "steps", ONE)
    gone = request(repository, folder / "steps", ONE, commit="1" * 40)
    assert refused(gone, folder).cause is Cause.VANISHED
    assert "is not in it any more" in refused(gone, folder).reason
    empty = refused(request(repository, folder / "steps", ONE, commit=""), folder)
    assert (empty.outcome, empty.cause) == (Outcome.SKIPPED, Cause.NO_COMMITS)
    (repository / ".git").rename(tmp_path / "git")
    answer = refused(wanted, folder)
    assert answer == Refused(Outcome.FAILED, Cause.NO_REPOSITORY, f"{repository}: is in no git repository")
    shutil.rmtree(repository)
    answer = refused(wanted, folder)
    assert answer == Refused(Outcome.FAILED, Cause.VANISHED, f"{repository}: is not there any more")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs to mount a tmpfs: {done.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("free", [0, 30_000, 60_000])
def test_a_full_disk(small_disk: Path, folder: Path, free: int) -> None:
    repository = make(small_disk / "repository")
    hook(repository, "exit 0")
    wanted = request(repository, folder / "steps", changes())
    fill(small_disk / "filler", free)
    before = snapshot_of(repository)
    done = run(wanted, folder)
    causes = {each.cause for each in done.branches} if isinstance(done, Branches) else {done.cause}
    if causes != {Cause.NONE}:
        assert causes == {Cause.DISK}, done
        assert b"perfmod" not in refs(repository)
    assert causes == {Cause.DISK} or free
    assert snapshot_of(repository) == before
    (small_disk / "filler").unlink()
    assert one(wanted, folder).commits == 3
    git(repository, "fsck", "--strict")


def snapshot_of(repository: Path) -> tuple[bytes, bytes, bytes]:
    return (
        git(repository, "--no-optional-locks", "status", "--porcelain"),
        git(repository, "worktree", "list"),
        git(repository, "reflog", "show", "HEAD"),
    )


def fill(path: Path, free: int) -> None:
    """Fill a disk but for some bytes."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - free, 0))


def test_a_full_disk_of_the_campaign(small_disk: Path, repository: Path, tmp_path: Path) -> None:
    folder = small_disk / "job"
    folder.mkdir()
    wanted = request(repository, tmp_path / "steps", changes())
    before = snapshot_of(repository)
    fill(small_disk / "filler", 0)
    done = run(wanted, folder)
    assert [done.cause if isinstance(done, Refused) else done.branches[0].cause] == [Cause.DISK]
    assert (snapshot_of(repository), b"perfmod" in refs(repository)) == (before, False)
    (small_disk / "filler").unlink()
    assert one(wanted, folder).commits == 3


def test_a_repository_that_cannot_be_written(repository: Path, folder: Path) -> None:
    wanted = request(repository, folder / "steps", changes())
    bind = ["mount", "--bind", "-o", "ro", str(repository), str(repository)]
    done = subprocess.run(bind, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"needs a mount that is read-only: {done.stderr.decode().strip()}")
    try:
        answer = run(wanted, folder)
    finally:
        subprocess.run(["umount", str(repository)], check=True)
    assert isinstance(answer, Refused), answer
    assert (answer.outcome, answer.cause) == (Outcome.FAILED, Cause.DISK)
    assert one(wanted, folder).commits == 3


def test_the_same_as_git_am(repository: Path, folder: Path, tmp_path: Path) -> None:
    """`apply --patch-series` on a clone, and its mails taken by git, give the trees of the branch."""
    source = b"import torch\n\n\ndef train(loader, model):\n    total = 0.0\n    for batch in loader:\n"
    source += b"        loss = model(batch.cuda()).mean()\n        loss.backward()\n        total += loss.item()\n"
    source += b"    return total\n"
    for name, data in {"loop.py": source, "dos.py": source.replace(b"\n", b"\r\n"), "pkg/tail.py": source[:-1]}.items():
        (repository / name).write_bytes(data)
    branch_making.commit_all(repository)
    clone, mails = tmp_path / "clone", tmp_path / "mails"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    options = ("--low-impact", "--patch-series", str(mails), "--by", "file")
    series = [forked_python.perfmod(), "-m", "perfmod", "apply", ".", *options]
    environment = {**os.environ, "PERFMOD_STATE_DIR": str(tmp_path), "PERFMOD_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(series, cwd=clone, env=environment, check=True, capture_output=True)
    git(clone, "am", "-q", "--keep-cr", *map(str, sorted(mails.glob("*.patch"))))
    commits = git(clone, "rev-list", "--reverse", "origin/main..HEAD").decode().split()
    assert len(commits) == 3
    steps = []
    for commit in commits:
        names = git(clone, "diff", "--name-only", f"{commit}^", commit).decode().split()
        steps.append({name: (blob(clone, f"{commit}^", name), blob(clone, commit, name)) for name in names})
    assert one(request(repository, folder / "steps", steps), folder).commits == 3
    assert trees(repository) == trees(clone, "HEAD", "origin/main")


def blob(repository: Path, commit: str, name: str) -> bytes:
    return git(repository, "cat-file", "blob", f"{commit}:{name}")


def start(wanted: BranchesRequest, folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    (folder / "request.json").write_text(json.dumps(plain(wanted)))
    command = [sys.executable, "-c", RUNNER, str(folder / "request.json"), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment})


def kill_and_run_again(repository: Path, folder: Path, moments: int, seed: int) -> None:
    soil(repository)
    hook(repository, "sleep 0.05; sleep 0.01; true")
    wanted = request(repository, folder / "steps", changes())
    before = snapshot(repository)
    process = start(wanted, folder, {})
    begun = time.monotonic()
    assert process.communicate(timeout=60)[0]
    takes = time.monotonic() - begun
    whole = trees(repository)
    assert len(whole) == 3
    chance = random.Random(seed)
    for _ in range(moments):
        git(repository, "update-ref", "-d", "refs/heads/perfmod")
        process = start(wanted, folder, {})
        time.sleep(chance.uniform(0.15, 1.0) * takes)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        # Half a branch is never there.
        if git(repository, "branch", "--list", "perfmod"):
            assert trees(repository) == whole
        assert one(wanted, folder).commits == 3
        assert trees(repository) == whole
        assert snapshot(repository) == before


def test_killed_at_any_moment(repository: Path, folder: Path) -> None:
    kill_and_run_again(repository, folder, KILLS, 1)


@pytest.mark.exhaustive
def test_killed_at_more_moments(repository: Path, folder: Path) -> None:
    kill_and_run_again(repository, folder, 20, 2)


@pytest.mark.parametrize("left", ["locked", "half", "folder", "registered"])
def test_what_a_killed_run_left(repository: Path, folder: Path, left: str) -> None:
    """The states in which git can be killed while it adds a working tree."""
    hook(repository, "exit 0")
    wanted = request(repository, folder / "steps", changes())
    one(wanted, folder)
    before, mine = snapshot_of(repository), our_name(folder)
    known = repository / ".git" / "worktrees" / mine
    if left == "folder":
        (folder / mine).mkdir()
        (folder / mine / "train.py").write_bytes(b"half")
    elif left == "half":
        known.mkdir(parents=True)
        (known / "locked").write_bytes(b"initializing")
    else:
        git(repository, "worktree", "add", "-q", "--detach", str(folder / mine))
        if left == "locked":
            git(repository, "worktree", "lock", str(folder / mine))
        (known / "index.lock").touch()
        (known / "HEAD.lock").touch()
    clear(repository, folder)
    assert snapshot_of(repository) == before
    assert not (folder / mine).exists()
    assert not known.parent.exists()
    assert one(wanted, folder).commits == 3


def our_name(folder: Path) -> str:
    """What its working tree is called."""
    from perfmod.migrate.working_tree import WorkingTree

    return WorkingTree(folder, Path(os.path.realpath(folder)), {}, 0.0).path.name


def test_terminated_it_cleans_up(repository: Path, folder: Path, tmp_path: Path) -> None:
    hook(repository, f"touch {tmp_path}/begun; sleep 60")
    before = snapshot_of(repository)
    process = start(request(repository, folder / "steps", ONE), folder, {})
    deadline = time.monotonic() + 30
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.terminate()
    process.communicate(timeout=30)
    assert snapshot_of(repository) == before
    assert not (repository / ".git" / "worktrees").exists()
