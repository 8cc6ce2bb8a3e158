"""Variables that code reads by their names: `locals()["total"]`, `"{total}".format(**vars())`, `eval("total")`."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import Scope, find_all
from perfmod.transforms.syncs._host_reads import CannotRewrite

_READERS = frozenset({"builtins.locals", "builtins.vars", "builtins.eval", "builtins.exec", "builtins.globals"})


def require_unread_by_name(file: FileFacts, name: str, scope: Scope) -> None:
    """Raises `CannotRewrite` where code around a variable of `scope` may read it by its name."""
    for call in find_all(scope, cst.Call):
        reader = file.qualified(call)
        if reader not in _READERS or (reader == "builtins.vars" and call.args):
            continue
        if isinstance(scope, cst.Module) or reader != "builtins.globals":
            code = file.code(call.func)
            raise CannotRewrite(f"`{name}` may be read by its name, with `{code}()` on line {file.line(call)}")


def require_unseen_dictionary(file: FileFacts, name: str) -> None:
    """Raises `CannotRewrite` where code of the file may read an attribute with all others of its object."""
    for node in find_all(file.tree.module, cst.Name):
        call = file.tree.parent(node)
        is_vars = isinstance(call, cst.Call) and call.func is node and bool(call.args) and node.value == "vars"
        if is_vars or node.value == "__dict__":
            line = file.line(node)
            raise CannotRewrite(f"`{name}` may be read with the whole object's dictionary on line {line}")
