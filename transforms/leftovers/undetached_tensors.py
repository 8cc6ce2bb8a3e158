"""Losses that are summed or collected together with their graphs.

A loss keeps the graph that computed it. Summed over an epoch, or kept in a list, it keeps the graphs of all steps:
CPU memory grows with every step, every addition is recorded as well, and in an evaluation without `no_grad` the
activations of all batches stay in GPU memory.

    total += loss                                total += loss.detach()
    losses.append(loss)                          losses.append(loss.detach())

`detach()` shares the value and drops the graph. What is differentiated later needs the graph: a sum on which `backward`
is called stays, and so does what an object keeps for other code, as a policy keeps its log-probabilities. A printed
tensor no longer shows its `grad_fn`, so that is an open question where a tensor is printed, or where the sum is
returned and perfmod may not see all of its uses.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.escapes import Fate, first_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.leftovers._kept_graphs import Kept, carriers, kept, kept_beside
from perfmod.transforms.rule import Rule

_KEPT = "it is stored on line {}, where other code may differentiate it"
_DOUBTS = {
    Fate.PRINTED: "a tensor is printed on line {}, and its `grad_fn` would no longer be shown",
    Fate.RETURNED: "it is returned on line {}, and perfmod may not see all of its uses",
}


class UndetachedTensors(Rule):
    code = "PM405"
    name = "undetached-tensors"
    family = Family.LEFTOVERS
    summary = "A tensor is kept across steps together with its autograd graph, which uses memory"
    fix_title = "Detach the tensor before it is kept"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"for", "while", "backward"})
    references = (
        "https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
    )
    changes_results = (
        "Never for values. The sum has no graph any more: `backward` on it fails (where that is seen the sum stays), "
        "and printing the tensor itself shows no `grad_fn` (an open question)."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        every = [*kept(file)]
        for found in every:
            escapes = file.escapes.of([found.tensor])
            if any(escape.fate is Fate.DIFFERENTIATED for escape in escapes):
                continue  # the sum is itself a loss
            first = first_of(file, escapes)
            if first is not None and first.fate is Fate.KEPT:
                yield self.refused(file, found.statement, _KEPT.format(file.line(first.node)))
                continue
            doubt = _DOUBTS[first.fate].format(file.line(first.node)) if first is not None else ""
            beside = kept_beside(file, found, {each.statement for each in every})
            left = f"line {file.line(beside)} would keep the same graph: detach both" if beside is not None else ""
            yield self.found(
                file,
                found.statement,
                doubt or left or "only its value is used, and no `backward` goes through it",
                _detached(file, found),
                safety=Safety.UNSAFE if doubt else Safety.LOW_IMPACT if left else None,
            )


def _detached(file: FileFacts, found: Kept) -> list[Edit]:
    """Cuts the graph at the variable that carries it, or at the whole expression."""
    tensor = found.tensor
    named = list(carriers(file, tensor))
    if isinstance(tensor, cst.BinaryOperation) and len(named) == 1 and _others_are_numbers(file, tensor, named[0]):
        tensor = named[0]
    start, end = file.source.span(tensor)
    is_atom = isinstance(tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or tensor.lpar
    if is_atom:
        end = file.source.span(tensor.rpar[-1])[1] if tensor.rpar else end
        return [Edit(end, end, ".detach()")]
    return [Edit(start, start, "("), Edit(end, end, ").detach()")]


def _others_are_numbers(file: FileFacts, node: cst.BaseExpression, carrier: cst.Name) -> bool:
    if node is carrier:
        return True
    if isinstance(node, cst.BinaryOperation):
        return _others_are_numbers(file, node.left, carrier) and _others_are_numbers(file, node.right, carrier)
    return not file.value(node).is_tensor and isinstance(
        node, (cst.Call, cst.Integer, cst.Float, cst.Attribute, cst.Name)
    )
