"""A loss over `logits[mask]` and `target[mask]` makes the CPU wait: the device must count the mask before the size of
the selection is known, and nothing more is queued until then.

The loss does not need the selection: the mask goes into the loss, where masked elements are read as 0 and add
nothing. Where the mask is the same in every step, like `data.train_mask` of a full-batch graph, its index is computed
once before the loop, and the selection stays as it is, whatever the loss.

- `cross_entropy`, `nll_loss`: the target becomes `torch.where(mask, target, ignore_index)`, which the loss skips.
- `mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`, `kl_div`, `binary_cross_entropy`: both inputs become
  `torch.where(mask, side, 0)`, of which the loss is 0, and its sum is divided by the mask's count.
- `binary_cross_entropy_with_logits`: the same, with the mask as `weight`, or with the selected weights cleaned.
- `losses[mask].mean()`: `torch.where(mask, losses, 0).sum() / mask.sum()`.

Their classes in `torch.nn` are treated alike. For an empty mask, the mean is NaN and the gradients are 0, before and
after. A sum in float16 can overflow where the mean does not, so nothing is divided by hand in code that uses half
precision. Other losses have no such form, and a rewrite of more than four lines is an open question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_mask, is_mask_name, same_mask
from perfmod.transforms.facts.torch_api import LOSS_FUNCTIONS, LOSS_MODULES
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs._asked import why_asked
from perfmod.transforms.syncs._constant_masks import constant_mask, hoisted
from perfmod.transforms.syncs._gathers import Gather, Kept, gather
from perfmod.transforms.syncs._loss_calls import CLASSES, loss_call, reduction_of, subject
from perfmod.transforms.syncs._masked_forms import Form, NoForm, cleaned, ignoring, summed
from perfmod.transforms.writing import comments

_MOST_LINES = 4


class MaskedLoss(Rule):
    code: ClassVar[str] = "PM104"
    name: ClassVar[str] = "masked-loss"
    family: ClassVar[Family] = Family.SYNCS
    summary: ClassVar[str] = (
        "Selecting elements with a boolean mask makes the CPU wait for the number of selected elements"
    )
    fix_title: ClassVar[str] = "Apply the mask inside the loss"
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
        "The sum runs over all elements instead of the selected ones, in another order, so losses and gradients differ "
        "by rounding; an index that is moved out of the loop changes nothing. A sum of element-wise losses in float16 "
        "can overflow where their mean does not: in files that use half precision such losses stay as they are, and so "
        "do class targets that may be uint8, which cannot hold an ignore_index. A loss that is printed as a tensor "
        "names its last operation, which may then be a division."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        calls = (call for call in find_all(file.source.module, cst.Call) if file.steps.reaches(call))
        for call in calls:
            yield from self._settled(file, call)

    def _settled(self, file: FileFacts, call: cst.Call) -> list[Finding]:
        try:
            return list(self._consumed(file, call))
        except NoForm as error:
            return [self.refused(file, call, str(error))]

    def _consumed(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        """A loss or a reduction over selections. Raises `NoForm` where they have to stay."""
        how, loss = reduction_of(file, call), loss_call(file, call)
        sides = {"tensor": subject(call)} if how is not None else loss.sides if loss is not None else {}
        found = {name: gather(file, given) for name, given in sides.items()}
        kept = [each for each in found.values() if each is not None]
        if not kept or (loss is not None and len(sides) < 2):
            return
        hoisting = self._hoisted(file, call, [each for each in kept if isinstance(each, Gather)])
        if hoisting is not None:
            yield hoisting
            return
        if loss is not None and loss.objection:
            raise NoForm(loss.objection)
        gathers = _checked(file, found)
        if any(isinstance(around, cst.FormattedString) for around in file.tree.ancestors(call)):
            raise NoForm("it is inside an f-string: give it a statement of its own")
        if how is not None:
            form = summed(file, call, gathers["tensor"], how)
        else:
            assert loss is not None
            form = (ignoring if loss.short in CLASSES else cleaned)(file, loss, gathers)
        yield self._judged(file, call, list(gathers.values()), form)

    def _hoisted(self, file: FileFacts, call: cst.Call, gathers: list[Gather]) -> Finding | None:
        masks = [constant_mask(file, each.mask) for each in gathers if isinstance(each.selection, cst.Subscript)]
        if not masks or len(masks) < len(gathers) or masks[0] is None or None in masks:
            return None
        edits, name = hoisted(file, masks[0])
        reason, safety = f"the mask is the same in every step, so its index `{name}` is computed once", self.safety
        asked = why_asked(file, [(each.selection, each.mask) for each in gathers])
        if not masks[0].is_shown:
            reason = f"`{file.code(masks[0].node)}` is not known to be a boolean mask"
            safety = Safety.UNSAFE
        elif asked is not None:
            reason, safety = asked, Safety.LOW_IMPACT
        return self.found(file, call, reason, edits, numerics=Numerics.BITWISE, safety=safety)

    def _judged(self, file: FileFacts, call: cst.Call, gathers: list[Gather], form: Form) -> Finding:
        """The finding, held back where something could not be shown, or a comment would go."""
        target = gathers[-1]
        reason, safety, mask = form.reason, self.safety, file.code(target.mask)
        asked = why_asked(file, [(each.selection, each.mask) for each in gathers])
        if not is_mask(file, target.mask):
            if not is_mask_name(target.mask):
                raise NoForm(f"`{mask}` may be a boolean mask or an index, which could not be determined")
            reason, safety = f"`{mask}` is not known to be a boolean mask", Safety.UNSAFE
        elif doubt := form.doubt or _why_not_wanted(file, call, form):
            reason, safety = doubt, Safety.UNSAFE
        elif asked is not None:
            reason, safety = asked, Safety.LOW_IMPACT
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
            raise NoForm(f"the {name} is not selected with the same mask here")
        if file.value(each.mask).device is Device.CPU:
            raise NoForm("the mask is on the CPU, so selecting with it does not wait for the device")
        found[name] = each
    first, *others = (each.mask for each in found.values())
    if not all(same_mask(file, first, mask) for mask in others):
        both = " and ".join((", ".join([*found][:-1]), [*found][-1]))
        raise NoForm(f"{both} are selected with different masks, or the mask is modified in between")
    return found


def _why_not_wanted(file: FileFacts, call: cst.Call, form: Form) -> str:
    """Why nobody would merge a rewrite; empty where somebody would. Comments on lines that go are kept."""
    within = comments(file.source, file.tree.statement(call))
    if any(edit.start <= at < edit.end and text not in edit.replacement for edit in form.edits for at, text in within):
        return "a comment inside the call would be lost"
    return f"the rewrite is right, but adds more than {_MOST_LINES} lines" if _lines(file, form) > _MOST_LINES else ""
