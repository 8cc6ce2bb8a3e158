"""What to write so that a term stays on the device: tensors for reads and divisors, nothing for `float()` around it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._float64 import missing_float64
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    can_ask_for_device,
    kept_on_device,
    tensor_doubts,
)
from perfmod.transforms.syncs._never_zero import is_never_zero, raise_if_zero
from perfmod.transforms.syncs._terms import Term, dtype_of
from perfmod.transforms.writing import replace


def kept_term(
    file: FileFacts, term: Term, dtype: DType, *, stored: Collection[HostRead] = (), is_alone: bool = True
) -> tuple[list[Edit], list[str], list[str]]:
    """Edits that leave a term on the device, the imports that they need, and what is taken for granted.

    `dtype` is that of what the term goes into; `stored` are the reads whose tensors are kept beyond the step;
    `is_alone` says that no other term goes there.

    Raises:
        CannotRewrite: the device would give another number.
    """
    edits: list[Edit] = []
    imports: list[str] = []
    doubts = [f"`{file.code(operand)}` is taken for a Python number" for operand in term.unknown]
    missing = missing_float64(file) if dtype is DType.FLOATING else None
    # Where float64 is missing the figure stays a number, and no tensor may divide it.
    by_device = missing is not None and not term.divisions and all(map(can_ask_for_device, term.reads))
    carriers: list[tuple[cst.BaseExpression, DType]] = [(node, variable.dtype) for node, variable in term.through]
    carriers += [(call, dtype_of(file, returned) or DType.FLOATING) for call, returned in term.calls]
    for node, own in carriers:
        if dtype is DType.FLOATING and own is not DType.FLOATING:
            end = file.source.span(node)[1]
            edits.append(Edit(end, end, ".double()"))
    for read in term.reads:
        doubts += tensor_doubts(file, read)
        is_stored = read in stored
        edits.append(kept_on_device(file, read, dtype, is_stored=is_stored, is_alone=is_alone, needs_cuda=by_device))
    for edit, needed in _divisors_on_device(file, term, doubts):
        edits.append(edit)
        imports += needed
    for call, inner in term.conversions:
        edits += _unwrapped(file, call, inner)
    return joined(edits), imports, [*doubts, *([missing] if missing is not None and not by_device else [])]


def joined(edits: Iterable[Edit]) -> list[Edit]:
    """Edits of which those that insert something at one place are one, each thing once."""
    inserted: dict[tuple[str, int], dict[str, None]] = {}
    others: dict[Edit, None] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted.setdefault((edit.path, edit.start), {})[edit.replacement] = None
        else:
            others[edit] = None
    return [*others, *(Edit(at, at, "".join(texts), path) for (path, at), texts in inserted.items())]


def _divisors_on_device(file: FileFacts, term: Term, doubts: list[str]) -> Iterator[tuple[Edit, tuple[str, ...]]]:
    """Edits that make divisors tensors, and their imports; by numbers, CUDA multiplies with rounded reciprocals.

    Raises:
        CannotRewrite: there is no tensor to make the divisor like.
    """
    for division in term.divisions:
        divisor = division.right
        code = file.code(divisor)
        numerators = [read.tensor for read in term.reads if file.tree.is_within(read.call, division.left)]
        numerators += [node for node, _ in term.through if file.tree.is_within(node, division.left)]
        named = [node for node in numerators if isinstance(node, (cst.Name, cst.Attribute))]
        nearby = [node for tensor in numerators for node in find_all(tensor, cst.Name) if _is_on_device(file, node)]
        torch, imports = file.names.spelled("torch", divisor)
        if named:
            text = f"{torch}.full_like({file.code(named[0])}, {code}, dtype={torch}.float64)"
        elif nearby:
            device = f"{file.code(nearby[0])}.device"
            text = f"{torch}.full((), {code}, dtype={torch}.float64, device={device})"
        else:
            raise CannotRewrite(f"the device divides by `{code}` with other last digits than Python")
        if not is_never_zero(file, divisor):
            raised = raise_if_zero(file, divisor)
            if raised is not None:
                yield raised, ()
            else:
                doubts.append(f"that `{code}` is never zero could not be shown, and only Python raises then")
        yield replace(file.source, divisor, text), imports


def _is_on_device(file: FileFacts, node: cst.Name) -> bool:
    value = file.value(node)
    return file.flow.is_read(node) and value.is_tensor and value.device is not Device.CPU


def _unwrapped(file: FileFacts, call: cst.Call, inner: cst.BaseExpression) -> Iterator[Edit]:
    """`float(a.item() + b.item())` as `(a.item() + b.item())`: `float()` of a tensor would read it."""
    source = file.source
    (start, end), code = source.span(call), source.whole_code(inner)
    first = source.span(inner.lpar[0])[0] if inner.lpar else source.span(inner)[0]
    before, behind = source.text[start:first], source.text[first + len(code) : end]
    if "#" in before + behind:
        raise CannotRewrite("a comment stands inside the read")
    is_atom = bool(inner.lpar) or isinstance(inner, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    yield Edit(start, first, "" if is_atom else "(")
    yield Edit(first + len(code), end, "" if is_atom else ")")
