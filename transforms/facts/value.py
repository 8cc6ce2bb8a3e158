"""What can be known of a value: its kind, and for tensors their device, type and number of dimensions."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.classes import ClassFacts


class Kind(enum.Enum):
    """What an expression evaluates to."""

    TENSOR = "tensor"
    ARRAY = "numpy array"
    NUMBER = "number"
    TEXT = "text"
    NONE = "None"
    DEVICE = "device"
    SEQUENCE = "sequence"
    MODULE = "module"
    LOADER = "loader"
    OPTIMIZER = "optimizer"
    INSTANCE = "instance"
    OBJECT = "object"
    UNKNOWN = "unknown"


class Device(enum.Enum):
    """Where a tensor lives. `ACCELERATOR` also stands for a device that is chosen at run time."""

    CPU = "cpu"
    ACCELERATOR = "accelerator"


class DType(enum.Enum):
    """The class of a tensor's or number's type."""

    BOOL = "bool"
    INTEGER = "integer"
    FLOATING = "floating"
    COMPLEX = "complex"


@frozen
class Origin:
    """A part of what a loader yields: `path` leads from the batch to it, as `(1,)` leads to `y` in `x, y = batch`."""

    loader: cst.BaseExpression
    path: tuple[int | str, ...]


@frozen
class Value:
    """What is known of an expression's value; `None` in a field means that it is not known.

    Attributes:
        kind: see `Kind`.
        device: of tensors (and of batches that were moved).
        dtype: of tensors and numbers.
        rank: number of dimensions of a tensor, or of what a module of a loss returns.
        cls: the class of this file, for instances and modules of such a class.
        name: the qualified name of the library class or function that made an object (`torch.nn.CrossEntropyLoss`).
        call: the call that made a module, loader, optimizer or object.
        items: values of a tuple's or list's elements, where they are listed in the code.
        element: value of any element of a sequence.
        origin: for batches of a loader and their parts, also after a move to another device or a cast.
        present: what it is unless it is `None`, for what may be `None`, and else is a tensor, an instance of a class, a
            model, an optimizer or a loader; such a value is of unknown kind.
    """

    kind: Kind
    device: Device | None = None
    dtype: DType | None = None
    rank: int | None = None
    cls: ClassFacts | None = None
    name: str | None = None
    call: cst.Call | None = None
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    origin: Origin | None = None
    present: Value | None = None

    @property
    def when_used(self) -> Value:
        """What it is where something is done with it that `None` does not allow: calls and attributes."""
        return self.present or self

    @property
    def is_tensor(self) -> bool:
        """Whether it is a `torch.Tensor` for sure."""
        return self.kind is Kind.TENSOR


UNKNOWN = Value(Kind.UNKNOWN)
NUMBER = Value(Kind.NUMBER)
INTEGER = Value(Kind.NUMBER, dtype=DType.INTEGER)
FLOAT = Value(Kind.NUMBER, dtype=DType.FLOATING)
BOOL = Value(Kind.NUMBER, dtype=DType.BOOL)
TENSOR = Value(Kind.TENSOR)
ARRAY = Value(Kind.ARRAY)
OBJECT = Value(Kind.OBJECT)


def join(values: Iterable[Value]) -> Value:
    """What is true of all of several values; `UNKNOWN` where their kinds differ."""
    values = list(values)
    present = [value.present or value for value in values if value.kind is not Kind.NONE]
    if len(present) < len(values) or any(value.present is not None for value in values):
        value = join(present) if present else UNKNOWN
        if value.kind in (Kind.TENSOR, Kind.INSTANCE, Kind.MODULE, Kind.OPTIMIZER, Kind.LOADER):
            return Value(Kind.UNKNOWN, present=value)
    joined: Value | None = None
    for value in values:
        if joined is None or joined == value:
            joined = value
        elif joined.kind is not value.kind:
            return UNKNOWN
        else:
            same = {
                name: getattr(joined, name) if getattr(joined, name) == getattr(value, name) else None
                for name in ("device", "dtype", "rank", "cls", "name", "call", "element", "origin")
            }
            joined = Value(joined.kind, items=_joined_items(joined, value), **same)
    return joined if joined is not None else UNKNOWN


def _joined_items(one: Value, other: Value) -> tuple[Value, ...] | None:
    """What is true of the elements of both; `None` where there are not as many, or they are not listed."""
    if one.items is None or other.items is None or len(one.items) != len(other.items):
        return None
    return tuple(join(pair) for pair in zip(one.items, other.items, strict=True))


def dtype_named(name: str | None) -> DType | None:
    """The type that the tables of `torch_api` spell as `name`."""
    return DType(name) if name else None


def promoted(left: DType | None, right: DType | None) -> DType | None:
    """The class of type that arithmetic with both gives; `None` where it is not known."""
    widest = next((each for each in (DType.COMPLEX, DType.FLOATING) if each in (left, right)), None)
    if widest is not None:
        return widest
    if left is None or right is None:
        return None
    return DType.INTEGER if DType.INTEGER in (left, right) else DType.BOOL


def broadcast_rank(operands: Iterable[Value]) -> int | None:
    """Number of dimensions of what several operands broadcast to."""
    ranks_seen = [
        0 if value.kind is Kind.NUMBER else value.rank for value in operands if value.kind not in (Kind.NONE, Kind.TEXT)
    ]
    known = [rank for rank in ranks_seen if rank is not None]
    return max(known) if len(known) == len(ranks_seen) else None


def is_loader_name(name: str) -> bool:
    """Whether a variable that comes from elsewhere is called what loaders are called."""
    return name.rpartition(".")[2].lower().endswith(("loader", "dl", "dataloader", "loader_train", "batches"))
