"""Whether all that loops do with batches is to move them to a device, and where that is named above the data set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._named_devices import CURRENT, device_at, device_of_types_at
from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.batch_copies import copies
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tracing import Step
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType

_SHAPE = frozenset({"shape", "size", "dim", "ndim", "dtype", "numel", "element_size", "is_floating_point"})
"""What a tensor says of itself without its numbers, which is the same on every device."""

_VIEWS = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze"})
"""What gives a tensor another shape, which is the same before it is moved and behind that."""

_CONDITIONS = (cst.If, cst.IfExp, cst.BooleanOperation, cst.Try, cst.Match)

_COLLECTS = frozenset({"append", "extend", "appendleft", "insert", "add", "put", "update"})


class Kept(Exception):
    """Why batches stay as they are, in one line."""


@frozen
class Move:
    """How batches are moved: `.to(device)`.

    Attributes:
        call: one of the calls that do it.
        method: `to`, `cuda` or `type`.
        where: the device; `None` for `cuda()`. For `type`, the type of tensors, which says where those lie.
    """

    call: cst.Call
    method: str
    where: cst.BaseExpression | None


def moves(file: FileFacts, loader: Loader, kinds: Sequence[DType | None]) -> Iterator[Move]:
    """Every move of one of the tensors of a loader's batches, whose types are `kinds` as far as they are known. Raises
    `Kept` where they are used before.
    """
    if not loader.iterations:
        raise Kept("no loop over it is in sight")
    for iteration in loader.iterations:
        above = _above(file, loader, iteration)
        kept = _collected(file, loader, iteration.node)
        if kept is not None:
            raise Kept(f"line {file.line(kept)} keeps what is on the host: `{file.code(kept)}`")
        for part, kind in enumerate(kinds):
            assert isinstance(iteration.node, cst.For)
            found: list[Move] = []
            for held in file.handing.uses(iteration.node.iter, (*above, part)):
                if held.path or held.node is iteration.node.iter:
                    where = f"`{file.code(held.node)}` on line {file.line(held.node)}"
                    raise Kept(f"what becomes of its batches is not in sight: {where}")
                if not _asks_for_shape(file, held.node):
                    found.append(_move(file, loader, held.node, kind))
            _require_one_copy(file, iteration.node, found)
            yield from found


def _require_one_copy(file: FileFacts, loop: cst.For, found: Sequence[Move]) -> None:
    """Raises `Kept` where a part of a batch is moved several times: on the device already, it would not be copied, and
    what is written into one of those tensors would show in the others.
    """
    calls = list(dict.fromkeys(each.call for each in found))
    for call in calls:
        function = file.tree.function(call)
        is_here = function is file.tree.function(loop)
        around = file.tree.loops(call)
        users = file.values.calls.callers(function) if not is_here and isinstance(function, cst.FunctionDef) else ()
        nested = [file.tree.loops(user) for user in users if loop in file.tree.loops(user)]
        is_called_again = len(nested) > 1 or any(loops[0] is not loop for loops in nested)
        is_inside = around[:1] != [loop] if is_here else bool(around) or is_called_again
        if len(calls) > 1 or is_inside:
            line = file.line(calls[-1])
            raise Kept(f"line {line} may move the same part of a batch again, and what is done to one would show")


def _above(file: FileFacts, loader: Loader, iteration: Iteration) -> tuple[Step, ...]:
    """The way from what a loop goes through to its batches: `enumerate` gives pairs."""
    node = iteration.node
    if not isinstance(node, cst.For) or node.asynchronous is not None:
        raise Kept(f"line {file.line(node)} takes batches without a `for` loop")
    for above in ((None,), (None, 1)):
        ends = file.tracing.ends(node.iter, (*above, 0))
        if any(end.node is loader.call and end.path == (None, 0) for end in ends):
            return above
    raise Kept(f"what `{file.code(node.iter)}` on line {file.line(node)} makes of its batches is not in sight")


def _collected(file: FileFacts, loader: Loader, loop: cst.CSTNode) -> cst.Call | None:
    """The call that collects a part of a batch, `labels.append(y)`, for whoever reads the list."""
    for call in find_all(loop, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _COLLECTS and file.qualified(call) is None:
            parts = (part for arg in call.args for part in _elements(arg.value))
            if any(end.node is loader.call and end.path for part in parts for end in file.tracing.ends(part)):
                return call
    return None


def _elements(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [each.value for each in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]


def _asks_for_shape(file: FileFacts, node: cst.BaseExpression) -> bool:
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Attribute):
        return parent.value is node and parent.attr.value in _SHAPE
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and file.qualified(call) == "builtins.len"


def _move(file: FileFacts, loader: Loader, node: cst.BaseExpression, kind: DType | None) -> Move:
    parent = file.tree.parent(node)
    call = file.tree.parent(parent) if isinstance(parent, cst.Attribute) else None
    while isinstance(parent, cst.Attribute) and parent.attr.value in _VIEWS and isinstance(call, cst.Call):
        parent = file.tree.parent(call)
        call = file.tree.parent(parent) if isinstance(parent, cst.Attribute) else None
    known = (copy for copy in file.once(copies) if copy.call is call)
    copied = next((copy for copy in known if loader in copy.origins or loader in copy.computed), None)
    if copied is not None and copied.may_fetch:
        raise Kept(f"line {file.line(copied.call)} may move its batches to the CPU")
    if copied is None or not isinstance(parent, cst.Attribute):
        statement = file.tree.statement(node)
        raise Kept(f"line {file.line(statement)} uses `{file.code(node)}` before it is moved to a device")
    method = parent.attr.value
    if method == "cuda":
        return Move(copied.call, method, argument(copied.call, "device", 0))
    if method == "type":
        return _move_by_type(file, copied.call, kind)
    where = file.values.placement.destination(copied.call)
    if method != "to" or where is None:
        raise Kept(f"line {file.line(copied.call)} does not name the device")
    return Move(copied.call, method, where)


def _move_by_type(file: FileFacts, call: cst.Call, kind: DType | None) -> Move:
    """The move of `x.type(torch.cuda.FloatTensor)`, which casts as well. On the device already, a tensor is cast there,
    with the same numbers; only what becomes of numbers that an integer cannot hold depends on the processor.
    """
    where = argument(call, "dtype", 0)
    types = file.values.placement.tensor_types(where) if where is not None else frozenset()
    if not types:
        raise Kept(f"line {file.line(call)} does not name the device")
    is_cut = any(torch_api.TENSOR_TYPES[each] != "floating" for each in types)
    if is_cut and kind not in (DType.INTEGER, DType.BOOL):
        raise Kept(f"line {file.line(call)} may make integers of its batches, which may be others on the device")
    return Move(call, "type", where)


def move_at(file: FileFacts, found: Sequence[Move], at: cst.Call) -> str:
    """The code that moves a tensor where a data set is made: `.to(device)`. Raises `Kept` where there is none."""
    for each in found:
        condition = _condition(file, each, at)
        if condition is not None:
            raise Kept(f"line {file.line(each.call)} moves batches under a condition (line {file.line(condition)})")
    written = dict.fromkeys(_written(file, each, at) for each in found)
    if not written:
        raise Kept("no loop over it moves its batches to a device")
    if len(written) > 1:
        raise Kept(f"its batches are moved in several ways: {', '.join(f'`{each}`' for each in written)}")
    return next(iter(written))


def _condition(file: FileFacts, move: Move, at: cst.Call) -> cst.CSTNode | None:
    """What decides whether a batch is moved, and not whether its data set is made: `if use_cuda`.

    A loop under a condition moves to the device that it chose; only one that is written out may be missing then.
    """
    types = file.values.placement.tensor_types(move.where) if move.where is not None else frozenset()
    is_on_device = bool(types) and all(each.startswith("torch.cuda.") for each in types)
    is_written_out = move.where is None or is_on_device or isinstance(move.where, (cst.SimpleString, cst.Integer))
    shared = set(file.tree.ancestors(at))
    for around in file.tree.ancestors(move.call):
        if isinstance(around, (cst.FunctionDef, cst.Lambda)) or (isinstance(around, cst.For) and not is_written_out):
            return None
        is_main = isinstance(around, cst.If) and "__name__" in file.code(around.test)
        if isinstance(around, _CONDITIONS) and around not in shared and not is_main:
            return around
    return None


def _written(file: FileFacts, move: Move, at: cst.Call) -> str:
    where = move.where
    if where is None:
        return ".cuda()"
    if isinstance(where, (cst.SimpleString, cst.Integer)) and move.method != "type":
        return f".{move.method}({file.code(where)})"
    if move.method == "type":
        device = device_of_types_at(file, where, at)
        if device is None:
            line = f"line {file.line(at)}, where the data set is made"
            raise Kept(
                f"where tensors of `{file.code(where)}` (line {file.line(move.call)}) lie is not known on {line}"
            )
        return ".cuda()" if device == CURRENT else f".to({device})"
    code = device_at(file, where, at)
    if code is None:
        line = f"line {file.line(at)}, where the data set is made"
        raise Kept(f"`{file.code(where)}` of line {file.line(move.call)} has no name on {line}")
    return f".{move.method}({code})"
