"""`perfmod check`: say what could be rewritten, and change nothing."""

from __future__ import annotations

from perfmod.cli.options import (
    Format,
    Ignore,
    Isolated,
    Jobs,
    NoCache,
    OutputFormat,
    Paths,
    Select,
    Unsafe,
    options,
)


def check(
    paths: Paths,
    select: Select = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    output_format: Format = OutputFormat.TEXT,
    jobs: Jobs = None,
    no_cache: NoCache = False,
    isolated: Isolated = False,
) -> int:
    """List what makes the steps of training code slow, and change nothing.

    Exits with 1 if something could be rewritten or is held back; refusals and advice alone do not count.
    """
    from perfmod.cli.examining import examined
    from perfmod.codemods import catalog
    from perfmod.report import json, text
    from perfmod.report.output import console, write_result
    from perfmod.report.rows import report

    results = examined(paths, options(select, ignore, unsafe), jobs, use_cache=not no_cache, isolated=isolated)
    rows = report("check", results, catalog.rules())
    if output_format is OutputFormat.JSON:
        write_result(json.render(rows).encode())
    else:
        text.render_findings(rows, console(stderr=False))
        text.render_summary(rows, console(stderr=True))
    return rows.exit_code
