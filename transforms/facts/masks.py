"""Boolean masks: what is one, whether two are the same one, and whether one fits what it selects from."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import DType, Kind

# Attributes that PyTorch Geometric and DGL document as boolean.
_BOOLEAN_BY_CONVENTION = frozenset({"train_mask", "val_mask", "test_mask"})
# Functions that give something else whenever they are called.
_DRAWS = ("rand", "bernoulli", "multinomial", "normal", "poisson", "dropout", "empty")


def may_be_mask(file: FileFacts, index: cst.BaseExpression, of_tensor: bool = True) -> bool:
    """Whether an index is a boolean mask as far as the code shows: by its type, or by the name of an unknown one.

    Of a tensor, any unknown index may be one that is not called an index.
    """
    value = file.value(index)
    if value.dtype is not None and value.kind is Kind.TENSOR:
        return value.dtype is DType.BOOL
    if not isinstance(index, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)):
        return False
    if value.kind not in (Kind.TENSOR, Kind.UNKNOWN, Kind.OBJECT) or _last_name(index) in file.once(_names_of_indices):
        return False
    return is_mask_name(index) or (of_tensor and value.is_tensor and not _is_index_name(index))


def is_mask(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a boolean tensor: by its type, or as what graph libraries document as a mask.

    That is `data.train_mask` and `g.ndata["train_mask"]`, also by way of variables, tuples and parameters, where no
    file in sight keeps anything under that name that is neither shown to be a mask nor called one.
    """
    value = file.value(node)
    if value.dtype is not None:
        return value.is_tensor and value.dtype is DType.BOOL
    if isinstance(node, cst.Attribute):
        kept = {node.attr.value}
    else:
        kept = {str(end.path[-1]) if end.path else "" for end in file.tracing.ends(node)}
    return bool(kept) and kept <= _BOOLEAN_BY_CONVENTION - file.once(_names_of_others)


def rank_of_mask(file: FileFacts, node: cst.BaseExpression) -> int | None:
    """How many dimensions a mask has; those of graph libraries have one, for nodes."""
    rank = file.value(node).rank
    return 1 if rank is None and _last_name(node) in _BOOLEAN_BY_CONVENTION else rank


def _names_of_indices(file: FileFacts) -> frozenset[str]:
    """Those of the conventional names under which a file stores what is not boolean: `data.train_mask = perm[:100]`."""
    found = set()
    for name, value in _stored_by_convention(file):
        dtype = file.value(value).dtype
        is_range = file.qualified(value) == "torch.arange"
        if (dtype is not None and dtype is not DType.BOOL) or is_range or _is_index_name(value):
            found.add(name)
    return frozenset(found)


def _names_of_others(file: FileFacts) -> frozenset[str]:
    """Those under which a file stores what may not be boolean, as `data.train_mask = split["train"]` of an index."""
    found = set()
    for name, value in _stored_by_convention(file):
        known = file.value(value)
        is_called_mask = any("mask" in code.lower() for code in _words(value))
        if known.dtype is not DType.BOOL and known.kind is not Kind.NONE and not is_called_mask:
            found.add(name)
    return file.once(_names_of_indices) | found


def _stored_by_convention(file: FileFacts) -> Iterator[tuple[str, cst.BaseExpression]]:
    """What all files store under the conventional names: in attributes, under keys, as arguments of `Data(...)`."""
    for statement in file.tree.all(cst.Assign):
        for item in statement.targets:
            whole, value = item.target, statement.value
            targets = [part.value for part in whole.elements] if isinstance(whole, cst.Tuple) else [whole]
            parts = [part.value for part in value.elements] if isinstance(value, cst.Tuple) else [value]
            # What cannot be taken apart is taken for each of the targets.
            parts = parts if len(parts) == len(targets) else [value] * len(targets)
            for target, part in zip(targets, parts, strict=True):
                name = _last_name(target)
                if name in _BOOLEAN_BY_CONVENTION and isinstance(target, (cst.Attribute, cst.Subscript)):
                    yield name, part
    for arg in file.tree.all(cst.Arg):
        if arg.keyword is not None and arg.keyword.value in _BOOLEAN_BY_CONVENTION:
            yield arg.keyword.value, arg.value


def _words(node: cst.BaseExpression) -> Iterator[str]:
    """The names and the texts in an expression."""
    for part in walk(node):
        if isinstance(part, cst.Name):
            yield part.value
        elif isinstance(part, cst.SimpleString):
            yield str(part.evaluated_value)


def is_mask_name(node: cst.BaseExpression) -> bool:
    """Whether a mask is called one, as `pad_mask`, `data.train_mask`, `g.ndata["train_mask"]`, and not its index."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return is_mask_name(node.func.value)
    name = _last_name(node)
    return "mask" in name.lower() and not any(word in name.lower() for word in ("index", "idx", "indices"))


def _last_name(node: cst.BaseExpression) -> str:
    """`train_mask` of a variable, of `data.train_mask` and of `g.ndata["train_mask"]`."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return dotted(node).rpartition(".")[2] or (node.attr.value if isinstance(node, cst.Attribute) else "")
    index = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    key = index.value if isinstance(index, cst.Index) else None
    return str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""


def _is_index_name(node: cst.BaseExpression) -> bool:
    words = dotted(node).lower()
    hints = ("idx", "ind", "perm", "order", "ids", "pos")
    return any(word in words for word in hints) or len(words.rpartition(".")[2]) == 1


def selects_all_of(file: FileFacts, mask: cst.BaseExpression, base: cst.BaseExpression) -> bool:
    """Whether the mask has provably the shape of what it indexes.

    A mask that indexes a tensor matches its leading dimensions, so an equal number of dimensions is enough.
    """
    if file.shapes.same(mask, base):
        return True
    rank = file.value(mask).rank
    return rank is not None and rank == file.value(base).rank


def same_mask(file: FileFacts, left: cst.BaseExpression, right: cst.BaseExpression) -> bool:
    """Whether two expressions are the same mask: the same code over the same definitions, not written in between."""
    if file.code(left) != file.code(right):
        return False
    first, last = sorted((left, right), key=lambda mask: file.source.span(mask)[0])
    pairs = zip(names(file, left), names(file, right), strict=True)
    return all(file.flow.definitions(a) == file.flow.definitions(b) for a, b in pairs) and is_unchanged(
        file, first, last
    )


def is_unchanged(
    file: FileFacts, node: cst.BaseExpression, later: cst.CSTNode, *, besides: Collection[cst.CSTNode] = ()
) -> bool:
    """Whether `node`, written once more at `later`, which stands behind it, would mean the same there.

    Nothing between the two may bind one of its variables or write into it, but the statements `besides`, which go;
    `x = x[x > 0]` binds its variable behind its value. Both run in the same round of all loops that hold both;
    nothing in a loop that holds `later` alone may do so either.
    """
    start, end = file.source.span(node)[1], file.source.span(later)[0]
    statement = file.tree.statement(node)
    is_left = not file.tree.is_within(later, statement)
    inner = [loop for loop in file.tree.loops(later) if loop not in file.tree.loops(node)]
    for name in names(file, node):
        for definition in file.flow.definitions(name):
            bound = (other.node for other in file.flow.bound(definition.scope, name.value))
            for place in (*bound, *file.aliasing.mutations(definition)):
                if not file.is_own(place) or file.tree.statement(place) in besides:
                    continue
                at = file.source.span(place)[0]
                is_bound_here = at < start and is_left and file.tree.statement(place) is statement
                if start <= at < end or is_bound_here or any(file.tree.is_within(place, loop) for loop in inner):
                    return False
    return True


def is_repeatable(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether evaluating an expression twice gives the same twice: no draws, no calls of unknown functions."""
    for call in find_all(node, cst.Call):
        name = file.qualified(call)
        short = name or ""
        if name is None and isinstance(call.func, cst.Attribute) and file.value(call.func.value).is_tensor:
            short = f"torch.{call.func.attr.value}"
        words = short.rpartition(".")[2]
        if not short.startswith("torch.") or words.startswith(_DRAWS) or words.endswith("_"):
            return False
    return not any(True for _ in find_all(node, cst.NamedExpr))


def names(file: FileFacts, node: cst.CSTNode) -> list[cst.Name]:
    """The variables that an expression reads, in order."""
    return [name for name in find_all(node, cst.Name) if file.flow.is_read(name)]
