"""What is known of a campaign, put together into rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perfmod.migrate.places import folder_of, script_folder_of
from perfmod.migrate.results import Analysis, Branches, Cause, Outcome, Refused, Verification
from perfmod.migrate.rows import CampaignRow, ProjectRow, VerdictRow
from perfmod.migrate.state import Piece, State
from perfmod.migrate.steps import ANALYSIS, BRANCHES, EVIDENCE, script_of
from perfmod.migrate.targets import Project, without_secrets
from perfmod.verify.evidence import Verdict


def overview(folder: Path, state: State) -> CampaignRow:
    """The whole campaign as it stands."""
    pieces: dict[str, dict[str, Piece]] = {}
    for piece in state.all_pieces():
        pieces.setdefault(piece.project, {})[piece.step] = piece
    return CampaignRow(
        name=folder.name,
        created=state.fact("created"),
        perfmod=state.fact("perfmod"),
        writes=state.fact("writes"),
        seconds=state.fact("seconds") or 0.0,
        stopped=state.fact("stopped") or "",
        projects=tuple(project_row(each, pieces.get(each.name, {})) for each in state.projects()),
    )


def project_row(project: Project, pieces: Mapping[str, Piece]) -> ProjectRow:
    """One project, by the pieces of it that are done."""
    first = pieces.get(ANALYSIS)
    last = pieces.get(EVIDENCE, first)
    analysis = last.result if last is not None and isinstance(last.result, Analysis) else None
    verdicts = tuple(_verdict_row(project, piece) for piece in pieces.values() if script_of(piece.step))
    made = pieces.get(BRANCHES)
    branches = made.result if made is not None and isinstance(made.result, Branches) else Branches(())
    outcome, cause, reason = _outcome(first, pieces, analysis, verdicts)
    return ProjectRow(
        name=project.name,
        location=without_secrets(project.location),
        commit=first.commit if first is not None else "",
        outcome=outcome,
        cause=cause,
        reason=reason,
        analysis=analysis,
        verdicts=verdicts,
        branches=branches.branches,
        waiting=branches.waiting,
        folder=folder_of(project.name).as_posix(),
        seconds=first.seconds if first is not None else 0.0,
        peak_mib=first.peak_mib if first is not None else None,
        worker=first.worker if first is not None else "",
    )


def _verdict_row(project: Project, piece: Piece) -> VerdictRow:
    script, result = script_of(piece.step), piece.result
    if isinstance(result, Refused):
        result = Verification(Verdict.FAILED.value, result.cause, result.reason)
    assert isinstance(result, Verification)
    return VerdictRow(script, result, script_folder_of(project.name, script).as_posix(), piece.seconds, piece.worker)


def _outcome(
    first: Piece | None, pieces: Mapping[str, Piece], analysis: Analysis | None, verdicts: Sequence[VerdictRow]
) -> tuple[Outcome | None, Cause, str]:
    """What the project comes to, with cause and reason; no outcome where something is still to be done."""
    if first is None or any(step not in pieces for step in first.wanted):
        return None, Cause.NONE, ""
    if analysis is None:
        refused = pieces[EVIDENCE].result if EVIDENCE in pieces else first.result
        assert isinstance(refused, Refused)
        return refused.outcome, refused.cause, refused.reason
    if is_refuted(verdicts):
        wrong = next(each for each in verdicts if _refutes(each))
        assert wrong.verification is not None
        return Outcome.NEEDS_A_PERSON, Cause.REFUTED, f"{wrong.script}: {wrong.verification.reason}"
    made = pieces[BRANCHES].result if BRANCHES in pieces else None
    if isinstance(made, Refused):
        return made.outcome, made.cause, made.reason
    if isinstance(made, Branches):
        for branch in made.branches:
            if branch.outcome is not Outcome.CHANGED:
                return branch.outcome, branch.cause, branch.reason
    return analysis.outcome, analysis.cause, analysis.reason


def is_refuted(verdicts: Sequence[VerdictRow]) -> bool:
    """Whether a run showed that the rewrites change the training, or make it slower."""
    return any(map(_refutes, verdicts))


def _refutes(row: VerdictRow) -> bool:
    return row.verification is not None and row.verification.verdict == Verdict.REFUTED.value
