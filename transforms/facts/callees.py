"""What a call may do with the tensors that it is given, in one place, with the basis of the answer.

A function in sight is followed by whoever asks. Libraries are known by their records. Of any other function the policy
holds: it may keep what it is given, write into it, and read it on the host. A rule tolerates what makes no difference
to its rewrite (a rewrite that keeps the tensor's values, but waits less, does not mind a read); where something else
is left, that is an open question.
"""

from __future__ import annotations

import enum

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.values import Values

# Libraries whose functions write into what they are given only where their names, or a table, say so.
_LIBRARIES = (
    "builtins.", "torch.", "torchvision.", "torchaudio.", "torchmetrics.", "torch_geometric.", "dgl.", "numpy.",
    "math.", "random.", "sklearn.", "scipy.", "matplotlib.", "PIL.", "tqdm.", "wandb.", "logging.", "einops.",
    "warnings.", "os.", "time.", "sys.",
)  # fmt: skip
# Methods of whatever object that do not write into what they are given, by name: containers, reports, meters.
_ONLY_READS = frozenset(
    {"append", "extend", "add", "insert", "put", "index", "count", "join", "format", "get", "add_scalar", "add_image",
     "add_images", "add_histogram", "info", "debug", "warning", "error", "log", "write", "backward", "update",
     "set_postfix", "set_description", "log_metrics"}
)  # fmt: skip


class Sight(enum.Enum):
    """How much is known of what a call runs."""

    SEEN = "in sight"
    """A function or class of the files that are read together, or a module: it can be followed."""
    LIBRARY = "a library"
    """A function or method with a record."""
    UNSEEN = "out of sight"
    """Anything else."""


@frozen
class Callee:
    """What is called.

    Attributes:
        sight: see `Sight`.
        name: how the code calls it, for messages.
    """

    sight: Sight
    name: str

    @property
    def is_unseen(self) -> bool:
        """Whether it may keep its arguments, write into them, and read them on the host, for all that is known."""
        return self.sight is Sight.UNSEEN

    @property
    def basis(self) -> str:
        """Why it may do anything, for messages."""
        return f"perfmod cannot see the code of `{self.name}`, which may keep or modify what it is given"


class Callees:
    """Answers for calls of all files."""

    def __init__(self, names: Names, values: Values) -> None:
        self._names = names
        self._values = values

    def of(self, call: cst.Call) -> Callee:
        """What a call runs."""
        return Callee(self._sight(call), dotted(call.func) or "the function that is called")

    def _sight(self, call: cst.Call) -> Sight:
        name = self._names.qualified(call.func)
        if name is not None:
            return Sight.LIBRARY if name.startswith(_LIBRARIES) else Sight.UNSEEN
        known = self._values.calls
        if known.resolve(call) is not None or known.constructed(call) is not None:
            return Sight.SEEN
        if self._values.of(call.func).when_used.kind is Kind.MODULE:
            return Sight.SEEN
        if not isinstance(call.func, cst.Attribute):
            return Sight.UNSEEN
        kind = self._values.of(call.func.value).when_used.kind
        is_known = kind not in (Kind.UNKNOWN, Kind.OBJECT, Kind.INSTANCE)
        return Sight.LIBRARY if is_known or call.func.attr.value in _ONLY_READS else Sight.UNSEEN
