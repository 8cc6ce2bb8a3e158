"""`perfmod rules`: the table of rules."""

from __future__ import annotations

from perfmod.cli.options import Format, TextOrJson


def rules(output_format: Format = TextOrJson.TEXT) -> int:
    """List the rules."""
    from perfmod.codemods import catalog
    from perfmod.errors import ExitCode
    from perfmod.report import pages
    from perfmod.report.output import console, write_result

    rows = pages.rule_rows(catalog.rules())
    if output_format is TextOrJson.JSON:
        write_result(pages.render_json(rows).encode())
    else:
        pages.render_table(rows, console(stderr=False))
    return ExitCode.OK
