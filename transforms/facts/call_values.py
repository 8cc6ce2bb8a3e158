"""What a call gives: library functions, methods of tensors, modules, constructors, and functions of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst
from attrs import evolve

from perfmod.transforms.facts import ranks, torch_api
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.placement import Placement
from perfmod.transforms.facts.tree import is_true
from perfmod.transforms.facts.value import (
    ARRAY,
    INTEGER,
    NUMBER,
    UNKNOWN,
    Device,
    DType,
    Kind,
    Origin,
    Value,
    broadcast_rank,
    dtype_named,
    is_loader_name,
    join,
    promoted,
)

if TYPE_CHECKING:
    from perfmod.transforms.facts.values import Values

_MODELS = "torchvision.models"


class CallValues:
    """Values of one file's calls."""

    def __init__(self, names: Names, placement: Placement, values: Values) -> None:
        self._names = names
        self._placement = placement
        self._values = values

    def of_call(self, node: cst.Call) -> Value:
        name = self._names.qualified(node.func)
        if name is not None:
            return self._library_call(node, name)
        if self._is_chosen_by_name(node.func):
            return Value(Kind.MODULE, name=f"{_MODELS}.get_model", call=node)
        made = self._values.calls.constructed(node)
        if made is not None:
            return self._instance(node, made)
        bound = self._values.calls.bound(node)
        if bound is not None:
            name = self._names.qualified(bound.args[0].value)
            return Value(Kind.LOADER, name=name, call=node) if name in torch_api.LOADERS else UNKNOWN
        called = self._values.calls.resolve(node)
        if called is not None:
            value = join(map(self._values.returned, self._values.calls.reached(node)))
            if value.kind is Kind.UNKNOWN and called.name.value == "forward":
                return Value(Kind.TENSOR, device=Device.ACCELERATOR)
            return value
        if self.prepares(node):
            prepared = tuple(self._prepared(arg.value) for arg in node.args)
            return prepared[0] if len(prepared) == 1 else Value(Kind.SEQUENCE, items=prepared)
        target = self._values.of(node.func)
        if target.kind is Kind.MODULE:
            return self._module_call(node, target)
        if target.kind is Kind.OBJECT and target.name is not None and target.call is None:
            return self._library_call(node, target.name)  # a class or function that is kept: `self.loss = nn.MSELoss`
        types = self._placement.tensor_types(node.func)
        if types:
            dtypes = {dtype_named(torch_api.TENSOR_TYPES[name]) for name in types}
            dtype = dtypes.pop() if len(dtypes) == 1 else None
            return Value(Kind.TENSOR, device=self._placement.device_of_types(types), dtype=dtype)
        found = UNKNOWN
        if isinstance(node.func, cst.Attribute):
            found = self._method_call(node, node.func, self._values.of(node.func.value))
        return found if found != UNKNOWN else self._out_of_sight(node)

    def _is_chosen_by_name(self, maker: cst.BaseExpression) -> bool:
        """Whether an option says which model of torchvision is made: `models.__dict__[arch]()`."""
        if isinstance(maker, cst.Subscript) and isinstance(maker.value, cst.Attribute):
            return maker.value.attr.value == "__dict__" and self._names.qualified(maker.value.value) == _MODELS
        if not isinstance(maker, cst.Call) or self._names.qualified(maker.func) != "builtins.getattr":
            return False
        return bool(maker.args) and self._names.qualified(maker.args[0].value) == _MODELS

    def _out_of_sight(self, node: cst.Call) -> Value:
        """What a function gives whose code is not known; it computes where its tensors are: `distance(x.cpu(), y)`.

        Batches on the host tell nothing: a model may bring them to its device itself, as DataParallel does with any
        tensor.
        """
        given = [self._values.of(arg.value) for arg in node.args]
        tensors = [value for value in given if value.kind not in (Kind.NUMBER, Kind.TEXT, Kind.NONE)]
        if not tensors or not all(value.is_tensor for value in tensors):
            return UNKNOWN
        if any(value.device is Device.ACCELERATOR for value in tensors):
            return Value(Kind.UNKNOWN, device=Device.ACCELERATOR)
        is_of_host = all(value.device is Device.CPU and value.origin is None for value in tensors)
        return Value(Kind.UNKNOWN, device=Device.CPU) if is_of_host and not self._values.is_parallel else UNKNOWN

    def prepares(self, call: cst.Call) -> bool:
        """Whether Accelerate or Fabric makes of what it is given, in that order, what works on its devices."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in torch_api.PREPARES:
            return False
        framework = self._values.of(call.func.value)
        is_left = framework.call is not None and argument(framework.call, "device_placement") is not None
        return (framework.name or "").startswith(torch_api.PREPARING) and not is_left

    def _prepared(self, node: cst.BaseExpression) -> Value:
        """What a loader becomes: its batches come on the device."""
        value = self._values.of(node)
        if value.kind is Kind.LOADER:
            return evolve(value, device=Device.ACCELERATOR)
        name = dotted(node.func) if isinstance(node, cst.Call) else dotted(node)
        if value.kind is Kind.UNKNOWN and is_loader_name(name):
            batch = Value(Kind.OBJECT, device=Device.ACCELERATOR, origin=Origin(node, ()))
            return Value(Kind.SEQUENCE, element=batch)
        return UNKNOWN

    def _instance(self, node: cst.Call, cls: ClassFacts) -> Value:
        if cls.derives("torch.utils.data.DataLoader"):
            return Value(Kind.LOADER, cls=cls, call=node)
        if cls.derives("torch.optim.") and not cls.derives("torch.optim.lr_scheduler."):
            return Value(Kind.OPTIMIZER, cls=cls, call=node)
        losses = {base for each in cls.lineage() for base in each.bases} & torch_api.LOSS_MODULES
        if losses and cls.method("forward") is None and cls.method("__init__") is None:
            return self._library_call(node, losses.pop())
        return Value(Kind.MODULE if cls.is_module else Kind.INSTANCE, cls=cls, call=node)

    def _module_call(self, node: cst.Call, module: Value) -> Value:
        given = join(self._values.of(arg.value) for arg in node.args[:1])
        is_scattered = given.origin is not None and self._values.is_parallel
        device = Device.ACCELERATOR if is_scattered else given.device or Device.ACCELERATOR
        if module.name in torch_api.LOSS_MODULES or (module.name is None and module.cls is None and module.rank == 0):
            # Whatever one side says: both have to be on one device.
            sides = {self._values.of(arg.value).device for arg in node.args}
            device = Device.ACCELERATOR if Device.ACCELERATOR in sides else device
            return Value(Kind.TENSOR, device=device, dtype=DType.FLOATING, rank=module.rank)
        if module.name is not None and module.name in torch_api.SEQUENCE_MODULES:
            return UNKNOWN
        if module.name is not None or module.cls is None:
            if module.name is not None and module.name.startswith("torchvision.models.detection."):
                return UNKNOWN
            dtype = DType.FLOATING if module.name is not None else None
            if module.name in torch_api.SAME_DTYPE_MODULES:
                dtype = join(self._values.of(arg.value) for arg in node.args[:1]).dtype
            return Value(Kind.TENSOR, device=device, dtype=dtype)
        return Value(Kind.TENSOR, device=device) if module.cls.method("forward") is None else UNKNOWN

    def _library_call(self, node: cst.Call, name: str) -> Value:
        first = self._values.of(node.args[0].value) if node.args else UNKNOWN
        if name in torch_api.BUILTIN_NUMBERS:
            return Value(Kind.NUMBER, dtype=dtype_named(torch_api.BUILTIN_NUMBERS[name]))
        if name in ("builtins.max", "builtins.min", "builtins.sum", "builtins.abs", "builtins.round"):
            values = [self._values.of(arg.value) for arg in node.args]
            if len(values) == 1 and name in ("builtins.max", "builtins.min", "builtins.sum"):
                value = self._values.iterated(node.args[0].value)
                is_count = name == "builtins.sum" and value.dtype is DType.BOOL
                return evolve(value, dtype=DType.INTEGER) if is_count else value
            return evolve(join(values), origin=None)
        if name in ("builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed"):
            return (
                Value(Kind.SEQUENCE, element=self._values.iterated(node.args[0].value))
                if node.args
                else Value(Kind.SEQUENCE)
            )
        if name == "builtins.next" and node.args:
            return self._values.iterated(node.args[0].value)
        if name == "builtins.iter" and node.args:
            return first
        if name in torch_api.PASSES_ITEMS and node.args:
            return (
                first
                if first.kind is not Kind.LOADER
                else Value(Kind.SEQUENCE, element=self._values.iterated(node.args[0].value))
            )
        if name in ("builtins.super", "builtins.zip", "builtins.enumerate", "builtins.range"):
            return UNKNOWN
        if name in torch_api.LOADERS:
            # DGL's bring their batches to the device that they are given.
            where = argument(node, "device") if name.startswith("dgl.") else None
            device = self._placement.device_of(where) if where is not None else None
            return Value(Kind.LOADER, device=device, name=name, call=node)
        if name == "torch.device":
            return Value(Kind.DEVICE, device=self._placement.device_of(node), call=node)
        if name.startswith("torch.optim.") and not name.startswith("torch.optim.lr_scheduler."):
            return Value(Kind.OPTIMIZER, name=name, call=node)
        if name.startswith(("torchvision.models.", "timm.create_model")) or name in torch_api.MODEL_FACTORIES:
            return Value(Kind.MODULE, name=name, call=node)
        if name in torch_api.WRAPPERS and node.args:
            return first
        if name.startswith("torch.nn.") and not name.startswith(
            ("torch.nn.functional.", "torch.nn.utils.", "torch.nn.init.")
        ):
            if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
                return Value(
                    Kind.TENSOR,
                    device=Device.ACCELERATOR,
                    dtype=first.dtype or DType.FLOATING,
                    rank=first.rank,
                )
            is_reduced = ranks.is_reduced(node.args) and len(ranks.positional(node.args)) <= 1
            rank = 0 if is_reduced and name in torch_api.LOSS_MODULES else None
            return Value(Kind.MODULE, name=name, call=node, rank=rank)
        if name.startswith(torch_api.ARRAY_LIBRARIES):
            return ARRAY
        if name.startswith("torch."):
            return self._torch_call(node, name, first)
        return Value(Kind.OBJECT, name=name, call=node) if name.rpartition(".")[2][:1].isupper() else UNKNOWN

    def _torch_call(self, node: cst.Call, name: str, first: Value) -> Value:
        short = name.removeprefix("torch.nn.functional.").removeprefix("torch.linalg.").removeprefix("torch.")
        if short in ("finfo", "iinfo"):
            return Value(Kind.OBJECT, name=name, call=node)
        if short == "meshgrid":
            grid = self._tensor_result(short, node.args[1:], first)
            return Value(Kind.SEQUENCE, element=Value(Kind.TENSOR, device=grid.device, dtype=grid.dtype))
        if short in torch_api.NOT_TENSORS:
            result = torch_api.NOT_TENSORS[short]
            return Value(Kind.NUMBER, dtype=dtype_named(result)) if result else UNKNOWN
        if short == "nn.utils.rnn.pad_sequence":
            batch = first.element or UNKNOWN
            return Value(Kind.TENSOR, device=batch.device, dtype=batch.dtype)
        if short in torch_api.GRADIENT_NORMS:
            return Value(Kind.TENSOR, device=Device.ACCELERATOR, dtype=DType.FLOATING, rank=0)
        if "." in short and not name.startswith(("torch.nn.functional.", "torch.special.", "torch.fft.")):
            return Value(Kind.OBJECT, name=name, call=node)
        if short in torch_api.CREATES:
            where = argument(node, "device")
            device = self._placement.device_of(where) if where is not None else None
            if device is None:
                here = first.device if short.endswith("_like") else self._placement.default
                device = here if where is None else Device.ACCELERATOR
            dtype, rank = dtype_named(torch_api.CREATES[short]), self._created_rank(node, short, first)
            if short.endswith("_like"):
                dtype = first.dtype
            elif first.is_tensor and short in ("tensor", "as_tensor", "asarray"):
                dtype, rank = first.dtype, first.rank
                device = first.device if where is None else device
            elif first.kind is Kind.NUMBER and short in ("tensor", "as_tensor", "asarray"):
                dtype = first.dtype
            if argument(node, "dtype") is not None:
                dtype = self._placement.dtype_argument(node)
            return Value(Kind.TENSOR, device=device, dtype=dtype, rank=rank)
        several = self._several(short, node.args[1:], first)
        if several is not None:
            return several
        if short == "where" and len(node.args) == 1:
            return _coordinates(first)
        if short == "nonzero" and is_true(argument(node, "as_tuple")):
            return _coordinates(first)
        return self._tensor_result(short, node.args[1:], first)

    def _several(self, short: str, behind: Sequence[cst.Arg], first: Value) -> Value | None:
        """The values of operations that give more than one, `x.max(dim)`; `None` for others."""
        tensor = Value(Kind.TENSOR, device=first.device, dtype=first.dtype)
        index = Value(Kind.TENSOR, device=first.device, dtype=DType.INTEGER)
        if short in torch_api.PAIRS_WITH_DIM and (not ranks.has_dim(behind) or self._second(short, behind) is not None):
            return None
        if short in torch_api.PAIRS:
            return Value(Kind.SEQUENCE, items=(tensor, tensor if short in torch_api.PAIRS_OF_VALUES else index))
        asked = [arg.value for arg in behind if arg.keyword is not None and arg.keyword.value.startswith("return_")]
        if asked and short.startswith("unique") and all(map(is_true, asked)):
            return Value(Kind.SEQUENCE, items=(tensor, *(index for _ in asked)))
        return Value(Kind.SEQUENCE) if asked else None

    def _second(self, short: str, behind: Sequence[cst.Arg]) -> Value | None:
        """The second operand of `torch.max(x, y)`."""
        second = self._values.of(behind[0].value) if behind and short in ("max", "min") else UNKNOWN
        return second if second.is_tensor else None

    def _tensor_result(self, short: str, behind: Sequence[cst.Arg], first: Value) -> Value:
        """Result of a tensor operation `torch.short(first, *behind)` or `first.short(*behind)`."""
        if self._second(short, behind) is not None:
            short = "maximum"
        given = [self._values.of(arg.value) for arg in behind]
        sources = [first, *given]
        if first.kind is Kind.SEQUENCE:
            first = first.element or join(first.items or ())
            sources.append(first)
        devices = {value.device for value in sources if value.is_tensor}
        device = (
            Device.ACCELERATOR if Device.ACCELERATOR in devices else Device.CPU if devices == {Device.CPU} else None
        )
        rank = ranks.operation_rank(short, first.rank, behind, self.is_number)
        if short in torch_api.BROADCASTS | {"where"}:
            rank = broadcast_rank((first, *given))
        elif short in torch_api.JOINS:
            rank = first.rank + (short == "stack") if first.rank else None
        return Value(Kind.TENSOR, device=device, dtype=self._result_dtype(short, behind, first, given), rank=rank)

    def _result_dtype(self, short: str, behind: Sequence[cst.Arg], first: Value, given: list[Value]) -> DType | None:
        asked = ranks.keyword(behind, "dtype")
        if asked is not None:
            return self._placement.dtype_of(asked)
        if short in torch_api.RESULT_DTYPES:
            return dtype_named(torch_api.RESULT_DTYPES[short])
        if first.dtype is DType.COMPLEX:
            return DType.FLOATING if short in ("abs", "norm", "vector_norm", "std", "var") else DType.COMPLEX
        if short in ("sum", "cumsum", "prod", "cumprod") and first.dtype is DType.BOOL:
            return DType.INTEGER
        if short == "where" and len(given) == 2:
            return promoted(given[0].dtype, given[1].dtype)
        is_division = short in ("div", "divide") and ranks.keyword(behind, "rounding_mode") is None
        if short in torch_api.FLOAT_RESULTS or is_division:
            return DType.FLOATING
        if short in torch_api.ARITHMETIC | {"div", "divide"}:
            dtype: DType | None = first.dtype
            for value in given:
                dtype = dtype if value.kind in (Kind.NONE, Kind.TEXT) else promoted(dtype, value.dtype)
            return dtype
        if short == "type_as":
            return given[0].dtype if given else None
        if short == "view" and behind and self._placement.dtype_of(behind[0].value) is not None:
            return self._placement.dtype_of(behind[0].value)
        return first.dtype if short in torch_api.SAME_DTYPE | torch_api.JOINS else None

    def is_number(self, node: cst.CSTNode) -> bool:
        return self._values.of(node).kind is Kind.NUMBER

    def _method_call(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        method = func.attr.value
        if method in ("to", "cuda", "cpu") and base.kind is not Kind.ARRAY:
            return self._moved(node, method, base)
        if base.kind is Kind.MODULE:
            if method in torch_api.MODULE_RETURNS_SELF:
                return base
            if method == "forward":
                return Value(Kind.TENSOR, device=Device.ACCELERATOR)
            if method in ("parameters", "buffers"):
                return Value(Kind.SEQUENCE, element=Value(Kind.TENSOR, device=Device.ACCELERATOR, dtype=DType.FLOATING))
            return UNKNOWN
        if base.kind is Kind.ARRAY:
            if method == "item":
                return NUMBER
            return ARRAY if method not in ("tolist", "tobytes") else UNKNOWN
        if base.kind is Kind.LOADER or base.kind is Kind.OPTIMIZER:
            return UNKNOWN
        if base.name == "argparse.ArgumentParser" and method == "parse_args":
            return Value(Kind.OBJECT, name="argparse.Namespace")
        if method == "item" and not node.args and not base.is_tensor:
            return NUMBER
        # Only tensors have a `size` that is called with a dimension, and `numel()`.
        if (method == "size" and len(node.args) == 1) or (method == "numel" and not node.args):
            return INTEGER
        known = base.is_tensor or (base.kind is Kind.UNKNOWN and method in torch_api.TENSOR_ONLY_METHODS)
        if not known:
            return UNKNOWN
        if method in torch_api.NOT_TENSORS:
            result = torch_api.NOT_TENSORS[method]
            if method == "item":
                return Value(Kind.NUMBER, dtype=base.dtype)
            return Value(Kind.NUMBER, dtype=dtype_named(result)) if result else UNKNOWN
        if method in ("size", "stride"):
            return INTEGER if node.args else Value(Kind.SEQUENCE, element=INTEGER)
        if method == "numpy":
            return ARRAY
        several = self._several(method, node.args, base)
        if several is not None:
            return several
        if method == "where" and len(node.args) == 2:
            condition, other = self._values.of(node.args[0].value), self._values.of(node.args[1].value)
            rank = broadcast_rank((base, condition, other))
            return Value(Kind.TENSOR, device=base.device, dtype=promoted(base.dtype, other.dtype), rank=rank)
        if method == "type" and not node.args:
            return Value(Kind.TEXT)
        if method == "type" and node.args:
            dtype = self._placement.dtype_of(node.args[0].value)
            types = self._placement.tensor_types(node.args[0].value)
            device = self._placement.device_of_types(types) or base.device
            return Value(Kind.TENSOR, device=device, dtype=dtype, rank=base.rank, origin=base.origin)
        if method.startswith("new_"):
            where = argument(node, "device")
            dtype = self._placement.dtype_argument(node) if argument(node, "dtype") is not None else base.dtype
            return Value(Kind.TENSOR, device=self._placement.device_of(where) if where else base.device, dtype=dtype)
        if method == "nonzero" and is_true(argument(node, "as_tuple")):
            return _coordinates(base)
        value = self._tensor_result(method.removesuffix("_"), node.args, base)
        if method.endswith("_"):
            in_place = method.removesuffix("_") in torch_api.BROADCASTS
            value = evolve(value, dtype=base.dtype, rank=base.rank if in_place else value.rank)
        if method in torch_api.CASTS or method in ("contiguous", "detach", "pin_memory", "requires_grad_"):
            value = evolve(value, origin=base.origin)
        return value

    def _moved(self, node: cst.Call, method: str, base: Value) -> Value:
        """`x.to(...)`, `x.cuda(...)`, `x.cpu()`: the same value elsewhere."""
        if base.kind in (Kind.MODULE, Kind.LOADER, Kind.OPTIMIZER):
            return base
        device: Device | None = base.device
        dtype = base.dtype
        if method == "cpu":
            device = Device.CPU
        elif method == "cuda":
            device = Device.ACCELERATOR
        else:
            where = self._placement.destination(node)
            if where is not None:
                device = self._placement.device_of(where) or Device.ACCELERATOR
                is_named = argument(node, "device") is not None or _is_device_name(where)
                if not is_named and self._values.of(where).kind is Kind.UNKNOWN:
                    dtype = None
            for arg in node.args:
                given = self._values.of(arg.value)
                if given.is_tensor:
                    device, dtype = given.device, given.dtype
                elif self._placement.dtype_of(arg.value) is not None or self._placement.is_dtype(arg.value):
                    dtype = self._placement.dtype_of(arg.value)
        return Value(
            base.kind,
            device=device,
            dtype=dtype,
            rank=base.rank,
            origin=base.origin,
            cls=base.cls,
            call=base.call,
        )

    def _created_rank(self, node: cst.Call, short: str, first: Value) -> int | None:
        if short in ("arange", "linspace", "randperm"):
            return 1
        if short.endswith("_like"):
            return first.rank
        if short == "tensor" and first.kind is Kind.NUMBER:
            return 0
        if short not in ("full", "zeros", "ones", "empty", "rand", "randn"):
            return None
        return ranks.sizes_rank(node.args[:1] if short == "full" else node.args, self.is_number)


def _coordinates(condition: Value) -> Value:
    """What nonzero gives as a tuple: one index per dimension."""
    index = Value(Kind.TENSOR, device=condition.device, dtype=DType.INTEGER, rank=1)
    return Value(Kind.SEQUENCE, device=condition.device, element=index)


def _is_device_name(node: cst.BaseExpression) -> bool:
    """Whether an argument of `x.to(...)` is a device by its name."""
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return True
    return any(word in dotted(node).rpartition(".")[2].lower() for word in ("dev", "gpu", "cuda", "cpu", "rank"))
