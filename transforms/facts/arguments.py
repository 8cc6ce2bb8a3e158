"""Types of the command line's values: `args.size` is an `int` where `add_argument(..., type=int)` says so."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, is_none

_TYPES = {"builtins.int": "integer", "builtins.float": "floating"}
_FLAGS = frozenset({"store_true", "store_false"})


class Arguments:
    """What the `argparse` parsers in sight declare, by attribute; types are spelled as `DType` values."""

    def __init__(self, tree: Tree, names: Names) -> None:
        self._names = names
        self._declared: dict[str, set[str | None]] = {}
        for call in tree.all(cst.Call):
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument" and call.args:
                self._declared.setdefault(_destination(call), set()).add(self._type(call))
        # An attribute that is set by hand may be anything.
        for target in tree.all(cst.AssignTarget):
            if isinstance(target.target, cst.Attribute):
                self._declared.pop(target.target.attr.value, None)

    def type_of(self, name: str) -> str | None:
        """The type of a number that the command line sets; `None` for anything else."""
        declared = self._declared.get(name, set())
        return next(iter(declared)) if len(declared) == 1 else None

    def _type(self, call: cst.Call) -> str | None:
        action = argument(call, "action")
        if action is not None:
            return "bool" if _text(action) in _FLAGS else None
        kind, default = argument(call, "type"), argument(call, "default")
        if kind is None or argument(call, "nargs") is not None:
            return None
        may_be_none = default is None or is_none(default)
        is_required = argument(call, "required") is not None or not _text(call.args[0].value).startswith("-")
        return _TYPES.get(self._names.qualified(kind) or "") if is_required or not may_be_none else None


def _destination(call: cst.Call) -> str:
    given = argument(call, "dest")
    if given is not None:
        return _text(given)
    flags = [_text(arg.value) for arg in call.args if arg.keyword is None]
    long = [flag for flag in flags if flag.startswith("--")]
    return (long or flags)[0].lstrip("-").replace("-", "_")


def _text(node: cst.BaseExpression) -> str:
    value = node.evaluated_value if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) else ""
    return value if isinstance(value, str) else ""
