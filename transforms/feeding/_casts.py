"""Casts between a batch and its copy to the device: `x.float().to(device)`.

A cast that changes the type makes another tensor, in pageable memory: the copy then waits, whatever the loader
pinned. Behind the copy the same cast runs on the device, and gives the same values. Only of floats that become integers
NaN and what is out of range come out differently, which is no number on either: where a batch is known to hold floats,
the cast stays. Casts to half precision and to truth values make a tensor that is smaller to copy: they stay too.

A copy that casts as well, `x.to(device, torch.float)`, is done in the same order: where the batch is of another type,
PyTorch casts it on the CPU first, and copies what that made. Where the dataset shows that the batch is of that type
already, nothing is cast, and the copy keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.batch_copies import Copy, destination
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import is_none
from perfmod.transforms.facts.value import DType
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._collates import returned
from perfmod.transforms.finding import Edit

_TO_FLOATS = frozenset({"float", "double"})
_TO_SMALLER = frozenset({"half", "bfloat16", "bool"})
_TO_INTEGERS = frozenset({"long", "int", "short", "byte"})
_BY_TYPE = {
    "torch.FloatTensor": "float()", "torch.DoubleTensor": "double()", "torch.HalfTensor": "half()",
    "torch.BFloat16Tensor": "bfloat16()", "torch.BoolTensor": "bool()", "torch.LongTensor": "long()",
    "torch.IntTensor": "int()", "torch.ShortTensor": "short()", "torch.ByteTensor": "byte()",
}  # fmt: skip
"""Types of tensors on the CPU, and the methods that cast to them wherever a tensor lies."""
_BY_DTYPE = {
    "torch.float": "float", "torch.float32": "float", "torch.double": "double", "torch.float64": "double",
    "torch.half": "half", "torch.float16": "half", "torch.bfloat16": "bfloat16", "torch.bool": "bool",
    "torch.long": "long", "torch.int64": "long", "torch.int": "int", "torch.int32": "int", "torch.short": "short",
    "torch.int16": "short", "torch.uint8": "byte",
}  # fmt: skip


@frozen
class _Cast:
    """A cast: the method that does it on either device, and how it is written there."""

    method: str
    written: str


def goes_behind(file: FileFacts, copy: Copy) -> bool:
    """Whether the cast before `copy`, which has one, is written behind it; where not, the copy stays as it is."""
    assert copy.cast is not None
    assert isinstance(copy.cast.func, cst.Attribute)
    cast = _read(file, copy.cast)
    if cast is None or cast.method in _TO_SMALLER or not _is_swappable(file, copy):
        return False
    return cast.method not in _TO_INTEGERS or file.value(copy.cast.func.value).dtype is not DType.FLOATING


def swap(file: FileFacts, copy: Copy) -> tuple[Edit, ...]:
    """The edits that put the cast behind the copy; the caller adds `non_blocking` to the copy itself."""
    assert copy.cast is not None
    cast = _read(file, copy.cast)
    assert cast is not None
    start, end = _written(file, copy.cast)
    source = file.source_of(copy.call)
    behind = source.span(copy.call)[1]
    return Edit(start, end, "", source.path), Edit(behind, behind, f".{cast.written}", source.path)


def cast_apart(file: FileFacts, copy: Copy) -> tuple[Edit, ...]:
    """The edits that copy without waiting first and cast then, for a copy that does both; empty where none is known."""
    given = argument(copy.call, "dtype", 1) if isinstance(copy.call.func, cst.Attribute) else None
    method = _BY_DTYPE.get(file.qualified(given) or "") if given is not None else None
    if given is None or method is None or method in _TO_SMALLER or copy.cast is not None or copy.call.lpar:
        return ()
    assert isinstance(copy.call.func, cst.Attribute)
    batch = file.value(copy.call.func.value)
    if (method in _TO_INTEGERS and batch.dtype is DType.FLOATING) or _has_type(file, copy, method):
        return ()
    arg = file.tree.parent(given)
    parts = all(len(path) > 1 for paths in copy.origins.values() for path in paths)
    if copy.call.func.attr.value != "to" or not parts or copy.non_blocking is not None or arg is copy.call.args[0]:
        return ()
    assert isinstance(arg, cst.Arg)
    source = file.source_of(copy.call)
    start, end = source.span(arg)
    behind = source.span(copy.call)[1]
    return Edit(start, end, "non_blocking=True", source.path), Edit(behind, behind, f".{method}()", source.path)


def _has_type(file: FileFacts, copy: Copy, method: str) -> bool:
    """Whether all that is copied has the type to which `method` casts, as far as datasets in sight show."""
    types: set[str | None] = set()
    for loader, paths in copy.origins.items():
        if any(not is_none(value) for value in loader.values("collate_fn")):
            return False
        samples = [value for made in WorkerCode.of(file, loader).datasets for value in _samples(file, made)]
        types |= {_type(file, end) for path in paths for value in samples for end in file.tracing.ends(value, path[1:])}
        types |= set() if samples else {None}
    return types == {method} and not copy.others


def _samples(file: FileFacts, dataset: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a dataset in sight gives as one sample."""
    cls = file.values.calls.constructed(dataset) if isinstance(dataset, cst.Call) else None
    method = cls.method("__getitem__") if cls is not None else None
    yield from returned(method) if method is not None else ()


def _type(file: FileFacts, end: End) -> str | None:
    """The method that casts to the type of what is made at an end: `long` for `torch.tensor(x, dtype=torch.long)`."""
    call = end.node
    if not isinstance(call, cst.Call) or end.path:
        return None
    name, given = file.qualified(call), argument(call, "dtype")
    if name in _BY_TYPE:
        return _BY_TYPE[name].removesuffix("()")
    if name is not None and given is not None:
        return _BY_DTYPE.get(file.qualified(given) or "") if name.startswith("torch.") else None
    cast = _read(file, call) if name is None and isinstance(call.func, cst.Attribute) else None
    return cast.method if cast is not None else None


def _is_swappable(file: FileFacts, copy: Copy) -> bool:
    """Whether copy and cast stand in one expression, `x.float().to(device)`, perhaps in a `Variable` of old, and the
    copy casts to nothing else.
    """
    cast, call = copy.cast, copy.call
    assert isinstance(call.func, cst.Attribute)
    moved = call.func.value
    if file.qualified(moved) == "torch.autograd.Variable" and isinstance(moved, cst.Call) and len(moved.args) == 1:
        moved = moved.args[0].value
    if cast is None or moved is not cast or cast.lpar:
        return False
    start, end = _written(file, cast)
    text = file.source_of(call).text[start:end]
    if "\n" in text or "#" in text or call.lpar:
        return False
    if call.func.attr.value == "cuda":
        return True
    where = destination(file, call) if call.func.attr.value == "to" else None
    if where is None or file.value(where).is_tensor:
        return False
    others = [arg for arg in call.args if arg.value is not where and arg.value is not copy.non_blocking]
    return all(arg.keyword is not None and arg.keyword.value == "copy" for arg in others)


def _written(file: FileFacts, cast: cst.Call) -> tuple[int, int]:
    """The characters from the dot of a cast to its closing parenthesis."""
    assert isinstance(cast.func, cst.Attribute)
    source = file.source_of(cast)
    return source.text.rindex(".", 0, source.span(cast.func.attr)[0]), source.span(cast)[1]


def _read(file: FileFacts, cast: cst.Call) -> _Cast | None:
    """What a cast does, where it is written in a known way."""
    assert isinstance(cast.func, cst.Attribute)
    method = cast.func.attr.value
    if method in _TO_FLOATS | _TO_INTEGERS | _TO_SMALLER:
        return _Cast(method, f"{method}()") if not cast.args else None
    given = argument(cast, "dtype", 0)
    if given is None or len(cast.args) != 1:
        return None
    name = file.qualified(given) or ""
    if method == "type" and isinstance(given, cst.SimpleString):
        name = str(given.evaluated_value)
    if method == "type" and name in _BY_TYPE:
        return _Cast(_BY_TYPE[name].removesuffix("()"), _BY_TYPE[name])
    if name in _BY_DTYPE:
        start, end = _written(file, cast)
        return _Cast(_BY_DTYPE[name], file.source_of(cast).text[start + 1 : end])
    return None
