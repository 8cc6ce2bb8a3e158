"""Joins what the P-runs saw with what the rules found: which line cost what, and what became of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from perfmod.codemods.results import FileResult
from perfmod.transforms.finding import Finding, Numerics, Safety
from perfmod.verify.evidence import Profile, SyncRow, Why

_NEGLIGIBLE = 0.01
"""Synchronisations per step; a line that waits less often is not listed."""


@frozen
class Sources:
    """What is known of the code, by path from the tree's root.

    Attributes:
        original, rewritten: the text of the files.
        findings: what the rules found in the original's.
        touched: codes of the rules that rewrote a line of the original's.
    """

    original: Mapping[str, str]
    rewritten: Mapping[str, str]
    findings: Mapping[str, FileResult] = field(factory=dict)
    touched: Mapping[str, Mapping[int, Sequence[str]]] = field(factory=dict)


def why(original: Mapping[str, Any] | None, rewritten: Mapping[str, Any] | None, sources: Sources) -> Why:
    """The results of both sides' P-runs (None: it could not be profiled) as evidence."""
    return Why(_profile(original), _profile(rewritten), tuple(_rows(original, rewritten, sources)))


def _profile(result: Mapping[str, Any] | None) -> Profile | None:
    if result is None:
        return None
    trace = result.get("trace") or {}
    syncs = sum(each["count"] for each in result["syncs"]) / max(1, result["sync_steps"])
    known = ("sync_ms", "to_device_bytes", "pageable_bytes", "from_device_bytes", "busy_share", "kernels")
    return Profile(syncs, **{name: trace[name] for name in known if name in trace})


@frozen
class _Waiting:
    """A line that made the host wait, per step."""

    count: float = 0.0
    ms: float = 0.0
    inside: str = ""


_Place = tuple[str, int, bool]
"""Path and line; True where the line stands in the rewritten file alone."""


def _rows(
    original: Mapping[str, Any] | None, rewritten: Mapping[str, Any] | None, sources: Sources
) -> Iterable[SyncRow]:
    before = _waiting(original)
    lines = {path: _original_lines(sources.original.get(path, ""), text) for path, text in sources.rewritten.items()}
    after: dict[_Place, _Waiting] = {}
    for (path, line, _), waiting in _waiting(rewritten).items():
        old = lines[path].get(line) if path in lines else line
        place = (path, line, True) if old is None else (path, old, False)
        after[place] = _added(after.get(place, _Waiting()), waiting)
    places = {**before, **after}
    for place in sorted(places, key=lambda place: (-before.get(place, _Waiting()).ms, place)):
        old_waiting, new_waiting = before.get(place, _Waiting()), after.get(place, _Waiting())
        if max(old_waiting.count, new_waiting.count) >= _NEGLIGIBLE:
            yield _row(place, old_waiting, new_waiting, sources)


def _waiting(result: Mapping[str, Any] | None) -> dict[_Place, _Waiting]:
    found: dict[_Place, _Waiting] = {}
    if result is not None:
        steps = max(1, result["sync_steps"])
        for each in result["syncs"]:
            place = (each["file"], each["line"] or 0, False)
            seen = _Waiting(each["count"] / steps, each["ms"] / steps, each["inside"] or "")
            found[place] = _added(found.get(place, _Waiting()), seen)
    return found


def _added(one: _Waiting, other: _Waiting) -> _Waiting:
    return _Waiting(one.count + other.count, one.ms + other.ms, one.inside or other.inside)


def _original_lines(original: str, rewritten: str) -> dict[int, int]:
    """The original's line for each line of the rewritten text; lines that were only added have none."""
    found: dict[int, int] = {}
    # Without indentation: a loop may have moved under a main guard.
    a, b = ([line.strip() for line in text.splitlines()] for text in (original, rewritten))
    matcher = difflib.SequenceMatcher(a=a, b=b, autojunk=False)
    for kind, a_start, a_end, b_start, b_end in matcher.get_opcodes():
        if kind in ("equal", "replace"):
            found.update((b + 1, min(a_start + b - b_start, a_end - 1) + 1) for b in range(b_start, b_end))
    return found


def _row(place: _Place, before: _Waiting, after: _Waiting, sources: Sources) -> SyncRow:
    path, line, is_new = place
    text = (sources.rewritten if is_new else sources.original).get(path, "").splitlines()
    result = sources.findings.get(path)
    return SyncRow(
        path=path,
        line=line,
        code=text[line - 1].strip() if 0 < line <= len(text) else "",
        before=before.count,
        after=after.count,
        before_ms=before.ms,
        after_ms=after.ms,
        rules=() if is_new else _rules(path, line, sources),
        status=_status(line, before, after, result, is_new),
        inside=before.inside or after.inside,
    )


def _status(line: int, before: _Waiting, after: _Waiting, result: FileResult | None, is_new: bool) -> str:
    if after.count < _NEGLIGIBLE:
        return "removed"
    if is_new or before.count < _NEGLIGIBLE:
        return "new"
    if result is None:
        return "fewer" if after.count < before.count - _NEGLIGIBLE else ""
    if _at(result.applied, line):
        return "rewritten, still waits"
    found = _at((*result.held_back, *result.refused), line)
    return f"{outcome(found[0])}: {found[0].code} {found[0].reason}" if found else "no rule covers it"


def outcome(finding: Finding) -> str:
    """What became of a finding that is not applied, in the words of `check`."""
    if finding.refused:
        return "left as it is"
    if finding.safety is Safety.ADVICE or not (finding.edits or finding.elsewhere):
        return "advice"
    if finding.unnamed or finding.safety is Safety.OPT_IN or finding.numerics is Numerics.BEHAVIOURAL:
        return "on request"
    return "open question" if finding.safety is Safety.UNSAFE else "low impact"


def _rules(path: str, line: int, sources: Sources) -> tuple[str, ...]:
    """The rules that rewrote the line, else those that found something there."""
    if touching := sources.touched.get(path, {}).get(line):
        return tuple(touching)
    result = sources.findings.get(path)
    found = [] if result is None else _at((*result.applied, *result.held_back, *result.refused), line)
    return tuple(sorted({each.code for each in found}))


def _at(findings: Sequence[Finding], line: int) -> list[Finding]:
    return [each for each in findings if each.line <= line <= each.line + each.snippet.count("\n")]
