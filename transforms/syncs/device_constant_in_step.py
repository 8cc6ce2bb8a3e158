"""Numbers that are made into tensors on the CPU and copied to the device in every step.

`torch.tensor(0.5, device=device)` builds a tensor on the CPU, copies it, and waits for the copy: the host cannot run
ahead of the device. So does `torch.tensor(0.5).to(device)`, and `torch.FloatTensor([0.5]).cuda()`. A kernel that fills
a tensor needs no copy:

    loss = torch.tensor(0.0, device=device)                   loss = torch.zeros((), device=device)
    weight = torch.FloatTensor([2.0]).to(device)              weight = torch.full((1,), 2.0, device=device)

Value, type and shape are the same, and the tensor is a new one in every step as before. A list of different numbers
cannot be filled; it is made once in front of the loop, where nobody writes to the tensor, keeps it or trains it, and
where its device is known by then. torchvision's `Normalize` of a batch on the device makes two such lists in every
call; it is reported. Where the host reads the number back in the same step, it waits anyway, and nothing is gained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.endings import ends_step
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import in_evaluation
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs._around import in_every_step
from perfmod.transforms.syncs._hoisting import hoisted
from perfmod.transforms.syncs._host_reads import CannotRewrite
from perfmod.transforms.syncs._made_on_device import Made, made_on_device, normalising_on_device
from perfmod.transforms.syncs._sizes import is_length
from perfmod.transforms.writing import replace

_LARGEST_FLOAT = 3.4028234663852886e38
_LARGEST_INTEGER = 2**63 - 1
_SPECIAL = {"math.inf": math.inf, "torch.inf": math.inf, "math.nan": math.nan, "torch.nan": math.nan,
            "math.pi": math.pi, "torch.pi": math.pi, "math.e": math.e}  # fmt: skip
_READ_BACK = frozenset({"item", "tolist", "cpu", "numpy"})


class DeviceConstantInStep(Rule):
    """PM108."""

    code = "PM108"
    name = "device-constant-in-step"
    family = Family.SYNCS
    summary = "A constant is built on the CPU and copied to the device in every step"
    fix_title = "Fill it on the device, or make it once in front of the loop"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.8"
    status = Status.PREVIEW
    triggers = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor", "new_tensor", "DoubleTensor",
                          "HalfTensor", "IntTensor", "BoolTensor", "ByteTensor", "Normalize", "normalize"})  # fmt: skip
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "Never: value, type and shape are the same. A Python number that is not written down in the code may be "
        "beyond the range of float32: `torch.tensor` makes infinity of it, and `torch.full` raises."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every tensor that a step makes of numbers, filled, hoisted, or refused."""
        for call, made in made_on_device(file):
            if not _is_in_step(file, call):
                continue
            if isinstance(made, str):
                yield self.refused(file, call, made)
                continue
            value = file.value(made.data)
            if not (value.is_tensor or value.kind is Kind.ARRAY or value.origin is not None):
                yield self._examined(file, made)
        for call in normalising_on_device(file):
            if in_every_step(file, call):
                reason = f"`{file.code(call.func)}` copies its mean and deviation to the device in every call"
                yield self.refused(file, call, f"{reason}: keep both in buffers, and subtract and divide")

    def _examined(self, file: FileFacts, made: Made) -> Finding:
        filled = _filling(file, made.data)
        imports: tuple[str, ...] = ()
        try:
            if filled is not None:
                edits, imports = _filled(file, made, *filled)
                reason = "filled on the device, so that nothing is copied and waited for"
            elif _constant(file, made.data) is None and not _is_constant_list(file, made.data):
                return self.refused(file, made.node, _why_no_constant(file, made.data))
            elif made.is_trained:
                return self.refused(file, made.node, "each step trains one of its own")
            else:
                edits, reason = hoisted(file, made.node), "the numbers never change, and nothing writes to the tensor"
        except CannotRewrite as refusal:
            return self.refused(file, made.node, str(refusal))
        gainless = _why_no_gain(file, made.node)
        safety = Safety.OPT_IN if gainless else None
        return self.found(file, made.node, gainless or reason, edits, safety=safety, imports=imports)


def _is_in_step(file: FileFacts, call: cst.Call) -> bool:
    is_of_step = file.steps.in_sight(call) or file.steps.in_forward(call) or in_evaluation(file, call)
    return is_of_step and in_every_step(file, call)


def _why_no_gain(file: FileFacts, made: cst.Call) -> str:
    """Why a step would wait as often without the copy; empty where it would not."""
    around = file.tree.ancestors(made)
    choice = next((node for node in around if isinstance(node, (cst.If, cst.IfExp, cst.FunctionDef))), None)
    if isinstance(choice, cst.IfExp) or ends_step(file, made):
        assert choice is not None
        return f"it runs only under the `if` on line {file.line(choice)}, and not in every step"
    for use in file.handing.uses(made):
        for ancestor in file.tree.ancestors(use.node):
            if isinstance(ancestor, cst.Attribute) and ancestor.attr.value in _READ_BACK:
                return f"its value is read back on line {file.line(ancestor)}, where the host waits anyway"
            if not isinstance(ancestor, (cst.BaseExpression, cst.Arg)):
                break
    return ""


# Filled on the device


def _filled(
    file: FileFacts, made: Made, sizes: tuple[str, ...], number: cst.BaseExpression
) -> tuple[list[Edit], tuple[str, ...]]:
    """Edits that fill a tensor of these sizes with a number, and the imports for them."""
    constant = _number(file, number)
    torch, imports = file.names.spelled("torch", made.node)
    is_negative_zero = isinstance(constant, float) and math.copysign(1.0, constant) < 0
    function = "full"
    if constant is not None and constant in (0, 1) and not is_negative_zero:
        function = "ones" if constant else "zeros"
    dtype = made.dtype
    is_integer = isinstance(constant, int) or file.value(number).dtype is DType.INTEGER
    if dtype is None and made.like is None:
        if made.is_float and function == "full" and is_integer:
            dtype = f"{torch}.float32"
        elif not made.is_float and function != "full" and is_integer:
            dtype = f"{torch}.{'bool' if isinstance(constant, bool) else 'long'}"
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    given = [shape, file.whole_code(number)] if function == "full" else [*(sizes or ["()"])]
    given += [f"dtype={dtype}"] if dtype is not None and not made.is_said else []
    maker = f"{torch}.{function}"
    if made.like is not None:
        maker, imports = f"{file.code(made.like)}.new_{function}", ()
    if made.moved_to is None:
        data = next(arg for arg in made.node.args if arg.value is made.data)
        return [replace(file.source, made.node.func, maker), replace(file.source, data, ", ".join(given))], imports
    if "#" in file.code(made.node):
        raise CannotRewrite("a comment stands inside of it")
    return [replace(file.source, made.node, f"{maker}({', '.join([*given, f'device={made.moved_to}'])})")], imports


def _filling(file: FileFacts, data: cst.BaseExpression) -> tuple[tuple[str, ...], cst.BaseExpression] | None:
    """The sizes and the one number of a tensor that can be filled."""
    if isinstance(data, (cst.List, cst.Tuple)) and data.elements:
        parts = [element.value for element in data.elements]
        numbers = [_number(file, part) for part in parts]
        first = numbers[0]
        if any(isinstance(element, cst.StarredElement) for element in data.elements):
            return None
        if len(parts) == 1 and _is_number(file, parts[0]):
            return ("1",), parts[0]
        same = first is not None and all(type(n) is type(first) and str(n) == str(first) for n in numbers)
        return ((str(len(parts)),), parts[0]) if same else None
    if isinstance(data, cst.BinaryOperation) and isinstance(data.operator, cst.Multiply):
        left, right = data.left, data.right
        is_repeated = isinstance(left, cst.List) and len(left.elements) == 1 and is_length(file, right)
        if isinstance(left, cst.List) and is_repeated and _number(file, left.elements[0].value) is not None:
            return (file.code(right),), left.elements[0].value
    return ((), data) if _is_number(file, data) else None


def _is_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is a number of Python for sure, and one that can be filled in."""
    if _number(file, node) is not None:
        return True
    if isinstance(_constant(file, node), (int, float)):
        return False  # beyond all ranges
    value = file.value(node)
    return value.kind is Kind.NUMBER and value.dtype is not None


def _number(file: FileFacts, node: cst.BaseExpression) -> float | None:
    """A number that is written down in the code, and that every type holds or rounds in the same way."""
    found = _constant(file, node)
    if isinstance(found, (bool, tuple)) or found is None:
        return found if isinstance(found, bool) else None
    if isinstance(found, int):
        return found if abs(found) <= _LARGEST_INTEGER else None
    return found if not math.isfinite(found) or abs(found) <= _LARGEST_FLOAT else None


def _constant(file: FileFacts, node: cst.BaseExpression) -> Constant | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _constant(file, node.expression)
        return -inner if isinstance(inner, (int, float)) else None
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return node.value == "True"
    if file.qualified(node) in _SPECIAL and not isinstance(node, cst.Call):
        return _SPECIAL[file.qualified(node) or ""]
    if isinstance(node, cst.Call) and file.qualified(node) == "builtins.float" and len(node.args) == 1:
        text = node.args[0].value
        given = text.evaluated_value if isinstance(text, cst.SimpleString) else None
        try:
            return float(given) if isinstance(given, str) else None
        except ValueError:
            return None
    return file.constants.value(node)


def _is_constant_list(file: FileFacts, node: cst.BaseExpression) -> bool:
    if not isinstance(node, (cst.List, cst.Tuple)):
        return False
    parts = [element.value for element in node.elements]
    return all(_constant(file, part) is not None or _is_constant_list(file, part) for part in parts)


def _why_no_constant(file: FileFacts, data: cst.BaseExpression) -> str:
    code = " ".join(file.code(data).split())
    if isinstance(data, (cst.List, cst.Tuple)):
        return f"the numbers of `{code[:60]}` may change from step to step"
    return f"`{code[:60]}` could not be shown to be a number or a constant"
