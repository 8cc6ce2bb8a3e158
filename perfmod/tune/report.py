"""A search as lines for a terminal, as Markdown, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict
from rich.text import Text

from perfmod.report import json_schema as schemas
from perfmod.report.output import write_file
from perfmod.tune.result import Batch, Offer, Row, Tuning
from perfmod.tune.search import MOVES, NO_TIME
from perfmod.verify.evidence import Evidence, Verdict
from perfmod.verify.report import files
from perfmod.verify.report.wording import counted, duration, interval, mebibytes, milliseconds, plain, ratio, visible

if TYPE_CHECKING:
    from rich.console import Console

_MOST_ROWS = 12


def render_json(found: Tuning) -> str:
    """The document, ending in a newline. Its schema is `json_schema`."""
    fields = asdict(found, value_serializer=lambda _, __, value: getattr(value, "value", value))
    return json.dumps({"schema": fields.pop("schema"), **fields}, indent=2, allow_nan=False) + "\n"


def json_schema() -> dict[str, Any]:
    """What the JSON looks like."""
    definitions: dict[str, Any] = {"number": {"type": "number"}}
    record = schemas.record(Tuning, definitions)
    return schemas.document("perfmod tune", record, definitions)


def render(found: Tuning, console: Console, *, verbose: bool = False) -> None:
    """Print what was chosen and what each class would bring, then what was tried and why it lost."""
    told = (*_head(found), *_offers(found.offers), *_tried(found, verbose=verbose), *_advice(found))
    for line in (*told, *(f"note: {note}" for note in notes(found))):
        console.print(Text(visible(line)), soft_wrap=True, highlight=False)


def headline(found: Tuning) -> str:
    """What came out, in one line."""
    best = found.chosen
    if best is None:
        found_faster = [offer for offer in found.offers if offer.stack]
        if not found_faster:
            was_timed = any(row.ms is not None for row in found.rows)
            return "left as it is: nothing " + ("that was tried is faster" if was_timed else "was timed")
        are_judged = all(offer.verdict for offer in found_faster)
        return "nothing faster is proven" if are_judged else "something is faster, and not proven yet"
    return f"{gain(best)} with {best.stack}"


def gain(offer: Offer) -> str:
    """How many times as fast, with its interval; empty where it was not timed."""
    if offer.ratio is None:
        return ""
    if offer.low is None or offer.high is None:
        return f"{ratio(offer.ratio)} in the trials"
    return f"{ratio(offer.ratio)} ({interval(offer.low, offer.high)})"


def _head(found: Tuning) -> Iterator[str]:
    profile = found.profile
    yield headline(found)
    where = f"{profile.device}, torch {found.torch}"
    bound = f"{profile.bound.value}: {profile.bound.explained}"
    yield f"as written: {milliseconds(profile.step_ms)} a step, {bound} ({where})"
    for lever in profile.levers[:1]:
        yield f"at most: {milliseconds(lever.ms)} with {lever.name}"
    yield "the fastest by how far results may differ"


def _offers(offers: Sequence[Offer]) -> Iterator[str]:
    before = ""
    for offer in offers:
        is_same = bool(offer.stack) and offer.stack == before
        yield f"  {offer.numerics:<12} nothing faster than that" if is_same else _offered(offer)
        before = offer.stack


def _offered(offer: Offer) -> str:
    if not offer.stack:
        return f"  {offer.numerics:<12} {offer.named}"
    if not offer.verdict:
        return f"  {offer.numerics:<12} {offer.stack}: not compared with the original yet"
    if offer.verdict != Verdict.PROVEN.value:
        return f"  {offer.numerics:<12} {offer.stack}: {offer.verdict}: {offer.reason}"
    parts = [gain(offer)]
    if offer.ms is not None:
        parts.append(f"{milliseconds(offer.ms)} a step")
    if offer.peak_mib is not None and offer.original_peak_mib is not None:
        parts.append(f"{mebibytes(offer.original_peak_mib)} → {mebibytes(offer.peak_mib)} of memory")
    if offer.break_even_step is not None:
        parts.append(f"its longer start is earned back after {counted(offer.break_even_step, 'step')}")
    return f"  {offer.numerics:<12} {offer.stack}: {', '.join(parts)}"


def _tried(found: Tuning, *, verbose: bool) -> Iterator[str]:
    resumed = ", with what an earlier call had found" if found.resumed else ""
    left = [row for row in found.rows if row.reason == NO_TIME]
    tried_rows = counted(len(found.rows) - len(left), "stack")
    untried = f", and {len(left)} not tried" if left else ""
    yield f"tried: {tried_rows} in {duration(found.seconds)}{untried}{resumed}"
    rows = ordered(found.rows)
    for row in rows if verbose else rows[:_MOST_ROWS]:
        yield f"  {tried(row)}"
    if len(rows) > _MOST_ROWS and not verbose:
        yield f"  and {len(rows) - _MOST_ROWS} more (-v)"


def tried(row: Row) -> str:
    """What became of a trial."""
    where = "batches at hand" if row.at_hand else "with the loader"
    if row.ms is None or row.original_ms is None:
        return f"{row.stack} ({where}): {row.reason}"
    compiled = f", {row.compile_seconds:.0f} s to compile" if row.compile_seconds >= 1 else ""
    slower = "" if row.ratio * MOVES >= 1.0 else ", slower"
    times = f"{milliseconds(row.original_ms)} → {milliseconds(row.ms)}"
    return f"{row.stack} ({where}): {ratio(row.ratio)}, {times}{compiled}{slower}"


def notes(found: Tuning) -> Iterator[str]:
    """What to know about the search itself."""
    if found.interrupted:
        yield "interrupted; the same command goes on from here"
    elif not found.complete:
        left = f"not everything was tried within {duration(found.budget_seconds)}"
        yield f"{left}; the same command goes on from here, and --budget gives it more time"
    yield from found.notes


def ordered(rows: Sequence[Row]) -> list[Row]:
    """What was tried with the loader, then with batches at hand, the fastest first; at the end what was not tried."""
    return sorted(rows, key=lambda row: (row.reason == NO_TIME, row.at_hand, -row.ratio))


def sized(batch: Batch) -> str:
    """What became of batches of another size."""
    if batch.ms is None:
        return f"{counted(batch.size, 'sample')} a batch: {batch.reason}"
    memory = f", {mebibytes(batch.peak_mib)}" if batch.peak_mib is not None else ""
    return f"{counted(batch.size, 'sample')} a batch: {plain(batch.per_second, 0)} a second{memory}"


def _advice(found: Tuning) -> Iterator[str]:
    if found.advice:
        yield "what only you can decide"
        for line in found.advice:
            yield f"  {line}"


def write(found: Tuning, evidence: Evidence | None, folder: Path) -> None:
    """Write tune.json, tune.md and tune.html to a folder, and the evidence for the best stack if any.

    Raises `Failure`.
    """
    from perfmod.tune import page

    if evidence is not None:
        files.write(evidence, folder)
    # The record comes first: it is not lost, whatever becomes of the rest.
    write_file(folder / "tune.json", render_json(found).encode())
    write_file(folder / "tune.md", render_markdown(found).encode())
    write_file(folder / "tune.html", page.render(found, evidence).encode("utf-8", "backslashreplace"))


def render_markdown(found: Tuning) -> str:
    """The same for an issue or a pull request."""
    lines = [f"# perfmod tune {found.script}", "", f"**{headline(found)}**", ""]
    lines += [f"{line}  " for line in list(_head(found))[1:-1]]
    lines += ["", "| results | stack | gain | step | verdict |", "| --- | --- | --: | --: | --- |"]
    for offer in found.offers:
        step = milliseconds(offer.ms) if offer.ms is not None else ""
        faster = gain(offer) if offer.verdict == Verdict.PROVEN.value else ""
        said = offer.verdict if offer.verdict in ("", Verdict.PROVEN.value) else f"{offer.verdict}: {offer.reason}"
        lines.append(f"| {offer.means} | {offer.named} | {faster} | {step} | {said} |")
    told = [f"> {note[:1].upper()}{note[1:]}." for note in notes(found)]
    lines += ["", *told] if told else []
    lines += ["", "<details><summary>What was tried</summary>", ""]
    lines += [f"- {tried(row)}" for row in ordered(found.rows)]
    lines += ["", "</details>", ""]
    if found.advice:
        lines += ["What only you can decide:", "", *(f"- {line}" for line in found.advice)]
        lines += [*(f"- {sized(batch)}" for batch in found.batches), ""]
    best = found.chosen
    if best is not None:
        lines += ["```diff", best.diff.rstrip("\n"), "```", ""]
    return "\n".join([*lines, f"`{found.command}`", ""])
