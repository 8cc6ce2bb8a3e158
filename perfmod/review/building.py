"""Examined files as items to review, those first that change the least about the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from perfmod.codemods.results import is_on_request
from perfmod.examined import Examined
from perfmod.memory import Memory
from perfmod.report.rows import State, finding_row, waiting
from perfmod.review.decisions import Decisions
from perfmod.review.diffs import LEFT_OUT, diffs_of
from perfmod.review.items import Item
from perfmod.review.matching import Found, Matching, found
from perfmod.review.proofs import Proofs
from perfmod.transforms.card import Card
from perfmod.transforms.finding import Finding, Numerics, Place, Safety
from perfmod.withholding import place_of, without

_RISK = list(Numerics)


def items_of(
    examined: Sequence[Examined],
    rules: Sequence[Card],
    decisions: Decisions,
    matching: Matching,
    proofs: Proofs,
    remembered: Memory | None,
) -> list[Item]:
    """The findings that would be applied, in the order of their risk, then of their places."""
    cards = {rule.code: rule for rule in rules}
    applied = [one for one in found(examined, decisions) if one.finding in one.each.result.applied]
    keys = {one.place: key_of(one) for one in applied}
    items = []
    for one in sorted(applied, key=_order):
        decision = matching.decisions.get(one.place)
        item = Item(
            key=keys[one.place],
            path=one.path,
            occurrence=one.occurrence,
            of=one.of,
            code=one.code,
            finding=finding_row(one.each.result.path, one.finding, cards[one.finding.code], _state(one.finding, cards)),
            diffs=diffs_of(one.each, one.finding, examined, remembered),
            builds_on=tuple(keys[place] for place in _needed(one, examined, remembered) if place in keys),
            proof=proofs.of(one.finding),
        )
        items.append(item if decision is None else evolve(item, verdict=decision.verdict, note=decision.note))
    return items


def _state(finding: Finding, cards: Mapping[str, Card]) -> State:
    """What it is without options, which may be why it is applied."""
    rule = cards[finding.code]
    is_plain = finding.safety is Safety.SAFE and not is_on_request(finding, rule)
    return State.REWRITTEN if is_plain else waiting(finding, rule)


def key_of(one: Found) -> str:
    """Names a finding within a project."""
    return f"{one.path}:{one.finding.fingerprint}:{one.occurrence}"


def _needed(one: Found, examined: Sequence[Examined], remembered: Memory | None) -> Sequence[Place]:
    """The findings without which one is not there, of those that it probably builds on; all, if none alone decides."""
    probable = one.finding.builds_on
    if len(probable) < 2:
        return probable
    group = [each for each in examined if each.task is one.each.task]
    needed = [place for place in probable if not _is_there(one, without(group, {place: LEFT_OUT}, remembered))]
    return needed or probable


def _is_there(one: Found, examined: Sequence[Examined]) -> bool:
    return any(place_of(each, finding) == one.place for each in examined for finding in each.result.applied)


def _order(one: Found) -> tuple[int, tuple[str, ...], int, int, str]:
    finding = one.finding
    return _RISK.index(finding.numerics), one.each.file.real.parts, finding.start, finding.end, finding.code
