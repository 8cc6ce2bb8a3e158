"""The statements of a training step that lead from a batch to its loss."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._in_float64 import computing_in_float64
from perfmod.transforms.compute._mentions import first_mention
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any, find_in_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.policy import HalfType

_PREVENTS = (
    (r"\bGradScaler\b|\bamp\.(?:scale_loss|initialize)\b", "chooses a precision already"),
    (
        r"\.(?:half|bfloat16)\(\)|\btorch\.(?:float16|half)\b|(?<!dtype=)\btorch\.bfloat16\b",
        "chooses a half type by itself",
    ),
    (r"\btorch\.(?:float64|double)\b|\bDoubleTensor\b|\bset_default_dtype\b", "computes in float64"),
    (
        r"\bautograd(?:\.Function\b|(?:\.function)? import [^\n]*\bFunction\b)",
        "defines a backward pass that may not take half types",
    ),
    (r"\btorch\.(?:linalg|fft|special)\b|\bcomplex(?:64|128)?\b", "computes what half types are too short for"),
    (r"\bcreate_graph\s*=\s*True\b", "differentiates twice"),
    (r"\b(?:Accelerator|Fabric|deepspeed|LightningModule|TrainingArguments)\b", "leaves the precision to a framework"),
)
_WHY = tuple((re.compile(pattern), reason) for pattern, reason in _PREVENTS)
_UNFIT_LOSS = re.compile(r"\bbinary_cross_entropy\b(?!_with)|\bBCELoss\b")
"""Losses that torch refuses under autocast."""
_FITTING_LOSSES = (
    "torch.nn.functional.cross_entropy",
    "torch.nn.functional.nll_loss",
    "torch.nn.functional.mse_loss",
    "torch.nn.functional.l1_loss",
    "torch.nn.functional.smooth_l1_loss",
    "torch.nn.functional.binary_cross_entropy_with_logits",
)
"""Those that torch computes in float32 under autocast."""
_LOSS = re.compile(r"^torch\.nn\.(?:modules\.)?\w*Loss$")
_NO_MODEL = re.compile(
    r"loss|criterion|metric|Tensor$|^(?:int|float|len|range|enumerate|zip|list|tuple|next|print|sum|max|min)$"
)
_HOUSEKEEPING = frozenset(
    {"to", "cuda", "zero_grad", "view", "reshape", "unsqueeze", "squeeze", "float", "long", "size"}
)


@frozen
class ForwardPass:
    """Neighbouring statements of a step.

    Attributes:
        backward: the call that ends it.
        first, last: from the first call of a model on.
        device: what has the device that it runs on: a device itself, or a tensor.
        widened: reads of outputs behind the last statement, which have to be of float32.
        why_not: why its precision stays, in one line; empty where it may change.
    """

    backward: cst.Call
    first: cst.BaseStatement
    last: cst.BaseStatement
    device: cst.Name | None = None
    widened: tuple[cst.Name, ...] = ()
    why_not: str = ""

    def device_type(self, file: FileFacts) -> str:
        """Code for the type of the device, such as `cuda`."""
        assert self.device is not None
        is_device = file.value(self.device).kind is Kind.DEVICE
        return f"{self.device.value}.type" if is_device else f"{self.device.value}.device.type"

    def unknown(self, file: FileFacts) -> list[cst.Name]:
        """What has to be a tensor for this to be right and was not seen to be one, each name once."""
        named = {name.value: name for name in (self.device, *self.widened) if name is not None}
        return [name for name in named.values() if not _is_known(file, name)]


def _is_known(file: FileFacts, name: cst.Name) -> bool:
    """Whether a name is a tensor, a part of a batch that is moved like one, or a device."""
    value = file.value(name)
    return value.is_tensor or value.kind is Kind.DEVICE or bool(value.origin is not None and value.origin.path)


def forward_passes(file: FileFacts) -> Iterator[ForwardPass]:
    """The forward passes of a file's training steps, as far as they stand in one block with their backward pass."""
    for call in find_all(file.tree.module, cst.Call):
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "backward":
            continue
        line = file.tree.line(file.tree.statement(call))
        if not file.steps.in_sight(call) or not isinstance(line, cst.SimpleStatementLine):
            continue
        found = _of(file, call, file.code(func.value), line)
        if found is not None:
            yield found


def _of(file: FileFacts, backward: cst.Call, loss: str, line: cst.BaseStatement) -> ForwardPass | None:
    block = file.tree.block(line)
    above = block[: block.index(line)]
    start = max((at + 1 for at, each in enumerate(above) if _ends_pass(each)), default=0)
    computing = _slice(file, above[start:], loss)
    models = [each for each in computing if _calls_model(file, each)]
    if not models:
        return None
    losses = computing[computing.index(models[-1]) + 1 :]
    is_fitting = all(_fits(file, each) for each in losses)
    last = computing[-1] if is_fitting else models[-1]
    outputs = {name for each in models if not _loses(file, each) for name in _bound(file, each)}
    reads = [read for each in losses for read in find_all(each, cst.Name) if file.code(read) in outputs]
    where = _device_of(file, models, computing[computing.index(models[0]) :])
    return ForwardPass(
        backward,
        models[0],
        last,
        where,
        () if is_fitting else tuple(read for read in reads if file.flow.is_read(read)),
        _prevented(file)
        or _unfit_inside(file, block[block.index(models[0]) : block.index(last) + 1])
        or _as_array(file, line, outputs)
        or ("" if is_fitting else _as_sequence(file, reads))
        or ("" if where is not None else "the device of the batch cannot be seen here"),
    )


def _unfit_inside(file: FileFacts, statements: Sequence[cst.BaseStatement]) -> str:
    """Why some statements cannot run under autocast: torch refuses some losses there."""
    for each in statements:
        for call in find_all(each, cst.Call):
            if "autocast" in file.code(call.func):
                return f"line {file.line(call)} chooses a precision already"
            if _UNFIT_LOSS.search(file.value(call.func).name or file.qualified(call) or ""):
                return (
                    f"autocast refuses the loss on line {file.line(call)}, which is computed together with the output"
                )
    for around in file.tree.ancestors(statements[0]):
        if isinstance(around, cst.With) and any("autocast" in file.code(item) for item in around.items):
            return f"line {file.line(around)} chooses a precision already"
    for cls in file.classes:
        for method in cls.methods.values() if cls.is_module else ():
            code = file.code(method)
            if "autocast" in code:
                return f"`{cls.name}` chooses a precision already"
            if _UNFIT_LOSS.search(code):
                return f"autocast refuses a loss that `{cls.name}` computes"
    return ""


def _as_array(file: FileFacts, line: cst.BaseStatement, outputs: Collection[str]) -> str:
    """Why outputs have to stay float32: an array is made of one, which NumPy has no bfloat16 for."""
    is_bfloat16 = file.policy.half_type is HalfType.BFLOAT16
    why = "and NumPy has no bfloat16" if is_bfloat16 else "which would be of float16"
    for each in file.tree.block(line):
        for call in find_all(each, cst.Call):
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value != "numpy":
                continue
            if any(name.value in outputs for name in find_all(func.value, cst.Name)):
                return f"line {file.line(call)} makes an array of an output, {why}"
    return ""


def _as_sequence(file: FileFacts, reads: Sequence[cst.Name]) -> str:
    """Why outputs cannot be given their float32 back: some are kept in a list."""
    kept = next((each for each in reads if file.value(each).kind is Kind.SEQUENCE), None)
    return f"line {file.line(kept)} reads outputs from `{kept.value}`, which is no tensor" if kept is not None else ""


def _loses(file: FileFacts, statement: cst.BaseStatement) -> bool:
    """Whether a statement computes a loss, which autocast leaves in float32."""
    return any(_is_loss(file, call) for call in find_all(statement, cst.Call))


def _prevented(file: FileFacts) -> str:
    for pattern, reason in _WHY:
        found = first_mention(file, pattern)
        if found is not None:
            return f"{found[1]} {reason}"
    wide = file.once(computing_in_float64)
    return f"line {file.line(wide)} computes in float64" if wide is not None else ""


def _slice(file: FileFacts, statements: Sequence[cst.BaseStatement], loss: str) -> list[cst.BaseStatement]:
    """Those of some statements that a loss is computed by, in order."""
    wanted = {loss}
    found: list[cst.BaseStatement] = []
    for each in reversed(statements):
        if wanted.isdisjoint(_bound(file, each)):
            continue
        found.insert(0, each)
        wanted |= {name.value for name in find_all(each, cst.Name) if file.flow.is_read(name)}
    return found


def _bound(file: FileFacts, statement: cst.BaseStatement) -> set[str]:
    """The names and attributes that a statement binds, as code."""
    targets: list[cst.BaseExpression] = []
    for node in find_in_scope(statement, cst.Assign, cst.AugAssign, cst.AnnAssign):
        if isinstance(node, cst.Assign):
            targets += [target.target for target in node.targets]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign)):
            targets.append(node.target)
    parts = [part for target in targets for part in (find_any(target, cst.Name, cst.Attribute))]
    return {file.code(part) for part in parts}


def _ends_pass(statement: cst.BaseStatement) -> bool:
    """Whether a statement runs a backward pass or an optimizer's step: what follows belongs to another pass."""
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value in ("backward", "step")
        for call in find_all(statement, cst.Call)
    )


def _calls_model(file: FileFacts, statement: cst.BaseStatement) -> bool:
    """Whether a statement calls a model with parameters, or what may be one: a variable that is no function."""
    return any(_is_model(file, call) for call in find_all(statement, cst.Call))


def _is_model(file: FileFacts, call: cst.Call) -> bool:
    value = file.value(call.func)
    if value.kind is Kind.MODULE:
        return not _LOSS.search(value.name or "")
    if file.qualified(call) is not None or not call.args:
        return False
    func = call.func
    if isinstance(func, cst.Name):
        is_bare = file.values.calls.resolve(call) is None and file.flow.is_variable(func)
        return is_bare and not _NO_MODEL.search(func.value)
    is_own = isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.value.value == "self"
    return is_own and isinstance(func, cst.Attribute) and func.attr.value in ("model", "net", "network")


def _fits(file: FileFacts, statement: cst.BaseStatement) -> bool:
    """Whether a statement behind the model may stay under autocast: torch's own losses, of which it knows the types."""
    calls = list(find_all(statement, cst.Call))
    return bool(calls) and all(_is_loss(file, call) or _keeps_values(call) for call in calls)


def _is_loss(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call computes a loss that autocast computes in float32."""
    if (file.qualified(call) or "") in _FITTING_LOSSES:
        return True
    value = file.value(call.func)
    is_module = value.kind is Kind.MODULE and bool(_LOSS.search(value.name or ""))
    return is_module and not _UNFIT_LOSS.search(value.name or "")


def _keeps_values(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _HOUSEKEEPING


def _device_of(
    file: FileFacts, models: Sequence[cst.BaseStatement], computing: Sequence[cst.BaseStatement]
) -> cst.Name | None:
    """The script's own device, or else a name that a model is given, and that is bound above the pass."""
    for read in find_all(file.tree.module, cst.Name):
        is_here = file.tree.function(read) is file.tree.function(models[0])
        if read.value in ("device", "DEVICE") and is_here and file.value(read).kind is Kind.DEVICE:
            return read
    bound: set[str] = set()
    for statement in computing:
        for call in find_all(statement, cst.Call) if statement in models else ():
            given = (arg.value for arg in call.args if not arg.star and _is_model(file, call))
            name = next((each for each in given if isinstance(each, cst.Name) and each.value not in bound), None)
            if name is not None:
                return name
        bound |= _bound(file, statement)
    return None
