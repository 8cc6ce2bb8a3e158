"""No link of the site leads nowhere, and the check of that finds those that do."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "site" / "links.py"


dead_links = runpy.run_path(str(SCRIPT))["dead_links"]


def checked(site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), str(site)], capture_output=True, text=True, timeout=120)


@pytest.mark.exhaustive
def test_no_link_of_the_site_is_dead(site: Path) -> None:
    result = checked(site)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="other.html#there">', None),
        ('<a href="#here">', None),
        ('<a href="data/results.json">', None),
        ('<a href="https://pytorch.org/docs/stable/">', None),
        ('<a href="missing.html">', "there is no such file"),
        ('<img src="missing.png">', "there is no such file"),
        ('<img srcset="data/results.json 1x, missing.png 2x">', "there is no such file"),
        ('<a href="other.html#nowhere">', "there is no such place on the page"),
        ('<a href="#nowhere">', "there is no such place on the page"),
        ('<a href="../outside.html">', "leaves the site"),
        ('<a href="/other.html">', "is not relative"),
        ('<a href="data">', "there is no such file"),
        ('<a href="https://pytorch/docs">', "is not the address of a host"),
        ('<a href="http:/pytorch.org">', "is not the address of a host"),
        ('<a href="https://pytorch.org:x/">', "Port could not be cast"),
        ('<a href="ftp://pytorch.org/">', "is neither http nor https"),
    ],
)
def test_dead_links_are_found(tmp_path: Path, link: str, problem: str | None) -> None:
    site = tmp_path / "site"
    (site / "data").mkdir(parents=True)
    (site / "data" / "results.json").write_text("{}")
    (tmp_path / "outside.html").write_text("")
    (site / "other.html").write_text('<p id="there">')
    (site / "index.html").write_text(f'<p id="here">{link}')
    dead = list(dead_links(site))
    if problem is None:
        assert dead == []
    else:
        ((page, _, said),) = dead
        assert page == "index.html"
        assert problem in said


def test_a_folder_without_a_site_is_a_mistake(tmp_path: Path) -> None:
    result = checked(tmp_path)
    assert result.returncode == 2
    assert "there is no built site" in result.stderr
