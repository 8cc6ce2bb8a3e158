"""Graphs that are kept after the last backward pass through them.

`loss.backward(retain_graph=True)` keeps all activations of the graph until the next step has replaced them, so two
steps' worth of them are in memory. That is needed if a second backward pass uses the same graph, and is often left
over from following an error message that suggested it:

    loss.backward(retain_graph=True)             loss.backward()

It is advice only: whether the graph of an earlier step is still part of this one depends on the values (a hidden
state that was not detached), and if it is, the second backward pass fails without the argument.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.gradients import may_carry_gradient
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.leftovers._switches import boolean
from perfmod.transforms.rule import Rule

_DIFFERENTIATES = ("torch.autograd.grad", "torch.autograd.backward", "torch.autograd.functional.")
_PASSES = frozenset({"backward", "manual_backward"})
_ADVICE = "no other backward pass follows in the step; results of earlier steps may need to be detached first"


class RetainedGraph(Rule):
    code = "PM404"
    name = "retained-graph"
    family = Family.LEFTOVERS
    summary = "retain_graph=True keeps a graph that no further backward pass uses"
    fix_title = "Free the graph in the backward pass"
    numerics = Numerics.BITWISE
    safety = Safety.ADVICE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"backward", "manual_backward"})
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.backward.html",)
    changes_results = (
        "Nothing is rewritten. Without the argument the values are the same and memory is freed earlier; a second "
        "backward pass through the same graph raises an error."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            kept = argument(call, "retain_graph", 1 if _is_pass(call) else None)
            if kept is None or not _is_pass(call) or not boolean(kept, False) or not file.steps.in_sight(call):
                continue
            why = _why_kept(file, call)
            yield self.refused(file, call, why) if why else self.found(file, call, _ADVICE, ())


def _why_kept(file: FileFacts, call: cst.Call) -> str | None:
    """What the graph is kept for."""
    if boolean(argument(call, "create_graph", 2), False) is not False:
        return "create_graph=True needs the graph"
    later = _later_pass(file, call)
    if later is not None:
        return f"line {file.line(later)} uses the graph again"
    return "the iterations of the loop share a graph that is computed before it" if _shares_rounds(file, call) else None


def _is_pass(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _PASSES


def _later_pass(file: FileFacts, call: cst.Call) -> cst.CSTNode | None:
    """Another backward pass that may go through the same graph: behind this one in the step, or in a loop around it."""
    region = file.steps.region(call)
    function = file.tree.function(call)
    around: cst.CSTNode = function.body if function is not None else file.tree.module
    if region is not None:
        around = region.body
    loops = [loop for loop in file.tree.loops(call) if loop is not region and file.tree.is_within(loop, around)]
    start = file.source.span(call)[0]
    for node in walk_scope(around):
        if not isinstance(node, cst.Call) or node is call:
            continue
        behind = file.source.span(node)[0] > start or any(file.tree.is_within(node, loop) for loop in loops)
        if behind and (_is_pass(node) or (file.qualified(node) or "").startswith(_DIFFERENTIATES)):
            return node
        target = file.values.calls.resolve(node)
        if behind and target is not None and file.steps.trains(target.body):
            return node
    # The same call once more, in a loop inside of the step.
    return loops[0] if loops else None


def _shares_rounds(file: FileFacts, call: cst.Call) -> bool:
    """Whether a loop's rounds differentiate something that was computed before the loop."""
    region = file.steps.region(call)
    if not isinstance(region, (cst.For, cst.While)) or not isinstance(call.func, cst.Attribute):
        return False
    seen: set[cst.CSTNode] = set()
    stack: list[cst.CSTNode] = [call.func.value, *(arg.value for arg in call.args)]
    while stack:
        for name in find_all(stack.pop(), cst.Name):
            for definition in file.flow.definitions(name) if file.flow.is_read(name) else ():
                if definition.node in seen or definition.binding is not Binding.ASSIGNED or definition.value is None:
                    continue
                seen.add(definition.node)
                if file.tree.is_within(definition.node, region):
                    stack.append(definition.value)
                elif definition.scope is file.tree.scope(call) and _is_recorded(file, definition.value):
                    return True
    return False


def _is_recorded(file: FileFacts, value: cst.BaseExpression) -> bool:
    known = file.value(value)
    is_output = isinstance(value, cst.Call) and file.value(value.func).kind is Kind.MODULE
    computed = known.is_tensor or known.kind is Kind.UNKNOWN
    return is_output or (
        computed and isinstance(value, (cst.Call, cst.BinaryOperation)) and may_carry_gradient(file, value)
    )
