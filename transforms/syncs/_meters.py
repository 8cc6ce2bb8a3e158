"""Meters such as `AverageMeter` that every step gives a scalar of the device: `losses.update(loss.item(), n)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import has_star, passed
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import comes_often
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.rule import Change, Edit
from perfmod.transforms.syncs._carriers import carried
from perfmod.transforms.syncs._exposure import is_exposed
from perfmod.transforms.syncs._host_reads import CannotRewrite, HostRead
from perfmod.transforms.syncs._kept_terms import kept_term
from perfmod.transforms.syncs._meter_class import Meter, understood
from perfmod.transforms.syncs._meter_edits import class_edits
from perfmod.transforms.syncs._meter_uses import MeterUses
from perfmod.transforms.syncs._moved_sums import Moved, inference, require_one_device
from perfmod.transforms.syncs._never_zero import is_never_zero
from perfmod.transforms.syncs._terms import Term, term_of, variable_uses

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
            if cls is not None and cls.method("update") is not None and comes_often(file, parent):
                return cls
        if isinstance(parent, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            break
    return None


def keep_on_device(file: FileFacts, cls: ClassFacts) -> Moved:
    """What lets a meter class and all calls of its `update` leave figures on the device.

    The class and the calls may stand in several files.

    Raises:
        CannotRewrite: a figure could change, or is needed in every step.
    """
    home = _facts_of(file, cls.node)
    meter = understood(home, cls)
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
    uses.require_rare_reads([site.call for site in sites])
    _require_one_mode(file, uses)
    if is_exposed(home, cls.node):
        doubts.append(f"other files may import `{cls.name}` and hand tensors to it")
    # What is an integer or a float goes on being read; added to tensors, the number does not change.
    shown = [site for site in sites if site.term.dtype is not None]
    if sites and not shown:
        code = file.code(sites[0].figure)
        raise CannotRewrite(f"whether `{code}` is an integer or a float could not be shown")
    unshown = [site.figure for site in sites if site.term.dtype is None and file.is_own(site.call)]
    left = [(node, f"whether `{file.code(node)}` is an integer or a float could not be shown") for node in unshown]
    sites = shown
    dtypes = [_dtype(meter, site) for site in sites]
    for call in others:
        doubts += _require_told_apart(file, meter, uses, call, sites, dtypes)
    edits: list[Edit] = []
    imports: list[tuple[str, str]] = []
    for site, dtype in zip(sites, dtypes, strict=True):
        _require_alike(file, meter, site, dtype, uses)
        together = [other.term for other in sites if uses.may_be_same(_receiver(site.call), other.call)]
        require_one_device(file, cls.name, together)
        own = _facts_of(file, site.call)
        stored = site.term.reads if meter.latest and _is_bare(site) else ()
        alone = not _is_shared(uses, site, sites)
        written, needed, missing = kept_term(own, site.term, dtype, stored=stored, is_alone=alone)
        if own is not file:
            further = carried(own, [site.term], are_stored=True)
            written, needed = [*written, *further.edits], [*needed, *further.imports]
            missing = [*missing, *further.doubts]
        edits += _located(own, written)
        imports += [(own.source.path, name) for name in needed]
        doubts += missing
    positive = all(weight is not None and is_never_zero(file, weight) for weight in weights)
    of_class, of_home = class_edits(home, meter, weights_are_positive=positive, takes_tensors=bool(others))
    edits += _located(home, of_class)
    imports += [(home.source.path, name) for name in of_home]
    terms = tuple(site.term for site in sites if file.is_own(site.call))
    elsewhere = [Change(path, imports=(name,)) for path, name in imports]
    return Moved(
        f"what `{cls.name}` keeps",
        edits,
        (),
        doubts,
        uses.reads,
        terms,
        are_stored=True,
        elsewhere=elsewhere,
        left=left,
    )


def _require_one_mode(file: FileFacts, uses: MeterUses) -> None:
    """A tensor that was made in inference mode cannot be added to outside of it."""
    inside = [call for call in uses.updates if inference(file, call) is not None]
    for call in uses.updates:
        mixed = [other for other in inside if call not in inside and uses.may_be_same(_receiver(call), other)]
        if mixed:
            raise CannotRewrite(
                f"a meter may be updated inside of `torch.inference_mode()` on line {file.line(mixed[0])} and outside "
                f"of it on line {file.line(call)}"
            )


def _facts_of(file: FileFacts, node: cst.CSTNode) -> FileFacts:
    """The facts of the file in which a node stands."""
    return file if file.is_own(node) else file.world.files[file.source_of(node)]


def _located(file: FileFacts, edits: Iterable[Edit]) -> list[Edit]:
    """Edits that say to which file they belong."""
    return [evolve(edit, path=file.source.path) for edit in edits]


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
    if not comes_often(file, call) or file.value(figure).kind in (Kind.TENSOR, Kind.ARRAY):
        return None
    term = term_of(file, figure)
    if term.shared and not term.is_fed:
        raise CannotRewrite(term.shared[0])
    return Site(call, figure, term) if term.is_fed else None


def _require_told_apart(
    file: FileFacts,
    meter: Meter,
    uses: MeterUses,
    call: cst.Call,
    sites: Sequence[Site],
    dtypes: Sequence[DType],
) -> list[str]:
    """What is taken for granted where a meter that is given tensors keeps them, told from ours by their type.

    Raises:
        CannotRewrite: a meter may be given both, or the types may be the same.
    """
    figure, _ = _given(file, meter, call)
    code, line = file.code(figure), file.line(figure)
    if any(uses.may_be_same(_receiver(call), site.call) for site in sites):
        what = "is a tensor, and so is" if file.value(figure).is_tensor else "may be a tensor, and so may be"
        raise CannotRewrite(f"`{code}` on line {line} {what} the mean that it goes into")
    if file.value(figure).kind is Kind.ARRAY:
        return []
    own = _facts_of(file, call).source
    text = own.text
    if own is file.source_of(meter.cls.node):
        start, end = own.span(meter.cls.node)
        text = text[:start] + text[end:]
    if any(dtype is not DType.FLOATING for dtype in dtypes) or _DOUBLE.search(text):
        raise CannotRewrite(f"`{code}` on line {line} may be a tensor of the type that the sums have")
    return [f"`{code}` is taken for something else than a float64 of NumPy"] if _ARRAYS.search(text) else []


def _dtype(meter: Meter, site: Site) -> DType:
    terms = [site.term, *(variable.term for _, variable in site.term.variables())]
    if meter.latest and any(read.dtype is DType.BOOL for term in terms for read in term.reads):
        raise CannotRewrite(f"`{meter.latest[0]}` would show 1 for True")
    return site.term.dtype or DType.FLOATING


def _require_alike(file: FileFacts, meter: Meter, site: Site, dtype: DType, uses: MeterUses) -> None:
    """An integer on the device cannot take up a float, so meters of integers must get nothing else."""
    if dtype is DType.FLOATING:
        return
    if uses.unsure:
        line = file.line(uses.unsure[0])
        raise CannotRewrite(f"on line {line} a float may be added to the integers of `{meter.cls.name}`")
    for call in uses.updates:
        if call is site.call or uses.may_be_same(_receiver(call), site.call):
            for given in _given(file, meter, call):
                if isinstance(given, cst.Integer) or (given is not None and file.value(given).dtype is DType.INTEGER):
                    continue
                line = file.line(call)
                raise CannotRewrite(f"on line {line} a float may be added to the integers of `{meter.cls.name}`")


def _is_shared(uses: MeterUses, site: Site, sites: Sequence[Site]) -> bool:
    """Whether another call may give tensors to the same meter."""
    return any(other is not site and uses.may_be_same(_receiver(site.call), other.call) for other in sites)


def _receiver(call: cst.Call) -> cst.BaseExpression:
    assert isinstance(call.func, cst.Attribute)
    return call.func.value


def _is_bare(site: Site) -> bool:
    """Whether the figure is nothing but a read, or a variable that holds one: the tensor itself is kept."""
    return bool(site.term.reads) and site.figure is site.term.reads[0].call
