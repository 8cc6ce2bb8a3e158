"""Whether tensors are plain ones in memory that stay what they are: data, and no part of a graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.on_device import made_on_device
from perfmod.transforms.facts.tree import children
from perfmod.transforms.facts.value import Kind

_MOST = 400
"""So many expressions are looked at behind one tensor."""
_OTHER_ORDER = frozenset(
    {
        "transpose", "transpose_", "permute", "movedim", "moveaxis", "swapaxes", "swapdims", "rollaxis", "T", "mT", "H",
        "t", "einsum", "rearrange", "asfortranarray", "channels_last", "channels_last_3d", "memory_format", "as_strided",
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
_LIBRARIES = ("torch.", "numpy.", "sklearn.", "pandas.", "builtins.", "math.", "random.")


def why_not_plain(file: FileFacts, tensor: cst.BaseExpression, data_set: cst.Call) -> str:
    """What is not plain about a tensor that a data set is made of, in one line; empty where nothing is."""
    code = file.code(tensor)
    if not file.value(tensor).is_tensor:
        return f"nothing in sight shows that `{code}` is a tensor"
    moved = made_on_device(file, tensor)
    if moved is not None:
        return f"`{code}` may be on the device already (line {file.line(moved)})"
    sources = list(_sources(file, tensor))
    if len(sources) >= _MOST:
        return f"too much leads to `{code}`"
    for node in sources:
        word = _word(node)
        if word in _WHY:
            return f"`{word}` on line {file.line(node)} {_WHY[word]}"
        if isinstance(node, cst.Param):
            return f"where `{node.name.value}` on line {file.line(node)} comes from is not in sight"
        if isinstance(node, cst.Call) and _is_unseen(file, node):
            return f"`{file.code(node)}` on line {file.line(node)} is not in sight, and may give tensors of any kind"
    return _changed(file, tensor, sources, data_set)


def _sources(file: FileFacts, tensor: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """Every expression that a tensor is made from, through variables and functions in sight."""
    seen: set[cst.CSTNode] = set()
    waiting: list[cst.CSTNode] = [tensor]
    while waiting and len(seen) < _MOST:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        if file.flow.is_variable(node):
            for each in file.flow.definitions(node):
                if each.binding is Binding.PARAMETER:
                    ends = [end.node for end in file.tracing.ends(node)]
                    waiting += [end for end in ends if end is not node]
                elif each.value is not None:
                    waiting.append(each.value)
            continue
        if isinstance(node, cst.Attribute):
            waiting += [end.node for end in file.tracing.ends(node) if end.node is not node]
        function = file.values.calls.resolve(node) if isinstance(node, cst.Call) else None
        if function is not None:
            waiting += [each.value for each in file.tree.results(function) if isinstance(each.value, cst.CSTNode)]
        if not isinstance(node, cst.Param):
            waiting += children(node)


def _word(node: cst.CSTNode) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Arg) and node.keyword is not None:
        return node.keyword.value
    return node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) else ""


def _is_unseen(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call gives something of which neither its code nor its library is known."""
    name = file.qualified(call)
    if file.value(call.func).kind is Kind.MODULE:
        return True
    if name is not None and name.startswith(_LIBRARIES):
        return name in ("torch.load", "torch.jit.load", "torch.hub.load") or name.startswith("torch.utils.")
    is_method = isinstance(call.func, cst.Attribute) and name is None
    return not is_method and file.values.calls.resolve(call) is None


def _changed(
    file: FileFacts, tensor: cst.BaseExpression, sources: list[cst.CSTNode], data_set: cst.Call
) -> str:
    """What writes into a tensor, or an array whose memory it shares, once the data set has it."""
    memory = {end.node for node in (tensor, *sources) if file.flow.is_variable(node) for end in file.tracing.ends(node)}
    for write in file.aliasing.writes:
        is_above = (
            file.comes_before(write.node, data_set)
            and file.tree.function(write.node) is file.tree.function(data_set)
            and not set(file.tree.loops(write.node)) & set(file.tree.loops(data_set))
        )
        if not is_above and any(end.node in memory for end in file.tracing.ends(write.into)):
            return f"line {file.line(write.node)} may write into `{file.code(tensor)}`, which the data set would not see"
    return ""
