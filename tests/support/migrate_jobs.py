"""Jobs for engines whose pieces are stand-ins, see `migrate_pieces/stand_in_piece.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfmod.config import Options
from perfmod.migrate.jobs import REQUEST, Job, Kind
from perfmod.migrate.results import AnalysisRequest
from perfmod.patches.by import By
from perfmod.records import plain

PIECES = Path(__file__).with_name("migrate_pieces")


def use_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is started from now on finds the stand-ins."""
    monkeypatch.setenv("PYTHONPATH", str(PIECES))


def job(folder: Path, what: str, *, timeout: float = 60.0, gpus: int = 0, is_local: bool = False) -> Job:
    """A job in a new folder below `folder` that does `what`."""
    place = folder / f"job-{len(list(folder.glob('job-*')))}"
    place.mkdir()
    request = AnalysisRequest(what, None, "", Options(), By.RULE)
    (place / REQUEST).write_text(json.dumps(plain(request)))
    return Job(f"analysis {what} {place.name}", Kind.ANALYSIS, place, timeout, gpus, is_local)
