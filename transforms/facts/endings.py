"""Code behind which a step or the training ends: what fails there is no usual step."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts

_EXITS = frozenset({"sys.exit", "builtins.exit", "builtins.quit", "os._exit", "os.abort"})


def ends_step(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether code stands under a condition behind which the step or the training ends: a failure, no usual step."""
    region = file.steps.region(node)
    child: cst.CSTNode = node
    for ancestor in file.tree.ancestors(node):
        if ancestor is region or isinstance(ancestor, cst.FunctionDef):
            return False
        if isinstance(ancestor, (cst.If, cst.Else)) and child is ancestor.body:
            last = child.body[-1] if isinstance(child, cst.IndentedBlock) and child.body else None
            small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else None
            if isinstance(small, (cst.Raise, cst.Return, cst.Break, cst.Continue)):
                return True
            if isinstance(small, cst.Expr) and file.qualified(small.value) in _EXITS:
                return True
        child = ancestor
    return False
