"""Attributes and entries that hold tensors while a loop runs, and numbers behind it: `self.total`, `stats["loss"]`.

Such a place may be read by whoever holds the object. So everything that runs in the loop is looked at: its own code,
and the functions that it calls. What reads the place before and behind the loop sees numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.endings import catching, caught_by_callers
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.tree import find_all, walk, walk_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._set_from_outside import require_own_entries, set_elsewhere

Loop = cst.For | cst.While

# What reads an object and does not keep it.
_READERS = frozenset(
    f"builtins.{name}"
    for name in (
        "all", "any", "bool", "dict", "isinstance", "len", "list", "max", "min", "print", "repr", "set", "sorted",
        "str", "sum", "tuple",
    )
)  # fmt: skip
_READING_LIBRARIES = frozenset(
    {"json", "math", "matplotlib", "numpy", "pandas", "pickle", "scipy", "statistics", "torch"}
)
# What reads attributes and variables by their names.
_BY_NAME = frozenset({"getattr", "vars", "locals", "globals", "eval", "exec", "__dict__"})


@frozen
class Contents:
    """What a dictionary, or an attribute, holds at first.

    Attributes:
        values: the first values of the place, as far as they are written down.
        factory: the value that a `defaultdict` makes for a missing key; `None` for other places.
    """

    values: Sequence[cst.BaseExpression]
    factory: cst.BaseExpression | None = None


def steps_of(node: cst.BaseExpression) -> tuple[cst.Name, tuple[tuple[str, object], ...]] | None:
    """`self` and `(("attr", "stats"), ("key", "loss"))` of `self.stats["loss"]`; an unknown key is an "index"."""
    steps: list[tuple[str, object]] = []
    while True:
        if isinstance(node, cst.Attribute):
            steps.append(("attr", node.attr.value))
            node = node.value
        elif isinstance(node, cst.Subscript):
            index = node.slice[0].slice if len(node.slice) == 1 else None
            if not isinstance(index, cst.Index):
                return None
            key = index.value
            is_known = isinstance(key, (cst.SimpleString, cst.Integer))
            steps.append(("key", key.evaluated_value) if is_known else ("index", key))  # type: ignore[attr-defined]
            node = node.value
        elif isinstance(node, cst.Name):
            return node, tuple(reversed(steps))
        else:
            return None


def reads_in(
    file: FileFacts, target: cst.BaseExpression, loops: Collection[Loop], own: Collection[cst.CSTNode]
) -> list[cst.BaseExpression]:
    """The other mentions of a place in the loops, besides those in the statements `own`.

    Raises:
        CannotRewrite: other code that runs in the loops may read the place.
    """
    code, chain = file.code(target), steps_of(target)
    if chain is None:
        raise CannotRewrite(f"`{code}` could not be followed")
    root, steps = chain
    found: list[cst.BaseExpression] = []
    for loop in loops:
        _require_ordered_end(file, code, root, loop)
        _require_same_place(file, target, root, loop)
        for name in find_all(loop, cst.Name):
            if name.value in _BY_NAME and not _is_keyword(file, name):
                raise CannotRewrite(f"`{code}` may be read by its name on line {file.line(name)}")
            if name.value == root.value and file.flow.is_read(name) and _is_variable(file, name):
                place = _meeting(file, name, steps, code)
                if place is not None and not any(file.tree.is_within(place, statement) for statement in own):
                    found.append(place)
        _require_unread_by_functions(file, target, root, steps, loop)
        _require_unshared(file, target, loop)
    return found


def contents(file: FileFacts, target: cst.BaseExpression) -> Contents:
    """What a place holds at first. Raises `CannotRewrite` where that could not be shown."""
    code = file.code(target)
    if isinstance(target, cst.Attribute):
        own = file.classes.self_attribute(target)
        assigned = own[0].assignments(own[1]) if own is not None else []
        values = [found.value for found in assigned if found.value is not None and not found.path]
        if own is None or not values or len(values) < len([a for a in assigned if not _is_augmented(file, a.node)]):
            raise CannotRewrite(f"where `{code}` gets its first value could not be shown")
        return Contents([*values, *set_elsewhere(file, target, own[0])])
    if not isinstance(target, cst.Subscript):
        raise CannotRewrite(f"`{code}` could not be followed")
    require_own_entries(file, target)
    chain = steps_of(target)
    step = chain[1][-1] if chain is not None else ("index", None)
    values, factory = [], None
    for container in _containers(file, target.value):
        if isinstance(container, cst.Dict):
            values += [element.value for element in container.elements if _has_key(element, step)]
        elif isinstance(container, cst.DictComp):
            values.append(container.value)
        else:
            factory = _factory(file, container)
            if factory is None:
                raise CannotRewrite(f"what `{file.code(target.value)}` is could not be shown")
    values += _stored(file, target, step)
    if not values and factory is None:
        raise CannotRewrite(f"where `{code}` gets its first value could not be shown")
    return Contents(values, factory)


def require_numbers(file: FileFacts, target: cst.Subscript) -> None:
    """Raise `CannotRewrite` where a dictionary may hold tensors of its own among the numbers."""
    step = ("index", None)
    values = list(_stored(file, target, step))
    for container in _containers(file, target.value):
        if isinstance(container, cst.Dict):
            values += [element.value for element in container.elements if _has_key(element, step)]
    for value in values:
        if file.value(value).kind not in (Kind.NUMBER, Kind.TEXT, Kind.NONE):
            raise CannotRewrite(f"`{file.code(value)}` on line {file.line(value)} may be a tensor")


def _containers(file: FileFacts, node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The expressions that make the dictionary in which an entry lies."""
    values: list[cst.BaseExpression | None] = []
    if isinstance(node, cst.Name):
        scope = file.tree.scope(node)
        values = [d.part if d.binding is Binding.ASSIGNED else None for d in file.flow.bound(scope, node.value)]
    else:
        own = file.classes.self_attribute(node)
        if own is not None:
            values = [None if found.path else found.value for found in own[0].assignments(own[1])]
    made = [value for value in values if isinstance(value, (cst.Dict, cst.DictComp, cst.Call))]
    if not made or len(made) < len(values):
        raise CannotRewrite(f"what `{file.code(node)}` is could not be shown")
    return list(made)


def _factory(file: FileFacts, call: cst.BaseExpression) -> cst.BaseExpression | None:
    """What `defaultdict(float)`, `defaultdict(lambda: 0.0)` and `Counter()` give for missing keys; `dict()` nothing."""
    if not isinstance(call, cst.Call):
        return None
    name, first = file.qualified(call), call.args[0].value if call.args else None
    if name == "collections.Counter" and first is None:
        return cst.Integer("0")
    if name == "collections.defaultdict" and len(call.args) == 1 and first is not None:
        if isinstance(first, cst.Lambda):
            return first.body
        made = {"builtins.float": cst.Float("0.0"), "builtins.int": cst.Integer("0"), "builtins.list": cst.List([])}
        return made.get(file.qualified(first) or "")
    return None


def _has_key(element: cst.BaseDictElement, step: tuple[str, object]) -> bool:
    if not isinstance(element, cst.DictElement):
        raise CannotRewrite("other values are unpacked into the dictionary")
    is_text = isinstance(element.key, cst.SimpleString)
    return step[0] == "index" or not is_text or element.key.evaluated_value == step[1]  # type: ignore[attr-defined]


def _stored(file: FileFacts, target: cst.Subscript, step: tuple[str, object]) -> Iterator[cst.BaseExpression]:
    """What plain assignments put into the entry."""
    container = file.code(target.value)
    for node in find_all(file.tree.module, cst.Subscript):
        parent = file.tree.parent(node)
        statement = file.tree.parent(parent) if isinstance(parent, cst.AssignTarget) else None
        if not isinstance(statement, cst.Assign) or file.code(node.value) != container:
            continue
        chain = steps_of(node)
        other = chain[1][-1] if chain is not None else ("index", None)
        is_same = "index" in (step[0], other[0]) or other[1] == step[1]
        # `stats["loss"] = stats["loss"] + x` goes on from what there was.
        if is_same and file.code(target) not in file.code(statement.value):
            yield statement.value


def _is_augmented(file: FileFacts, node: cst.CSTNode) -> bool:
    return isinstance(file.tree.parent(node), cst.AugAssign)


def _is_keyword(file: FileFacts, name: cst.Name) -> bool:
    parent = file.tree.parent(name)
    return isinstance(parent, cst.Arg) and parent.keyword is name


def _is_variable(file: FileFacts, name: cst.Name) -> bool:
    parent = file.tree.parent(name)
    return not (isinstance(parent, cst.Attribute) and parent.attr is name)


def _meeting(
    file: FileFacts, name: cst.Name, steps: Sequence[tuple[str, object]], code: str
) -> cst.BaseExpression | None:
    """The expression at `name` that is the place; `None` for other places of the object.

    Raises:
        CannotRewrite: the object is used as a whole, or the place may be the same.
    """
    node: cst.BaseExpression = name
    for kind, key in steps:
        parent = file.tree.parent(node)
        own: tuple[str, object] | None = None
        if isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is node:
            chain = steps_of(parent)
            own = chain[1][-1] if chain is not None else None
        if _reads_keys(file, node):
            return None
        if own is None or not isinstance(parent, (cst.Attribute, cst.Subscript)):
            raise CannotRewrite(
                f"`{file.code(node)}`, which holds `{code}`, is used as a whole on line {file.line(name)}"
            )
        if own[0] != kind or "index" in (own[0], kind):
            same = own[0] == kind == "index" and isinstance(key, cst.CSTNode) and isinstance(own[1], cst.CSTNode)
            if not (same and file.code(own[1]) == file.code(key)):  # type: ignore[arg-type]
                raise CannotRewrite(f"`{file.code(parent)}` on line {file.line(name)} may be or read `{code}`")
        elif own[1] != key:
            return None
        node = parent
    return node


def _reads_keys(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether only the keys of a dictionary are looked at: `for key in stats`, `key in stats`, `len(stats)`."""
    parent = file.tree.parent(node)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.iter is node
    if isinstance(parent, cst.ComparisonTarget):
        return isinstance(parent.operator, (cst.In, cst.NotIn))
    around = file.tree.parent(parent) if parent is not None else None
    if isinstance(parent, cst.Attribute):
        return parent.attr.value == "keys" and isinstance(around, cst.Call) and around.func is parent
    return isinstance(parent, cst.Arg) and isinstance(around, cst.Call) and file.qualified(around) == "builtins.len"


def _require_ordered_end(file: FileFacts, code: str, root: cst.Name, loop: Loop) -> None:
    """Raise where the loop may be left without coming by the statement behind it."""
    for node in walk_scope(loop):
        if isinstance(node, (cst.Return, cst.Yield)):
            word = "return" if isinstance(node, cst.Return) else "yield"
            raise CannotRewrite(
                f"a `{word}` on line {file.line(node)} lets others see `{code}` in the middle of the loop"
            )
    outer = next(catching(file, loop), None)
    function = file.tree.function(loop)
    if outer is None and function is not None and not _is_local(file, root):
        outer = next(caught_by_callers(file, function), None)
        raised = next((node for node in walk_scope(loop) if isinstance(node, cst.Raise)), None)
        if raised is not None and not file.values.calls.callers(function):
            raise CannotRewrite(
                f"line {file.line(raised)} raises, and who catches it may read `{code}` in the middle of the loop"
            )
    if outer is not None:
        kind = "with" if isinstance(outer, cst.With) else "try"
        raise CannotRewrite(
            f"an exception may end the loop and leave `{code}` to the code behind the {kind} of line {file.line(outer)}"
        )


def _is_local(file: FileFacts, root: cst.Name) -> bool:
    """Whether an object is made by the function that uses it, as a dictionary or list that is written down."""
    made = (cst.Dict, cst.DictComp, cst.List, cst.ListComp)
    definitions = file.flow.definitions(root)
    return bool(definitions) and all(
        definition.scope is file.tree.scope(root)
        and (isinstance(definition.part, made) or _is_container(file, definition.part))
        for definition in definitions
    )


def _is_container(file: FileFacts, made: cst.BaseExpression | None) -> bool:
    return isinstance(made, cst.Call) and file.qualified(made) in (
        "builtins.dict",
        "collections.defaultdict",
        "collections.Counter",
    )


def _require_same_place(file: FileFacts, target: cst.BaseExpression, root: cst.Name, loop: Loop) -> None:
    """Raise where the names in a place mean something else from round to round, but for the last key."""
    holder = target.value if isinstance(target, cst.Subscript) else target
    for name in find_all(holder, cst.Name):
        if not file.flow.is_read(name):
            continue
        for definition in file.flow.definitions(name):
            if definition.scope is file.tree.scope(loop) and file.tree.is_within(definition.node, loop):
                what = "object" if name.value == root.value else "entry"
                raise CannotRewrite(f"each step may feed another {what}: `{name.value}` changes in the loop")


def _require_unread_by_functions(
    file: FileFacts, target: cst.BaseExpression, root: cst.Name, steps: Sequence[tuple[str, object]], loop: Loop
) -> None:
    """Raise where functions that the loop runs may read the place."""
    code = file.code(target)
    names = {key for kind, key in steps if kind == "attr"}
    scope = file.tree.scope(loop)
    shared = [d for d in file.flow.definitions(root) if d.scope is not scope or isinstance(scope, cst.Module)]
    for function in _reached(file, loop):
        for node in walk(function.body):
            is_attribute = isinstance(node, cst.Attribute) and node.attr.value in names
            is_root = isinstance(node, cst.Name) and node.value == root.value and bool(shared)
            is_closure = isinstance(node, cst.Name) and any(d.scope is scope for d in file.flow.definitions(node))
            if (is_attribute and not file.tree.is_within(node, loop)) or (
                isinstance(node, cst.Name) and node.value == root.value and (is_root or is_closure) and not names
            ):
                raise CannotRewrite(
                    f"`{function.name.value}` may read `{code}` in every step, on line {file.line(node)}"
                )
    for call in find_all(loop, cst.Call) if names else ():
        name = dotted(call.func)
        if any(word in name.lower() for word in ("callback", "hook")):
            raise CannotRewrite(f"`{name}` on line {file.line(call)} may read `{code}`")
        own = file.classes.self_attribute(call.func)
        if own is not None and own[0].method(own[1]) is None and not own[0].assignments(own[1]):
            known = all(base.startswith(("torch.", "builtins.")) for cls in own[0].lineage() for base in cls.bases)
            if not known or len(own[0].bases) + len(own[0].parents) < len(own[0].node.bases):
                raise CannotRewrite(f"`{name}` on line {file.line(call)} is inherited, and may read `{code}`")


def _require_unshared(file: FileFacts, target: cst.BaseExpression, loop: Loop) -> None:
    """Raise where a dictionary has another name, under which code of the loop may read it."""
    if isinstance(target, cst.Attribute):
        return
    holder = target.value if isinstance(target, cst.Subscript) else target
    code = file.code(holder)
    mentions: Iterator[cst.BaseExpression] = (
        node for node in walk(file.tree.module) if isinstance(node, type(holder)) and file.code(node) == code
    )
    for node in mentions:
        is_read = not isinstance(node, cst.Name) or (_is_variable(file, node) and file.flow.is_read(node))
        returned = isinstance(file.tree.statement(node), cst.Return)
        if is_read and not returned and may_be_kept(file, node) and not _is_behind_renewed(file, node, holder, loop):
            line = file.line(node)
            raise CannotRewrite(f"`{code}` may be kept elsewhere from line {line} on, and tensors would be seen there")


def _is_behind_renewed(file: FileFacts, node: cst.CSTNode, holder: cst.BaseExpression, loop: Loop) -> bool:
    """Whether code stands behind the loop, which begins with another object each time."""
    if not file.comes_before(loop, node) or file.tree.is_within(node, loop):
        return False
    outer = file.tree.loops(loop)
    if not outer:
        return True
    definitions = file.flow.definitions(holder) if isinstance(holder, cst.Name) else ()
    return bool(definitions) and all(file.tree.is_within(d.node, outer[0].body) for d in definitions)


def _reached(file: FileFacts, loop: Loop) -> list[cst.FunctionDef]:
    """The functions in sight that the code of a loop runs."""
    found: dict[cst.FunctionDef, None] = {}
    waiting = [*file.steps.called_by(loop)]
    while waiting:
        function = waiting.pop()
        if function not in found:
            found[function] = None
            waiting += file.steps.called_by(function.body)
    return list(found)


def may_be_kept(file: FileFacts, use: cst.BaseExpression) -> bool:
    """Whether an object itself, not something computed from it, gets to where other code may look at it later."""
    child: cst.CSTNode = use
    for parent in file.tree.ancestors(use):
        if isinstance(parent, cst.Arg):
            call = file.tree.parent(parent)
            name = file.qualified(call) if isinstance(call, cst.Call) else None
            return name is None or not (name in _READERS or name.partition(".")[0] in _READING_LIBRARIES)
        if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.Yield, cst.From)):
            return getattr(parent, "value", getattr(parent, "item", None)) is child
        if not isinstance(
            parent,
            (cst.Tuple, cst.List, cst.Element, cst.Dict, cst.DictElement, cst.IfExp, cst.BooleanOperation),
        ):
            return False
        child = parent
    return False
