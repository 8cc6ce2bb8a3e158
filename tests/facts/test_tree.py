"""Walking over trees: nodes of the files that are looked at, and any others."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from snippets import facts

from perfmod.transforms.facts.tree import children, find_all, find_any, walk

CODE = """
import torch

def train(model, batches, *rest, lr=1e-3, **options):
    for x, y in batches:
        with torch.no_grad() as guard:
            total = sum(a if a else -a for a in x) + [b := y, lambda z: z[1:2]][0]
    return f"{total:.2f}", guard
"""


def below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in children(node):
        yield from below(child)


def test_every_node_is_walked_with_all_that_stands_below_it() -> None:
    module = facts(CODE).tree.module
    for node in below(module):
        assert list(map(id, walk(node))) == list(map(id, below(node)))


def test_nodes_of_no_tree_are_walked_too() -> None:
    earlier = facts(CODE).tree.module
    module = facts("total = 1\n").tree.module
    assert [name.value for name in find_all(cst.parse_expression("f(a, b)"), cst.Name)] == ["f", "a", "b"]
    assert list(walk(earlier)) == list(below(earlier))
    made = cst.Attribute(next(find_all(module, cst.Integer)), cst.Name("real"))
    assert [type(node) for node in walk(made)] == [cst.Attribute, cst.Integer, cst.Name]


def test_nodes_of_several_types_come_in_order() -> None:
    module = facts(CODE).tree.module
    found = find_any(module, cst.For, cst.BaseComp, cst.Return)
    assert [type(node) for node in found] == [cst.For, cst.GeneratorExp, cst.Return]
