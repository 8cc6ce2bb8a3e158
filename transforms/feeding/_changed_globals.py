"""Objects, classes and functions of modules that the training changes, and that workers would make anew without it.

A worker that is started by spawn or forkserver imports the modules again. It sees what their top levels do, and not
what a function such as `main` has done to them since: `cfg.merge_from_file(path)`, `Photos.size = 3`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts import data_api
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted, parameters
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._worker_reads import Reads

_CHANGING = (
    "add",
    "build_vocab",
    "configure",
    "fit",
    "load",
    "merge",
    "override",
    "register",
    "reset",
    "set",
    "update",
)
"""How the methods of objects whose class is not in sight begin that change them."""
_SWITCHES = frozenset({"eval", "initialize", "read", "train"})
"""Other methods that change such an object: modules, configurations that are read from a file."""
_TAKES = ("merge", "override", "update")
"""How functions that are not in sight begin that change what they are given."""
_SETS = data_api.STORES | {"builtins.delattr"}
_SETTERS = data_api.MUTATORS | {"__setitem__", "__setattr__", "__delitem__"}
# What programs set up as they start, and no sample depends on.
_SET_UP = frozenset({"argparse.ArgumentParser", "logging.getLogger"})
_PLAIN = (Kind.NUMBER, Kind.TEXT, Kind.NONE, Kind.DEVICE)
_DEEPEST = 4


def changes(file: FileFacts, work: WorkerCode, reads: Reads) -> Iterator[tuple[str, cst.CSTNode, cst.CSTNode]]:
    """What workers read, where they read it, and a place that changes it after it was made."""
    looks = _Looks(file, reads)
    for definition, use in reads.found.items():
        for source in looks.sources(definition):
            for place in looks.changes(source):
                yield definition.name, use, place
    for cls in work.classes:
        bases = [definition for base in cls.lineage() for definition in file.flow.defined(base.node)]
        for place in (*(place for each in bases for place in looks.changes(each)), *looks.of_instances(cls)):
            yield cls.name, cls.node, place


class _Looks:
    def __init__(self, file: FileFacts, reads: Reads) -> None:
        self.file = file
        self.reads = reads

    def sources(self, definition: Definition) -> list[Definition]:
        """A definition, and those of the objects that it shares or keeps: of `cfg` for `DATA = cfg.DATA`."""
        found = [definition]
        for current in found:
            value = current.part
            kept = [value]
            if isinstance(value, cst.Call) and self.file.values.calls.constructed(value) is not None:
                kept = [arg.value for arg in value.args]
            for node in kept:
                while isinstance(node, (cst.Attribute, cst.Subscript)) and not self.file.flow.is_variable(node):
                    node = node.value
                if node is not None and self.file.flow.is_variable(node):
                    made = self.file.flow.definitions(node)
                    found += [each for each in made if isinstance(each.scope, cst.Module) and each not in found]
        return found

    def changes(self, definition: Definition) -> Iterator[cst.CSTNode]:
        """The places that change the object which a definition of a module gives its name."""
        if definition.binding is Binding.DEFINED:
            for use in self.file.flow.uses(definition):
                if self._is_change(use, is_object=False):
                    yield use
            return
        value = definition.value
        if definition.binding is Binding.IMPORTED or value is None or self._is_plain(value):
            return
        made = {end for end in self.file.tracing.ends(value) if not end.path} if not definition.path else set()
        for use in self.file.flow.uses(definition):
            for held in self.file.handing.uses(use):
                node = held.node
                is_it = not held.path and (node is use or made.intersection(self.file.tracing.ends(node)))
                if is_it and self._is_change(node, is_object=True):
                    yield node

    def _is_plain(self, value: cst.BaseExpression) -> bool:
        made = self.file.qualified(value) if isinstance(value, cst.Call) else None
        return made in _SET_UP or self.file.value(value).kind in _PLAIN

    def of_instances(self, cls: ClassFacts) -> Iterator[cst.CSTNode]:
        """Changes of a class through its instances, which are no part of what a pickled instance takes along:
        `type(self).size = 3`, `self.items.append(1)` for `items = []` in the body of the class.
        """
        assigned = [(name, each) for base in cls.lineage() for name, values in base.assigned.items() for each in values]
        in_bodies = {name for name, each in assigned if each.method is None} & self.reads.words
        for target in self.file.tree.all_of(cst.AssignTarget, cst.AugAssign) if in_bodies else ():
            node = target.target if isinstance(target, (cst.AssignTarget, cst.AugAssign)) else None
            if isinstance(node, cst.Attribute) and node.attr.value in in_bodies:
                owner = node.value
                asks = isinstance(owner, cst.Call) and self.file.qualified(owner) == "builtins.type"
                if asks or (isinstance(owner, cst.Attribute) and owner.attr.value == "__class__"):
                    yield node
        shared = in_bodies - {name for name, each in assigned if each.method is not None}
        methods = [method for base in cls.lineage() for method in base.methods.values()] if shared else []
        for read in (node for method in methods for node in walk(method.body)):
            own = self.file.classes.self_attribute(read)
            if own is not None and own[1] in shared and self.file.aliasing.mutates(read) and not self._is_stored(read):
                yield read

    def _is_stored(self, node: cst.CSTNode) -> bool:
        """Whether an attribute itself is assigned, so that the instance has its own."""
        return isinstance(self.file.tree.parent(node), (cst.AssignTarget, cst.AugAssign))

    def _is_change(self, node: cst.CSTNode, *, is_object: bool, seen: frozenset[cst.FunctionDef] = frozenset()) -> bool:
        """Whether the expression around a use changes its object, or a part of that."""
        if self.file.aliasing.mutates(node):
            return bool(seen) or self.reads.mentions(self._stored_name(node))
        outer, parent = node, self.file.tree.parent(node)
        while isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is outer:
            call = self.file.tree.parent(parent)
            if isinstance(parent, cst.Attribute) and isinstance(call, cst.Call) and call.func is parent:
                return self._method_changes(call, parent.attr.value, is_object=is_object, seen=seen)
            outer, parent = parent, call
        return isinstance(parent, cst.Arg) and self._call_changes(parent, seen)

    def _stored_name(self, node: cst.CSTNode) -> str | None:
        """`size` for `cfg.size = 3`; `None` for all other changes."""
        parent = self.file.tree.parent(node)
        around = self.file.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.Attribute) and isinstance(around, (cst.AssignTarget, cst.AugAssign)):
            return parent.attr.value
        return None

    def _call_changes(self, arg: cst.Arg, seen: frozenset[cst.FunctionDef]) -> bool:
        call = self.file.tree.parent(arg)
        if not isinstance(call, cst.Call):
            return False
        name = self.file.qualified(call)
        is_first = call.args[0] is arg
        if name == "builtins.vars":
            return self._is_change(call, is_object=True, seen=seen)
        if (is_first and name in _SETS) or (arg.keyword is not None and arg.keyword.value == "namespace"):
            text = call.args[1].value if name in _SETS and len(call.args) > 1 else None
            word = str(text.evaluated_value) if isinstance(text, cst.SimpleString) else None
            return bool(seen) or self.reads.mentions(word)
        param = self.file.handing.parameter(arg)
        if param is not None:
            # The uses of an object are followed into functions; here `self` is handed on.
            function = next(node for node in self.file.tree.ancestors(param) if isinstance(node, cst.FunctionDef))
            return bool(seen) and self._writes(function, param, seen)
        out_of_sight = self.file.values.calls.resolve(call) is None and self.file.values.calls.constructed(call) is None
        return out_of_sight and dotted(call.func).rpartition(".")[2].startswith(_TAKES)

    def _method_changes(self, call: cst.Call, name: str, *, is_object: bool, seen: frozenset[cst.FunctionDef]) -> bool:
        method = self.file.values.calls.resolve(call)
        first = next(parameters(method), None) if method is not None else None
        if method is not None:
            return first is not None and self._writes(method, first, seen)
        return is_object and (name.startswith(_CHANGING) or name in _SWITCHES)

    def _writes(self, method: cst.FunctionDef, param: cst.Param, seen: frozenset[cst.FunctionDef]) -> bool:
        """Whether a function changes what it gets for a parameter."""
        if method in seen or len(seen) > _DEEPEST:
            return False
        seen |= {method}
        if any(self._is_super_change(node, seen) for node in walk(method.body)):
            return True
        uses = (use for definition in self.file.flow.defined(param) for use in self.file.flow.uses(definition))
        return any(self._is_change(use, is_object=True, seen=seen) for use in uses)

    def _is_super_change(self, node: cst.CSTNode, seen: frozenset[cst.FunctionDef]) -> bool:
        """`super().update(other)` in a method."""
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)):
            return False
        owner = node.func.value
        if not (isinstance(owner, cst.Call) and self.file.qualified(owner) == "builtins.super"):
            return False
        method = self.file.values.calls.resolve(node)
        first = next(parameters(method), None) if method is not None else None
        if method is not None and first is not None:
            return self._writes(method, first, seen)
        return node.func.attr.value in _SETTERS
