"""Batches that are fetched ahead on a stream of their own, where nothing keeps their memory from being used too early.

What a side stream allocates is free for its next copy as soon as Python lets go of it, while kernels of the main stream
may still read it. `record_stream` guards it, and so does a side stream that waits for the main one before it copies.
Without these, only a host that waits in every step keeps from copying over a batch in use.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import round_loop
from perfmod.transforms.facts.tree import find_all

_CURRENT = frozenset({"torch.cuda.current_stream", "torch.cuda.default_stream"})


def unguarded_fetch(file: FileFacts, node: cst.CSTNode) -> cst.With | None:
    """The block that copies, on a stream of its own and unguarded, the batches of the loop around `node`."""
    loop = round_loop(file, node)
    for cls in _classes_behind(file, loop) if loop is not None else ():
        copying = next((block for block in find_all(cls, cst.With) if _copies_on_stream(file, block)), None)
        if copying is not None and not any(_guards(file, call) for call in find_all(cls, cst.Call)):
            return copying
    return None


def _classes_behind(file: FileFacts, loop: cst.For | cst.While) -> Iterator[cst.ClassDef]:
    """The classes whose methods a round calls, and that of what the loop goes through."""
    over = file.value(loop.iter).cls if isinstance(loop, cst.For) else None
    if over is not None:
        yield over.node
    for call in find_all(loop, cst.Call):
        for function in file.values.calls.reached(call):
            cls = file.classes.around(function)
            if cls is not None:
                yield cls.node


def _copies_on_stream(file: FileFacts, block: cst.With) -> bool:
    """Whether a block is `with torch.cuda.stream(side):` around copies to the device."""
    is_aside = any(file.qualified(item.item) == "torch.cuda.stream" for item in block.items)
    return is_aside and any(_method(call) in ("cuda", "to") for call in find_all(block.body, cst.Call))


def _guards(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call is `x.record_stream(...)`, or `side.wait_stream(...)` other than of the current stream."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    is_current = owner is not None and file.qualified(owner) in _CURRENT
    return _method(call) == "record_stream" or (_method(call) == "wait_stream" and not is_current)


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
