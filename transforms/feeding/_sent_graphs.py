"""Samples that need gradients: a tensor with a graph behind it cannot be sent to another process.

Workers raise "Cowardly refusing to serialize non-leaf tensor which requires_grad". Only what is shown to come out of
parameters is found here; what is detached, made under `torch.no_grad()` or by frozen parameters can be sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.gradients import runs_without_graph
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all, is_true
from perfmod.transforms.facts.value import DType, Kind, Value
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._collates import makers, returned
from perfmod.transforms.feeding._sent_batches import samples

_LAYERS = (
    "Linear", "Bilinear", "LazyLinear", "Conv", "LazyConv", "BatchNorm", "LayerNorm", "GroupNorm", "Embedding", "RNN",
    "LSTM", "GRU", "MultiheadAttention", "Transformer", "PReLU",
)  # fmt: skip
"""How the names of torch.nn's layers with parameters begin."""
_MODELS = ("torchvision.models.", "timm.create_model", "torch.hub.load", "transformers.", "open_clip.", "clip.load")
_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
_AROUND = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")
_CUTS = frozenset(
    {
        "detach", "detach_", "item", "numpy", "tolist", "argmax", "argmin", "argsort", "long", "int", "bool", "byte",
        "size", "dim", "numel", "eq", "ne", "gt", "ge", "lt", "le", "sign", "round", "isnan", "nonzero",
    }
)  # fmt: skip
"""Functions and methods whose results belong to no graph."""
_SWITCHES = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})
_RUNS = ("forward", "encode", "extract", "get_image_features", "get_text_features", "features")
_DEEPEST = 12


def needs_graph(file: FileFacts, loader: Loader, work: WorkerCode) -> cst.CSTNode | None:
    """What is sent by the workers of a loader and shown to need gradients; `None` where nothing is."""
    if file.once(_switches_off):
        return None
    collates = list(makers(file, loader))
    sent = [given for maker in collates for given in returned(maker)]
    if not any(_mentions_cut(file, maker) for maker in collates):
        sent += samples(file, work)
    return next((node for node in sent if _needs(file, node, 0)), None)


def _switches_off(file: FileFacts) -> bool:
    """Whether a call switches gradients off for all that follows."""
    return any(file.qualified(call) in _SWITCHES for call in file.tree.all(cst.Call))


def _mentions_cut(file: FileFacts, function: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether a function may cut a graph anywhere."""
    return any(
        runs_without_graph(file, call) or (isinstance(call.func, cst.Attribute) and call.func.attr.value in _CUTS)
        for call in find_all(function.body, cst.Call)
    )


def _needs(file: FileFacts, node: cst.CSTNode, depth: int) -> bool:
    if depth > _DEEPEST or runs_without_graph(file, node):
        return False
    value = file.value(node)
    if value.kind in (Kind.NUMBER, Kind.TEXT, Kind.ARRAY, Kind.NONE) or value.dtype in (DType.INTEGER, DType.BOOL):
        return False
    if isinstance(node, cst.Call):
        return _call_needs(file, node, depth + 1)
    if isinstance(node, cst.Name) and any(_is_told(file, each) for each in file.flow.definitions(node)):
        return True
    return any(_needs(file, source, depth + 1) for source in _sources(file, node))


def _sources(file: FileFacts, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The expressions whose graphs an expression goes on with."""
    if isinstance(node, (cst.Tuple, cst.List)):
        return [element.value for element in node.elements]
    if isinstance(node, cst.Dict):
        return [entry.value for entry in node.elements]
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        return [node.elt]
    if isinstance(node, cst.Subscript):
        return [node.value]
    if isinstance(node, cst.UnaryOperation):
        return [node.expression]
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, cst.Name):
        return [value for definition in file.flow.definitions(node) for value in _given(file, definition)]
    if isinstance(node, cst.Attribute):
        own = file.classes.self_attribute(node)
        if own is not None:
            return [each.value for each in own[0].assignments(own[1]) if each.value is not None]
        return [node.value] if node.attr.value not in ("data", "shape", "dtype", "device") else []
    return []


def _asks(call: cst.Call) -> bool:
    """Whether a call of `requires_grad_` asks for gradients."""
    return not call.args or is_true(call.args[0].value)


def _is_told(file: FileFacts, definition: Definition) -> bool:
    """Whether a variable is told to need gradients: `x.requires_grad_()`, `x.requires_grad = True`."""
    for use in file.flow.uses(definition):
        asked = file.tree.parent(use)
        around = file.tree.parent(asked) if isinstance(asked, cst.Attribute) and asked.value is use else None
        if isinstance(asked, cst.Attribute) and isinstance(around, cst.Call) and asked.attr.value == "requires_grad_":
            return _asks(around)
        stored = file.tree.parent(around) if isinstance(around, cst.AssignTarget) else None
        if isinstance(asked, cst.Attribute) and isinstance(stored, cst.Assign) and asked.attr.value == "requires_grad":
            return is_true(stored.value)
    return False


def _given(file: FileFacts, definition: Definition) -> Iterator[cst.BaseExpression]:
    """The expressions that a variable gets: of `a, b = ...` those for its place."""
    if isinstance(definition.node, cst.Param) and file.scope_name(definition.node).endswith("__init__"):
        yield from (given for given in file.values.given(definition) if given is not None)
    value = definition.value
    function = file.values.calls.resolve(value) if isinstance(value, cst.Call) and definition.path else None
    if value is None or runs_without_graph(file, value):
        return
    for given in (value,) if function is None else returned(function):
        if definition.path and isinstance(given, cst.Tuple):
            place = definition.path[0]
            yield from [given.elements[place].value] if 0 <= place < len(given.elements) else []
        else:
            yield given


def _call_needs(file: FileFacts, call: cst.Call, depth: int) -> bool:
    name, func = file.qualified(call), call.func
    method = func.attr.value if isinstance(func, cst.Attribute) else ""
    if (name or "").rpartition(".")[2] in _CUTS or method in _CUTS:
        return False
    if method == "requires_grad_":
        return _asks(call)
    if name in _PARAMETERS:
        return argument(call, "requires_grad", 1) is None
    if name is not None:
        asked = argument(call, "requires_grad")
        passes = name.startswith("torch.") and not name.startswith("torch.utils.")
        is_asked = asked is not None and is_true(asked)
        return passes and (is_asked or any(_needs(file, arg.value, depth) for arg in call.args))
    module = file.value(func)
    if module.kind is Kind.MODULE:
        return _has_parameters(file, module)
    function = file.values.calls.resolve(call)
    if function is not None:
        return any(_needs(file, given, depth) for given in returned(function))
    if isinstance(func, cst.Attribute):
        owner = file.value(func.value)
        if owner.kind is Kind.MODULE:
            return method.startswith(_RUNS) and _has_parameters(file, owner)
        return any(_needs(file, each, depth) for each in (func.value, *(arg.value for arg in call.args)))
    return False


def _has_parameters(file: FileFacts, module: Value) -> bool:
    """Whether what a module gives comes out of parameters of its own, which nobody is seen to freeze."""
    return module.call is not None and module.call not in file.once(_frozen) and _holds(file, module.call, 0)


def _holds(file: FileFacts, made: cst.Call, depth: int) -> bool:
    name, cls = file.qualified(made) or "", file.values.calls.constructed(made)
    if name in _PARAMETERS:
        return argument(made, "requires_grad", 1) is None
    if cls is not None:
        forward = cls.method("forward")
        if _freezes_itself(cls) or (forward is not None and _mentions_cut(file, forward)):
            return False
        values = [each.value for base in cls.lineage() for group in base.assigned.values() for each in group]
        return any(_holds_at(file, value, depth) for value in values if value is not None)
    if name in _AROUND:
        return any(_holds_at(file, arg.value, depth) for arg in made.args)
    return name.startswith((*_MODELS, *(f"torch.nn.{layer}" for layer in _LAYERS)))


def _holds_at(file: FileFacts, node: cst.BaseExpression, depth: int) -> bool:
    if isinstance(node, (cst.List, cst.Tuple)):
        return any(_holds_at(file, element.value, depth) for element in node.elements)
    value = file.value(node)
    is_module = value.kind is Kind.MODULE or (isinstance(node, cst.Call) and file.qualified(node) in _PARAMETERS)
    made = value.call if value.kind is Kind.MODULE else node
    return is_module and isinstance(made, cst.Call) and depth <= _DEEPEST and _holds(file, made, depth + 1)


def _freezes_itself(cls: ClassFacts) -> bool:
    """Whether a module says itself what of it is trained."""
    return any(
        node.attr.value in ("requires_grad", "requires_grad_")
        for base in cls.lineage()
        for node in find_all(base.node.body, cst.Attribute)
    )


def _frozen(file: FileFacts) -> frozenset[cst.Call]:
    """The modules that are frozen: `for p in encoder.parameters(): p.requires_grad = False`."""
    owners = [
        call.func.value
        for call in file.tree.all(cst.Call)
        if isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "requires_grad_"
        and call.args
        and not is_true(call.args[0].value)
    ]
    owners += [
        target.target.value
        for assign in file.tree.all(cst.Assign)
        for target in assign.targets
        if isinstance(target.target, cst.Attribute)
        and target.target.attr.value == "requires_grad"
        and not is_true(assign.value)
    ]
    # The loop over `encoder.parameters()` leads to that call.
    calls = [end.node for owner in owners for end in file.tracing.ends(owner) if end.path]
    owners += [call.func.value for call in calls if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)]
    made = (file.value(owner).call for owner in owners)
    return frozenset(call for call in made if call is not None)
