"""The side of a cluster's worker: one task is one piece of work, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from distributed import Worker, get_worker

from perfmod import __version__
from perfmod.errors import Failure
from perfmod.migrate.engines.packing import packed, unpack
from perfmod.migrate.execution import execute
from perfmod.migrate.jobs import LOG, OUT, RESULT, Done, Ending, Job, Kind
from perfmod.seats import environment_of, gpus_of_this_machine, lack_of

CORES: Final = "PERFMOD_CORES"
"""The environment variable that tells a worker which processors its pieces may use, separated by commas."""
_POLL: Final = 0.2
_RUNNING: Final = ("executing", "long-running")


def run(message: Mapping[str, Any]) -> dict[str, Any]:
    """Run a piece of work; both the message and the answer are of types that every version of perfmod has.

    Args:
        message: `version` of perfmod; `name`, `kind`, `timeout` and `gpus` of the job; and `folder` where that is
            shared, else what is `packed` of it.

    Returns:
        `version`, and `ending`, `reason`, `seconds`, `peak_mib` and `worker`; and what is `packed` of the results,
        empty where the folder is shared.
    """
    worker = get_worker()
    name = worker.name if isinstance(worker.name, str) else f"{platform.node()}/{worker.name}"
    if message["version"] != __version__:
        return {"version": __version__, "worker": name}
    cancelled, over = threading.Event(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(worker, worker.get_current_task(), cancelled, over), daemon=True)
    watcher.start()
    try:
        done, results = _done(message, worker, cancelled)
    finally:
        over.set()
        watcher.join()
    return {
        "version": __version__,
        "ending": done.ending.value,
        "reason": done.reason,
        "seconds": done.seconds,
        "peak_mib": done.peak_mib,
        "worker": name,
        "packed": results,
    }


def _done(message: Mapping[str, Any], worker: Worker, cancelled: threading.Event) -> tuple[Done, bytes]:
    with contextlib.ExitStack() as stack:
        if message["folder"]:
            folder = Path(message["folder"])
        else:
            # In the worker's own folder, which is removed even where the worker is killed.
            place = tempfile.TemporaryDirectory(
                prefix="perfmod-", dir=worker.local_directory, ignore_cleanup_errors=True
            )
            folder = Path(stack.enter_context(place))
        job = Job(message["name"], Kind(message["kind"]), folder, message["timeout"], message["gpus"])
        try:
            if not message["folder"]:
                unpack(message["packed"], folder)
            environment = stack.enter_context(_environment(job.gpus, cancelled))
            cores = [int(core) for core in os.environ.get(CORES, "").split(",") if core]
            done = execute(job, cores=cores, environment=environment, cancelled=cancelled)
            return done, b"" if message["folder"] else packed(folder, (OUT, LOG, RESULT))
        except Failure as error:
            return Done(job, Ending.CRASHED, str(error)), b""
        except OSError as error:
            return Done.hindered(job, "on the worker", error), b""


def _watch(worker: Worker, key: Any, cancelled: threading.Event, over: threading.Event) -> None:  # noqa: ANN401
    """Notice that nobody wants the result any more: Dask ends no thread."""
    while not over.wait(_POLL):
        task = worker.state.tasks.get(key)
        if task is None or task.state not in _RUNNING:
            cancelled.set()
            return


@contextlib.contextmanager
def _environment(gpus: int, cancelled: threading.Event) -> Iterator[dict[str, str]]:
    """That of a job, which has its GPUs to itself meanwhile. Raises `Failure` where there are not as many."""
    cards = gpus_of_this_machine() if gpus else []
    if not cards:
        yield dict(os.environ)
        return
    if gpus > len(cards):
        raise Failure(lack_of(gpus, len(cards), "the worker"))
    with contextlib.ExitStack() as stack:
        mine: list[str] = []
        while len(mine) < gpus and not cancelled.is_set():
            for card in cards:
                if len(mine) < gpus and card not in mine and _is_taken(card, stack):
                    mine.append(card)
            if len(mine) < gpus:
                stack.close()
                mine.clear()
                time.sleep(_POLL)
        yield environment_of(mine, os.environ)


def _is_taken(card: str, stack: contextlib.ExitStack) -> bool:
    """Whether a card is ours now, until `stack` is closed; all workers of a user and a machine take turns.

    So two workers that see the same card time nothing on it at once.
    """
    import fcntl

    name = "".join(char if char.isalnum() else "-" for char in card)
    descriptor = os.open(
        Path(tempfile.gettempdir()) / f"perfmod-{os.getuid()}-gpu-{name}.lock",
        os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW,
        0o600,
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    stack.callback(os.close, descriptor)
    return True
