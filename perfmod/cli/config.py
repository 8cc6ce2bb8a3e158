"""`perfmod config`: what holds, and where that comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfmod.cli.options import Format, TextOrJson

Place = Annotated[Path, typer.Argument(metavar="PATH", help="A file or folder.", show_default="the current folder")]
Schema = Annotated[
    bool, typer.Option("--schema", help="Print the JSON Schema of the configuration, for editors, and nothing else.")
]


def config(path: Place = Path(), output_format: Format = TextOrJson.TEXT, schema: Schema = False) -> int:
    """Show the configuration that holds for a file or folder, and which file each value comes from.

    The command line, which outweighs it, has no part in that. A wrong configuration exits with 2.
    """
    import json

    from perfmod.config import Configurations
    from perfmod.config_schema import json_schema
    from perfmod.errors import ExitCode
    from perfmod.files import resolve
    from perfmod.memory import cards
    from perfmod.report.configuration import key_rows, render_json, render_table
    from perfmod.report.output import console, write_result
    from perfmod.selection import require_configured

    if schema:
        write_result((json.dumps(json_schema(), indent=2) + "\n").encode())
        return ExitCode.OK
    real = resolve(path, str(path))
    found = Configurations().config(real if real.is_dir() else real.parent)
    require_configured(found, cards(use_cache=True))
    if output_format is TextOrJson.JSON:
        write_result(render_json(real, found).encode())
    else:
        render_table(key_rows(found), console(stderr=False))
    return ExitCode.OK
