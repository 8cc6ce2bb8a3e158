"""Scalars that Python reads from the device, as `loss.item()` does, and how to leave them there."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.accelerators import replays_graphs
from perfmod.transforms.facts.differentiated import is_differentiated
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.gradients import may_carry_gradient
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind, Value
from perfmod.transforms.finding import Edit

# Methods that only bring the tensor to where Python reads it anyway.
_ON_THE_WAY = frozenset({"cpu", "detach", "numpy"})
_READS = frozenset({"item", "tolist"})
_CONVERSIONS = {"builtins.float": DType.FLOATING, "builtins.int": DType.INTEGER}
# Reductions whose result is int64 whatever integers or booleans they are given.
_INT64_RESULTS = frozenset({"sum", "count_nonzero"})
# Expressions that make an object of their own.
_MADE = (cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BaseNumber)


class CannotRewrite(Exception):
    """The pattern is there, and a rewrite could change the training; the text is the reason, in one line."""


@frozen(eq=False)
class HostRead:
    """One scalar of the device as a Python number.

    Attributes:
        call: the whole read, such as `loss.cpu().item()`.
        tensor: what is read, without the way to the host: `loss`.
        way: the first method on that way, `loss.cpu`; `None` for `float(loss)` and `int(loss)`.
        dtype: of the Python number; `None` where it could not be shown.
        is_shown: whether what is read is a tensor as far as the code shows; NumPy's numbers have `item()`, too.
    """

    call: cst.Call
    tensor: cst.BaseExpression
    way: cst.Attribute | None
    dtype: DType | None
    is_shown: bool


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
    # `None` has no `item()`: what is a tensor or `None` raises as it did.
    value = read_value(file, tensor) if conversion is None else file.value(tensor)
    trained = is_differentiated(file, tensor)
    if value.dtype is DType.COMPLEX:
        return None  # `float()` takes none
    if value.is_tensor and value.device is Device.CPU and not trained:
        return None
    if method == "tolist" and not trained and not (value.is_tensor and value.rank == 0):
        return None
    # In a training loop `.item()` is called on tensors; elsewhere an unknown value may as well be an array.
    is_guess = conversion is None and value.kind is Kind.UNKNOWN
    guessed = is_guess and (file.steps.in_sight(node) or in_evaluation(file, node))
    if not (value.is_tensor or trained or guessed):
        return None
    dtype = conversion or value.dtype or (DType.FLOATING if trained else None)
    return HostRead(node, tensor, way, dtype, value.is_tensor or trained)


def read_value(file: FileFacts, tensor: cst.BaseExpression) -> Value:
    """What a tensor is that `item()` is called on."""
    value = file.value(tensor)
    return value.when_used


def is_cut_off(file: FileFacts, read: HostRead) -> bool:
    """Whether `int()` drops what stands behind the point, as far as is known."""
    is_cast = file.qualified(read.call) == "builtins.int"
    return is_cast and read_value(file, read.tensor).dtype not in (DType.INTEGER, DType.BOOL)


def is_int64(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an integer tensor comes from a reduction that gives int64 unless it is told otherwise."""
    if isinstance(node, cst.Name):
        parts = [definition.part for definition in file.flow.definitions(node)]
        return bool(parts) and all(part is not None and part is not node and is_int64(file, part) for part in parts)
    if not isinstance(node, cst.Call) or any(arg.keyword is not None for arg in node.args):
        return False
    short = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    return short in _INT64_RESULTS


def without_read(file: FileFacts, read: HostRead, suffix: str = "") -> Edit:
    """The read replaced by its tensor without a graph and dimensions, and `suffix`.

    Raises:
        CannotRewrite: a comment would be lost.
    """
    source = file.source
    start, end = source.span(read.call)
    inner_start, inner_end = source.span(read.tensor)
    # What is read as a number has one element.
    suffix = (".squeeze()" if read_value(file, read.tensor).rank else "") + suffix
    suffix = (".detach()" if may_carry_gradient(file, read.tensor) else "") + suffix
    if read.way is not None:
        # Parentheses around the tensor, and comments behind it, end before the dot.
        dot = source.text.rindex(".", inner_end, source.span(read.way.attr)[0])
        edit, gone = Edit(dot, end, suffix, source.path), source.text[dot:end]
    else:
        code = source.text[inner_start:inner_end]
        is_primary = isinstance(read.tensor, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        edit = Edit(start, end, (code if is_primary else f"({code})") + suffix, source.path)
        gone = source.text[start:inner_start] + source.text[inner_end:end]
    if "#" in gone:
        raise CannotRewrite("the expression contains a comment")
    return edit


def may_change_later(file: FileFacts, tensor: cst.BaseExpression, *, parts: bool = True) -> bool:
    """Whether somebody may write into a tensor behind the place where it is read, so that to keep it takes a copy.

    Nobody does with what a round makes anew and does not change behind that place; a parameter is changed by the
    optimizer, a buffer by the module that returns it, and what a recorded graph gives by its next replay. With `parts`,
    a part of a tensor counts as well, because it keeps all of it in memory.
    """
    if replays_graphs(file):
        return True
    around = next(iter(file.tree.loops(tensor)), None) or file.tree.scope(tensor)
    if isinstance(tensor, cst.Name) and file.flow.from_earlier_rounds(tensor):
        return True
    trained = is_differentiated(file, tensor)
    seen: set[Definition] = set()
    waiting = [tensor]
    while waiting:
        given = waiting.pop()
        node = file.aliasing.viewed(given)
        if parts and any(not file.tree.is_within(part, node) for part in find_all(given, cst.Subscript)):
            return True
        if not isinstance(node, cst.Name):
            if not isinstance(node, _MADE) or not (trained or _is_made_anew(file, node)):
                return True
            continue
        for definition in (each for each in file.flow.definitions(node) if each not in seen):
            seen.add(definition)
            made = definition.value
            if definition.binding is Binding.AUGMENTED:
                statement = file.tree.statement(definition.node)
                made = statement.target if isinstance(statement, cst.AugAssign) else None
            is_bound = definition.binding in (Binding.ASSIGNED, Binding.AUGMENTED, Binding.LOOPED)
            if made is None or not is_bound or not file.tree.is_within(definition.node, around):
                return True
            handed = (use for use in file.flow.uses(definition) if _goes_out_of_sight(file, use))
            if any(file.comes_before(tensor, use) for use in (*file.aliasing.mutations(definition), *handed)):
                return True
            waiting += [made] if definition.binding is not Binding.LOOPED else []
    return False


def _goes_out_of_sight(file: FileFacts, use: cst.CSTNode) -> bool:
    """Whether a function whose code is not known gets a tensor, and may write into it."""
    arg = file.tree.parent(use)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    return isinstance(call, cst.Call) and file.callees.of(call).is_unseen


def _is_made_anew(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an expression computes a tensor, and gives none that something else stores, as functions may."""
    if not isinstance(node, cst.Call) or file.aliasing.is_fresh(node) or file.aliasing.is_computed(node):
        return True
    module = file.value(node.func)
    return module.kind is Kind.MODULE and (module.name or "").startswith("torch.nn.")
