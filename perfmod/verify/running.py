"""Runs a side of a comparison in a fresh copy of its tree, and brings back what the harness saw."""

from __future__ import annotations

import json
import re
import threading
import uuid
from array import array
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from attrs import evolve, field, frozen

from perfmod.errors import Failure, explain
from perfmod.seats import Seat, environment_of, on_cores
from perfmod.verify.calling import Call, CallInCopy
from perfmod.verify.disguise import Disguise
from perfmod.verify.failures import NOT_ALONE, Circumstances, Trouble, cannot_start, diagnose, trains
from perfmod.verify.interrupts import held_back
from perfmod.verify.job import Job
from perfmod.verify.processes import Command, End
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import Side
from perfmod.verify.template import Template
from perfmod.verify.trace import Trace

GRACE_AFTER_RESULTS = 0.2
"""Seconds that a script may take to end by itself once all is known that there is to know."""
GRACE_AFTER_NOTHING = 10.0
"""Seconds for a script that ends without a training, and still has to tell its exit status."""
T = TypeVar("T")
Conduct: TypeAlias = Callable[[Callable[[int], bool]], None]
"""Looks after runs while they go on; it is given what tells whether the one with a number is over."""
_RECORD = re.compile(r"rank(\d+)\.json")


@frozen(order=True)
class Watched:
    """What was seen at a point of a job, by its number: whether what is asked held, and what the values were."""

    point: int
    held: bool
    text: str


@frozen
class Ran:
    """A run of a script.

    Attributes:
        trouble: why there is nothing to judge; None where every rank has a record of a training.
        records: what the harness wrote, by rank.
        sketches: the numbers that belong to the records, by rank; empty arrays in runs that keep none.
        seconds: of the script, without the copy.
        tail: the end of its output.
        peak_resident_mib: of all its processes together; None where that was not sampled.
        peak_shm_mib: growth of /dev/shm, by whomever; None where unknown.
        watched: what was seen at the points of the job.
    """

    trouble: Trouble | None
    records: tuple[dict[str, Any], ...] = ()
    sketches: tuple[array[float], ...] = ()
    seconds: float = 0.0
    tail: str = ""
    peak_resident_mib: float | None = None
    peak_shm_mib: float | None = None
    watched: tuple[Watched, ...] = ()

    @cached_property
    def traces(self) -> tuple[Trace, ...]:
        """What an E-run recorded, by rank. Raises `MalformedTrace`."""
        return tuple(Trace.read(record, numbers) for record, numbers in zip(self.records, self.sketches, strict=True))


@frozen
class Unobserved:
    """A run in which nobody looked on.

    Attributes:
        failed: it ended by itself, with an error.
        cut: its time was over before it had ended.
        printed: to the standard output until its end, or until its time was over.
    """

    failed: bool
    cut: bool
    printed: str


@frozen
class Runner:
    """Runs scripts for one verification. Its methods are for the main thread, and end everything on Ctrl-C.

    Attributes:
        call: how the script is called, alike on all sides.
        timeout: seconds for one run.
        sample_memory: whether to watch the processes' memory.
        forks: whether runs are forked, as far as they can be.
        cores: that they run on; empty for those of this process.
    """

    scratch: Scratch
    call: Call
    timeout: float = 600.0
    sample_memory: bool = True
    forks: bool = True
    cores: tuple[int, ...] = ()
    _harness: Disguise = field(init=False)
    _template: Template = field(init=False)

    @_harness.default
    def _disguised(self) -> Disguise:
        return Disguise.made_in(self.scratch.folder)

    @_template.default
    def _closed_with_scratch(self) -> Template:
        template = Template(self._harness, self.scratch.folder)
        self.scratch.at_end.callback(template.close)
        return template

    def run(self, side: Side, job: Job) -> Ran:
        """Run `side`. `out` and `root` of the job are set here.

        Raises:
            Failure: the copy cannot be made, or a process cannot be ended.
        """
        return self.run_all([(side, job)])[0]

    def run_all(
        self, runs: Sequence[tuple[Side, Job]], concurrency: int = 1, conduct: Conduct | None = None
    ) -> list[Ran]:
        """Run all of it, up to `concurrency` at a time; results keep order. Raises like `run`.

        `conduct` is called once all were begun. A run that fails for want of what the others use is repeated alone.
        """
        found = together(self.calls(runs), concurrency, conduct)
        return self.repeated(runs, found) if concurrency > 1 else found

    def seated(self, seat: Seat) -> Runner:
        """One whose runs have a card, or a stand-in for one, and its processor cores to themselves."""
        environment = environment_of([seat.gpu], self.call.environment)
        return evolve(self, call=evolve(self.call, environment=environment), cores=seat.cores)

    def calls(self, runs: Sequence[tuple[Side, Job]]) -> list[Callable[[threading.Event], Ran]]:
        """What makes them, for `together`."""
        return [partial(self.run_on_cores, side, job) for side, job in runs]

    def repeated(self, runs: Sequence[tuple[Side, Job]], found: Sequence[Ran]) -> list[Ran]:
        """What runs beside each other gave, with those repeated alone that failed for want of what the others use."""
        again = [ran.trouble is not None and ran.trouble.kind in NOT_ALONE for ran in found]
        return [
            self.run(*run) if is_repeated else ran for run, ran, is_repeated in zip(runs, found, again, strict=True)
        ]

    def unobserved(self, sides: Sequence[Side], job: Job, seconds: float, concurrency: int) -> list[Unobserved]:
        """Run sides with nothing of the harness in their processes, as `run_all` does it. Raises like `run`."""
        return together([partial(self._unobserved, side, job, seconds) for side in sides], concurrency)

    def _unobserved(self, side: Side, job: Job, seconds: float, cancelled: threading.Event) -> Unobserved:
        with self.scratch.room() as room:
            root = self.scratch.copy(side.tree, side.replacements, room)
            call = CallInCopy(self.call, side.tree.root, evolve(job, out=room, root=root), room, self._harness)
            (room / "tmp").mkdir()
            printed = room / "printed"
            command = Command(
                arguments=["/bin/sh", "-c", 'exec "$@" >"$0"', str(printed), *call.command(side.script, side.nproc)],
                cwd=call.cwd(side.script),
                environment=call.unobserved(side.script),
                run=uuid.uuid4().hex,
                timeout=seconds,
                sample_memory=False,
            )
            ended = command.execute(lambda: None, cancelled)
            if ended.how is End.CANCELLED:
                raise _Cancelled
            text = printed.read_text("utf-8", "replace") if printed.exists() else ""
        whole = text if ended.how is End.EXITED else text.rpartition("\n")[0]
        return Unobserved(ended.how is End.EXITED and ended.code != 0, ended.how is not End.EXITED, whole)

    def run_on_cores(self, side: Side, job: Job, cancelled: threading.Event) -> Ran:
        """Make a run in this thread, until it is cancelled."""
        with on_cores(self.cores):
            return self._run(side, job, cancelled)

    def _run(self, side: Side, job: Job, cancelled: threading.Event) -> Ran:
        with self.scratch.room() as room:
            root = self.scratch.copy(side.tree, side.replacements, room)
            job = evolve(job, out=room / "out", root=root)
            job_file = room / "job.json"
            try:
                for folder in (job.out, room / "tmp"):
                    folder.mkdir()
                job.write(job_file)
            except OSError as error:
                raise Failure(
                    f"{room}: cannot be written: {explain(error)}; set TMPDIR to a folder with room"
                ) from error
            call = CallInCopy(self.call, side.tree.root, job, room, self._harness)
            command = Command(
                arguments=call.command(side.script, side.nproc),
                cwd=call.cwd(side.script),
                environment=call.environment(side.script, job_file),
                run=uuid.uuid4().hex,
                timeout=self.timeout,
                sample_memory=self.sample_memory,
                template=self._template if self.forks and side.nproc is None else None,
                quiet_from=Path(job.turns, "0-0.go") if job.turns else None,
            )
            ran = self._execute(command, job, side.nproc or 1, cancelled)
        # A copy that nobody has touched, and a process of its own.
        return self._run(side, job, cancelled) if ran is None else ran

    def _execute(self, command: Command, job: Job, nproc: int, cancelled: threading.Event) -> Ran | None:
        """None where it was forked and has to be run again."""

        def delivered() -> float | None:
            if sum(1 for _ in job.out.glob("rank*.json")) < nproc:
                return None
            ends = all(record["ended"] == "exit" and not trains(record) for record in _records(job.out).values())
            return GRACE_AFTER_NOTHING if ends else GRACE_AFTER_RESULTS

        try:
            ended = command.execute(delivered, cancelled)
        except OSError as error:
            return Ran(cannot_start(self.call.python, error))
        if ended.how is End.CANCELLED:
            raise _Cancelled
        if ended.how is End.UNFIT:
            self._template.abandon()
            return None
        records = _records(job.out)
        circumstances = Circumstances(job.root, self.call.python, job.device, nproc, self.timeout)
        return Ran(
            trouble=diagnose(ended, list(records.values()), circumstances),
            records=tuple(records.values()),
            sketches=tuple(_sketch(job.out / f"rank{rank}.f64") for rank in records),
            seconds=ended.seconds,
            tail=ended.tail,
            peak_resident_mib=ended.peak_resident_mib,
            peak_shm_mib=ended.peak_shm_mib,
            watched=_watched(job.out) if job.points else (),
        )


class _Cancelled(Exception):
    """Another run failed, or the user has had enough; nobody asks for this one's result."""


def together(
    calls: Sequence[Callable[[threading.Event], T]], concurrency: int, conduct: Conduct | None = None
) -> list[T]:
    """The results of calls, up to `concurrency` at a time. Each is given the event that tells it to end at once."""
    cancelled = threading.Event()
    pool = ThreadPoolExecutor(concurrency)
    futures: list[Future[T]] = []
    try:
        futures += [pool.submit(call, cancelled) for call in calls]
        if conduct is not None:
            conduct(lambda number: futures[number].done())
        wait(futures, return_when=FIRST_EXCEPTION)
        return [future.result() for future in futures if future.done()]
    finally:
        # Threads end what they started, which Ctrl-C, pressed again, must not keep them from.
        with held_back():
            cancelled.set()
            pool.shutdown(cancel_futures=True)


def _records(out: Path) -> Mapping[int, dict[str, Any]]:
    found = {int(match[1]): path for path in out.iterdir() if (match := _RECORD.fullmatch(path.name))}
    return {rank: json.loads(found[rank].read_bytes()) for rank in sorted(found)}


def _watched(out: Path) -> tuple[Watched, ...]:
    """Of all processes. A line that is not whole was being written when its process was ended."""
    lines = [line for path in out.glob("watched-*.jsonl") for line in path.read_text("utf-8").splitlines(keepends=True)]
    return tuple(sorted({Watched(**json.loads(line)) for line in lines if line.endswith("\n")}))


def _sketch(path: Path) -> array[float]:
    numbers = array("d")
    if path.exists():
        numbers.frombytes(path.read_bytes())
    return numbers
