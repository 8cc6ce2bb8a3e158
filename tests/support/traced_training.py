"""A small network trained for a few steps in this process, with the trace that an equality run would leave."""

from __future__ import annotations

import functools
import hashlib
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from attrs import evolve, frozen
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from perfmod.verify.trace import Backward, Digest, Event, Trace

BUCKETS = 128


@frozen
class Recipe:
    """What is trained, and what is done differently.

    Attributes:
        reordered: means are summed up in another order.
        jitter: seeds noise of one rounding unit on gradients of activations, as atomic additions make; None: none.
        noise_seed: seeds noise of `noise` rounding units on the inputs; None: none.
        data_seed: draws the samples.
        steps_ahead: batches that are drawn before they are needed.
        inputs, targets, head, loss: change what the loader gave, the logits and the loss; the first argument is the
            step, from 1.
        model: changes the model after a step.
        handed: steps after which the state of the same training without any changes is taken over.
    """

    seed: int = 0
    steps: int = 12
    optimizer: str = "sgd"
    lr: float = 0.05
    dtype: torch.dtype = torch.float32
    autocast: bool = False
    reordered: bool = False
    jitter: int | None = None
    noise_seed: int | None = None
    noise: float = 1.0
    data_seed: int = 0
    steps_ahead: int = 0
    loss: Callable[[int, Tensor], Tensor] | None = None
    inputs: Callable[[int, Tensor], Tensor] | None = None
    targets: Callable[[int, Tensor], Tensor] | None = None
    model: Callable[[int, nn.Module], None] | None = None
    head: Callable[[int, Tensor], Tensor] | None = None
    handed: tuple[int, ...] = ()


class Net(nn.Module):
    """Two convolutions with biases in front of batch norms, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.other = nn.BatchNorm2d(16)
        self.last = nn.Linear(16, 10)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        return F.relu(self.other(self.second(x)))


def train(recipe: Recipe | None = None, **changes: Any) -> Trace:
    """The trace of one run."""
    return Trace.read(*document(evolve(recipe or Recipe(), **changes)))


def document(recipe: Recipe) -> tuple[dict[str, Any], array[float]]:
    """The harness's JSON and its sketches."""
    written = _Writer()
    torch.manual_seed(recipe.seed)
    model = Net().to(recipe.dtype)
    optimizer = _optimizer(recipe, model)
    jitter = None if recipe.jitter is None else torch.Generator().manual_seed(recipe.jitter)
    events: list[dict[str, Any]] = []
    snapshots: list[dict[str, Any]] = []

    def snapshot(name: str, step: int, tensors: Iterable[tuple[str, Tensor]]) -> None:
        digests = {f"0.{key}": written.digest(tensor) for key, tensor in tensors}
        snapshots.append({"name": name, "step": step, "tensors": digests})

    def state() -> list[tuple[str, Tensor]]:
        return [
            (f"{key}/{name}", value)
            for key, parameter in model.named_parameters()
            for name, value in optimizer.state[parameter].items()
            if isinstance(value, Tensor)
        ]

    def draw(batch: int, step: int) -> None:
        images, labels = _batch(recipe, batch)
        leaves = [written.leaf(images), written.leaf(labels)]
        events.append({"kind": "batch", "step": step, "loader": 0, "epoch": 0, "samples": 16, "leaves": leaves})

    snapshot("parameters", 0, model.named_parameters())
    snapshot("buffers", 0, model.named_buffers())
    for ahead in range(recipe.steps_ahead):
        draw(ahead, 0)
    for step in range(1, recipe.steps + 1):
        draw(step - 1 + recipe.steps_ahead, step - 1)
        images, labels = _batch(recipe, step - 1)
        images = recipe.inputs(step, images) if recipe.inputs else images
        labels = recipe.targets(step, labels) if recipe.targets else labels
        if recipe.noise_seed is not None:
            images = _shaken(images, torch.Generator().manual_seed(recipe.noise_seed + 1000 * step), recipe.noise)
        logits, loss = _forward(recipe, step, model, images.to(recipe.dtype), labels, jitter)
        leaves = [written.leaf(logits, sketch=True)]
        events.append({"kind": "forward", "step": step - 1, "module": "Net", "leaves": leaves})
        optimizer.zero_grad()
        loss.backward()
        events.append({"kind": "backward", "step": step - 1, "losses": [loss.item()]})
        if step == 1 or step - 1 in recipe.handed:
            kept = [(key, p.grad) for key, p in model.named_parameters() if p.grad is not None]
            snapshot("gradients", step, kept)
        total = math.hypot(*(p.grad.double().norm().item() for p in model.parameters() if p.grad is not None))
        hyper = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
        optimizer.step()
        if recipe.model:
            recipe.model(step, model)
        events.append(
            {"kind": "step", "step": step - 1, "optimizer": 0, "gradient_norm": total, "hyper": hyper},
        )
        if step in (1, recipe.steps, *recipe.handed) or step - 1 in recipe.handed:
            snapshot("parameters", step, model.named_parameters())
            snapshot("buffers", step, model.named_buffers())
            snapshot("optimizer state", step, state())
        if step in recipe.handed:
            _take_over(model, optimizer, _state_of_original(recipe.optimizer, recipe.lr, step))
            snapshot("parameters at the start", step + 1, model.named_parameters())
            snapshot("buffers at the start", step + 1, model.named_buffers())
            snapshot("optimizer state at the start", step + 1, state())
    result = {
        "schema": 1,
        "mode": "equality",
        "rank": 0,
        "ended": "steps",
        "error": None,
        "half": recipe.autocast,
        "steps": {"0": recipe.steps},
        "backwards": recipe.steps,
        "batches": recipe.steps + recipe.steps_ahead,
        "samples": 16 * (recipe.steps + recipe.steps_ahead),
        "skipped": 0,
        "optimizers": 1,
        "left_out": None,
        "drawn": [],
        "workers": [],
        "adds_up_in_half": False,
        "held_in_half": 0,
        "replays_unseen": "",
        "handed": list(recipe.handed),
        "printed": "",
        "events": events,
        "snapshots": snapshots,
    }
    return result, written.values


def with_digest(trace: Trace, name: str, step: int, key: str, change: Callable[[Digest], Digest | None]) -> Trace:
    """The trace with another tensor in a snapshot; None takes it out."""
    tensors = dict(trace.snapshots[name, step])
    changed = change(tensors.pop(key))
    if changed is not None:
        tensors[key] = changed
    return evolve(trace, snapshots={**trace.snapshots, (name, step): tensors})


def scaled(factor: float) -> Callable[[Digest], Digest]:
    """Multiplies a tensor."""
    return lambda digest: evolve(
        digest,
        bits=f"{digest.bits}*{factor}",
        norm=digest.norm * factor,
        sketch=[factor * value for value in digest.sketch],
    )


def renamed(trace: Trace, rename: Callable[[str], str]) -> Trace:
    """The trace with other keys of tensors."""
    snapshots: dict[tuple[str, int], Mapping[str, Digest]] = {
        place: {rename(key): digest for key, digest in tensors.items()} for place, tensors in trace.snapshots.items()
    }
    return evolve(trace, snapshots=snapshots)


def with_events(trace: Trace, change: Callable[[Event], Event | None]) -> Trace:
    """The trace with other events; None takes one out."""
    changed = (change(event) for event in trace.events)
    return evolve(trace, events=tuple(event for event in changed if event is not None))


def with_losses(trace: Trace, change: Callable[[int, float], float]) -> Trace:
    """The trace with other losses; `change` is given the step, from 1, and the loss."""

    def changed(event: Event) -> Event:
        if not isinstance(event, Backward):
            return event
        return evolve(event, losses=tuple(change(event.step + 1, loss) for loss in event.losses))

    return with_events(trace, changed)


class _Writer:
    """Digests of tensors, and the sketches they point to."""

    def __init__(self) -> None:
        self.values = array("d")

    def digest(self, tensor: Tensor) -> dict[str, Any]:
        tensor = tensor.detach()
        finite = tensor.double().nan_to_num(0.0, 0.0, 0.0)
        return {
            **self.leaf(tensor, sketch=True),
            "nan": int(tensor.isnan().sum()),
            "inf": int(tensor.isinf().sum()),
            "norm": finite.norm().item(),
        }

    def leaf(self, tensor: Tensor, *, sketch: bool = False) -> dict[str, Any]:
        tensor = tensor.detach()
        bits = hashlib.sha256(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        return {
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "bits": bits,
            "sketch": self._sketch(tensor) if sketch else None,
        }

    def _sketch(self, tensor: Tensor) -> list[int]:
        flat = tensor.reshape(-1).double().nan_to_num(0.0, 0.0, 0.0)
        index = torch.arange(flat.numel())
        mixed = (index * 0x9E3779B1) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 15)) * 0x85EBCA77) & 0xFFFFFFFF
        signs = ((mixed >> 16) % 2 * 2 - 1).double()
        buckets = torch.zeros(min(BUCKETS, flat.numel()), dtype=torch.float64)
        buckets.index_add_(0, index % BUCKETS, signs * flat)
        offset = len(self.values)
        self.values.extend(buckets.tolist())
        return [offset, buckets.numel()]


class _Jitter(torch.autograd.Function):
    """Leaves the forward pass alone and shakes gradients by a rounding unit."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, generator: torch.Generator) -> Tensor:
        ctx.generator = generator
        return x.clone()

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        return _shaken(grad, ctx.generator, 1.0), None


def _shaken(x: Tensor, generator: torch.Generator, units: float) -> Tensor:
    noise = torch.rand(x.shape, generator=generator).sub(0.5).sign().to(x.dtype)
    return x * (1 + units * torch.finfo(x.dtype).eps * noise)


def _batch(recipe: Recipe, batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(recipe.data_seed + batch)
    images = torch.randn(16, 3, 8, 8, generator=generator)
    labels = torch.randint(10, (16,), generator=generator)
    return images + 0.2 * labels.view(-1, 1, 1, 1), labels


def _take_over(model: nn.Module, optimizer: torch.optim.Optimizer, given: Sequence[Tensor]) -> None:
    for tensor, value in zip(_state(model, optimizer), given, strict=True):
        tensor.copy_(value)


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[Tensor]:
    held = [each.data for each in (*model.parameters(), *model.buffers())]
    states = (optimizer.state[parameter] for parameter in model.parameters())
    return held + [value for state in states for value in state.values() if isinstance(value, Tensor)]


@functools.cache
def _state_of_original(optimizer: str, lr: float, steps: int) -> list[Tensor]:
    """What a training without changes has after so many steps."""
    recipe = Recipe(optimizer=optimizer, lr=lr)
    torch.manual_seed(recipe.seed)
    model = Net()
    stepping = _optimizer(recipe, model)
    for step in range(1, steps + 1):
        images, labels = _batch(recipe, step - 1)
        _, loss = _forward(recipe, step, model, images, labels, None)
        stepping.zero_grad()
        loss.backward()
        stepping.step()
    return _state(model, stepping)


def _optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    if recipe.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), recipe.lr / 10)
    return torch.optim.SGD(model.parameters(), recipe.lr, momentum=0.9)


def _forward(
    recipe: Recipe, step: int, model: Net, images: Tensor, labels: Tensor, jitter: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """The logits and their loss."""
    with torch.autocast("cpu", torch.bfloat16, enabled=recipe.autocast):
        features = model.features(images)
        if jitter is not None:
            features = _Jitter.apply(features, jitter)
        # The same means; one adds rows and columns up one after the other.
        pooled = features.mean(3).flip(2).mean(2) if recipe.reordered else features.mean((2, 3))
        logits = model.last(pooled)
    logits = recipe.head(step, logits) if recipe.head else logits
    logits = logits.to(recipe.dtype)
    if recipe.reordered:
        picked = logits.log_softmax(1).flip(0).gather(1, labels.flip(0)[:, None])
        loss = -picked.sum() / len(labels)
    else:
        loss = F.cross_entropy(logits, labels)
    return logits, recipe.loss(step, loss) if recipe.loss else loss
