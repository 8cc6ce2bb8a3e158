"""`perfmod profile`: where does the time of a training step go?"""

from __future__ import annotations

from typing import Annotated

import typer

from perfmod.cli.options import Format, TextOrJson, options
from perfmod.cli.script_arguments import script_arguments
from perfmod.cli.verifying import Device, DeviceName, Entry, Link, Python, Timeout, request

Script = Annotated[str, typer.Argument(metavar="SCRIPT", help="The training script, or a folder (with --entry).")]
Steps = Annotated[int, typer.Option("--steps", min=2, metavar="N", help="Number of optimizer steps to time.")]


def profile(
    context: typer.Context,
    script: Script,
    entry: Entry = None,
    device: DeviceName = Device.CUDA,
    python: Python = None,
    steps: Steps = 20,
    timeout: Timeout = 600.0,
    link: Link = None,
    output_format: Format = TextOrJson.TEXT,
) -> int:
    """Run a training script once as it is, and show what its step waits for and what could be gained at most.

    Arguments of the script go after --. It runs in a scratch copy; your files are not changed.
    """
    from perfmod.cli.examining import examined
    from perfmod.cli.verifying import needs_extra
    from perfmod.report.output import console, status, write_result

    with needs_extra():
        from perfmod.profile import report
        from perfmod.profile.running import profile as run

    asked = request(
        script,
        against=None,
        entry=entry,
        arguments=script_arguments(context),
        device=device,
        python=python,
        steps=steps,
        horizon=None,
        quick=True,
        nproc=None,
        timeout=timeout,
        numerics=None,
        links=link,
    )
    chosen = options(None, None, None, unsafe=None, low_impact=None)
    with status("Profiling") as tell:
        found = run(asked, examined([str(asked.script)], chosen), tell)
    if output_format is TextOrJson.JSON:
        write_result(report.render_json(found).encode())
    else:
        report.render(found, console(stderr=False))
    return 0
