"""Owners of files, as GitHub and GitLab document them."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmod.patches.owners import Owners

GITHUB = """\
# a comment
*       @global-owner1 @global-owner2
*.js    @js-owner #This is an inline comment.
*.go docs@example.com
/build/logs/ @doctocat
docs/* docs@example.com
apps/ @octocat
/docs/ @doctocat
/scripts/ @doctocat @octocat
**/logs @octocat
/apps/github
with\\ space.py @blank
"""
GITLAB = """\
* @default
[Database] @dba
model/db/
config/db/*.rb @config
^[Documentation][2] @docs
docs/
*.md
[DATABASE]
!model/db/generated/
[Empty]
"""


def owners(root: Path, place: str, text: str) -> Owners:
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).write_text(text)
    return Owners.read(root)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("train.py", "@global-owner1 @global-owner2"),
        ("deep/a.js", "@js-owner"),
        ("a.go", "docs@example.com"),
        ("build/logs/x.py", "@octocat"),
        ("deep/build/logs/x.py", "@octocat"),
        ("docs/x.py", "@doctocat"),
        ("deep/docs/x.py", "@global-owner1 @global-owner2"),
        ("deep/apps/x.py", "@octocat"),
        ("apps/github/x.py", ""),
        ("with space.py", "@blank"),
    ],
)
def test_of_github(tmp_path: Path, path: str, expected: str) -> None:
    assert " ".join(owners(tmp_path, "CODEOWNERS", GITHUB).of(tmp_path / path)) == expected


@pytest.mark.parametrize(("path", "expected"), [("docs/a.py", "@a"), ("docs/deep/a.py", ""), ("docs", "")])
def test_what_lies_in_a_folder_itself(tmp_path: Path, path: str, expected: str) -> None:
    assert " ".join(owners(tmp_path, ".github/CODEOWNERS", "docs/* @a\n").of(tmp_path / path)) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("x.py", "@default"),
        ("model/db/x.py", "@default @dba"),
        ("config/db/x.rb", "@default @config"),
        ("docs/x.md", "@default @docs"),
        ("model/db/generated/x.py", "@default"),
    ],
)
def test_of_gitlab(tmp_path: Path, path: str, expected: str) -> None:
    assert " ".join(owners(tmp_path, ".gitlab/CODEOWNERS", GITLAB).of(tmp_path / path)) == expected


def test_the_first_place_counts(tmp_path: Path) -> None:
    for place in (".gitlab", "docs", ".", ".github"):
        found = owners(tmp_path, f"{place}/CODEOWNERS", f"* @{place.strip('.') or 'root'}\n")
        assert found.of(tmp_path / "a.py") == (f"@{place.strip('.') or 'root'}",)
