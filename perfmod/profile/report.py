"""A breakdown as lines for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from attrs import asdict
from rich.text import Text

from perfmod.profile.breakdown import Breakdown, Loader, Wait
from perfmod.report import json_schema as schemas
from perfmod.verify.report.wording import byte_count, counted, mebibytes, milliseconds, per_step, percent, visible

if TYPE_CHECKING:
    from rich.console import Console

_MOST_SHARES = 8
_MOST_WAITS = 12
_LONGEST_CODE = 72
_MIB = 2**20


def render_json(found: Breakdown) -> str:
    """The document, ending in a newline. Its schema is `json_schema`."""
    fields = asdict(found, value_serializer=lambda _, __, value: getattr(value, "value", value))
    return json.dumps({"schema": fields.pop("schema"), **fields}, indent=2, allow_nan=False) + "\n"


def json_schema() -> dict[str, Any]:
    """What the JSON looks like."""
    definitions: dict[str, Any] = {"number": {"type": "number"}}
    record = schemas.record(Breakdown, definitions)
    return schemas.document("perfmod profile", record, definitions)


def render(found: Breakdown, console: Console) -> None:
    """Print what the step waits for first, then the parts of it, then what each lever could gain at most."""
    console.print(
        Text.assemble((found.bound.value, "bold"), f": {found.bound.explained}"), soft_wrap=True, highlight=False
    )
    for text in (*_parts(found), *_shares(found), *_waits(found), *_levers(found), *_further(found)):
        console.print(Text(visible(text)), soft_wrap=True, highlight=False)


def _parts(found: Breakdown) -> Iterator[str]:
    where = f"{found.device}, torch {found.torch}"
    yield f"step: {milliseconds(found.step_ms)}, over {counted(found.steps, 'step')} ({where})"
    yield f"  waits for batches   {_share(found.loader_ms, found)}"
    if found.busy_ms is None or found.idle_ms is None:
        return
    yield f"  GPU busy            {_share(found.busy_ms, found)}"
    launched = f"{per_step(found.kernels)} kernels, {per_step(found.syncs)} implicit synchronisations"
    yield f"  GPU idle            {_share(found.idle_ms, found)}  {launched}"
    if found.to_device_mib:
        pageable = f", {byte_count(found.pageable_mib * _MIB)} of it from pageable memory" if found.pageable_mib else ""
        yield f"  copied to the GPU   {byte_count(found.to_device_mib * _MIB)}{pageable}"


def _share(ms: float, found: Breakdown) -> str:
    return f"{milliseconds(ms):>10}  {percent(ms / found.step_ms if found.step_ms else 0.0):>5}"


def _shares(found: Breakdown) -> Iterator[str]:
    if found.shares:
        yield "the GPU's work"
    for share in found.shares[:_MOST_SHARES]:
        name = " ".join(filter(None, (share.work.value, share.format)))
        yield f"  {name:<28}{milliseconds(share.ms):>10}  {per_step(share.launches)} launched"
    rest = found.shares[_MOST_SHARES:]
    if rest:
        yield f"  {'the rest':<28}{milliseconds(sum(share.ms for share in rest)):>10}"


def _waits(found: Breakdown) -> Iterator[str]:
    if found.waits:
        yield "lines that make the CPU wait for the GPU, a step"
    for wait in found.waits[:_MOST_WAITS]:
        yield f"  {wait.path}:{wait.line}  {_times(wait.syncs)}, {milliseconds(wait.ms)}{_said(wait)}"
        if wait.code:
            yield f"      {wait.code[:_LONGEST_CODE]}"
    if len(found.waits) > _MOST_WAITS:
        yield f"  and {counted(len(found.waits) - _MOST_WAITS, 'more line')}"


def _times(count: float) -> str:
    return "once" if count == 1 else f"{per_step(count)} times"


def _said(wait: Wait) -> str:
    return f"  {wait.rule}" if wait.rule else ""


def _levers(found: Breakdown) -> Iterator[str]:
    if found.levers:
        yield "at most, a step would take"
    for lever in found.levers:
        yield f"  {milliseconds(lever.ms):>10}  with {lever.name}"


def _loader(loader: Loader) -> str:
    workers = counted(loader.workers, "worker") if loader.workers else "no workers"
    size = "batches" if loader.batch_size is None else f"batches of {loader.batch_size}"
    return f"{size}, {workers}, {'pinned' if loader.pin_memory else 'pageable'} memory"


def _further(found: Breakdown) -> Iterator[str]:
    if found.total_mib is not None and found.free_mib is not None and found.peak_mib is not None:
        used = f"{mebibytes(found.peak_mib)} used by the script at most"
        yield f"memory of the GPU: {used}, {mebibytes(found.free_mib)} of {mebibytes(found.total_mib)} free"
    # A script often has several that are alike, for training and evaluation.
    for told, count in Counter(map(_loader, found.loaders)).items():
        yield f"loader: {told}" if count == 1 else f"{count} loaders: {told}"
    for note in found.notes:
        yield f"note: {note}"
