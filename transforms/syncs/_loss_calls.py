"""Calls of losses: which function, with which options, and reductions over everything."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.ranks import positional
from perfmod.transforms.facts.torch_api import LOSS_FUNCTIONS, LOSS_MODULES

_FUNCTION_OF_MODULE = {
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.MSELoss": "mse_loss",
    "torch.nn.L1Loss": "l1_loss",
    "torch.nn.SmoothL1Loss": "smooth_l1_loss",
    "torch.nn.HuberLoss": "huber_loss",
    "torch.nn.BCELoss": "binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}
_WRAPPERS = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})
CLASS_INDEX = frozenset({"cross_entropy", "nll_loss"})
ZERO_AT_ZERO = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"})
# Losses that refuse an input and a target of different shapes; the others broadcast them with a warning.
SAME_SHAPES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
_ELEMENTWISE = ZERO_AT_ZERO | {"binary_cross_entropy_with_logits"}
_KNOWN_OPTIONS = {
    "cross_entropy": {"weight", "ignore_index", "reduction"},
    "nll_loss": {"weight", "ignore_index", "reduction"},
    "smooth_l1_loss": {"beta", "reduction"},
    "huber_loss": {"delta", "reduction"},
}


@frozen
class Loss:
    """A call of a loss.

    Attributes:
        short: the name of its function in `torch.nn.functional`.
        options: what the call, or the module's constructor, is given besides input and target.
        is_module: whether it is a call of a module.
        is_changed: whether anything assigns the module's reduction later.
        is_wrapped: whether it is handed to a wrapper that hides its attributes.
    """

    short: str
    options: dict[str, cst.BaseExpression]
    is_module: bool
    is_changed: bool = False
    is_wrapped: bool = False

    @property
    def reduction(self) -> str | None:
        """`mean` or `sum`; `None` for anything else."""
        given = self.options.get("reduction")
        if given is None:
            return "mean"
        text = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        return text if text in ("mean", "sum") else None


def objection(loss: Loss) -> str:
    """Why a loss has no form with the mask inside; empty where it has one."""
    if loss.short not in CLASS_INDEX | _ELEMENTWISE:
        return f"{loss.short} has no masked form that is known to be equal"
    if loss.is_changed:
        return "the reduction of a loss is assigned elsewhere"
    if loss.is_wrapped:
        return "the loss is wrapped, so that its options cannot be read where it is called"
    if loss.reduction is None:
        return "without a reduction the result keeps the length of the selection"
    unknown = set(loss.options) - _KNOWN_OPTIONS.get(loss.short, {"reduction"})
    return f"`{min(unknown)}=` may weigh masked elements differently" if unknown else ""


def subject(call: cst.Call) -> cst.BaseExpression:
    """`x` of a reduction such as `x.mean()` and `torch.mean(x)`."""
    if call.args:
        return call.args[0].value
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def reduction_of(file: FileFacts, call: cst.Call) -> str | None:
    """`mean` or `sum` where a call reduces everything: `x.mean()`, `torch.sum(x)`."""
    name = file.qualified(call)
    if name in ("torch.mean", "torch.sum") and len(call.args) == 1:
        return name.removeprefix("torch.")
    if name is None and isinstance(call.func, cst.Attribute) and not call.args:
        return call.func.attr.value if call.func.attr.value in ("mean", "sum") else None
    return None


def loss_call(file: FileFacts, call: cst.Call) -> Loss | None:
    """The loss that a call computes; `None` for other calls, and for arguments that cannot be seen."""
    name = file.qualified(call)
    if has_star(call):
        return None
    if name is not None and name.startswith("torch.nn.functional."):
        short = name.rpartition(".")[2]
        if short not in LOSS_FUNCTIONS:
            return None
        named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        for index, value in enumerate(positional(call.args)[2:]):
            named["weight" if index == 0 else f"argument {index + 3}"] = value
        named.pop("input", None)
        named.pop("target", None)
        return Loss(short, named, is_module=False)
    module = file.value(call.func)
    if module.name in LOSS_MODULES and module.call is not None and not has_star(module.call):
        short = _FUNCTION_OF_MODULE.get(module.name or "", (module.name or "").rpartition(".")[2])
        options = {arg.keyword.value: arg.value for arg in module.call.args if arg.keyword is not None}
        for index, value in enumerate(positional(module.call.args)):
            options["weight" if index == 0 and short in CLASS_INDEX else f"argument {index + 1}"] = value
        return Loss(short, options, True, _assigns_reduction(file), _is_wrapped(file, module.call))
    return None


def _assigns_reduction(file: FileFacts) -> bool:
    targets = (item.target for item in file.tree.all(cst.AssignTarget))
    return any(isinstance(target, cst.Attribute) and target.attr.value == "reduction" for target in targets)


def _is_wrapped(file: FileFacts, made: cst.Call) -> bool:
    wrapping = (call for call in file.tree.all(cst.Call) if (file.qualified(call) or "") in _WRAPPERS)
    return any(file.value(call.args[0].value).call is made for call in wrapping if call.args)
