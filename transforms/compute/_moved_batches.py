"""Whether all that loops do with batches is to move them to a device, and where that is named above the data set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.batch_copies import copies
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.loaders import Iteration, Loader
from perfmod.transforms.facts.tracing import Step
from perfmod.transforms.facts.tree import find_all, walk

_SHAPE = frozenset({"shape", "size", "dim", "ndim", "dtype", "numel", "element_size", "is_floating_point"})
"""What a tensor says of itself without its numbers, which is the same on every device."""

_VIEWS = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze"})
"""What gives a tensor another shape, which is the same before it is moved and behind that."""

_CHOOSES = frozenset(
    {
        "torch.device", "torch.cuda.is_available", "torch.backends.mps.is_available", "torch.accelerator.is_available",
        "torch.accelerator.current_accelerator",
    }
)  # fmt: skip
"""What gives the same device wherever it is asked."""
_SETS_DEVICES = re.compile(r"\bCUDA_VISIBLE_DEVICES\b|\bset_default_device\b")
"""What would have to come first."""

_CONDITIONS = (cst.If, cst.IfExp, cst.BooleanOperation, cst.Try, cst.Match)

_COLLECTS = frozenset({"append", "extend", "appendleft", "insert", "add", "put", "update"})


class Kept(Exception):
    """Why batches stay as they are, in one line."""


@frozen
class Move:
    """How batches are moved: `.to(device)`.

    Attributes:
        call: one of the calls that do it.
        method: `to` or `cuda`.
        where: the device; `None` for `cuda()`.
    """

    call: cst.Call
    method: str
    where: cst.BaseExpression | None


def moves(file: FileFacts, loader: Loader, number: int) -> Iterator[Move]:
    """Every move of one of the `number` tensors of a loader's batches. Raises `Kept` where they are used before."""
    if not loader.iterations:
        raise Kept("no loop over it is in sight")
    for iteration in loader.iterations:
        above = _above(file, loader, iteration)
        kept = _collected(file, loader, iteration.node)
        if kept is not None:
            raise Kept(f"line {file.line(kept)} keeps what is on the host: `{file.code(kept)}`")
        for part in range(number):
            assert isinstance(iteration.node, cst.For)
            found: list[Move] = []
            for held in file.handing.uses(iteration.node.iter, (*above, part)):
                if held.path or held.node is iteration.node.iter:
                    where = f"`{file.code(held.node)}` on line {file.line(held.node)}"
                    raise Kept(f"what becomes of its batches is not in sight: {where}")
                if not _asks_for_shape(file, held.node):
                    found.append(_move(file, loader, held.node))
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


def _move(file: FileFacts, loader: Loader, node: cst.BaseExpression) -> Move:
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
    where = file.values.placement.destination(copied.call)
    if method != "to" or where is None:
        raise Kept(f"line {file.line(copied.call)} does not name the device")
    return Move(copied.call, method, where)


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
    is_written_out = move.where is None or isinstance(move.where, (cst.SimpleString, cst.Integer))
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
    if isinstance(where, (cst.SimpleString, cst.Integer)):
        return f".{move.method}({file.code(where)})"
    code = _spelled(file, where, at) or _chosen(file, where, at)
    if code is None:
        line = f"line {file.line(at)}, where the data set is made"
        raise Kept(f"`{file.code(where)}` of line {file.line(move.call)} has no name on {line}")
    return f".{move.method}({code})"


def _spelled(file: FileFacts, where: cst.BaseExpression, at: cst.Call) -> str | None:
    """What a device is called at another place; `None` where it has no name there."""
    if isinstance(where, cst.Attribute):
        return _attribute(file, where, at)
    ends = set(file.tracing.ends(where)) if isinstance(where, cst.Name) else set()
    scopes = dict.fromkeys((file.tree.scope(at), file.tree.module_of(at)))
    names = [(scope, name) for scope in scopes for name in file.flow.names(scope) if name not in torch_api.DTYPES]
    own = where.value if isinstance(where, cst.Name) else ""
    for scope, name in sorted(names, key=lambda each: each[1] != own):
        bound = file.flow.bound(scope, name)
        uses = file.flow.uses(bound[0])
        is_shadowed = scope is not file.tree.scope(at) and bool(file.flow.bound(file.tree.scope(at), name))
        if is_shadowed or name in file.handing.outer_names or not uses:
            continue
        if not all(file.comes_before(each.node, at) for each in bound):
            continue
        if any(set(file.flow.definitions(use)) >= set(bound) and set(file.tracing.ends(use)) == ends for use in uses):
            return name
    return None


def _chosen(file: FileFacts, where: cst.BaseExpression, at: cst.Call) -> str | None:
    """The code by which a device is chosen later, where that chooses the same at another place: it asks PyTorch only,
    as `"cuda" if torch.cuda.is_available() else "cpu"` does.
    """
    made = file.flow.definitions(where) if isinstance(where, cst.Name) else ()
    value = made[0].value if len(made) == 1 and made[0].binding is Binding.ASSIGNED and not made[0].path else None
    if value is None or len(file.flow.bound(made[0].scope, made[0].name)) != 1 or not file.is_own(value):
        return None
    if first_mention(file, _SETS_DEVICES) is not None:
        return None
    if not all(file.qualified(call) in _CHOOSES for call in find_all(value, cst.Call)):
        return None
    if any(isinstance(node, (cst.Lambda, cst.NamedExpr, cst.BaseFormattedStringContent)) for node in walk(value)):
        return None
    for name in find_all(value, cst.Name):
        brought = file.flow.definitions(name) if file.flow.is_read(name) else ()
        is_above = all(each.scope is file.tree.module and file.comes_before(each.node, at) for each in brought)
        if file.flow.is_read(name) and (not brought or not is_above or name.value != "torch"):
            return None
    if file.tree.scope(at) is not file.tree.module and file.flow.bound(file.tree.scope(at), "torch"):
        return None
    return re.sub(r"\s*\n\s*", " ", file.code(value))


def _attribute(file: FileFacts, where: cst.Attribute, at: cst.Call) -> str | None:
    """`args.device` and `self.device`, where they are the same at both places."""
    code, root = dotted(where), where.value
    sets = [each for each in file.tree.all(cst.AssignTarget) if dotted(each.target) == code]
    function, home = file.tree.function(where), file.tree.function(at)
    if not code or not isinstance(root, cst.Name) or not all(file.comes_before(each, at) for each in sets):
        return None
    if root.value == "self" and function is not None and home is not None:
        around = file.tree.class_of(home)
        made = {file.tree.function(each) for each in sets}
        early = [call for call in file.values.calls.callers(home) if file.tree.function(call) in made]
        is_set = bool(sets) and all(each is home or (each and each.name.value == "__init__") for each in made)
        is_above = is_set and all(file.comes_before(each, call) for each in sets for call in early)
        return code if is_above and around is not None and file.tree.class_of(function) is around else None
    bound = file.flow.definitions(root)
    is_above = bool(bound) and all(file.comes_before(each.node, at) for each in bound)
    return code if function is home and is_above else None
