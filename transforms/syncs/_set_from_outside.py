"""Who else gives an attribute or an entry of a dictionary its value: `trainer.correct /= n`, `stats.update(saved)`.

What a place holds tells whether a sum is one of integers, and that a list is one of numbers. Code beside the class may
put something else there, and so may code that sets attributes by names which it does not spell out.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._host_reads import CannotRewrite

_FILLS = frozenset({"update", "setdefault", "__setitem__", "load_state_dict"})


def set_elsewhere(file: FileFacts, target: cst.Attribute, cls: ClassFacts) -> Iterator[cst.BaseExpression]:
    """The values that other code assigns to an attribute of a class of the files.

    Raises:
        CannotRewrite: it is changed there, or may be set by a name that is not written down.
    """
    name = target.attr.value
    for node in mentions(file, target, cls):
        parent = file.tree.parent(node)
        is_stored = isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)) and parent.target is node
        if not is_stored or file.classes.self_attribute(node) is not None:
            continue
        statement = file.tree.statement(node)
        if not isinstance(statement, cst.Assign):
            raise CannotRewrite(f"`{file.code(node)}` is changed on line {file.line(node)}")
        yield statement.value
    for call in file.tree.all(cst.Call):
        if file.qualified(call) == "builtins.setattr" and len(call.args) == 3:
            owner, spelled = call.args[0].value, call.args[1].value
            text = spelled.evaluated_value if isinstance(spelled, cst.SimpleString) else None
            if text == name if text is not None else _is_of_own(file, owner, cls):
                raise CannotRewrite(f"`{file.code(target)}` may be set by its name on line {file.line(call)}")
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in _FILLS:
            held = call.func.value
            is_dictionary = isinstance(held, cst.Attribute) and held.attr.value == "__dict__"
            if isinstance(held, cst.Attribute) and is_dictionary and _is_of_own(file, held.value, cls):
                raise CannotRewrite(f"`{file.code(target)}` may be set by its name on line {file.line(call)}")


def mentions(file: FileFacts, target: cst.Attribute, cls: ClassFacts) -> Iterator[cst.Attribute]:
    """Where all files name an attribute, or one of the same name of an object that may be of the class."""
    for node in file.tree.all(cst.Attribute):
        is_named = node.attr.value == target.attr.value and file.qualified(node) is None
        if is_named and not _is_of_another(file, node.value, cls):
            yield node


def require_own_entries(file: FileFacts, target: cst.Subscript) -> None:
    """Raise `CannotRewrite` where a dictionary is filled as a whole, or through another name for its object."""
    container = file.code(target.value)
    for call in find_all(file.tree.module, cst.Call):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _FILLS and file.code(func.value) == container:
            raise CannotRewrite(f"`{container}` may be given other values on line {file.line(call)}")
    if not isinstance(target.value, cst.Attribute):
        return
    name = target.value.attr.value
    for node in file.tree.all(cst.Subscript):
        held, parent = node.value, file.tree.parent(node)
        is_stored = isinstance(parent, (cst.AssignTarget, cst.AugAssign)) and parent.target is node
        if is_stored and isinstance(held, cst.Attribute) and held.attr.value == name and file.code(held) != container:
            raise CannotRewrite(f"`{file.code(node)}` is set on line {file.line(node)}")


def _is_of_another(file: FileFacts, owner: cst.BaseExpression, cls: ClassFacts) -> bool:
    """Whether an object is shown to be none of a class."""
    value = file.value(owner)
    value = value.present or value
    if value.cls is not None:
        return not (value.cls in cls.lineage() or cls in value.cls.lineage())
    return value.kind not in (Kind.UNKNOWN, Kind.OBJECT) or value.name is not None


def _is_of_own(file: FileFacts, owner: cst.BaseExpression, cls: ClassFacts) -> bool:
    """Whether an object is shown to be one of a class, or its `self`."""
    value = file.value(owner)
    value = value.present or value
    return value.cls is not None and (value.cls in cls.lineage() or cls in value.cls.lineage())
