"""Calls of losses that take a mask inside: which function, with which options, and reductions over everything.

What is left out is read as 0, through a `where` in front of it, so that a NaN or an infinity there reaches neither
the loss nor, by way of `0 * inf`, a gradient. It adds nothing to the sum: the loss ignores it, or is 0 at 0. The sum is
divided by what the selection would have counted. Of nothing that is 0 / 0, which is NaN, as the mean is.
"""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.ranks import positional
from perfmod.transforms.facts.torch_api import LOSS_FUNCTIONS, LOSS_MODULES
from perfmod.transforms.facts.tree import is_none

_FUNCTIONS = "torch.nn.functional."
_OLD = ("size_average", "reduce", "reduction")
CLASSES = {
    "cross_entropy": ("weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
    "nll_loss": ("weight", "size_average", "ignore_index", "reduce", "reduction"),
}
"""Losses of class indices, which leave out an `ignore_index`, with their options in order."""
ELEMENTS = {
    "mse_loss": _OLD,
    "l1_loss": _OLD,
    "smooth_l1_loss": (*_OLD, "beta"),
    "huber_loss": ("reduction", "delta"),
    "kl_div": (*_OLD, "log_target"),
    "binary_cross_entropy": ("weight", *_OLD),
    "binary_cross_entropy_with_logits": ("weight", *_OLD, "pos_weight"),
}
"""Losses of elements, which are 0 where both sides are; that on logits is where its weight is."""
_MODULES = {
    "torch.nn.CrossEntropyLoss": "cross_entropy",
    "torch.nn.NLLLoss": "nll_loss",
    "torch.nn.MSELoss": "mse_loss",
    "torch.nn.L1Loss": "l1_loss",
    "torch.nn.SmoothL1Loss": "smooth_l1_loss",
    "torch.nn.HuberLoss": "huber_loss",
    "torch.nn.KLDivLoss": "kl_div",
    "torch.nn.BCELoss": "binary_cross_entropy",
    "torch.nn.BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
}


@frozen
class Loss:
    """A call of a loss.

    Attributes:
        short: the name of its function in `torch.nn.functional`; of a loss that takes no mask inside, as it is written.
        call: the call that gives the number.
        options: what the call, or the module's constructor, is given besides the sides.
        made: the constructor, for a module.
        changed: what else happens to the module that its call would not show; empty where nothing does.
    """

    short: str
    call: cst.Call
    options: dict[str, cst.BaseExpression]
    made: cst.Call | None = None
    changed: str = ""

    @property
    def sides(self) -> dict[str, cst.BaseExpression]:
        """What has to be selected together; a weight for each element is a further side."""
        if self.short not in CLASSES and self.short not in ELEMENTS:
            return {f"argument {index + 1}": arg.value for index, arg in enumerate(self.call.args)}
        given = {name: argument(self.call, name, index) for index, name in enumerate(("input", "target"))}
        if self.short.startswith("binary") and self.made is None:
            given["weight"] = self.options.get("weight")
        return {name: value for name, value in given.items() if value is not None}

    @property
    def reduction(self) -> str:
        """`mean`, `sum`, `none` or `batchmean`; empty where it cannot be read."""
        given = self.options.get("reduction")
        if given is None:
            return "mean"
        text = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        known = {"mean", "sum", "none"} | ({"batchmean"} if self.short == "kl_div" else set())
        return str(text) if text in known else ""

    @property
    def objection(self) -> str:
        """Why it has no form with the mask inside; empty where it has one."""
        if self.short not in CLASSES and self.short not in ELEMENTS:
            return f"there is no short way to apply the mask inside `{self.short}`"
        if self.changed:
            return self.changed
        if not self.reduction:
            return (
                "its `reduction` could not be determined, and with reduction='none' the result has the "
                "length of the selection"
            )
        if self.reduction == "none":
            return "with reduction='none' the result has the length of the selection"
        known = {*CLASSES.get(self.short, ()), *ELEMENTS.get(self.short, ())} - {"size_average", "reduce"}
        unknown = self.options.keys() - known
        if self.made is not None and self.short in ELEMENTS:
            unknown |= self.options.keys() & {"weight"}
        if unknown:
            return f"`{min(unknown)}=` may weight masked elements differently"
        if self.reduction == "mean" and {"weight", "label_smoothing"} <= self.options.keys():
            return (
                "with class weights and `label_smoothing=`, the loss itself waits for the selection of what "
                "is not ignored"
            )
        return ""


def loss_call(file: FileFacts, call: cst.Call) -> Loss | None:
    """The loss that a call computes; `None` for other calls, and for arguments that cannot be seen."""
    if has_star(call):
        return None
    name = file.qualified(call) or ""
    short = name.removeprefix(_FUNCTIONS)
    if name.startswith(_FUNCTIONS):
        return Loss(short, call, _options(short, call, 2)) if short in LOSS_FUNCTIONS else None
    module = file.value(call.func)
    if module.name not in LOSS_MODULES or module.name is None or module.call is None or has_star(module.call):
        return None
    short = _MODULES.get(module.name, module.name)
    return Loss(
        short, call, _options(short, module.call, 0), module.call, _changed(file, module.name, short, module.call)
    )


def _options(short: str, call: cst.Call, sides: int) -> dict[str, cst.BaseExpression]:
    """The arguments of a call behind its first `sides`, by name; those that are old names' `None` say nothing."""
    known = CLASSES.get(short) or ELEMENTS.get(short) or ()
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    for index, value in enumerate(positional(call.args)[sides:]):
        named[known[index] if index < len(known) else f"argument {sides + index + 1}"] = value
    is_default = {key for key, value in named.items() if is_none(value)}
    return {key: value for key, value in named.items() if key not in is_default | {"input", "target"}}


def _changed(file: FileFacts, module: str, short: str, made: cst.Call) -> str:
    """What changes an option of what may be the loss, or watches its calls; a `weight` is read where it is called."""
    options = {*CLASSES.get(short, ()), *ELEMENTS.get(short, ())} - {"weight"}
    for item in file.tree.all(cst.AssignTarget):
        target = item.target
        if isinstance(target, cst.Attribute) and target.attr.value in options:
            value = file.value(target.value)
            if value.name == module or (value.name is None and value.cls is None):
                return f"the attribute `{target.attr.value}` of a loss is assigned elsewhere"
    for use in file.handing.module_uses(made):
        parent = file.tree.parent(use)
        call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if isinstance(parent, cst.Attribute) and parent.attr.value.startswith("register_"):
            return f"`{parent.attr.value}` on line {file.line(use)} sees the inputs of the loss"
        if isinstance(call, cst.Call) and file.qualified(call) == "builtins.setattr":
            return f"line {file.line(use)} sets an attribute of a loss by name"
    return ""


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
