"""Where a sampler keeps how far it has come: with workers it runs ahead, and indices that it gave out early are lost.

A loop that ends before its loader does leaves indices behind that workers were given already. Others may see the state
meanwhile, and the next epoch goes on behind them.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.kept import is_kept
from perfmod.transforms.facts.pickling import is_generator, is_handle, kept
from perfmod.transforms.feeding._loader_runs import executed


def kept_state(file: FileFacts, cls: ClassFacts) -> cst.CSTNode | None:
    """Where a sampler changes what it holds while it gives out indices, or goes on in an iterator that it holds."""
    methods = (cls.method(name) for name in ("__iter__", "__next__"))
    for node in executed(file, [method.body for method in methods if method is not None]):
        if isinstance(node, cst.Global) or _is_stored(file, node) or _is_moved(file, node):
            return node
        own = file.classes.self_attribute(node)
        if own is not None and any(
            each.value is not None and _goes_on(file, each.value) for each in own[0].assignments(own[1])
        ):
            return node
    return None


def _is_stored(file: FileFacts, node: cst.CSTNode) -> bool:
    if not isinstance(node, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del, cst.For)):
        return False
    target = node.target
    targets = [each.value for each in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
    return any(
        isinstance(each, (cst.Attribute, cst.Subscript)) and is_kept(file, each, through_names=True) for each in targets
    )


def _is_moved(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a call takes something out of what the sampler holds: `self.queue.pop()`, `next(self.stream)`."""
    if not isinstance(node, cst.Call):
        return False
    if file.qualified(node) == "builtins.next" and node.args:
        return is_kept(file, node.args[0].value, through_names=True)
    moves = data_api.MUTATORS | data_api.READS_ON
    return (
        isinstance(node.func, cst.Attribute)
        and node.func.attr.value in moves
        and is_kept(file, node.func.value, through_names=True)
    )


def _goes_on(file: FileFacts, value: cst.BaseExpression) -> bool:
    """Whether a value is an iterator, or a file: whoever goes through it again goes on where the last one ended."""
    return any(
        isinstance(made, cst.GeneratorExp)
        or (
            isinstance(made, cst.Call)
            and (file.qualified(made) in data_api.ITERATORS or is_handle(file, made) or is_generator(file, made))
        )
        for made in (value, *kept(file, value))
    )
