"""Patches survive being edited, mailed and applied byte by byte."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from repositories import git

from perfmod.codemods.patch import split_lines, unified_diff
from perfmod.patches.edited import read_edited
from perfmod.patches.fitting import fitted
from perfmod.patches.mail import Author, file_name, mail
from perfmod.patches.messages import Message

PIECES = st.sampled_from(
    [b"a", b"b\r", b"", b"c\r\r", b"- d", b"-- e", b"++ f", b"\x0c", b"\xe2\x80\xa8\x85", b"\\", b"\t\xe9", b"From me"]
)
FILES = st.builds(
    lambda bom, lines, end: bom + b"\n".join(lines) + end,
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(PIECES, max_size=14),
    st.sampled_from([b"", b"\n", b"\r\n"]),
)
AUTHOR = Author("Ada Löve", "ada@example.org", datetime.fromtimestamp(1_700_000_000, timezone.utc))


def edited(patch: bytes, before: bytes) -> bytes:
    for file in read_edited(patch):
        before = fitted(before, file.hunks)
    return before


@given(FILES, FILES)
def test_a_diff_that_nobody_touched(before: bytes, after: bytes) -> None:
    assert edited(unified_diff("a.py", before, after), before) == after


@given(FILES, FILES, st.integers(0, 9), st.integers(0, 9))
def test_counts_that_are_wrong(before: bytes, after: bytes, old: int, new: int) -> None:
    """Unless what is left reads as a hunk that ends earlier, the lines count; nothing is made up in any case."""
    diff = unified_diff("a.py", before, after)
    wrong = re.sub(rb"@@ -(\d+)\S* \+(\d+)\S* @@", rb"@@ -\1,%d +\2,%d @@" % (old + 20, new + 20), diff)
    assert edited(wrong, before) == after


@given(FILES, FILES)
def test_blank_lines_whose_sign_an_editor_took(before: bytes, after: bytes) -> None:
    lines = split_lines(unified_diff("a.py", before, after))
    assert edited(b"".join(b"\n" if line == b" \n" else line for line in lines) + b"\n", before) == after


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        git(Path(folder), "init", "--quiet")
        yield Path(folder)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=FILES, between=FILES, after=FILES)
def test_git_am_and_from_agree(repository: Path, before: bytes, between: bytes, after: bytes) -> None:
    """Of two mails in a row, read by git, and as one file by hand."""
    assume(before != between != after and b"" not in (before, between, after))
    message = Message("Fäster: [PM201] (a.py:1)", "Why: it is\n  indented\n\nPerfmod-Finding: a.py PM201 0123")
    pairs = [(before, between), (between, after)]
    mails = [
        mail(AUTHOR, message, unified_diff("a.py", *pair), number, 2) for number, pair in enumerate(pairs, start=1)
    ]
    (repository / "a.py").write_bytes(before)
    git(repository, "apply", stdin=unified_diff("a.py", before, between))
    assert (repository / "a.py").read_bytes() == between
    (repository / "a.py").write_bytes(before)
    git(repository, "add", "a.py")
    git(repository, "commit", "--quiet", "--allow-empty", "--message=before")
    for data in mails:
        git(repository, "am", "--quiet", "--keep-cr", stdin=data)
    assert (repository / "a.py").read_bytes() == after
    assert git(repository, "log", "-1", "--format=%an|%B").decode().strip() == f"Ada Löve|{message.text.strip()}"
    assert edited(b"".join(mails), before) == after


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("PM201 loader-without-workers", "0007-PM201-loader-without-workers.patch"),
        ("src/a b/train.py", "0007-src-a-b-train-py.patch"),
        ("@org/team ä@example.org", "0007-org-team-example-org.patch"),
        ("ä", "0007.patch"),
        ("x" * 300, f"0007-{'x' * 60}.patch"),
    ],
)
def test_names_of_files(label: str, name: str) -> None:
    assert file_name(7, label) == name
