"""Whether tensors are plain ones in memory that stay what they are: data, and no part of a graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import passed
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.on_device import made_on_device
from perfmod.transforms.facts.tree import children
from perfmod.transforms.facts.value import Kind

_MOST = 400
"""So many expressions are looked at behind one tensor."""
_OTHER_ORDER = frozenset(
    {
        "transpose", "transpose_", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "rollaxis", "T", "mT",
        "H", "t", "einsum", "rearrange", "asfortranarray", "channels_last", "channels_last_3d", "memory_format",
        "as_strided", "unfold", "sliding_window_view", "order", "conj", "mH", "adjoint", "diagonal", "loadmat",
    }
)  # fmt: skip
_GRAPH = frozenset({"requires_grad", "requires_grad_", "Parameter"})
_OTHER_LAYOUT = frozenset({"to_sparse", "to_sparse_csr", "to_mkldnn", "sparse_coo_tensor", "quantize_per_tensor"})
_ELSEWHERE = frozenset({"memmap", "open_memmap", "mmap_mode", "from_file", "share_memory_"})
_WHY = {
    **dict.fromkeys(_OTHER_ORDER, "puts dimensions into another order, in which a batch of samples is joined again"),
    **dict.fromkeys(_GRAPH, "makes the data a part of a graph"),
    **dict.fromkeys(_OTHER_LAYOUT, "makes tensors of another layout"),
    **dict.fromkeys(_ELSEWHERE, "leaves the data in a file or shares it with other processes"),
}
_LIBRARIES = frozenset({"torch", "numpy", "sklearn", "pandas", "builtins", "math", "random"})
_READS = ("torch.load", "torch.jit.", "torch.hub.", "torch.utils.", "torch.linalg.", "torch.fft.", "builtins.open")
"""What gives values of any kind, or matrices column by column."""
_FROM_DATA = frozenset(
    {
        "tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_file", "full", "empty_strided",
        "scalar_tensor", "Tensor", "FloatTensor", "LongTensor", "BoolTensor", "ByteTensor",
    }
)  # fmt: skip


def why_not_plain(file: FileFacts, tensor: cst.BaseExpression, data_set: cst.Call) -> str:
    """What is not plain about a tensor that a data set is made of, in one line; empty where nothing is."""
    code = file.code(tensor)
    if not file.value(tensor).is_tensor:
        return f"nothing in sight shows that `{code}` is a tensor"
    sources = list(_sources(file, tensor))
    if len(sources) >= _MOST:
        return f"too much leads to `{code}`"
    for node in sources:
        word, line = _word(node), file.line(node)
        if word in _WHY:
            return f"`{word}` on line {line} {_WHY[word]}"
        called = node.func if isinstance(node, cst.Call) else node
        if isinstance(called, cst.BaseExpression) and file.value(called).kind is Kind.MODULE:
            return f"`{file.code(called)}` on line {line} is a model, and what it computes may be part of a graph"
        if isinstance(node, cst.Param):
            return f"where `{node.name.value}` on line {line} comes from is not in sight"
        if isinstance(node, (cst.Call, cst.Name, cst.ImportAlias, cst.ImportStar)) and _is_unseen(file, node):
            return f"`{file.code(node)}` on line {line} is not in sight, and may give data in any order in memory"
    moved = made_on_device(file, tensor)
    if moved is not None:
        return f"`{code}` may be on the device already (line {file.line(moved)})"
    return _changed(file, tensor, sources, data_set)


def _sources(file: FileFacts, tensor: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """Every expression that a tensor is made from, through variables and functions in sight."""
    seen: set[cst.CSTNode] = set()
    waiting: list[cst.CSTNode] = [tensor]
    while waiting and len(seen) < _MOST:
        node = waiting.pop()
        if node in seen or (isinstance(node, (cst.Name, cst.Attribute)) and _library(file, node) in _LIBRARIES):
            continue
        seen.add(node)
        yield node
        if not isinstance(node, (cst.Param, cst.ImportAlias, cst.ImportStar)):
            waiting += _behind(file, node)


def _behind(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """One step back."""
    if file.flow.is_variable(node):
        for each in file.flow.definitions(node):
            if isinstance(each.node, cst.Param):
                yield from _given(file, each.node, each.scope)
            elif each.value is not None:
                yield each.value
            elif isinstance(each.node, (cst.ImportAlias, cst.ImportStar)):
                yield each.node
        yield from (end.node for end in file.tracing.ends(node, (None,)) if not end.path)  # items of a list
        return
    if isinstance(node, cst.Attribute):
        own = file.classes.self_attribute(node)
        cls = own[0] if own is not None else file.value(node.value).cls
        assigned = cls.assignments(node.attr.value) if cls is not None else []
        yield from (each.value for each in assigned if each.value is not None)
        yield from () if assigned else (node.value,)
        return
    if isinstance(node, cst.Call) and _fills(file, node):
        yield from (arg for arg in node.args if arg.keyword is not None and arg.keyword.value != "size")
        return
    function = file.values.calls.resolve(node) if isinstance(node, cst.Call) else None
    if function is not None:
        yield from (each.value for each in file.tree.results(function) if isinstance(each.value, cst.BaseExpression))
    yield from (node.value,) if isinstance(node, cst.Arg) else children(node)


def _fills(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call makes a tensor of a size that it is given, and of nothing else: `torch.randn(n, 3)`."""
    name = (file.qualified(call) or "").removeprefix("torch.")
    return name in torch_api.CREATES and name not in _FROM_DATA and not name.endswith("_like")


def _given(file: FileFacts, param: cst.Param, function: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a parameter may get; itself where that is not all in sight."""
    callers = file.values.calls.callers(function) if isinstance(function, cst.FunctionDef) else ()
    is_method = isinstance(file.tree.scope(function), cst.ClassDef)
    values = [
        passed(call, function, param, bound=is_method) for call in callers if isinstance(function, cst.FunctionDef)
    ]
    is_known = bool(values) and isinstance(function, cst.FunctionDef) and not file.flow.is_open(function)
    yield from (value for value in values if value is not None)
    if not is_known or None in values:
        yield param


def _word(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Arg) and node.keyword is not None:
        return node.keyword.value
    called = node.func if isinstance(node, cst.Call) else None
    named = called.attr if isinstance(called, cst.Attribute) else called
    return named.value if isinstance(named, cst.Name) else ""


def _is_unseen(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether something gives values of which neither the code nor the library is known."""
    if isinstance(node, cst.Name):
        return file.flow.is_read(node) and not file.flow.definitions(node)
    if not isinstance(node, cst.Call):
        return True
    name = file.qualified(node)
    if name is not None and _library(file, node) in _LIBRARIES:
        return name.startswith(_READS)
    is_method = isinstance(node.func, cst.Attribute) and name is None
    return not is_method and file.values.calls.resolve(node) is None


def _library(file: FileFacts, node: cst.CSTNode) -> str:
    return (file.qualified(node) or "").partition(".")[0]


def _changed(file: FileFacts, tensor: cst.BaseExpression, sources: list[cst.CSTNode], data_set: cst.Call) -> str:
    """What writes into a tensor, or an array whose memory it shares, once the data set has it."""
    memory = {made for node in (tensor, *sources) if file.flow.is_variable(node) for made in _memory(file, node)}
    for node in file.tree.all(cst.Attribute):
        word = node.attr.value
        if word in _GRAPH | {"data"} and not memory.isdisjoint(_memory(file, node.value)):
            return f"`{file.code(node)}` on line {file.line(node)} may make `{file.code(tensor)}` another tensor"
    for write in file.aliasing.writes:
        is_above = (
            file.comes_before(write.node, data_set)
            and file.tree.function(write.node) is file.tree.function(data_set)
            and not set(file.tree.loops(write.node)) & set(file.tree.loops(data_set))
        )
        if not is_above and not memory.isdisjoint(_memory(file, write.into)):
            return f"line {file.line(write.node)} may write into `{file.code(tensor)}`, unseen by the data set"
    return ""


def _memory(file: FileFacts, node: cst.BaseExpression) -> set[cst.CSTNode]:
    """Where the memory of a tensor or array was made, through `x.numpy()` and `torch.from_numpy(array)`."""
    made: set[cst.CSTNode] = set()
    waiting = [node]
    while waiting and len(made) < _MOST:
        for end in file.tracing.ends(waiting.pop()):
            shared = file.aliasing.shared(end.node)
            waiting += [shared] if shared is not None and end.node not in made else []
            made.add(end.node)
    return made
