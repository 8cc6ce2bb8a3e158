"""The committed result of `corpus.py` as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from corpus_occurrence import HELD_BACK

GOALS = {"sums": 0.8, "moves": 0.85, "loaders": 0.9, "tails": 0.6, "operations": 1.0}
TITLES = {
    "sums": "ungated running sums, appends and meters of device scalars in steps, rewritten",
    "moves": "batch moves with a loader in sight, non-blocking together with pinning",
    "loaders": "DataLoader constructions without workers or pinning, rewritten or with a reason",
    "operations": "operations of the catalogue in steps, by name, rewritten or with a reason",
    "tails": "`ToTensor, Normalize` tails whose loops are all in sight, moved to the device",
}
STATES = ("rewritten", "held-back", "refused", "silent")
OUTCOMES = ("rewritten", *HELD_BACK, "advice", "left-as-it-is")
MOST = 15
"""Reasons that are listed per measure; the JSON has all."""


def markdown(result: Mapping[str, Any]) -> str:
    """The tables: reach, reasons of the rest, repositories."""
    rows = result["rows"]
    parts = [
        "# perfmod over public code\n",
        f"Written by `benchmarks/corpus.py`, with commit {result['commit']} and Python {result['python']}.\n",
    ]
    if "reach" in result:
        parts += [_reach(result["reach"]), *(_rest(measure, result["reach"][measure]) for measure in GOALS)]
    parts += [_rows(rows), _reasons(rows)]
    return "\n".join(parts)


def _reach(reach: Mapping[str, Any]) -> str:
    lines = [
        "## Reach\n",
        "| what | goal | share | of | " + " | ".join(STATES) + " | repositories |",
        "|---|--:|--:|--:|" + "--:|" * 5,
    ]
    for measure, goal in GOALS.items():
        own = reach[measure]
        counts = [own.get(state, 0) for state in STATES]
        share = "-" if own["share"] is None else f"{own['share']:.1%}"
        cells = [TITLES[measure], f"{goal:.0%}", share, sum(counts), *counts, own["repositories"]]
        lines.append(_line(cells))
    needed = reach["sums"]["needed_every_step"]
    complete = reach["loaders"]["complete"]
    lines += [
        "",
        (
            f"Not among them are {sum(needed.values())} sums whose number every step needs for something else, as for "
            f"a progress bar; {needed.get('rewritten', 0)} of these are rewritten."
        ),
        "",
        f"Everything that a loader lacks is rewritten or has a reason of its own at {complete} constructions.",
    ]
    return "\n".join(lines) + "\n"


def _rest(measure: str, own: Mapping[str, Any]) -> str:
    if not own["rest"]:
        return ""
    lines = [f"### The rest of the {measure}\n", "| occurrences | reason |", "|--:|---|"]
    listed = list(own["rest"].items())
    lines += [_line([count, reason]) for reason, count in listed[:MOST]]
    other = sum(count for _, count in listed[MOST:])
    if other:
        lines.append(_line([other, f"{len(listed) - MOST} other reasons"]))
    return "\n".join(lines) + "\n"


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    heads = [
        "",
        "files",
        "changed",
        "unreadable",
        "findings",
        *(state.replace("-", " ") for state in OUTCOMES),
        "s",
        "MiB",
        "does not hold",
    ]
    lines = ["## Repositories\n", _line(heads), "|---|" + "--:|" * (6 + len(OUTCOMES)) + "---|"]
    totals: Counter[str] = Counter()
    for row in rows:
        if "files" not in row:
            lines.append(_line([row["name"], *[""] * (6 + len(OUTCOMES)), ", ".join(row["problems"])]))
            continue
        counts = {
            "files": sum(row["files"].values()),
            "changed": row["files"].get("changed", 0),
            "unreadable": len(row["unreadable"]),
            "findings": sum(row["findings"].values()),
            **{state: row["findings"].get(state, 0) for state in OUTCOMES},
        }
        totals.update(counts)
        cells = [row["name"], *counts.values(), row["seconds"], row["peak_mib"], ", ".join(row["problems"])]
        lines.append(_line(cells))
    seconds = round(sum(row.get("seconds", 0) for row in rows), 1)
    lines.append(_line(["**all**", *totals.values(), seconds, max(row.get("peak_mib", 0) for row in rows), ""]))
    return "\n".join(lines) + "\n"


def _reasons(rows: Sequence[Mapping[str, Any]]) -> str:
    parts = ["## Reasons\n"]
    for state in OUTCOMES[1:]:
        counts: Counter[str] = Counter()
        places: Counter[str] = Counter()
        for row in rows:
            for reason, count in row.get("reasons", {}).get(state, {}).items():
                counts[reason] += count
                places[reason] += 1
        if counts:
            lines = [f"### {state}\n", "| findings | in | rule and reason |", "|--:|--:|---|"]
            lines += [_line([count, places[reason], reason]) for reason, count in counts.most_common(3 * MOST)]
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
