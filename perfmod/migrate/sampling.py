"""The projects that a pilot does: of every kind some."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from perfmod.errors import PerfmodError
from perfmod.migrate import snapshot
from perfmod.migrate.kinds import kind_of_snapshot, pilot
from perfmod.migrate.targets import Project, is_repository

_LOOKED_AT = 10
"""Projects for each that is chosen, whose kinds are looked up."""


def pilot_of(projects: Sequence[Project], count: int) -> list[Project]:
    """So many of the projects, spread over their kinds; the same ones each time."""
    shuffled = sorted(projects, key=lambda each: hashlib.sha256(each.name.encode()).digest())
    kinds = {each.name: _kind(each) for each in shuffled[: count * _LOOKED_AT]}
    chosen = set(pilot(kinds, count))
    return [each for each in projects if each.name in chosen]


def _kind(project: Project) -> str:
    """One word; what cannot be looked into is of a kind of its own."""
    try:
        commit = snapshot.commit_of(project.repository, project.revision) if is_repository(project.repository) else ""
        return kind_of_snapshot(snapshot.pack(project.repository, commit, everything=False))
    except PerfmodError:
        return "unreadable"
