"""Where tensors are put and of which type they are made: the device and type arguments of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.flow import Binding, Flow, Read, dotted
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind, dtype_named

if TYPE_CHECKING:
    from perfmod.transforms.facts.tree import Tree
    from perfmod.transforms.facts.values import Values


class Placement:
    """Devices and types that the expressions name."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._values = values
        self._named_device = Questions(values.solver, self._find_named_device, Device.ACCELERATOR, may_give_up=True)
        self._is_named_dtype = Questions(values.solver, self._find_named_dtype, False)
        self._named_dtypes = Questions(values.solver, self._dtype_of_name, None)
        self._defaults = Questions[None, tuple[cst.Call, ...]](values.solver, self._find_defaults, ())

    @property
    def defaults(self) -> tuple[cst.Call, ...]:
        """The calls after which tensors are not made on the CPU where nothing says the device: `set_default_device`."""
        return self._defaults(None)

    def _find_defaults(self, _: None) -> tuple[cst.Call, ...]:
        return tuple(call for call in self._tree.all(cst.Call) if self._moves_default(call))

    def _moves_default(self, call: cst.Call) -> bool:
        name = self._names.qualified(call.func) if call.args else None
        given = call.args[0].value if call.args else call
        if name == "torch.set_default_device":
            return self.device_of(given) is not Device.CPU
        if name == "torch.set_default_tensor_type":
            text = given.evaluated_value if isinstance(given, cst.SimpleString) else self._names.qualified(given)
            return text is None or "cuda" in str(text)
        return False

    @property
    def default(self) -> Device:
        """Where tensors are made for which nothing says the device."""
        return Device.ACCELERATOR if self.defaults else Device.CPU

    def destination(self, call: cst.Call) -> cst.BaseExpression | None:
        """The device argument of `x.to(...)`, by name or number; `None` where only the type is changed."""
        named = argument(call, "device")
        if named is not None:
            return named
        for arg in call.args:
            if self.is_dtype(arg.value):
                return None
            if arg.keyword is None and self.dtype_of(arg.value) is None and not arg.star:
                value = self._values.of(arg.value)
                if value.kind is Kind.NONE:
                    continue
                if value.is_tensor:
                    return None
                return arg.value
            break
        return None

    def is_dtype(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a type as far as it shows: `x.dtype`, `torch.cfloat`, `weight_dtype`."""
        if "dtype" in dotted(node).rpartition(".")[2]:
            return True
        if isinstance(node, cst.IfExp):
            return self.is_dtype(node.body) and self.is_dtype(node.orelse)
        if self._flow.is_variable(node):
            return self._is_named_dtype(node)
        name = self._names.qualified(node) or ""
        return name in torch_api.DTYPES or name in torch_api.TENSOR_TYPES

    def _find_named_dtype(self, node: Read) -> bool:
        values = [d.value for d in self._flow.definitions(node) if d.value is not None]
        return bool(values) and all(isinstance(v, (cst.Attribute, cst.IfExp)) and self.is_dtype(v) for v in values)

    def device_of(self, node: cst.BaseExpression | None) -> Device | None:
        """The device that an expression names: `CPU` only where it can be nothing else."""
        if node is None:
            return None
        if isinstance(node, cst.SimpleString):
            text = node.evaluated_value
            return Device.CPU if isinstance(text, str) and text.startswith("cpu") else Device.ACCELERATOR
        if isinstance(node, cst.Integer):
            return Device.ACCELERATOR
        if isinstance(node, cst.Call) and self._names.qualified(node.func) == "torch.device" and node.args:
            return self.device_of(node.args[0].value)
        if isinstance(node, cst.IfExp):
            found = {self.device_of(node.body), self.device_of(node.orelse)}
            return Device.CPU if found == {Device.CPU} else Device.ACCELERATOR
        if isinstance(node, cst.Attribute) and (written := self._set_above(node)) is not None:
            return self.device_of(written)
        if self._flow.is_variable(node):
            return self._named_device(node)
        if isinstance(node, cst.Attribute) and node.attr.value == "device":
            owner = self._values.of(node.value)
            return owner.device if owner.is_tensor else Device.ACCELERATOR
        return Device.ACCELERATOR

    def _find_named_device(self, node: Read) -> Device:
        """The device that a variable names."""
        found = {
            self.device_of(d.value) if d.binding is Binding.ASSIGNED and not d.path else Device.ACCELERATOR
            for d in self._flow.definitions(node)
        }
        return Device.CPU if found == {Device.CPU} else Device.ACCELERATOR

    def _set_above(self, node: cst.Attribute) -> cst.BaseExpression | None:
        """What the nearest assignment above sets an attribute to, `config.device = "cpu"`, where nothing but plain
        statements of the same blocks come between; `None` where there is none.
        """
        code = dotted(node)
        child: cst.CSTNode = node
        for ancestor in self._tree.ancestors(node):
            if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef, cst.For, cst.While)):
                return None
            if isinstance(ancestor, (cst.IndentedBlock, cst.Module)):
                above = ancestor.body[: next((i for i, each in enumerate(ancestor.body) if each is child), 0)]
                for statement in reversed(above):
                    sets = [each for each in find_all(statement, cst.Assign) if self._sets(each, code)]
                    if sets:
                        is_plain = isinstance(statement, cst.SimpleStatementLine) and len(sets) == 1
                        return sets[0].value if is_plain else None
            child = ancestor
        return None

    @staticmethod
    def _sets(node: cst.Assign, code: str) -> bool:
        return any(dotted(target.target) == code for target in node.targets)

    def tensor_types(self, node: cst.BaseExpression, depth: int = 3) -> frozenset[str]:
        """The old types of tensors that an expression may be, `torch.cuda.FloatTensor if cuda else torch.FloatTensor`
        or a name for that; none where it may be anything else.
        """
        if isinstance(node, cst.IfExp):
            branches = self.tensor_types(node.body, depth), self.tensor_types(node.orelse, depth)
            return frozenset().union(*branches) if all(branches) else frozenset()
        if isinstance(node, cst.SimpleString):
            return frozenset({str(node.evaluated_value)} & torch_api.TENSOR_TYPES.keys())
        if depth and self._flow.is_variable(node):
            bound = self._flow.definitions(node)
            found = [self.tensor_types(d.value, depth - 1) if d.value is not None and not d.path else () for d in bound]
            return frozenset().union(*found) if all(found) else frozenset()
        return frozenset({self._names.qualified(node) or ""} & torch_api.TENSOR_TYPES.keys())

    def device_of_types(self, types: frozenset[str]) -> Device | None:
        """Where tensors of old types lie, where a device is there; None without any type."""
        if not types:
            return None
        return Device.ACCELERATOR if any(name.startswith("torch.cuda.") for name in types) else Device.CPU

    def dtype_argument(self, node: cst.Call) -> DType | None:
        """The type that `dtype=` names."""
        given = argument(node, "dtype")
        return self.dtype_of(given) if given is not None else None

    def dtype_of(self, node: cst.BaseExpression) -> DType | None:
        """The type that an expression such as `torch.float16` or `x.dtype` names."""
        name = self._names.qualified(node)
        if name is None and isinstance(node, cst.Attribute) and node.attr.value == "dtype":
            return self._values.of(node.value).dtype
        if isinstance(node, cst.IfExp):
            both = {self.dtype_of(node.body), self.dtype_of(node.orelse)}
            return both.pop() if len(both) == 1 else None
        if name is None and isinstance(node, cst.Name) and self.is_dtype(node):
            return self._named_dtypes(node)
        return dtype_named(torch_api.DTYPES.get(name or "")) or dtype_named(torch_api.TENSOR_TYPES.get(name or ""))

    def _dtype_of_name(self, node: cst.Name) -> DType | None:
        definitions = self._flow.definitions(node)
        given = [d.value for d in definitions if d.binding is Binding.ASSIGNED and not d.path]
        types = {self.dtype_of(v) if isinstance(v, (cst.Attribute, cst.IfExp)) else None for v in given}
        return types.pop() if len(types) == 1 and len(given) == len(definitions) else None
