"""The classes of the files: their bases, methods, and everything that is ever assigned to their attributes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.flow import Flow, dotted, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, find_any


@define(eq=False)
class ClassFacts:
    """One class.

    Attributes:
        node: its definition.
        bases: qualified names of the bases that come from elsewhere, as far as they are known.
        parents: its bases that are classes in sight.
        methods: its own methods by name.
        assigned: for every attribute, the statements that assign it through `self` in a method, or in the class body.
        children: the classes in sight that derive from it directly.
    """

    node: cst.ClassDef
    bases: tuple[str, ...]
    parents: tuple[ClassFacts, ...] = ()
    methods: dict[str, cst.FunctionDef] = field(factory=dict)
    assigned: dict[str, list[AttributeAssignment]] = field(factory=dict)
    children: list[ClassFacts] = field(factory=list)

    @property
    def name(self) -> str:
        """The class's own name."""
        return self.node.name.value

    def lineage(self) -> Iterator[ClassFacts]:
        """The class and its ancestors in sight, nearest first, each once."""
        waiting, seen = [self], set[ClassFacts]()
        while waiting:
            cls = waiting.pop()
            if cls not in seen:
                seen.add(cls)
                yield cls
                waiting += reversed(cls.parents)

    def method(self, name: str) -> cst.FunctionDef | None:
        """The method that a call through an instance reaches."""
        return next((cls.methods[name] for cls in self.lineage() if name in cls.methods), None)

    def assignments(self, name: str) -> list[AttributeAssignment]:
        """Every assignment to an attribute in the class, its ancestors and its descendants."""
        family = {**dict.fromkeys(self.lineage()), **dict.fromkeys(self.descendants())}
        return [found for cls in family for found in cls.assigned.get(name, ())]

    def descendants(self) -> Iterator[ClassFacts]:
        """The classes in sight that derive from it, each once."""
        waiting, seen = [*reversed(self.children)], set[ClassFacts]()
        while waiting:
            cls = waiting.pop()
            if cls not in seen:
                seen.add(cls)
                yield cls
                waiting += reversed(cls.children)

    def derives(self, *prefixes: str) -> bool:
        """Whether a base has one of these qualified names, or begins with one that ends in a dot."""
        return any(
            base == prefix or (prefix.endswith(".") and base.startswith(prefix))
            for cls in self.lineage()
            for base in cls.bases
            for prefix in prefixes
        )

    @property
    def is_module(self) -> bool:
        """Whether instances are called through `forward`, as those of `torch.nn.Module` are."""
        if self.derives("torch.nn.") or any(
            base.startswith(("lightning.", "pytorch_lightning.")) and base.endswith(".LightningModule")
            for cls in self.lineage()
            for base in cls.bases
        ):
            return True
        return self.method("forward") is not None and not self.derives("torch.autograd.Function")

    @property
    def is_dataset(self) -> bool:
        """Whether instances are indexed or iterated by a loader."""
        return self.derives(
            "torch.utils.data.Dataset", "torch.utils.data.IterableDataset", "torchvision.datasets."
        ) or (self.method("__getitem__") is not None and self.method("__len__") is not None)


@define(eq=False)
class AttributeAssignment:
    """`self.name = value`, `self.name += value` (no `value`), or `name = value` in a class body.

    `path` leads into the value where it is unpacked, as in `Definition`.
    """

    node: cst.CSTNode
    value: cst.BaseExpression | None
    path: tuple[int, ...]
    method: cst.FunctionDef | None


class Classes:
    """All classes in sight."""

    def __init__(self, tree: Tree, flow: Flow, names: Names) -> None:
        self._tree = tree
        self._flow = flow
        self._by_node: dict[cst.ClassDef, ClassFacts] = {}
        for node in tree.all(cst.ClassDef):
            self._by_node[node] = ClassFacts(node, tuple(filter(None, (names.qualified(a.value) for a in node.bases))))
        for node, facts in self._by_node.items():
            for arg in node.bases:
                if names.qualified(arg.value) is None and flow.is_variable(arg.value):
                    for definition in flow.definitions(arg.value):
                        self._derive(facts, definition.node)
            for statement in node.body.body:
                if isinstance(statement, cst.FunctionDef):
                    facts.methods[statement.name.value] = statement
            self._collect_assignments(facts)

    def _derive(self, facts: ClassFacts, base: cst.CSTNode) -> None:
        parent = self.of(base)
        # Names that are bound more than once may seem to derive from themselves.
        if parent is not None and facts not in parent.lineage():
            facts.parents = (*facts.parents, parent)
            parent.children.append(facts)

    def __iter__(self) -> Iterator[ClassFacts]:
        return iter(self._by_node.values())

    def of(self, node: cst.CSTNode) -> ClassFacts | None:
        """The facts of a `ClassDef`."""
        return self._by_node.get(node) if isinstance(node, cst.ClassDef) else None

    def around(self, node: cst.CSTNode) -> ClassFacts | None:
        """The class whose method holds `node`."""
        for ancestor in self._tree.ancestors(node):
            if isinstance(ancestor, cst.ClassDef):
                return self._by_node.get(ancestor)
        return None

    def self_attribute(self, node: cst.CSTNode) -> tuple[ClassFacts, str] | None:
        """Class and attribute of `self.name` where `self` is the first parameter of the method around it."""
        if not (isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name)):
            return None
        method = self._tree.function(node)
        while method is not None:
            cls = self._tree.class_of(method)
            first = next(parameters(method), None)
            if first is not None and first.name.value == node.value.value:
                facts = self.of(cls) if cls is not None else None
                return (facts, node.attr.value) if facts is not None else None
            method = self._tree.function(method)
        return None

    def assigned_elsewhere(self, name: str) -> list[tuple[cst.BaseExpression, AttributeAssignment]]:
        """Assignments to an attribute of this name through anything but `self`: the object, and what it gets."""
        return self._elsewhere.get(name, [])

    def replaced(self, name: str) -> cst.CSTNode | None:
        """Where a method of this name is replaced: `Meter.update = log`, `setattr(meter, "update", log)`."""
        return self._replaced.get(name)

    @cached_property
    def _replaced(self) -> dict[str, cst.CSTNode]:
        found = {
            name: assignment.node
            for name, assignments in self._elsewhere.items()
            for _, assignment in assignments
            if assignment.value is not None and self._is_function(assignment.value)
        }
        for call in self._tree.all(cst.Call):
            if isinstance(call.func, cst.Name) and call.func.value == "setattr" and len(call.args) == 3:
                name, value = call.args[1].value, call.args[2].value
                text = name.evaluated_value if isinstance(name, cst.SimpleString) else None
                if isinstance(text, str) and self._is_function(value):
                    found[text] = call
        return found

    def _is_function(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Call):
            made = dotted(node.func)
            return made.endswith(("MethodType", "partial", "partialmethod", ".__get__"))
        if isinstance(node, cst.Attribute):
            return any(node.attr.value in cls.methods for cls in self)
        is_defined = isinstance(node, cst.Name) and any(
            isinstance(definition.node, cst.FunctionDef) for definition in self._flow.definitions(node)
        )
        return is_defined or isinstance(node, cst.Lambda)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes that anything is assigned to."""
        return frozenset(name for cls in self for name in cls.assigned) | self._elsewhere.keys()

    @cached_property
    def _elsewhere(self) -> dict[str, list[tuple[cst.BaseExpression, AttributeAssignment]]]:
        found: dict[str, list[tuple[cst.BaseExpression, AttributeAssignment]]] = {}
        for assign in self._tree.all(cst.Assign):
            for target in (item.target for item in assign.targets):
                if isinstance(target, cst.Attribute) and self.self_attribute(target) is None:
                    assignment = AttributeAssignment(target, assign.value, (), None)
                    found.setdefault(target.attr.value, []).append((target.value, assignment))
        return found

    def _collect_assignments(self, facts: ClassFacts) -> None:
        for statement in facts.node.body.body:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    if isinstance(small, cst.Assign):
                        for target in small.targets:
                            self._assign(facts, target.target, small.value, (), None, in_body=True)
                    elif isinstance(small, cst.AnnAssign) and small.value is not None:
                        self._assign(facts, small.target, small.value, (), None, in_body=True)
        for method in facts.methods.values():
            for node in find_any(
                method.body, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.For, cst.WithItem, cst.Call
            ):
                if isinstance(node, cst.Assign):
                    for target in node.targets:
                        self._assign(facts, target.target, node.value, (), method)
                elif isinstance(node, cst.AnnAssign) and node.value is not None:
                    self._assign(facts, node.target, node.value, (), method)
                elif isinstance(node, (cst.AugAssign, cst.For)):
                    self._assign(facts, node.target, None, (), method)
                elif isinstance(node, cst.WithItem) and node.asname is not None:
                    self._assign(facts, node.asname.name, None, (), method)
                elif (
                    isinstance(node, cst.Call) and dotted(node.func).endswith(".register_buffer") and len(node.args) > 1
                ):
                    name = node.args[0].value
                    if isinstance(name, cst.SimpleString) and isinstance(name.evaluated_value, str):
                        found = AttributeAssignment(node, node.args[1].value, (), method)
                        facts.assigned.setdefault(name.evaluated_value, []).append(found)

    def _assign(
        self,
        facts: ClassFacts,
        target: cst.CSTNode,
        value: cst.BaseExpression | None,
        path: tuple[int, ...],
        method: cst.FunctionDef | None,
        in_body: bool = False,
    ) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            is_known = True
            for index, element in enumerate(target.elements):
                is_known = is_known and not isinstance(element, cst.StarredElement)
                self._assign(facts, element.value, value, (*path, index if is_known else -1), method, in_body)
            return
        name = None
        if in_body and isinstance(target, cst.Name):
            name = target.value
        elif isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and method is not None:
            first = next(parameters(method), None)
            if first is not None and first.name.value == target.value.value:
                name = target.attr.value
        if name is not None:
            facts.assigned.setdefault(name, []).append(AttributeAssignment(target, value, path, method))
