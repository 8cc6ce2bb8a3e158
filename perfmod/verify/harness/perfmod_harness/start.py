"""The first thing that runs: reads the job, and waits for the script to import torch."""

from __future__ import annotations

import faulthandler
import signal

from . import after_import, job, notebook, process, terminal, watching


def start() -> None:
    """Prepare this process for its part of the run. Does nothing where no job is set."""
    todo = job.read()
    if todo is None:
        return
    if hasattr(signal, "SIGUSR1"):
        # How a run that hangs is asked where it is.
        faulthandler.register(signal.SIGUSR1)
    terminal.begin()
    process.claim_top()
    if process.is_top():
        notebook.begin()
    if todo.mode == "equality":
        from . import seeding

        seeding.pin_python(todo.seed, todo.reseed)
        after_import.call("numpy.random", lambda: seeding.pin_numpy(todo.seed, todo.reseed))
        watching.begin(todo)
    after_import.call("torch", lambda: _begin(todo))


def _begin(todo: job.Job) -> None:
    """Torch is there, and nothing of the script that uses it has run."""
    from . import stephooks

    stephooks.keep()
    if todo.other_batch:
        from . import batch_sizes

        batch_sizes.begin(todo.own_batch, todo.other_batch)
    if todo.mode == "equality":
        from . import recording

        recording.begin(todo)
    elif todo.mode == "timing":
        from . import timing

        timing.begin(todo)
    else:
        from . import profiling

        profiling.begin(todo)
