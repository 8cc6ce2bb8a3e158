"""`perfmod cache`: what earlier runs left behind."""

from __future__ import annotations

from typing import Annotated

import typer

Clear = Annotated[bool, typer.Option("--clear", help="Delete all cached results.")]


def cache(clear: Clear = False) -> int:
    """Show where cached results lie, how large they are, and how many; or forget them."""
    from perfmod.cache import Cache
    from perfmod.errors import ExitCode, Failure, explain
    from perfmod.roots import shown

    kept = Cache()
    if clear:
        try:
            kept.clear()
        except OSError as error:
            raise Failure(f"{shown(kept.path)}: cannot be removed: {explain(error)}") from error
    extent = kept.extent()
    typer.echo(f"{shown(kept.path)}: {extent.size / 1e6:.1f} MB, {extent.answers} cached results")
    return ExitCode.OK
