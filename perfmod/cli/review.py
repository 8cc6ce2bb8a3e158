"""`perfmod review`: decide about rewrites one by one, in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfmod.cli.options import (
    ExtendSelect,
    Ignore,
    Isolated,
    Jobs,
    LowImpact,
    NoCache,
    Paths,
    Select,
    TimeLimit,
    Unsafe,
    options,
)

Kept = Annotated[
    Path | None,
    typer.Option(
        "--decisions",
        metavar="FILE",
        help="Keep the decisions in FILE, to be committed with the code.",
        show_default=".perfmod/decisions.json of the project",
        dir_okay=False,
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the review as one HTML page, and ask nothing.", dir_okay=False),
]
Serve = Annotated[
    bool,
    typer.Option("--serve", help="Show the page in a browser of this machine, keep its decisions, and apply them."),
]
Evidence = Annotated[
    list[Path] | None,
    typer.Option(
        "--evidence",
        metavar="FILE",
        help="Show what this evidence.json of `verify --report` says; those in .perfmod are found without.",
    ),
]


def review(
    paths: Paths,
    decisions: Kept = None,
    html: Html = None,
    serve: Serve = False,
    evidence: Evidence = None,
    select: Select = None,
    extend_select: ExtendSelect = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    low_impact: LowImpact = None,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
    time_limit: TimeLimit = None,
) -> int:
    """Decide about rewrites one by one, as with `git add -p`; decisions are kept and can be committed.

    Shows what `apply` with the same options would write, what changes least about the training first.
    `perfmod apply --decisions FILE` writes what was accepted; what was rejected is left out of `check` and `apply`.
    """
    from perfmod.cli.reviewing import Reviewing
    from perfmod.errors import ExitCode, UsageMistake

    if html is not None and serve:
        raise UsageMistake("--html writes a page, and --serve shows one: choose one of them")

    reviewing = Reviewing(
        paths,
        options(select, extend_select, ignore, unsafe=unsafe, low_impact=low_impact, time_limit=time_limit),
        decisions,
        evidence or [],
        jobs=jobs,
        use_cache=not no_cache,
        isolated=isolated,
    )
    if html is not None:
        shown = reviewing.as_page(html)
    elif serve:
        shown = reviewing.in_browser()
    else:
        shown = reviewing.in_terminal()
    return ExitCode.FAILED if shown.has_failed else ExitCode.OK
