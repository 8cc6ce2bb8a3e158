"""What is sent to a worker with a bound method: `collate_fn=self.collate` sends all that `self` keeps."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.calls import is_decorated
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.pickling import kept, parts, put_in, unpicklable
from perfmod.transforms.facts.value import Device, Kind

if TYPE_CHECKING:
    from perfmod.transforms.facts.file import FileFacts

_PICKLES_ITSELF = ("__getstate__", "__reduce__", "__reduce_ex__")
_PLAIN = frozenset({"argparse", "omegaconf", "hydra", "tqdm", "yacs", "easydict", "addict", "configparser", "toml"})
"""Libraries whose objects are settings, or text."""


class Fault(enum.Enum):
    """What is wrong with a thing that is sent along."""

    LOST = "cannot be pickled"
    MOVED = "may lie on the device"
    UNSEEN = "is not in sight"


def owner(file: FileFacts, method: cst.CSTNode) -> ClassFacts | None:
    """The class whose instance a method is sent with; `None` for functions, and for methods without an instance."""
    around = file.tree.class_of(method) if isinstance(method, cst.FunctionDef) else None
    if not isinstance(method, cst.FunctionDef) or around is None:
        return None
    alone = is_decorated(method, "staticmethod", "classmethod") or len(list(parameters(method))) < 2
    return None if alone else file.classes.of(around)


def sent_along(file: FileFacts, cls: ClassFacts) -> list[tuple[Fault, cst.CSTNode, str]]:
    """What an instance of a class keeps that should not be sent to workers, and what messages call it."""
    found = _Along(file)
    found.look_into(cls)
    return found.faults


@define(eq=False)
class _Along:
    file: FileFacts
    faults: list[tuple[Fault, cst.CSTNode, str]] = field(factory=list)
    seen: set[cst.CSTNode] = field(factory=set)

    def look_into(self, cls: ClassFacts) -> None:
        family = dict.fromkeys((*cls.lineage(), *cls.descendants()))
        if cls.node in self.seen or any(cls.method(name) for name in _PICKLES_ITSELF):
            return
        self.seen.update(each.node for each in family)
        if isinstance(self.file.tree.scope(cls.node), cst.FunctionDef):
            self._note(Fault.LOST, cls.node, unpicklable(self.file, cls.node))
        if cls.is_module:
            self._note(Fault.MOVED, cls.node, cls.name)
        for each in family:
            for base in (arg.value for arg in each.node.bases):
                name = self.file.names.qualified(base)
                if name is not None and not name.startswith(data_api.KNOWN_BASES):
                    self._note(Fault.UNSEEN, base, f"the base class {self._code(base)}")
            for value in self._values(each, cls):
                self._follow(value)

    def _values(self, each: ClassFacts, cls: ClassFacts) -> Iterator[cst.BaseExpression]:
        """What one class assigns to attributes of its instances, and what others do."""
        for assignments in each.assigned.values():
            yield from (item.value for item in assignments if item.value is not None and item.method is not None)
        yield from put_in(self.file, each)
        for name in sorted(self.file.classes.attributes):
            for instance, assignment in self.file.classes.assigned_elsewhere(name):
                if assignment.value is not None and self.file.value(instance).cls is cls:
                    yield assignment.value

    def _follow(self, value: cst.BaseExpression) -> None:
        known = self.file.value(value)
        if self._is_begun(value):
            self._note(Fault.LOST, value, f"the iterator {self._code(value)}")
            return
        on_device = known.kind is Kind.TENSOR and known.device is Device.ACCELERATOR
        if known.kind in (Kind.MODULE, Kind.OPTIMIZER) or on_device:
            self._note(Fault.MOVED, value, self._code(value))
            return
        if known.kind in (Kind.NUMBER, Kind.TEXT, Kind.NONE, Kind.DEVICE, Kind.ARRAY, Kind.TENSOR, Kind.LOADER):
            return
        for made in kept(self.file, value):
            if made not in self.seen:
                self.seen.add(made)
                self._look_at(made)

    def _is_begun(self, value: cst.BaseExpression) -> bool:
        """Whether a value is the iterator of a loader."""
        return (
            isinstance(value, cst.Call)
            and self.file.names.qualified(value.func) == "builtins.iter"
            and any(self.file.value(arg.value).kind is Kind.LOADER for arg in value.args)
        )

    def _look_at(self, made: cst.CSTNode) -> None:
        text = unpicklable(self.file, made)
        if text:
            self._note(Fault.LOST, made, text)
            return
        for part in parts(self.file, made):
            self._follow(part)
        if isinstance(made, cst.Param):
            self._note(Fault.UNSEEN, made, made.name.value)
        elif isinstance(made, cst.FunctionDef) and (cls := owner(self.file, made)) is not None:
            self.look_into(cls)
        elif isinstance(made, cst.Call):
            cls = self.file.values.calls.constructed(made)
            if cls is not None:
                self.look_into(cls)
            elif self.file.value(made).kind in (Kind.MODULE, Kind.OPTIMIZER):
                self._note(Fault.MOVED, made, self._code(made))
            elif not self._is_plain(made):
                self._note(Fault.UNSEEN, made, self._code(made))

    def _is_plain(self, call: cst.Call) -> bool:
        """Whether a call of a library gives settings, texts, numbers or containers of those."""
        name = self.file.names.qualified(call.func)
        if name is not None:
            package = name.partition(".")[0]
            keeps_model = name.startswith(("torch.optim.", "torch.cuda.", "torch.nn."))
            return package in data_api.TRUSTED | _PLAIN and not keeps_model
        if not isinstance(call.func, cst.Attribute):
            return False
        if call.func.attr.value in data_api.COMMON_METHODS:
            return True
        ends = [end.node for end in self.file.tracing.ends(call.func.value)]
        return bool(ends) and all(isinstance(end, cst.Call) and end is not call and self._is_plain(end) for end in ends)

    def _note(self, fault: Fault, node: cst.CSTNode, text: str) -> None:
        self.faults.append((fault, node, text))

    def _code(self, node: cst.CSTNode) -> str:
        text = " ".join(self.file.code(node).split())
        return text if len(text) <= 40 else text[:37] + "..."
