"""When code runs: in every step, and in the rounds of which loop."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts


def runs_every_step(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether steps come by; in files without any, whether a loop does."""
    return file.steps.runs_every_step(node) and (file.steps.decide(node) or bool(file.tree.loops(node)))


def step_loop(file: FileFacts, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop of which each round is a step, or the innermost loop in files without steps."""
    region = file.steps.region(node)
    if isinstance(region, (cst.For, cst.While)):
        return region
    loops = file.tree.loops(node)
    return loops[0] if loops and not file.steps.decide(node) else None


def is_repeated(file: FileFacts, node: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether rounds of a loop come by `node`: it stands in the body, or in the test of a `while`."""
    parts = [loop.body, *([loop.test] if isinstance(loop, cst.While) else [])]
    return any(file.tree.is_within(node, part) for part in parts)


def is_late(file: FileFacts, node: cst.CSTNode, fed: cst.CSTNode) -> bool:
    """Whether `node` is behind the steps that come by `fed`, or runs only in some of them."""
    if file.steps.is_gated(node):
        return True
    loop = step_loop(file, fed)
    inside = loop is not None and is_repeated(file, node, loop)
    return not (inside or file.steps.in_sight(node))
