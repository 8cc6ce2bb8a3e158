"""Runs sides for one request: sets up the jobs of the three kinds of run, and decides how many go on at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import Factory, asdict, define, evolve, field, frozen

from perfmod.parallel import usable_cpus
from perfmod.seats import Seat
from perfmod.verify.job import Job, Mode, Point
from perfmod.verify.load import Load, Meter
from perfmod.verify.request import Request
from perfmod.verify.running import Ran, Runner, Unobserved
from perfmod.verify.schedule import ROUNDS
from perfmod.verify.seated_runs import Group, run_beside, run_on_any
from perfmod.verify.sides import Side
from perfmod.verify.single_steps import draw_steps
from perfmod.verify.trace import Step
from perfmod.verify.turns import COUNT, Turns

Progress = Callable[[str], None]
"""Told in a few words what is done next."""

_MOST_AT_ONCE = 6
_SINGLE_STEPS = {False: 6, True: 4}
"""So many steps are compared one by one; and with `--quick`."""
_SECONDS = {False: (1.0, 2.0), True: (0.5, 1.0)}
"""Of a T-run's warm-up and its window; and with `--quick`."""
_SECONDS_OF_TURNS = {False: (0.2, 0.5), True: (0.1, 0.3)}
"""Of the warm-up and the window of each turn; and with batches at hand, when steps vary less."""
_STEPS_OF_A_TURN = 10
"""At least."""
_SLOW_STEP = 0.3
_FEW_STEPS = {"warmup_steps": 4, "window_steps": 8}
"""Steps of so many seconds vary little, and those in a hurry make no more of them than these, at least."""
_LONGEST_STEP_OF_TURNS = 2.0
"""Seconds; where a step takes longer than a start, there is nothing to be gained by turns."""
_FEWEST_PAIRS = 2
_LONGER = 1.5
_START = 10.0
"""Times the seconds of a watched run, and those in which a process imports torch, which forked ones have done."""
_LONGEST_COURSE = {False: 120.0, True: 30.0}
"""Seconds that a run may take in which no state is handed over, by how long the first run took; and with `--quick`."""
_CONTEXT_MIB = 600.0
"""What a process takes of a GPU's memory before it has a tensor there."""
_LIKELY_MIB = 8000.0
_SHARE_OF_MEMORY = 0.6
"""Of what was free before the first run; E-runs that go on together may take it all together."""


@frozen
class Setting:
    """How an E-run differs from the plain one; the fields are those of `Job`, but one.

    Attributes:
        course: so many steps are made, and no state is handed over; 0 for the common number.
    """

    perturb: float = 0.0
    perturb_seed: int = 0
    double: bool = False
    half: bool = False
    dropout: bool = True
    deterministic: bool = False
    alike: int = 0
    fills: bool = False
    epoch: int = 0
    reseed: int = 0
    course: int = 0

    @property
    def reference(self) -> Setting:
        """The setting of the run that hands its states over to runs in this one."""
        return evolve(self, perturb=0.0, perturb_seed=0, double=False, half=False, deterministic=False)


PLAIN = Setting()


@define
class Laboratory:
    """One verification's runs.

    Attributes:
        free_mib: device memory that was free before the first run; None where unknown.
        first: the record of the first E-run; empty before it.
        batch: the batch size of the script and the one that all runs have instead; zeros where they have its own.
        by_hand: backward passes in a step of a script that has no optimizer; 0 where it has one.
        bare: it calls no module that has parameters.
        clock: the optimizer whose steps are counted, see `Job`.
        length: steps that an E-run makes, where these take little time.
        handed: steps after which the other runs take over the state of the original.
        epoch: steps in an epoch of the runs whose epochs are short.
        longest: steps of the runs in which no state is handed over; 0 where none are to be made.
        cpus: processors that its runs may use.
        seats: cards of one model, with cores of their own, on which E-runs are made and groups are timed beside each
            other; empty where all runs take their turns on the card that the script sees first.
    """

    runner: Runner
    request: Request
    progress: Progress
    free_mib: float | None = None
    first: dict[str, Any] = field(factory=dict)
    batch: tuple[int, int] = (0, 0)
    by_hand: int = 0
    bare: bool = False
    clock: int = 0
    length: int = Factory(lambda self: _drawn_length(self.request), takes_self=True)
    handed: tuple[int, ...] = Factory(lambda self: _drawn_steps(self.request, self.length), takes_self=True)
    epoch: int = Factory(lambda self: _drawn_epoch(self.request), takes_self=True)
    longest: int = Factory(lambda self: _drawn_course(self.request), takes_self=True)
    cpus: int = Factory(lambda: usable_cpus())
    seats: tuple[Seat, ...] = ()
    _states: dict[Hashable, Path] = field(factory=dict, init=False)
    _runners: dict[Seat, Runner] = field(factory=dict, init=False)
    _profiled: dict[Hashable, Ran] = field(factory=dict, init=False)

    def watch(
        self,
        runs: Sequence[tuple[Side, Setting]],
        seed: int,
        beside: Sequence[Side] = (),
        asked: Sequence[tuple[Side, Sequence[Point]]] = (),
    ) -> list[Ran]:
        """E-runs, as many at once as this machine takes: they are not timed.

        The first run in a setting, with a seed, is the original's, and writes the states that all others take over.

        `beside` are sides whose P-runs go along with them, for those in a hurry: then lines and numbers of
        synchronisations are right, and milliseconds are rough. `asked` are those of `look`; their runs come last.
        """
        jobs = [(side, self._equality(side, each, seed)) for side, each in runs]
        jobs += [(side, self._asking(points)) for side, points in asked]
        jobs += [(side, self._job(Mode.PROFILE)) for side in beside]
        if not self.first:
            limit = self.request.timeout
            self.progress(f"first runs; how long they take is not known yet: {len(jobs)} of at most {limit:g} s each")
        found = self._run_all(jobs)
        self._repeat_without_states(jobs, found)
        if not self.first and self._learns_from(found[0]):
            self._states.clear()
            return self.watch(runs, seed, beside, asked)
        own = len(runs) + len(asked)
        self._profiled.update(zip((side.content for side in beside), found[own:], strict=True))
        found = found[:own]
        if not self.first and found[0].records:
            self.progress(self._foreseen(max(ran.seconds for ran in found)))
            self.first = found[0].records[0]
            self.by_hand = self.by_hand and _passes_in_a_step(self.first)
        return found

    def _run_all(self, jobs: Sequence[tuple[Side, Job]]) -> list[Ran]:
        """Side by side, on all seats where there are any."""
        if not self.seats:
            return self.runner.run_all(jobs, self.at_once())
        labs = [self.on(seat) for seat in self.seats]
        return run_on_any([lab.runner for lab in labs], labs[0].at_once(), jobs)

    def look(self, side: Side, points: Sequence[Point]) -> Ran:
        """A run that is compared with none: it answers what is asked about values in its code."""
        return self.runner.run(side, self._asking(points))

    def _asking(self, points: Sequence[Point]) -> Job:
        return self._job(Mode.EQUALITY, steps=self.request.steps, points=tuple(points))

    def leave_alone(self, sides: Sequence[Side], watched: float) -> list[Unobserved]:
        """Runs without the harness, for somewhat longer than the seconds of one that was watched, beside as many."""
        seconds = min(_LONGER * watched + _START, self.request.timeout)
        return self.runner.unobserved(sides, self._job(Mode.TIMING), seconds, self.at_once())

    def time(self, side: Side) -> tuple[Ran, Load]:
        """A T-run, with what it had beside it; nothing else of ours goes on."""
        warm_up, window = _SECONDS[self.request.quick]
        meter = Meter()
        with meter.span(sampled=True):
            lengths = {"warmup_seconds": warm_up, "window_seconds": window, **self._few_steps()}
            ran = self.runner.run(side, self._job(Mode.TIMING, **lengths))
        return ran, Load(meter.share)

    def time_by_turns(self, sides: Sequence[Side], batches_at_hand: int = 0) -> list[tuple[Ran, Load]]:
        """T-runs that are warm at the same time, and timed one at a time, with what they had beside them.

        With batches at hand, they are timed without their loaders.
        """
        turns, jobs = self._by_turns(sides, batches_at_hand)
        return list(zip(self.runner.run_all(jobs, len(jobs), turns.conduct), turns.loads(), strict=True))

    def time_beside(self, groups: Sequence[Sequence[Side]], batches_at_hand: int) -> list[list[Ran]]:
        """Groups of T-runs, each of them timed by turns on a seat of its own; not more than there are seats.

        Times are to be compared within a group only. What a run had beside it cannot be told apart from other groups.
        """
        seated = []
        for seat, sides in zip(self.seats, groups, strict=False):
            lab = self.on(seat)
            turns, jobs = lab._by_turns(sides, batches_at_hand, "" if seat.is_stand_in else seat.gpu)
            seated.append(Group(lab.runner, jobs, turns.conduct))
        return run_beside(seated)

    def on(self, seat: Seat) -> Laboratory:
        """One like this for runs on a seat."""
        if seat not in self._runners:
            self._runners[seat] = self.runner.seated(seat)
        return evolve(self, runner=self._runners[seat], cpus=len(seat.cores) or self.cpus, seats=())

    def _by_turns(
        self, sides: Sequence[Side], batches_at_hand: int, card: str = ""
    ) -> tuple[Turns, list[tuple[Side, Job]]]:
        turns = Turns(self.runner.scratch.states(), len(sides), card)
        warm_up, window = _SECONDS_OF_TURNS[bool(batches_at_hand)]
        lengths = {"warmup_seconds": warm_up, "window_seconds": window, "window_steps": _STEPS_OF_A_TURN}
        lengths |= self._few_steps()
        shared = {"turns": str(turns.folder), "turn_count": COUNT, "batches_at_hand": batches_at_hand}
        jobs = [(side, self._job(Mode.TIMING, place=place, **lengths, **shared)) for place, side in enumerate(sides)]
        return turns, jobs

    def time_larger(self, side: Side, batches_at_hand: int, batch_times: int) -> Ran:
        """A T-run with batches at hand, each `batch_times` its size; nothing else of ours goes on."""
        lengths = {"warmup_seconds": _SECONDS[True][0], "window_seconds": _SECONDS[True][1]}
        at_hand = {"batches_at_hand": batches_at_hand, "batch_times": batch_times}
        return self.runner.run(side, self._job(Mode.TIMING, **lengths, **at_hand))

    def pairs_by_turns(self) -> int:
        """How many processes of each side may be warm at the same time; 0 where they are to be timed each alone."""
        if not self.request.quick or self.request.nproc is not None or self._longest_step() > _LONGEST_STEP_OF_TURNS:
            return 0
        pairs = self.at_once() // 2
        return pairs if pairs >= _FEWEST_PAIRS else 0

    def _few_steps(self) -> Mapping[str, int]:
        is_slow = self.request.quick and self._longest_step() > _SLOW_STEP
        return _FEW_STEPS if is_slow else {}

    def _longest_step(self) -> float:
        """Seconds that a step may take at most, by the first run, whose start is in them, too."""
        steps: int = self.first.get("steps", {}).get("0", 0)
        return float(self.first.get("seconds", 0.0)) / max(steps, 1)

    def profile(self, side: Side) -> Ran:
        """A P-run, unless it was made beside E-runs; nothing else goes on, because it tells how long the host waits."""
        found = self._profiled.get(side.content)
        return self.runner.run(side, self._job(Mode.PROFILE)) if found is None else found

    def was_profiled_beside(self, side: Side) -> bool:
        """Whether a side's P-run went along with E-runs, so that its times are rough."""
        return side.content in self._profiled

    def _learns_from(self, ran: Ran) -> bool:
        """Whether the first run of all shows that the script is to be run in another way."""
        before = self.by_hand, self.bare, self.clock
        self.by_hand = self.by_hand or int(_steps_by_hand(ran))
        self.bare = self.bare or _calls_no_module(ran)
        self.clock = self.clock or _last_of_a_round(ran)
        return (self.by_hand, self.bare, self.clock) != before

    def course(self) -> int:
        """Steps of the runs in which no state is handed over, as many as time allows; 0 where that is too few."""
        each = self._longest_step()
        seconds = min(_LONGEST_COURSE[self.request.quick], self.request.timeout / 2)
        steps = min(self.longest, int(seconds / each)) if each else self.longest
        return steps if steps > self.request.steps else 0

    def _equality(self, side: Side, setting: Setting, seed: int) -> Job:
        fields = asdict(setting)
        course = fields.pop("course")
        if course:
            return self._job(Mode.EQUALITY, steps=course, seed=seed + setting.reseed, **fields)
        states, writes = self._handing_over(side, setting, seed)
        length = {"steps": self.request.steps, "horizon": self.length, "handed": self.handed}
        shared = {"states": str(states), "writes_states": writes, "seed": seed}
        return self._job(Mode.EQUALITY, **length, **shared, **fields)

    def _handing_over(self, _side: Side, setting: Setting, seed: int) -> tuple[Path, bool]:
        """The folder of the states for a run, and whether the run is the one that writes them."""
        key = setting.reference, seed
        is_first = key not in self._states
        if is_first:
            self._states[key] = self.runner.scratch.states()
        return self._states[key], is_first

    def _repeat_without_states(self, jobs: Sequence[tuple[Side, Job]], found: list[Ran]) -> None:
        """Run those again that did not get the states because the run beside them that writes them had failed first."""
        written = {job.states: _handed(ran) for (_, job), ran in zip(jobs, found, strict=True) if job.writes_states}
        for number, (side, job) in enumerate(jobs):
            if job.states in written and not job.writes_states and found[number].trouble is None:
                lacking = written[job.states] - _handed(found[number])
                if lacking and min(lacking) < _steps(found[number]):
                    found[number] = self.runner.run(side, job)

    def _foreseen(self, longest: float) -> str:
        """How long the rest takes, given the longest of the first runs."""
        if self.request.device == "cpu":
            return "comparing the training"
        timed = longest + sum(_SECONDS[self.request.quick])
        fewest, most = (2 * rounds * timed for rounds in ROUNDS[self.request.quick])
        return f"comparing the training; all in all {longest + fewest:.0f} to {longest + most:.0f} s more"

    def _job(self, mode: Mode, **fields: Any) -> Job:
        by_hand = min(self.by_hand, 1) if mode is Mode.EQUALITY else self.by_hand
        if mode is Mode.EQUALITY:
            fields["clock"] = self.clock
        if mode is Mode.EQUALITY or "turns" in fields:
            fields["threads"] = self._threads()
        fields |= {"own_batch": self.batch[0], "other_batch": self.batch[1], "spread": self._processes()}
        return Job(mode, Path(), Path(), self.request.device, by_hand=by_hand, bare=self.bare, **fields)

    def _processes(self) -> int:
        """Those that the batches of the original, which is one process, are spread over; 0 for none."""
        return self.request.nproc or 0 if self.request.spread else 0

    def at_once(self) -> int:
        """How many E-runs fit side by side, judged by the first. They may crowd the processors: nobody times them."""
        most = self._most_at_once()
        if self.request.device == "cpu":
            return most
        if not self.free_mib:
            return 1
        # Who is in a hurry does not wait for the first run: what does not fit is repeated alone.
        peak = self.first.get("peak_reserved_mib") or (_LIKELY_MIB if self.request.quick else self.free_mib)
        in_memory = int(_SHARE_OF_MEMORY * self.free_mib / (peak + _CONTEXT_MIB))
        return max(1, min(in_memory, most))

    def _most_at_once(self) -> int:
        """How many runs may go on beside each other for all that the processors allow."""
        # On the CPU a run alone keeps half of them busy.
        each = 4 if self.request.device == "cpu" else 2
        return max(1, min(self.cpus // each, _MOST_AT_ONCE))

    def _threads(self) -> int:
        """Those of an operation in a run that may have others beside it; not judged by the first run.

        In all runs of a verification it is the same number, because sums are split up by it.
        """
        most = self._most_at_once()
        alone = most == 1 or self.request.nproc is not None
        return 0 if alone else max(1, self.cpus // most)


def _steps_by_hand(ran: Ran) -> bool:
    """Whether a run made backward passes and no optimizer at all."""
    return bool(ran.records) and all(
        record["backwards"] > 1 and not record["optimizers"] and not any(record["steps"].values())
        for record in ran.records
    )


def _last_of_a_round(ran: Ran) -> int:
    """The optimizer that steps last in every round of a run, if all rounds are alike; else the first one."""
    rounds = set()
    for trace in ran.traces if ran.trouble is None else ():
        order = [event.optimizer for event in trace.events if isinstance(event, Step)]
        begun = [at for at, optimizer in enumerate(order) if optimizer == 0]
        # The run is ended by a step of the first one, in the midst of a round.
        rounds |= {tuple(order[at:end]) for at, end in pairwise(begun)}
    return rounds.pop()[-1] if len(rounds) == 1 else 0


def _calls_no_module(ran: Ran) -> bool:
    """Whether a run trained something without having called a module that has parameters."""
    return (
        ran.trouble is None
        and bool(ran.traces)
        and all(trace.losses() and not any(trace.forwards()) for trace in ran.traces)
    )


def _drawn_length(request: Request) -> int:
    """Nobody knows before after how many steps a run is stopped; in the last third of what may be."""
    horizon = max(request.steps, request.horizon or 0)
    return random.SystemRandom().randint(max(request.steps, 2 * horizon // 3), horizon)


def _drawn_course(request: Request) -> int:
    """As for other runs, of what may be for those in which no state is handed over."""
    most = request.course or 0
    return random.SystemRandom().randint(max(1, 2 * most // 3), most) if most else 0


def _drawn_steps(request: Request, length: int) -> tuple[int, ...]:
    """Those of the steps that are made in any case, and some that come later."""
    chance, count = random.SystemRandom(), _SINGLE_STEPS[request.quick]
    later = draw_steps(length - request.steps + 1, count // 2, chance)
    return (*draw_steps(request.steps, count, chance), *(request.steps - 1 + step for step in later))


def _drawn_epoch(request: Request) -> int:
    """Few, for scripts to come to their own end."""
    return random.SystemRandom().randint(2, max(2, request.steps // 5))


def _handed(ran: Ran) -> set[int]:
    """The steps after which every rank of a run wrote a state, or took one over."""
    return set.intersection(*(set(record["handed"]) for record in ran.records)) if ran.records else set()


def _steps(ran: Ran) -> int:
    """How often the optimizer that counts stepped."""
    return min((record["steps"].get("0", 0) for record in ran.records), default=0)


def _passes_in_a_step(record: Mapping[str, Any]) -> int:
    """Of a script without an optimizer, of which each kind of backward pass counted as one."""
    passes: int = record["backwards"]
    steps: int = record["steps"].get("0", 0)
    return max(1, round(passes / max(steps, 1)))
