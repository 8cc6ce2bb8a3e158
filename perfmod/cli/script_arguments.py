"""Everything behind `--` belongs to the user's script."""

from __future__ import annotations

import typer
from typer.core import TyperCommand

_KEY = "perfmod.script_arguments"


class WithScriptArguments(TyperCommand):
    """A command line that may end in `-- ARGS`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put what stands behind the first `--` aside, and parse the rest."""
        if "--" in args:
            cut = args.index("--")
            args, ctx.meta[_KEY] = args[:cut], tuple(args[cut + 1 :])
        return super().parse_args(ctx, args)


class WithScriptArgumentsIfVerified(WithScriptArguments):
    """The same where `--verify` is given; without it, paths may stand behind `--` as everywhere."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """As the class says."""
        options = args[: args.index("--")] if "--" in args else args
        parent = WithScriptArguments if "--verify" in options else TyperCommand
        return parent.parse_args(self, ctx, args)


def script_arguments(context: typer.Context) -> tuple[str, ...]:
    """The arguments of the user's script, for a command of one of these classes."""
    arguments: tuple[str, ...] = context.meta.get(_KEY, ())
    return arguments
