"""`perfmod lsp`: the language server, for editors."""

from __future__ import annotations

from typing import Annotated

import typer

Stdio = Annotated[bool, typer.Option("--stdio", help="Changes nothing; some editors pass it.", hidden=True)]


def lsp(_stdio: Stdio = False) -> int:
    """Run the language server on standard input and output, for editors: see docs/editors.md."""
    import sys

    from perfmod.cli.verifying import needs_extra
    from perfmod.errors import ExitCode

    with needs_extra("lsp"):
        from perfmod.lsp.server import serve

    if sys.stdin.isatty():
        typer.echo("perfmod lsp: an editor starts this and talks to it on stdin; Ctrl-C ends it", err=True)
    serve()
    return ExitCode.OK
