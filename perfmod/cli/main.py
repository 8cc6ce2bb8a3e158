"""The program `perfmod`: its commands, and how a run ends."""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import Annotated

import typer

from perfmod import __version__
from perfmod.cli.apply import apply
from perfmod.cli.cache import cache
from perfmod.cli.check import check
from perfmod.cli.config import config
from perfmod.cli.explain import explain
from perfmod.cli.lsp import lsp
from perfmod.cli.migrate import migrate
from perfmod.cli.profile import profile
from perfmod.cli.revert import revert
from perfmod.cli.review import review
from perfmod.cli.rules import rules
from perfmod.cli.script_arguments import WithScriptArguments, WithScriptArgumentsIfVerified
from perfmod.cli.tune import tune
from perfmod.cli.verify import verify
from perfmod.errors import ExitCode, PerfmodError

app = typer.Typer(
    name="perfmod",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help takes half the time
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 check found something, 2 wrong usage or configuration, 3 a file or a script failed, "
    "4 refuted, 5 inconclusive.",
)
app.command(cls=WithScriptArgumentsIfVerified)(apply)
app.command(cls=WithScriptArguments, short_help="Run a script before and after: the same training, a faster step?")(
    verify
)
app.command(cls=WithScriptArguments, short_help="Show what a script's step waits for, and what could be gained.")(
    profile
)
app.command(cls=WithScriptArguments, short_help="Find the fastest training that is still the same, on your GPU.")(tune)
app.command(short_help="List what makes training steps slow; for CI and pre-commit.")(check)
app.command(short_help="Decide about rewrites one by one, in a terminal or a browser.")(review)
app.add_typer(migrate, name="migrate", short_help="Rewrite many projects, and keep state and results in a folder.")
app.command()(revert)
app.command()(rules)
app.command(short_help="Explain one rule: pattern, rewrite, when it changes results.")(explain)
app.command(short_help="Show the configuration of a file or folder.")(config)
app.command(short_help="Show where cached results lie and their size, or delete them.")(cache)
app.command(short_help="Run the language server, for editors.")(lsp)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perfmod {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Rewrite PyTorch training code so that its steps run faster on CUDA, as a small diff for review."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run() -> None:
    """Entry point: runs the command line and ends with an `ExitCode`; every mistake is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(prog_name="perfmod", standalone_mode=False)
        if code == ExitCode.INTERRUPTED:
            _complain("interrupted", code)
        sys.stdout.flush()
    except PerfmodError as error:
        code = _complain(str(error), error.exit_code)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "perfmod"
        message = error.format_message().replace("Value error, ", "").rstrip(".")
        code = _complain(f"{message} (see {command} --help)", ExitCode.USAGE)
    except (BrokenPipeError, SystemExit) as error:
        # typer and rich answer a broken pipe by SystemExit(1), which would read as "check found something".
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = ExitCode.BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  # Python would end with 1, which reads as "check found something"
        traceback.print_exc()
        code = _complain(f"internal error, please report it: {error!r}", ExitCode.FAILED)
    sys.exit(code or ExitCode.OK)


def _complain(message: str, code: ExitCode) -> ExitCode:
    print(f"perfmod: {' '.join(message.split())}", file=sys.stderr)
    return code
