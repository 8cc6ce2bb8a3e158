"""What in a model's own code splits its graph, is compiled again in later steps, or cannot be compiled at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from perfmod.transforms.compute._trained_models import calls_of_program, nodes_of_program
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_in_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.operations import NODES, operation

_RECURRENT = frozenset({"torch.nn.RNN", "torch.nn.LSTM", "torch.nn.GRU"})
_RAGGED = ("torch_geometric.nn.", "dgl.nn.", "torch.sparse.", "torch.nn.EmbeddingBag")
_SPARSE = re.compile(r"(?:^|_)(?:sparse|spmm)(?:_|$)")
_HOOKS = frozenset(
    {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook"}
)


def parts_of(file: FileFacts, classes: Iterable[ClassFacts]) -> list[ClassFacts]:
    """The classes that a model may have and of the modules that it makes, each once."""
    found: dict[ClassFacts, None] = {}
    waiting = [*classes]
    while waiting:
        each = waiting.pop()
        for above in each.lineage():
            if above not in found:
                found[above] = None
                made = map(file.values.calls.constructed, find_all(above.node.body, cst.Call))
                waiting += [other for other in made if other is not None and other.is_module]
    return list(found)


def forward_code(file: FileFacts, parts: list[ClassFacts]) -> list[cst.FunctionDef]:
    """The forward passes of the parts, and the functions in sight that they call."""
    found: dict[cst.FunctionDef, None] = {}
    waiting = [part.methods["forward"] for part in parts if "forward" in part.methods]
    while waiting:
        function = waiting.pop()
        if function not in found:
            found[function] = None
            waiting += file.steps.called_by(function.body)
    return list(found)


def breaks(file: FileFacts, code: list[cst.FunctionDef]) -> Iterator[cst.CSTNode]:
    """What splits the graph: prints, values that are read, sizes and branches that depend on values."""
    for function in code:
        for node in find_in_scope(function.body, *NODES):
            asked = operation(file, node)
            if isinstance(node, cst.Call) and file.qualified(node) == "builtins.print":
                yield node
            elif asked is not None and asked.tensor is not None:
                kind = file.value(asked.tensor).kind
                if kind is Kind.TENSOR or (asked.is_named and kind is Kind.UNKNOWN):
                    yield node.test if isinstance(node, (cst.If, cst.IfExp, cst.While, cst.Assert)) else node


def state_written(file: FileFacts, code: list[cst.FunctionDef]) -> cst.CSTNode | None:
    """Where a forward pass assigns an attribute of its module."""
    for function in code:
        for node in find_in_scope(function.body, cst.AssignTarget, cst.AugAssign):
            target = node.target if isinstance(node, (cst.AssignTarget, cst.AugAssign)) else None
            own = file.classes.self_attribute(target) if target is not None else None
            if own is not None and own[0].is_module:
                return target
    return None


def recurrent(file: FileFacts, parts: list[ClassFacts]) -> cst.Call | None:
    """Where a recurrent layer is made."""
    return _made(file, parts, lambda name: name in _RECURRENT)


def ragged(file: FileFacts, parts: list[ClassFacts]) -> cst.CSTNode | None:
    """Where a layer is made whose inputs usually have another shape in every step, or sparse tensors are used."""
    made = _made(file, parts, lambda name: name.startswith(_RAGGED))
    names = (node for node in nodes_of_program(file, cst.Attribute, cst.Name) if isinstance(node, cst.Name))
    return made or next((name for name in names if _SPARSE.search(name.value)), None)


def _made(file: FileFacts, parts: list[ClassFacts], is_wanted: Callable[[str], bool]) -> cst.Call | None:
    calls = (call for part in parts for call in find_all(part.node.body, cst.Call))
    return next((call for call in calls if is_wanted(_library_name(file, call))), None)


def _library_name(file: FileFacts, call: cst.Call) -> str:
    """The name of a library's function; `getattr(nn, kind)(...)` that of a recurrent layer where a test names one."""
    name = file.qualified(call) or ""
    func = call.func
    if isinstance(func, cst.Call) and file.qualified(func) == "builtins.getattr" and len(func.args) == 2:
        kind = file.code(func.args[1].value).lower()
        return "torch.nn.LSTM" if "rnn" in kind or "cell" in kind else ""
    return name


def hook(file: FileFacts) -> cst.Call | None:
    """Where a hook is registered that runs with a forward or backward pass of some module."""
    for call in calls_of_program(file):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _HOOKS:
            return call
    return None
