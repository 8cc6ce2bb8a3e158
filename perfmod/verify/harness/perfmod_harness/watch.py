"""Counts what a training does, and sees to it that its record is written once, however the run ends."""

from __future__ import annotations

import functools
import os
import time
from array import array
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, NoReturn

import torch

from . import process, replays, results, scaling, stephooks
from .by_hand import ByHand, OptimizersMade, StepsByHand
from .compiling import is_compiling
from .ending import Ending
from .observer import CLOCK
from .replays import Held, RecordedStep
from .stopping import Enough

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from .job import Job
    from .observer import Observer
    from .replays import Action

STUCK = 500
"""Backward passes without a step of an optimizer, after which none is expected to come."""

WITHOUT_OPTIMIZER = 100
"""The same where the script has not made any optimizer."""

PATIENCE = 5.0
"""Seconds for which a rank that has seen enough stays for the others."""


class Watch:
    """One process of a run. Made once, when torch has been imported and the script has yet to go on.

    Attributes:
        steps: how often each optimizer has stepped; the one that counts is the first of them, and the others are
            numbered by their first step.
        backwards: how many backward passes have begun.
        skipped: steps that were left out because a gradient scaler had found an infinity.
        in_backward: one is going on; what is called from within it is not the script's own doing.
        recorded: while a step is recorded as a CUDA graph, what is to be done after each replay; else None.
        over: the record is written, or this is a child that has none to write.
    """

    def __init__(self, job: Job, observer: Observer) -> None:
        self.job = job
        self.observer = observer
        self.steps: list[int] = []
        self.backwards = 0
        self.skipped = 0
        self.in_backward = False
        self.recorded: list[Action] | None = None
        self.over = False
        self._held: list[Held] = []
        self._optimizers: list[Optimizer | ByHand] = []
        self._made = OptimizersMade()
        self._by_hand = StepsByHand() if job.by_hand else None
        self._open: ByHand | None = None
        self._since_step = 0
        self._rank: int | None = None
        self._forked = False
        self._ending = Ending(self._write_at_exit)

    @property
    def clock(self) -> int:
        """Steps of the optimizer that counts."""
        return self.steps[CLOCK] if self.steps else 0

    @property
    def total(self) -> int:
        """Steps of all optimizers together."""
        return sum(self.steps)

    def begin(self) -> None:
        """Look on from now."""
        stephooks.before_steps(self._before_step)
        stephooks.after_steps(self._after_step)
        torch.autograd.backward = self._counting(torch.autograd.backward)
        scaling.count_skipped(lambda: self.total + self.skipped, self._skip)
        replays.begin(self)
        self._ending.begin()
        os.register_at_fork(after_in_child=self._abandon)

    def finish(self, ended: str = "steps") -> NoReturn:
        """Write the record, and end the script by raising `Enough`."""
        self._write(ended, None)
        self._wait_for_others()
        raise Enough

    # Optimizers

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.over:
            return
        self._meet()
        # While an optimizer steps, its closure may run as many backward passes as it likes.
        self._since_step = 0
        if not self._helps_by_hand() and not _left_out(optimizer):
            self.observer.before_step(optimizer, self.number(optimizer), _has_closure(args, kwargs))

    def _after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.over:
            if not self._forked:
                raise Enough
            return
        self._since_step = 0
        if self._helps_by_hand():
            return
        if _left_out(optimizer):
            self._skip()
            return
        number = self.number(optimizer)
        self.steps[number] += 1
        if self.observer.after_step(optimizer, number, _has_closure(args, kwargs)):
            self.finish()

    def _helps_by_hand(self) -> bool:
        """Whether an optimizer is how this version makes the steps that the original makes itself."""
        return self._open is not None

    def _skip(self) -> None:
        if self.recorded is None:
            self.skipped += 1

    def number(self, optimizer: Optimizer | ByHand) -> int:
        """Of an optimizer; a new one gets the next."""
        place = next((at for at, known in enumerate(self._optimizers) if known is optimizer), len(self._optimizers))
        if place == len(self._optimizers):
            self._optimizers.append(optimizer)
        number = CLOCK if place == self.job.clock else place + (place < self.job.clock)
        self.steps += [0] * (number + 1 - len(self.steps))
        return number

    # Backward passes

    def _counting(self, backward: Any) -> Any:
        @functools.wraps(backward)
        def counted(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            # A pass within a pass is a checkpointed part that is differentiated again.
            if is_compiling() or self.over or self.in_backward:
                return backward(tensors, *args, **kwargs)
            self.in_backward = True
            try:
                if self.recorded is not None:
                    self._note_backward(tensors)
                    return backward(tensors, *args, **kwargs)
                self._before_backward(tensors)
                result = backward(tensors, *args, **kwargs)
                if self._open is not None:
                    self.observer.before_step(self._open, self.number(self._open), closure=False)
                return result
            finally:
                self.in_backward = False

        return counted

    def _before_backward(self, tensors: Any) -> None:
        self._meet()
        if self._end_step_by_hand():
            self.finish()
        self.backwards += 1
        self._since_step += 1
        if self._since_step > (STUCK if self._made.count else WITHOUT_OPTIMIZER):
            self.finish("stuck")
        self.observer.before_backward(roots_of(tensors))
        if self._by_hand is not None:
            self._open = self._by_hand.of(roots_of(tensors))

    def _end_step_by_hand(self) -> bool:
        """End the step that the script makes itself, if one goes on. Returns whether all has been seen."""
        stepped, self._open = self._open, None
        if stepped is None:
            return False
        self._since_step = 0
        number = self.number(stepped)
        self.steps[number] += 1
        return self.observer.after_step(stepped, number, closure=False)

    # Replays

    @contextmanager
    def recording(self) -> Iterator[list[Action]]:
        """A step is recorded as a CUDA graph in here; see `replays.Recording`."""
        actions = self.recorded = []
        self._held.clear()
        begun: list[RecordedStep] = []

        def before(optimizer: Optimizer, *_: Any) -> None:
            begun[:] = [RecordedStep(optimizer)]

        def after(optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            step = RecordedStep(optimizer) if _has_closure(args, kwargs) else begun[0]
            step.stepped()
            self.observer.step_recorded(optimizer)
            self._held.append(step.gradients)
            actions.append(functools.partial(self._step_replayed, step))

        try:
            with stephooks.standing_in(before, after), self.observer.recording():
                yield actions
        finally:
            self.recorded = None
            for held in self._held:
                held.settle()

    def note(self, tensors: Iterable[Tensor], action: Action) -> None:
        """Do something after each replay, unless the step has overwritten the tensors that are to be looked at."""
        held = Held(tensors)
        self._held.append(held)
        assert self.recorded is not None
        self.recorded.append(lambda: action() if held.is_left and not self.over else None)

    def before_replay(self) -> None:
        """A graph is about to be replayed."""
        if not self.over:
            self.observer.before_replay()

    def not_replayed(self) -> None:
        """A recorder on a device is about to run the step as it is."""
        self.observer.not_replayed()

    def _note_backward(self, tensors: Any) -> None:
        roots = [scaling.unscaled(root).detach() for root in roots_of(tensors)]
        self.note(roots, lambda: self._before_backward(roots))

    def _step_replayed(self, step: RecordedStep) -> None:
        with step.as_recorded():
            if not self.over:
                number = self.number(step.optimizer)
                self._since_step = 0
                if not _left_out(step.optimizer):
                    self.observer.before_step(step.optimizer, number, closure=False, lost=not step.gradients.is_left)
        self._after_step(step.optimizer, (), {})

    # The end

    def _meet(self) -> None:
        """This process trains: what can be known only now."""
        if self._rank is None:
            self._rank = process.rank()
            self._ending.renew()

    def _wait_for_others(self) -> None:
        """The other ranks may be in the midst of talking to this one, and would fail if it left."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return
        records = [Path(self.job.out, f"rank{rank}.json") for rank in range(torch.distributed.get_world_size())]
        latest = time.monotonic() + PATIENCE
        while time.monotonic() < latest and not all(record.exists() for record in records):
            time.sleep(0.01)

    def _abandon(self) -> None:
        """This is a child made by fork; the record is its parent's."""
        self.over = self._forked = True

    def _write_at_exit(self, error: BaseException | None) -> None:
        if self._rank is not None or process.is_top():
            self._write("exit" if error is None else "error", error)

    def _write(self, ended: str, error: BaseException | None) -> None:
        if self.over:
            return
        if ended == "exit":
            self._end_step_by_hand()
        self.over = True
        try:
            part, numbers = self.observer.record(ended)
        except RuntimeError as failure:  # the device does not answer after an assertion has failed on it
            part, numbers = self.observer.lost(), array("d")
            ended, error = "error", error or failure
        counts = {
            "half": self.observer.half,
            "loaders": list(self.observer.loaders),
            "steps": {str(number): steps for number, steps in enumerate(self.steps)},
            "backwards": self.backwards,
            "optimizers": self._made.count,
            "skipped": self.skipped,
        }
        rank = process.rank() if self._rank is None else self._rank
        results.write(self.job, rank, ended, error, {**counts, **part}, numbers)


def roots_of(tensors: Any) -> list[Tensor]:
    """The tensors that a backward pass begins from; edges of the graph have no value to keep."""
    roots = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    return [root for root in roots if isinstance(root, torch.Tensor)]


def _has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Hooks get the arguments of `step`, with the optimizer itself in front."""
    return kwargs.get("closure") is not None or (len(args) > 1 and callable(args[1]))


def _left_out(optimizer: Optimizer) -> bool:
    """Whether a fused optimizer, which is called in any case, will find that it must not step.

    Waits for the device; other optimizers are spared the call by the scaler, which waits as well.
    """
    found = getattr(optimizer, "found_inf", None)
    return isinstance(found, torch.Tensor) and bool(found)
