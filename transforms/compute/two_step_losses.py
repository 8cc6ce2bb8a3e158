"""Probabilities that are computed only for a loss, which could take the logits.

`log_softmax` followed by `nll_loss` is what `cross_entropy` computes in one call. `sigmoid` followed by
`binary_cross_entropy` is the same mathematics as `binary_cross_entropy_with_logits`, which needs one pass over the
logits and stays exact where the sigmoid rounds to 0 or 1:

    loss = F.nll_loss(F.log_softmax(x, dim=1), y)            loss = F.cross_entropy(x, y)
    loss = F.binary_cross_entropy(torch.sigmoid(x), y)       loss = F.binary_cross_entropy_with_logits(x, y)

The activation at the end of a model is not looked at: other code that uses the model's output would get logits.

The first is bitwise equal where the classes are in dimension 1. The second is never applied by default: where the
sigmoid saturates, `binary_cross_entropy` clamps its logarithm at -100 and its gradient vanishes, while the loss on
logits keeps growing and pulls the model back. That trains better, and differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._activations import (
    FUNCTIONS,
    LOG_SOFTMAX,
    MODULES,
    SIGMOID,
    NotEqual,
)
from perfmod.transforms.compute._logits import activations, logits_for, renamed_to, require_all_in_sight, require_own
from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_SATURATES = (
    "where the sigmoid saturates at 0 or 1 the loss is clamped at 100 and has no gradient; on logits it has one"
)
_EQUAL = "cross_entropy computes the same log_softmax and nll_loss"


class TwoStepLosses(Rule):
    code = "PM310"
    name = "two-step-losses"
    family = Family.COMPUTE
    summary = "Probabilities are computed for a loss that could take the logits directly"
    fix_title = "Pass the logits to the loss"
    numerics = Numerics.ROUNDING
    safety = Safety.OPT_IN
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"nll_loss", "NLLLoss", "NLLLoss2d", "binary_cross_entropy", "BCELoss"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",
    )
    changes_results = (
        "Not for log_softmax and nll_loss over dimension 1: the operations are the same. A sigmoid with "
        "binary_cross_entropy agrees up to rounding while the logits stay below about 15; beyond, the loss and its "
        "gradient differ, so it is an open question, as is the logarithm of a softmax."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        made: dict[cst.Call, list[cst.Call]] = {}
        for call in find_all(file.tree.module, cst.Call):
            known = FUNCTIONS.get(file.qualified(call) or "")
            if known is not None and not has_star(call):
                yield from self._losses(file, [call], known, None)
                continue
            module = file.value(call.func)
            if module.kind is Kind.MODULE and module.call is not None and module.name in MODULES:
                made.setdefault(module.call, []).append(call)
        for construction, calls in made.items():
            yield from self._losses(
                file, calls, MODULES[file.qualified(construction) or "torch.nn.NLLLoss"], construction
            )

    def _losses(
        self, file: FileFacts, calls: Sequence[cst.Call], known: tuple[str, str], made: cst.Call | None
    ) -> Iterator[Finding]:
        """One finding for a call of a function, or for a module with all of its calls."""
        kind, better = known
        try:
            found = activations(file, calls, kind)
            if not found:
                return
            require_own(file, [*calls, *([made] if made is not None else []), *(each.call for _, each in found)])
            if made is not None:
                require_all_in_sight(file, made, calls)
            parts = [edit for call, activation in found for edit in logits_for(file, calls, call, activation)]
        except NotEqual as reason:
            yield self.refused(file, calls[0], str(reason))
            return
        doubts = [activation.doubt for _, activation in found]
        renamed = made.func if made is not None else calls[0].func
        edits, imports = renamed_to(file, renamed, better, is_module=made is not None)
        doubt = next(filter(None, doubts), "") or (_SATURATES if kind == SIGMOID else "")
        exact = kind == LOG_SOFTMAX and all(activation.exact for _, activation in found)
        yield self.found(
            file,
            calls[0],
            doubt or _EQUAL,
            [*edits, *dict.fromkeys(parts)],
            safety=Safety.UNSAFE if doubt else None,
            numerics=Numerics.BITWISE if exact and not doubt else None,
            imports=imports,
        )
