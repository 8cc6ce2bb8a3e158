"""What `perfmod tune` found on whole scripts, next to stacks by hand, as Markdown for the README."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from markdown import table_row

ROOT = Path(__file__).resolve().parents[1]
TUNED = ROOT / "benchmarks" / "results" / "tune_public_h200.json"
LINKED = {"cifar_resnet18": "cifar_resnet18", "cifar_resnet18_1024": "cifar_resnet18", "masked_loss": "masked_loss"}
"""The scripts that are kept here, and their folders."""

_BY_HAND = {"by_hand": "by hand", "by_graphed": "by hand, recorded"}
"""Fields of a row, and what they are called; the second also records the whole step as a CUDA graph."""


def render_tuned() -> str:
    """The README's table of tuned scripts; the fastest first."""
    rows = [row for row in json.loads(TUNED.read_text("utf-8"))["scripts"] if "ms" in row]
    machine = rows[0]
    setting = (
        "Whole scripts under `perfmod tune`, next to what an expert made of them by hand, who did not know what "
        "perfmod writes: time of a step as written over that of the other one, all timed in turns in one run, "
        f"on one {machine['gpu']} (torch {machine['torch']}). *Recorded* by hand means that whole steps, up to ten of "
        "them, are one CUDA graph. What tune offers is proven to be the same training; the stacks by hand are not."
    )
    columns = {name: title for name, title in _BY_HAND.items() if any(name in row for row in rows)}
    lines = [
        table_row("script", "as written", "tuned", *columns.values(), "training", "stack"),
        table_row("---", "--:", "--:", *["--:"] * len(columns), "---", "---"),
    ]
    lines += _rows(rows, columns)
    source = TUNED.relative_to(ROOT).as_posix()
    gains = [row["gain"] if row["best"] else 1.0 for row in rows]
    by_hand = [gain for gain, row in zip(gains, rows, strict=True) if any(name in row for name in _BY_HAND)]
    origin = (
        f"The geometric mean of what is tuned is {statistics.geometric_mean(gains):.1f}x, and "
        f"{statistics.geometric_mean(by_hand):.1f}x where there is a stack by hand. "
        f"Measured by `python benchmarks/tune_public.py`, each row at the commit that [`{source}`]({source}) names "
        "with it: what was mended or added since is not in it."
    )
    return "\n\n".join([setting, "\n".join(lines), origin])


def _rows(rows: list[dict[str, Any]], columns: Iterable[str]) -> Iterator[str]:
    for row in sorted(rows, key=lambda row: -row["gain"] if row["best"] else 0.0):
        best: Mapping[str, Any] = row["offers"].get(row["best"], {})
        written = f"{statistics.median(row['ms']['original']):.1f} ms"
        tuned = f"{row['gain']:.2f}x" if best else "1x"
        by_hand = [f"{row[name]:.2f}x" if name in row else "" for name in columns]
        training = f"proven ({row['best']})" if best else "left as it is"
        yield table_row(_name(row["name"]), written, tuned, *by_hand, training, best.get("stack", ""))


def _name(script: str) -> str:
    return f"[{script}](benchmarks/reference/{LINKED[script]}/original.py)" if script in LINKED else script
