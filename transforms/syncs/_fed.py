"""The sums, lists and meters that steps feed with scalars of the device, and which of them share variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import libcst as cst

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.rounds import comes_often, round_loop
from perfmod.transforms.syncs import _kept_elements, _kept_lists, _meters
from perfmod.transforms.syncs._device_counts import counted_on_device
from perfmod.transforms.syncs._host_reads import HostRead
from perfmod.transforms.syncs._moved_sums import Moved, move
from perfmod.transforms.syncs._sums import collect, target_of
from perfmod.transforms.syncs._terms import Returned, variable_of

_Place = tuple[cst.CSTNode, str]
"""A variable, attribute or entry: the scope or class that it belongs to, and its code."""


class Fed:
    """What is fed in a file, with the statements that do it."""

    def __init__(self, file: FileFacts) -> None:
        self._file = file
        self._targets: dict[_Place, cst.BaseExpression] = {}
        self._sums: dict[_Place, dict[cst.CSTNode, None]] = {}
        self._lists: dict[_Place, dict[cst.BaseExpression, None]] = {}
        self._elements: dict[_Place, dict[cst.BaseExpression, cst.Subscript]] = {}
        self._meters: dict[ClassFacts, cst.CSTNode] = {}

    def add(self, read: HostRead) -> bool:
        """Note what a read goes into, directly or through variables; whether there is anything."""
        found = False
        for place in self._places(read.call):
            found |= self._add(place, is_read=place is read.call)
        return found

    def takes(self, node: cst.CSTNode) -> bool:
        """Whether what stands at `node` is added to something or collected, directly or through variables."""
        file = self._file
        places = [node, *(use for definition in self._defined(node) for use in file.flow.uses(definition))]
        sums = (target_of(file, file.tree.statement(place)) for place in places if file.is_own(place))
        return any(target is not None for target in sums) or _kept_lists.appended_to(file, node) is not None

    def moves(self) -> Iterator[tuple[cst.CSTNode, Callable[[], Moved]]]:
        """For all that is fed, where it is fed first, and what moves it; that may raise `CannotRewrite`."""
        for place, statements in self._sums.items():
            yield next(iter(statements)), partial(self._sum, self._targets[place], list(statements))
        for place, values in self._lists.items():
            yield next(iter(values)), partial(self._list, self._targets[place], list(values))
        for elements in self._elements.values():
            value, target = next(iter(elements.items()))
            yield value, partial(_kept_elements.keep_elements, self._file, target, list(elements))
        for cls, node in self._meters.items():
            yield node, partial(_meters.keep_on_device, self._file, cls)

    def _places(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """A read, and the uses of the variables that hold it or what is computed from it."""
        seen: set[Definition] = set()
        returns: set[cst.CSTNode] = set()
        waiting: list[cst.CSTNode] = [node]
        while waiting:
            place = waiting.pop()
            yield place
            for definition in self._defined(place):
                if definition not in seen and variable_of(self._file, definition) is not None:
                    seen.add(definition)
                    waiting += [use for use in self._file.flow.uses(definition) if self._file.is_own(use)]
            statement = self._file.tree.statement(place)
            if isinstance(statement, cst.Return) and statement not in returns:
                returns.add(statement)
                waiting += self._calls(statement)

    def _calls(self, statement: cst.Return) -> list[cst.Call]:
        """The calls of the function around a `return` that stand in this file."""
        function = self._file.tree.function(statement)
        callers = self._file.values.calls.callers(function) if function is not None else ()
        return [call for call in callers if self._file.is_own(call)]

    def _defined(self, place: cst.CSTNode) -> list[Definition]:
        """The variables that are assigned what stands at a place."""
        statement = self._file.tree.statement(place)
        targets: list[cst.BaseExpression] = []
        if isinstance(statement, cst.Assign):
            targets = [item.target for item in statement.targets]
        elif isinstance(statement, cst.AnnAssign):
            targets = [statement.target]
        names = [name for target in targets for name in _names(target)]
        found = [definition for name in names for definition in self._file.flow.defined(name)]
        return [d for d in found if self._file.tree.is_within(place, d.part or d.value or d.node)]

    def _add(self, place: cst.CSTNode, *, is_read: bool) -> bool:
        file = self._file
        statement = file.tree.statement(place)
        target = target_of(file, statement)
        if target is not None and isinstance(statement, (cst.AugAssign, cst.Assign)):
            # A number that weights what is added on the device already is no part of the pattern.
            if not is_read and (not comes_often(file, statement) or file.value(statement.value).is_tensor):
                return False
            key = self._place(target)
            self._targets[key] = target
            self._sums.setdefault(key, {})[statement] = None
            return True
        appended = _kept_lists.appended_to(file, place)
        if appended is not None and comes_often(file, place):
            key = self._place(appended[0])
            self._targets[key] = appended[0]
            self._lists.setdefault(key, {})[appended[1]] = None
            return True
        element = _kept_elements.stored_at(file, place) if is_read else None
        if element is not None and isinstance(place, cst.BaseExpression) and comes_often(file, place):
            self._elements.setdefault(self._place(element.value), {})[place] = element
            return True
        metered = _meters.metered_at(file, place)
        if metered is not None:
            self._meters.setdefault(metered, place)
        return metered is not None

    def _place(self, target: cst.BaseExpression) -> _Place:
        own = self._file.classes.self_attribute(target)
        scope = own[0].node if own is not None else self._file.tree.scope(target)
        return scope, self._file.code(target)

    def _sum(self, target: cst.BaseExpression, statements: list[cst.CSTNode]) -> Moved:
        counted = counted_on_device(self._file, target, statements)
        return counted or move(self._file, collect(self._file, target, statements))

    def _list(self, target: cst.BaseExpression, values: list[cst.BaseExpression]) -> Moved:
        sites = [_kept_lists.appended(self._file, value, round_loop(self._file, value)) for value in values]
        return _kept_lists.keep_on_device(self._file, target, sites)


def groups(moved: Mapping[cst.CSTNode, Moved]) -> list[list[cst.CSTNode]]:
    """The keys, in order, of what has to be moved together, because variables or dictionaries are shared."""
    found: list[tuple[list[cst.CSTNode], set[Definition | Returned | str]]] = []
    for node, member in moved.items():
        own: set[Definition | Returned | str] = {
            variable.definition for term in member.terms for _, variable in term.variables()
        }
        own |= {figure for term in member.terms for _, figure in term.returned()}
        own |= {member.container} if member.container is not None else set()
        together: list[cst.CSTNode] = []
        for group in [group for group in found if not own.isdisjoint(group[1])]:
            found.remove(group)
            together += group[0]
            own |= group[1]
        found.append(([*together, node], own))
    return [members for members, _ in found]


def _names(target: cst.BaseExpression) -> Iterator[cst.Name]:
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names(element.value)
