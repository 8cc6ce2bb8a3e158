"""Distributions that validate their arguments and samples in every step.

Every distribution in `torch.distributions` checks whether its arguments are valid, `(scale > 0).all()` and the like,
and `log_prob` checks whether the sample is possible. Each check waits for the device:

    dist = Categorical(logits=logits)                dist = Categorical(logits=logits, validate_args=False)

The checks are there to find mistakes. If a training has run with them for a while, they can be switched off; perfmod
does so only with `--unsafe`, because a NaN that raised an exception before would reach the loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, is_false
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._around import in_every_step

_MODULE = "torch.distributions."
_OTHER_MODULES = frozenset({"constraints", "transforms", "kl", "utils", "constraint_registry"})
_DEFAULTS = "set_default_validate_args"


class ValidatedDistribution(Rule):
    """PM110."""

    code = "PM110"
    name = "validated-distribution"
    family = Family.SYNCS
    summary = "A distribution validates its arguments on the device in every step"
    fix_title = "Pass validate_args=False"
    numerics = Numerics.BITWISE
    safety = Safety.UNSAFE
    min_torch = "1.8"
    status = Status.PREVIEW
    triggers = frozenset({"distributions"})
    references = (
        "https://docs.pytorch.org/docs/stable/distributions.html#torch.distributions.distribution.Distribution",
    )
    changes_results = (
        "Not for valid arguments and samples. Invalid ones (a NaN, a negative scale, an action that does not exist) "
        "raised ValueError before, and give NaN or a wrong number after."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every distribution that a step makes of tensors of the device."""
        switched = next((node for node in find_all(file.tree.module, cst.Name) if node.value == _DEFAULTS), None)
        for call in find_all(file.tree.module, cst.Call):
            if not _is_distribution(file, call) or not in_every_step(file, call):
                continue
            if not any(_may_be_on_device(file, arg.value) for arg in call.args):
                continue
            asked = argument(call, "validate_args")
            if asked is not None:
                if not is_false(asked):
                    yield self.refused(file, call, f"`validate_args={file.code(asked)}` is set explicitly")
            elif switched is not None:
                yield self.refused(file, call, f"line {file.line(switched)} sets validation for all distributions")
            elif has_star(call):
                yield self.refused(
                    file, call, "its arguments are passed by `*` or `**`, and may include `validate_args`"
                )
            else:
                edits = add_keyword(file.source, call, "validate_args=False", wrap=False)
                reason = "without the check a NaN would reach the loss instead of raising an error"
                yield self.found(file, call, reason, edits)


def _is_distribution(file: FileFacts, call: cst.Call) -> bool:
    name = file.qualified(call) or ""
    if not name.startswith(_MODULE):
        return False
    *modules, last = name.removeprefix(_MODULE).split(".")
    is_class = last[:1].isupper() and not last.endswith("Transform")
    return is_class and not _OTHER_MODULES.intersection(modules) and last not in ("Distribution", "ExponentialFamily")


def _may_be_on_device(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a parameter is no number, and no tensor of the CPU."""
    value = file.value(node)
    if value.kind in (Kind.NUMBER, Kind.NONE, Kind.TEXT, Kind.ARRAY):
        return False
    if isinstance(node, cst.Call) and _is_distribution(file, node):
        return any(_may_be_on_device(file, arg.value) for arg in node.args)
    return not (value.is_tensor and value.device is Device.CPU)
