"""Numbers that are never zero: constants, lengths of what a loop goes through, sizes of a loader's batches.

Where that cannot be shown of a divisor, `raise_if_zero` writes what Python would have raised.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.loaders import TORCH_LOADER, Loader
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import find_all, walk_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.writing import insert_before_statement

_MOVES = frozenset({"to", "cuda", "float", "double", "half", "long", "contiguous"})


def is_never_zero(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is shown to be a number above zero."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value != 0
    if isinstance(node, cst.Call) and file.qualified(node) == "builtins.len" and len(node.args) == 1:
        return _is_gone_through(file, node) or _is_batch(file, node.args[0].value)
    sized = _first_size_of(node)
    return (sized is not None and _is_batch(file, sized)) or _raised_before(file, node)


def raise_if_zero(file: FileFacts, node: cst.BaseExpression) -> Edit | None:
    """An edit that raises what Python raises for a division by `node`, in front of its statement.

    `None` where there is no place for it, or where `node` may give something else when it is evaluated twice.
    """
    line = file.tree.line(file.tree.statement(node))
    if (
        not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) > 1
        or not _is_steady(file, node)
        or file.names.hides_builtin("ZeroDivisionError", node)
    ):
        return None
    code = file.whole_code(node)
    is_closed = node.lpar or isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    code = code if is_closed else f"({code})"
    raised = f'if not {code}:\n{file.source.module.default_indent}raise ZeroDivisionError("division by zero")'
    return insert_before_statement(file.source, line, raised, below_comments=True)


def _is_steady(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression gives the same number when it is evaluated again, and does nothing else."""
    if isinstance(node, cst.BinaryOperation):
        return _is_steady(file, node.left) and _is_steady(file, node.right)
    if isinstance(node, cst.Call):
        is_size = isinstance(node.func, cst.Attribute) and node.func.attr.value in ("size", "numel", "__len__")
        inner = node.func.value if is_size and isinstance(node.func, cst.Attribute) else None
        if file.qualified(node) in ("builtins.len", "builtins.float", "builtins.int") and len(node.args) == 1:
            inner = node.args[0].value
        return inner is not None and _is_steady(file, inner)
    if isinstance(node, cst.Subscript):
        return all(map(_is_constant, node.slice)) and _is_steady(file, node.value)
    if isinstance(node, cst.Attribute):
        return _is_steady(file, node.value)
    return isinstance(node, (cst.Name, cst.Integer, cst.Float))


def _is_constant(element: cst.SubscriptElement) -> bool:
    return isinstance(element.slice, cst.Index) and isinstance(element.slice.value, (cst.Integer, cst.SimpleString))


def _raised_before(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a statement in front of that of `node` raises for zero: `if not n: raise ...`."""
    line = file.tree.line(file.tree.statement(node))
    block, code = file.tree.block(line), file.code(node)
    for statement in block[: block.index(line)] if line in block else []:
        test = statement.test if isinstance(statement, cst.If) else None
        if (
            isinstance(statement, cst.If)
            and isinstance(test, cst.UnaryOperation)
            and isinstance(test.operator, cst.Not)
        ):
            raises = any(isinstance(inner, cst.Raise) for inner in walk_scope(statement.body))
            is_same = file.code(test.expression) == code and _moments(file, test.expression) == _moments(file, node)
            if raises and is_same:
                return True
    return False


def _moments(file: FileFacts, node: cst.BaseExpression) -> list[Hashable]:
    return [file.flow.moment(name) for name in find_all(node, cst.Name) if file.flow.is_read(name)]


def _is_gone_through(file: FileFacts, length: cst.Call) -> bool:
    """What a loop around goes through is not empty."""
    iterated = file.code(length.args[0].value)
    return any(
        isinstance(loop, cst.For) and any(file.code(part) == iterated for part in _iterables(loop.iter))
        for loop in file.tree.loops(length)
    )


def _iterables(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """An iterable and what `enumerate()` or a progress bar around it goes through."""
    yield node
    if isinstance(node, cst.Call) and node.args and not isinstance(node.func, cst.Subscript):
        yield from _iterables(node.args[0].value)


def _first_size_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x` of `x.size(0)` and `x.shape[0]`."""
    if isinstance(node, cst.Call):
        named, index = node.func, node.args[0].value if len(node.args) == 1 else None
        attribute = "size"
    elif isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        named, index = node.value, node.slice[0].slice.value
        attribute = "shape"
    else:
        return None
    is_first = isinstance(index, cst.Integer) and index.evaluated_value == 0
    return named.value if is_first and isinstance(named, cst.Attribute) and named.attr.value == attribute else None


def _is_batch(file: FileFacts, node: cst.BaseExpression, seen: frozenset[Definition] = frozenset()) -> bool:
    """Whether a value is a part of what loaders yield, stacked from one sample or more, on whichever device."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _MOVES:
        node = node.func.value
    definitions = file.flow.definitions(node) if isinstance(node, cst.Name) else ()
    return bool(definitions) and all(_makes_batch(file, definition, seen) for definition in definitions)


def _makes_batch(file: FileFacts, definition: Definition, seen: frozenset[Definition]) -> bool:
    if definition in seen or definition.value is None:
        return False
    if definition.binding is Binding.LOOPED:
        ends = file.tracing.ends(definition.value, (None, *definition.path))
        return bool(ends) and all(_is_stacked(file, end) for end in ends)
    return definition.part is not None and _is_batch(file, definition.part, seen | {definition})


def _is_stacked(file: FileFacts, end: End) -> bool:
    loader = file.loaders.of(end.node)
    return (
        loader is not None
        and len(end.path) == 2
        and end.path[0] is None
        and isinstance(end.path[1], int)
        and loader.name == TORCH_LOADER
        and loader.cls is None
        and not loader.unseen
        and "collate_fn" not in loader.settings
        and all(file.value(size).kind is Kind.NUMBER for size in loader.values("batch_size"))
        and _yields_tuples(file, loader)
    )


def _yields_tuples(file: FileFacts, loader: Loader) -> bool:
    """Whether the samples are tuples, so that a part of a batch is no sample but a stack of parts."""
    classes = [file.value(dataset).cls for dataset in loader.values("dataset")]
    methods = [cls.method("__getitem__") if cls is not None else None for cls in classes]
    return bool(methods) and all(
        method is not None
        and all(isinstance(node.value, cst.Tuple) for node in walk_scope(method.body) if isinstance(node, cst.Return))
        for method in methods
    )
