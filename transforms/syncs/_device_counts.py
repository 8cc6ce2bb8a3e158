"""Scalars that are added to a tensor which lives on the device already: `seen += mask.sum().item()`.

Such a counter stays what it is, so that nothing that reads it has to change: in place, a tensor of integers takes the
number and the tensor of one integer alike, keeps its type, and raises for floats in both cases. What `sum()` gives may
also be a number of NumPy's, which is added like one of Python's.

A tensor of float32 or float64 takes a scalar alike, too: whatever type the scalar has, the number of Python's that it
becomes has all its bits, and both are rounded to the tensor's type before they are added. Shorter types are left: they
add a number before they round it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    detached,
    has_no_dimensions,
    is_count,
    tensor_doubts,
    without_read,
)
from perfmod.transforms.syncs._kept_terms import kept_term
from perfmod.transforms.syncs._moved_sums import Moved
from perfmod.transforms.syncs._places import contents
from perfmod.transforms.syncs._report_figures import several_devices
from perfmod.transforms.syncs._sums import require_unshared
from perfmod.transforms.syncs._terms import Term, term_of

_MAKES_FLOATS = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
_WIDE = frozenset({"torch.float32", "torch.float", "torch.float64", "torch.double"})
_LOOKS = frozenset({"items", "keys", "values", "get"})


def counted_on_device(file: FileFacts, target: cst.BaseExpression, statements: Sequence[cst.CSTNode]) -> Moved | None:
    """Edits that add tensors to a counter; `None` where the target could not be shown to be one.

    Raises:
        CannotRewrite: what is added may be something else than integers, or has to be a number.
    """
    if not all(isinstance(s, cst.AugAssign) and isinstance(s.operator, cst.AddAssign) for s in statements):
        return None
    first = list(_first_values(file, target))
    if not first or not all(file.value(value).is_tensor for value in first):
        return None
    _require_counter(file, target, first)
    if any(file.value(value).dtype is DType.FLOATING for value in first):
        return _added_to_floats(file, target, statements, first)
    edits, imports, doubts, terms = [], [], [], []
    for statement in statements:
        term = term_of(file, cst.ensure_type(statement, cst.AugAssign).value)
        _require_integers(file, target, term)
        counts = [read for read in term.reads if is_count(read)]
        edits += [without_read(file, read, "") for read in counts]
        term.reads = [read for read in term.reads if read not in counts]
        written, needed, missing = kept_term(file, term, DType.INTEGER, is_alone=False)
        edits += written
        imports += needed
        doubts += missing
        terms.append(term)
    return Moved(f"`{file.code(target)}`", edits, imports, doubts, (), terms)


def _added_to_floats(
    file: FileFacts,
    target: cst.BaseExpression,
    statements: Sequence[cst.CSTNode],
    first: Sequence[cst.BaseExpression],
) -> Moved:
    code = file.code(target)
    narrow = next((value for value in first if not _is_wide(file, value)), None)
    if narrow is not None:
        raise CannotRewrite(f"`{code}` is a tensor, and that it is of float32 or float64 could not be shown")
    edits, doubts, terms = [], [], []
    for statement in statements:
        value = cst.ensure_type(statement, cst.AugAssign).value
        term = term_of(file, value)
        if len(term.reads) != 1 or term.reads[0].call is not value:
            raise CannotRewrite(f"`{code}` is a tensor, and what is added to it is computed in 64 bits before")
        read = term.reads[0]
        shape = "" if has_no_dimensions(file, read) else ".reshape(())"
        edits.append(without_read(file, read, detached(file, read) + shape))
        doubts += tensor_doubts(file, read)
        terms.append(term)
    return Moved(f"`{code}`", edits, (), doubts, (), terms)


def _is_wide(file: FileFacts, made: cst.BaseExpression) -> bool:
    """Whether a new tensor is of float32, as tensors are unless somebody asks for another type, or float64."""
    if not isinstance(made, cst.Call):
        return False
    is_literal = (
        file.qualified(made) == "torch.tensor" and bool(made.args) and isinstance(made.args[0].value, cst.Float)
    )
    if not is_literal and file.qualified(made) not in _MAKES_FLOATS:
        return False
    if any(file.code(name).startswith("set_default_") for name in find_all(file.tree.module, cst.Name)):
        return False
    dtypes = [arg.value for arg in made.args if arg.keyword is not None and arg.keyword.value == "dtype"]
    return all(file.qualified(dtype) in _WIDE for dtype in dtypes)


def _require_integers(file: FileFacts, target: cst.BaseExpression, term: Term) -> None:
    code = file.code(target)
    if not term.is_fed:
        raise CannotRewrite(f"`{code}` is a tensor, and what is added to it has to be a number elsewhere")
    is_read = all(read.dtype is DType.INTEGER or is_count(read) for read in term.reads)
    if not is_read or term.calls or any(variable.term.dtype is not DType.INTEGER for _, variable in term.variables()):
        raise CannotRewrite(f"`{code}` is a tensor, and that integers are added to it could not be shown")


def _require_counter(file: FileFacts, target: cst.BaseExpression, first: Sequence[cst.BaseExpression]) -> None:
    """Raise where a tensor may lie on another device, or where it is not known whether it holds integers."""
    code = file.code(target)
    second = several_devices(file)
    if second is not None:
        raise CannotRewrite(f"`{code}` is a tensor, and the file uses several devices (line {file.line(second)})")
    for value in map(file.value, first):
        if value.device is not Device.ACCELERATOR:
            raise CannotRewrite(f"`{code}` is a tensor that may lie on the host, which takes none of the device's")
        if value.dtype not in (DType.INTEGER, DType.FLOATING):
            raise CannotRewrite(f"`{code}` is a tensor, and whether it holds integers or floats could not be shown")


def _first_values(file: FileFacts, target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What sets the target, but for what is added in place; nothing where that is not known."""
    if isinstance(target, cst.Name):
        require_unshared(file, target.value)
        bound = file.flow.bound(file.tree.scope(target), target.value)
        parts = [d.part if d.binding is Binding.ASSIGNED else None for d in bound if d.binding is not Binding.AUGMENTED]
        if None not in parts:
            yield from (part for part in parts if part is not None)
    elif isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
        try:
            held = contents(file, target)
        except CannotRewrite:
            return
        uses = [use for d in file.flow.definitions(target.value) for use in file.flow.uses(d)]
        if held.factory is None and all(_keeps_entries(file, use) or _is_behind(file, use, target) for use in uses):
            yield from held.values


def _keeps_entries(file: FileFacts, use: cst.BaseExpression) -> bool:
    """Whether the use of a dictionary leaves its entries the objects that they are."""
    parent = file.tree.parent(use)
    if isinstance(parent, cst.Subscript):
        return parent.value is use and not isinstance(file.tree.parent(parent), cst.Del)
    if isinstance(parent, cst.Attribute):
        return parent.attr.value in _LOOKS
    return isinstance(parent, (cst.For, cst.CompFor, cst.ComparisonTarget, cst.FormattedStringExpression))


def _is_behind(file: FileFacts, use: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether code stands behind all loops around the target, with which it shares none."""
    loops = file.tree.loops(target)
    return bool(loops) and not file.tree.is_within(use, loops[-1]) and file.comes_before(loops[-1], use)
