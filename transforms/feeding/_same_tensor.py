"""Whether a tensor may stand for a copy of it that is no longer made."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.layout import SHOW_LAYOUT
from perfmod.transforms.facts.value import Kind

_WATCHES = frozenset(
    {
        "retain_grad",
        "requires_grad_",
        "requires_grad",
        "register_hook",
        "grad",
        "is_leaf",
        "register_post_accumulate_grad_hook",
    }
)
"""What is asked of one tensor as the autograd engine knows it; a copy is another one."""


def why_not_itself(file: FileFacts, subject: cst.BaseExpression, uses: list[cst.BaseExpression]) -> str:
    """Why a tensor cannot stand for the copy of it that the cast made, in one line; empty where it can.

    A tensor that a step has just computed is one that nobody else holds; a parameter, a buffer or a slice changes with
    what it belongs to.
    """
    itself = "where the type is the same already, the cast returns the tensor itself, which"
    if not isinstance(subject, cst.Name):
        return f"{itself} belongs to something else (line {file.line(subject)}) and may be used elsewhere"
    definitions = [*file.flow.definitions(subject), *_copied(file, uses)]
    written = _written(file, definitions)
    if written is not None:
        return f"{itself} line {file.line(written)} modifies"
    held = next((made for made in file.flow.definitions(subject) if not _is_computed(file, made)), None)
    if held is not None:
        return (
            f"{itself} is not known to be computed in this step (line {file.line(held.node)}) and may be used elsewhere"
        )
    asks = [use for made in definitions for use in file.flow.uses(made)]
    watched = next((use for use in asks if _attribute(file, use) in _WATCHES), None)
    if watched is not None:
        return f"{itself} line {file.line(watched)} uses for its gradient"
    viewed = next((use for use in (*uses, *asks) if _is_viewed(file, use)), None)
    made = [definition.value for definition in file.flow.definitions(subject)]
    if viewed is not None and not all(value is not None and file.aliasing.is_fresh(value) for value in made):
        return f"{itself} may be a slice, and line {file.line(viewed)} asks for a view, which only works on a copy"
    return ""


def _is_computed(file: FileFacts, made: Definition, seen: frozenset[Definition] = frozenset()) -> bool:
    """Whether a variable holds what an expression of torch, or a module, has just computed."""
    value = made.value
    if made.binding is not Binding.ASSIGNED or made.path or value is None or made in seen:
        return False
    if isinstance(value, cst.Name):
        sources = file.flow.definitions(value)
        return bool(sources) and all(_is_computed(file, source, seen | {made}) for source in sources)
    if not isinstance(value, cst.Call) or file.aliasing.is_fresh(value):
        return file.aliasing.is_fresh(value)
    if file.value(value.func).kind is Kind.MODULE or file.aliasing.is_computed(value):
        return True
    # What is copied out of a batch is the step's own.
    if not isinstance(value.func, cst.Attribute) or value.func.attr.value not in ("to", "cuda"):
        return False
    moved = file.tracing.ends(value.func.value)
    return bool(moved) and all(end.path and file.loaders.of(end.node) is not None for end in moved)


def _attribute(file: FileFacts, use: cst.CSTNode) -> str:
    """What is asked of a variable: `view` of `x.view(-1)`."""
    parent = file.tree.parent(use)
    return parent.attr.value if isinstance(parent, cst.Attribute) and parent.value is use else ""


def _is_viewed(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a view is asked of a variable, or of the copy behind a cast, `x.type(...).cuda().view(-1)`."""
    parent = file.tree.parent(use)
    move = file.tree.parent(parent) if isinstance(parent, cst.Attribute) else None
    behind = _attribute(file, move) if isinstance(move, cst.Call) and move.func is parent else ""
    return _attribute(file, use) in SHOW_LAYOUT or behind in SHOW_LAYOUT


def _copied(file: FileFacts, uses: list[cst.BaseExpression]) -> list[Definition]:
    """The variables that are given what the copies behind a cast make."""
    found: list[Definition] = []
    for use in uses:
        assign = next((around for around in file.tree.ancestors(use) if isinstance(around, cst.Assign)), None)
        targets = [target.target for target in assign.targets] if assign is not None else []
        found += [made for target in targets for made in file.flow.defined(target)]
    return found


def _written(file: FileFacts, definitions: list[Definition]) -> cst.CSTNode | None:
    """A place that writes into what variables hold."""
    for definition in definitions:
        if definition.binding is Binding.AUGMENTED:
            return definition.node
        written = file.aliasing.mutations(definition)
        if written:
            return written[0]
    return None
