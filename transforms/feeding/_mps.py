"""Copies that may go to Apple's MPS: there a copy that does not wait has given wrong values, and some versions of
PyTorch fail when a loader pins. What asks for CUDA first changes nothing there: `non_blocking=device.type == "cuda"`.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.feeding._copies import Copy, destination


def may_not_wait(file: FileFacts, copy: Copy) -> str:
    """What a copy passes for `non_blocking`: `True`, or whether there is CUDA where the device may be MPS; empty where
    nobody could ask, or the device is nothing else.
    """
    if not copy.may_be_mps:
        return "True"
    where = destination(file, copy.call)
    ends = file.tracing.ends(where) if where is not None else ()
    if where is None or all(_is_mps(file, end) for end in ends):
        return ""
    if isinstance(where, (cst.Name, cst.Attribute)) and all(_is_device(file, end) for end in ends):
        return f'{file.code(where)}.type == "cuda"'
    if isinstance(where, (cst.Name, cst.Attribute)) and all(_is_text(end) for end in ends):
        return f'{file.code(where)}.startswith("cuda")'
    spelled, imports = file.names.spelled("torch", copy.call)
    return "" if imports else f"{spelled}.cuda.is_available()"


def may_pin(file: FileFacts, loader: Loader, copies: list[Copy]) -> tuple[str, tuple[str, ...]]:
    """What a loader is told for `pin_memory`, and the imports that this needs: `True`, or whether there is CUDA."""
    if not any(copy.may_be_mps and may_not_wait(file, copy) for copy in copies):
        return "True", ()
    spelled, imports = file.names.spelled("torch", loader.call)
    return f"{spelled}.cuda.is_available()", imports


def _is_device(file: FileFacts, end: End) -> bool:
    return isinstance(end.node, cst.Call) and not end.path and file.qualified(end.node) == "torch.device"


def _is_text(end: End) -> bool:
    return isinstance(end.node, cst.SimpleString) and not end.path


def _is_mps(file: FileFacts, end: End) -> bool:
    """Whether a device is MPS and nothing else."""
    node = end.node
    if isinstance(node, cst.Call) and _is_device(file, end) and node.args:
        node = node.args[0].value
    return isinstance(node, cst.SimpleString) and str(node.evaluated_value).startswith("mps")
