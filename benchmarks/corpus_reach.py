"""What became of the occurrences that `corpus_survey.py` counts: joined with perfmod's findings by place.

An occurrence is **rewritten** when the rewritten tree no longer has it: the statement no longer reads the device, the
copy no longer waits and all loaders behind it pin, the loader has what it lacked, the tail is gone. Otherwise its
**reason** is that of another finding there, or of one that speaks for it: perfmod takes sums together by what they are
kept in, meters by their class, copies and tails by their loader. What has no finding is **silent**; so is a loader of
whose lacks, workers and pinning, one is neither gone nor has a reason of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from corpus_checks import Checked, reason_class
from corpus_index import Index
from corpus_occurrence import HELD_BACK, MEASURES, Occurrence, by_key
from corpus_survey import survey

RULES: Mapping[str, re.Pattern[str]] = {
    "sums": re.compile(r"PM1"),
    "moves": re.compile(r"PM202|PM206"),
    "loaders": re.compile(r"PM20[12]"),
    "tails": re.compile(r"PM205"),
    "operations": re.compile(r"PM"),
}
"""The rules whose findings are about a measure."""

_FEEDS = re.compile(r"\.(update|add|push|append)\(")
"""A meter or list: perfmod takes all that feed those of one class, or one list, together."""

_OF_LACK = {"workers": "PM201", "pinning": "PM202", "non_blocking": "PM202"}


@frozen
class Fate:
    """What became of one occurrence.

    Attributes:
        state: `rewritten`, `held-back` (an option applies it), `refused` (left as it is, or advice) or `silent`.
        reason: why it was not rewritten; with several lacks the reason of each.
        complete: whether every lack of it is gone or has its own reason; what is not is silent.
    """

    occurrence: Occurrence
    state: str
    reason: str = ""
    complete: bool = True


def fates_in(checked: Checked, paths: Sequence[str]) -> list[Fate]:
    """What became of the occurrences in one tree."""
    index = Index.of_tree(checked.tree, paths)
    before = survey(index)
    after = survey(index.rewritten(checked.after)) if checked.after else before
    return list(_fates(before, after, checked.run.findings))


@define
class Reach:
    """The occurrences of all repositories, by its name."""

    fates: dict[str, list[Fate]] = field(factory=dict)

    def figures(self) -> dict[str, Any]:
        """The counts and shares by measure, and the reasons of the rest."""
        everything = [fate for fates in self.fates.values() for fate in fates]
        result: dict[str, Any] = {}
        for measure in MEASURES:
            found = [fate for fate in everything if fate.occurrence.measure == measure]
            needed = [fate for fate in found if fate.occurrence.is_needed]
            own = [fate for fate in found if not fate.occurrence.is_needed]
            counts = Counter(fate.state for fate in own)
            missed = Counter(fate.reason or "no finding" for fate in own if fate.state != "rewritten")
            names = {name for name, fates in self.fates.items() if any(f.occurrence.measure == measure for f in fates)}
            result[measure] = {
                **counts,
                "repositories": len(names),
                "forms": {
                    form: dict(Counter(fate.state for fate in own if fate.occurrence.form == form))
                    for form in sorted({fate.occurrence.form for fate in own})
                },
                "share": _share(measure, counts),
                "complete": sum(fate.complete and fate.state != "silent" for fate in own),
                "needed_every_step": dict(Counter(fate.state for fate in needed)),
                "reasons_of_needed": dict(Counter(fate.reason for fate in needed if fate.reason).most_common()),
                "rest": dict(missed.most_common()),
            }
        return result

    def misses(self) -> list[dict[str, Any]]:
        """Every occurrence that was not rewritten, with its code."""
        return [
            {
                "repository": name,
                "measure": fate.occurrence.measure,
                "form": fate.occurrence.form,
                "path": fate.occurrence.path,
                "cell": fate.occurrence.cell,
                "line": fate.occurrence.line,
                "code": fate.occurrence.code,
                "needed_every_step": fate.occurrence.is_needed,
                "complete": fate.complete,
                "lacks": sorted(fate.occurrence.lacks),
                "loaders": sorted(":".join(map(str, place)) for place in fate.occurrence.depends),
                "state": fate.state,
                "reason": fate.reason,
            }
            for name, fates in self.fates.items()
            for fate in fates
            if fate.state != "rewritten"
        ]


def counted(fates: Sequence[Fate]) -> dict[str, dict[str, int]]:
    """How many there are, by measure and state."""
    counts = Counter((fate.occurrence.measure, fate.state) for fate in fates)
    found: dict[str, dict[str, int]] = {}
    for measure, state in sorted(counts):
        found.setdefault(measure, {})[state] = counts[measure, state]
    return found


def _share(measure: str, counts: Mapping[str, int]) -> float | None:
    total = sum(counts.values())
    good = counts.get("rewritten", 0)
    if measure in ("loaders", "operations"):
        # A reason is as good as a rewrite.
        good = total - counts.get("silent", 0)
    return round(good / total, 4) if total else None


def _fates(
    before: Sequence[Occurrence], after: Sequence[Occurrence], findings: Sequence[Mapping[str, Any]]
) -> Iterator[Fate]:
    left = by_key(after)
    places = _Findings(findings, before)
    for key, group in by_key(before).items():
        still = left.get(key, [])
        if key[0] in ("moves", "loaders"):
            # The rewritten tree has as many of these; one that is gone was rewritten into something else.
            for number, each in enumerate(group):
                now = still[number].lacks if number < len(still) else frozenset()
                if each.lacks:
                    yield _of_lacking(each, each.lacks & now, places.about(each))
            continue
        gone = len(group) - len(still)
        about = [(each, places.about(each)) for each in group]
        # Where only some of the same are gone, those are that a finding rewrote.
        about.sort(key=lambda pair: not any(found["state"] == "rewritten" for found in pair[1]))
        for number, (each, found) in enumerate(about):
            # One read may be left of several of the same: it serves all of them.
            is_shared = each.measure == "operations" and gone > 0
            yield Fate(each, "rewritten") if number < gone or is_shared else _left(each, found)


def _of_lacking(each: Occurrence, missing: frozenset[str], found: Sequence[Mapping[str, Any]]) -> Fate:
    """A loader or a copy, of which `missing` is what it lacks still."""
    if not missing:
        return Fate(each, "rewritten")
    if each.measure == "moves":
        return _left(each, found)
    fates = {lack: _left(each, [f for f in found if f["code"] == _OF_LACK[lack]]) for lack in sorted(missing)}
    states = {fate.state for fate in fates.values()}
    told = [f"{lack}: {fate.reason or 'no finding'}" for lack, fate in fates.items()]
    told += [f"{lack}: rewritten" for lack in sorted(each.lacks - missing)]
    state = next(state for state in ("silent", "held-back", "refused") if state in states)
    reason = "; ".join(told) if states | (each.lacks - missing) != {"silent"} else ""
    return Fate(each, state, reason, state != "silent")


def _left(each: Occurrence, found: Sequence[Mapping[str, Any]]) -> Fate:
    """The fate of an occurrence that is still there."""
    rest = [finding for finding in found if finding["state"] != "rewritten"]
    if not rest:
        # A rewrite may leave the operation, in a form that waits no more or as the one read of several.
        return Fate(each, "rewritten" if found and each.measure == "operations" else "silent")
    first = min(rest, key=lambda finding: finding["state"] not in HELD_BACK)
    state = "held-back" if first["state"] in HELD_BACK else "refused"
    return Fate(each, state, f"{first['code']}: {reason_class(first['reason'])}")


class _Findings:
    """Findings by place, and what they speak for beside their own place."""

    def __init__(self, findings: Sequence[Mapping[str, Any]], occurrences: Sequence[Occurrence]) -> None:
        self.by_path: dict[str, list[Mapping[str, Any]]] = {}
        for each in findings:
            self.by_path.setdefault(each["path"], []).append(each)
        self.meters: dict[str, list[Occurrence]] = {}
        self.tails: dict[tuple[str, int, int], list[Occurrence]] = {}
        for each in occurrences:
            if each.form == "meter":
                self.meters.setdefault(each.path, []).append(each)
            if each.measure == "tails":
                for place in each.depends:
                    self.tails.setdefault(place, []).append(each)

    def about(self, each: Occurrence) -> list[Mapping[str, Any]]:
        """The findings at an occurrence; else those that speak for it.

        A copy or a tail has one finding with its loader, which may stand there or at another of the same loader; a
        meter one with its class, at the first of the calls in the file; a sum one with its variable, in the scope.
        """
        rules = RULES[each.measure]
        if there := self._at(rules, each.path, each.cell, {*range(each.line, each.end + 1), *each.also}):
            return there
        if each.depends:
            at_loaders = [f for path, cell, line in each.depends for f in self._at(rules, path, cell, {line})]
            others = [o for place in each.depends for o in self.tails.get(place, ()) if each.measure == "tails"]
            return at_loaders or [
                f for o in others for f in self._at(rules, o.path, o.cell, set(range(o.line, o.end + 1)))
            ]
        if each.form == "amp":
            return [f for f in self.by_path.get(each.path, ()) if f["code"] == "PM313"]
        if each.measure == "operations" and each.form == "item" and _FEEDS.search(each.code):
            return [f for f in self.by_path.get(each.path, ()) if f["code"] == "PM106" and f["scope"] == each.scope]
        if each.form == "meter":
            return [f for o in self.meters[each.path] for f in self._at(rules, o.path, o.cell, {o.line})]
        if each.measure == "sums":
            target = re.compile(rf"(?<![\w.]){re.escape(each.key.partition(' ')[2])}(?!\w)")
            near = (f for f in self.by_path.get(each.path, ()) if f["scope"] == each.scope and rules.match(f["code"]))
            return [f for f in near if target.search(f["reason"])]
        return []

    def _at(self, rules: re.Pattern[str], path: str, cell: int, lines: set[int]) -> list[Mapping[str, Any]]:
        near = (f for f in self.by_path.get(path, ()) if rules.match(f["code"]) and f["line"] in lines)
        return [f for f in near if not cell or f.get("cell") in (None, cell)]
