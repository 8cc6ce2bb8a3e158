"""When code runs: in every step, and in the rounds of which loop."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, find_in_scope, walk_scope
from perfmod.transforms.facts.value import Kind

_WITHOUT_GRADIENTS = (".no_grad", ".inference_mode")


def runs_every_step(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether steps come by; in files without any, whether a forward pass or a loop does."""
    decided = file.steps.decide(node) or file.steps.in_forward(node)
    return file.steps.runs_every_step(node) and (decided or bool(file.tree.loops(node)))


def step_loop(file: FileFacts, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop of which each round is a step, or the innermost loop in files without steps."""
    region = file.steps.region(node)
    if isinstance(region, (cst.For, cst.While)):
        return region
    loops = file.tree.loops(node)
    return loops[0] if loops and not file.steps.in_file_of(node) else None


def is_repeated(file: FileFacts, node: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether rounds of a loop come by `node`: it stands in the body, or in the test of a `while`."""
    parts = [loop.body, *([loop.test] if isinstance(loop, cst.While) else [])]
    return any(file.tree.is_within(node, part) for part in parts)


def comes_often(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether every step comes by, be it of a training or a round of a loop over the batches of a loader."""
    if runs_every_step(file, node):
        return True
    return in_evaluation(file, node) and not file.steps.is_gated(node, round_loop(file, node))


def round_loop(file: FileFacts, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The innermost loop around `node` of which each round is a step of a training or of an evaluation."""
    region = file.steps.region(node)
    for loop in file.tree.loops(node):
        if loop is region or evaluates(file, loop):
            return loop
    return step_loop(file, node)


def in_evaluation(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether `node` runs for every batch of a loader."""
    loop = round_loop(file, node)
    return loop is not None and evaluates(file, loop)


def unshown_loop(file: FileFacts, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop around `node` of which nothing shows that its rounds run a model, or that a step or forward runs it."""
    loop = round_loop(file, node)
    if loop is None or evaluates(file, loop) or file.steps.in_sight(node) or file.steps.in_forward(node):
        return None
    return loop if not (_runs_model(file, loop) or _moves_batch(loop)) else None


def evaluates(file: FileFacts, loop: cst.CSTNode) -> bool:
    """Whether a loop goes through the batches of a loader, or through anything without gradients.

    Rounds that are only counted are those of an evaluation where a model runs in each.
    """
    if not isinstance(loop, cst.For):
        return False
    value = file.values.iterated(loop.iter)
    if any(part.origin is not None for part in (value, *(value.items or ()))):
        return True
    if file.qualified(loop.iter) == "builtins.range" and not _runs_model(file, loop):
        return False
    # `with torch.no_grad():` around what a round does with a model.
    inner = (line for line in getattr(loop.body, "body", ()) if isinstance(line, cst.With))
    switches = [item.item for line in inner for item in line.items if _runs_model(file, loop)]
    for ancestor in file.tree.ancestors(loop):
        if isinstance(ancestor, cst.With):
            switches += [item.item for item in ancestor.items]
        elif isinstance(ancestor, cst.FunctionDef):
            switches += [decorator.decorator for decorator in ancestor.decorators]
            break
    return any((file.qualified(switch) or "").endswith(_WITHOUT_GRADIENTS) for switch in switches)


def _moves_batch(loop: cst.For | cst.While) -> bool:
    """Whether each round moves what it goes through to a device, as with the batches of a loader."""
    targets = {name.value for name in find_all(loop.target, cst.Name)} if isinstance(loop, cst.For) else set()
    moved = (each.func for each in find_all(loop.body, cst.Call) if isinstance(each.func, cst.Attribute))
    return any(each.attr.value in ("to", "cuda") and dotted(each.value) in targets for each in moved)


def _runs_model(file: FileFacts, loop: cst.For | cst.While) -> bool:
    """Whether a round runs a model."""
    return any(isinstance(node, cst.Call) and runs_model(file, node) for node in find_in_scope(loop.body, cst.Call))


def runs_model(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call is one of a module, or of what the function around switches to evaluation by `model.eval()`."""
    if file.value(call.func).kind is Kind.MODULE:
        return True
    around: cst.CSTNode = file.tree.function(call) or file.tree.module_of(call)
    known = file.once(_known_switched)
    if around not in known:
        known[around] = frozenset(
            file.code(node.func.value)
            for node in walk_scope(around.body if isinstance(around, cst.FunctionDef) else around)
            if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "eval"
        )
    return bool(known[around]) and file.code(call.func) in known[around]


def _known_switched(_: FileFacts) -> dict[cst.CSTNode, frozenset[str]]:
    """What functions switch to evaluation, as far as it was looked for."""
    return {}


def is_late(file: FileFacts, node: cst.CSTNode, fed: cst.CSTNode) -> bool:
    """Whether `node` is behind the steps that come by `fed`, or runs only in some of them."""
    loop = round_loop(file, fed)
    if loop is not None and is_repeated(file, node, loop):
        return file.steps.is_gated(node, loop)
    if loop is not None and file.tree.function(node) is file.tree.function(loop):
        return True
    return file.steps.is_gated(node) or not (file.steps.in_sight(node) or file.steps.in_forward(node))
