"""A loss over `logits[mask]` and `target[mask]` makes the host wait: the device must count the mask before it can
say how large the selection is, and nothing more is queued until the host has that number.

The loss does not need the selection: the mask goes inside, what is left out is read as 0, and adds nothing.
Where the mask is the same in every step, as `data.train_mask` of a full-batch graph, its index is made once, in
front of the loop, and the selection stays as it is, whatever the loss.

- `cross_entropy`, `nll_loss`: the target becomes `torch.where(mask, target, ignore_index)`, which the loss skips.
- `mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`, `kl_div`, `binary_cross_entropy`: both sides become
  `torch.where(mask, side, 0)`, of which the loss is 0, and its sum is divided by the mask's count.
- `binary_cross_entropy_with_logits`: the same, with the mask as `weight`, or with the selected weights cleaned.
- `losses[mask].mean()`: `torch.where(mask, losses, 0).sum() / mask.sum()`.

Their classes in `torch.nn` are treated alike. Of a mask of nothing, the mean is NaN and the gradients are 0, before
and after. A sum in float16 overflows where a mean does not, so nothing is divided by hand where the code shows half
precision. Other losses have no such form, and what would take more than four lines is held back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_mask, is_mask_name, may_be_mask, same_mask
from perfmod.transforms.facts.torch_api import LOSS_FUNCTIONS, LOSS_MODULES
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._constant_masks import constant_mask, hoisted
from perfmod.transforms.syncs._gathers import Gather, Kept, gather, is_selection_read, sole_index
from perfmod.transforms.syncs._loss_calls import CLASSES, loss_call, reduction_of, subject
from perfmod.transforms.syncs._masked_forms import Form, NoForm, cleaned, ignoring, summed
from perfmod.transforms.writing import comments

_MOST_LINES = 4


class MaskedLoss(Rule):
    code: ClassVar[str] = "PM104"
    name: ClassVar[str] = "masked-loss"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = "a loss over a boolean selection makes the host wait for the mask's count"
    fix_title: ClassVar[str] = "Mask inside the loss instead of selecting"
    numerics: ClassVar[Numerics] = Numerics.ROUNDING
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.12"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = (
        LOSS_FUNCTIONS | {name.rpartition(".")[2] for name in LOSS_MODULES} | {"forward", "backward", "masked_select"}
    )
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.where.html",
    )
    changes_results: ClassVar[str] = (
        "The sum runs over all elements instead of the selected ones, in another order, so losses and gradients move "
        "within the rounding of their type; a hoisted index changes nothing. A sum of element-wise losses in float16 "
        "can overflow where their mean does not: files that show half precision are refused, as are class targets that "
        "may be bytes, which cannot hold an ignore_index. The text of a loss printed as a tensor names its last "
        "operation, which may be a division then."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        calls = (call for call in find_all(file.source.module, cst.Call) if file.steps.reaches(call))
        followed: set[cst.CSTNode] = set()
        findings = [finding for call in calls for finding in self._settled(file, call, followed)]
        yield from findings
        for selection in find_all(file.source.module, cst.Subscript):
            index = sole_index(selection)
            if index is None or selection in followed or _is_part_of(file, selection, findings):
                continue
            if _waits(file, selection, index):
                reason = "it is used for more than a loss, and what becomes of it depends on which elements it holds"
                if not is_mask(file, index):
                    reason = f"could not tell whether `{file.code(index)}` is a boolean mask or an index"
                yield self.refused(file, selection, reason)

    def _settled(self, file: FileFacts, call: cst.Call, followed: set[cst.CSTNode]) -> list[Finding]:
        try:
            return list(self._consumed(file, call, followed))
        except NoForm as error:
            return [self.refused(file, call, str(error))]

    def _consumed(self, file: FileFacts, call: cst.Call, followed: set[cst.CSTNode]) -> Iterator[Finding]:
        """A loss or a reduction over selections, which are `followed`. Raises `NoForm` where they have to stay."""
        how, loss = reduction_of(file, call), loss_call(file, call)
        sides = {"tensor": subject(call)} if how is not None else loss.sides if loss is not None else {}
        found = {name: gather(file, given) for name, given in sides.items()}
        kept = [each for each in found.values() if each is not None]
        if not kept or (loss is not None and len(sides) < 2):
            return
        followed.update(each.selection for each in kept)
        hoisting = self._hoisted(file, call, [each for each in kept if isinstance(each, Gather)])
        if hoisting is not None:
            yield hoisting
            return
        if loss is not None and loss.objection:
            raise NoForm(loss.objection)
        gathers = _checked(file, found)
        if any(isinstance(around, cst.FormattedString) for around in file.tree.ancestors(call)):
            raise NoForm("it stands inside of an f-string, and needs a statement of its own")
        if how is not None:
            form = summed(file, call, gathers["tensor"], how)
        else:
            assert loss is not None
            form = (ignoring if loss.short in CLASSES else cleaned)(file, loss, gathers)
        yield self._judged(file, call, next(reversed(gathers.values())), form)

    def _hoisted(self, file: FileFacts, call: cst.Call, gathers: list[Gather]) -> Finding | None:
        masks = [constant_mask(file, each.mask) for each in gathers if isinstance(each.selection, cst.Subscript)]
        if not masks or len(masks) < len(gathers) or masks[0] is None or None in masks:
            return None
        edits, name = hoisted(file, masks[0])
        reason, safety = f"the mask is the same in every step, so its index `{name}` is made once", self.safety
        if not masks[0].is_shown:
            reason = f"could not show that `{file.code(masks[0].node)}` is a boolean mask"
            safety = Safety.UNSAFE
        return self.found(file, call, reason, edits, numerics=Numerics.BITWISE, safety=safety)

    def _judged(self, file: FileFacts, call: cst.Call, target: Gather, form: Form) -> Finding:
        """The finding, held back where something could not be shown, or a comment would go."""
        reason, safety, mask = form.reason, self.safety, file.code(target.mask)
        if not is_mask(file, target.mask):
            if not is_mask_name(target.mask):
                raise NoForm(f"could not tell whether `{mask}` is a boolean mask or an index")
            reason, safety = f"could not show that `{mask}` is a boolean mask", Safety.UNSAFE
        elif form.doubt or _loses_comment(file, call, form):
            reason, safety = form.doubt or "a comment inside the call would be lost", Safety.UNSAFE
        elif _lines(file, form) > _MOST_LINES:
            reason, safety = f"right, but it takes more than {_MOST_LINES} lines", Safety.UNSAFE
        return self.found(file, call, reason, form.edits, safety=safety, imports=form.imports)


def _lines(file: FileFacts, form: Form) -> int:
    """How many lines are new or others behind a rewrite."""
    written = [edit for edit in form.edits if edit.replacement]
    changed = {file.source.line_start(edit.start) for edit in written}
    return len(changed) + sum(edit.replacement.count("\n") for edit in written)


def _checked(file: FileFacts, sides: Mapping[str, Gather | Kept | None]) -> dict[str, Gather]:
    """All sides of a loss. Raises `NoForm` unless they are selected with one mask and nothing else reads them."""
    found: dict[str, Gather] = {}
    for name, each in sides.items():
        if isinstance(each, Kept):
            raise NoForm(each.reason)
        if each is None:
            raise NoForm(f"the {name} is not selected with the same mask here, so its selection cannot be undone")
        if file.value(each.mask).device is Device.CPU:
            raise NoForm("the mask lives on the CPU, where selecting is another matter than a wait in the step")
        found[name] = each
    first, *others = (each.mask for each in found.values())
    if not all(same_mask(file, first, mask) for mask in others):
        both = " and ".join((", ".join([*found][:-1]), [*found][-1]))
        raise NoForm(f"{both} are selected with different masks, or the mask is written to in between")
    return found


def _waits(file: FileFacts, selection: cst.Subscript, index: cst.BaseExpression) -> bool:
    """Whether `x[i]` selects from a tensor of the device with what may be a mask, in a step."""
    base = file.value(selection.value)
    if not base.is_tensor or not may_be_mask(file, index) or not file.steps.reaches(selection):
        return False
    return Device.CPU not in (base.device, file.value(index).device) and is_selection_read(file, selection)


def _is_part_of(file: FileFacts, node: cst.CSTNode, findings: list[Finding]) -> bool:
    """Whether one of the findings shows or rewrites a node."""
    start, end = file.source.span(node)
    return any(
        (found.start <= start and end <= found.end)
        or any(edit.start < end and start < edit.end for edit in found.edits)
        for found in findings
    )


def _loses_comment(file: FileFacts, call: cst.Call, form: Form) -> bool:
    """Whether a comment stands in code that is replaced; those on lines that go are kept."""
    within = comments(file.source, file.tree.statement(call))
    return any(
        edit.start <= at < edit.end and text not in edit.replacement for edit in form.edits for at, text in within
    )
