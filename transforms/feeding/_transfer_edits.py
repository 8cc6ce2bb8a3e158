"""The edits that make a loader pin, and a copy not wait."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.feeding._casts import Order, order, swap
from perfmod.transforms.feeding._copies import Copy
from perfmod.transforms.feeding._settings import places
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Edit

_COPIES_GAPS = "1.2"


def pinned(file: FileFacts, loader: Loader) -> tuple[Edit, ...]:
    """The edits that make a loader pin: where the setting is written, or in its call."""
    written = places(file, loader, "pin_memory")
    if not written:
        return add_keyword(file.source_of(loader.call), loader.call, "pin_memory=True")
    return tuple(_instead(file, place.value) for place in written)


def not_waiting(file: FileFacts, copy: Copy) -> tuple[Edit, ...]:
    """The edits that make a copy not wait; a cast before it that makes another tensor goes behind it."""
    if copy.non_blocking is None:
        edits = add_keyword(file.source_of(copy.call), copy.call, "non_blocking=True", wrap=False)
    else:
        edits = (_instead(file, copy.non_blocking),)
    is_moved = copy.cast is not None and order(file, copy) is Order.BEHIND
    return (*edits, *swap(file, copy)) if is_moved else edits


def torch_that_copies(file: FileFacts, copies: Iterable[Copy]) -> str | None:
    """The version of PyTorch that copies these without waiting; `None` where the oldest does that knows the argument.

    Before 1.2 it raised for a tensor with gaps in its memory, such as `x.transpose(1, 2)`; a part of a batch has none.
    """
    sources = (copy.call.func.value for copy in copies if isinstance(copy.call.func, cst.Attribute))
    return None if all(file.value(source).origin is not None for source in sources) else _COPIES_GAPS


def _instead(file: FileFacts, node: cst.BaseExpression) -> Edit:
    source = file.source_of(node)
    start, end = source.span(node)
    return Edit(start, end, "True", source.path)
