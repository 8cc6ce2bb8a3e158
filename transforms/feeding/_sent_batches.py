"""What workers hand to the process that trains: batches that cannot be pickled never arrive, and the loop hangs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.pickling import kept, parts, unpicklable
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._collates import makers, returned

_SAMPLES = ("__getitem__", "__getitems__", "__iter__", "__next__")
_PICKLES_ITSELF = ("__getstate__", "__reduce__", "__reduce_ex__")


@define(eq=False)
class _Sent:
    """Looks into what is sent, down to the first thing that cannot be.

    Attributes:
        lost: that thing, and what messages call it.
        hands_on: whether a part of it comes from a parameter or out of a call, and may be what that was given.
    """

    file: FileFacts
    lost: tuple[cst.CSTNode, str] | None = None
    hands_on: bool = False
    seen: set[cst.CSTNode] = field(factory=set)

    def follow(self, nodes: Iterable[cst.BaseExpression]) -> None:
        for node in nodes:
            self.hands_on = self.hands_on or any(
                isinstance(end.node, cst.Param) or _collates_as_usual(self.file, end.node)
                for end in self.file.tracing.ends(node)
            )
            for made in kept(self.file, node):
                if self.lost is None and made not in self.seen:
                    self.seen.add(made)
                    text = unpicklable(self.file, made)
                    if text:
                        self.lost = made, text
                    self.follow(parts(self.file, made))
                    cls = self.file.values.calls.constructed(made) if isinstance(made, cst.Call) else None
                    if isinstance(made, cst.Call) and (cls is not None or self.file.tracing.fields(made.func)):
                        self.follow(arg.value for arg in made.args)
                    if cls is not None and not any(cls.method(name) for name in _PICKLES_ITSELF):
                        self.follow(_attributes(cls))


def unsendable(file: FileFacts, loader: Loader, work: WorkerCode) -> tuple[cst.CSTNode, str] | None:
    """What batches consist of that cannot be pickled, and what messages call it; `None` where nothing is in sight."""
    collates = list(makers(file, loader))
    batches = _Sent(file)
    batches.follow(given for maker in collates for given in returned(maker))
    if batches.lost is not None or (collates and not batches.hands_on):
        return batches.lost
    sent = _Sent(file)
    sent.follow(samples(file, work))
    return sent.lost


def _collates_as_usual(file: FileFacts, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and (file.qualified(node) or "").endswith(".default_collate")


def _attributes(cls: ClassFacts) -> Iterator[cst.BaseExpression]:
    """What the objects of a class keep."""
    for base in cls.lineage():
        for assignments in base.assigned.values():
            yield from (each.value for each in assignments if each.value is not None and each.method is not None)


def samples(file: FileFacts, work: WorkerCode) -> Iterator[cst.BaseExpression]:
    """What the datasets of a loader give; an iterator stays in the worker, and what it yields does not."""
    for function in work.functions:
        name = function.name.value if isinstance(function, cst.FunctionDef) else ""
        if isinstance(function, cst.FunctionDef) and name in _SAMPLES:
            for result in file.tree.results(function):
                value = result.value
                gives = isinstance(result, cst.Yield) if name == "__iter__" else isinstance(result, cst.Return)
                if gives and isinstance(value, cst.BaseExpression):
                    yield value
