"""The numbers of projects and of a campaign that every report tells."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from attrs import frozen

from perfmod.migrate.results import Cause, FindingRow, Outcome
from perfmod.migrate.rows import CampaignRow, ProjectRow, VerdictRow
from perfmod.report.rows import State
from perfmod.report.wording import counted
from perfmod.verify.evidence import Verdict
from perfmod.verify.report.wording import interval, ratio

NOT_DONE = "not done"
"""What stands for the outcome of a project, or the verdict on a script, that is still to come."""
OUTCOMES = (*(outcome.value for outcome in Outcome), NOT_DONE)
"""All outcomes of projects in the order in which they are told."""
WORST_FIRST = (
    Verdict.REFUTED.value,
    Verdict.FAILED.value,
    Verdict.INCONCLUSIVE.value,
    NOT_DONE,
    Verdict.NO_CHANGE.value,
    Verdict.PROVEN.value,
)
"""Verdicts in the order of what needs attention."""
_NEED_ATTENTION = (Outcome.FAILED, Outcome.NEEDS_A_PERSON)


@frozen
class Trouble:
    """Something that went wrong with a project, or waits for an answer.

    Attributes:
        what: the project, a branch or a script that it is about.
    """

    what: str
    outcome: Outcome
    cause: Cause
    reason: str


@frozen
class Question:
    """What a person has to answer; `place` is `train.py:3`, or empty where it is about the whole project."""

    project: str
    place: str
    code: str
    text: str


@frozen
class Gain:
    """A speed that was measured: of the script `name` in a project."""

    project: ProjectRow
    verdict: VerdictRow
    ratio: float
    low: float | None
    high: float | None

    @property
    def words(self) -> str:
        """`1.80x (1.60 to 2.10)`."""
        if self.low is None or self.high is None:
            return ratio(self.ratio)
        return f"{ratio(self.ratio)} ({interval(self.low, self.high)})"


@frozen
class CauseCount:
    """How many projects something happened to, for one cause."""

    outcome: Outcome
    cause: Cause
    projects: int
    example: str


@frozen
class Totals:
    """A campaign in numbers.

    Attributes:
        outcomes, files: numbers of projects and files by outcome, those that are there.
        rules: numbers of rewrites and of projects, by code.
        verdicts: numbers of scripts by verdict.
        findings: all that are rewritten or wait for something. rewrites, questions: of those.
        decided, of: how many rewrites people have decided about.
    """

    projects: int
    outcomes: Mapping[str, int]
    files: Mapping[str, int]
    rules: Mapping[str, tuple[int, int]]
    verdicts: Mapping[str, int]
    causes: tuple[CauseCount, ...]
    findings: int
    rewrites: int
    questions: int
    patches: int
    added: int
    removed: int
    branches: int
    waiting: int
    decided: int
    of: int


def totals(campaign: CampaignRow) -> Totals:
    """The numbers of a campaign."""
    rules: Counter[str] = Counter()
    projects_of: Counter[str] = Counter()
    for project in campaign.projects:
        own = rewrites_by_rule(project)
        rules.update(own)
        projects_of.update(own.keys())
    analyses = [project.analysis for project in campaign.projects if project.analysis is not None]
    return Totals(
        projects=len(campaign.projects),
        outcomes=_in_order(Counter(map(outcome_of, campaign.projects)), OUTCOMES),
        files=_in_order(Counter(file.outcome.value for analysis in analyses for file in analysis.files), OUTCOMES),
        rules={code: (rules[code], projects_of[code]) for code in sorted(rules)},
        verdicts=_in_order(
            Counter(verdict for each in campaign.projects for verdict in verdicts_of(each)), WORST_FIRST
        ),
        causes=tuple(_causes(campaign)),
        findings=sum(len(analysis.findings) for analysis in analyses),
        rewrites=rules.total(),
        questions=sum(len(tuple(questions_of(project))) for project in campaign.projects),
        patches=sum(len(analysis.steps) for analysis in analyses),
        added=sum(map(added, campaign.projects)),
        removed=sum(map(removed, campaign.projects)),
        branches=sum(len(made_branches(project)) for project in campaign.projects),
        waiting=sum(len(project.waiting) for project in campaign.projects),
        decided=sum(analysis.decided for analysis in analyses),
        of=sum(analysis.of for analysis in analyses),
    )


def outcome_of(project: ProjectRow) -> str:
    """The outcome in words."""
    return NOT_DONE if project.outcome is None else project.outcome.value


def findings_of(project: ProjectRow) -> tuple[FindingRow, ...]:
    """Its findings; none where it was not analysed."""
    return project.analysis.findings if project.analysis is not None else ()


def rewrites_by_rule(project: ProjectRow) -> Counter[str]:
    """How many findings are rewritten, by code."""
    return Counter(finding.code for finding in findings_of(project) if finding.state == State.REWRITTEN.value)


def patches(project: ProjectRow) -> int:
    """How many patches the series of a project has."""
    return len(project.analysis.steps) if project.analysis is not None else 0


def added(project: ProjectRow) -> int:
    """Lines that its patches add."""
    return sum(step.added for step in project.analysis.steps) if project.analysis is not None else 0


def removed(project: ProjectRow) -> int:
    """Lines that its patches take away."""
    return sum(step.removed for step in project.analysis.steps) if project.analysis is not None else 0


def made_branches(project: ProjectRow) -> tuple[str, ...]:
    """The names of its branches that are there."""
    return tuple(branch.name for branch in project.branches if branch.tip)


def verdicts_of(project: ProjectRow) -> list[str]:
    """The verdict on each of its scripts."""
    return [verdict_of(row) for row in project.verdicts]


def verdict_of(row: VerdictRow) -> str:
    """The verdict in words."""
    return NOT_DONE if row.verification is None else row.verification.verdict


def gains_of(project: ProjectRow) -> Iterator[Gain]:
    """The speeds of its scripts, of those that were timed."""
    for row in project.verdicts:
        made = row.verification
        if made is None or made.ratio is None or not math.isfinite(made.ratio):
            continue
        ends = (made.low, made.high)
        are_known = all(end is not None and math.isfinite(end) for end in ends)
        yield Gain(project, row, made.ratio, *(ends if are_known else (None, None)))


def least_gain(project: ProjectRow) -> Gain | None:
    """The smallest speed ratio of its scripts: what can be said of all of them."""
    return min(gains_of(project), key=lambda gain: gain.ratio, default=None)


def verified_words(project: ProjectRow) -> str:
    """`proven 1.80x (1.60 to 2.10)`; of several scripts `1 refuted, 2 proven, from 1.02x`; `no` where none is run."""
    verdicts = verdicts_of(project)
    gain = least_gain(project)
    if not verdicts:
        return "no"
    if len(verdicts) == 1:
        return " ".join(filter(None, (verdicts[0], gain.words if gain else "")))
    counts = _in_order(Counter(verdicts), WORST_FIRST)
    words = [f"{number} {verdict}" for verdict, number in counts.items()]
    return ", ".join([*words, *([f"from {ratio(gain.ratio)}"] if gain else [])])


def troubles_of(project: ProjectRow) -> Iterator[Trouble]:
    """All that went wrong with a project or was left out, the project itself first; each cause once."""
    seen: set[Cause] = set()
    for trouble in _all_troubles(project):
        # A project fails because its branch does: that is one trouble.
        if trouble.cause not in seen:
            seen.add(trouble.cause)
            yield trouble


def _all_troubles(project: ProjectRow) -> Iterator[Trouble]:
    kept = (*_NEED_ATTENTION, Outcome.SKIPPED)
    if project.outcome in kept:
        yield Trouble(project.name, project.outcome, project.cause, project.reason)
    for branch in project.branches:
        if branch.outcome in kept:
            yield Trouble(f"branch {branch.name}", branch.outcome, branch.cause, branch.reason)
    for row in project.verdicts:
        made = row.verification
        if made is None:
            continue
        if made.verdict == Verdict.REFUTED.value:
            yield Trouble(row.script, Outcome.NEEDS_A_PERSON, made.cause or Cause.REFUTED, made.reason)
        elif made.cause or made.verdict == Verdict.FAILED.value:
            yield Trouble(row.script, Outcome.FAILED, made.cause, made.reason)


def needs_attention(project: ProjectRow) -> bool:
    """Whether somebody has to look at it."""
    return any(trouble.outcome in _NEED_ATTENTION for trouble in troubles_of(project))


def reason_of(project: ProjectRow) -> str:
    """Why it is as it is, in one line: its own reason, else that of a branch or a script; empty where all is well."""
    reasons = [project.reason, *(trouble.reason for trouble in troubles_of(project))]
    return one_line(next(filter(None, reasons), ""))


def notes_of(project: ProjectRow) -> tuple[str, ...]:
    """What there is to say about its analysis, one line each."""
    return tuple(map(one_line, project.analysis.notes)) if project.analysis is not None else ()


def questions_of(project: ProjectRow) -> Iterator[Question]:
    """What a person has to answer: about findings, about files, and else about the project."""
    analysis = project.analysis
    found = False
    if analysis is not None:
        for finding in analysis.findings:
            if finding.question:
                found = True
                yield Question(project.name, f"{finding.path}:{finding.line}", finding.code, finding.question)
        for file in analysis.files:
            if file.outcome is Outcome.NEEDS_A_PERSON and file.reason and not _is_asked(file.path, analysis.findings):
                found = True
                yield Question(project.name, file.path, "", file.reason)
    if project.outcome is Outcome.NEEDS_A_PERSON and not found:
        yield Question(project.name, "", "", project.reason or project.cause.value)


def retry_command(cause: Cause, campaign: str) -> str:
    """What does again what ended for this cause; `campaign` is its folder as the user may type it."""
    asked = f"--cause {cause.value}" if cause else "--failed"
    return f"perfmod migrate retry {shlex.quote(campaign)} {asked}"


def one_line(text: str) -> str:
    """The text without line ends."""
    return " ".join(text.split())


def size_words(project: ProjectRow) -> str:
    """`+120 -33 in 3 patches`; empty where nothing changes."""
    number = patches(project)
    return f"+{added(project)} -{removed(project)} in {counted(number, 'patch', 'patches')}" if number else ""


def counts_words(counts: Mapping[str, int]) -> str:
    """`12 changed, 3 failed`."""
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def _is_asked(path: str, findings: Iterable[FindingRow]) -> bool:
    return any(finding.path == path and finding.question for finding in findings)


def _causes(campaign: CampaignRow) -> Iterator[CauseCount]:
    """By outcome, the failures first, and the most frequent causes first."""
    numbers: Counter[tuple[Outcome, Cause]] = Counter()
    examples: dict[tuple[Outcome, Cause], str] = {}
    for project in campaign.projects:
        for trouble in troubles_of(project):
            key = trouble.outcome, trouble.cause
            numbers[key] += 1
            examples.setdefault(key, one_line(trouble.reason))
    order = (*_NEED_ATTENTION, Outcome.SKIPPED)
    for outcome, cause in sorted(numbers, key=lambda key: (order.index(key[0]), -numbers[key], key[1].value)):
        yield CauseCount(outcome, cause, numbers[outcome, cause], examples[outcome, cause])


def _in_order(counts: Mapping[str, int], order: Iterable[str]) -> dict[str, int]:
    known = {name: counts[name] for name in order if counts.get(name)}
    return known | {name: counts[name] for name in sorted(counts) if name not in known and counts[name]}
