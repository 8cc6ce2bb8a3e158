"""The folder that `--report` names."""

from __future__ import annotations

from pathlib import Path

from perfmod.errors import Failure, explain
from perfmod.roots import shown
from perfmod.verify.evidence import Evidence
from perfmod.verify.report import evidence_json, markdown, page
from perfmod.writing import write_new

RECORD, MARKDOWN, PAGE = "evidence.json", "report.md", "report.html"


def write(evidence: Evidence, folder: Path) -> None:
    """Put the record, the Markdown and the page into `folder`, which is created; each file is whole or not there.

    The record comes first: what the runs took minutes to find is not lost, whatever becomes of the rest.

    Raises:
        Failure: the disk does not take it, or what draws the page is not installed.
    """
    for name, render in ((RECORD, evidence_json.render), (MARKDOWN, markdown.render), (PAGE, page.render)):
        path = folder / name
        data = render(evidence).encode("utf-8", "backslashreplace")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_new(path, data)
            path.chmod(0o644)  # a new file of ours is readable by its owner only, and a report is there to be passed on
        except OSError as error:
            raise Failure(f"{shown(path)}: cannot be written: {explain(error)}") from error
