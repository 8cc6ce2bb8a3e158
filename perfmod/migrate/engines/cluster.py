"""Runs pieces of work on the workers of Dask: on a cluster that is there, or on one that is started on this machine.

The queue of jobs is kept here, and a worker is given no more than it can run at once: Dask blames all that waits on a
worker for its death.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
import operator
import queue
import tempfile
import threading
import time
import uuid
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import dask
import toolz
from attrs import frozen
from distributed import Client, Future, KilledWorker, Nanny, Scheduler, SpecCluster
from distributed.versions import VersionMismatchWarning

from perfmod import __version__
from perfmod.errors import Failure, UsageMistake
from perfmod.migrate.engines.local import LocalEngine
from perfmod.migrate.engines.packing import packed, unpack_results
from perfmod.migrate.engines.remote import CORES
from perfmod.migrate.jobs import LOG, OUT, RESULT, Done, Ending, Job
from perfmod.migrate.results import Cause, Outcome, Refused
from perfmod.migrate.work import write_result
from perfmod.roots import shown
from perfmod.seats import division, environment_of, lack_of

STATIC, GPU = "static", "GPU"
"""Resources of workers: for work without GPUs, and GPUs."""
_REMOTE: Final = "perfmod.migrate.engines.remote"
_HERE: Final = "127.0.0.1"
_LOOK: Final = 1.0
"""Seconds between two looks at the workers."""
_LONGEST_CALL: Final = 30.0
"""Seconds that a scheduler may take to answer."""
_ALLOWED_FAILURES: Final = 1
_LEAVE_CTRL_C: Final = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
_SETTINGS: Final = {"distributed.admin.large-graph-warning-threshold": "1 TB"}


@frozen
class _Workers:
    """What the workers of a cluster have, all together.

    Attributes:
        static: how many pieces without GPUs they run at once.
        gpus, most: GPUs of all workers, and of the one that has most.
        asks_for_static: whether some are meant for work without GPUs, so that the others are not.
    """

    count: int = 0
    static: int = 0
    gpus: int = 0
    most: int = 0
    asks_for_static: bool = False

    @classmethod
    def of(cls, workers: Sequence[dict[str, Any]]) -> _Workers:
        resources = [worker.get("resources") or {} for worker in workers]
        asks_for_static = any(STATIC in each for each in resources)
        threads = sum(int(worker["nthreads"]) for worker in workers)
        gpus = [int(each.get(GPU, 0)) for each in resources]
        return cls(
            len(workers),
            sum(int(each.get(STATIC, 0)) for each in resources) if asks_for_static else threads,
            sum(gpus),
            max(gpus, default=0),
            asks_for_static,
        )


class ClusterEngine:
    """Runs jobs on the workers of a cluster, and those that have to be here on this machine.

    Args:
        address: of a scheduler; None starts a cluster on this machine.
        jobs: how many without GPUs run at a time on this machine: all of them for a cluster that is started here, else
            those that have to be here.
        gpus: of this machine, see `LocalEngine`, for a cluster that is started here: one worker each.
        shared_folder: whether the workers reach the folders of the jobs by the same paths; otherwise these travel.
        patience: seconds to wait for workers.
        pass_fds: as for `LocalEngine`, for what runs on this machine without the cluster.

    Raises:
        UsageMistake: the address is none.
        Failure: no scheduler answers there, or no cluster can be started.
    """

    def __init__(
        self,
        address: str | None,
        *,
        jobs: int,
        gpus: Sequence[str],
        shared_folder: bool = False,
        patience: float = 60.0,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._shared_folder = shared_folder
        self._patience = patience
        self._over: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._waiting: deque[Job] = deque()
        self._waiting_for_gpus: deque[Job] = deque()
        self._running: dict[object, tuple[Job, Future[Any]]] = {}
        self._numbers = itertools.count()
        self._campaign = uuid.uuid4().hex
        self._workers = _Workers()
        self._looked = 0.0
        self._lacking: tuple[str, float] = ("", 0.0)
        self._is_closed = False
        _silence()
        self._opened = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            self._here = LocalEngine(jobs, (), pass_fds=pass_fds, over=self._over)
            stack.callback(self._here.close)
            self._own_gpus = len(gpus) if address is None else None
            if address is None:
                cluster = stack.enter_context(_started(jobs, gpus))
                self._address = str(cluster.scheduler_address)
                self._client = stack.enter_context(_connected(cluster, self._address, patience))
            else:
                self._address = shown(address)
                self._client = stack.enter_context(_connected(address, self._address, patience))
            self._opened = stack.pop_all()
        self._look_at_workers()

    @property
    def room(self) -> int:
        """How many more jobs without GPUs can start at once; before the first worker is there, one may wait."""
        with self._lock:
            return max(max(self._workers.static, 1) - self._static_running() - len(self._waiting), 0)

    def submit(self, job: Job) -> None:
        """Take a job; one with more GPUs than a cluster that was started here has at one place is over at once."""
        if job.is_local:
            self._here.submit(job)
            return
        if self._own_gpus is not None and job.gpus > min(self._own_gpus, 1):
            where = "each worker of the cluster on this machine" if self._own_gpus else "this machine"
            self._over.put(Done(job, Ending.CRASHED, lack_of(job.gpus, min(self._own_gpus, 1), where)))
            return
        with self._lock:
            (self._waiting_for_gpus if job.gpus else self._waiting).append(job)
            self._send_what_can()

    def next(self, timeout: float) -> Done | None:
        """The next job that is over, waiting for at most so many seconds; None where there is none by then.

        Raises:
            Failure: the scheduler is gone, or for some time it has had no worker for jobs that wait.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            with contextlib.suppress(queue.Empty):
                return self._over.get(timeout=min(max(left, 0.0), _LOOK))
            self._look()
            if left <= 0:
                return None

    def close(self) -> None:
        """End what still runs, with everything that it started, and the cluster where it was started here."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            self._waiting_for_gpus.clear()
            futures = [future for _, future in self._running.values()]
        # Who is gone, or does not answer, has nothing to end.
        with contextlib.suppress(Exception):
            self._client.cancel(futures, force=True)
        self._opened.close()

    def _static_running(self) -> int:
        return sum(not job.gpus for job, _ in self._running.values())

    def _send_what_can(self) -> None:
        """Send what workers can begin with; called with the lock."""
        if self._is_closed:
            return
        while self._waiting and self._static_running() < self._workers.static:
            self._send(self._waiting.popleft())
        taken = sum(job.gpus for job, _ in self._running.values())
        while self._waiting_for_gpus:
            wanted = self._waiting_for_gpus[0].gpus
            if wanted > self._workers.most or taken + wanted > self._workers.gpus:
                break
            self._send(self._waiting_for_gpus.popleft())
            taken += wanted

    def _send(self, job: Job) -> None:
        message: dict[str, Any] = {
            "version": __version__,
            "name": job.name,
            "kind": job.kind.value,
            "timeout": job.timeout,
            "gpus": job.gpus,
            "folder": str(job.folder) if self._shared_folder else "",
            "packed": b"",
        }
        try:
            if not self._shared_folder:
                results = (OUT, LOG, RESULT)
                message["packed"] = packed(
                    job.folder, (path.name for path in job.folder.iterdir() if path.name not in results)
                )
        except (Failure, OSError) as error:
            self._over.put(Done.hindered(job, "cannot be sent", error))
            return
        resources = {GPU: job.gpus} if job.gpus else {STATIC: 1} if self._workers.asks_for_static else None
        # Made of nothing but libraries that Dask has itself: the scheduler, which reads it, needs no perfmod.
        call = toolz.compose(operator.methodcaller("run", message), importlib.import_module)
        key = f"perfmod-{self._campaign}-{next(self._numbers)}"
        future = self._client.submit(call, _REMOTE, key=key, resources=resources, pure=False)
        self._running[key] = (job, future)
        future.add_done_callback(self._take)

    def _take(self, future: Future[Any]) -> None:
        """A task is over. Runs in a thread of the client."""
        with self._lock:
            job, _ = self._running[future.key]
            if self._is_closed:
                return
        if future.status == "cancelled":
            # The scheduler is gone, or came back without it: it is no fault of the job, which is sent again.
            with self._lock:
                del self._running[future.key]
                (self._waiting_for_gpus if job.gpus else self._waiting).appendleft(job)
            return
        done = self._done(job, future)
        with self._lock:
            del self._running[future.key]
            self._send_what_can()
        self._over.put(done)

    def _done(self, job: Job, future: Future[Any]) -> Done:
        try:
            answer: dict[str, Any] = future.result()
        except KilledWorker as error:
            times = error.allowed_failures + 1
            worker = str(getattr(error.last_worker, "name", ""))
            return Done(job, Ending.LOST, f"each of the {times} workers that ran it died", worker=worker)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("perfmod"):
                return Done(job, Ending.CRASHED, f"on the worker: {error}")
            return self._refused(job, "is missing on the worker, or another one", "")
        except Exception as error:  # noqa: BLE001, whatever went wrong on another machine
            return Done(job, Ending.CRASHED, f"on the worker: {type(error).__name__}: {shown(str(error))}")
        worker = str(answer["worker"])
        if answer["version"] != __version__:
            return self._refused(job, f"is {answer['version']} on the worker", worker)
        try:
            if answer["packed"]:
                unpack_results(answer["packed"], job.folder)
        except (Failure, OSError) as error:
            return Done.hindered(job, "its results cannot be kept", error, worker)
        return Done(job, Ending(answer["ending"]), answer["reason"], answer["seconds"], answer["peak_mib"], worker)

    def _refused(self, job: Job, theirs: str, worker: str) -> Done:
        reason = f"perfmod {theirs}, and {__version__} here; install the same on both"
        try:
            write_result(job.folder, Refused(Outcome.FAILED, Cause.WORKER_VERSION, reason))
        except OSError as error:
            return Done.hindered(job, "its result cannot be kept", error, worker)
        return Done(job, Ending.FINISHED, worker=worker)

    def _look(self) -> None:
        if time.monotonic() - self._looked < _LOOK:
            return
        self._look_at_workers()
        with self._lock:
            self._send_what_can()
            lacking = self._lack()
            now = time.monotonic()
            if lacking != self._lacking[0]:
                self._lacking = (lacking, now)
            if not lacking or now - self._lacking[1] < self._patience:
                return
            # Other work goes on where only this one can never run.
            if self._waiting_for_gpus and 0 < self._workers.most < self._waiting_for_gpus[0].gpus:
                job = self._waiting_for_gpus.popleft()
                self._over.put(Done(job, Ending.CRASHED, lack_of(job.gpus, self._workers.most, "the largest worker")))
                return
        raise Failure(
            f"{self._address}: {lacking} has come for {self._patience:g} s; start one with: dask worker "
            f"{self._address} --nthreads 1" + (f' --resources "{GPU}=1"' if self._workers.count else "")
        )

    def _lack(self) -> str:
        """What jobs wait for that no worker has; empty for nothing."""
        jobs = [*self._waiting, *self._waiting_for_gpus, *(job for job, _ in self._running.values())]
        if jobs and not self._workers.count:
            return "no worker"
        if any(job.gpus > self._workers.most for job in jobs):
            return "no worker with enough GPUs" if self._workers.most else "no worker with a GPU"
        if self._waiting and not self._workers.static:
            return "no worker for work without GPUs"
        return ""

    def _look_at_workers(self) -> None:
        try:
            workers = self._client.scheduler_info()["workers"]
        except Exception as error:  # many kinds of it, by what the connection was at
            raise Failure(f"{self._address}: the scheduler is gone; resume when it is there again") from error
        with self._lock:
            self._workers = _Workers.of(list(workers.values()))
        self._looked = time.monotonic()


def _silence() -> None:
    """What Dask tells of its own doings is nothing for the user."""
    for name in ("distributed", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", category=VersionMismatchWarning)
    dask.config.set(_SETTINGS)


def _started(jobs: int, gpus: Sequence[str]) -> SpecCluster:
    """A cluster on this machine, for nobody on another one. Raises `Failure`."""
    there = division(gpus)
    workers = {f"static-{number}": _worker({STATIC: 1}, there.rest, {}) for number in range(jobs)}
    for number, seat in enumerate(there.seats):
        workers[f"gpu-{number}"] = _worker({GPU: 1}, seat.cores, environment_of([seat.gpu], {}))
    options = {
        "host": _HERE,
        "port": 0,
        "dashboard": False,
        "dashboard_address": f"{_HERE}:0",
        "allowed_failures": _ALLOWED_FAILURES,
    }
    try:
        scheduler = {"cls": Scheduler, "options": options}
        return SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.CRITICAL)
    except (OSError, RuntimeError, TimeoutError) as error:
        raise Failure(f"no cluster can be started on this machine: {shown(str(error))}") from error


def _worker(resources: dict[str, int], cores: Sequence[int], environment: dict[str, str]) -> dict[str, Any]:
    """One worker, of one thread; the pieces of work are processes of their own, so that it needs no limit of memory."""
    options = {
        "nthreads": 1,
        "resources": resources,
        "env": {**environment, CORES: ",".join(map(str, cores))},
        "host": _HERE,
        "memory_limit": 0,
        "dashboard": False,
        "dashboard_address": f"{_HERE}:0",
        "local_directory": tempfile.gettempdir(),
        "preload": _LEAVE_CTRL_C,
        "silence_logs": logging.CRITICAL,
    }
    return {"cls": Nanny, "options": options}


def _connected(cluster: SpecCluster | str, address: str, patience: float) -> Client:
    try:
        limit = min(patience, _LONGEST_CALL)
        return Client(cluster, timeout=limit, set_as_default=False)
    except ValueError as error:
        raise UsageMistake(f"{address}: is no address of a scheduler, such as tcp://10.0.0.1:8786") from error
    except (OSError, TimeoutError) as error:
        raise Failure(f"{address}: no scheduler answers there; start one with: dask scheduler") from error
