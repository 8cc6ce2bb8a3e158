"""Variables that code only writes: nothing reads them, or only what adds to them does."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition


def unread(file: FileFacts, node: cst.CSTNode) -> str | None:
    """The variable that alone gets the value of an expression, if nothing in the files ever reads it."""
    statement = file.tree.parent(node)
    if not isinstance(statement, cst.Assign) or statement.value is not node or file.flow.is_open(node):
        return None
    targets = [each.target for each in statement.targets]
    found = file.flow.defined(targets[0]) if len(targets) == 1 and isinstance(targets[0], cst.Name) else ()
    # Attributes of a class and names of a module may be read by way of their owner.
    if not found or any(not isinstance(each.scope, cst.FunctionDef | cst.Module) for each in found):
        return None
    is_unread = all(_is_unread(file, each, set()) and not file.flow.is_exported(each) for each in found)
    return found[0].name if is_unread else None


def _is_unread(file: FileFacts, definition: Definition, known: set[Definition]) -> bool:
    """Whether nothing reads what a name is bound to, but for `name += ...` of which the same is true."""
    if definition in known:
        return True
    known.add(definition)
    for use in file.flow.uses(definition):
        adding = file.tree.parent(use)
        if not isinstance(adding, cst.AugAssign) or adding.target is not use:
            return False
        if not all(_is_unread(file, each, known) for each in file.flow.defined(use)):
            return False
    return True
