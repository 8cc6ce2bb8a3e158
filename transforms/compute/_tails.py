"""Models that end in the activation of a loss: `nn.Sequential(..., nn.LogSoftmax(dim=1))`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._activations import NotEqual, activation_made
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.rule import Edit

MOVES = frozenset({"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "requires_grad_", "bfloat16"})
"""Methods that give back the module they belong to."""
_SETTINGS = frozenset(
    {"parameters", "named_parameters", "state_dict", "load_state_dict", "zero_grad", "apply", "training"}
)


@frozen
class Tail:
    """The last part of a model, why it may not be the loss's first step, and the edits that drop it."""

    doubt: str
    edits: tuple[Edit, ...]


def uses_of(file: FileFacts, made: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Every use of a module, those of what `module.to(device)` gives back too."""
    stack = [made]
    seen: set[cst.CSTNode] = set()
    while stack:
        for held in file.handing.uses(stack.pop()):
            parent = file.tree.parent(held.node)
            call = file.tree.parent(parent) if isinstance(parent, cst.Attribute) else None
            moves = isinstance(parent, cst.Attribute) and parent.attr.value in MOVES
            if moves and isinstance(call, cst.Call) and call.func is parent:
                if call not in seen and not isinstance(file.tree.parent(call), cst.Expr):
                    stack.append(call)
                seen.add(call)
            else:
                yield held.node


def tail_of(file: FileFacts, losses: Sequence[cst.Call], kind: str) -> Tail | None:
    """The activation at the end of the `Sequential` whose outputs some losses are given; `None` if there is none.

    Raises:
        NotEqual: something else reads what the model computes.
    """
    given = [value for loss in losses if (value := argument(loss, "input", 0)) is not None]
    models = {_model(file, value) for value in given}
    model = models.pop() if len(models) == 1 else None
    if model is None or not model.args or len(given) < len(losses):
        return None
    last = model.args[-1]
    doubt = activation_made(file, last.value, kind) if isinstance(last.value, cst.Call) and not last.star else None
    if doubt is None:
        return None
    if len(model.args) == 1 or not file.is_own(model):
        raise NotEqual("the model that ends in it stands elsewhere, or is nothing else")
    for use in uses_of(file, model):
        _require_known(file, use, given)
    return Tail(doubt, (_without_last(file, model),))


def _model(file: FileFacts, given: cst.BaseExpression) -> cst.Call | None:
    """The `nn.Sequential(...)` whose output an expression is."""
    found: set[cst.Call | None] = set()
    for end in file.tracing.ends(given):
        known = file.value(end.node.func) if isinstance(end.node, cst.Call) and not end.path else None
        is_sequential = known is not None and known.kind is Kind.MODULE and known.name == "torch.nn.Sequential"
        found.add(known.call if known is not None and is_sequential else None)
    return found.pop() if len(found) == 1 else None


def _require_known(file: FileFacts, use: cst.BaseExpression, given: Sequence[cst.BaseExpression]) -> None:
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Attribute) and parent.attr.value in _SETTINGS:
        return
    if not isinstance(parent, cst.Call) or parent.func is not use:
        raise NotEqual(f"the model is used for something else on line {file.line(use)}")
    for output in file.handing.uses(parent):
        if not any(output.node is value for value in given):
            raise NotEqual(f"the output of the model is used for something else on line {file.line(output.node)}")


def _without_last(file: FileFacts, model: cst.Call) -> Edit:
    """Drops the last argument of a call, with its line where it has one of its own."""
    source = file.source
    last, before = model.args[-1], model.args[-2]
    start, end = source.span(last)
    if not isinstance(last.comma, cst.MaybeSentinel):
        end = source.text.index(",", end) + 1
    around = source.text[source.line_start(start) : start] + source.text[end : source.line_end(end)]
    if not around.strip():
        return Edit(source.line_start(start), source.line_end(end), "")
    return Edit(source.span(before)[1], source.span(last)[1], "")
