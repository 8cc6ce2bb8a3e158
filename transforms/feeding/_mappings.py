"""Batches that are mappings and are read like objects, `batch.labels`: the BatchEncoding of transformers.

Until 1.10, PyTorch pins any mapping as a plain dictionary, which has no attributes. Later versions make another mapping
of the same class out of its entries. A BatchEncoding reads its attributes from its entries, so that nobody sees the
difference, except who asks for what the tokenizer remembers beside them, such as `batch.word_ids()`. Tuples with names,
and objects that are no mappings, stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.feeding._collates import maker_at, returned

_KEEPS_CLASS = "1.11"
"""The version of PyTorch from which on a mapping that is pinned keeps its class."""
_OF_ENTRIES = frozenset({"items", "keys", "values", "get", "pop", "update", "to"})
"""Methods of a BatchEncoding that know its entries alone."""
_REMEMBERED = frozenset({"encodings", "n_sequences", "is_fast"})
_DISPLAYS = (cst.Dict, cst.DictComp, cst.List, cst.ListComp, cst.Tuple)


def why_read_otherwise(file: FileFacts, loader: Loader) -> str:
    """Why batches that are pinned may not be read as they are now, in one line; empty where they may."""
    if _gives_encodings(file, loader):
        for read in _reads(file, loader):
            name = read.attr.value
            if name in _REMEMBERED or (_is_called(file, read) and name not in _OF_ENTRIES):
                return f"a pinned BatchEncoding loses what `{file.code(read)}` needs"
    elif file.names.imports("transformers") and _may_give_mappings(file, loader):
        for read in _reads(file, loader):
            if not _is_called(file, read):
                return (
                    "many versions of PyTorch turn a pinned mapping into a plain dictionary, which has no "
                    f"`{file.code(read)}`"
                )
    return ""


def needed_torch(file: FileFacts, loader: Loader) -> str | None:
    """The version of PyTorch that pins the batches as what they are read as; `None` where every version does."""
    return _KEEPS_CLASS if _gives_encodings(file, loader) and any(_reads(file, loader)) else None


def _gives_encodings(file: FileFacts, loader: Loader) -> bool:
    made = _made(file, loader)
    return bool(made) and all(_is_encoding(file, node) for node in made)


def _may_give_mappings(file: FileFacts, loader: Loader) -> bool:
    """Whether a collate function may give a mapping that has attributes."""
    return bool(loader.values("collate_fn")) and not all(_has_known_kind(file, node) for node in _made(file, loader))


def _made(file: FileFacts, loader: Loader) -> list[cst.CSTNode]:
    """What the collate functions make the batches of; where one is out of sight, itself."""
    makers = [end.node for value in loader.values("collate_fn") for end in file.tracing.ends(value)]
    made: list[cst.CSTNode] = []
    for node in makers:
        maker = maker_at(file, node)
        given = [end for value in returned(maker) for end in file.tracing.ends(value)] if maker is not None else []
        made += [node if end.path else end.node for end in given] or [node]
    return made


def _is_encoding(file: FileFacts, node: cst.CSTNode) -> bool:
    name = file.qualified(node) or "" if isinstance(node, cst.Call) else ""
    return name.startswith("transformers.") and name.endswith(".BatchEncoding")


def _has_known_kind(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether it is seen that what is made at a place is a plain container or a tuple with names."""
    return isinstance(node, _DISPLAYS) or (isinstance(node, cst.Call) and file.tracing.fields(node.func) is not None)


def _reads(file: FileFacts, loader: Loader) -> Iterator[cst.Attribute]:
    """Every place that asks a whole batch for something by name."""
    for node in file.tree.all(cst.Attribute):
        if any(end.path == (None,) and file.loaders.of(end.node) is loader for end in file.tracing.ends(node.value)):
            yield node


def _is_called(file: FileFacts, node: cst.Attribute) -> bool:
    parent = file.tree.parent(node)
    return isinstance(parent, cst.Call) and parent.func is node
