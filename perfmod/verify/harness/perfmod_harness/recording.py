"""The E-run: random streams pinned, and everything kept that tells whether two trainings are the same.

What is kept stays on its device, boiled down, until the run is over.
"""

from __future__ import annotations

import functools
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator

import torch

from . import alike, fills, halves, parts, patching, scaling, seeding, short_epochs, spreading, unseen
from .calls import OutermostCalls, has_parameters
from .compiling import draw_as_eager_code_does, is_compiling
from .controls import Controls
from .copies import copies
from .determinism import Determinism
from .digests import Digests
from .events import Events
from .handing_over import HandingOver
from .loaders import Loaders
from .naming import Names
from .observer import CLOCK, Observer
from .outputs import Outputs
from .readout import Readout
from .replays import Held, not_recorded
from .sampling import Sampling
from .shelf import Shelf
from .snapshots import Snapshots, gradients, tensors_of
from .structures import leaves
from .tensors import HALVES, aside, autocast_type, is_captured, is_tried_out
from .watch import Watch, roots_of
from .workers import Workers

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from torch import Tensor, nn
    from torch.optim import Optimizer

    from .by_hand import ByHand
    from .job import Job
    from .loaders import Seen

_MIB = 2**20


def begin(job: Job) -> None:
    """Pin the streams and look on. Called when torch has been imported."""
    _calm()
    if job.device == "cuda":
        _allow_waits()
    if job.threads:
        torch.set_num_threads(job.threads)
    seeding.pin_torch(job.seed, job.reseed)
    unseen.begin()
    workers = Workers(Path(job.out))
    Sampling(job.seed, workers).begin()
    if job.epoch:
        short_epochs.begin(job.epoch)
    if job.alike:
        alike.begin(job.alike)
    if job.fills:
        fills.begin()
    recorder = Recorder(job, workers)
    if job.spread:
        spreading.begin()
        parts.begin(job.spread, recorder.uncounted)
    recorder.begin()


def _calm() -> None:
    """Have the same arithmetic in every run: what differs otherwise would hide what a rewrite changes.

    TF32 is a default of convolutions and coarser than most rewrites' rounding; a script that asks for it gets it.
    Benchmarking picks kernels by how busy the device happens to be, so that is not left to the script.
    """
    cudnn = torch.backends.cudnn
    cudnn.deterministic = True
    cudnn.allow_tf32 = False
    cudnn.benchmark = False
    switch = vars(type(cudnn)).get("benchmark")
    if switch is not None:
        switch.setter = lambda _wanted: None
    switch = vars(type(cudnn)).get("deterministic")
    if switch is not None:
        # The script is told what it has chosen: that the flag is set would tell it that it is watched.
        chosen = [False]
        switch.setter = lambda wanted: chosen.__setitem__(0, wanted)
        switch.getter = lambda: chosen[0]


def _allow_waits() -> None:
    """Have torch neither report nor forbid waits for the device: they would be those of the watch as well.

    A script that forbids its own, or looks for them before it records a step, is told that it does.
    """
    modes, chosen = ("default", "warn", "error"), [0]

    def choose(_set: Callable[..., Any], debug_mode: int | str) -> None:
        chosen[0] = modes.index(debug_mode) if isinstance(debug_mode, str) else debug_mode

    patching.around(torch.cuda, "set_sync_debug_mode", choose)
    patching.around(torch.cuda, "get_sync_debug_mode", lambda _get: chosen[0])


class Recorder(Observer):
    """Keeps what happens in the training process of an E-run."""

    def __init__(self, job: Job, workers: Workers) -> None:
        self._job = job
        self._workers = workers
        self._watch = Watch(job, self)
        self._controls = Controls(job)
        self._determinism = Determinism()
        self._loaders = Loaders()
        self._names = Names()
        self._shelf = Shelf()
        digests = Digests(self._shelf)
        self._events = Events(digests, self._shelf, by_sample=bool(job.spread))
        self._outputs = Outputs(self._watch, self._events)
        self._snapshots = Snapshots(digests, self._names)
        self._states = HandingOver(job, self._names)
        self._stepped: dict[int, Optimizer | ByHand] = {}
        self._adds_up_in_half = False
        self._held_in_half = 0
        self._drawn_by_step: list[str] = []
        self._draws_on_devices = False
        self._looked_at = 1
        self._first_step = 0.0
        self._is_long = False
        self._differentiated_once: set[int] = set()
        self._replays = 0
        self._might_replay = False
        self._goes_on = False
        self._wiped = False
        self._states_left: list[Held] = []

    def begin(self) -> None:
        """From now."""
        scaling.note_unscaled()
        draw_as_eager_code_does()
        self._watch.begin()
        self._outputs.begin()
        self._controls.begin()
        patching.around(torch.autocast, "__enter__", self._cast)
        if self._job.deterministic:
            self._determinism.begin()
        self._loaders.watch(self._drawn)
        OutermostCalls(self._called, self._called_within).begin()
        patching.around(torch.autograd, "grad", self._differentiated)

    # Batches and modules

    def _drawn(self, seen: Seen, batch: Any) -> Any:
        if self._watch.over:
            return batch
        self._events.batch(self._watch.total, seen, batch)
        return self._controls.batch(batch, self._watch.total)

    def _called(self, call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        watch = self._watch
        if watch.over or watch.in_backward or is_tried_out():
            return call(module, *args, **kwargs)
        if watch.recorded is not None:
            return self._note_call(call, module, args, kwargs)
        own = has_parameters(module)
        if own and self._names.meet(module):
            self._snapshots.take_model(0)
        args, kwargs = self._controls.inputs(module, args, kwargs, watch.total, watch.backwards)
        self._called_within()
        result = self._controls.call(call, module, args, kwargs) if own else call(module, *args, **kwargs)
        if own:
            self._events.forward(watch.total, module, result)
        return result

    def _note_call(self, call: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """A call that is recorded returns the same tensors in every replay."""
        self._called_within()
        result = call(module, *args, **kwargs)
        if has_parameters(module):
            held = [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves(result)]
            tensors = [leaf for leaf in held if isinstance(leaf, torch.Tensor)]
            self._watch.note(tensors, lambda: self._events.forward(self._watch.total, module, held))
        return result

    def _cast(self, enter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = enter(*args, **kwargs)
        self._called_within()
        return result

    def _called_within(self) -> None:
        self.half = self.half or autocast_type() in HALVES

    # Backward passes and steps

    def before_backward(self, roots: Sequence[Tensor]) -> None:
        """Keep the losses as they were before scaling."""
        if self._watch.clock + 1 == self._looked_at:
            self._adds_up_in_half = self._adds_up_in_half or halves.adds_up_in_half(roots)
        self._look_for_halves()
        self._events.backward(self._watch.total, map(scaling.unscaled, roots))

    def before_replay(self) -> None:
        """Copies of the weights are looked at now: they follow the step, and so does what is replayed with it."""
        self._replays += 1
        self._look_for_halves()
        step = self._watch.clock + 1
        if step in {self._looked_at, *self._job.handed} or self._is_last(step):
            self._take_copies(step)

    def _look_for_halves(self) -> None:
        """What a script rounds behind its steps is seen before the next one changes it."""
        if self._watch.clock + 1 == self._job.steps:
            self._held_in_half = max(self._held_in_half, halves.held_in_half(self._names.parameters()))

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Dropouts that are left out in here are left out elsewhere, too, and counted there."""
        left_out = self._controls.left_out
        before = None if left_out is None else left_out.begun()
        yield
        if left_out is not None and before is not None:
            left_out.taken_back(before)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Dropouts that are left out are left out again in every replay."""
        left_out, recorded = self._controls.left_out, self._watch.recorded
        before = None if left_out is None else left_out.begun()
        self._states_left.clear()
        yield
        assert recorded is not None
        # First of all: the last step of a run ends it, and with it what is to be done.
        if left_out is not None and before is not None:
            recorded.insert(0, functools.partial(left_out.count, left_out.taken_back(before)))
        for held in self._states_left:
            held.settle()
        if len(self._states_left) > 1 or not all(held.is_left for held in self._states_left):
            recorded.insert(0, self._go_on_unseen)

    def step_recorded(self, optimizer: Optimizer) -> None:
        """What the one that counts leaves is looked at when the replay is over, and must be the same until then."""
        if self._watch.number(optimizer) != CLOCK:
            return
        held = [value for state in optimizer.state.values() for _, value in tensors_of("", list(state.values()))]
        modules = (tensor for _, tensor in (*self._names.parameters(), *self._names.buffers()))
        self._states_left.append(Held((*modules, *held)))

    def not_replayed(self) -> None:
        """Nothing is known of a replay where none is seen; epochs that are cut short may have too few steps for one."""
        self._might_replay = not self._job.epoch

    def _go_on_unseen(self) -> None:
        self._goes_on = True

    def _differentiated(self, grad: Callable[..., Any], outputs: Any, *args: Any, **kwargs: Any) -> Any:
        watch = self._watch
        if not (watch.over or watch.in_backward or is_compiling()):
            roots = [scaling.unscaled(root) for root in roots_of(outputs)]
            if watch.recorded is None:
                self._events.backward(watch.total, roots, grad=True)
            else:
                roots = [root.detach() for root in roots]
                watch.note(roots, lambda: self._events.backward(watch.total, roots, grad=True))
        return grad(outputs, *args, **kwargs)

    def before_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool, lost: bool = False) -> None:
        """Keep the gradients, unless a closure is yet to compute them."""
        if number not in self._stepped:
            self._stepped[number] = optimizer
            if not closure:  # which is where modules may be called for the first time, and named
                self._snapshots.take_unheld(0, optimizer, number)
        self._wiped = lost
        if lost:
            self._events.step(self._watch.total, optimizer, number, None)
        elif not closure:
            self._keep_step(self._watch.total, optimizer, number)

    def after_step(self, optimizer: Optimizer | ByHand, number: int, closure: bool) -> bool:
        """Keep the state after the first step, and begin the random streams of the next."""
        watch = self._watch
        if closure:
            self._keep_step(watch.total - 1, optimizer, number)
        if number == CLOCK:
            self._end_step(watch.clock)
        if not is_captured():
            with unseen.uncompiled():
                # With the first step goes what the script has drawn before it, such as parameters.
                self._draws_on_devices |= bool(self._drawn_by_step) and seeding.draws_on_devices()
                # What steps in front of the one that counts draws from the same streams as the rest of its round.
                if number == CLOCK or not self._job.clock:
                    self._drawn_by_step.append(seeding.drawn())
                    seeding.seed_everything(self._job.seed, "step", watch.total)
        is_last = number == CLOCK and self._is_enough(watch.clock)
        if is_last:
            self._take_copies(watch.clock)
        return is_last

    def _is_enough(self, steps: int) -> bool:
        """Whether the run has seen as many steps as it is to see."""
        if steps == 1:
            self._first_step = time.monotonic()
        if steps == self._job.steps < self._job.horizon:
            each = (time.monotonic() - self._first_step) / max(steps - 1, 1)
            self._is_long = self._states.goes_on(each * (self._job.horizon - steps))
        return self._is_last(steps)

    def _is_last(self, step: int) -> bool:
        return step >= (self._job.horizon if self._is_long else self._job.steps)

    def _keep_step(self, step: int, optimizer: Optimizer | ByHand, number: int) -> None:
        # A fused optimizer gets its gradients as they are, and unscales them itself.
        divisor = getattr(optimizer, "grad_scale", None)
        if number not in self._differentiated_once:
            self._differentiated_once.add(number)
            self._snapshots.take_gradients(self._looked_at, optimizer, number, divisor)
        found = gradients(self._names.optimized(optimizer, number), divisor)
        self._events.step(step, optimizer, number, (gradient for _, gradient in found))

    def _end_step(self, step: int) -> None:
        """Keep what a step leaves that is looked at by itself, and what the next one begins with, if it is one."""
        if step in {self._looked_at, *self._job.handed}:
            self._take_all(step)
            self._take_copies(step)
        if self._states.after(step, self._stepped, wiped=self._wiped):
            self._controls.renew()
            self._snapshots.take_start(step + 1, self._stepped)
            self._looked_at = step + 1
            self._differentiated_once.clear()

    def _take_all(self, step: int) -> None:
        self._snapshots.take_model(step)
        for number, optimizer in self._stepped.items():
            self._snapshots.take_unheld(step, optimizer, number)
            self._snapshots.take_state(step, optimizer, number)

    def _take_copies(self, step: int) -> None:
        with aside():
            self._snapshots.take_copies(step, copies(self._names, self._job.root))

    # The record

    def record(self, ended: str) -> tuple[Mapping[str, Any], array[float]]:
        """Everything. Raises `RuntimeError` where the device does not answer."""
        if ended in ("steps", "exit") and self._watch.clock > 1:
            self._take_all(self._watch.clock)
        self._states.end()
        self.half = self.half or self._names.holds_half()
        self.loaders = self._loaders.describe()
        self._shelf.fetch()
        readout = Readout(self._shelf)
        # Tells how many runs fit on the device side by side.
        peak = torch.cuda.max_memory_reserved() / _MIB if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
        part = {
            **self._counts(),
            "peak_reserved_mib": peak,
            "devices": _devices(),
            "on_cpu": not _devices(),
            "held_in_half": max(self._held_in_half, halves.held_in_half(self._names.parameters())),
            "printed": self._outputs.printed,
            "events": self._events.read(readout),
            "snapshots": self._snapshots.read(readout),
        }
        return part, readout.numbers

    def lost(self) -> Mapping[str, Any]:
        """What was counted on the host."""
        self._states.end()
        return {**self._counts(), "held_in_half": 0, "printed": "", "events": [], "snapshots": []}

    def _replays_unseen(self) -> str:
        """Why not all is known of what is replayed; empty where it is."""
        if self._goes_on:
            return "a replay goes on behind the step of an optimizer, and what that step left was not seen"
        if self._might_replay and not self._replays:
            problem = not_recorded()
            return "no step was replayed in the steps that were compared" + (f": {problem}" if problem else "")
        return ""

    def _counts(self) -> dict[str, Any]:
        events, left_out = self._events, self._controls.left_out
        return {
            "batches": events.batches,
            "samples": events.samples,
            "perturbed": self._controls.perturbed,
            "left_out": None if left_out is None else left_out.calls,
            "adds_up_in_half": self._adds_up_in_half,
            "drawn": self._drawn_by_step,
            "draws_on_devices": self._draws_on_devices or not _devices(),
            "workers": self._workers.noted(),
            "handed": self._states.done,
            "replays_unseen": self._replays_unseen(),
            "unrepeatable": list(self._determinism.warned),
        }


def _devices() -> list[int]:
    """The numbers of the GPUs on which there was any tensor."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return [at for at in range(torch.cuda.device_count()) if torch.cuda.max_memory_reserved(at)]
