"""A watch for runs whose time is looked at: it counts the steps of one optimizer, and does nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import cuda, distributed
from torch.optim.optimizer import register_optimizer_step_post_hook

from .observer import CLOCK
from .stopping import Enough
from .watch import Watch

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from .job import Job
    from .observer import Observer


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
        self._clock: Optimizer | None = None
        self._idle = 0

    def begin(self) -> None:
        """Look on from now."""
        register_optimizer_step_post_hook(self._after_step)
        self._ending.begin()
        os.register_at_fork(after_in_child=self._abandon)

    def _after_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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
