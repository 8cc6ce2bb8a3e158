"""What may change a mask between one step and the next."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import walk

# Methods of graphs and of other holders of tensors that leave the tensors' values as they are.
_KEEPS = frozenset(
    {"to", "cuda", "cpu", "clone", "detach", "contiguous", "keys", "values", "items", "get", "size", "is_cuda",
     "stores", "num_nodes", "number_of_nodes", "num_edges", "in_degrees", "out_degrees", "adj", "edges",
     "adjacency_matrix", "has_isolated_nodes", "has_self_loops", "is_undirected", "is_directed", "validate",
     "local_scope"}
)  # fmt: skip


def root_of(node: cst.BaseExpression) -> cst.Name | None:
    """`data` of `data.train_mask` and `g` of `g.ndata['train_mask']`."""
    while not isinstance(node, cst.Name):
        if isinstance(node, cst.Attribute) or (
            isinstance(node, cst.Subscript)
            and isinstance(node.slice[0].slice, cst.Index)
            and isinstance(node.slice[0].slice.value, cst.SimpleString)
        ):
            node = node.value
        else:
            return None
    return node


def last_name(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return node.attr.value
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
            return str(index.value.evaluated_value)
    return node.value if isinstance(node, cst.Name) else ""


def is_own(file: FileFacts, definition: Definition) -> bool:
    """Whether an object is made in the scope that its name belongs to, and is not another module's."""
    return definition.scope is file.tree.scope(definition.node) and definition.binding is not Binding.IMPORTED


def changes(file: FileFacts, mask: cst.BaseExpression, around: cst.CSTNode) -> list[cst.CSTNode]:
    """Every place in `around` that may write into the mask, or put another in its place."""
    if isinstance(mask, cst.Name):
        writes = [use for definition in file.flow.definitions(mask) for use in file.aliasing.mutations(definition)]
        return [use for use in writes if file.tree.is_within(use, around)]
    code = file.code(mask)
    found: list[cst.CSTNode] = []
    for node in walk(around):
        if type(node) is type(mask) and file.code(node) == code:
            others = [use for alias in file.aliasing.aliases(node) for use in file.aliasing.mutations(alias)]
            found += [node] if file.aliasing.mutates(node) else others
    part = mask
    while isinstance(part, (cst.Attribute, cst.Subscript)):
        found += file.stores.inside(part, around)
        part = part.value
    return found


def may_change_elsewhere(file: FileFacts, mask: cst.BaseExpression, root: cst.Name) -> bool:
    """Whether code that runs again and again may change the mask under another name, or behind a call."""
    own = file.classes.self_attribute(_above_root(mask))
    if own is not None and len(own[0].assignments(own[1])) != 1:
        return True
    name, code, around = last_name(mask), file.code(mask), file.tree.function(mask)
    for node in file.tree.all_of(cst.Attribute, cst.Subscript, cst.Call):
        if isinstance(node, (cst.Attribute, cst.Subscript)) and last_name(node) == name:
            # A variable keeps its tensor where another is stored in the graph; one that is written into, it sees.
            is_assigned = isinstance(file.tree.parent(node), (cst.AssignTarget, cst.AugAssign))
            written = (is_assigned and not isinstance(mask, cst.Name)) or file.aliasing.mutates(node)
            is_here = file.code(node) == code and file.tree.function(node) is around
            if written and not is_here and _runs_again(file, node):
                return True
            aliases = file.aliasing.aliases(node) if isinstance(mask, cst.Name) else ()
            for use in (use for alias in aliases for use in file.aliasing.mutations(alias)):
                if _runs_again(file, use) and (file.tree.function(use) is not around or file.tree.loops(use)):
                    return True
        elif not isinstance(node, cst.Call) or not file.is_own(node):
            continue
        elif not isinstance(mask, cst.Name) and _runs_again(file, node):
            if _sets_by_name(file, node, name):
                return True
            handed = any(isinstance(arg.value, cst.Name) and arg.value.value == root.value for arg in node.args)
            if (handed and file.callees.of(node).is_unseen) or _changes_its_object(file, node, mask):
                return True
    return False


def _sets_by_name(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether `setattr(data, key, value)` may set the attribute `name`."""
    if file.qualified(call) != "builtins.setattr" or len(call.args) < 2:
        return False
    key = call.args[1].value
    return not isinstance(key, cst.SimpleString) or key.evaluated_value == name


def _above_root(mask: cst.BaseExpression) -> cst.BaseExpression:
    """`self.data` of `self.data.train_mask`; the mask itself where it is no longer than that."""
    node = mask
    while isinstance(node, (cst.Attribute, cst.Subscript)) and not isinstance(node.value, cst.Name):
        node = node.value
    return node


def _runs_again(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether code stands in a loop or a function; for that of other files, whether a loop can be seen around it."""
    function = file.tree.function(node)
    if file.tree.loops(node) or function is None:
        return bool(file.tree.loops(node))
    return function.name.value != "__init__" and (file.is_own(node) or _is_called_again(file, function, set()))


def _is_called_again(file: FileFacts, function: cst.FunctionDef, passed: set[cst.FunctionDef]) -> bool:
    """Whether a function may be called more than once: in a loop, by way of such a function, or by nobody in sight."""
    passed.add(function)
    calls = file.values.calls.callers(function)
    around = [(call, file.tree.function(call)) for call in calls]
    return (
        not file.values.calls.is_only_called(function)
        or not calls
        or any(
            file.tree.loops(call)
            or (caller is not None and (caller in passed or _is_called_again(file, caller, passed)))
            for call, caller in around
        )
    )


def _changes_its_object(file: FileFacts, call: cst.Call, mask: cst.BaseExpression) -> bool:
    """Whether a method of what holds the mask, such as `data.resample()`, may change it; those in sight are read."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value in _KEEPS:
        return False
    holders: list[str] = []
    while isinstance(mask, (cst.Attribute, cst.Subscript)):
        mask = mask.value
        holders.append(file.code(mask))
    is_holder = file.code(call.func.value) in holders and file.value(call.func.value).cls is None
    return is_holder and file.values.calls.resolve(call) is None
