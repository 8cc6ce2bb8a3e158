"""Copies of a loader's batches to the accelerator: `x.to(device)`, `y.cuda()`, `batch[k].to(device=d)`,
`z.type(torch.cuda.FloatTensor)` and the like.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import End, Step, literal
from perfmod.transforms.facts.tree import find_all, is_false, is_none
from perfmod.transforms.facts.value import Device, Kind

_DEEPEST = 4
_FEATURES = frozenset({"ndata", "edata", "srcdata", "dstdata"})
_CASTS = torch_api.CASTS - {"cuda", "cpu"}
_COPYING_METHODS = ("to", "cuda", "type")


@frozen
class Copy:
    """One call that copies (parts of) batches to the accelerator.

    Attributes:
        call: the call of `to`, `cuda` or `type`.
        origins: for every loader whose batches it may copy, the paths of the parts.
        others: values of other origin that it may copy too.
        computed: for every loader of whose batches the host computes what it copies, where (`torch.cat(images)`) and of
            which parts.
        non_blocking: the argument; `None` where it is absent.
        cast: the call between the batch and the copy that makes another tensor, as in `x.float().to(device)`.
        pinned_here: whether the source is pinned in the same expression, `x.pin_memory().to(device)`.
        may_fetch: whether some caller's destination is the CPU, so that others' values may be fetched from the device.
    """

    call: cst.Call
    origins: dict[Loader, tuple[tuple[Step, ...], ...]]
    others: tuple[End, ...]
    computed: dict[Loader, tuple[cst.CSTNode, frozenset[tuple[Step, ...]]]]
    non_blocking: cst.BaseExpression | None
    cast: cst.Call | None
    pinned_here: bool
    may_fetch: bool

    @property
    def blocks(self) -> bool:
        """Whether the host waits for it: `non_blocking` is absent or a literal `False`."""
        return self.non_blocking is None or is_false(self.non_blocking)


@frozen
class BatchWrite:
    """A place that writes, or may write, into a host tensor of a batch."""

    node: cst.CSTNode
    loader: Loader
    path: tuple[Step, ...]
    is_seen: bool


def copies(file: FileFacts) -> tuple[Copy, ...]:
    """Every copy to the accelerator in all files, in order."""
    return tuple(_copies(file))


def _copies(file: FileFacts) -> Iterator[Copy]:
    for call in file.tree.all(cst.Call):
        if not _calls(call, *_COPYING_METHODS) or not isinstance(call.func, cst.Attribute):
            continue
        if file.qualified(call) is not None or has_star(call) or not _reaches_accelerator(file, call):
            continue
        base, cast = call.func.value, None
        ends: list[End] = []
        for end in _ends(file, base):
            inner = _behind_cast(file, end)
            if inner:
                assert isinstance(end.node, cst.Call)
                cast = end.node
            ends += inner or [end]
        origins: dict[Loader, tuple[tuple[Step, ...], ...]] = {}
        others: list[End] = []
        for end in ends:
            loader = file.loaders.of(end.node) if end.path[:1] == (None,) else None
            if loader is not None:
                origins[loader] = (*origins.get(loader, ()), end.path)
            elif not is_none(end.node) and not (_cannot_be_iterated(file, end) or _is_container(end)):
                others.append(end)
        yield Copy(
            call,
            origins,
            tuple(others),
            {loader: (end.node, paths) for end in others for loader, paths in _computed_from(file, end.node).items()},
            _non_blocking(file, call),
            cast,
            _calls(base, "pin_memory"),
            _may_fetch(file, call),
        )


def _cannot_be_iterated(file: FileFacts, end: End) -> bool:
    """Whether a value would be an item of what has none, such as a logger: whoever passes that gets no copy."""
    made = end.node
    if end.path[:1] != (None,) or not isinstance(made, cst.BaseExpression):
        return False
    is_logger = isinstance(made, cst.Call) and (file.qualified(made) or "").endswith(".SummaryWriter")
    return is_logger or file.value(made).kind in (Kind.NUMBER, Kind.DEVICE, Kind.OPTIMIZER)


def _is_container(end: End) -> bool:
    """Whether a value is a list, tuple or dictionary, which has no `to`: code that copies takes its items first."""
    displays = (cst.Tuple, cst.List, cst.Dict, cst.ListComp, cst.DictComp)
    return not end.path and isinstance(end.node, displays)


def _behind_cast(file: FileFacts, end: End) -> list[End]:
    """Where a batch was made that is cast at an end, `batch[0].float()`; empty where none is."""
    made = end.node
    if end.path or not isinstance(made, cst.Call) or not isinstance(made.func, cst.Attribute):
        return []
    if not _calls(made, *_CASTS) or (_calls(made, *_COPYING_METHODS) and _reaches_accelerator(file, made)):
        return []
    inner = _ends(file, made.func.value)
    if any(part.path[:1] == (None,) for part in inner):
        return list(inner)
    return _behind_cast(file, inner[0]) if len(inner) == 1 else []


def _ends(file: FileFacts, source: cst.BaseExpression) -> tuple[End, ...]:
    """Where what is copied was made: what a list, a tensor or an array picks, `x[:, [2, 1, 0]]`, is made there."""
    return file.tracing.ends_behind(source, file.once(_picked))


def _picked(file: FileFacts) -> frozenset[cst.CSTNode]:
    """Every subscript that makes a new tensor of one: others give views."""
    return frozenset(
        node
        for node in file.tree.all(cst.Subscript)
        if any(isinstance(part.slice, cst.Index) and _picks(file, part.slice.value) for part in node.slice)
    )


def _picks(file: FileFacts, index: cst.BaseExpression) -> bool:
    """Whether an index is a list, a tensor or an array; a tensor without dimensions is a number like others."""
    if isinstance(index, (cst.List, cst.ListComp)):
        return True
    value = file.value(index)
    if value.kind in (Kind.TENSOR, Kind.ARRAY):
        return value.rank != 0
    ends = file.tracing.ends(index) if isinstance(index, (cst.Name, cst.Attribute)) else ()
    return any(isinstance(end.node, (cst.List, cst.ListComp)) and not end.path for end in ends)


def _computed_from(file: FileFacts, made: cst.CSTNode) -> dict[Loader, frozenset[tuple[Step, ...]]]:
    """The loaders of whose batches, and the parts of those, an expression computes something on the host, in order."""
    found: dict[tuple[Loader, tuple[Step, ...]], None] = {}
    seen: set[cst.CSTNode] = set()
    level = [made] if _is_computed(made) else []
    known = file.once(_sources)
    for _ in range(_DEEPEST + 1):
        seen.update(level)
        below: dict[cst.CSTNode, None] = {}
        for node in level:
            if node not in known:
                known[node] = _computed_of(file, node)
            found |= dict.fromkeys(known[node].parts)
            below |= dict.fromkeys(known[node].computed)
        level = [node for node in below if node not in seen]
    return {loader: frozenset(path for of, path in found if of is loader) for loader, _ in found}


@frozen
class _Sources:
    """What an expression computes with: batches of loaders, and what other expressions compute, in order."""

    parts: tuple[tuple[Loader, tuple[Step, ...]], ...]
    computed: tuple[cst.CSTNode, ...]


def _sources(_: FileFacts) -> dict[cst.CSTNode, _Sources]:
    """The sources that have been looked for already; many values come from the same places."""
    return {}


def _computed_of(file: FileFacts, node: cst.CSTNode) -> _Sources:
    names = (name for name in find_all(node, cst.Name) if file.flow.is_read(name))
    ends = dict.fromkeys(end for name in names for end in file.tracing.ends(name))
    loaders = {end: file.loaders.of(end.node) if end.path[:1] == (None,) else None for end in ends}
    return _Sources(
        tuple((loader, end.path) for end, loader in loaders.items() if loader is not None),
        tuple(end.node for end, loader in loaders.items() if loader is None and _is_computed(end.node)),
    )


def _is_computed(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Call, cst.BinaryOperation, cst.Subscript)) and not _calls(node, *_COPYING_METHODS)


def has_accelerator(file: FileFacts) -> bool:
    """Whether the file moves anything to an accelerator at all."""
    return any(_calls(call, *_COPYING_METHODS) and _reaches_accelerator(file, call) for call in file.tree.all(cst.Call))


def writes(file: FileFacts) -> tuple[BatchWrite, ...]:
    """Every place that writes, or may write, into a batch's tensor on the host: `y[y > 9] = 0`, `scrub(y)`."""
    paths = [(loader, path) for copy in file.once(copies) for loader, paths in copy.origins.items() for path in paths]
    found: list[BatchWrite] = []
    for write in file.aliasing.writes if paths else ():
        target = file.tree.parent(write.into) if isinstance(write.node, cst.AssignTarget) else None
        is_size = isinstance(write.node, cst.AugAssign) and _is_size(file, write.into)
        if is_size or (isinstance(target, cst.Subscript) and _replaces_entry(target)):
            continue
        for end in _storages(file, write.into):
            loader = file.loaders.of(end.node) if end.path[:1] == (None,) else None
            # `batch["x"] = ...` replaces a part of a container; it writes into no tensor.
            is_container = any(of is loader and len(path) > len(end.path) for of, path in paths)
            if loader is not None and not (write.is_item and is_container):
                found.append(BatchWrite(write.node, loader, end.path, write.is_seen))
    return tuple(found)


def _replaces_entry(target: cst.Subscript) -> bool:
    """Whether an assignment gives a container another entry, and so writes into no tensor: those have no entries by
    name, and the features of a graph of DGL are kept in a dictionary.
    """
    index = target.slice[0].slice
    if len(target.slice) == 1 and isinstance(index, cst.Index) and isinstance(literal(index.value), str):
        return True
    return isinstance(target.value, cst.Attribute) and target.value.attr.value in _FEATURES


def _is_size(file: FileFacts, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether an expression is a number of elements, `size` of `size = x.shape[0]`, which is no tensor."""
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    made = file.flow.definitions(node) if isinstance(node, cst.Name) and depth < _DEEPEST else ()
    return bool(made) and all(
        each.value is not None and not each.path and _is_size(file, each.value, depth + 1) for each in made
    )


def _storages(file: FileFacts, node: cst.BaseExpression, depth: int = 0) -> tuple[End, ...]:
    """Where a tensor or array was made, through arrays and tensors that share its memory: `x.numpy()`."""
    known = file.once(_known_storages)
    if (node, depth) not in known:
        found: dict[End, None] = {}
        for end in file.tracing.ends(node):
            shared = file.aliasing.shared(end.node) if depth < _DEEPEST else None
            found.update(dict.fromkeys((end,) if shared is None else _storages(file, shared, depth + 1)))
        known[node, depth] = tuple(found)
    return known[node, depth]


def _known_storages(_file: FileFacts) -> dict[tuple[cst.CSTNode, int], tuple[End, ...]]:
    """Those that were looked for already."""
    return {}


def overlap(one: tuple[Step, ...], other: tuple[Step, ...]) -> bool:
    """Whether one part of a batch may be, or hold, the other."""
    return all(a is None or b is None or a == b for a, b in zip(one, other, strict=False))


def is_part(file: FileFacts, copy: Copy, made: cst.CSTNode) -> bool:
    """Whether what the host computes for a copy stands for a part of the batch: `x = f(x)`, `z = f(x)`,
    `(x / 255).to(device)`.
    """
    assert isinstance(copy.call.func, cst.Attribute)
    base = copy.call.func.value
    if isinstance(base, cst.Name):
        given = (arg.value for arg in made.args) if isinstance(made, cst.Call) else ()
        return any(name.value == base.value for name in find_all(made, cst.Name)) or any(
            file.loaders.of(end.node) is not None for arg in given for end in file.tracing.ends(arg)
        )
    while not isinstance(base, cst.Name):
        inner = (
            base.left if isinstance(base, cst.BinaryOperation) else base.func if isinstance(base, cst.Call) else None
        )
        inner = base.value if isinstance(base, cst.Subscript) else inner
        inner = inner.value if isinstance(inner, cst.Attribute) else inner
        if inner is None:
            return False
        base = inner
    return any(file.loaders.of(end.node) is not None for end in file.tracing.ends(base))


def gaps(file: FileFacts, copy: Copy) -> cst.Subscript | None:
    """The slice between a batch and its copy that leaves gaps in memory, `x[:, 1:]`: PyTorch joins its pieces first, in
    memory that is not pinned.
    """
    assert isinstance(copy.call.func, cst.Attribute)
    base = copy.call.func.value
    made = file.values.assigned_to(base) if isinstance(base, cst.Name) else [base]
    return next((each for each in made if isinstance(each, cst.Subscript) and _leaves_gaps(each)), None)


def _leaves_gaps(node: cst.Subscript) -> bool:
    """Whether a slice takes a part of what lies together, by a step or behind a dimension of which it takes several."""
    parts = [part.slice for part in node.slice]
    if any(isinstance(part, cst.Slice) and part.step is not None for part in parts):
        return True
    several = (number for number, part in enumerate(parts) if isinstance(part, cst.Slice) or _is_ellipsis(part))
    behind = parts[next(several, len(parts)) + 1 :]
    return any(
        part.lower is not None or part.upper is not None if isinstance(part, cst.Slice) else not _is_new_or_all(part)
        for part in behind
    )


def _is_ellipsis(part: cst.BaseSlice) -> bool:
    return isinstance(part, cst.Index) and isinstance(part.value, cst.Ellipsis)


def _is_new_or_all(part: cst.BaseSlice) -> bool:
    """Whether an index is `...` or `None`, which take all there is."""
    return _is_ellipsis(part) or (isinstance(part, cst.Index) and is_none(part.value))


def written_after(
    file: FileFacts, copy: Copy, written: tuple[BatchWrite, ...], *, is_seen: bool = True
) -> BatchWrite | None:
    """A write into what `copy` reads, that runs (or may run, unseen) while the copy may be under way."""
    for write in written:
        for path in copy.origins.get(write.loader, ()) if write.is_seen is is_seen else ():
            follows = overlap(path, write.path) and _may_follow(file, copy.call, write.node)
            if follows and not _is_replaced(file, copy, write):
                return write
    return None


def _is_replaced(file: FileFacts, copy: Copy, write: BatchWrite) -> bool:
    """Whether a variable that is written into holds the copy wherever it was made: `if gpu: x = x.to(device)`."""
    statement = file.tree.statement(copy.call)
    names = [name for name in find_all(write.node, cst.Name) if file.flow.is_variable(name)]
    given = [name for name in names if any(file.loaders.of(end.node) for end in file.tracing.ends(name))]
    held = (any(file.tree.is_within(each.node, statement) for each in file.flow.definitions(name)) for name in given)
    return isinstance(statement, cst.Assign) and bool(given) and all(held)


def _may_follow(file: FileFacts, copy: cst.Call, write: cst.CSTNode) -> bool:
    """Whether control may come from a copy to a write with the same batch, by way of the calls that lead to them."""
    copied, written = _sites(file, copy), _sites(file, write)
    if not copied.keys() & written.keys():
        return True
    return any(
        _follows(file, earlier, later)
        for function in copied.keys() & written.keys()
        for earlier in copied[function]
        for later in written[function]
    )


def _sites(file: FileFacts, node: cst.CSTNode) -> dict[cst.CSTNode | None, list[cst.CSTNode]]:
    """A node and the calls that lead to it, by the function that they stand in."""
    found: dict[cst.CSTNode | None, list[cst.CSTNode]] = {}
    level = [node]
    for _ in range(_DEEPEST):
        for each in level:
            found.setdefault(file.tree.function(each) or file.tree.module_of(each), []).append(each)
        functions = {file.tree.function(each) for each in level} - {None}
        level = [call for function in functions if function is not None for call in file.values.calls.callers(function)]
    return found


def _follows(file: FileFacts, copy: cst.CSTNode, write: cst.CSTNode) -> bool:
    if copy is write or file.comes_before(copy, write) or _writes_into_earlier(file, write):
        return True
    # An inner loop comes back to the write with the same batch.
    shared = [loop for loop in file.tree.loops(copy) if file.tree.is_within(write, loop.body)]
    draws = {i.node for loader in file.loaders.everywhere for i in loader.iterations}
    return bool(shared) and not any(loop in draws for loop in shared[:1])


def _writes_into_earlier(file: FileFacts, write: cst.CSTNode) -> bool:
    """Whether a write may be into the batch of an earlier round, which may still be copied: `previous.zero_()`."""
    names = [name for name in find_all(write, cst.Name) if file.flow.is_variable(name)]
    earlier = [name for name in names if file.flow.from_earlier_rounds(name)]
    ends = (end for name in earlier for end in file.tracing.ends(name))
    return any(end.path[:1] == (None,) and file.loaders.of(end.node) is not None for end in ends)


def _calls(node: cst.CSTNode, *methods: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in methods


def _non_blocking(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """`to(device, dtype, non_blocking)`, `to(other, non_blocking)`, `cuda(device, non_blocking)`,
    `type(dtype, non_blocking)`, or by keyword. A string is none, but names a part of a graph, as in
    `data.to(device, "x", "y")`.
    """
    assert isinstance(call.func, cst.Attribute)
    second = call.func.attr.value != "to" or (bool(call.args) and file.value(call.args[0].value).is_tensor)
    given = argument(call, "non_blocking", 1 if second else 2)
    return None if isinstance(given, cst.SimpleString) else given


def destination(file: FileFacts, call: cst.Call) -> cst.BaseExpression | None:
    """What says where a call of `to` or `type` copies to: a device, or a tensor that lies there, or a type of tensors;
    `None` where it only casts.
    """
    assert isinstance(call.func, cst.Attribute)
    if call.func.attr.value == "type":
        kind = argument(call, "dtype", 0)
        return kind if kind is not None and _names_cuda_type(file, kind) else None
    where = file.values.placement.destination(call)
    if where is None and call.func.attr.value == "to":
        other = argument(call, "other", 0)
        if other is not None and file.value(other).is_tensor:
            return other
    return where


def _names_cuda_type(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a type may be that of tensors on the device: `torch.cuda.FloatTensor if cuda else torch.FloatTensor`."""
    names = [_type_name(file, end.node) for end in file.tracing.ends(node) if not end.path]
    return any(name.startswith("torch.cuda.") for name in names) and all(
        name.startswith("torch.") and name.endswith("Tensor") for name in names
    )


def _type_name(file: FileFacts, node: cst.CSTNode) -> str:
    if isinstance(node, cst.SimpleString):
        return str(node.evaluated_value)
    return file.qualified(node) or "" if isinstance(node, (cst.Name, cst.Attribute)) else ""


def _reaches_accelerator(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call of `to`, `cuda` or `type` may copy to the accelerator: not a mere cast, and not to the CPU for
    sure.
    """
    assert isinstance(call.func, cst.Attribute)
    if call.func.attr.value == "cuda":
        return True
    where = destination(file, call)
    if where is None:
        return False
    if call.func.attr.value == "type":
        return True
    if file.value(where).is_tensor:
        return file.value(where).device is not Device.CPU
    ends = file.tracing.ends(where)
    if any(_is_dtype(file, end.node) for end in (*ends, End(where, ()))):
        return False
    known = [_is_host(file, end.node) for end in ends if not is_none(end.node)]
    return not (known and all(known))


def _is_host(file: FileFacts, device: cst.CSTNode) -> bool:
    """Whether a device is the CPU for sure."""
    return isinstance(device, cst.BaseExpression) and file.values.placement.device_of(device) is Device.CPU


def _may_fetch(file: FileFacts, call: cst.Call) -> bool:
    """Whether one of several destinations is the CPU, other than where there is no accelerator."""
    where = destination(file, call) if not _calls(call, "cuda", "type") else None
    if where is None or file.value(where).is_tensor:
        return False
    return any(
        _is_host(file, end.node) and not _is_chosen(file, end.node)
        for end in file.tracing.ends(where)
        if not is_none(end.node)
    )


def _is_chosen(file: FileFacts, device: cst.CSTNode) -> bool:
    """Whether a device stands in a choice, `"cuda" if torch.cuda.is_available() else "cpu"`."""
    return any(isinstance(around, (cst.IfExp, cst.If)) for around in file.tree.ancestors(device))


def _is_dtype(file: FileFacts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Call):
        return False
    name = file.qualified(node) if isinstance(node, cst.BaseExpression) else None
    if name in torch_api.DTYPES or name in torch_api.TENSOR_TYPES:
        return True
    written = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    return "dtype" in written
