"""Scalars that Python reads from the device, as `loss.item()` does, and how to leave them there."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind, Value
from perfmod.transforms.rule import Edit

# Methods that only bring the tensor to where Python reads it anyway.
_ON_THE_WAY = frozenset({"cpu", "detach", "numpy"})
_READS = frozenset({"item", "tolist"})
_COPIES = frozenset({"data", "detach", "clone", "cpu", "cuda", "float", "double"})
_CONVERSIONS = {"builtins.float": DType.FLOATING, "builtins.int": DType.INTEGER}
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
# Reductions whose result is int64 whatever integers or booleans they are given.
_INT64_RESULTS = frozenset({"sum", "count_nonzero"})


class CannotRewrite(Exception):
    """The pattern is there, and a rewrite could change the training; the text is the reason, in one line."""


@frozen
class HostRead:
    """One scalar of the device as a Python number.

    Attributes:
        call: the whole read, such as `loss.cpu().item()`.
        tensor: what is read, without the way to the host: `loss`.
        way: the first method on that way, `loss.cpu`; `None` for `float(loss)` and `int(loss)`.
        dtype: of the Python number; `None` where it could not be shown.
    """

    call: cst.Call
    tensor: cst.BaseExpression
    way: cst.Attribute | None
    dtype: DType | None


def host_read(file: FileFacts, node: cst.CSTNode) -> HostRead | None:
    """What `node` reads from the device, if it does; `None` also for arrays and for tensors of the CPU."""
    if not isinstance(node, cst.Call):
        return None
    way: cst.Attribute | None = None
    conversion = _CONVERSIONS.get(file.qualified(node) or "")
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) and not node.args else ""
    if isinstance(node.func, cst.Attribute) and method in _READS:
        way, tensor = node.func, node.func.value
    elif conversion is not None and len(node.args) == 1 and not node.args[0].star:
        tensor = node.args[0].value
    else:
        return None
    while (
        isinstance(tensor, cst.Call)
        and isinstance(tensor.func, cst.Attribute)
        and tensor.func.attr.value in _ON_THE_WAY
        and not tensor.args
    ):
        way = way and tensor.func
        tensor = tensor.func.value
    if _stays_elsewhere(file, node, tensor):
        return None
    # `None` has no `item()`: what is a tensor or `None` raises as it did.
    value = read_value(file, tensor) if conversion is None else file.value(tensor)
    trained = is_differentiated(file, tensor)
    if value.is_tensor and value.device is Device.CPU and not trained:
        return None
    if method == "tolist" and not trained and not (value.is_tensor and value.rank == 0):
        return None
    # In a training loop `.item()` is called on tensors; elsewhere an unknown value may as well be an array.
    is_guess = conversion is None and value.kind is Kind.UNKNOWN
    guessed = is_guess and (file.steps.in_sight(node) or in_evaluation(file, node))
    if not (value.is_tensor or trained or guessed):
        return None
    return HostRead(node, tensor, way, conversion or value.dtype or (DType.FLOATING if trained else None))


def read_value(file: FileFacts, tensor: cst.BaseExpression) -> Value:
    """What a tensor is that `item()` is called on."""
    value = file.value(tensor)
    return value.present or value


def _stays_elsewhere(file: FileFacts, read: cst.Call, tensor: cst.BaseExpression) -> bool:
    """Whether a read is what is done without CUDA: the end of `x.double() if x.is_cuda else x.item()`."""
    choice = file.tree.parent(read)
    return (
        isinstance(choice, cst.IfExp)
        and choice.orelse is read
        and isinstance(choice.test, cst.Attribute)
        and choice.test.attr.value == "is_cuda"
        and file.code(choice.test.value) == file.code(tensor)
    )


def tensor_doubts(file: FileFacts, read: HostRead) -> list[str]:
    """Why what is read may be no tensor, though it mostly is: NumPy's numbers have `.item()` too."""
    if read_value(file, read.tensor).is_tensor or is_differentiated(file, read.tensor):
        return []
    return [f"`{file.code(read.tensor)}` is taken for a tensor"]


def kept_on_device(
    file: FileFacts,
    read: HostRead,
    dtype: DType,
    *,
    is_stored: bool = False,
    is_alone: bool = True,
    needs_cuda: bool = False,
) -> Edit:
    """The read replaced by a tensor of the device that adds up to the same bits as the Python number does.

    `dtype` is that of the sum; `is_stored` says that the tensor itself is kept, beyond the step; `is_alone` that
    nothing else goes into the sum; `needs_cuda` that other devices may have no float64, so that there the number is
    read as before. Python's `float` is a float64,
    into which every shorter type fits exactly; its `int` has no bounds, and int64 holds every count that a training
    can reach.

    Raises:
        CannotRewrite: `int()` of a floating-point tensor, or a comment inside the read.
    """
    own = read_value(file, read.tensor).dtype
    if file.qualified(read.call) == "builtins.int" and own not in (DType.INTEGER, DType.BOOL):
        raise CannotRewrite("int() cuts off what stands behind the point")
    suffix = own_copy(file, read) if is_stored else detached(file, read)
    suffix += "" if has_no_dimensions(file, read, is_alone=is_alone) else ".reshape(())"
    if dtype is not DType.FLOATING:
        return without_read(file, read, suffix if _is_int64(read.tensor) else suffix + ".long()")
    edit = without_read(file, read, suffix + ".double()")
    if not needs_cuda:
        return edit
    start, end = file.source.span(read.call)
    code, tensor = file.code(read.call), file.code(read.tensor)
    kept = file.source.text[start : edit.start] + edit.replacement
    choice = f"{kept} if {tensor}.is_cuda else {code}"
    return Edit(start, end, choice if _stands_alone(file, read.call) else f"({choice})")


def can_ask_for_device(read: HostRead) -> bool:
    """Whether the tensor of a read has a name, by which its device can be asked for."""
    node = read.tensor
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def has_no_dimensions(file: FileFacts, read: HostRead, *, is_alone: bool = True) -> bool:
    """Whether a tensor may be kept in its shape: one element for sure, of one shape with all that is added to it.

    Others are reshaped, which raises for more than one element, as reading them does.
    """
    return read_value(file, read.tensor).rank == 0 or (is_alone and is_differentiated(file, read.tensor))


def _stands_alone(file: FileFacts, node: cst.Call) -> bool:
    """Whether a choice may stand in place of `node` without parentheses."""
    parent = file.tree.parent(node)
    return bool(node.lpar) or isinstance(parent, (cst.AugAssign, cst.Assign, cst.Arg, cst.Element, cst.Return))


def without_read(file: FileFacts, read: HostRead, suffix: str) -> Edit:
    """The read replaced by its tensor and `suffix`. Raises `CannotRewrite` where a comment would be lost."""
    source = file.source
    start, end = source.span(read.call)
    inner_start, inner_end = source.span(read.tensor)
    if read.way is not None:
        # Parentheses around the tensor, and comments behind it, end before the dot.
        dot = source.text.rindex(".", inner_end, source.span(read.way.attr)[0])
        edit, gone = Edit(dot, end, suffix), source.text[dot:end]
    else:
        code = source.text[inner_start:inner_end]
        is_primary = isinstance(read.tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        edit = Edit(start, end, (code if is_primary else f"({code})") + suffix)
        gone = source.text[start:inner_start] + source.text[inner_end:end]
    if "#" in gone:
        raise CannotRewrite("a comment stands inside the read")
    return edit


def own_copy(file: FileFacts, read: HostRead) -> str:
    """What makes a tensor without a graph that no later in-place operation on the loss can change."""
    suffix = detached(file, read)
    tensor = read.tensor
    if isinstance(tensor, cst.Name):
        values = [
            d.value if d.binding is Binding.ASSIGNED and not d.path else None for d in file.flow.definitions(tensor)
        ]
        fresh = all(value is not None and file.aliasing.is_fresh(value) for value in values)
        uses = [use for d in file.flow.definitions(tensor) for use in file.flow.uses(d)]
        owned = fresh and not file.aliasing.is_mutated(tensor) and not any(map(file.aliasing.hands_on, uses))
    else:
        owned = file.aliasing.is_fresh(tensor)
    return suffix if owned else suffix + ".clone()"


def detached(file: FileFacts, read: HostRead) -> str:
    """`.detach()`, or nothing where there is no graph: counted, compared, or detached already."""
    return "" if _has_no_graph(file, read.tensor) else ".detach()"


def is_differentiated(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether `backward()` runs on the tensor or a sum that it is part of: one element, floating-point."""
    node = _without_copies(node)
    if isinstance(node, cst.Name):
        definitions = file.flow.definitions(node)
        trained = bool(definitions) and all(_is_trained(file, definition) for definition in definitions)
        return trained or _adds_trained(file, node, {})
    if isinstance(node, cst.BinaryOperation):
        return _adds_trained(file, node, {})
    if isinstance(node, cst.Attribute):
        cls = file.classes.around(node)
        code = dotted(node)
        around = cls.node if cls is not None else None
        return (
            bool(code)
            and around is not None
            and any(
                dotted(other) == code and _backward_runs_on(file, other, set())
                for other in find_all(around, cst.Attribute)
            )
        )
    return False


def _adds_trained(file: FileFacts, node: cst.BaseExpression, known: dict[tuple[Definition, ...], bool]) -> bool:
    """Whether an expression is arithmetic of numbers and of losses that are differentiated one by one."""
    node = _without_copies(node)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
        numbers = [file.value(side).kind is Kind.NUMBER for side in (node.left, node.right)]
        sides = [_adds_trained(file, side, known) for side in (node.left, node.right)]
        return any(sides) and all(map(any, zip(numbers, sides, strict=True)))
    if not isinstance(node, cst.Name):
        return False
    definitions = file.flow.definitions(node)
    if definitions not in known:
        known[definitions] = False  # what is made of itself only
        parts = [definition.part if definition.binding is Binding.ASSIGNED else None for definition in definitions]
        known[definitions] = bool(definitions) and (
            all(_is_trained(file, definition) for definition in definitions)
            or all(part is not None and _adds_trained(file, part, known) for part in parts)
        )
    return known[definitions]


def _without_copies(node: cst.BaseExpression) -> cst.BaseExpression:
    """`loss` of `loss.data`, `loss.detach()`, `loss.float()`: as many elements, floating-point as well."""
    while True:
        inner = node.func if isinstance(node, cst.Call) else node
        if not isinstance(inner, cst.Attribute):
            return node
        if inner.attr.value not in _COPIES or (isinstance(node, cst.Call) and node.args):
            return node
        if isinstance(node, cst.Attribute) and inner.attr.value != "data":
            return node
        node = inner.value


def _is_trained(file: FileFacts, definition: Definition) -> bool:
    known, seen = file.once(_trained), set[Definition]()
    if definition not in known:
        known[definition] = _leads_to_backward(file, definition, seen)
        known |= {} if known[definition] else dict.fromkeys(seen, False)
    return known[definition]


def _trained(_file: FileFacts) -> dict[Definition, bool]:
    """What was found out already."""
    return {}


def _leads_to_backward(file: FileFacts, definition: Definition, seen: set[Definition]) -> bool:
    known = file.once(_trained).get(definition)
    if known is not None or definition in seen:
        return bool(known)
    seen.add(definition)
    return any(_backward_runs_on(file, use, seen) for use in file.flow.uses(definition))


def _backward_runs_on(file: FileFacts, use: cst.BaseExpression, seen: set[Definition]) -> bool:
    node: cst.CSTNode = use
    parent = file.tree.parent(node)
    while True:
        call = file.tree.parent(parent) if parent is not None else None
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _ARITHMETIC):
            # One element comes out of an operation that broadcasts only where one went in.
            if isinstance(parent.operator, cst.Divide) and parent.right is node:
                return False
        elif isinstance(parent, cst.Arg) and isinstance(call, cst.Call) and call.args[0] is parent:
            method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            if method in ("backward", "manual_backward"):
                return True
            if method != "scale":
                return isinstance(call.func, cst.Name) and call.func.value == "loss_scaler"
            parent = call
        elif isinstance(parent, cst.Attribute) and isinstance(call, cst.Call) and call.func is parent:
            # With an argument for `gradient`, tensors of any size are differentiated.
            return parent.attr.value == "backward" and all(
                arg.keyword is not None and arg.keyword.value != "gradient" for arg in call.args
            )
        elif not isinstance(parent, cst.UnaryOperation):
            break
        node, parent = parent, file.tree.parent(parent)
    return any(_leads_to_backward(file, definition, seen) for definition in _made_by(file, node, parent))


def _made_by(file: FileFacts, value: cst.CSTNode, statement: cst.CSTNode | None) -> list[Definition]:
    """The names that get the value of an expression by `name = value` or `name += value`."""
    if isinstance(statement, cst.Assign) and statement.value is value:
        targets = [target.target for target in statement.targets]
    elif isinstance(statement, cst.AugAssign) and isinstance(
        statement.operator, (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
    ):
        targets = [statement.target]
    else:
        return []
    return [
        definition
        for target in targets
        if isinstance(target, cst.Name)
        for definition in file.flow.bound(file.tree.scope(target), target.value)
        if definition.node is target and definition.binding in (Binding.ASSIGNED, Binding.AUGMENTED)
    ]


def _has_no_graph(file: FileFacts, node: cst.BaseExpression) -> bool:
    while True:
        if file.value(node).dtype in (DType.BOOL, DType.INTEGER):
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func
        if not isinstance(node, cst.Attribute) or file.qualified(node) is not None:
            return False
        if node.attr.value in ("detach", "data"):
            return True
        node = node.value


def is_count(read: HostRead) -> bool:
    """Whether a scalar has no dimensions, and 64 bits if it is an integer."""
    return _is_int64(read.tensor) and isinstance(read.tensor, cst.Call) and not read.tensor.args


def _is_int64(node: cst.BaseExpression) -> bool:
    """Whether an integer tensor comes from a reduction that gives int64 unless it is told otherwise."""
    if not isinstance(node, cst.Call) or any(arg.keyword is not None for arg in node.args):
        return False
    short = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    return short in _INT64_RESULTS
