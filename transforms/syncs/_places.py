"""Attributes and entries that hold tensors while a loop runs, and numbers behind it: `self.total`, `stats["loss"]`.

Whoever holds the object may look at such a place. So it is only followed where the loop's own code and all that it
calls leave the place, and the whole object, alone; what reads it before and behind the loop sees numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from perfmod.transforms.facts.calls import is_decorated
from perfmod.transforms.facts.endings import catching, caught_by_callers
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.syncs._host_reads import CannotRewrite

Loop = cst.For | cst.While

# What reads or sets attributes by their names, so that no code shows them.
_BY_NAME = frozenset({"getattr", "setattr", "vars", "locals", "globals", "eval", "exec", "__dict__"})
_DEFAULTS = {"builtins.float": cst.Float("0.0"), "builtins.int": cst.Integer("0")}


def mentions_in(
    file: FileFacts, target: cst.BaseExpression, loops: Collection[Loop], own: Collection[cst.CSTNode]
) -> list[cst.BaseExpression]:
    """The other mentions of a place in the loops, besides those in the statements `own`.

    Raises:
        CannotRewrite: other code that runs in the loops may read the place, or goes on where a loop ends halfway.
    """
    found: list[cst.BaseExpression] = []
    for loop in loops:
        _require_whole_rounds(file, target, loop)
        inside = _attributes if isinstance(target, cst.Attribute) else _entries
        found += (each for each in inside(file, target, loop) if not any(file.tree.is_within(each, one) for one in own))
    return found


def first_values(file: FileFacts, target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a place holds before a loop adds to it. Raises `CannotRewrite` where that is not written down."""
    found = list(_of_attribute(file, target) if isinstance(target, cst.Attribute) else _of_entry(file, target))
    if not found:
        raise CannotRewrite(f"the first value of `{file.code(target)}` could not be found")
    return found


def _require_whole_rounds(file: FileFacts, target: cst.BaseExpression, loop: Loop) -> None:
    """Raise where the loop may be left without coming by the line behind it."""
    code = file.code(target)
    for node in walk_scope(loop):
        if isinstance(node, (cst.Return, cst.Yield, cst.Raise)):
            word = {cst.Return: "return", cst.Yield: "yield", cst.Raise: "raise"}[type(node)]
            raise CannotRewrite(f"the `{word}` on line {file.line(node)} may leave a tensor in `{code}`")
    for outer in (*catching(file, loop), *caught_by_callers(file, file.tree.function(loop))):
        kind = "with" if isinstance(outer, cst.With) else "try"
        raise CannotRewrite(
            f"an exception may end the loop, and the code after the `{kind}` on line {file.line(outer)} "
            f"would see `{code}` as a tensor"
        )


def _attributes(file: FileFacts, target: cst.BaseExpression, loop: Loop) -> Iterator[cst.BaseExpression]:
    code, name = file.code(target), cst.ensure_type(target, cst.Attribute).attr.value
    own = file.classes.self_attribute(target)
    if own is None:
        raise CannotRewrite(f"`{code}` is an attribute of an object whose class could not be determined")
    called = _called(file, loop)
    for word in (word for part in (loop, *called) for word in find_all(part, cst.Name)):
        if word.value in _BY_NAME and file.flow.is_read(word):
            raise CannotRewrite(f"line {file.line(word)} may read `{code}` by name")
    for node in (node for part in (loop, *called, *_handed_out(file, loop)) for node in find_all(part, cst.Attribute)):
        if node.attr.value == name:
            if file.code(node) != code or not file.tree.is_within(node, loop):
                raise CannotRewrite(f"`{file.code(node)}` on line {file.line(node)} may be `{code}`")
            yield node
    for call in find_all(loop, cst.Call):
        function = file.classes.self_attribute(call.func)
        is_seen = (
            function is None or function[0].method(function[1]) is not None or function[0].assignments(function[1])
        )
        if not is_seen or any(word in dotted(call.func).lower() for word in ("callback", "hook")):
            raise CannotRewrite(f"`{file.code(call.func)}` on line {file.line(call)} may read `{code}`")
    root = dotted(target).partition(".")[0]
    for use in find_all(loop, cst.Name):
        if use.value == root and file.flow.is_read(use) and not isinstance(file.tree.parent(use), cst.Attribute):
            raise CannotRewrite(f"`{root}`, which holds `{code}`, is used as a whole on line {file.line(use)}")


def _of_attribute(file: FileFacts, target: cst.Attribute) -> Iterator[cst.BaseExpression]:
    name, own = target.attr.value, file.classes.self_attribute(target)
    for found in own[0].assignments(name) if own is not None else ():
        if isinstance(file.tree.parent(found.node), cst.AugAssign):
            continue
        if found.value is None or found.path:
            raise CannotRewrite(f"the first value of `{file.code(target)}` could not be found")
        yield found.value
    for node in file.tree.all(cst.Attribute):
        if node.attr.value == name and file.classes.self_attribute(node) is None and _is_stored(file, node):
            raise CannotRewrite(f"`{file.code(node)}` is assigned on line {file.line(node)}")
    for call in file.tree.all(cst.Name):
        if call.value in ("setattr", "__dict__"):
            raise CannotRewrite(f"line {file.line(call)} may assign `{file.code(target)}` by name")


def _is_stored(file: FileFacts, node: cst.CSTNode) -> bool:
    parent = file.tree.parent(node)
    return isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)) and parent.target is node


def _entries(file: FileFacts, target: cst.BaseExpression, loop: Loop) -> Iterator[cst.BaseExpression]:
    code, entry = file.code(target), cst.ensure_type(target, cst.Subscript)
    root, key = entry.value, _key(entry)
    if not isinstance(root, cst.Name) or key is None:
        raise CannotRewrite(f"`{code}` is an entry that other code may read")
    for name in find_all(key, cst.Name):
        if any(file.tree.is_within(definition.node, loop) for definition in file.flow.definitions(name)):
            raise CannotRewrite(f"each step may add to another entry, because `{name.value}` changes in the loop")
    outer = file.tree.loops(loop)
    for definition in file.flow.definitions(root):
        is_renewed = not outer or file.tree.is_within(definition.node, outer[0].body)
        for use in file.flow.uses(definition):
            parent = file.tree.parent(use)
            is_entry = isinstance(parent, cst.Subscript) and parent.value is use
            all_of = loop if is_renewed else outer[-1]
            is_behind = file.comes_before(all_of, use) and not file.tree.is_within(use, all_of)
            if file.tree.scope(use) is not file.tree.scope(loop) or not (is_entry or is_behind):
                raise CannotRewrite(f"`{root.value}` is used as a whole on line {file.line(use)}")
            if not is_entry or not isinstance(parent, cst.Subscript) or not file.tree.is_within(use, loop):
                continue
            other = _key(parent)
            if other is not None and file.whole_code(other) == file.whole_code(key):
                yield parent
            elif not (isinstance(other, cst.SimpleString) and isinstance(key, cst.SimpleString)):
                raise CannotRewrite(f"`{file.code(parent)}` on line {file.line(use)} may be `{code}`")


def _of_entry(file: FileFacts, target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    entry = cst.ensure_type(target, cst.Subscript)
    key = _key(entry)
    for definition in file.flow.definitions(entry.value) if isinstance(entry.value, cst.Name) else ():
        made = definition.part if definition.binding is Binding.ASSIGNED else None
        if isinstance(made, cst.Dict):
            for element in made.elements:
                is_other = isinstance(element, cst.DictElement) and isinstance(key, cst.SimpleString)
                if not (
                    is_other
                    and isinstance(element, cst.DictElement)
                    and key is not None
                    and file.whole_code(element.key) != file.whole_code(key)
                ):
                    yield element.value
        elif isinstance(made, cst.DictComp):
            yield made.value
        elif isinstance(made, cst.Call) and file.qualified(made) == "collections.defaultdict" and made.args:
            yield _DEFAULTS.get(file.qualified(made.args[0].value) or "", made)
        elif not (isinstance(made, cst.Call) and file.qualified(made) == "builtins.dict" and not made.args):
            raise CannotRewrite(f"the type of `{file.code(entry.value)}` could not be determined")
        for use in file.flow.uses(definition):
            parent = file.tree.parent(use)
            if isinstance(parent, cst.Subscript) and _is_stored(file, parent):
                statement = file.tree.statement(parent)
                if isinstance(statement, cst.Assign) and file.code(parent) == file.code(target):
                    yield statement.value


def _key(node: cst.Subscript) -> cst.BaseExpression | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return index.value if isinstance(index, cst.Index) else None


def _handed_out(file: FileFacts, loop: Loop) -> Iterator[cst.CSTNode]:
    """What others may call while a loop runs, and what that calls; what comes by the loop itself is what runs it."""
    around = file.tree.function(loop)
    parts = file.values.calls.handed_out
    for part in parts:
        called = _called(file, part.body) if not file.tree.is_within(part, loop) else {}
        if not (file.tree.is_within(loop, part) or (around and around.body in called)):
            yield from (part.body, *called)


def _called(file: FileFacts, code: cst.CSTNode) -> dict[cst.CSTNode, None]:
    """The bodies of the functions that code calls, and of the properties that it reads."""
    found: dict[cst.FunctionDef, None] = {}
    waiting = [code]
    while waiting:
        part = waiting.pop()
        names = {node.attr.value for node in walk_scope(part) if isinstance(node, cst.Attribute)}
        read = (each for each in file.once(_properties) if each.name.value in names)
        new = [each for each in (*file.steps.called_by(part), *read) if each not in found]
        found.update(dict.fromkeys(new))
        waiting += [each.body for each in new]
    return {function.body: None for function in found}


def _properties(file: FileFacts) -> list[cst.FunctionDef]:
    functions = file.tree.all(cst.FunctionDef)
    return [each for each in functions if is_decorated(each, "property", "cached_property")]
