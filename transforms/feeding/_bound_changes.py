"""What the training stores in an object whose methods workers run: each worker has a copy of that object."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.pickling import owner
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._loader_runs import executed


def changed_attribute(file: FileFacts, work: WorkerCode, code: Iterable[cst.CSTNode]) -> cst.CSTNode | None:
    """Where some code, or what it runs, changes an attribute that a collate function reads as `self.pad`.

    Datasets are not looked at here: other parts of the training may hold those by many names.
    """
    parts = {base for cls in work.classes for base in cls.lineage()}
    read: dict[str, set[ClassFacts]] = {}
    for function in work.functions:
        cls = owner(file, function)
        if cls is None or cls in parts:
            continue
        for node in walk(function.body):
            own = file.classes.self_attribute(node)
            if own is not None:
                read.setdefault(own[1], set()).update((*cls.lineage(), *cls.descendants()))
    for node in executed(file, code) if read else ():
        if isinstance(node, cst.Attribute) and node.attr.value in read and _is_changed(file, node):
            own = file.classes.self_attribute(node)
            if (own[0] if own is not None else file.value(node.value).cls) in read[node.attr.value]:
                return node
    return None


def _is_changed(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an attribute, or what it holds, is stored into."""
    parent = file.tree.parent(node)
    while isinstance(parent, (cst.Subscript, cst.Attribute, cst.Element, cst.Tuple, cst.List)):
        call = file.tree.parent(parent)
        if isinstance(parent, cst.Attribute) and isinstance(call, cst.Call) and call.func is parent:
            return parent.attr.value in data_api.MUTATORS
        node, parent = parent, call
    if isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del, cst.For)):
        return parent.target is node
    return False
