"""`if mask.any():` in front of writes under the mask: under an empty mask they change nothing, so nothing
has to be asked.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.ranks import keyword
from perfmod.transforms.facts.tree import find_all, is_none, walk
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs._branches import Rewrite
from perfmod.transforms.syncs._conditions import is_total, shown, tests_device
from perfmod.transforms.writing import dedent_block, replace

_ASKS = frozenset({"any", "sum", "count_nonzero"})
# Functions that autograd differentiates without their result.
_KEEPS_NO_RESULT = frozenset(
    {"clone", "matmul", "bmm", "mm", "add", "sub", "mul", "div", "neg", "linear", "zeros", "ones", "full",
     "empty", "zeros_like",
     "ones_like", "full_like", "empty_like", "randn", "rand", "tensor", "where", "masked_fill",
     "cat", "stack"}
)  # fmt: skip
_LOOKS_ONLY = frozenset(
    {"isnan", "isinf", "isfinite", "any", "all", "eq", "ne", "lt", "le", "gt", "ge", "size", "dim", "numel"}
)


def without_guard(file: FileFacts, node: cst.If) -> Rewrite | None:
    """The body of `if m.any():` alone, where every statement of it does nothing under an empty `m`; else
    `None`. Of `if m is not None and m.any():` the first half stays.
    """
    host, test = _halves(file, node.test)
    mask = _asked_mask(file, test)
    if mask is None or node.orelse is not None or (host is not None and "#" in file.code(node.test)):
        return None
    subjects = _all_written(file, node.body, mask)
    if subjects is None:
        return None
    edits = dedent_block(file.source, node) if host is None else (replace(file.source, node.test, file.code(host)),)
    reason = f"where {shown(file, mask)} selects nothing, the writes change nothing, so the `if` is not needed"
    if file.value(mask).dtype is not DType.BOOL and file.values.uses_bytes():
        doubt = f"{shown(file, mask)} may be a byte mask, which newer versions of PyTorch reject"
        return Rewrite(edits, doubt, Safety.UNSAFE)
    saved = [subject for subject in subjects if _may_be_saved(file, subject, node)]
    if saved:
        code = shown(file, saved[0])
        return Rewrite(
            edits,
            f"right unless autograd has saved {code} or it is trained: a write under an empty mask still "
            "counts as an in-place write",
            Safety.UNSAFE,
        )
    return Rewrite(edits, reason)


def _halves(file: FileFacts, test: cst.BaseExpression) -> tuple[cst.BaseExpression | None, cst.BaseExpression]:
    """What the host knows of `host and device`, and what it asks the device."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return (None, test) if tests_device(file, test.left) else (test.left, test.right)
    return None, test


def _all_written(file: FileFacts, body: cst.BaseSuite, mask: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """The tensors that a body writes numbers into under the mask; `None` where it does anything else.

    It may choose between such writes by `m.dim() == 2`.
    """
    subjects: list[cst.BaseExpression] = []
    if not isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite)):
        return None
    for item in body.body:
        if isinstance(item, cst.If):
            if not _counts_dimensions(file, item.test, mask):
                return None
            rest = item.orelse
            inside = [_all_written(file, item.body, mask)]
            if isinstance(rest, cst.If):
                inside.append(_all_written(file, cst.IndentedBlock([rest]), mask))
            elif rest is not None:
                inside.append(_all_written(file, rest.body, mask))
            for found in inside:
                if found is None:
                    return None
                subjects += found
            continue
        for statement in item.body if isinstance(item, cst.SimpleStatementLine) else [item]:
            subject = _written(file, statement, mask)
            if subject is None:
                return None
            subjects.append(subject)
    return subjects


def _counts_dimensions(file: FileFacts, test: cst.BaseExpression, mask: cst.BaseExpression) -> bool:
    """Whether a test compares the number of the mask's dimensions with a number, which every tensor can be asked."""
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1:
        return False
    asked, target = test.left, test.comparisons[0]
    func = asked.func if isinstance(asked, cst.Call) and not asked.args else asked
    if not isinstance(func, cst.Attribute) or func.attr.value not in ("dim", "ndim", "ndimension"):
        return False
    return isinstance(target.comparator, cst.Integer) and _is_same(file, func.value, mask)


def _asked_mask(file: FileFacts, test: cst.BaseExpression) -> cst.BaseExpression | None:
    """The boolean mask of `m.any()`, `torch.any(m)`, `m.sum() > 0`, `m.count_nonzero() != 0`,
    `m.any().item()`.
    """
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        target = test.comparisons[0]
        least = target.comparator.evaluated_value if isinstance(target.comparator, cst.Integer) else None
        positive = isinstance(target.operator, (cst.GreaterThan, cst.NotEqual)) and least == 0
        if not positive and not (isinstance(target.operator, cst.GreaterThanEqual) and least == 1):
            return None
        test = test.left
    if not isinstance(test, cst.Call):
        return None
    if isinstance(test.func, cst.Attribute) and test.func.attr.value == "item" and not test.args:
        return _asked_mask(file, test.func.value)
    name = file.qualified(test)
    mask: cst.BaseExpression | None = None
    if name == "builtins.bool" and len(test.args) == 1:
        return _asked_mask(file, test.args[0].value)
    if name is not None and name.removeprefix("torch.") in _ASKS and len(test.args) == 1:
        mask = test.args[0].value
    elif name is None and isinstance(test.func, cst.Attribute) and test.func.attr.value in _ASKS and not test.args:
        mask = test.func.value
    return mask if mask is not None and is_total(file, mask) else None


def _written(file: FileFacts, statement: cst.CSTNode, mask: cst.BaseExpression) -> cst.BaseExpression | None:
    """The tensor that a statement writes a number into where `mask` is true, and nowhere else."""
    if isinstance(statement, cst.Expr):
        call = statement.value
        if not (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "masked_fill_"
        ):
            return None
        values = [arg.value for arg in call.args]
        # `masked_fill_` takes boolean masks only.
        written = len(values) == 2 and _is_same(file, _seen(values[0]), mask) and _is_plain_number(file, values[1])
        return call.func.value if written and file.value(call.func.value).is_tensor else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return None
    target = statement.targets[0].target
    if (
        not isinstance(target, cst.Subscript)
        or len(target.slice) != 1
        or not isinstance(target.slice[0].slice, cst.Index)
    ):
        return None
    boolean = file.value(mask).is_tensor and file.value(mask).dtype is DType.BOOL
    same = _is_same(file, target.slice[0].slice.value, mask) and _is_plain_number(file, statement.value)
    return target.value if boolean and same and file.value(target.value).is_tensor else None


def _seen(mask: cst.BaseExpression) -> cst.BaseExpression:
    """`m` of views that only add dimensions, such as `m[:, None]` and `m.unsqueeze(1)`: empty where `m` is."""
    while True:
        func = mask.func if isinstance(mask, cst.Call) else None
        if isinstance(mask, cst.Subscript) and all(_adds_dimension(element.slice) for element in mask.slice):
            mask = mask.value
        elif isinstance(func, cst.Attribute) and func.attr.value == "unsqueeze":
            mask = func.value
        else:
            return mask


def _adds_dimension(part: cst.BaseSlice) -> bool:
    """Whether an index takes a whole dimension, or adds one."""
    if isinstance(part, cst.Slice):
        return part.lower is None and part.upper is None and part.step is None
    added = part.value if isinstance(part, cst.Index) else None
    return isinstance(added, cst.Ellipsis) or is_none(added)


def _is_same(file: FileFacts, node: cst.BaseExpression, mask: cst.BaseExpression) -> bool:
    """Whether two expressions are the same code, with the same variables bound at the same places."""
    if file.whole_code(node) != file.whole_code(mask):
        return False
    pairs = zip(find_all(node, cst.Name), find_all(mask, cst.Name), strict=True)
    return all(
        not file.flow.is_read(one) or file.flow.definitions(one) == file.flow.definitions(other) for one, other in pairs
    )


def _is_plain_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    if any(isinstance(part, (cst.Subscript, cst.NamedExpr, cst.Await, cst.BinaryOperation)) for part in walk(node)):
        return False
    if isinstance(node, cst.Call):
        return file.qualified(node) == "builtins.float" and all(
            isinstance(arg.value, cst.SimpleString) for arg in node.args
        )
    return file.value(node).kind is Kind.NUMBER


def _may_be_saved(file: FileFacts, subject: cst.BaseExpression, guard: cst.If) -> bool:
    """Whether autograd may hold a tensor from before `guard`, and miss it if it is written to."""
    if isinstance(subject, cst.Attribute) and subject.attr.value in ("data", "grad"):
        return False
    if not isinstance(subject, cst.Name):
        return True
    definitions = file.flow.definitions(subject)
    return (
        not definitions
        or any(_is_saved_result(file, definition) for definition in definitions)
        or any(
            _may_run_before(file, definition, use, guard) and not _only_looks(file, use)
            for definition in definitions
            for use in file.flow.uses(definition)
        )
    )


def _may_run_before(file: FileFacts, definition: Definition, use: Read, guard: cst.If) -> bool:
    """Whether a use stands above the guard, or below it in a loop whose next round comes to the guard with the same
    tensor.
    """
    if not file.comes_before(guard, use):
        return True
    around = file.tree.loops(guard)
    return any(file.tree.is_within(use, loop) and not file.tree.is_within(definition.node, loop) for loop in around)


def _is_saved_result(file: FileFacts, definition: Definition) -> bool:
    value = definition.value
    if definition.binding is Binding.LOOPED:
        return file.values.of_definition(definition).origin is None
    if definition.binding is not Binding.ASSIGNED or value is None:
        return True
    if file.value(value).origin is not None or file.values.of_definition(definition).dtype is DType.BOOL:
        return False
    if definition.path:
        return True
    if isinstance(value, cst.BinaryOperation):
        return not isinstance(value.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.MatrixMultiply))
    if isinstance(value, cst.Call):
        name = file.qualified(value) or (value.func.attr.value if isinstance(value.func, cst.Attribute) else "")
        if name == "torch.einsum":
            # Of several operands it makes products; of one it may give a view.
            given = [arg.value for arg in value.args[1:] if not arg.star]
            several = given[0].elements if len(given) == 1 and isinstance(given[0], (cst.Tuple, cst.List)) else given
            return len(several) < 2
        is_leaf = keyword(value.args, "requires_grad") is not None  # a write into it raises
        return name.rpartition(".")[2] not in _KEEPS_NO_RESULT or is_leaf or keyword(value.args, "out") is not None
    return not isinstance(value, cst.UnaryOperation)


def _only_looks(file: FileFacts, use: Read) -> bool:
    """Whether a read of a tensor leaves nothing with autograd: a comparison, `isnan(t)`, `t.shape`, a write
    into it.
    """
    parent = file.tree.parent(use)
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)) or file.aliasing.mutates(use):
        return True
    if isinstance(parent, cst.Attribute):
        call = file.tree.parent(parent)
        called = isinstance(call, cst.Call) and call.func is parent
        return parent.attr.value in (_LOOKS_ONLY if called else {"shape", "dtype", "device", "ndim"})
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and (file.qualified(call) or "").rpartition(".")[2] in _LOOKS_ONLY
