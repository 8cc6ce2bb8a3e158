"""Why is it faster? P-runs of both sides, and what the rules know of the lines that they name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod.verify.evidence import Why
from perfmod.verify.laboratory import Laboratory
from perfmod.verify.running import Ran
from perfmod.verify.sides import Side
from perfmod.verify.stacks import Rewriting
from perfmod.verify.why import Sources, why


@frozen
class Causes:
    """What the P-runs told.

    Attributes:
        busy_ms: time in which the GPU worked in a rewritten step; None where unknown.
        before_ms: the same of a step of the original.
        warnings: what could not be looked at.
    """

    why: Why
    busy_ms: float | None
    before_ms: float | None
    warnings: tuple[str, ...]


def causes(lab: Laboratory, original: Side, rewritten: Side, rewriting: Rewriting | None) -> Causes:
    """Run both sides under the sync debug mode and the profiler."""
    lab.progress("counting synchronisations")
    ran = {side.name: lab.profile(side) for side in (original, rewritten)}
    warnings = tuple(
        f"the {name} side could not be profiled: {each.trouble.reason}" for name, each in ran.items() if each.trouble
    )
    before = _record(ran[original.name])
    after = _record(ran[rewritten.name])
    if after is not None and rewritten.script != original.script:
        # Two scripts: lines of the second are followed back into the first.
        names = {rewritten.script.as_posix(): original.script.as_posix()}
        syncs = [{**each, "file": names.get(each["file"], each["file"])} for each in after["syncs"]]
        after = {**after, "syncs": syncs}
    sources = _sources(original, rewritten, rewriting, before, after)
    # Beside other runs a GPU is busy with theirs, too.
    busy_ms, before_ms = (
        None if lab.was_profiled_beside(side) else _busy_ms(record)
        for side, record in ((rewritten, after), (original, before))
    )
    return Causes(why(before, after, sources), busy_ms, before_ms, warnings)


def _record(ran: Ran) -> dict[str, Any] | None:
    return None if ran.trouble is not None else ran.records[0]


def _sources(
    original: Side, rewritten: Side, rewriting: Rewriting | None, *records: Mapping[str, Any] | None
) -> Sources:
    named = {each["file"] for record in records if record is not None for each in record["syncs"]}
    paths = {Path(name) for name in named if name} | set(rewritten.replacements) | {original.script}
    other = {path: rewritten.script if path == original.script else path for path in paths}
    root = original.tree.root
    findings = {} if rewriting is None else {_inside(file.file.real, root): file.result for file in rewriting.examined}
    touched = {} if rewriting is None else {_inside(path, root): lines for path, lines in rewriting.touched().items()}
    return Sources(
        original={path.as_posix(): original.text(path) for path in paths},
        rewritten={path.as_posix(): rewritten.text(other[path]) for path in paths},
        findings=findings,
        touched=touched,
    )


def _inside(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _busy_ms(record: Mapping[str, Any] | None) -> float | None:
    trace = record and record["trace"]
    return trace["busy_share"] * trace["step_ms"] if trace and trace["busy_share"] is not None else None
