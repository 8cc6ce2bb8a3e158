"""Evaluations that build an autograd graph that is never used.

While gradients are enabled, every operation on a model's parameters records what its backward pass would need, and
keeps the activations. In a loop over validation data this costs memory and time for nothing: `model.eval()` switches
dropout and batch normalisation, but not the recording. `torch.no_grad()` does:

    def evaluate(model, loader):                 @torch.no_grad()
        model.eval()                             def evaluate(model, loader):
        for x, y in loader:                          model.eval()
            ...                                      ...

A function that only evaluates gets a decorator, because that is one line. Where the evaluation is part of a training
function or of a script, its loop is put under `with torch.no_grad():`; a long loop is an open question, because all of
its lines would be re-indented.

The values are the same. Code that could tell the difference stays as it is, and where perfmod cannot see it, that is an
open question: gradients taken inside the evaluation (adversarial examples, forces), tensors that are differentiated
later, and printed tensors, because `tensor(0.5, grad_fn=<...>)` loses its `grad_fn`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute import _evaluations as evaluations
from perfmod.transforms.compute._regions import (
    evaluated_in,
    last_line,
    only_evaluates,
    regions,
    statements_of,
    why_not_nested,
    without_graph,
)
from perfmod.transforms.facts.escapes import Escape, Fate, first_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import MOST_MOVED

_FRAMEWORKS = ("lightning.", "pytorch_lightning.", "transformers.")
_MESSAGES = {
    Fate.DIFFERENTIATED: "the model's output is differentiated on line {}",
    Fate.PRINTED: "a tensor is printed on line {}, and its `grad_fn` would no longer be shown",
    Fate.KEPT: "a tensor is stored on line {}, where other code may differentiate it",
    Fate.RETURNED: "a tensor is returned on line {}, and perfmod may not see all of its uses",
}


class GradInEvaluation(Rule):
    code = "PM307"
    name = "grad-in-evaluation"
    family = Family.COMPUTE
    summary = "An evaluation records an autograd graph that is never used"
    fix_title = "Evaluate under torch.no_grad()"
    numerics = Numerics.BITWISE
    safety = Safety.OPT_IN
    min_torch = "0.4"
    status = Status.PREVIEW
    triggers = frozenset({"eval", "train", "training", "is_train", "phase", "val", "test", "valid", "validation"}) | {
        f"{split}_{what}" for split in ("val", "valid", "test", "eval", "dev") for what in ("loader", "dataloader")
    }
    references = (
        "https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation",
        "https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html",
    )
    changes_results = (
        "Never for values: the same kernels compute the same numbers. Tensors that leave the evaluation have no graph "
        "any more, so `backward` on them fails and printing them shows no `grad_fn`: where this is seen the evaluation "
        "stays as it is, and where it may be so it is an open question. `nn.TransformerEncoder` and "
        "`nn.MultiheadAttention` take a fused path in evaluation mode without gradients, with other rounding and zeros "
        "at padded positions: an open question too. Attention kernels and compiled models may round differently."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for function in find_all(file.tree.module, cst.FunctionDef):
            yield from self._function(file, function)
        yield from self._blocks(file, file.tree.module)

    def _function(self, file: FileFacts, function: cst.FunctionDef) -> Iterator[Finding]:
        cls = file.classes.around(function)
        if cls is not None and (cls.derives(*_FRAMEWORKS) or (cls.is_module and function.name.value == "forward")):
            return  # the framework switches gradients off itself, and a forward pass is the caller's
        if not only_evaluates(file, function):
            yield from self._blocks(file, function)
            return
        evaluated = evaluated_in(file, function.body)
        calls = [
            call
            for call in evaluations.model_calls(file, function.body, evaluated)
            if not evaluations.is_switched(file, call)
        ]
        if not calls:
            return
        torch, imports = file.names.spelled("torch", function)
        start = file.source.line_start(file.source.span(function)[0])
        edit = Edit(start, start, f"{file.source.indentation(start)}@{torch}.no_grad(){file.source.newline}")
        yield self._judged(
            file, calls[0], calls, [function.body], [edit], imports, f"`{function.name.value}` only evaluates"
        )

    # Evaluations inside of other code

    def _blocks(self, file: FileFacts, scope: cst.FunctionDef | cst.Module) -> Iterator[Finding]:
        body = scope.body if isinstance(scope, cst.FunctionDef) else scope
        evaluated = evaluated_in(file, body)
        for region in regions(file, scope, evaluated):
            torch, imports = file.names.spelled("torch", region.first)
            statements = statements_of(file, region)
            held = why_not_nested(file, statements)
            if held:
                yield self.refused(file, region.calls[0], held)
                continue
            edits = without_graph(file, region, f"{torch}.no_grad()")
            first, last = file.source.line(region.first), last_line(file, region.last)
            label = f"lines {first} to {last} only evaluate" if last > first else f"line {first} only evaluates"
            yield self._judged(file, region.calls[0], region.calls, statements, edits, imports, label)

    def _judged(
        self,
        file: FileFacts,
        node: cst.Call,
        calls: Sequence[cst.Call],
        code: Sequence[cst.CSTNode],
        edits: Sequence[Edit],
        imports: Sequence[str],
        label: str,
    ) -> Finding:
        need = evaluations.need_of_gradients(file, code, calls)
        if need is not None:
            return self.refused(file, node, need.reason)
        computed = [call for call in calls if file.value(call).kind is not Kind.NUMBER]
        escapes = file.escapes.of([*computed, *evaluations.parameters_read(file, code)])
        wrong = _first(file, [escape for escape in escapes if escape.fate is Fate.DIFFERENTIATED])
        if wrong:
            return self.refused(file, node, wrong)
        doubt = _first(file, escapes)
        suggestion = evaluations.suggests_gradients(file, code, calls)
        if not doubt and suggestion:
            doubt = (
                f"perfmod cannot see the code of the model, and `{suggestion}` suggests that it needs gradients itself"
            )
        module = evaluations.takes_another_path(file)
        if not doubt and module:
            doubt = f"`{module}` computes slightly different values in evaluation mode without gradients"
        if not doubt and len(edits) > MOST_MOVED:
            doubt = f"{label}, and {len(edits)} lines would be indented: review it with `git diff -w`"
        return self.found(
            file,
            node,
            doubt or f"{label}, and no result is differentiated",
            edits,
            safety=Safety.UNSAFE if doubt else None,
            numerics=Numerics.ROUNDING if module or evaluations.may_round_differently(file) else None,
            imports=imports,
        )


def _first(file: FileFacts, escapes: Sequence[Escape]) -> str:
    escape = first_of(file, escapes)
    return _MESSAGES[escape.fate].format(file.line(escape.node)) if escape is not None else ""
