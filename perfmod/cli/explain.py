"""`perfmod explain`: one rule's page."""

from __future__ import annotations

from typing import Annotated

import typer

from perfmod.cli import completing

RuleName = Annotated[
    str,
    typer.Argument(metavar="CODE_OR_NAME", help="For example PM101 or masked-loss.", autocompletion=completing.rules),
]


def explain(rule: RuleName) -> int:
    """Explain one rule: the pattern, the rewrite, and when it changes results."""
    from perfmod.codemods import catalog
    from perfmod.errors import ExitCode
    from perfmod.report import pages
    from perfmod.report.output import console

    pages.render_page(pages.find(rule, catalog.rules()), console(stderr=False))
    return ExitCode.OK
