from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmod.codemods.patch import PatchError, apply_hunks, parse_hunks, split_lines, unified_diff

LINES = st.lists(
    st.sampled_from([b"a", b"b\r", b"", b"c\r\r", b"- d", b"\x0c", b"\xe2\x80\xa8\x85", b"\\"]), max_size=14
)
FILES = st.builds(lambda lines, end: b"\n".join(lines) + end, LINES, st.sampled_from([b"", b"\n"]))

LONG = b"".join(b"line %d\n" % number for number in range(40))

CASES = [
    (b"a\nb\nc\n", b"a\nB\nc\n"),
    (b"a\nb", b"a\nB"),
    (b"a\nb", b"a\nb\n"),
    (b"a\nb\n", b"a\nb"),
    (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
    (b"a\r\nb\nc\rd\n", b"a\r\nB\nc\rD\n"),
    (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nB\n"),
    ("x = 'a\u2028b\x85'\ny\n".encode(), "x = 'a\u2028b\x85'\nY\n".encode()),
    (b"a\n\x0c\nb\n", b"a\n\x0c\nB\n"),
    (b"s = '\xe9'\nb\n", b"s = '\xe8'\nb\n"),
    (b"", b"a\n"),
    (b"a\n", b""),
    (b"a", b"b"),
    (b"-- a\n++ b\n", b"-- b\n++ b\n@@ c\n"),
    (LONG, b"new\n" + LONG.replace(b"line 20\n", b"").replace(b"line 39", b"end")),
    (b"\n" * 30, b"\n" * 15 + b"x\n" + b"\n" * 15),
]

PATHS = [
    "a.py",
    "deep/er/a b.py",
    'tab\tand "quotes" \\.py',
    "naïve/\u4e2d.py",
    "line\nfeed.py",
    "b/a/x.py",
    " lead.py",
    "trail ",
]


def git(repository: Path, *arguments: str, patch: bytes = b"") -> None:
    command = ["git", "-c", "core.autocrlf=false", *arguments]
    done = subprocess.run(command, cwd=repository, input=patch, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def check_with_git(repository: Path, path: str, before: bytes, after: bytes) -> None:
    file = repository / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before)
    file.chmod(0o755)
    patch = unified_diff(path, before, after)
    git(repository, "apply", "--check", patch=patch)
    git(repository, "apply", patch=patch)
    assert file.read_bytes() == after
    assert file.stat().st_mode & 0o777 == 0o755
    git(repository, "apply", "-R", patch=patch)
    assert file.read_bytes() == before


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


@pytest.mark.parametrize(("before", "after"), CASES)
def test_git_applies_and_reverts_the_patch(repository: Path, before: bytes, after: bytes) -> None:
    check_with_git(repository, "a.py", before, after)


@pytest.mark.parametrize("path", PATHS)
def test_git_finds_the_file(repository: Path, path: str) -> None:
    check_with_git(repository, path, b"a\nb\n", b"a\nB\n")
    [hunk] = parse_hunks(unified_diff(path, b"a\nb\n", b"a\nB\n"))
    assert hunk.path == path


def test_git_applies_the_patches_of_several_files_at_once(repository: Path) -> None:
    paths = [path for path in PATHS if not path.endswith(" ")]
    for path in paths:
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_bytes(b"a\nb")
    git(repository, "apply", patch=b"".join(unified_diff(path, b"a\nb", b"a\nB") for path in paths))
    assert all((repository / path).read_bytes() == b"a\nB" for path in paths)


def test_equal_files_have_no_diff() -> None:
    assert unified_diff("a.py", b"a\n", b"a\n") == b""


def test_the_diff_reads_like_that_of_git() -> None:
    assert unified_diff("a.py", b"a\nb\nc", b"a\nB\nc") == (
        b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        b"\\ No newline at end of file\n"
    )


@given(FILES, FILES)
def test_all_hunks_lead_to_the_new_file_and_none_to_the_old(before: bytes, after: bytes) -> None:
    hunks = parse_hunks(unified_diff("a.py", before, after))
    assert apply_hunks(before, hunks) == after
    assert apply_hunks(before, ()) == before


def test_hunks_can_be_accepted_one_by_one() -> None:
    after = LONG.replace(b"line 3\n", b"three\n").replace(b"line 30\n", b"thirty\n30\n")
    first, second = parse_hunks(unified_diff("a.py", LONG, after))
    assert apply_hunks(LONG, [first]) == LONG.replace(b"line 3\n", b"three\n")
    assert apply_hunks(LONG, [second]) == LONG.replace(b"line 30\n", b"thirty\n30\n")
    assert apply_hunks(LONG, [second, first]) == after


def test_a_hunk_that_does_not_fit_is_an_error() -> None:
    hunks = parse_hunks(unified_diff("a.py", b"a\nb\n", b"a\nB\n"))
    with pytest.raises(PatchError, match=r"line 1 of a\.py"):
        apply_hunks(b"a\nc\n", hunks)


def test_what_is_no_patch_is_an_error() -> None:
    with pytest.raises(PatchError):
        parse_hunks(b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a\n")


@given(FILES)
def test_lines_end_at_line_feeds_only(data: bytes) -> None:
    lines = split_lines(data)
    assert b"".join(lines) == data
    assert all(line.find(b"\n") in (-1, len(line) - 1) for line in lines)
    assert b"" not in lines
