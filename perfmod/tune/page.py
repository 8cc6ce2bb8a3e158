"""A search as one HTML page that needs nothing besides itself: no network, no server, and no script to be read."""

from __future__ import annotations

from perfmod.errors import Failure
from perfmod.tune import report
from perfmod.tune.result import Tuning
from perfmod.verify.evidence import Evidence
from perfmod.verify.report import anatomy, diffs, wording
from perfmod.verify.report.page import templates


def render(found: Tuning, evidence: Evidence | None) -> str:
    """The page; `evidence` is that of the best stack.

    Raises:
        Failure: jinja2 is not installed.
    """
    try:
        page = templates("perfmod.tune").get_template("tune.html.j2")
    except ModuleNotFoundError as error:
        raise Failure(f"the HTML report needs {error.name}: pip install 'perfmod[verify]'") from error
    profile, best = found.profile, found.chosen
    steps = anatomy.steps(evidence) if evidence is not None else ()
    return page.render(
        found=found,
        report=report,
        wording=wording,
        steps=steps,
        longest=anatomy.longest(steps),
        bounds=[("as it is", profile.step_ms), *((lever.name, lever.ms) for lever in profile.levers)],
        diff=diffs.parse(best.diff) if best is not None and best.diff else None,
    )
