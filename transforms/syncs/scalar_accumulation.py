"""Losses and counts that are read from the device in every step, only to be added up.

`running_loss += loss.item()` asks for a number that the device has not computed yet: the host stops, waits
until the queue of kernels has run dry, and only then starts to queue the next step. The number is needed much
later, where the mean of an epoch is printed. So the sum moves to the device: the loss is detached from its
graph, added up there, and read once, at the places that use the figure.

    running_loss = 0.0                              running_loss = 0.0
    for x, y in loader:                             for x, y in loader:
        ...                                             ...
        running_loss += loss.item()                     running_loss += loss.detach().double()
    print(running_loss / len(loader))               print(float(running_loss) / len(loader))

Python adds floats in 64 bits, so the device does as well, and the printed figure is the same to the last
digit. Counts stay integers. Losses that are collected in a list become numbers behind the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.values import DType
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.syncs import _kept_lists
from perfmod.transforms.syncs._figures import as_number, number_type
from perfmod.transforms.syncs._host_reads import (
    CannotRewrite,
    HostRead,
    host_read,
    kept_on_device,
    require_scalar,
)
from perfmod.transforms.syncs._sums import RunningSum, Site, collect, target_of, variable_uses
from perfmod.transforms.writing import replace

# Devices without float64, as they are named in scripts.
_NO_FLOAT64 = re.compile(r"""["'](mps|xpu)(?::\d+)?["']|torch\.backends\.(mps)\b""")
# What picks the best device of the machine, which is MPS on a Mac.
_CHOOSES_DEVICE = re.compile(r"\btorch\.accelerator\b|\bAccelerator\(|\bFabric\(")


_Place = tuple[cst.CSTNode, str]
"""A variable, attribute or entry: the scope or class that it belongs to, and its code."""


class ScalarAccumulation(Rule):
    """Moves sums and lists of scalars to the device."""

    code = "PM106"
    name = "scalar-accumulation"
    family = Family.SYNCS
    summary = "a scalar is read from the device in every step, to be added up or collected"
    fix_title = "accumulate on the device and read once"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.STABLE
    triggers = frozenset({"item", "float", "int"})
    references = ("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",)
    changes_results = (
        "The training is the same to the bit, and so is every figure that is printed or returned: floats are "
        "added up in float64, counts in int64, as Python does. An error that the device reports late (a "
        "failed assertion in a kernel) shows up at the line that reads the sum. Where the loader is empty, a "
        "mean that divides 0 by 0 still raises ZeroDivisionError; up to Python 3.13 its text may say “float "
        "division by zero”."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Every sum and list that is fed from the device, and the reads that steer the training."""
        sums: dict[_Place, dict[cst.CSTNode, None]] = {}
        targets: dict[_Place, cst.BaseExpression] = {}
        lists: dict[_Place, list[HostRead]] = {}
        for call in find_all(file.tree.module, cst.Call):
            read = host_read(file, call)
            if read is None or not _runs_every_step(file, call):
                continue
            fed = _feeds(file, read)
            target = target_of(file, fed) if fed is not None else None
            appended = _kept_lists.appended_to(file, read)
            if fed is not None and target is not None:
                place = _place(file, target)
                targets[place] = target
                sums.setdefault(place, {})[fed] = None
            elif appended is not None:
                lists.setdefault(_place(file, appended), []).append(read)
            else:
                reason = _why_needed(file, read)
                if reason is not None:
                    yield self.refused(file, call, reason)
        for place, statements in sums.items():
            yield self._summed(file, targets[place], list(statements))
        for reads in lists.values():
            yield self._listed(file, reads)

    def _summed(self, file: FileFacts, target: cst.BaseExpression, statements: list[cst.CSTNode]) -> Finding:
        try:
            return self._moved(file, collect(file, target, statements))
        except CannotRewrite as refusal:
            return self.refused(file, statements[0], str(refusal))

    def _moved(self, file: FileFacts, found: RunningSum) -> Finding:
        dtype = _dtype(found)
        _require_late_uses(file, found)
        doubts = _doubts(file, found, dtype)
        edits: list[Edit] = []
        imports: dict[str, None] = {}
        for site in found.sites:
            for read in site.term.reads:
                require_scalar(file, read)
                if len(found.sites) > 1 and file.value(read.tensor).rank != 0:
                    raise CannotRewrite("whether all the tensors have the same shape could not be shown")
                edits.append(kept_on_device(file, read, dtype))
            for edit, needed in _divisions(file, site):
                edits.append(edit)
                imports.update(dict.fromkeys(needed))
        for use in found.uses:
            may_be_int = any(start.dtype is DType.INTEGER for start in use.starts)
            written, needed = as_number(file, use.node, dtype, may_be_int=may_be_int)
            edits += written
            imports.update(dict.fromkeys(needed))
        for changed in found.changed:
            edits += _as_assignment(file, changed, dtype)
        lines = sorted(
            {file.source.line(node) for node in (*(use.node for use in found.uses), *found.changed)}
        )
        where = f"on line {', '.join(map(str, lines))}" if lines else "nowhere"
        return self.found(
            file,
            found.sites[0].statement,
            doubts[0] if doubts else f"`{found.label}` is only read outside the step, {where}",
            edits,
            safety=Safety.UNSAFE if doubts else None,
            imports=imports,
        )

    def _listed(self, file: FileFacts, reads: list[HostRead]) -> Finding:
        target = _kept_lists.appended_to(file, reads[0])
        assert target is not None
        try:
            looped = [(read, _step_loop(file, read.call)) for read in reads]
            edits, imports = _kept_lists.keep_on_device(file, target, looped)
        except CannotRewrite as refusal:
            return self.refused(file, reads[0].call, str(refusal))
        reason = f"`{file.source.code(target)}` is only read outside the steps"
        return self.found(file, reads[0].call, reason, edits, imports=imports)


def _place(file: FileFacts, target: cst.BaseExpression) -> _Place:
    own = file.classes.self_attribute(target)
    return (own[0].node if own is not None else file.tree.scope(target)), file.source.code(target)


def _runs_every_step(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether steps come by; in files without any, whether a loop does."""
    return file.steps.runs_every_step(node) and (file.steps.found or bool(file.tree.loops(node)))


def _step_loop(file: FileFacts, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop of which each round is a step, or the innermost loop in files without steps."""
    region = file.steps.region(node)
    if isinstance(region, (cst.For, cst.While)):
        return region
    loops = file.tree.loops(node)
    return loops[0] if loops and not file.steps.found else None


def _feeds(file: FileFacts, read: HostRead) -> cst.CSTNode | None:
    """The statement that adds the read to something, directly or through a variable."""
    statement = file.tree.statement(read.call)
    if target_of(file, statement) is not None:
        return statement
    for use in variable_uses(file, read):
        through = file.tree.statement(use)
        if target_of(file, through) is not None and _runs_every_step(file, through):
            return through
    return None


def _why_needed(file: FileFacts, read: HostRead) -> str | None:
    """Why a read that feeds no sum has to stay, if it is a usual one; reports are another rule's."""
    places: list[cst.CSTNode] = [read.call, *variable_uses(file, read)]
    for place in places:
        line = file.source.line(place)
        child: cst.CSTNode = place
        for parent in file.tree.ancestors(place):
            if isinstance(parent, (cst.If, cst.While, cst.Assert)) and child is parent.test:
                return f"the figure decides on line {line} how the training goes on"
            if isinstance(parent, cst.Return):
                return (
                    f"the figure is returned in every step on line {line}, and the callers may need a number"
                )
            if isinstance(parent, cst.Call) and child is not parent.func:
                reason = _why_metered(file, parent.func)
                if reason is not None:
                    return reason
            if isinstance(parent, cst.BaseSmallStatement):
                break
            child = parent
    return None


def _doubts(file: FileFacts, found: RunningSum, dtype: DType) -> list[str]:
    """What is nearly always so, but was not shown. Raises `CannotRewrite` for scripts without float64."""
    doubts = [
        f"`{file.source.code(operand)}` is taken for a Python number"
        for site in found.sites
        for operand in site.term.unknown
    ]
    if dtype is DType.FLOATING:
        device = _NO_FLOAT64.search(file.source.text)
        if device is not None:
            raise CannotRewrite(f'the script may run on "{device[1] or device[2]}", which has no float64')
        chooser = _CHOOSES_DEVICE.search(file.source.text)
        if chooser is not None:
            doubts.append(f"`{chooser[0]}` may choose a device without float64, such as MPS")
    return doubts


def _why_metered(file: FileFacts, func: cst.BaseExpression) -> str | None:
    """Why `meter.update(figure)` has to get a number."""
    if not (isinstance(func, cst.Attribute) and func.attr.value == "update"):
        return None
    code, cls = file.source.code(func), file.value(func.value).cls
    method = cls.method("update") if cls is not None else None
    if cls is None or method is None:
        return f"what `{code}` does with the figure could not be shown: its class is not in this file"
    line = file.source.line(method)
    return f"`{cls.name}` keeps the figure for readers that expect a number (line {line})"


def _dtype(found: RunningSum) -> DType:
    """Whether Python's sum is a float or an integer, whichever way the steps go."""
    terms = {site.term.dtype for site in found.sites}
    starts = {start.dtype for start in found.starts}
    if not starts <= {DType.INTEGER, DType.FLOATING}:
        raise CannotRewrite(f"whether `{found.label}` starts as an integer or a float could not be shown")
    if terms | starts == {DType.INTEGER}:
        return DType.INTEGER
    if starts == {DType.FLOATING} or (terms == {DType.FLOATING} and not found.kept):
        return DType.FLOATING
    raise CannotRewrite(f"whether `{found.label}` is an integer or a float could not be shown")


def _require_late_uses(file: FileFacts, found: RunningSum) -> None:
    loops = [_step_loop(file, site.statement) for site in found.sites]
    for node in (*(use.node for use in found.uses), *found.changed):
        inside = any(loop is not None and _is_repeated(file, node, loop) for loop in loops)
        if (inside or (file.steps.found and file.steps.in_sight(node))) and not file.steps.is_gated(node):
            raise CannotRewrite(f"`{found.label}` is read in every step on line {file.source.line(node)}")


def _is_repeated(file: FileFacts, node: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    parts = [loop.body, *([loop.test] if isinstance(loop, cst.While) else [])]
    return any(file.tree.is_within(node, part) for part in parts)


def _divisions(file: FileFacts, site: Site) -> Iterator[tuple[Edit, tuple[str, ...]]]:
    """Divisors as tensors: on CUDA, dividing by a Python number multiplies by its rounded reciprocal."""
    for division in site.term.divisions:
        divisor = division.right
        code = file.source.code(divisor)
        like = [read.tensor for read in site.term.reads if file.tree.is_within(read.call, division.left)]
        if not like or not isinstance(like[0], (cst.Name, cst.Attribute)):
            raise CannotRewrite(f"the device divides by `{code}` with other last digits than Python")
        if not _is_never_zero(file, divisor):
            raise CannotRewrite(
                f"that `{code}` is never zero could not be shown, and only Python raises then"
            )
        torch, imports = file.names.spelled("torch", divisor)
        text = f"{torch}.full_like({file.source.code(like[0])}, {code}, dtype={torch}.float64)"
        yield replace(file.source, divisor, text), imports


def _is_never_zero(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value != 0
    if not (isinstance(node, cst.Call) and file.qualified(node) == "builtins.len" and len(node.args) == 1):
        return False
    # What a loop around goes through is not empty.
    iterated = file.source.code(node.args[0].value)
    return any(
        isinstance(loop, cst.For)
        and any(file.source.code(part) == iterated for part in _iterables(loop.iter))
        for loop in file.tree.loops(node)
    )


def _iterables(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """An iterable and what `enumerate()` or a progress bar around it goes through."""
    yield node
    if isinstance(node, cst.Call) and node.args and not isinstance(node.func, cst.Subscript):
        yield from _iterables(node.args[0].value)


def _as_assignment(file: FileFacts, statement: cst.AugAssign, dtype: DType) -> list[Edit]:
    """`total /= n` as `total = float(total) / n`: in place, the division would stay on the device."""
    source = file.source
    (target_start, target_end), (value_start, value_end) = (
        source.span(statement.target),
        source.span(statement.value),
    )
    operator = source.text[target_end:value_start]
    code = source.text[target_start:target_end]
    if "=" not in operator or "#" in operator or "(" in operator:
        raise CannotRewrite(f"the statement on line {source.line(statement)} is written in an unusual way")
    builtin = number_type(file, statement, dtype)
    symbol = operator.strip()[:-1]
    is_atom = isinstance(statement.value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber))
    edits = [Edit(target_end, value_start, f" = {builtin}({code}) {symbol} " + ("" if is_atom else "("))]
    return edits if is_atom else [*edits, Edit(value_end, value_end, ")")]
