"""Attention that is written out: every score and every weight goes through the memory of the GPU several times.

Scores of each query with each key are computed, scaled, masked, normalised, dropped out and multiplied with the values
by kernels of their own, and all of them are kept for the backward pass. `scaled_dot_product_attention` does the same in
one kernel, which keeps neither scores nor weights:

    att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
    att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
    att = F.softmax(att, dim=-1)
    att = self.attn_dropout(att)
    y = att @ v

    y = F.scaled_dot_product_attention(
        q, k, v, dropout_p=self.attn_dropout.p if self.training else 0.0, is_causal=True
    )

In `attn_mask` True means that a position takes part, where `masked_fill` is given True for what is hidden. Modules and
buffers that are no longer used stay, because checkpoints and settings name them.

The weights must serve nothing else: what is returned, kept or shown has to be computed as it is. So has what is
differentiated twice, which the fused kernels cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute import _attention_masks, _attention_numbers
from perfmod.transforms.compute._attention import Attention, Softmax, attention, softmax, without_factor
from perfmod.transforms.compute._attention_products import Other, Stays, laid_out
from perfmod.transforms.compute._attention_rest import orphans, require_replaceable, runs
from perfmod.transforms.compute._attention_roles import Roles, roles
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.writing import call_text, delete_with_comment

_FUNCTION = "scaled_dot_product_attention"
_EQUAL = "the weights serve only the product with the values"
_FINITE = "a row that is masked wholly is an average of all values now, and would be NaN or zero"


class ManualAttention(Rule):
    code = "PM306"
    name = "manual-attention"
    family = Family.COMPUTE
    summary = "Attention is computed step by step, and all its weights go through memory"
    fix_title = "Use scaled_dot_product_attention"
    numerics = Numerics.PRECISION
    safety = Safety.OPT_IN
    min_torch = "2.0"
    status = Status.PREVIEW
    triggers = frozenset({"softmax", "Softmax"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        "https://docs.pytorch.org/tutorials/intermediate/scaled_dot_product_attention_tutorial.html",
    )
    changes_results = (
        "The mathematics is the same, and the fused kernels compute it in another order and partly in other formats. "
        "Dropout draws other random numbers. A row whose mask hides everything was NaN and may be zero; where masked "
        "scores are filled with a finite number, such a row was an average of all values, so that is an open question."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            found = softmax(file, call)
            if found is None:
                continue
            try:
                yield self._judge(file, found)
            except Other:
                continue
            except Stays as reason:
                yield self.refused(file, call, str(reason))

    def _judge(self, file: FileFacts, found: Softmax) -> Finding:
        whole = attention(file, found)
        parts = roles(file, whole)
        query, before = parts.query, without_factor(file, parts.query)
        if before is not None:
            query, factor, statement = before
            whole.factors.append(factor)
            whole.gone.extend([statement] if statement is not None else [])
        arguments = [_code(file, query, *parts.query_axes), _code(file, parts.key, *parts.key_axes)]
        arguments.append(_code(file, parts.value, *parts.value_axes))
        kept = [query, parts.key, parts.value]
        masks = list(reversed(whole.masks))
        key = parts.key_as_written(file)
        is_causal = len(masks) == 1 and _attention_masks.is_causal(file, masks[0], query, key)
        if masks:
            parts.require_plain(file, masks[0])
        if masks and not is_causal:
            arguments.append(f"attn_mask={_attention_masks.joined(file, masks)}")
            kept += [node for mask in masks for node in (mask.node, mask.test) if node is not None]
        if whole.dropout:
            arguments.append(f"dropout_p={whole.dropout}")
        arguments += ["is_causal=True"] if is_causal else []
        operands = () if parts.is_turned else (query, parts.query, key)
        is_default = _attention_numbers.is_default(file, whole.factors, *operands)
        for factor in whole.factors:
            if not is_default and not _attention_numbers.is_number(file, factor.node):
                raise Stays(f"the scores are scaled by `{file.code(factor.node)}`, which may be a tensor")
        if not is_default:
            arguments.append(f"scale={_attention_numbers.written(file, whole.factors)}")
            kept += [factor.node for factor in whole.factors]
        require_replaceable(file, whole, kept)
        finite = [mask for mask in masks if mask.is_finite and not is_causal]
        edits, imports = self._edits(file, whole, parts, arguments, kept)
        return self.found(
            file,
            found.call,
            _FINITE if finite else _EQUAL,
            edits,
            imports=imports,
            safety=Safety.UNSAFE if finite else None,
            min_torch=None if is_default else "2.1",
            questions=[question(file, Predicate.MASKS_NO_ROW, mask.node) for mask in finite],
        )

    def _edits(
        self, file: FileFacts, whole: Attention, parts: Roles, arguments: Sequence[str], kept: Sequence[cst.CSTNode]
    ) -> tuple[list[Edit], tuple[str, ...]]:
        source, node = file.source, whole.output.node
        start = source.span(node.lpar[0])[0] if node.lpar else source.span(node)[0]
        end = source.span(node.rpar[-1])[1] if node.rpar else source.span(node)[1]
        functional, imports = file.names.spelled("torch.nn.functional", node)
        behind = parts.output_change
        if parts.is_single:
            arguments = [*(f"{each}.unsqueeze(1)" for each in arguments[:3]), *arguments[3:]]
            behind = f".squeeze(1){behind}"
        code = call_text(source, start, f"{functional}.{_FUNCTION}", arguments, behind)
        gone = [*whole.gone, *orphans(file, whole, kept)]
        removed = [edit for each in runs(file, gone) for edit in delete_with_comment(source, each)]
        return [Edit(start, end, code, source.path), *removed], imports


def _code(file: FileFacts, node: cst.BaseExpression, axes: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    code = laid_out(file, node, axes, wanted)
    if code is None:
        raise Stays(f"the axes of `{file.code(node)}` stand in an order that cannot be changed without its rank")
    return code
