"""The steps that are taken for a project, by their names in the state of a campaign."""

from __future__ import annotations

ANALYSIS = "analysis"
EVIDENCE = "evidence"
"""The analysis once more, so that pages and messages speak of what was verified."""
BRANCHES = "branches"
_VERIFICATION = "verification "


def verification_of(script: str) -> str:
    """The step in which a script is verified."""
    return _VERIFICATION + script


def script_of(step: str) -> str:
    """The script that a step verifies; empty for another step."""
    return step.removeprefix(_VERIFICATION) if step.startswith(_VERIFICATION) else ""
