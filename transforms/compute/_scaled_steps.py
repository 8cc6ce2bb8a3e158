"""Steps that a `GradScaler` makes: `scaler.step(optimizer)`.

An enabled scaler asks the host whether a gradient is infinite, unless the optimizer is a fused one, which looks for
itself on the device. What it keeps of the gradients in Python, from its first call to `update()`, must lie within one
step: no Python runs in a replay.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.scalers import is_off, is_on, scaler_of_step, scalers

_OF_STEP = frozenset({"scale", "unscale_", "step", "update"})
_HARMLESS = frozenset({"state_dict", "load_state_dict", "get_scale", "is_enabled"})


def is_scaler_call(file: FileFacts, node: cst.CSTNode, *methods: str) -> bool:
    """Whether a node is one of a scaler's calls that make up a step: `scaler.scale(loss)`."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    return node.func.attr.value in (methods or _OF_STEP) and bool(scalers(file, node.func.value))


def may_be_scaled(file: FileFacts, step: cst.Call) -> bool:
    """Whether a scaler that may be enabled makes a step."""
    return not all(map(is_off, scaler_of_step(file, step)))


def is_scaled(file: FileFacts, step: cst.Call) -> bool:
    """Whether a scaler that no option switches off makes a step."""
    made = scaler_of_step(file, step)
    return bool(made) and all(map(is_on, made))


def stepping(file: FileFacts, step: cst.Call) -> cst.BaseExpression:
    """The optimizer that makes a step, by itself or by way of a scaler."""
    return step.args[0].value if scaler_of_step(file, step) else cst.ensure_type(step.func, cst.Attribute).value


def call_elsewhere(file: FileFacts, moved: Sequence[cst.BaseStatement]) -> cst.Call | None:
    """A call of a scaler of the step outside of it, which would miss what the step leaves in Python."""
    calls = [call for call in file.tree.all(cst.Call) if isinstance(call.func, cst.Attribute)]
    made = {call: set(scalers(file, cst.ensure_type(call.func, cst.Attribute).value)) for call in calls}
    inside = {call for call in calls if any(file.tree.is_within(call, line) for line in moved)}
    own = {each for call in inside for each in made[call]}
    for call in calls:
        is_harmless = cst.ensure_type(call.func, cst.Attribute).attr.value in _HARMLESS
        if call not in inside and own & made[call] and not is_harmless:
            return call
    return None
