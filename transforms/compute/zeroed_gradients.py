"""Gradients that are filled with zeros before every step, only to be added to.

Zeroing writes a zero into every gradient, and the backward pass reads it back to add to it. If the gradient is None,
which is what `zero_grad` sets by default since PyTorch 2.0, the backward pass stores its result directly:

    optimizer.zero_grad(set_to_none=False)       optimizer.zero_grad(set_to_none=True)

    for p in model.parameters():                 model.zero_grad(set_to_none=True)
        if p.grad is not None:
            p.grad.zero_()

    w.grad.zero_()                               w.grad = None

The two are not always the same. A parameter that gets no gradient in some step (a branch that was not taken, a layer
that was skipped) keeps its zeros, and an optimizer with momentum or weight decay still updates it; if its gradient is
None the optimizer skips it. So the rewrite is offered where the optimizer is plain SGD, for which a zero gradient
changes nothing and nothing else reads the gradients; elsewhere it is an open question.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute import _zeroing
from perfmod.transforms.compute._zeroing import Zeroing
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import comments, delete_statements, replace

_DECAYS = (
    "with momentum or weight decay, a parameter without a gradient in some step is still updated by a zero "
    "gradient, but not by None"
)


class ZeroedGradients(Rule):
    code = "PM308"
    name = "zeroed-gradients"
    family = Family.COMPUTE
    summary = "Gradients are filled with zeros, which the backward pass has to read and add to"
    fix_title = "Set the gradients to None instead of zero"
    numerics = Numerics.BITWISE
    safety = Safety.OPT_IN
    min_torch = "1.7"
    status = Status.PREVIEW
    triggers = frozenset({"zero_grad", "grad"})
    references = (
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    )
    changes_results = (
        "Not where every step computes gradients for the same parameters, up to the sign of a zero. Between two steps "
        "`.grad` is None where it held zeros. A parameter that gets no gradient in some step is no longer updated by "
        "momentum, by Adam's moments or by weight decay: an open question for all but plain SGD."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        every = list(_zeroing.zeroings(file))
        for zeroing in every:
            yield self._judge(file, zeroing, every)

    def _judge(self, file: FileFacts, zeroing: Zeroing, every: Sequence[Zeroing]) -> Finding:
        node = zeroing.node
        used = _zeroing.other_use(file, zeroing, every)
        if used is not None:
            return self.refused(file, node, f"`{file.code(used)}` on line {file.line(used)} may depend on the zeros")
        if zeroing.owner is not None and _is_conditional(file, zeroing):
            return self.refused(file, node, "only some gradients are zeroed, under a condition")
        doubt = "" if _moves_nothing(file, zeroing) else _DECAYS
        if not _zeroing.backward_passes(file, zeroing):
            doubt = "no backward pass follows in the same function"
        return self.found(
            file,
            node,
            doubt or "the next backward pass computes every gradient again",
            self._edits(file, zeroing),
            safety=Safety.UNSAFE if doubt else None,
            numerics=Numerics.BEHAVIOURAL if doubt else None,
        )

    def _edits(self, file: FileFacts, zeroing: Zeroing) -> list[Edit]:
        source = file.source
        if zeroing.given is not None:
            return [replace(source, zeroing.given, "True")]
        loop = _zeroing.parameter_loop(file, zeroing)
        model = _model(file, loop) if loop is not None else None
        if loop is not None and model is not None and not comments(source, loop):
            return [replace(source, loop, f"{source.code(model)}.zero_grad(set_to_none=True)")]
        edits = [replace(source, zeroing.statement, f"{source.code(zeroing.node)} = None")]
        detaching = _zeroing.detaching(file, zeroing)
        return [*edits, *(delete_statements(source, detaching) if detaching else ())]


def _model(file: FileFacts, loop: cst.For) -> cst.BaseExpression | None:
    """The module over whose parameters a loop runs, where it runs over all of them."""
    call = loop.iter
    if not isinstance(call, cst.Call) or call.args or not isinstance(call.func, cst.Attribute):
        return None
    if call.func.attr.value != "parameters" or file.value(call.func.value).kind is not Kind.MODULE:
        return None
    return call.func.value


def _moves_nothing(file: FileFacts, zeroing: Zeroing) -> bool:
    """Whether the optimizers at work leave a parameter alone whose gradient is zero."""
    node = zeroing.node
    if zeroing.given is not None and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        value = file.value(node.func.value)
        if value.kind is Kind.OPTIMIZER:
            return _zeroing.is_plain_sgd(file, value)
    made = [file.value(call) for call in find_all(file.tree.module, cst.Call) if _makes_optimizer(file, call)]
    return bool(made or zeroing.owner is not None) and all(_zeroing.is_plain_sgd(file, value) for value in made)


def _makes_optimizer(file: FileFacts, call: cst.Call) -> bool:
    return (file.qualified(call) or "").startswith("torch.optim.") and file.value(call).kind is Kind.OPTIMIZER


def _is_conditional(file: FileFacts, zeroing: Zeroing) -> bool:
    """Whether a loop over parameters zeroes only some, by a test other than that there is a gradient."""
    assert zeroing.owner is not None
    code = f"{file.code(zeroing.owner)}.grad"
    loop = next(iter(file.tree.loops(zeroing.node)), None)
    if loop is None or not any(name.value == file.code(zeroing.owner) for name in _variables(loop)):
        return False
    tests = [
        a.test for a in file.tree.ancestors(zeroing.node) if isinstance(a, cst.If) and file.tree.is_within(a, loop)
    ]
    return any(file.code(test) not in (f"{code} is not None", f"{code} != None", code) for test in tests)


def _variables(loop: cst.For | cst.While) -> list[cst.Name]:
    """The variables that a loop binds."""
    return list(find_all(loop.target, cst.Name)) if isinstance(loop, cst.For) else []
