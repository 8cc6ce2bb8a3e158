"""A cast to a CPU tensor type, which copies the tensor to the CPU.

`torch.LongTensor` is not only a dtype: it is the type of tensors on the CPU. `mask.type(torch.FloatTensor)` of a
tensor on the device therefore waits for it, copies it to the CPU, and casts it there; the `.cuda()` after it copies
it back:

    mask = (scores > 0).type(torch.FloatTensor).to(device)
    mask = (scores > 0).float()

A cast by method stays on the tensor's device. The copy after it is removed as well where it has nothing left to do:
there is one device, or the tensor is computed from one on the same device. Where the value is used on the CPU, the code
relies on the copy, and it stays. So does the cast of a parameter, a buffer or a slice that may already have the dtype:
the cast would return the tensor itself instead of a copy. Floats cast to integers on the device are open questions: NaN
and values out of range give other integers there.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.feeding._same_tensor import why_not_itself
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_METHODS = {
    "torch.FloatTensor": "float", "torch.DoubleTensor": "double", "torch.HalfTensor": "half",
    "torch.BFloat16Tensor": "bfloat16", "torch.BoolTensor": "bool", "torch.LongTensor": "long",
    "torch.IntTensor": "int", "torch.ShortTensor": "short", "torch.ByteTensor": "byte",
}  # fmt: skip
_FROM_ALL = frozenset({"float", "double", "half", "bfloat16", "bool"})
_CLASSES = {**dict.fromkeys(("float", "double", "half", "bfloat16"), DType.FLOATING), "bool": DType.BOOL}


class TypeCastByName(Rule):
    code = "PM208"
    name = "type-cast-by-name"
    family = Family.FEEDING
    summary = "A cast to a CPU tensor type such as torch.LongTensor copies the tensor to the CPU"
    fix_title = "Cast on the tensor's own device"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset(name.removeprefix("torch.") for name in _METHODS)
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.Tensor.type.html",)
    changes_results = (
        "Never for what is applied by default: casts to floats and booleans, and of integers, give the same bits on "
        "either device. Floats that become integers are open questions: NaN, infinities and numbers out of range "
        "become other integers on the GPU."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every such cast of a tensor of the device in a step."""
        for call in file.tree.all(cst.Call):
            method = _method(file, call)
            if method is None or not file.is_own(call) or not file.steps.reaches(call):
                continue
            assert isinstance(call.func, cst.Attribute)
            if _is_on_host(file, call.func.value):
                continue
            reason = _why_not(file, call, method)
            if reason:
                yield self.refused(file, call, reason)
                continue
            source = _dtype(file, call.func.value)
            is_equal = method in _FROM_ALL or source in (DType.INTEGER, DType.BOOL)
            why = "the same dtype, cast on the tensor's own device"
            if not is_equal:
                why = "floats cast to integers on the GPU differ for NaN and for values out of range"
            start, end = file.source.span(call.func.attr)[0], file.source.span(_with_move(file, call))[1]
            edits = (Edit(start, end, f"{method}()"),)
            yield self.found(file, call, why, edits, safety=Safety.SAFE if is_equal else Safety.UNSAFE)


def _method(file: FileFacts, call: cst.Call) -> str | None:
    """The method that casts to the type which `x.type(torch.LongTensor)` names, where it is one of the CPU."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "type" or len(call.args) != 1:
        return None
    kind = argument(call, "dtype", 0)
    if kind is None or file.value(call.func.value).kind in (Kind.MODULE, Kind.ARRAY, Kind.OPTIMIZER):
        return None
    name = str(kind.evaluated_value) if isinstance(kind, cst.SimpleString) else file.qualified(kind)
    return _METHODS.get(name or "")


def _is_on_host(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a tensor lies on the CPU: then nothing is moved."""
    value = file.value(node)
    if value.device is Device.CPU or (value.origin is not None and value.device is not Device.ACCELERATOR):
        return True
    return any(end.path[:1] == (None,) and file.loaders.of(end.node) is not None for end in file.tracing.ends(node))


def _why_not(file: FileFacts, call: cst.Call, method: str) -> str:
    """Why a cast stays as it is, in one line; empty where it need not."""
    assert isinstance(call.func, cst.Attribute)
    subject = call.func.value
    if "#" in file.code(call):
        return "the expression contains a comment"
    uses = _uses(file, call)
    stray = next((use for use in uses if not _is_moved(file, use)), None)
    if stray is not None:
        return f"it also moves the tensor to the CPU, where line {file.line(stray)} uses it"
    if not uses:
        return "it also moves the tensor to the CPU, and its uses could not be followed"
    before, after = _dtype(file, subject), _CLASSES.get(method, DType.INTEGER)
    # Operators make new tensors.
    is_new = isinstance(subject, (cst.Comparison, cst.BinaryOperation, cst.UnaryOperation))
    is_new = is_new or file.aliasing.is_fresh(subject) or (before is not None and before is not after)
    return "" if is_new else why_not_itself(file, subject, uses)


def _with_move(file: FileFacts, call: cst.Call) -> cst.Call:
    """A cast with the copy behind it, where that is seen to go to the device of the tensor."""
    attribute = file.tree.parent(call)
    move = file.tree.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    if not isinstance(move, cst.Call) or not isinstance(attribute, cst.Attribute) or move.func is not attribute:
        return call
    if attribute.attr.value == "cuda":
        return call if move.args or _devices(file) - {"cuda"} else move
    if attribute.attr.value != "to" or len(move.args) != 1:
        return call
    where = move.args[0].value
    assert isinstance(call.func, cst.Attribute)
    sources = {name.value for name in find_all(call.func.value, cst.Name) if file.flow.is_read(name)}
    if isinstance(where, cst.Attribute) and where.attr.value == "device":
        return move if file.code(where.value) in sources else call
    return move if _devices(file) == {file.code(where)} else call


def _devices(file: FileFacts) -> set[str]:
    """The devices that the file moves tensors to, as they are written."""
    found = set()
    for call in find_all(file.source.module, cst.Call):
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        where = file.values.placement.destination(call) if name == "to" else argument(call, "device")
        if name == "cuda":
            found.add(" ".join(["cuda", *(file.code(arg) for arg in call.args)]))
        elif where is not None and not file.code(where).endswith(".device"):
            found.add(file.code(where))
    return found


def _dtype(file: FileFacts, node: cst.BaseExpression) -> DType | None:
    """The class of a tensor's type; tensors are compared to truth values."""
    return DType.BOOL if isinstance(node, cst.Comparison) else file.value(node).dtype


def _uses(file: FileFacts, call: cst.Call) -> list[cst.BaseExpression]:
    """Where the value of a cast is used: in its own expression, or by the reads of the variable that it is given."""
    parent = file.tree.parent(call)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        if isinstance(target, cst.Name):
            return [use for made in file.flow.defined(target) for use in file.flow.uses(made)]
    return [call]


def _is_moved(file: FileFacts, use: cst.BaseExpression) -> bool:
    """Whether a use copies the value to the device."""
    parent = file.tree.parent(use)
    move = file.tree.parent(parent) if isinstance(parent, cst.Attribute) and parent.value is use else None
    if not isinstance(move, cst.Call) or not isinstance(parent, cst.Attribute) or move.func is not parent:
        return False
    if isinstance(use, cst.Name) and len(file.flow.definitions(use)) > 1:
        return False
    if parent.attr.value == "cuda":
        return True
    where = file.values.placement.destination(move) if parent.attr.value == "to" else None
    return where is not None and file.values.placement.device_of(where) is not Device.CPU
