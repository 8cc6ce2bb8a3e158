from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import verify_evidence

from perfmod.errors import Failure
from perfmod.verify.evidence import Evidence
from perfmod.verify.report import evidence_json, files, markdown, page

NAMES = ["evidence.json", "report.html", "report.md"]


def test_three_files_in_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "some" / "where"
    evidence = verify_evidence.hostile()
    files.write(evidence, folder)
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert repr(evidence_json.load((folder / "evidence.json").read_text("utf-8"))) == repr(evidence)
    assert (folder / "report.md").read_text("utf-8") == markdown.render(evidence)
    assert (folder / "report.html").read_text("utf-8") == page.render(evidence)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in folder.iterdir())


def test_an_older_report_is_replaced(tmp_path: Path) -> None:
    files.write(verify_evidence.failed(), tmp_path)
    files.write(verify_evidence.cpu(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    assert (tmp_path / "report.md").read_text("utf-8") == markdown.render(verify_evidence.cpu())


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(Failure, match=r"evidence\.json: cannot be written: (file exists|not a directory)") as caught:
        files.write(verify_evidence.failed(), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write(verify_evidence.failed(), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Failure, match="cannot be written: no space left on device"):
        files.write(verify_evidence.cpu(), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_record_is_kept_where_the_page_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_evidence: Evidence) -> str:
        raise Failure("the HTML report needs jinja2: pip install 'perfmod[verify]'")

    monkeypatch.setattr(page, "render", missing)
    with pytest.raises(Failure, match="needs jinja2"):
        files.write(verify_evidence.cpu(), tmp_path)
    assert evidence_json.load((tmp_path / "evidence.json").read_text("utf-8")) == verify_evidence.cpu()
    assert (tmp_path / "report.md").exists()
