"""What is trained: one model under the wrapper, and nothing beside it, whose gradients nobody would average."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._spread_program import DATA_PARALLEL, NotSpread
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any, is_true
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import replace

MOVES = frozenset({"to", "cuda"})
_BY_SAMPLE = frozenset(f"torch.nn.{name}" for name in ("Identity", "Flatten", "ReLU", "Sigmoid", "Tanh"))
"""Modules without parameters that make each row from one sample."""
_BY_CLASS = frozenset({"torch.nn.Softmax", "torch.nn.LogSoftmax"})
_STATE = frozenset({"parameters", "named_parameters", "state_dict", "load_state_dict", "train", "eval", "to", "cuda"})
_COLLECTS = frozenset({"append", "extend", "add", "update", "insert"})


def require_whole(file: FileFacts, call: cst.Call) -> None:
    """The wrapper holds the model, no part of it, and all parameters that are ever trained. Raises `NotSpread`."""
    statement = file.tree.statement(call)
    given = statement.value if isinstance(statement, cst.Assign) else None
    func = given.func if isinstance(given, cst.Call) else None
    is_moved = isinstance(func, cst.Attribute) and func.value is call and func.attr.value in MOVES
    is_compiled = isinstance(given, cst.Call) and file.qualified(given) == "torch.compile"
    is_compiled = is_compiled and isinstance(given, cst.Call) and given.args[0].value is call
    if given is not call and not is_moved and not is_compiled:
        raise NotSpread(call, "it holds only a part of the model, and gradients of the rest would not be averaged")
    for made in find_all(file.tree.module, cst.Call):
        is_of_class = _is_of_module(file, made)
        is_parameter = file.qualified(made) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
        if not is_of_class and (is_parameter or is_true(argument(made, "requires_grad"))):
            raise NotSpread(made, "it is trained beside the model, and its gradient would not be averaged")
        method = made.func.attr.value if isinstance(made.func, cst.Attribute) else ""
        if (method.startswith("register_") and method.endswith("_hook")) or method == "register_hook":
            raise NotSpread(made, "the hook would see a process's own part of the batch, or its gradient")
    _require_wrapper_called(file, call)
    _require_nothing_collected(file)
    _require_nothing_kept(file)
    for node in _thaws(file):
        if not _is_of_module(file, node) and not _runs_before(file, node, call):
            raise NotSpread(node, "which parameters are trained changes behind the wrapper, which does not see it")


def _require_wrapper_called(file: FileFacts, call: cst.Call) -> None:
    """Behind the wrapper, a model with another name is asked for its state only. Raises `NotSpread`."""
    inner, statement = call.args[0].value, file.tree.statement(call)
    if not isinstance(inner, cst.Name) or not isinstance(statement, cst.Assign):
        return
    if file.code(statement.targets[0].target) == inner.value:
        return
    for definition in file.flow.definitions(inner):
        for use in file.flow.uses(definition):
            parent = file.tree.parent(use)
            is_state = isinstance(parent, cst.Attribute) and parent.attr.value in _STATE
            is_above = file.tree.function(use) is file.tree.function(call) and file.comes_before(use, call)
            if use is not inner and not is_state and not is_above:
                raise NotSpread(use, f"`{inner.value}` passes by the wrapper, which then does not average gradients")


def _require_nothing_collected(file: FileFacts) -> None:
    """A model leaves nothing of its part of a batch in the script's own names. Raises `NotSpread`."""
    for node in find_any(file.tree.module, cst.Call, cst.AssignTarget, cst.AugAssign):
        function = file.tree.function(node)
        cls = file.classes.of(file.tree.scope(function)) if function is not None else None
        if cls is None or not cls.is_module:
            continue
        assert isinstance(node, (cst.Call, cst.AssignTarget, cst.AugAssign))
        place = node.func if isinstance(node, cst.Call) else node.target
        if isinstance(node, cst.Call) and not (isinstance(place, cst.Attribute) and place.attr.value in _COLLECTS):
            continue
        root: cst.BaseExpression = place
        while isinstance(root, (cst.Attribute, cst.Subscript)):
            root = root.value
        is_own = isinstance(root, cst.Name) and root is not place and file.flow.is_variable(root)
        bound = file.flow.definitions(root) if is_own and isinstance(root, cst.Name) else ()
        if bound and all(isinstance(each.scope, cst.Module) for each in bound):
            raise NotSpread(node, f"`{file.code(place)}` would collect a process's own part of the batch")


def _require_nothing_kept(file: FileFacts) -> None:
    """No model goes on with what its last forward pass left in it: `DataParallel` forgets that. Raises `NotSpread`."""
    for cls in file.classes:
        forward = cls.methods.get("forward")
        for assigned in cls.assigned.values() if cls.is_module and forward is not None else ():
            left = next((each for each in assigned if each.method is forward), None)
            if left is not None and any(each.method is not forward for each in assigned):
                name = file.code(left.node)
                raise NotSpread(left.node, f"`{name}` is kept for the next round, which `DataParallel` forgets")


def _is_of_module(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether code stands in `__init__` of a model's class, which runs before the model is wrapped."""
    function = file.tree.function(node)
    return function is not None and function.name.value == "__init__" and file.tree.class_of(function) is not None


def _thaws(file: FileFacts) -> Iterator[cst.Attribute]:
    """Where parameters are frozen or trained again: `p.requires_grad = ...`, `model.requires_grad_()`."""
    for node in find_all(file.tree.module, cst.Attribute):
        is_store = node.attr.value == "requires_grad" and isinstance(file.tree.parent(node), cst.AssignTarget)
        if is_store or node.attr.value == "requires_grad_":
            yield node


def _runs_before(file: FileFacts, node: cst.CSTNode, call: cst.Call) -> bool:
    """Whether code runs before the wrapper is made, where it stands or by the calls of its function."""
    function = file.tree.function(node)
    if function is file.tree.function(call):
        return file.comes_before(node, call)
    if function is None or not file.values.calls.is_only_called(function):
        return False
    callers = file.values.calls.callers(function)
    return all(
        file.tree.function(each) is file.tree.function(call) and file.comes_before(each, call) for each in callers
    )


def is_by_sample(file: FileFacts, call: cst.Call, func: cst.Name) -> bool:
    """Whether a module in a step makes each row from one sample, in every process: the wrapped model, an activation.

    Another one would see a part of the batch only, and the gradients of its parameters would not be averaged.
    """
    value = file.value(func)
    if value.kind is not Kind.MODULE:
        return False
    if value.name in _BY_SAMPLE | _BY_CLASS and value.call is not None:
        given = [file.code(arg.value) for arg in value.call.args]
        return given == (["1"] if value.name in _BY_CLASS else [])
    made = [each.value for each in file.flow.definitions(func)]
    if any(isinstance(each, cst.Call) and (file.qualified(each) or "").startswith("copy.") for each in made):
        return False
    wrapped = file.value(call)
    return value.call is wrapped.call and value.cls == wrapped.cls and value.name == wrapped.name


def question_edits(file: FileFacts, call: cst.Call) -> Iterator[Edit]:
    """`isinstance(model, nn.DataParallel)` asks for the new wrapper. Raises `NotSpread` for other uses of the class."""
    nn, _ = file.names.spelled("torch.nn", call)
    for node in [*find_all(file.tree.module, cst.Attribute), *find_all(file.tree.module, cst.Name)]:
        parent = file.tree.parent(node)
        is_whole = not isinstance(parent, (cst.Attribute, cst.ImportAlias))
        if node is call.func or not is_whole or file.qualified(node) not in DATA_PARALLEL:
            continue
        asked = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(asked, cst.Call) or file.qualified(asked) != "builtins.isinstance":
            raise NotSpread(node, f"`{file.code(node)}` would no longer be the class of the model")
        yield replace(file.source, node, f"{nn}.parallel.DistributedDataParallel")
