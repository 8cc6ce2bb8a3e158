"""Optimizers that have a fused implementation, and what keeps it from their parameters."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.lightning import is_lightning_module
from perfmod.transforms.facts.tree import find_all, is_false, is_none
from perfmod.transforms.facts.value import Device, Kind

VERSIONS = {"Adam": ("2.0.1", "2.4"), "AdamW": ("2.0.1", "2.4"), "SGD": ("2.3", "2.4"), "Adagrad": ("2.12", "2.12")}
"""The optimizers, with the versions that have a fused implementation on CUDA, and both on CUDA and on the CPU."""

_EMBEDDINGS = ("torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.functional.embedding")
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_COMPLEX = frozenset({"complex64", "complex128", "cfloat", "cdouble"})


def fusible(file: FileFacts, call: cst.Call) -> str | None:
    """The short name of the optimizer that a call makes, where that class, or one it derives from, has a fused
    implementation.
    """
    value = file.value(call)
    if value.kind is not Kind.OPTIMIZER or value.call is not call:
        return None
    if value.cls is not None:
        bases = (base for cls in value.cls.lineage() for base in cls.bases)
        return next((short for base in bases if (short := base.rpartition(".")[2]) in VERSIONS), None)
    short = (value.name or "").rpartition(".")[2]
    return short if short in VERSIONS else None


def is_chosen_by_name(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call makes an optimizer like `getattr(torch.optim, name)(...)`."""
    made = call.func
    if not isinstance(made, cst.Call) or not made.args or file.qualified(made) != "builtins.getattr":
        return False
    return file.qualified(made.args[0].value) == "torch.optim"


def obstacle(file: FileFacts, call: cst.Call) -> str:
    """What keeps a fused implementation from an optimizer; empty where nothing does."""
    cls = file.value(call).cls
    if cls is not None:
        return f"`{cls.name}` derives from it, and may compute its steps itself"
    moved = _moved_to_cpu(file, call)
    if moved is not None:
        return f"its parameters are on the CPU (line {file.line(moved)})"
    if _clips_in_lightning(file, call):
        return "Lightning does not clip gradients for a fused optimizer in 16 bits, and its Trainer may do so"
    return file.once(_obstacle_of_gradients)


def _obstacle_of_gradients(file: FileFacts) -> str:
    """What the files do with gradients, parameters or an optimizer's state that a fused implementation does not."""
    if file.names.imports("torch_xla"):
        return "XLA has no fused optimizers"
    for call in file.tree.all(cst.Call):
        name = file.qualified(call) or ""
        sparse = argument(call, "sparse") if name in _EMBEDDINGS or name.endswith("Embedding") else None
        if sparse is not None and not is_false(sparse):
            return f"the gradients of the embedding on line {file.line(call)} may be sparse"
        if name == "apex.amp.initialize":
            return f"Apex on line {file.line(call)} replaces its step"
    for node in file.tree.all(cst.Attribute):
        if node.attr.value == "grad" and _is_given_gradient(file, node):
            return f"`{file.code(node)}` is set by hand on line {file.line(node)}, perhaps in another layout"
        if node.attr.value in _COMPLEX:
            return f"parameters may be complex (line {file.line(node)})"
    for read in file.tree.all(cst.Subscript):
        if _reads_step(file, read):
            return (
                f"`{file.code(read)}` on line {file.line(read)} reads its count of steps, which would be on the device"
            )
    return ""


def _is_given_gradient(file: FileFacts, node: cst.Attribute) -> bool:
    """Whether a gradient is set to anything but None."""
    parent = file.tree.parent(node)
    around = file.tree.parent(parent) if isinstance(parent, cst.AssignTarget) else None
    return isinstance(around, cst.Assign) and not is_none(around.value)


def _reads_step(file: FileFacts, node: cst.Subscript) -> bool:
    """Whether a node is `optimizer.state[p]["step"]`, or `state["step"]` outside of optimizers in sight."""
    key = node.slice[0].slice
    name = key.value if isinstance(key, cst.Index) else None
    if not isinstance(name, cst.SimpleString) or name.evaluated_value != "step":
        return False
    cls = file.classes.around(node)
    owner = node.value.value if isinstance(node.value, cst.Subscript) else node.value
    return (cls is None or not cls.derives("torch.optim.")) and dotted(owner).endswith((".state", "opt_state"))


def models(call: cst.Call) -> list[cst.BaseExpression]:
    """The models whose parameters an optimizer is given, as far as they are written there: `model.parameters()`."""
    given = argument(call, "params", 0)
    calls = [each for each in find_all(given, cst.Call) if isinstance(each.func, cst.Attribute)] if given else []
    return [
        each.func.value
        for each in calls
        if isinstance(each.func, cst.Attribute) and each.func.attr.value in _PARAMETERS
    ]


def _moves(file: FileFacts, call: cst.Call) -> list[list[cst.Call]]:
    """For each model of an optimizer, what moves it to a device above: where it is made, and `model.cuda()` behind."""
    found = []
    for model in models(call):
        made = [d.value for d in file.flow.definitions(model) if d.value] if isinstance(model, cst.Name) else []
        later = [
            each
            for each in file.tree.all(cst.Call)
            if isinstance(each.func, cst.Attribute)
            and dotted(each.func.value) == dotted(model) != ""
            and file.tree.scope(each) is file.tree.scope(model)
            and file.comes_before(each, call)
        ]
        moves = [each for each in (*made, *later) if isinstance(each, cst.Call) and _is_move(each)]
        found.append(moves)
    return found


def _is_move(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "cuda", "cpu")


def _moved_to_cpu(file: FileFacts, call: cst.Call) -> cst.Call | None:
    """The last move of an optimizer's model, where that is to the CPU."""
    lasts = [moves[-1] for moves in _moves(file, call) if moves]
    return next((each for each in lasts if _destination(file, each) is Device.CPU), None)


def is_on_cuda(file: FileFacts, call: cst.Call) -> bool:
    """Whether an optimizer's models are seen to be on CUDA, on whichever machine, when it is made."""
    moved = _moves(file, call)
    return bool(moved) and all(moves and _is_literally_cuda(file, moves[-1]) for moves in moved)


def _destination(file: FileFacts, move: cst.Call) -> Device | None:
    method = cst.ensure_type(move.func, cst.Attribute).attr.value
    if method == "to":
        where = file.values.placement.destination(move)
        return file.values.placement.device_of(where) if where is not None else None
    return Device.CPU if method == "cpu" else Device.ACCELERATOR


def _is_literally_cuda(file: FileFacts, move: cst.Call) -> bool:
    if cst.ensure_type(move.func, cst.Attribute).attr.value == "cuda":
        return not _is_conditional(file, move)
    where = file.values.placement.destination(move)
    return isinstance(where, cst.SimpleString) and str(where.evaluated_value).startswith("cuda")


def _is_conditional(file: FileFacts, node: cst.CSTNode) -> bool:
    return any(
        isinstance(each, (cst.If, cst.IfExp)) and not is_main_test(each.test) for each in file.tree.ancestors(node)
    )


def _clips_in_lightning(file: FileFacts, call: cst.Call) -> bool:
    """Whether a LightningModule's optimizer may get gradients that its Trainer clips."""
    cls = file.classes.around(call)
    if cls is None or not is_lightning_module(cls):
        return False
    trainers = [each for each in file.tree.all(cst.Call) if (file.qualified(each) or "").endswith(".Trainer")]
    return not trainers or any(has_star(each) or argument(each, "gradient_clip_val") is not None for each in trainers)
