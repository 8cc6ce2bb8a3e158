"""What the training does to the things that a loader reads: its dataset, its samplers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import walk

READ = ("dataset", "sampler", "batch_sampler")
"""The parameters of a loader that it reads from while it runs."""


def first_change(
    file: FileFacts, loader: Loader, nodes: Iterable[cst.CSTNode], parameters: Collection[str]
) -> cst.CSTNode | None:
    """The first of some nodes that may change what a loader is given for these parameters."""
    read = {end.node for name in parameters for value in loader.values(name) for end in file.tracing.ends(value)}

    def is_read(node: cst.BaseExpression) -> bool:
        return any((end.node in read and not end.path) or _is_asked(loader, end) for end in file.tracing.ends(node))

    def _is_asked(loader: Loader, end: End) -> bool:
        """Whether a value is `loader.dataset` or `loader.sampler`."""
        return end.node is loader.call and end.path in {(name,) for name in parameters}

    for node in nodes:
        base: cst.BaseExpression | None = None
        if isinstance(node, (cst.AssignTarget, cst.AugAssign)):
            base = node.target
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _may_change(file, node):
            base = node.func
        elif isinstance(node, cst.Call) and file.qualified(node) == "builtins.setattr" and node.args:
            base = cst.Attribute(node.args[0].value, cst.Name("any"))
        while isinstance(base, (cst.Attribute, cst.Subscript)):
            base = base.value
            if is_read(base):
                return node
    return None


def _may_change(file: FileFacts, call: cst.Call) -> bool:
    """Whether a method may change its object: not where it is one in sight that stores nothing."""
    method = file.values.calls.resolve(call)
    return method is None or any(
        isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Call)) for node in walk(method.body)
    )
