"""A campaign as rows: what status, progress and reports are made from."""

from __future__ import annotations

from attrs import frozen

from perfmod.migrate.results import Analysis, Branch, Cause, Outcome, Verification


@frozen
class VerdictRow:
    """The verification of one script; `verification` is None where it is not done. `folder` is from the campaign's."""

    script: str
    verification: Verification | None
    folder: str
    seconds: float = 0.0
    worker: str = ""


@frozen
class ProjectRow:
    """One project.

    Attributes:
        location: folder or address of its repository. commit: what was analysed.
        outcome: None where it is not done. cause, reason: why it is skipped, failed or needs a person.
        analysis: None where it is not done, or could not be done at all.
        branches: those that were made, or should have been.
        waiting: branches that are held back because enough are open.
        folder: where its results lie, from the campaign's folder: `patches/`, `changes.diff`, `review.html`,
            `findings.json`, `verify/SCRIPT/report.html`.
        seconds, peak_mib, worker: of the analysis.
    """

    name: str
    location: str
    commit: str
    outcome: Outcome | None
    cause: Cause
    reason: str
    analysis: Analysis | None
    verdicts: tuple[VerdictRow, ...]
    branches: tuple[Branch, ...]
    waiting: tuple[str, ...]
    folder: str
    seconds: float = 0.0
    peak_mib: float | None = None
    worker: str = ""


@frozen
class CampaignRow:
    """A whole campaign.

    Attributes:
        created: ISO 8601, UTC. perfmod: version.
        seconds: that runs of it took, all together.
        stopped: why it stopped before its end; empty where it did not.
    """

    name: str
    created: str
    perfmod: str
    writes: bool
    seconds: float
    stopped: str
    projects: tuple[ProjectRow, ...]
