"""Why the host may have to wait for the device: results that come back while it goes on, work in other queues."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device
from perfmod.transforms.syncs._around import between, rounds

_STREAMS = frozenset(
    {"Stream", "ExternalStream", "stream", "set_stream", "wait_stream", "wait_event", "record_stream", "side_stream"}
)
_GRAPHS = frozenset({"CUDAGraph", "make_graphed_callables", "graph_pool_handle"})
_SHARED = frozenset({"share_memory", "share_memory_", "Queue", "SimpleQueue", "JoinableQueue", "Pipe"})
_OTHERS = frozenset(
    {"cupy", "numba", "pycuda", "ctypes", "cuda", "tensorrt", "nvidia", "tensorflow", "jax", "pyopencl", "warp",
     "mpi4py", "cffi", "onnxruntime", "torch_tensorrt", "vllm", "cudf", "rmm"}
)  # fmt: skip
_STARTS = frozenset({"isend", "irecv", "batch_isend_irecv"})
_HARMLESS_HANDLERS = frozenset({"builtins.KeyboardInterrupt", "builtins.StopIteration", "builtins.ImportError"})


def why_waited_for(file: FileFacts, node: cst.CSTNode) -> str | None:
    """Why the wait of `torch.cuda.synchronize()` may be needed, in one line; `None`: the order of kernels is enough."""
    for found, why in _elsewhere(file):
        return f"{why} (line {file.line(found)})"
    return why_caught(file, node)


def why_caught(file: FileFacts, node: cst.CSTNode) -> str | None:
    """Why an error of the device has to be raised here: a `try` of the step is waiting for it."""
    for place, around in rounds(file, node):
        child: cst.CSTNode = place
        for ancestor in between(file, place, around):
            if isinstance(ancestor, (cst.Try, cst.TryStar)) and child is ancestor.body:
                for handler in ancestor.handlers:
                    names = _caught(handler)
                    if not names or any(file.qualified(name) not in _HARMLESS_HANDLERS for name in names):
                        line = file.line(handler)
                        return f"errors of the device are caught on line {line}, and would be raised somewhere else"
            child = ancestor
    return None


def other_libraries(file: FileFacts) -> str | None:
    """A library in the file that uses the device's memory as well."""
    return next((name for name in sorted(_OTHERS) if file.names.imports(name)), None)


def _elsewhere(file: FileFacts) -> Iterator[tuple[cst.CSTNode, str]]:
    """Code of the file that lets work run beside the host, and that the host has to wait for."""
    for name in find_all(file.tree.module, cst.Name):
        word = name.value
        parent = file.tree.parent(name)
        is_part = isinstance(parent, cst.Attribute) and parent.attr is name
        if word in _STREAMS and (is_part or (file.names.qualified(name) or "").startswith("torch.")):
            owner = file.names.qualified(parent) if is_part and parent is not None else file.names.qualified(name)
            if (owner or "").startswith("torch.") or word not in ("stream", "Stream"):
                yield name, "the step uses streams of its own"
        elif word in _GRAPHS:
            yield name, "the device replays a captured graph"
        elif word in _SHARED and is_part:
            owner = file.names.qualified(parent) if parent is not None else None
            is_process = owner is None or "multiprocessing" in owner
            if is_process and (word not in ("Queue", "Pipe", "SimpleQueue", "JoinableQueue") or owner is not None):
                yield name, "other processes are given tensors"
        elif word == "data_ptr":
            yield name, "code outside of PyTorch is given addresses of tensors"
        elif word in _STARTS:
            yield name, "messages are under way"
    library = other_libraries(file)
    if library is not None:
        importing = next(
            (node for node in find_all(file.tree.module, cst.ImportAlias) if _starts_with(file, node, library)),
            file.tree.module,
        )
        yield importing, f"{library} may use the device's memory without PyTorch's order"
    for call in find_all(file.tree.module, cst.Call):
        why = _unfinished(file, call)
        if why is not None:
            yield call, why


def _unfinished(file: FileFacts, call: cst.Call) -> str | None:
    waits = argument(call, "async_op")
    if waits is not None and not _is_false(waits):
        return "messages are under way"
    free = argument(call, "non_blocking")
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if free is None or _is_false(free):
        if method == "pin_memory" and not call.args:
            return "a copy from memory that is pinned by hand may be under way"
        return None
    if method == "cpu" or file.value(call).device is Device.CPU:
        return "a copy to the host is under way"
    if method == "copy_":
        return "a copy into a tensor is under way"
    return None


def _is_false(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "False"


def _starts_with(file: FileFacts, alias: cst.ImportAlias, library: str) -> bool:
    parent = file.tree.parent(alias)
    module = parent.module if isinstance(parent, cst.ImportFrom) else alias.name
    return module is not None and file.code(module).partition(".")[0] == library


def _caught(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> list[cst.BaseExpression]:
    if handler.type is None:
        return []
    if isinstance(handler.type, cst.Tuple):
        return [element.value for element in handler.type.elements]
    return [handler.type]
