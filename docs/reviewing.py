"""How quick the review page is, and whether all ways of reviewing come to the same, as Markdown for `evidence.md`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markdown import table_row

_PAGE = "benchmarks/results/review_page.json"
_WAYS = "benchmarks/results/review_ways.json"


def render_page(measured: Mapping[str, Any] | None) -> str:
    """Opening and filtering the page; nothing where nothing was measured."""
    if measured is None:
        return ""
    machine = measured["machine"]
    lines = [
        table_row("", "median", "95 of 100", "worst", "work of the page, median"),
        table_row("---", "--:", "--:", "--:", "--:"),
    ]
    for name, times in measured["times"].items():
        wall = times["wall_ms"]
        what = name if name == "opening" else f"filter by {name}"
        figures = (wall["median"], wall["p95"], wall["worst"], times["work_ms"]["median"])
        lines.append(table_row(what, *(f"{value:.0f} ms" for value in figures)))
    setting = (
        f"The page with {measured['findings']:,} findings ({measured['size_mib']:.1f} MiB) in headless "
        f"{measured['browser']}, {machine['cores']} cores of {machine['cpu']}, at a load of {measured['load']:.1f}. "
        "Times are until the next frame is painted."
    )
    texts = [
        setting,
        "\n".join(lines),
        f"Measured by `python benchmarks/review_page.py` ([`{_PAGE}`](../{_PAGE})).",
    ]
    return "\n\n".join(texts)


def render_ways(compared: Mapping[str, Any] | None) -> str:
    """Which ways came to the same trees; nothing where nothing was compared."""
    if compared is None:
        return ""
    projects = compared["projects"]
    ways = list(projects[0]["ways"])
    lines = [
        table_row("project", "findings", "accepted", "files changed", *ways),
        table_row("---", "--:", "--:", "--:", *["---"] * len(ways)),
    ]
    for row in projects:
        cells = (row["ways"][way].partition(":")[0] for way in ways)
        lines.append(table_row(row["name"], row["findings"], row["accepted"], row["files_changed"], *cells))
    options = " ".join(compared["options"])
    setting = (
        f"Half of the findings of {len(projects)} public projects (`review {options}`), drawn at random, were accepted "
        "in each way; the trees are compared, byte for byte, with that of `apply --decisions`."
    )
    texts = [
        setting,
        "\n".join(lines),
        f"Measured by `python benchmarks/review_ways.py` ([`{_WAYS}`](../{_WAYS})).",
    ]
    return "\n\n".join(texts)
