"""Meters such as `AverageMeter` that every step gives a scalar of the device: `losses.update(loss.item(), n)`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import has_star, passed
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Edit
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead
from perfmod.transforms.syncs._meter_class import Meter, understood
from perfmod.transforms.syncs._meter_edits import class_edits
from perfmod.transforms.syncs._meter_uses import MeterUses
from perfmod.transforms.syncs._moved_sums import Moved
from perfmod.transforms.syncs._never_zero import is_never_zero
from perfmod.transforms.syncs._terms import Term, kept_term, term_of, variable_uses
from perfmod.transforms.syncs._when import runs_every_step

# What makes floating-point tensors of 64 bits by hand, and what may bring arrays of them.
_DOUBLE = re.compile(r"\b(double|float64|DoubleTensor)\b")
_ARRAYS = re.compile(r"\b(numpy|np)\b")


@frozen
class Site:
    """One call of `update` that is given scalars of the device."""

    call: cst.Call
    figure: cst.BaseExpression
    term: Term


def metered_by(file: FileFacts, read: HostRead) -> ClassFacts | None:
    """The class of this file to whose `update` a step gives the figure, directly or through a variable."""
    found = (metered_at(file, place) for place in (read.call, *variable_uses(file, read)))
    return next((cls for cls in found if cls is not None), None)


def metered_at(file: FileFacts, node: cst.CSTNode) -> ClassFacts | None:
    """The class whose `update` is called with what stands at `node`, in a step."""
    for parent in file.tree.ancestors(node):
        if isinstance(parent, cst.Call) and isinstance(parent.func, cst.Attribute):
            cls = file.value(parent.func.value).cls if parent.func.attr.value == "update" else None
            if cls is not None and cls.method("update") is not None and runs_every_step(file, parent):
                return cls
        if isinstance(parent, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            break
    return None


def keep_on_device(file: FileFacts, cls: ClassFacts) -> Moved:
    """What lets a meter class and all calls of its `update` leave figures on the device.

    Raises:
        CannotRewrite: a figure could change, or is needed in every step.
    """
    meter = understood(file, cls)
    uses = MeterUses(file, meter)
    sites = []
    doubts: list[str] = []
    weights: list[cst.BaseExpression | None] = []
    others: list[cst.Call] = []
    for call in uses.updates:
        figure, weight = _given(file, meter, call)
        weights.append(weight)
        doubts += _weight_doubts(file, weight)
        site = _site(file, call, figure)
        if site is not None:
            sites.append(site)
        elif file.value(figure).kind is not Kind.NUMBER:
            others.append(call)
    uses.require_rare_reads()
    if not _is_script(file):
        doubts.append(f"other files may import `{cls.name}` and hand tensors to it")
    dtypes = [_dtype(file, meter, site) for site in sites]
    for call in others:
        doubts += _require_told_apart(file, meter, call, sites, dtypes)
    edits: list[Edit] = []
    imports: list[str] = []
    for site, dtype in zip(sites, dtypes, strict=True):
        _require_alike(file, meter, site, dtype, uses)
        stored = site.term.reads if meter.latest and _is_bare(site) else ()
        alone = not _is_shared(file, site, sites)
        written, needed, missing = kept_term(file, site.term, dtype, stored=stored, is_alone=alone)
        edits += written
        imports += needed
        doubts += missing
    positive = all(weight is not None and is_never_zero(file, weight) for weight in weights)
    of_class, required = class_edits(file, meter, weights_are_positive=positive, takes_tensors=bool(others))
    imports += required
    terms = tuple(site.term for site in sites)
    return Moved(f"what `{cls.name}` keeps", (*of_class, *edits), imports, doubts, uses.reads, terms, are_stored=True)


def _given(file: FileFacts, meter: Meter, call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression | None]:
    """The figure and the weight that a call of `update` passes; no weight counts as 1."""
    figure = passed(call, meter.update, meter.value, bound=True)
    if has_star(call) or figure is None:
        raise CannotRewrite(f"what `update` is given on line {file.line(call)} could not be shown")
    if meter.weight is None:
        return figure, cst.Integer("1")
    weight = passed(call, meter.update, meter.weight, bound=True)
    return figure, weight if weight is not None else meter.weight.default


def _weight_doubts(file: FileFacts, weight: cst.BaseExpression | None) -> list[str]:
    if weight is None or isinstance(weight, (cst.Integer, cst.Float)):
        return []
    code, line = file.code(weight), file.line(weight)
    value = file.value(weight)
    if value.is_tensor or term_of(file, weight).reads:
        raise CannotRewrite(f"the weight `{code}` on line {line} comes from the device too")
    return [] if value.kind is Kind.NUMBER else [f"`{code}` is taken for a Python number"]


def _site(file: FileFacts, call: cst.Call, figure: cst.BaseExpression) -> Site | None:
    """The scalars of the device in a figure of a step; `None` where it has none, or no step comes by."""
    if not runs_every_step(file, call) or file.value(figure).is_tensor:
        return None
    term = term_of(file, figure)
    if term.shared and not term.is_fed:
        raise CannotRewrite(term.shared[0])
    return Site(call, figure, term) if term.is_fed else None


def _require_told_apart(
    file: FileFacts, meter: Meter, call: cst.Call, sites: Sequence[Site], dtypes: Sequence[DType]
) -> list[str]:
    """What is taken for granted where a meter that is given tensors keeps them, told from ours by their type.

    Raises:
        CannotRewrite: a meter may be given both, or the types may be the same.
    """
    figure, _ = _given(file, meter, call)
    code, line = file.code(figure), file.line(figure)
    if any(_may_be_same(file, site.call, call) for site in sites):
        what = "is a tensor, and so is" if file.value(figure).is_tensor else "may be a tensor, and so may be"
        raise CannotRewrite(f"`{code}` on line {line} {what} the mean that it goes into")
    start, end = file.source.span(meter.cls.node)
    text = file.source.text[:start] + file.source.text[end:]
    if any(dtype is not DType.FLOATING for dtype in dtypes) or _DOUBLE.search(text):
        raise CannotRewrite(f"`{code}` on line {line} may be a tensor of the type that the sums have")
    return [f"`{code}` is taken for something else than a float64 of NumPy"] if _ARRAYS.search(text) else []


def _is_script(file: FileFacts) -> bool:
    """Whether the file is there to be run, not to be imported: it trains, or has a `__main__` guard."""
    tests = (statement.test for statement in file.source.module.body if isinstance(statement, cst.If))
    trains = any(file.entry.runs_on_import(region) is not None for region in file.steps.regions)
    return trains or any(is_main_test(test) for test in tests)


def _dtype(file: FileFacts, meter: Meter, site: Site) -> DType:
    if site.term.dtype is None:
        code = file.code(site.figure)
        raise CannotRewrite(f"whether `{code}` is an integer or a float could not be shown")
    terms = [site.term, *(variable.term for _, variable in site.term.variables())]
    if meter.latest and any(read.dtype is DType.BOOL for term in terms for read in term.reads):
        raise CannotRewrite(f"`{meter.latest[0]}` would show 1 for True")
    return site.term.dtype


def _require_alike(file: FileFacts, meter: Meter, site: Site, dtype: DType, uses: MeterUses) -> None:
    """An integer on the device cannot take up a float, so meters of integers must get nothing else."""
    if dtype is DType.FLOATING:
        return
    if uses.unsure:
        line = file.line(uses.unsure[0])
        raise CannotRewrite(f"on line {line} a float may be added to the integers of `{meter.cls.name}`")
    for call in uses.updates:
        if call is site.call or _may_be_same(file, site.call, call):
            for given in _given(file, meter, call):
                if isinstance(given, cst.Integer) or (given is not None and file.value(given).dtype is DType.INTEGER):
                    continue
                line = file.line(call)
                raise CannotRewrite(f"on line {line} a float may be added to the integers of `{meter.cls.name}`")


def _is_shared(file: FileFacts, site: Site, sites: Sequence[Site]) -> bool:
    """Whether another call may give tensors to the same meter."""
    return any(other is not site and _may_be_same(file, site.call, other.call) for other in sites)


def _may_be_same(file: FileFacts, first: cst.Call, second: cst.Call) -> bool:
    """Whether two calls of `update` may reach one meter: not where their variables hold meters of their own."""
    mine, others = _makers(file, first), _makers(file, second)
    return mine is None or others is None or not mine.isdisjoint(others)


def _makers(file: FileFacts, call: cst.Call) -> set[Definition] | None:
    """The definitions of the variable that `update` is called on, if each of them makes a new meter."""
    assert isinstance(call.func, cst.Attribute)
    name = call.func.value
    definitions = file.flow.definitions(name) if isinstance(name, cst.Name) else ()
    is_new = all(
        isinstance(definition.part, cst.Call) and file.values.calls.constructed(definition.part) is not None
        for definition in definitions
    )
    return set(definitions) if definitions and is_new else None


def _is_bare(site: Site) -> bool:
    """Whether the figure is nothing but a read, or a variable that holds one: the tensor itself is kept."""
    return bool(site.term.reads) and site.figure is site.term.reads[0].call
