"""Whether the files put anything on an accelerator, whether that may be another than CUDA, and what they use there."""

from __future__ import annotations

import re

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.source import Source

# As they are named in scripts, and what picks the best device of the machine, which is MPS on a Mac.
_OTHER_DEVICES = re.compile(
    r"""["'](?:mps|xpu)(?::\d+)?["']|torch\.(?:backends\.)?mps\b|torch\.accelerator\b|\bAccelerator\(|\bFabric\((?![^)]*["']cuda)"""
)
_GRAPHS = re.compile(r"""\bCUDAGraph\b|\bmake_graphed_callables\b|["'](?:reduce-overhead|max-autotune)["']""")
_HALF = frozenset({"torch.half", "torch.float16", "torch.bfloat16"})
# In code, not in a comment that tells how to get there.
_CUDA_TYPE = re.compile(r"^[^#\n]*\btorch\.cuda\.\w*Tensor\b", re.MULTILINE)
# What places models and batches by itself.
_FRAMEWORKS = re.compile(
    r"\b(Accelerator|Fabric|accelerate|deepspeed|lightning|pytorch_lightning|TrainingArguments|torch_xla|ignite|fastai)\b"
    r"|\btransformers(?:\.| import (?:\([^)]*|[^\n(]*\b))(?:Seq2Seq)?Trainer\b"
)


def other_device(file: FileFacts) -> str:
    """Why a device may be another than CUDA; empty where nothing in the files says so, or CUDA is the target."""
    return file.once(_other_device) if file.policy.is_portable else ""


def _other_device(file: FileFacts) -> str:
    found = next(filter(None, (_OTHER_DEVICES.search(source.text) for source in file.world.files)), None)
    return f"`{found[0]}` says that the device may be another than CUDA, such as MPS" if found is not None else ""


def shows_half_types(file: FileFacts) -> bool:
    """Whether the files make models or tensors of 16 bits by themselves; autocast gives losses of float32."""
    return file.once(_shows_half_types)


def _shows_half_types(file: FileFacts) -> bool:
    for node in file.world.tree.all_of(cst.Attribute, cst.Call):
        func = node.func if isinstance(node, cst.Call) else None
        if (
            isinstance(func, cst.Attribute)
            and func.attr.value in ("half", "bfloat16")
            and not cst.ensure_type(node, cst.Call).args
        ):
            return True
        if isinstance(node, cst.Attribute) and file.qualified(node) in _HALF:
            around = (each for each in file.tree.ancestors(node) if isinstance(each, cst.Call))
            if not any("autocast" in file.code(call.func) for call in around):
                return True
    return False


def replays_graphs(file: FileFacts) -> bool:
    """Whether the files record CUDA graphs, whose next replay overwrites the tensors that the last one gave."""
    return any(map(records_graphs, file.world.files))


def records_graphs(source: Source) -> bool:
    """Whether one file does so."""
    return _GRAPHS.search(source.text) is not None


def uses_accelerator(file: FileFacts) -> bool:
    """Whether any of the files moves something to an accelerator, makes it there, or leaves that to a framework."""
    return file.once(_uses_accelerator)


def batch_on_cpu(file: FileFacts, loop: cst.For | cst.While) -> cst.Call | None:
    """What moves the batch of a round to a device that a variable names and that can only be the CPU."""
    for call in find_all(loop.body, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
            where = file.values.placement.destination(call)
            is_named = where is not None and file.flow.is_variable(where)
            if is_named and file.value(call.func.value).origin is not None and _is_cpu(file, where, frozenset()):
                return call
    return None


def _uses_accelerator(file: FileFacts) -> bool:
    if any(_CUDA_TYPE.search(source.text) or _FRAMEWORKS.search(source.text) for source in file.world.files):
        return True
    placement = file.values.placement
    if placement.defaults:
        return True
    for call in file.world.tree.all(cst.Call):
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if method == "cuda":
            return True
        where = placement.destination(call) if method == "to" else None
        if where is None:
            where = next(
                (arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "device"), None
            )
        if where is not None and not _is_cpu(file, where, frozenset()):
            return True
    return False


def _is_cpu(file: FileFacts, where: cst.BaseExpression | None, seen: frozenset[Definition]) -> bool:
    """Whether a device can only be the CPU; that of a parameter, where all callers are in sight and pass that."""
    if where is None or not file.flow.is_variable(where):
        return file.values.placement.device_of(where) is Device.CPU
    found = file.flow.definitions(where)
    if not found or not seen.isdisjoint(found):
        return False
    given = [value for each in found for value in _given(file, each) or (None,)]
    return all(_is_cpu(file, value, seen.union(found)) for value in given)


def _given(file: FileFacts, definition: Definition) -> list[cst.BaseExpression | None]:
    """What a variable is given; for a parameter of a function that is no method, what its callers pass."""
    if definition.binding is Binding.ASSIGNED and not definition.path:
        return [definition.value]
    function = definition.scope
    if not isinstance(function, cst.FunctionDef) or not isinstance(file.tree.scope(function), cst.Module):
        return []
    return file.values.given(definition) if file.values.calls.is_only_called(function) else []
