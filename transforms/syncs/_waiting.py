"""Why the host may have to wait for the device: results that come back while it goes on, work in other queues."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, is_false
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
    found = next(iter(file.once(_elsewhere)), None)
    return f"{found[1]} (line {file.line(found[0])})" if found is not None else why_caught(file, node)


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
                        return f"line {line} catches CUDA errors, which would be raised at another place"
            child = ancestor
    return None


def other_libraries(file: FileFacts) -> str | None:
    """A library in the file that uses the device's memory as well."""
    return next((name for name in sorted(_OTHERS) if file.names.imports(name)), None)


def _elsewhere(file: FileFacts) -> list[tuple[cst.CSTNode, str]]:
    """Code of all files in sight that lets work run beside the host, and that the host has to wait for."""
    found: list[tuple[cst.CSTNode, str]] = []
    for source in file.world.files:
        for name in find_all(source.module, cst.Name):
            why = _beside(file, name)
            found += [(name, why)] if why is not None else []
        for alias in find_all(source.module, cst.ImportAlias):
            library = _package(file, alias)
            if library in _OTHERS:
                found.append((alias, f"{library} may use GPU memory outside of PyTorch's stream order"))
        for call in find_all(source.module, cst.Call):
            why = _unfinished(file, call)
            found += [(call, why)] if why is not None else []
    return found


def _beside(file: FileFacts, name: cst.Name) -> str | None:
    word = name.value
    parent = file.tree.parent(name)
    is_part = isinstance(parent, cst.Attribute) and parent.attr is name
    owner = file.names.qualified(parent if is_part and parent is not None else name)
    is_torch = (owner or "").startswith("torch.")
    if word in _STREAMS and (is_torch or (is_part and word not in ("stream", "Stream"))):
        return "the code uses CUDA streams of its own"
    if word in _GRAPHS:
        return "the code captures or replays CUDA graphs"
    if word in _SHARED and is_part and (owner is None or "multiprocessing" in owner):
        is_queue = word in ("Queue", "Pipe", "SimpleQueue", "JoinableQueue")
        return "tensors are shared with other processes" if owner is not None or not is_queue else None
    if word == "data_ptr":
        return "code outside of PyTorch is given the memory addresses of tensors"
    return "asynchronous communication may be in flight" if word in _STARTS else None


def _unfinished(file: FileFacts, call: cst.Call) -> str | None:
    waits = argument(call, "async_op")
    if waits is not None and not is_false(waits):
        return "asynchronous communication may be in flight"
    free = argument(call, "non_blocking")
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if free is None or is_false(free):
        if method == "pin_memory" and not call.args:
            return "a copy from memory pinned by hand may be in flight"
        return None
    if method == "cpu" or file.value(call).device is Device.CPU:
        return "a non-blocking copy to the CPU may be in flight"
    if method == "copy_":
        return "a non-blocking copy_ may be in flight"
    return None


def _package(file: FileFacts, alias: cst.ImportAlias) -> str:
    """The package that an import begins with."""
    parent = file.tree.parent(alias)
    if isinstance(parent, cst.ImportFrom):
        is_own = bool(parent.relative) or parent.module is None
        return "" if is_own or parent.module is None else file.code(parent.module).partition(".")[0]
    return file.code(alias.name).partition(".")[0]


def _caught(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> list[cst.BaseExpression]:
    if handler.type is None:
        return []
    if isinstance(handler.type, cst.Tuple):
        return [element.value for element in handler.type.elements]
    return [handler.type]
