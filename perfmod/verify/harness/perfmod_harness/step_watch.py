"""A watch for runs whose time is looked at: it counts the steps of one optimizer, and does nothing else."""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator

import torch
from torch import cuda, distributed

from . import patching, replays, stephooks
from .by_hand import ByHand
from .compiling import is_compiling
from .observer import CLOCK
from .stopping import Enough
from .watch import Watch

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from .job import Job
    from .observer import Observer
    from .replays import Action


def uses_device(job: Job) -> bool:
    """Whether the run is one on CUDA, and the script has begun to use it."""
    initialized: Any = cuda.is_initialized
    return job.device == "cuda" and bool(initialized())


class StepWatch(Watch):
    """Has no hook before a step and none on backward passes, and asks no tensor for its value.

    So it knows of no other optimizer than the one that stepped first, counts a step that a fused optimizer left out,
    and does not notice that a script never steps.
    """

    def __init__(self, job: Job, observer: Observer) -> None:
        super().__init__(job, observer)
        self._clock: Optimizer | ByHand | None = None
        self._idle = 0
        self._passes = 0
        self._hand = ByHand(())

    def begin(self) -> None:
        """Look on from now."""
        if self.job.by_hand:
            patching.around(torch.autograd, "backward", self._backward)
        else:
            stephooks.after_steps(self._after_step)
            replays.begin(self)
        self._ending.begin()
        os.register_at_fork(after_in_child=self._abandon)

    @contextmanager
    def recording(self) -> Iterator[list[Action]]:
        """A step is recorded as a CUDA graph in here: those who step count when it is replayed."""
        actions: list[Action] = []

        def after(optimizer: Optimizer, *_: Any) -> None:
            if self._clock in (None, optimizer):
                actions.append(functools.partial(self._after_step, optimizer, (), {}))

        with stephooks.standing_in(None, after):
            yield actions

    def before_replay(self) -> None:
        """Nothing is looked at."""

    def not_replayed(self) -> None:
        """Nor here."""

    def _backward(self, backward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A pass ends the step that an earlier one began, of which nothing else tells."""
        if not is_compiling() and not self.in_backward:
            self._passes += 1
            if self._passes > 1 and (self._passes - 1) % self.job.by_hand == 0:
                self._after_step(self._hand, (), {})
        inner, self.in_backward = self.in_backward, True
        try:
            return backward(*args, **kwargs)
        finally:
            self.in_backward = inner

    def _after_step(self, optimizer: Optimizer | ByHand, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        # The code of a step of a millisecond has left the processor's caches when the next one ends, so that every line
        # here costs ten times what it costs in a loop of its own.
        if self._idle and optimizer is self._clock:
            self._idle -= 1
            self.steps[CLOCK] += 1
            return
        if optimizer is not self._clock:
            if self._clock is not None:
                return
            self._clock = optimizer
            self.steps.append(0)
            self._meet()
        if self.over:
            self._leave()
            return
        self.steps[CLOCK] += 1
        if self.observer.after_step(optimizer, CLOCK, closure=False):
            self._write("steps", None)
            self._leave()
        self._idle = self.observer.idle

    def _leave(self) -> None:
        """End the script, once no other rank needs this one for the steps that it has yet to do."""
        ranks = distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
        if not self._forked and all(Path(self.job.out, f"rank{rank}.json").exists() for rank in range(ranks)):
            raise Enough
