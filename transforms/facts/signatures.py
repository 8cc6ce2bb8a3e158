"""Calls that raise because what they call takes other arguments: code around them never runs, or to no end."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.calls import has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.tree import children, find_any
from perfmod.transforms.source import is_notebook

_PLAIN_BASES = frozenset({"abc.ABC", "builtins.object", "torch.utils.data.Dataset"})
"""Bases out of sight, beside torch's modules, whose classes are called with what their `__init__` takes."""
_SUPPRESSING = re.compile(r"suppress|raises", re.IGNORECASE)
_TRAINS = re.compile(r"fit|train", re.IGNORECASE)
_LATER = (cst.Lambda, cst.BaseComp, cst.IfExp, cst.BooleanOperation)
_LEAVING = (cst.Return, cst.Break, cst.Continue, cst.Raise, cst.Yield)
_EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})
_IDLE = (cst.FunctionDef, cst.ClassDef)


@frozen
class _Misfit:
    """A call that raises, and what is wrong with its arguments."""

    call: cst.Call
    why: str


def why_it_raises(file: FileFacts, node: cst.CSTNode) -> str | None:
    """Why nothing comes by a node, or its program raises before it trains: a call does not fit what it calls."""
    misfits = file.once(_misfits)
    found = _Search(file, misfits).around(node) if misfits else None
    if found is None:
        return None
    return f"line {file.line(found.call)} calls `{file.code(found.call.func)}` {found.why}, which raises"


@define
class _Search:
    """A search for the call that raises.

    Attributes:
        file: the facts.
        misfits: all calls that do.
        asked: the functions whose callers are looked at already.
    """

    file: FileFacts
    misfits: Mapping[cst.Call, _Misfit]
    asked: set[cst.FunctionDef] = field(factory=set)

    def around(self, node: cst.CSTNode) -> _Misfit | None:
        """What raises in front of a node, behind it before anything trains, or wherever its function is called."""
        return self._before(node) or self._behind(node) or self._by_callers(node)

    def _before(self, node: cst.CSTNode) -> _Misfit | None:
        child = node
        for around in self.file.tree.ancestors(node):
            if isinstance(around, (cst.IndentedBlock, cst.Module)):
                lines = around.body[: _index(around.body, child)]
                found = next(filter(None, map(self._raising, lines)), None)
                if found is not None:
                    return found
            child = around
        return None

    def _behind(self, node: cst.CSTNode) -> _Misfit | None:
        child = node
        behind: list[cst.BaseStatement | cst.BaseSmallStatement] = []
        for around in self.file.tree.ancestors(node):
            if isinstance(around, (cst.For, cst.While, cst.Try, cst.TryStar)):
                return None
            if isinstance(around, (cst.IndentedBlock, cst.Module)):
                behind += around.body[_index(around.body, child) + (1 if behind else 0) :]
            if isinstance(around, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                break
            child = around
        return self._first(behind, is_quiet=True)

    def _by_callers(self, node: cst.CSTNode) -> _Misfit | None:
        """What raises in each place that calls the function around a node, which nobody hands on."""
        function = self.file.tree.function(node)
        if function is None or function in self.asked or function.decorators or self.file.flow.is_open(function):
            return None
        scope = self.file.tree.scope(function)
        uses = [use for each in self.file.flow.defined(function) for use in self.file.flow.uses(each)]
        if not isinstance(scope, cst.Module) or not uses:
            return None
        self.asked.add(function)
        found: list[_Misfit | None] = []
        for use in uses:
            call = self.file.tree.parent(use)
            if not isinstance(call, cst.Call) or call.func is not use:
                return None
            found.append(self.misfits.get(call) or self._before(call) or self._by_callers(call))
        return found[0] if None not in found else None

    def _first(self, lines: Iterable[cst.CSTNode], *, is_quiet: bool) -> _Misfit | None:
        """What raises whenever some lines are run, if `is_quiet` before anything may train."""
        for line in lines:
            found = self._raising(line, is_quiet=is_quiet)
            if found is not None:
                return found
            if _may_leave(line) or (is_quiet and self._may_train(line)):
                return None
        return None

    def _raising(self, line: cst.CSTNode, *, is_quiet: bool = False) -> _Misfit | None:
        """What raises whenever a statement is run; a loop is taken to have rounds."""
        if isinstance(line, (cst.For, cst.With)):
            heads = [line.iter] if isinstance(line, cst.For) else [item.item for item in line.items]
            if any(_SUPPRESSING.search(dotted(call.func)) for head in heads for call in _made(head)):
                return None
            found = next(filter(None, (self._called(call, is_quiet) for head in heads for call in _made(head))), None)
            return found or self._first(line.body.body, is_quiet=is_quiet)
        if not isinstance(line, (cst.SimpleStatementLine, cst.BaseSmallStatement)):
            return None
        return next(filter(None, (self._called(call, is_quiet) for call in _made(line))), None)

    def _called(self, call: cst.Call, is_quiet: bool) -> _Misfit | None:
        """What raises in a call, which may be the call itself or stand in the function that it runs."""
        if call in self.misfits:
            return self.misfits[call]
        function = _target(self.file, call)
        if not isinstance(function, cst.FunctionDef) or function.asynchronous is not None:
            return None
        known = self.file.once(_known_bodies)
        key = function, is_quiet
        if key not in known:
            known[key] = None  # what calls itself finds nothing of its own
            if not self.file.tree.is_generator(function):
                known[key] = self._first(function.body.body, is_quiet=is_quiet)
        return known[key]

    def _may_train(self, line: cst.CSTNode) -> bool:
        """Whether a statement may do what a program is run for: it loops, trains, or calls what is not known."""
        if isinstance(line, _IDLE):
            return False
        if any(find_any(line, cst.For, cst.While)) or self.file.steps.trains(line):
            return True
        for call in find_any(line, cst.Call):
            assert isinstance(call, cst.Call)
            known = (self.file.names.qualified(call.func) or "").partition(".")[0]
            is_alone = isinstance(self.file.tree.parent(call), cst.Expr)
            if _TRAINS.search(dotted(call.func)) or (
                is_alone and known != "torch" and known not in sys.stdlib_module_names
            ):
                return True
        return False


def _may_leave(line: cst.CSTNode) -> bool:
    """Whether a statement may end the function, the round of a loop or the program."""
    if isinstance(line, _IDLE):
        return False
    return any(
        not isinstance(node, cst.Call) or dotted(node.func) in _EXITS for node in find_any(line, cst.Call, *_LEAVING)
    )


def _index(lines: Sequence[cst.CSTNode], child: cst.CSTNode) -> int:
    return next((index for index, line in enumerate(lines) if line is child), 0)


def _made(node: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls that are made whenever an expression or a simple statement is run, inner ones first."""
    if isinstance(node, _LATER):
        return
    for part in children(node):
        yield from _made(part)
    if isinstance(node, cst.Call):
        yield node


def _known_bodies(_: FileFacts) -> dict[tuple[cst.FunctionDef, bool], _Misfit | None]:
    """What raises in functions whenever they are run, as far as it was looked for."""
    return {}


def _misfits(file: FileFacts) -> Mapping[cst.Call, _Misfit]:
    """All calls of the files that raise because of their arguments; cells of notebooks run in any order."""
    found = {}
    for call in file.tree.all(cst.Call):
        why = _why_misfit(file, call) if not is_notebook(file.source_of(call).path) else None
        if why is not None:
            found[call] = _Misfit(call, why)
    return found


def _why_misfit(file: FileFacts, call: cst.Call) -> str | None:
    """What a function or class misses, or does not take, among the arguments of a call."""
    target = None if has_star(call) else _target(file, call)
    function = _constructor(file, target) if isinstance(target, cst.ClassDef) else target
    if function is None:
        return None
    params = function.params
    by_place = [*params.posonly_params, *params.params][1 if isinstance(target, cst.ClassDef) else 0 :]
    given = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    count = len(call.args) - len(given)
    if count > len(by_place) and not isinstance(params.star_arg, cst.Param):
        return "with more arguments than it takes"
    filled = {param.name.value for param in by_place[:count]}
    named = {param.name.value for param in (*params.params, *params.kwonly_params)}
    for name in given:
        if name not in named and params.star_kwarg is None:
            return f"with an argument `{name}` that it does not take"
        if name in filled & named:
            return f"with two values for `{name}`"
    for param in (*by_place[count:], *params.kwonly_params):
        if param.default is None and param.name.value not in given:
            return f"without its required argument `{param.name.value}`"
    return None


def _target(file: FileFacts, call: cst.Call) -> cst.FunctionDef | cst.ClassDef | None:
    """The one function or class of a module that a call names, if nothing stands between the two."""
    if not file.flow.is_variable(call.func) or file.flow.has_star_import(call):
        return None
    found = file.flow.definitions(call.func)
    if len(found) != 1 or found[0].binding is not Binding.DEFINED or isinstance(found[0].scope, cst.ClassDef):
        return None
    node = found[0].node
    plain = isinstance(node, (cst.FunctionDef, cst.ClassDef)) and not node.decorators
    return node if plain and isinstance(node, (cst.FunctionDef, cst.ClassDef)) else None


def _constructor(file: FileFacts, node: cst.ClassDef) -> cst.FunctionDef | None:
    """The `__init__` that takes the arguments of a class, where it and all its bases are made plainly."""
    facts = file.classes.of(node)
    if facts is None or file.classes.replaced("__init__") is not None:
        return None
    for cls in facts.lineage():
        is_known = len(cls.bases) + len(cls.parents) == len(cls.node.bases) and len(cls.node.bases) < 2
        is_plain = all(base in _PLAIN_BASES or base.startswith("torch.nn.") for base in cls.bases)
        if not is_known or not is_plain or cls.node.keywords or cls.node.decorators or "__new__" in cls.methods:
            return None
    owner = next((cls for cls in facts.lineage() if file.flow.bound(cls.node, "__init__")), None)
    init = owner.methods.get("__init__") if owner is not None else None
    if owner is None or init is None or init.decorators or len(file.flow.bound(owner.node, "__init__")) != 1:
        return None
    return init
