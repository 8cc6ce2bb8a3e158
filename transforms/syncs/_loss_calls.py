"""Calls of losses: which function, with which options, and reductions over everything."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.ranks import positional
from perfmod.transforms.facts.value import Value
from perfmod.transforms.syncs._gathers import sole_definition
from perfmod.transforms.syncs._loss_table import LOSSES, KnownLoss

_WRAPPERS = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})
_HOOKS = frozenset({"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"})
_FUNCTIONS = "torch.nn.functional."
_OF_MODULE = {f"torch.nn.{known.module}": short for short, known in LOSSES.items()}


@frozen
class Loss:
    """A call of a loss.

    Attributes:
        short: the name of its function in `torch.nn.functional`.
        options: what the call, or the module's constructor, is given besides the sides.
        is_module: whether it is a call of a module.
        changed: what else happens to the module that its call would not show; empty where nothing does.
        is_wrapped: whether it is handed to a wrapper that hides its attributes.
    """

    short: str
    options: dict[str, cst.BaseExpression]
    is_module: bool
    changed: str = ""
    is_wrapped: bool = False

    @property
    def known(self) -> KnownLoss:
        """What such a loss takes."""
        return LOSSES[self.short]

    @property
    def sides(self) -> tuple[str, ...]:
        """What has to be selected together; a weight for each element is a further side."""
        is_weighed = self.known.takes_weights and not self.is_module and "weight" in self.options
        return (*self.known.sides, "weight") if is_weighed else self.known.sides

    @property
    def reduction(self) -> str | None:
        """`mean`, `sum`, `none`, or `batchmean`; `None` where it cannot be read."""
        given = self.options.get("reduction")
        if given is None:
            return "mean"
        text = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        known = {"mean", "sum", "none"} | ({"batchmean"} if self.short == "kl_div" else set())
        return text if isinstance(text, str) and text in known else None


@frozen
class Reduced:
    """Where the losses of elements become one number.

    Attributes:
        node: the call that gives the number: of the loss, or of `mean` and `sum` behind a loss that does not reduce.
        how: `mean`, `sum` or `batchmean`.
        variable: the name that a loss which does not reduce passes through on its way there.
    """

    node: cst.Call
    how: str
    variable: str = ""


def objection(loss: Loss) -> str:
    """Why a loss has no form with the mask inside; empty where it has one."""
    if loss.known.reason:
        return f"{loss.short} has no form with the mask inside: {loss.known.reason}"
    if loss.changed:
        return loss.changed
    if loss.is_wrapped:
        return "the loss is wrapped, so that its options cannot be read where it is called"
    if loss.reduction is None:
        return "its reduction cannot be read, and without one the result keeps the length of the selection"
    unequal = {"size_average", "reduce"} | loss.known.unequal | (loss.options.keys() - {*loss.known.options})
    if loss.known.takes_weights and loss.is_module:
        unequal |= {"weight"}
    if given := sorted(unequal & loss.options.keys()):
        return f"`{given[0]}=` may weigh masked elements differently"
    if loss.reduction == "mean" and {"weight", "label_smoothing"} <= loss.options.keys():
        return "with weights and `label_smoothing=`, the loss selects by itself what it does not ignore, to weigh it"
    return ""


def reduced(file: FileFacts, call: cst.Call, loss: Loss) -> Reduced | None:
    """Where a loss becomes a number; `None` where its elements are used one by one."""
    if loss.reduction is not None and loss.reduction != "none":
        return Reduced(call, loss.reduction)
    outer, variable = _reduction_around(file, call), ""
    assignment = file.tree.parent(call)
    if outer is None and isinstance(assignment, cst.Assign) and len(assignment.targets) == 1:
        target = assignment.targets[0].target
        definitions = file.flow.defined(target) if isinstance(target, cst.Name) else ()
        uses = [use for definition in definitions for use in file.flow.uses(definition)]
        use = uses[0] if len(uses) == 1 else None
        if isinstance(use, cst.Name) and sole_definition(file, use) in definitions:
            outer, variable = _reduction_around(file, use), use.value
    how = reduction_of(file, outer) if outer is not None else None
    return Reduced(outer, how, variable) if outer is not None and how is not None else None


def _reduction_around(file: FileFacts, node: cst.CSTNode) -> cst.Call | None:
    """`x.mean()` and `torch.sum(x)` around an `x`."""
    around = file.tree.parent(node)
    outer = file.tree.parent(around) if isinstance(around, (cst.Attribute, cst.Arg)) else None
    if not isinstance(outer, cst.Call) or reduction_of(file, outer) is None:
        return None
    return outer if subject(outer) is node else None


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
    if has_star(call):
        return None
    name = file.qualified(call) or ""
    short = name.removeprefix(_FUNCTIONS)
    if name.startswith(_FUNCTIONS):
        return Loss(short, _options(short, call, len(LOSSES[short].sides)), False) if short in LOSSES else None
    module = file.value(call.func)
    if module.name in _OF_MODULE and module.call is not None and not has_star(module.call):
        short = _OF_MODULE[module.name]
        options = _options(short, module.call, 0)
        return Loss(short, options, True, _changed(file, module), _is_wrapped(file, module.call))
    return None


def side(call: cst.Call, loss: Loss, index: int) -> cst.BaseExpression | None:
    """What the call of a loss is given for one of its sides."""
    return argument(call, loss.sides[index], index)


def _options(short: str, call: cst.Call, sides: int) -> dict[str, cst.BaseExpression]:
    """The arguments of a call behind its first `sides`, by name; those that are old names' `None` say nothing."""
    known = LOSSES[short]
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    for index, value in enumerate(positional(call.args)[sides:]):
        named[known.options[index] if index < len(known.options) else f"argument {sides + index + 1}"] = value
    is_default = {key for key, value in named.items() if isinstance(value, cst.Name) and value.value == "None"}
    return {key: value for key, value in named.items() if key not in is_default and key not in known.sides[:sides]}


def _changed(file: FileFacts, module: Value) -> str:
    """What changes an option of what may be the loss, or watches its calls; a `weight` is read where it is called."""
    options = {*LOSSES[_OF_MODULE[module.name or ""]].options} - {"weight"}
    for item in file.tree.all(cst.AssignTarget):
        target = item.target
        if isinstance(target, cst.Attribute) and target.attr.value in options:
            value = file.value(target.value)
            if value.name == module.name or (value.name is None and value.cls is None):
                return f"`{target.attr.value}` of a loss is assigned elsewhere"
    for call in file.tree.all(cst.Call):
        line, func = file.line(call), call.func
        is_set = file.qualified(call) == "builtins.setattr" and bool(call.args)
        if is_set and file.value(call.args[0].value).name == module.name:
            return f"an attribute of a loss is set by its name on line {line}"
        is_hook = isinstance(func, cst.Attribute) and func.attr.value in _HOOKS
        if is_hook and isinstance(func, cst.Attribute) and file.value(func.value).name == module.name:
            return f"`{func.attr.value}` on line {line} shows what the loss is given"
    return ""


def _is_wrapped(file: FileFacts, made: cst.Call) -> bool:
    wrapping = (call for call in file.tree.all(cst.Call) if (file.qualified(call) or "") in _WRAPPERS)
    return any(file.value(call.args[0].value).call is made for call in wrapping if call.args)
