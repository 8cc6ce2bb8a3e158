"""Anomaly detection: the CPU waits for every operation of a backward pass, whose gradient is looked at."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts

_MODULES = ("torch.autograd.", "torch.autograd.anomaly_mode.")
SWITCHES = frozenset(f"{module}set_detect_anomaly" for module in _MODULES)
BLOCKS = frozenset(f"{module}detect_anomaly" for module in _MODULES)


def is_checked(file: FileFacts) -> bool:
    """Whether any of the files that are read together switches it on, whatever anybody asks for."""
    return file.once(_is_checked)


def _is_checked(file: FileFacts) -> bool:
    for call in file.tree.all(cst.Call):
        if file.qualified(call) in SWITCHES and _is(argument(call, "mode", 0), "True"):
            is_traced_only = _is(argument(call, "check_nan", 1), "False")
            is_asked_for = any(isinstance(each, (cst.If, cst.IfExp, cst.With)) for each in file.tree.ancestors(call))
            if not is_traced_only and not is_asked_for:
                return True
    return False


def _is(node: cst.BaseExpression | None, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name
