"""The report of a campaign as one HTML page that needs nothing besides itself.

It lies in the campaign's folder as `report.html`, from where its links lead to each project's results. Its data hold
what is shown, and nothing else: of findings the numbers by rule and the questions; everything else of a project is in
the files of its folder.
"""

from __future__ import annotations

import math
import os
from typing import Any, Final
from urllib.parse import quote

from attrs import asdict

from perfmod.migrate.report.summary import (
    OUTCOMES,
    WORST_FIRST,
    Gain,
    Question,
    Totals,
    added,
    gains_of,
    least_gain,
    made_branches,
    notes_of,
    one_line,
    outcome_of,
    patches,
    questions_of,
    reason_of,
    removed,
    retry_command,
    rewrites_by_rule,
    totals,
    troubles_of,
    verdict_of,
    verified_words,
)
from perfmod.migrate.results import Outcome
from perfmod.migrate.rows import CampaignRow, ProjectRow
from perfmod.review.standalone import SHARED, part, plain, standalone

_PACKAGE: Final = "perfmod.migrate.report"
_SCRIPTS: Final = (
    (SHARED, "dom"),
    (_PACKAGE, "model"),
    (SHARED, "filters"),
    (SHARED, "choices"),
    (_PACKAGE, "drawing"),
    (_PACKAGE, "overview"),
    (_PACKAGE, "table"),
    (_PACKAGE, "main"),
)
"""The modules of the page's script, in the order in which they run."""


def render_html(campaign: CampaignRow) -> bytes:
    """The page in UTF-8, for `report.html` in the campaign's folder."""
    sums = totals(campaign)
    data = {
        "name": plain(campaign.name),
        "about": _about(campaign),
        "stopped": plain(campaign.stopped),
        "outcomes": OUTCOMES,
        "verdicts": WORST_FIRST,
        "totals": _totals(sums, campaign.name),
        "gains": [_gain(gain) for project in campaign.projects for gain in gains_of(project)],
        "questions": [_question(each) for project in campaign.projects for each in questions_of(project)],
        "projects": [_project(project) for project in campaign.projects],
    }
    return standalone(
        template=part(_PACKAGE, "page.html"),
        styles=(part(SHARED, "base.css"), part(_PACKAGE, "page.css")),
        scripts=(part(package, f"{name}.js") for package, name in _SCRIPTS),
        title=f"{campaign.name}: report",
        data=data,
    )


def _about(campaign: CampaignRow) -> str:
    mode = "branches are made" if campaign.writes else "dry run, nothing was touched"
    return plain(f"perfmod {campaign.perfmod}, started {campaign.created}, {mode}")


def _totals(sums: Totals, campaign: str) -> dict[str, Any]:
    fields = asdict(sums, recurse=False)
    fields["rules"] = [[code, *numbers] for code, numbers in sums.rules.items()]
    fields["causes"] = [
        {
            "outcome": count.outcome.value,
            "cause": count.cause.value,
            "projects": count.projects,
            "example": plain(count.example),
            "command": plain(retry_command(count.cause, campaign)) if count.outcome is Outcome.FAILED else "",
        }
        for count in sums.causes
    ]
    return fields


def _gain(gain: Gain) -> dict[str, Any]:
    made = gain.verdict.verification
    where = ", ".join(filter(None, (made.gpu, f"torch {made.torch}" if made.torch else ""))) if made else ""
    return {
        "project": plain(gain.project.name),
        "script": plain(gain.verdict.script),
        "verdict": verdict_of(gain.verdict),
        "ratio": gain.ratio,
        "low": gain.low,
        "high": gain.high,
        "words": gain.words,
        "where": plain(where),
        "link": _link(gain.verdict.folder, "report.html"),
    }


def _question(question: Question) -> dict[str, str]:
    return {
        "project": plain(question.project),
        "place": plain(question.place),
        "code": question.code,
        "text": plain(one_line(question.text)),
    }


def _project(project: ProjectRow) -> dict[str, Any]:
    analysis = project.analysis
    gain = least_gain(project)
    return {
        "name": plain(project.name),
        "location": plain(project.location),
        "commit": project.commit,
        "outcome": outcome_of(project),
        "causes": sorted({trouble.cause.value for trouble in troubles_of(project)} - {""}),
        "reason": plain(reason_of(project)),
        "notes": list(map(plain, notes_of(project))),
        "kind": plain(analysis.kind) if analysis else "",
        "rules": dict(sorted(rewrites_by_rule(project).items())),
        "patches": patches(project),
        "added": added(project),
        "removed": removed(project),
        "branches": [plain(branch) for branch in made_branches(project)],
        "waiting": [plain(branch) for branch in project.waiting],
        "decided": analysis.decided if analysis else 0,
        "of": analysis.of if analysis else 0,
        "verified": verified_words(project),
        "ratio": gain and [gain.ratio, gain.low, gain.high],
        "scripts": [
            {
                "name": plain(row.script),
                "verdict": verdict_of(row),
                "link": _link(row.folder, "report.html") if row.verification else "",
            }
            for row in project.verdicts
        ],
        "seconds": project.seconds if math.isfinite(project.seconds) else 0.0,
        "links": _links(project),
    }


def _links(project: ProjectRow) -> list[list[str]]:
    """What there is of a project in the campaign's folder: name and address."""
    if project.analysis is None:
        return []
    names = [("findings", "findings.json")] if project.analysis.findings else []
    if project.analysis.of:
        names.insert(0, ("review", "review.html"))
    if patches(project):
        names = [("diff", "changes.diff"), ("patches", "patches/"), *names]
    return [[name, _link(project.folder, file)] for name, file in names]


def _link(folder: str, file: str) -> str:
    """An address from the campaign's folder; no name in it can make it one of another scheme or host."""
    return f"./{quote(os.fsencode(folder.strip('/')))}/{file}"
