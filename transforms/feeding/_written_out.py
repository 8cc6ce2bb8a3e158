"""Normalisation that a dataset writes out in its `__getitem__`: `(image.float() / 255 - mean) / std` on bytes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.classes import AttributeAssignment, ClassFacts
from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_any, walk_scope
from perfmod.transforms.feeding._image_feeds import Applied, Path
from perfmod.transforms.feeding._pictures import is_byte_tensor
from perfmod.transforms.rule import Edit
from perfmod.transforms.writing import delete_statements, replace

_OPERATIONS = {"div": "div", "div_": "div", "sub": "sub", "sub_": "sub"}
_ORDER = ("div", "sub", "div")
_FLOATS = ("torch.float32", "torch.float")


@frozen
class WrittenOut:
    """A normalisation that is computed step by step.

    Attributes:
        node: the last step, where the finding is shown.
        applied: the class whose samples it normalises, and where they hold the image.
        mean, std: the constants: numbers, or one for each channel.
        edits: what leaves only the bytes.
    """

    node: cst.BaseExpression
    applied: Applied
    mean: Constant
    std: Constant
    edits: tuple[Edit, ...]


Refusal = tuple[cst.BaseExpression, str]


def written_out(file: FileFacts) -> Iterator[WrittenOut | Refusal]:
    """Every normalisation in a `__getitem__`; those in another form with the reason why they stay."""
    scales = _mentions_bytes(file)
    for cls in file.classes:
        function = cls.methods.get("__getitem__")
        if function is None or not cls.is_dataset or not file.is_own(cls.node):
            continue
        for node in walk_scope(function.body):
            if isinstance(node, cst.Call) and file.qualified(node) in (
                "torchvision.transforms.functional.normalize",
                "torchvision.transforms.v2.functional.normalize",
            ):
                yield node, "it is a function of torchvision, called by the dataset itself"
        for chain in _chains(file, function) if scales else ():
            if chain.kinds[:3] == _ORDER:
                yield _examined(file, cls, function, chain)


@define(eq=False)
class _Chain:
    """Steps from the last back to the first, through names that are assigned once each."""

    top: cst.BaseExpression
    path: Path
    base: cst.BaseExpression
    kinds: tuple[str, ...] = ()
    operands: list[cst.BaseExpression] = field(factory=list)
    expressions: list[cst.BaseExpression] = field(factory=list)
    """The outermost expression of each piece that the steps are written in."""
    names: list[cst.Name] = field(factory=list)
    """The names that lead from piece to piece."""
    assignments: list[Definition] = field(factory=list)


def _chains(file: FileFacts, function: cst.FunctionDef) -> Iterator[_Chain]:
    for node in walk_scope(function.body):
        if isinstance(node, cst.Return) and node.value is not None:
            for leaf, path in _leaves(node.value):
                yield _unwound(file, leaf, path)


def _leaves(node: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, Path]]:
    if isinstance(node, cst.Tuple):
        for index, element in enumerate(node.elements):
            yield element.value, (index,)
    elif isinstance(node, cst.Dict):
        for entry in node.elements:
            if isinstance(entry, cst.DictElement) and isinstance(entry.key, cst.SimpleString):
                yield entry.value, (str(entry.key.evaluated_value),)
    else:
        yield node, ()


def _unwound(file: FileFacts, leaf: cst.BaseExpression, path: Path) -> _Chain:
    chain = _Chain(leaf, path, leaf)
    current, piece, kinds = leaf, leaf, list[str]()
    while True:
        if isinstance(current, cst.Name):
            definitions = file.flow.definitions(current)
            single = definitions[0] if len(definitions) == 1 else None
            if single is None or single.binding is not Binding.ASSIGNED or single.path or single.value is None:
                break
            if piece is not current:
                chain.expressions.append(piece)
            chain.names.append(current)
            chain.assignments.append(single)
            current = piece = single.value
            continue
        step = _step(file, current)
        if step is None:
            break
        kind, current, operand = step
        kinds.append(kind)
        if operand is not None:
            chain.operands.append(operand)
    if piece is not current:
        chain.expressions.append(piece)
    chain.base = current
    chain.kinds = tuple(kind for kind in reversed(kinds) if kind != "float")
    return chain


def _step(
    file: FileFacts, node: cst.BaseExpression
) -> tuple[str, cst.BaseExpression, cst.BaseExpression | None] | None:
    """One operation: its kind, what it works on, and the constant."""
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Divide):
            return "div", node.left, node.right
        return ("sub", node.left, node.right) if isinstance(node.operator, cst.Subtract) else None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and file.qualified(node) is None:
        method = node.func.attr.value
        if method in _OPERATIONS and len(node.args) == 1 and node.args[0].keyword is None:
            return _OPERATIONS[method], node.func.value, node.args[0].value
        if method == "float" and not node.args:
            return "float", node.func.value, None
        if method in ("to", "type") and len(node.args) == 1 and file.qualified(node.args[0].value) in _FLOATS:
            return "float", node.func.value, None
    return None


def _examined(file: FileFacts, cls: ClassFacts, function: cst.FunctionDef, chain: _Chain) -> WrittenOut | Refusal:
    top = chain.expressions[0]
    std, mean, scale = (_operand(file, cls, operand) for operand in chain.operands[:3])
    if len(chain.kinds) != len(_ORDER) or scale is None or scale.value != 255:
        return top, "the steps by which the dataset normalises are not a division by 255, a subtraction and a division"
    if mean is None or std is None:
        return top, "the dataset's mean and std are no constants that can be read where the images arrive"
    per_channel = isinstance(mean.value, tuple) or isinstance(std.value, tuple)
    if not is_byte_tensor(file, chain.base):
        return top, "what the dataset normalises is not known to be a tensor of bytes"
    if per_channel and not _has_three_dimensions(file, chain.base):
        return top, "the image that the dataset normalises is not known to have three dimensions"
    returns = [node for node in walk_scope(function.body) if isinstance(node, cst.Return)]
    if len(returns) != 1:
        return top, f"{cls.name} returns its samples at several places"
    for name, definition in zip(chain.names, chain.assignments, strict=True):
        others = [use for use in file.flow.uses(definition) if use is not name]
        if others:
            return top, f"`{name.value}` is used again on line {file.line(others[0])}"
        statement = file.tree.statement(definition.node)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return top, f"`{name.value}` is bound together with other names"
    stored = [operand for operand in (mean, std) if operand.attribute is not None]
    edits = (*_edits(file, chain), *_unread(file, cls, chain, stored))
    return WrittenOut(top, Applied(cls, chain.path), mean.value, std.value, edits)


@frozen
class _Operand:
    value: Constant
    attribute: AttributeAssignment | None = None
    name: str = ""


def _operand(file: FileFacts, cls: ClassFacts, node: cst.BaseExpression) -> _Operand | None:
    """The constant that an operand stands for: a number, or a tensor of one number for each channel."""
    own = file.classes.self_attribute(node)
    if own is not None:
        assigned = cls.assignments(own[1])
        if len(assigned) != 1 or assigned[0].value is None or assigned[0].path:
            return None
        if any(file.aliasing.mutates(read) for read in file.handing.attribute_reads(cls, own[1])):
            return None
        value = _tensor_constant(file, assigned[0].value)
        return _Operand(value, assigned[0], own[1]) if value is not None else None
    if file.flow.is_variable(node):
        definitions = file.flow.definitions(node)
        made = definitions[0].value if len(definitions) == 1 and not definitions[0].path else None
        if made is None or any(file.aliasing.mutates(use) for use in file.flow.uses(definitions[0])):
            return None
        value = _tensor_constant(file, made)
        return _Operand(value) if value is not None else None
    value = _tensor_constant(file, node)
    return _Operand(value) if value is not None else None


def _tensor_constant(file: FileFacts, node: cst.BaseExpression) -> Constant | None:
    """The numbers in `torch.tensor([...]).view(-1, 1, 1)` and its like, or a plain number."""
    number = file.constants.value(node)
    if isinstance(number, (int, float)):
        return number
    inner = _one_per_channel(file, node)
    if inner is None or file.qualified(inner) != "torch.tensor" or not inner.args:
        return None
    dtype = argument(inner, "dtype")
    if len(inner.args) > 1 + (dtype is not None) or (dtype is not None and file.qualified(dtype) not in _FLOATS):
        return None
    value = file.constants.value(inner.args[0].value)
    return value if isinstance(value, tuple) and value and all(isinstance(v, float) for v in value) else None


def _one_per_channel(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The call that makes a vector, of an expression that gives it the shape (channels, 1, 1)."""
    if isinstance(node, cst.Subscript):
        shape = file.code(node).removeprefix(file.code(node.value)).replace(" ", "")
        return node.value if shape == "[:,None,None]" and isinstance(node.value, cst.Call) else None
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call):
        sizes = [file.code(arg.value) for arg in node.args]
        if node.func.attr.value in ("view", "reshape") and len(sizes) == 3 and sizes[1:] == ["1", "1"]:
            return node.func.value
    return None


def _has_three_dimensions(file: FileFacts, base: cst.BaseExpression) -> bool:
    if file.value(base).rank == 3:
        return True
    return (
        isinstance(base, cst.Call)
        and isinstance(base.func, cst.Attribute)
        and base.func.attr.value in ("permute", "view", "reshape")
        and len(base.args) == 3
    )


def _edits(file: FileFacts, chain: _Chain) -> Iterator[Edit]:
    """Every piece of the chain becomes what it works on; `x = x` goes."""
    gone: list[cst.BaseSmallStatement] = []
    for piece in chain.expressions:
        inner = _innermost(file, piece)
        statement = file.tree.statement(piece)
        if isinstance(statement, cst.Assign) and statement.value is piece and isinstance(inner, cst.Name):
            target = statement.targets[0].target
            if isinstance(target, cst.Name) and target.value == inner.value:
                gone.append(statement)
                continue
        yield replace(file.source, piece, file.whole_code(inner))
    yield from delete_statements(file.source, gone)


def _innermost(file: FileFacts, piece: cst.BaseExpression) -> cst.BaseExpression:
    step = _step(file, piece)
    while step is not None:
        piece = step[1]
        step = _step(file, piece)
    return piece


def _unread(file: FileFacts, cls: ClassFacts, chain: _Chain, stored: list[_Operand]) -> Iterator[Edit]:
    """Drop `self.mean = torch.tensor(...)` where nothing else reads the attribute."""
    gone: list[cst.BaseSmallStatement] = []
    for operand in stored:
        assert operand.attribute is not None
        reads = file.handing.attribute_reads(cls, operand.name)
        statement = file.tree.statement(operand.attribute.node)
        read_elsewhere = any(all(read is not used for used in chain.operands) for read in reads)
        is_here = file.is_own(statement)
        if isinstance(statement, cst.Assign) and len(statement.targets) == 1 and is_here and not read_elsewhere:
            gone.append(statement)
    yield from delete_statements(file.source, gone)


def _mentions_bytes(file: FileFacts) -> bool:
    """Whether a number 255 is written anywhere: without it nothing is scaled by hand."""
    numbers = find_any(file.source.module, cst.Integer, cst.Float)
    return any(isinstance(node, (cst.Integer, cst.Float)) and node.evaluated_value == 255 for node in numbers)
