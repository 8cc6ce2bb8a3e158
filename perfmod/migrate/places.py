"""Where things lie in the folder of a campaign, and what the steps of a project are called there."""

from __future__ import annotations

from pathlib import Path

from perfmod.migrate.targets import folder_name

CLONES = "clones"
WORK = "work"
_PROJECTS = "projects"
_DECISIONS = "decisions"


def folder_of(project: str) -> Path:
    """The results of a project, from the campaign's folder."""
    return Path(_PROJECTS, folder_name(project))


def script_folder_of(project: str, script: str) -> Path:
    """The evidence about a script of a project, from the campaign's folder."""
    return folder_of(project) / "verify" / folder_name(script)


def decisions_of(project: str) -> Path:
    """Where people put their decisions about a project, from the campaign's folder."""
    return Path(_DECISIONS, f"{folder_name(project)}.json")
