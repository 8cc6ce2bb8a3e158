"""Log-probabilities and probabilities that are computed for a loss, and the loss that takes the logits itself."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.value import Kind

LOG_SOFTMAX, SIGMOID = "log_softmax", "sigmoid"
FUNCTIONS = {
    "torch.nn.functional.nll_loss": (LOG_SOFTMAX, "cross_entropy"),
    "torch.nn.functional.binary_cross_entropy": (SIGMOID, "binary_cross_entropy_with_logits"),
}
MODULES = {
    "torch.nn.NLLLoss": (LOG_SOFTMAX, "CrossEntropyLoss"),
    "torch.nn.NLLLoss2d": (LOG_SOFTMAX, "CrossEntropyLoss"),
    "torch.nn.BCELoss": (SIGMOID, "BCEWithLogitsLoss"),
}
_MADE = {"torch.nn.LogSoftmax": LOG_SOFTMAX, "torch.nn.Sigmoid": SIGMOID}
_PREFIXES = ("torch.nn.functional.", "torch.special.", "torch.")
# Views that commute with what is done to every element.
_VIEWS = frozenset({"squeeze", "view", "reshape", "flatten", "unsqueeze", "view_as", "reshape_as"})


class NotEqual(Exception):
    """The loss on logits is not the same, or what it would need is not in sight; the message says why."""


@frozen
class Activation:
    """A call of log_softmax or sigmoid.

    Attributes:
        call: it.
        logits: what it is given.
        definition: the variable that holds it, where the loss is given that.
        exact: whether the loss on logits does the very same operations.
        doubt: why it may not; empty if nothing speaks against it.
    """

    call: cst.Call
    logits: cst.BaseExpression
    definition: Definition | None = None
    exact: bool = True
    doubt: str = ""


def activation_of(file: FileFacts, loss: cst.Call, kind: str) -> Activation | None:
    """The activation whose result a loss is given, directly or through a variable; `None` where it is given another.

    Raises:
        NotEqual: it is one, but not one that the loss on logits computes.
    """
    given = argument(loss, "input", 0)
    if given is None:
        return None
    found = _within_views(file, given, kind)
    if found is not None:
        return found
    if not isinstance(given, cst.Name):
        return None
    definitions = file.flow.definitions(given)
    if len(definitions) != 1 or definitions[0].binding is not Binding.ASSIGNED or definitions[0].path:
        return None
    value = definitions[0].value
    found = _within_views(file, value, kind) if value is not None else None
    if found is None:
        return None
    return Activation(found.call, found.logits, definitions[0], found.exact, found.doubt)


def _within_views(file: FileFacts, node: cst.BaseExpression, kind: str) -> Activation | None:
    while kind == SIGMOID and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value not in _VIEWS or file.qualified(node) is not None:
            break
        node = node.func.value
    if isinstance(node, cst.Subscript) and _within_views(file, node.value, kind) is not None:
        raise NotEqual(f"the loss is given a part of the {kind}: index the logits instead")
    return _activation(file, node, kind) if isinstance(node, cst.Call) else None


def _activation(file: FileFacts, call: cst.Call, kind: str) -> Activation | None:
    if has_star(call):
        return None
    short, subject, arguments = _operation(file, call)
    if subject is None:
        return None
    if kind == SIGMOID:
        return Activation(call, subject) if short == SIGMOID and not arguments else None
    if short == LOG_SOFTMAX:
        if any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in arguments):
            raise NotEqual("the logarithm is computed in another dtype")
        return Activation(call, subject, doubt=_doubt_of_dimension(file, subject, arguments))
    if short == "log" and not arguments and isinstance(subject, cst.Call):
        inner, logits, more = _operation(file, subject)
        if inner == "softmax" and logits is not None:
            _doubt_of_dimension(file, logits, more)
            doubt = "the log of a probability that underflows is -inf; cross_entropy computes the exact value"
            return Activation(call, logits, exact=False, doubt=doubt)
    return None


def _operation(file: FileFacts, call: cst.Call) -> tuple[str, cst.BaseExpression | None, Sequence[cst.Arg]]:
    """Name, subject and further arguments of `F.f(x, ...)`, `x.f(...)` and `nn.F(...)(x)`."""
    name = file.qualified(call)
    if name is not None:
        prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
        if prefix is None or not call.args or "." in name.removeprefix(prefix):
            return "", None, ()
        subject = argument(call, "input", 0)
        return name.removeprefix(prefix), subject, [arg for arg in call.args if arg.value is not subject]
    module = file.value(call.func)
    if module.kind is Kind.MODULE:
        short = _MADE.get(module.name or "", "")
        if short and module.call is not None and len(call.args) == 1:
            return short, call.args[0].value, module.call.args
        return "", None, ()
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value, call.func.value, call.args
    return "", None, ()


def _doubt_of_dimension(file: FileFacts, logits: cst.BaseExpression, arguments: Sequence[cst.Arg]) -> str:
    """Why the classes may not stand in dimension 1, where cross_entropy wants them."""
    given = next((a.value for a in arguments if a.keyword is None or a.keyword.value == "dim"), None)
    dim = file.constants.value(given) if given is not None else None
    rank = file.value(logits).rank
    if dim == 1 or (rank == 2 and (dim == -1 or given is None)) or (rank == 1 and dim in (0, -1)):
        return ""
    if dim == 0 or (isinstance(dim, int) and dim not in (0, 1, -1)) or (dim == -1 and rank not in (None, 1, 2)):
        raise NotEqual(
            f"the probabilities are normalised over dimension {dim}, and cross_entropy expects the "
            "classes in dimension 1"
        )
    return "cross_entropy expects the classes in dimension 1, which is the last dimension only for 2-D logits"
