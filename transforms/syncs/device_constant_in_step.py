"""Numbers that are made into tensors on the host and copied to the device in every step.

`torch.tensor(0.5, device=device)` builds a tensor on the host, copies it, and waits for the copy: the host cannot
run ahead of the device. So does `torch.tensor(0.5).to(device)`, and `torch.FloatTensor([0.5]).cuda()`. A kernel that
fills a tensor needs no copy:

    zero = torch.tensor(0.0, device=device)                   zero = torch.full((), 0.0, device=device)
    weight = torch.FloatTensor([2.0]).to(device)              weight = torch.full((1,), 2.0, dtype=torch.float32,
                                                                                  device=device)

Value, type and shape are the same, and the tensor is a new one in every step as before. A list of different numbers
cannot be filled; it is made once in front of the loop, where nobody writes to the tensor, keeps it or trains it, and
where its device is known by then. torchvision's `Normalize` of a batch on the device makes two such lists in every
call; it is reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.constants import Constant
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Family, Finding, Numerics, Rule, Safety, Status
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


class DeviceConstantInStep(Rule):
    """PM108."""

    code = "PM108"
    name = "device-constant-in-step"
    family = Family.SYNCS
    summary = "A constant is made on the host and copied to the device in every step"
    fix_title = "Fill it on the device, or make it once in front of the loop"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.8"
    status = Status.PREVIEW
    triggers = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "LongTensor", "new_tensor", "DoubleTensor",
                          "HalfTensor", "IntTensor", "BoolTensor", "ByteTensor", "Normalize", "normalize"})  # fmt: skip
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "Never where it is safe. A number of Python that is not written down in the code may be beyond the range of "
        "float32, where `torch.tensor` gives infinity and `torch.full` raises: that is held back as unsafe."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every tensor that a step makes of numbers, filled, hoisted, or refused."""
        for call, made in made_on_device(file):
            if not in_every_step(file, call):
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
        found = _filling(file, made.data)
        try:
            if found is not None:
                return self._filled(file, made, *found)
            if _constant(file, made.data) is None and not _is_constant_list(file, made.data):
                return self.refused(file, made.node, _why_no_constant(file, made.data))
            if made.options:
                return self.refused(file, made.node, "it is trained, and each step needs its own")
            edits = hoisted(file, made.node)
        except CannotRewrite as refusal:
            return self.refused(file, made.node, str(refusal))
        return self.found(file, made.node, "the numbers are the same in every round, and nobody writes to them", edits)

    def _filled(self, file: FileFacts, made: Made, shape: str, number: cst.BaseExpression) -> Finding:
        if "#" in file.code(made.node):
            raise CannotRewrite("a comment stands inside of it")
        constant = _number(file, number)
        doubt = None
        if constant is None and file.value(number).dtype not in (DType.INTEGER, DType.BOOL):
            code = file.code(number)
            doubt = f"right unless `{code}` is beyond the range of float32, where `full` raises"
        imports: tuple[str, ...] = ()
        dtype = made.dtype
        # TorchScript before 2.2 cannot fill in truth values, and makes integers of them without a type.
        function = {True: "ones", False: "zeros"}[constant] if isinstance(constant, bool) else "full"
        if made.like is not None:
            maker = f"{file.code(made.like)}.new_{function}"
        else:
            torch, imports = file.names.spelled("torch", made.node)
            maker = f"{torch}.{function}"
            if dtype is None and file.value(number).dtype is DType.BOOL:
                dtype = f"{torch}.bool"
        given = [shape, file.whole_code(number)] if function == "full" else [shape]
        given += [f"dtype={dtype}"] if dtype is not None else []
        given += [f"device={made.device}"] if made.device is not None else []
        given += made.options
        return self.found(
            file,
            made.node,
            doubt or "a kernel fills it with the same number, and nothing is copied",
            [replace(file.source, made.node, f"{maker}({', '.join(given)})")],
            safety=Safety.UNSAFE if doubt else None,
            imports=imports,
        )


def _filling(file: FileFacts, data: cst.BaseExpression) -> tuple[str, cst.BaseExpression] | None:
    """The shape and the one number of a tensor that can be filled."""
    if isinstance(data, (cst.List, cst.Tuple)) and data.elements:
        parts = [element.value for element in data.elements]
        numbers = [_number(file, part) for part in parts]
        first = numbers[0]
        if any(isinstance(element, cst.StarredElement) for element in data.elements):
            return None
        if len(parts) == 1 and _is_number(file, parts[0]):
            return "(1,)", parts[0]
        same = first is not None and all(type(n) is type(first) and str(n) == str(first) for n in numbers)
        return (f"({len(parts)},)", parts[0]) if same else None
    if isinstance(data, cst.BinaryOperation) and isinstance(data.operator, cst.Multiply):
        left, right = data.left, data.right
        is_repeated = isinstance(left, cst.List) and len(left.elements) == 1 and is_length(file, right)
        if isinstance(left, cst.List) and is_repeated and _number(file, left.elements[0].value) is not None:
            return f"({file.code(right)},)", left.elements[0].value
    return ("()", data) if _is_number(file, data) else None


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
