"""The record as one HTML page that needs nothing besides itself: no network, no server, and no script to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmod.errors import Failure
from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.report import anatomy, diffs, summary, wording

if TYPE_CHECKING:
    from jinja2 import Environment
    from jinja2.runtime import Undefined


def render(evidence: Evidence) -> str:
    """The page.

    Raises:
        Failure: jinja2 or matplotlib is not installed.
    """
    try:
        from perfmod.verify.report import plots

        page = templates().get_template("page.html.j2")
        figures = {
            "losses": plots.losses(evidence.equality),
            "steps": evidence.speed and plots.step_times(evidence.speed),
        }
    except ModuleNotFoundError as error:
        raise Failure(f"the HTML report needs {error.name}: pip install 'perfmod[verify]'") from error
    sides = anatomy.steps(evidence)
    return page.render(
        evidence=evidence,
        figures=figures,
        steps=sides,
        longest=anatomy.longest(sides),
        diff=diffs.parse(evidence.diff) if evidence.diff else None,
        memory=list(summary.memory(evidence.speed)),
    )


def templates(*packages: str) -> Environment:
    """The templates of this package, and before them those of others; everything that they print is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "") for package in (*packages, "perfmod.verify.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["typeset"] = wording.typeset
    environment.globals.update(summary=summary, wording=wording, Verdict=Verdict)
    return environment


def _finalize(value: str | float | Undefined | None) -> object:
    """Text without characters that have no picture; markup, which is a subclass, as it is."""
    return wording.visible(value, keep="\n\t") if type(value) is str else value
