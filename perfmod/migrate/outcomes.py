"""What the files of a project come to, and the project with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perfmod.codemods.results import Outcome as Examination
from perfmod.migrate.results import Cause, FileRow, FindingRow, Outcome
from perfmod.report import rows
from perfmod.report.rows import HELD_BACK, Report, State
from perfmod.report.view import told_place
from perfmod.report.wording import counted, in_question

_KEPT = (State.REWRITTEN, *HELD_BACK, State.UNDECIDED)
"""What is rewritten, or waits for something."""


def file_rows(report: Report) -> tuple[FileRow, ...]:
    """What became of each file: one that nothing is rewritten in may wait for the answer to a question."""
    questions: dict[str, str] = {}
    for finding in report.findings:
        if finding.state is State.QUESTION:
            questions.setdefault(finding.path, _asked(finding))
    return tuple(_file_row(file, questions) for file in report.files)


def _file_row(file: rows.FileRow, questions: Mapping[str, str]) -> FileRow:
    if file.outcome is Examination.UNCHANGED and file.path in questions:
        return FileRow(file.path, Outcome.NEEDS_A_PERSON, questions[file.path])
    return FileRow(file.path, Outcome(file.outcome.value), file.reason)


def finding_rows(report: Report) -> tuple[FindingRow, ...]:
    """The findings that are rewritten, or wait for an option or an answer."""
    return tuple(
        FindingRow(
            path=each.path,
            line=each.line,
            code=each.code,
            state=each.state.value,
            numerics=each.numerics,
            fingerprint=each.fingerprint,
            message=each.message,
            question=_question(each) if each.state is State.QUESTION else "",
            cell=each.cell,
        )
        for each in report.findings
        if each.state in _KEPT
    )


def _asked(finding: rows.FindingRow) -> str:
    """A question with its place in the file."""
    return f"{told_place(finding)}: {finding.code}: {_question(finding)}"


def _question(finding: rows.FindingRow) -> str:
    """Why it is open whether a rewrite is right, and what has to be so for that, where that can be put in words."""
    asked = " and ".join(in_question(each) for each in finding.questions)
    return f"{finding.reason}; is it so that {asked}?" if asked else finding.reason


def project_outcome(files: Sequence[FileRow], findings: Sequence[FindingRow]) -> tuple[Outcome, Cause, str]:
    """What a project comes to, the cause, and the reason.

    A file that fails is counted beside what the others come to: it makes the project fail only where none was examined.
    """
    counts = Counter(file.outcome for file in files)
    if counts[Outcome.CHANGED]:
        return Outcome.CHANGED, Cause.NONE, ""
    if counts[Outcome.NEEDS_A_PERSON]:
        asked = sum(bool(finding.question) for finding in findings)
        where = counted(counts[Outcome.NEEDS_A_PERSON], "file")
        return Outcome.NEEDS_A_PERSON, Cause.QUESTION, f"{counted(asked, 'open question')} in {where}"
    if counts[Outcome.UNCHANGED]:
        return Outcome.UNCHANGED, Cause.NONE, ""
    if counts[Outcome.FAILED]:
        return Outcome.FAILED, Cause.FILES, told_of(files, Outcome.FAILED)
    return Outcome.SKIPPED, Cause.NO_PYTHON, told_of(files, Outcome.SKIPPED) or "no Python file was found"


def told_of(files: Sequence[FileRow], outcome: Outcome) -> str:
    """How many files failed or were skipped, with the first of them; empty where there is none."""
    found = [file for file in files if file.outcome is outcome]
    if not found:
        return ""
    verb = outcome.value if outcome is Outcome.FAILED else f"{'was' if len(found) == 1 else 'were'} {outcome.value}"
    example = "" if len(found) == 1 else "such as "
    reason = found[0].reason.partition("\n")[0]
    return f"{counted(len(found), 'file')} {verb}: {example}{found[0].path}: {reason}"


def troubles(report: Report) -> Iterator[str]:
    """What is wrong with comments in files, and files that were read without all that belongs to them."""
    for file in report.files:
        for warning in file.warnings:
            yield f"{file.path}: {warning}"
    parts = sum(file.in_part for file in report.files)
    if parts:
        yield f"{counted(parts, 'file')} of a large project: read without some of the files that belong to them"
