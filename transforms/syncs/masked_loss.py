"""A loss over `logits[mask]` and `target[mask]` makes the host wait: the device must count the mask before it can
say how large the selection is, and nothing more is queued until the host has that number.

The loss does not need the selection: the mask goes inside, what is left out is read as 0, and adds nothing.
Where the mask is the same in every step, as `data.train_mask` of a full-batch graph, its index is made once, in
front of the loop, and the selection stays as it is, whatever the loss.

- `cross_entropy`, `nll_loss`: the target becomes `torch.where(mask, target, ignore_index)`, which the loss skips.
- `mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss`, `kl_div`, `binary_cross_entropy`: both sides become
  `torch.where(mask, side, 0)`, of which the loss is 0, and its sum is divided by the mask's count.
- `binary_cross_entropy_with_logits`: the same, with the mask as `weight`, or with the selected weights cleaned.
- `poisson_nll_loss`, `soft_margin_loss`, `hinge_embedding_loss`, `margin_ranking_loss`: the same, and the losses of
  single elements are put to 0 as well, before they are summed.
- `cosine_embedding_loss`, `triplet_margin_loss`, `triplet_margin_with_distance_loss`,
  `multilabel_soft_margin_loss`: the same for rows, where the mask is shown to select rows.
- `gaussian_nll_loss` is refused: it waits for the device itself, to check its variances.
- `multi_margin_loss`, `multilabel_margin_loss` are refused: of an empty selection they return memory that nobody has
  written, which nothing can be equal to.
- `ctc_loss` and `linear_cross_entropy` are refused: the one aligns what was selected with something else, the other
  would multiply rows that are left out by the weights of all classes.

Their classes in `torch.nn` are treated alike. Of a mask of nothing, the mean is NaN and the gradients are 0, before
and after. A loss without a reduction is rewritten where nothing but a `mean` or `sum` follows, and smoothed labels
are no obstacle, but for a mean with class weights, where the loss itself selects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from perfmod.transforms.syncs._loss_calls import loss_call, objection, reduced, reduction_of, side, subject
from perfmod.transforms.syncs._loss_table import Inside
from perfmod.transforms.syncs._masked_forms import Form, NoForm, cleaned, ignoring, summed
from perfmod.transforms.syncs._printed import printed_itself
from perfmod.transforms.writing import comments


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
        "can overflow where their mean does not: files that show half precision are refused, autocast is not "
        "concerned. Class targets that may be bytes, which cannot hold an ignore_index, are cast with `.long()`. The "
        "text of a loss printed as a tensor names its operation, which may be a division then: that is held back."
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
        names: tuple[str, ...] = ("tensor",)
        if how is not None:
            read = [subject(call)]
        elif loss is not None:
            names = loss.sides
            read = [given for index in range(len(names)) if (given := side(call, loss, index)) is not None]
        else:
            return
        found = [gather(file, given) for given in read]
        gathers = [gathered for gathered in found if isinstance(gathered, Gather)]
        if len(read) < len(names) or found == [None] * len(found):
            return
        followed.update(gathered.selection for gathered in found if gathered is not None)
        hoisting = self._hoisted(file, call, gathers)
        if hoisting is not None:
            yield hoisting
            return
        problem = objection(loss) if loss is not None else ""
        if problem:
            raise NoForm(problem)
        _check_sides(file, names, found)
        if any(isinstance(around, cst.FormattedString) for around in file.tree.ancestors(call)):
            raise NoForm("it stands inside of an f-string, and needs a statement of its own")
        if how is not None:
            yield self._judged(file, call, gathers[0], summed(file, call, gathers[0], how))
        elif loss is not None:
            reduction = reduced(file, call, loss)
            if reduction is None:
                raise NoForm("without a reduction the result keeps the length of the selection")
            form = ignoring if loss.known.inside is Inside.TARGET else cleaned
            target = gathers[names.index("target")] if "target" in names else gathers[-1]
            yield self._judged(file, call, target, form(file, call, loss, gathers, reduction))

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
        elif form.renamed is not None and (printed := printed_itself(file, [form.renamed])) is not None:
            line = file.line(printed)
            reason = f"a tensor is printed on line {line}, and `grad_fn` would be another in the text"
            safety = Safety.UNSAFE
        return self.found(file, call, reason, form.edits, safety=safety, imports=form.imports)


def _check_sides(file: FileFacts, names: Sequence[str], sides: list[Gather | Kept | None]) -> None:
    """Raises `NoForm` unless all sides are selected with one mask and nothing else reads the selections."""
    for each in sides:
        if isinstance(each, Kept):
            raise NoForm(each.reason)
        if isinstance(each, Gather) and file.value(each.mask).device is Device.CPU:
            raise NoForm("the mask lives on the CPU, where selecting is another matter than a wait in the step")
    if None in sides:
        missing = names[sides.index(None)]
        raise NoForm(f"the {missing} is not selected with the same mask here, so its selection cannot be undone")
    masks = [each.mask for each in sides if isinstance(each, Gather)]
    if not all(same_mask(file, masks[0], mask) for mask in masks[1:]):
        both = " and ".join((", ".join(names[:-1]), names[-1]))
        raise NoForm(f"{both} are selected with different masks, or the mask is written to in between")


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
