"""What a dotted name means: imports and aliases resolved to qualified names such as `torch.nn.functional.mse_loss`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from perfmod.transforms.facts.flow import Binding, Definition, Flow, dotted
from perfmod.transforms.facts.tree import Scope, Tree, is_none
from perfmod.transforms.libraries import is_known_by_name

_BUILTINS = frozenset(dir(builtins))

# Where PyTorch offers one thing under several names, the one that its documentation uses.
_CANONICAL_PREFIXES = (
    ("torch.functional.F.", "torch.nn.functional."),
    ("torch.utils.data.dataloader.", "torch.utils.data."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.nn.modules.module.", "torch.nn."),
    ("torch.nn.modules.loss.", "torch.nn."),
    ("torch.nn.modules.", "torch.nn."),
    ("torch.tensor.Tensor", "torch.Tensor"),
    ("torch._tensor.Tensor", "torch.Tensor"),
    ("np.", "numpy."),
    ("torchvision.transforms.transforms.", "torchvision.transforms."),
)


# Builtins in whose place no module is known to export something else, as NumPy does `sum` and `round`.
_NEVER_STARRED = frozenset({"enumerate", "float", "int", "len", "range"})


class Names:
    """Resolves names of the files."""

    def __init__(self, tree: Tree, flow: Flow) -> None:
        self._tree = tree
        self._flow = flow
        self._known: dict[cst.CSTNode, str | None] = {}
        self._members: dict[cst.CSTNode, str | None] = {}

    def qualified(self, node: cst.CSTNode) -> str | None:
        """The qualified name of a dotted expression, or `None` where it is no import and no builtin.

        What a module of the world defines has none, unless it is imported from a library that rules know by name, whose
        examples lie beside its sources; what such a module imports from elsewhere has its own name.
        Builtins come back as `builtins.len`. A name that is bound to anything but one import (a fallback `None` of an
        optional import aside) is none: it may mean something else by the time it is read.
        """
        if type(node) not in (cst.Attribute, cst.Name):
            return None
        if node not in self._known:
            self._known[node] = self._qualify(node)
        return self._known[node]

    def _qualify(self, node: cst.CSTNode) -> str | None:
        if not isinstance(node, (cst.Attribute, cst.Name)):
            return None
        library = self._of_library(node)
        if library is not None:
            return library
        found = self._flow.definitions(node)
        if not found:
            return self._qualify_member(node) if isinstance(node, cst.Attribute) else self._qualify_builtin(node)
        if isinstance(self._flow.place(node), cst.Module):
            return None
        imported = {
            imported_name(definition)
            for definition in found
            if not (definition.binding is Binding.ASSIGNED and is_none(definition.value))
        }
        return imported.pop() if len(imported) == 1 else None

    def _of_library(self, node: cst.Name | cst.Attribute) -> str | None:
        """What a library that is known by name calls something, if an import says that it comes from there."""
        if isinstance(node, cst.Attribute):
            base = self.qualified(node.value)
            return f"{base}.{node.attr.value}" if base is not None and is_known_by_name(base) else None
        imported = {imported_name(definition) for definition in self._flow.seen(node)}
        name = imported.pop() if len(imported) == 1 else None
        return name if name is not None and is_known_by_name(name) else None

    def _qualify_builtin(self, node: cst.Name) -> str | None:
        may_be_starred = node.value not in _NEVER_STARRED and self._flow.has_star_import(node)
        unknown = node.value not in _BUILTINS or may_be_starred
        return None if unknown else f"builtins.{node.value}"

    def _qualify_member(self, node: cst.Attribute) -> str | None:
        if isinstance(self._flow.place(node), cst.Module):
            return None
        base = self.qualified(node.value)
        if base is None and isinstance(self._flow.place(node.value), cst.Module):
            # Nothing that its module is seen to define: whatever it is, it comes from elsewhere.
            base = self._path(node.value)
        return canonical(f"{base}.{node.attr.value}") if base is not None else None

    def member(self, node: cst.CSTNode) -> str | None:
        """The dotted name of a module in sight, or of what is read from one, as its import spells it."""
        if type(node) not in (cst.Attribute, cst.Name):
            return None
        if node not in self._members:
            self._members[node] = self._member(node)
        return self._members[node]

    def _member(self, node: cst.CSTNode) -> str | None:
        if isinstance(node, (cst.Name, cst.Attribute)) and isinstance(self._flow.place(node), cst.Module):
            return self._path(node)
        if isinstance(node, cst.Attribute) and isinstance(self._flow.place(node.value), cst.Module):
            return self._path(node)
        return None

    def _path(self, module: cst.BaseExpression) -> str | None:
        """The dotted name of an imported module as its import spells it."""
        if isinstance(module, cst.Attribute):
            base = self._path(module.value)
            return f"{base}.{module.attr.value}" if base is not None else None
        imported = {imported_name(d) for d in self._flow.seen(module)} if isinstance(module, cst.Name) else set()
        return imported.pop() if len(imported) == 1 else None

    def spelled(self, module: str, at: cst.CSTNode) -> tuple[str, tuple[str, ...]]:
        """How code at `at` can write a module such as `torch.nn.functional`, and the imports that this still needs.

        The file's own spelling comes first (`F`), then one through an imported parent (`torch.nn.functional`).
        """
        scopes = [scope for scope in self._scopes(at) if not isinstance(scope, cst.ClassDef)]
        found: dict[str, str] = {}
        for scope in scopes:
            for name in self._flow.names(scope):
                definitions = self._flow.bound(scope, name)
                imported = {imported_name(definition) for definition in definitions}
                hidden = any(self._flow.bound(inner, name) for inner in scopes[: scopes.index(scope)])
                if len(imported) == 1 and not hidden:
                    found.setdefault(imported.pop() or "", name)
        parent, _, rest = module, "", ""
        while parent:
            if parent in found:
                return ".".join(filter(None, (found[parent], rest))), ()
            parent, _, last = parent.rpartition(".")
            rest = ".".join(filter(None, (last, rest)))
        root = module.partition(".")[0]
        bound = [self._flow.bound(scope, root) for scope in scopes]
        uses = [use for definition in bound[-1] for use in self._flow.uses(definition)]
        if uses and not any(bound[:-1]) and all(self.qualified(use) == root for use in uses):
            return module, ()  # bound by `import *` of a file in sight, too
        return module, (root,)

    def _scopes(self, node: cst.CSTNode) -> Iterator[Scope]:
        scope = self._tree.scope(node)
        while not isinstance(scope, cst.Module):
            yield scope
            scope = self._tree.scope(scope)
        yield scope

    def imports(self, package: str, at: cst.CSTNode | None = None) -> bool:
        """Whether the module of a node, or any module, imports a package or something from it at its top level."""
        modules = self._tree.modules if at is None else (self._tree.module_of(at),)
        return any(package in self._packages[module] for module in modules)

    @cached_property
    def _packages(self) -> dict[cst.Module, frozenset[str]]:
        return {module: frozenset(self._imported_by(module)) for module in self._tree.modules}

    def _imported_by(self, module: cst.Module) -> Iterator[str]:
        for name in self._flow.names(module):
            for definition in self._flow.bound(module, name):
                yield (imported_name(definition) or "").partition(".")[0]

    def hides_builtin(self, name: str, at: cst.CSTNode) -> bool:
        """Whether a builtin's name means something else to code at `at`."""
        may_be_starred = name not in _NEVER_STARRED and self._flow.has_star_import(at)
        return may_be_starred or any(self._flow.bound(scope, name) for scope in self._scopes(at))


def imported_name(definition: Definition) -> str | None:
    """What an import binds, as a qualified name; `None` for definitions that are no absolute imports."""
    alias = definition.node
    if definition.binding is not Binding.IMPORTED:
        return None
    if not isinstance(alias, cst.ImportAlias):
        return canonical(f"{definition.module}.{definition.name}")
    if definition.module is None:
        # `import a.b` binds `a`, `import a.b as c` binds `a.b`.
        return canonical(dotted(alias.name)) if alias.asname is not None else definition.name
    return canonical(f"{definition.module}.{dotted(alias.name)}")


def canonical(name: str) -> str:
    """The documented spelling of a qualified name."""
    for prefix, documented in _CANONICAL_PREFIXES:
        if name.startswith(prefix):
            return documented + name[len(prefix) :]
    return name
