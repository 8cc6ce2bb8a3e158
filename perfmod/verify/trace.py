"""What one rank of an E-run saw, as the harness wrote it down, read into typed records.

Tensors come as digests: a hash of their bits, their norm, and a linear sketch. Linear means that the difference of
two sketches is the sketch of the difference, so that runs are compared without keeping a single tensor.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from attrs import evolve, frozen

from perfmod.errors import Failure

SCHEMA = 1

_AT_START = " at the start"
"""Ends the names of snapshots from the beginning of a step."""

Sketch: TypeAlias = Sequence[float]


class MalformedTrace(Failure):
    """The harness's result cannot be read; the message says where in it, and what is wrong there."""


@frozen
class Leaf:
    """A tensor of a batch, or of what a model returned.

    Attributes:
        bits: hash of the raw bits and their places, in hexadecimal.
        sketch: None where only the bits were kept.
    """

    shape: tuple[int, ...]
    dtype: str
    bits: str
    sketch: Sketch | None = None

    @property
    def content(self) -> tuple[tuple[int, ...], str, str]:
        """Equal for equal tensors."""
        return self.shape, self.dtype, self.bits


@frozen
class Digest:
    """A tensor of a snapshot.

    Attributes:
        nan, inf: how many of its values are.
        norm: L2 norm of the finite values.
        sketch: of the finite values, with zeros for the others.
    """

    shape: tuple[int, ...]
    dtype: str
    bits: str
    nan: int
    inf: int
    norm: float
    sketch: Sketch


@frozen
class Batch:
    """What a loader handed to the training process, when `step` optimizer steps had been done.

    Attributes:
        single: what tells the samples apart; empty where one process is not compared with several.
    """

    step: int
    loader: int
    epoch: int
    samples: int
    leaves: tuple[Leaf, ...]
    single: tuple[str, ...] = ()


@frozen
class Forward:
    """What the outermost call of a module with parameters returned, when `step` optimizer steps had been done."""

    step: int
    module: str
    leaves: tuple[Leaf, ...]


@frozen
class Backward:
    """A backward pass and the unscaled values of its roots, when `step` optimizer steps had been done."""

    step: int
    losses: tuple[float, ...]


@frozen
class Step:
    """A step of one optimizer; `hyper` holds the numbers of each of its parameter groups.

    Attributes:
        gradient_norm: None where the step was replayed and has overwritten its gradients.
    """

    step: int
    optimizer: int
    gradient_norm: float | None
    hyper: tuple[Mapping[str, object], ...]


@frozen
class Saved:
    """What `torch.save` got, when `step` optimizer steps had been done."""

    step: int
    leaves: tuple[Leaf, ...]


@frozen
class Worker:
    """A process that fetches samples for a loader in an epoch.

    Attributes:
        loader, epoch: as one number each, which tell them apart.
        streams: where its random streams stood when it began, by whose they are.
    """

    loader: int
    epoch: int
    number: int
    streams: Mapping[str, float]


Event: TypeAlias = Batch | Forward | Backward | Step | Saved


@frozen
class Trace:
    """One rank's run.

    Attributes:
        ended: `steps` (as many as asked were done), `exit` (the script ended by itself), `error` or `stuck`.
        error: type and message of what ended it, in one line; else empty.
        half: half types took part, through autocast or in the parameters.
        steps: by optimizer, numbered in the order of their first steps.
        skipped: steps that a gradient scaler left out.
        handed: the steps after which the original's state was written, or taken over.
        left_out: dropouts that did not take place, by their probability; None where they did, or are not known.
        drawn: by step, what tells apart how much it had drawn from the random streams that nobody names.
        workers: those of all loaders, each time that one was begun.
        adds_up_in_half: parts of the loss are single numbers of a half type.
        held_in_half: parameters whose values all fit a half type, after the last step.
        printed: to the standard output.
        replays_unseen: why not all is known of what is replayed as a CUDA graph; else empty.
        begun: how many steps of the optimizer that counts came before the events.
        events: in order.
        snapshots: tensors by key, for each pair of what was kept and the step of the optimizer that counts after which.
    """

    rank: int
    ended: str
    error: str
    half: bool
    steps: Mapping[str, int]
    backwards: int
    samples: int
    skipped: int
    handed: tuple[int, ...]
    left_out: Mapping[str, int] | None
    events: tuple[Event, ...]
    snapshots: Mapping[tuple[str, int], Mapping[str, Digest]]
    begun: int = 0
    drawn: tuple[str, ...] = ()
    workers: tuple[Worker, ...] = ()
    adds_up_in_half: bool = False
    held_in_half: int = 0
    printed: str = ""
    replays_unseen: str = ""

    @classmethod
    def read(cls, document: Mapping[str, Any], values: Sequence[float]) -> Trace:
        """The trace in a rank's JSON document and the values its sketches point to. Raises `MalformedTrace`."""
        top = _Node(document, "the result")
        if top["schema"].value != SCHEMA:
            raise MalformedTrace(f"the result has schema {top['schema'].value!r}, not {SCHEMA}")
        if top["mode"].text() != "equality":
            raise MalformedTrace(f"the result is of a {top['mode'].text()} run, not of an equality run")
        error = top["error"]
        return cls(
            rank=top["rank"].integer(),
            ended=top["ended"].text(),
            error="" if error.value is None else f"{error['type'].text()}: {error['message'].text()}",
            half=top["half"].value is True,
            steps={key: count.integer() for key, count in top["steps"].entries()},
            backwards=top["backwards"].integer(),
            samples=top["samples"].integer(),
            skipped=top["skipped"].integer(),
            handed=tuple(step.integer() for step in top["handed"].items()),
            left_out=_left_out(top["left_out"]),
            events=tuple(_event(node, values) for node in top["events"].items()),
            snapshots={
                (node["name"].text(), node["step"].integer()): {
                    key: _digest(digest, values) for key, digest in node["tensors"].entries()
                }
                for node in top["snapshots"].items()
            },
            drawn=tuple(node.text() for node in top["drawn"].items()),
            workers=tuple(_worker(node) for node in top["workers"].items()),
            adds_up_in_half=top["adds_up_in_half"].value is True,
            held_in_half=top["held_in_half"].integer(),
            printed=top["printed"].text(),
            replays_unseen=top["replays_unseen"].text(),
        )

    @classmethod
    def load(cls, path: Path) -> Trace:
        """The trace in `rank<R>.json` and the sketches beside it. Raises `MalformedTrace` and `OSError`."""
        values = array("d")
        data = path.with_suffix(".f64").read_bytes()
        try:
            values.frombytes(data)
            return cls.read(json.loads(path.read_bytes()), values)
        except (ValueError, MalformedTrace) as error:
            raise MalformedTrace(f"{path.name}: {error}") from error

    @property
    def last(self) -> int:
        """The step of the optimizer that counts after which the last snapshots were taken; 0 where none were."""
        return max((step for name, step in self.snapshots if not name.endswith(_AT_START)), default=0)

    def snapshot(self, name: str, step: int) -> Mapping[str, Digest]:
        """The tensors kept under that name after that step; empty where nothing was."""
        return self.snapshots.get((name, step), {})

    def single(self, number: int) -> Trace:
        """One step of the optimizer that counts, of which all was kept, as a run of its own."""
        done, events = 0, []
        for event in self.events:
            if done == number - 1:
                events.append(event)
            done += isinstance(event, Step) and event.optimizer == 0
        started = {name: number for name, at in self.snapshots if at == number and name.endswith(_AT_START)}
        snapshots = {
            **{(name, 1): tensors for (name, at), tensors in self.snapshots.items() if at == number},
            **{(name.removesuffix(_AT_START), 0): self.snapshots[name, number] for name in started},
        }
        return evolve(self, handed=(), events=tuple(events), snapshots=snapshots, begun=number - 1)

    def steps_drawn_otherwise(self, other: Trace) -> list[int]:
        """The steps, of all optimizers together, in which another run drew other random numbers, or more, or fewer."""
        pairs = enumerate(zip(self.drawn, other.drawn, strict=False), start=1)
        return [step for step, (mine, its) in pairs if mine != its]

    def batches(self) -> Iterator[Batch]:
        """Batches of all loaders in the order in which they were drawn."""
        return (event for event in self.events if isinstance(event, Batch))

    def forwards(self) -> Iterator[Forward]:
        """Outermost calls of models, in order."""
        return (event for event in self.events if isinstance(event, Forward))

    def lacks_gradients(self) -> bool:
        """Whether there are steps whose gradients could not be seen."""
        return any(isinstance(event, Step) and event.gradient_norm is None for event in self.events)

    def losses(self) -> tuple[float, ...]:
        """Every loss that was backpropagated, in order."""
        return tuple(loss for event in self.events if isinstance(event, Backward) for loss in event.losses)


@frozen
class _Node:
    """A value of the document and its place in it, so that a complaint can name the place."""

    value: Any
    place: str

    def __getitem__(self, key: str) -> _Node:
        if not isinstance(self.value, Mapping):
            raise self._wrong("an object")
        if key not in self.value:
            raise MalformedTrace(f"{self.place} lacks {key!r}")
        return _Node(self.value[key], key if self.place == "the result" else f"{self.place}.{key}")

    def items(self) -> list[_Node]:
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        return [_Node(value, f"{self.place}[{index}]") for index, value in enumerate(self.value)]

    def entries(self) -> list[tuple[str, _Node]]:
        if not isinstance(self.value, Mapping):
            raise self._wrong("an object")
        return [(str(key), _Node(value, f"{self.place}.{key}")) for key, value in self.value.items()]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self._wrong("a text")
        return self.value

    def integer(self) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self._wrong("an integer")
        return self.value

    def number(self) -> float:
        if not isinstance(self.value, (int, float)) or isinstance(self.value, bool):
            raise self._wrong("a number")
        return float(self.value)

    def _wrong(self, wanted: str) -> MalformedTrace:
        return MalformedTrace(f"{self.place} is {self.value!r:.60}, not {wanted}")


def _left_out(node: _Node) -> dict[str, int] | None:
    return None if node.value is None else {key: count.integer() for key, count in node.entries()}


def _worker(node: _Node) -> Worker:
    return Worker(
        loader=node["loader"].integer(),
        epoch=node["epoch"].integer(),
        number=node["worker"].integer(),
        streams={name: position.number() for name, position in node["streams"].entries()},
    )


def _event(node: _Node, values: Sequence[float]) -> Event:
    step = node["step"].integer()
    kind = node["kind"].text()
    if kind == "batch":
        return Batch(
            step=step,
            loader=node["loader"].integer(),
            epoch=node["epoch"].integer(),
            samples=node["samples"].integer(),
            leaves=_leaves(node, values),
            single=tuple(sample.text() for sample in node["single"].items()) if "single" in node.value else (),
        )
    if kind == "forward":
        return Forward(step=step, module=node["module"].text(), leaves=_leaves(node, values))
    if kind == "saved":
        return Saved(step=step, leaves=_leaves(node, values))
    if kind == "backward":
        return Backward(step=step, losses=tuple(loss.number() for loss in node["losses"].items()))
    if kind == "step":
        return Step(
            step=step,
            optimizer=node["optimizer"].integer(),
            gradient_norm=None if node["gradient_norm"].value is None else node["gradient_norm"].number(),
            hyper=tuple({key: entry.value for key, entry in group.entries()} for group in node["hyper"].items()),
        )
    raise MalformedTrace(f"{node.place} is of an unknown kind, {kind!r}")


def _leaves(node: _Node, values: Sequence[float]) -> tuple[Leaf, ...]:
    return tuple(
        Leaf(
            shape=_shape(leaf),
            dtype=leaf["dtype"].text(),
            bits=leaf["bits"].text(),
            sketch=None if leaf["sketch"].value is None else _sketch(leaf["sketch"], values),
        )
        for leaf in node["leaves"].items()
    )


def _digest(node: _Node, values: Sequence[float]) -> Digest:
    return Digest(
        shape=_shape(node),
        dtype=node["dtype"].text(),
        bits=node["bits"].text(),
        nan=node["nan"].integer(),
        inf=node["inf"].integer(),
        norm=node["norm"].number(),
        sketch=_sketch(node["sketch"], values),
    )


def _shape(node: _Node) -> tuple[int, ...]:
    return tuple(size.integer() for size in node["shape"].items())


def _sketch(node: _Node, values: Sequence[float]) -> Sketch:
    span = [bound.integer() for bound in node.items()]
    if len(span) != 2 or min(span) < 0 or sum(span) > len(values):
        raise MalformedTrace(f"{node.place} is {span}, which is no span of the {len(values)} values of the sketches")
    return values[span[0] : span[0] + span[1]]
