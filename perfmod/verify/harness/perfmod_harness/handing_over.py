"""Hands the original's state over to the other runs, so that single steps can be compared that begin alike.

Two trainings that differ by rounding drift apart, and what is wrong by little hides in that. So the first run of an
original writes what it has after some steps: parameters, buffers, gradients, states of optimizers, scales of gradient
scalers. All other runs take that over when they come there, and what their next step does is compared with the next
step of the original.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

import torch

from . import process, scaling
from .snapshots import tensors_of
from .tensors import aside, is_captured

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .job import Job
    from .naming import Names

_SAVE = torch.save  # as it is before anybody looks on
PATIENCE = 120.0
"""Seconds for which a run waits for one beside it that is to write the next state."""
LONGEST = 20.0
"""Seconds that the steps up to the horizon may take."""
_MOST_BYTES = 8 << 30
_SHARE_OF_DISK = 0.25
_POLL = 0.02


class HandingOver:
    """Writes or takes over states in one process of a run.

    Attributes:
        done: the steps of the optimizer that counts after which a state was written, or taken over.
    """

    def __init__(self, job: Job, names: Names) -> None:
        self._folder = Path(job.states) if job.states else None
        self._writes = job.writes_states
        self._of_one = bool(job.spread)
        self._wanted = tuple(job.handed)
        self._names = names
        self._steps: tuple[int, ...] | None = None
        self.done: list[int] = []

    def after(self, step: int, stepped: Mapping[int, Optimizer | ByHand], *, wiped: bool = False) -> bool:
        """Write or take over the state after a step, where that is wanted. Returns whether that was done.

        Args:
            step: of the optimizer that counts.
            stepped: the optimizers by their numbers.
            wiped: the step has been replayed together with what zeroes gradients behind it; they stay as they are.
        """
        if self._folder is None or step not in self._wanted or is_captured():
            return False
        with aside():
            held = {key: each for key, each in self._held(stepped) if not (wiped and key.startswith("gradient/"))}
            is_done = self._write(step, held) if self._writes else self._take(step, held)
        if is_done:
            self.done.append(step)
        return is_done

    def goes_on(self, seconds: float) -> bool:
        """Whether the run goes on to the horizon, for which it would need so many seconds: what the first one did."""
        if self._folder is None or is_captured():
            return False
        decision = self._folder / "goes-on.json"
        if self._writes and process.rank() == 0:
            _put(decision, lambda path: path.write_text(json.dumps(seconds <= LONGEST), encoding="utf-8"))
        return self._came(decision) and bool(json.loads(decision.read_text(encoding="utf-8")))

    def end(self) -> None:
        """Tell those who wait that nothing more is coming."""
        if self._folder is not None and self._writes:
            self._place("ended").touch()

    def _held(self, stepped: Mapping[int, Optimizer | ByHand]) -> Iterator[tuple[str, Tensor]]:
        """All that makes up the state, by names that other runs use as well."""
        for key, tensor in (*self._names.parameters(), *self._names.buffers()):
            yield f"value/{key}", tensor
        for number, optimizer in stepped.items():
            for key, parameter in self._names.optimized(optimizer, number):
                yield f"value/{key}", parameter
                if parameter.grad is not None:
                    yield f"gradient/{key}", parameter.grad
                for name, value in optimizer.state.get(parameter, {}).items():
                    for place, tensor in tensors_of(f"{key}/{name}", value):
                        yield f"state/{place}", tensor
        for number, scale in enumerate(scaling.scales()):
            yield f"scale/{number}", scale

    def _place(self, name: str) -> Path:
        assert self._folder is not None
        rank = 0 if self._of_one else process.rank()
        return self._folder / f"{rank}-{name}"

    # The first run of the original

    def _write(self, step: int, held: Mapping[str, Tensor]) -> bool:
        if self._steps is None:
            self._steps = self._affordable(held)
            _put(self._place("steps.json"), lambda path: path.write_text(json.dumps(self._steps), encoding="utf-8"))
        if step not in self._steps:
            return False
        values = {key: tensor.detach().cpu() for key, tensor in held.items() if tensor.layout == torch.strided}
        try:
            _put(self._place(f"{step}.pt"), lambda path: _SAVE(values, path))
        except (OSError, RuntimeError):  # torch wraps what the disk says
            self.end()
            return False
        return True

    def _affordable(self, held: Mapping[str, Tensor]) -> tuple[int, ...]:
        """As many of the steps as there is room for, over the whole length."""
        size = sum(tensor.numel() * tensor.element_size() for tensor in held.values())
        assert self._folder is not None
        room = min(_MOST_BYTES, int(_SHARE_OF_DISK * shutil.disk_usage(self._folder).free))
        count = min(len(self._wanted), room // max(size, 1))
        return tuple(self._wanted[-1 - index * len(self._wanted) // count] for index in range(count))[::-1]

    # All others

    def _take(self, step: int, held: Mapping[str, Tensor]) -> bool:
        if self._steps is None:
            listed = self._place("steps.json")
            self._steps = tuple(json.loads(listed.read_text(encoding="utf-8"))) if self._came(listed) else ()
        path = self._place(f"{step}.pt")
        if step not in self._steps or not self._came(path):
            return False
        given = torch.load(path, map_location="cpu", weights_only=True)
        for key, tensor in _corresponding(held, given):
            # Not through the tensor itself: what autograd has saved of it counts its versions.
            tensor.data.copy_(given[key])
        return True

    def _came(self, path: Path) -> bool:
        """Whether a file is there, now or after a while."""
        latest = time.monotonic() + PATIENCE
        ended = self._place("ended")
        while not path.exists():
            if ended.exists() or time.monotonic() > latest:
                return path.exists()
            time.sleep(_POLL)
        return True


def _put(path: Path, write: Any) -> None:
    """Write a file that others see at once and as a whole."""
    temporary = path.with_name(path.name + ".part")
    write(temporary)
    temporary.replace(path)


def _corresponding(held: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Iterable[tuple[str, Tensor]]:
    """What is held, by the keys of what was given: the same ones, or those at the same places where names differ."""
    for kind in ("value", "gradient", "state", "scale"):
        mine = [(key, tensor) for key, tensor in held.items() if key.startswith(f"{kind}/")]
        theirs = [key for key in given if key.startswith(f"{kind}/")]
        same = [(key, tensor) for key, tensor in mine if key in given and given[key].shape == tensor.shape]
        if len(same) < len(theirs) and [given[key].shape for key in theirs] == [each.shape for _, each in mine]:
            same = [(key, tensor) for key, (_, tensor) in zip(theirs, mine)]
        yield from same
