"""Operations whose result size depends on the data, so that the CPU has to wait for the data.

`one_hot(labels)` looks for the largest label to know how many classes there are, and `repeat_interleave(x, repeats)`
sums the repeats: the CPU waits, because it has to allocate the result. Both take the size as an argument:

    (F.one_hot(labels) * scores).sum()          (F.one_hot(labels, num_classes=scores.shape[-1]) * scores).sum()
    torch.repeat_interleave(lengths_tensor)     torch.repeat_interleave(lengths_tensor, output_size=sum(lengths))

A wrong size is a CUDA error, or another result, so it is only written where the code shows the right one. Where an
encoding is combined with the scores of all classes, their number is almost certainly meant, but a batch without the
last class had fewer columns before: that is an open question. Elsewhere the reason names the argument. `bincount` waits
even with `minlength`; `torch.zeros(n).scatter_add_(...)` does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._sizes import classes_of_partner, sum_of_list

_ONE_HOT = "torch.nn.functional.one_hot"
_REPEAT = "torch.repeat_interleave"
_COUNT = "torch.bincount"


class DataDependentSize(Rule):
    """PM109."""

    code = "PM109"
    name = "data-dependent-size"
    family = Family.SYNCS
    summary = "The size of a result depends on the data, so the CPU waits for the GPU in every step"
    fix_title = "Pass the size as an argument"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.10"
    status = Status.PREVIEW
    triggers = frozenset({"one_hot", "repeat_interleave", "bincount", "histc"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.one_hot.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html",
    )
    changes_results = (
        "Never where it is safe: the size is the one that the data has. An open question is right if every batch "
        "contains the last class (`one_hot`), or if every entry has its own number of repeats (`repeat_interleave`)."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every such operation of a step that is not told its size."""
        for call in find_all(file.tree.module, cst.Call):
            kind, subject = _operation(file, call)
            if subject is None or not (in_every_step(file, call) or file.steps.may_run(call)):
                continue
            value = file.value(subject)
            if value.is_tensor and value.device is Device.CPU:
                continue
            if has_star(call):
                yield self.refused(file, call, "its arguments are passed by `*` or `**`, and may include the size")
            elif kind == _ONE_HOT:
                yield from self._encoded(file, call)
            elif kind == _REPEAT:
                yield from self._repeated(file, call)
            else:
                reason = (
                    "`bincount` waits even with `minlength=`; where the size n is known, "
                    "`torch.zeros(n).scatter_add_` does not"
                )
                yield self.found(file, call, reason, (), safety=Safety.ADVICE)

    def _encoded(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        given = argument(call, "num_classes", 1)
        if given is not None and file.code(given).replace(" ", "") != "-1":
            return
        size = classes_of_partner(file, call) if given is None else None
        if size is None:
            reason = "pass `num_classes=`: without the number the CPU waits for the largest label to count the classes"
            yield self.found(file, call, reason, (), safety=Safety.ADVICE)
            return
        reason = "right if every batch contains the last class: otherwise the result had fewer columns before"
        edits = add_keyword(file.source, call, f"num_classes={size}", wrap=False)
        yield self.found(file, call, reason, edits, safety=Safety.UNSAFE)

    def _repeated(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        if argument(call, "output_size") is not None:
            return
        is_method = file.qualified(call) is None
        repeats = argument(call, "repeats", 0 if is_method else 1)
        alone = repeats is None and not is_method
        repeats = argument(call, "input", 0) if alone else repeats
        if repeats is None or not file.value(repeats).is_tensor:
            return  # a number of repeats for all needs no data
        size = sum_of_list(file, repeats)
        if size is None:
            reason = "pass `output_size=`: without it the CPU waits for the sum of the repeats"
            yield self.found(file, call, reason, (), safety=Safety.ADVICE)
            return
        doubt = None if alone else "right if there is one number of repeats for each entry, not one for all"
        yield self.found(
            file,
            call,
            doubt or f"`{size}` is the same sum, computed from Python numbers",
            add_keyword(file.source, call, f"output_size={size}", wrap=False),
            safety=Safety.UNSAFE if doubt else None,
        )


def _operation(file: FileFacts, call: cst.Call) -> tuple[str, cst.BaseExpression | None]:
    """Which operation a call is, and what it is applied to."""
    name = file.qualified(call)
    if name in (_ONE_HOT, _REPEAT, _COUNT):
        return name or "", argument(call, "tensor" if name == _ONE_HOT else "input", 0)
    if name is None and isinstance(call.func, cst.Attribute) and file.value(call.func.value).is_tensor:
        method = f"torch.{call.func.attr.value}"
        return method, call.func.value if method in (_REPEAT, _COUNT) else None
    return "", None
