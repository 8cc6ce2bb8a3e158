"""Functions that other processes and threads run: where they are started, and what they are given there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.flow import Flow, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, is_false

_STARTS = frozenset({"torch.multiprocessing.Process", "multiprocessing.Process", "threading.Thread"})
"""They call `target(*args, **kwargs)`."""
_SPAWNS = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.start_processes"})
"""They call `fn(number, *args)`."""


class Launches:
    """All starts of functions in sight."""

    def __init__(self, tree: Tree, flow: Flow, names: Names) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names

    def of(self, function: cst.FunctionDef) -> tuple[cst.Call, ...]:
        """The calls that start a function elsewhere, `mp.spawn(function, args=(...))`."""
        return tuple(call for use in self._uses(function) if (call := self._started(use)) is not None)

    def is_only_run(self, function: cst.FunctionDef) -> bool:
        """Whether all that runs the function is in sight: every use of its name is a call of it, or starts it."""
        return not self._flow.is_open(function) and all(
            (isinstance(parent := self._tree.parent(use), cst.Call) and parent.func is use) or self._started(use)
            for use in self._uses(function)
        )

    def given(self, call: cst.Call, function: cst.FunctionDef, param: cst.Param) -> cst.BaseExpression | None:
        """What a start passes for a parameter; `None` where that is not seen."""
        args = argument(call, "args", 3 if self._starts(call, _STARTS) else 1)
        if not isinstance(args, cst.Tuple) or param in function.params.kwonly_params:
            return None
        values: list[cst.BaseExpression] = []
        for element in args.elements:
            if isinstance(element, cst.StarredElement):
                break
            values.append(element.value)
        position = list(parameters(function)).index(param) - (0 if self._starts(call, _STARTS) else 1)
        return values[position] if 0 <= position < len(values) else None

    def _uses(self, function: cst.FunctionDef) -> Iterator[cst.CSTNode]:
        for definition in self._flow.bound(self._tree.scope(function), function.name.value):
            yield from self._flow.uses(definition)

    def _started(self, use: cst.CSTNode) -> cst.Call | None:
        """The call that is given a function to start it."""
        arg = self._tree.parent(use)
        call = self._tree.parent(arg) if isinstance(arg, cst.Arg) else None
        if not isinstance(call, cst.Call) or self._may_be_daemon(call):
            return None
        if self._starts(call, _STARTS):
            return call if argument(call, "target", 1) is use else None
        return call if self._starts(call, _SPAWNS) and argument(call, "fn", 0) is use else None

    def _may_be_daemon(self, call: cst.Call) -> bool:
        """Whether a process may be one that must not start others, as workers of loaders are; those are left alone."""
        asked = argument(call, "daemon")
        return self._sets_daemons or (asked is not None and not is_false(asked))

    @cached_property
    def _sets_daemons(self) -> bool:
        targets = (target.target for target in self._tree.all(cst.AssignTarget))
        return any(isinstance(target, cst.Attribute) and target.attr.value == "daemon" for target in targets)

    def _starts(self, call: cst.Call, names: frozenset[str]) -> bool:
        return self._names.qualified(call.func) in names
