"""What the rules gained where they were measured, as Markdown for the README and the rules' pages."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from markdown import ratio, table_row
from tuned import LINKED

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PINNING = RESULTS / "pinning_h200.json"
REFERENCE = RESULTS / "verify_reference_h200.json"
PUBLIC_SCRIPTS = ROOT / "benchmarks" / "public_scripts.toml"


@frozen
class Source:
    """A committed result, with the command that measured it."""

    result: Path
    command: str

    @property
    def origin(self) -> str:
        """The command and the result, as a page of a rule names them."""
        path = self.result.relative_to(ROOT).as_posix()
        return f"`{self.command}` ([`{path}`](../../{path}))"


SOURCES = (
    Source(REFERENCE, "python benchmarks/verify_reference.py"),
    Source(RESULTS / "verify_public_h200.json", "python benchmarks/verify_public.py --quick"),
    Source(RESULTS / "apply_public_h100.json", "python benchmarks/verify_public.py --apply --quick"),
)
TUNED = Source(RESULTS / "tune_public_h200.json", "python benchmarks/tune_public.py --sources DIR")
"""Stacks that `perfmod tune` proved; those by hand are nothing to a rule."""


@frozen
class Gain:
    """What a step gained on one script.

    Attributes:
        code: the rule.
        script: the script, with a link to where it is kept.
        rules: which rules the figure is about.
        step: time of a step before over that of one after, with its interval.
        waits: implicit synchronisations that the rule removed from a step, and how long the CPU waited in them.
        machine: GPU and torch.
        source: what measured it.
    """

    code: str
    script: str
    rules: str
    step: str
    waits: str
    machine: str
    source: Source


def gains() -> dict[str, list[Gain]]:
    """What was measured of each rule, by its code."""
    found: dict[str, list[Gain]] = {}
    for source in SOURCES:
        measured = json.loads(source.result.read_text("utf-8"))
        for row in measured.get("verifications") or measured["scripts"]:
            for gain in _gains_of(row, source):
                found.setdefault(gain.code, []).append(gain)
    for gain in _of_stacks():
        found.setdefault(gain.code, []).append(gain)
    return found


def _of_stacks() -> Iterator[Gain]:
    """What the stacks gained that tune proved, for each rule in them."""
    public = {row["name"]: row for row in tomllib.loads(PUBLIC_SCRIPTS.read_text("utf-8"))["script"]}
    for row in json.loads(TUNED.result.read_text("utf-8"))["scripts"]:
        if not row["best"]:
            continue
        best, known = row["offers"][row["best"]], public.get(row["name"])
        codes = re.findall(r"PM\d{3}", best["stack"])
        for code in codes:
            yield Gain(
                code=code,
                script=_script({"script": row["name"]} if known is None else {**known, "script": known["path"]}),
                rules=f"with {', '.join(other for other in codes if other != code)}",
                step=ratio(best),
                waits="",
                machine=f"{row['gpu']}, torch {row['torch']}",
                source=TUNED,
            )


def _gains_of(row: Mapping[str, Any], source: Source) -> Iterator[Gain]:
    """What the rules gained on one script; nothing where its steps were not timed, or where it is timed once more."""
    if not row["speed"] or _is_repeated(row):
        return
    environment = row["environment"]
    for position, rule in enumerate(row["rules"]):
        others = [other["code"] for other in row["rules"] if other is not rule]
        if rule["ratio"] is not None:
            before = ", ".join(other["code"] for other in row["rules"][:position])
            rules, step = f"on top of {before}" if before else "alone", ratio(rule)
        else:
            rules, step = f"with {', '.join(others)}" if others else "alone", ratio(row["speed"])
            if row["speed"]["verdict"] != "proven":
                step += f", {row['speed']['verdict']}"
        removed = rule["syncs_removed"]
        yield Gain(
            code=rule["code"],
            script=_script(row),
            rules=rules,
            step=step,
            waits=f"{removed:g} ({rule['sync_ms_removed']:.2f} ms)" if removed else "",
            machine=f"{environment['gpu']}, torch {environment['torch']}",
            source=source,
        )


def _is_repeated(row: Mapping[str, Any]) -> bool:
    """Whether a verification is the quick one of a script that is verified at length as well."""
    return bool(row["options"]) and row.get("longest") is not None


def _script(row: Mapping[str, Any]) -> str:
    """A script with a link to where it is kept, from the page of a rule."""
    if "repository" in row:
        return f"[{row['name']}]({row['repository']}/blob/{row['commit']}/{row['script']})"
    return f"[{row['script']}](../../{_kept(row['script'])})"


def _kept(script: str) -> str:
    """Where a script of this repository is kept."""
    example = f"examples/{script}/train.py"
    return example if (ROOT / example).exists() else f"benchmarks/reference/{LINKED.get(script, script)}/original.py"


def render_rule_gains(code: str, measured: Sequence[Gain]) -> str:
    """What a rule brings, for its page."""
    if not measured:
        return (
            "Not measured: no committed benchmark has timed this rule. What it brings on your GPU, "
            "[`perfmod verify`](../verify.md) measures."
        )
    setting = (
        "Time of a step as written over that of a rewritten one, with its 95 % interval. A figure *with* other rules "
        "is that of all of them together, one *on top of* others is its own. 1.00x is no gain: "
        "what a pattern costs depends on the script."
    )
    lines = [table_row("script", "rule", "step", "waits removed", "on"), table_row("---", "---", "--:", "--:", "---")]
    lines += [table_row(gain.script, gain.rules, gain.step, gain.waits, gain.machine) for gain in measured]
    parts = [setting, "\n".join(lines)]
    if any(gain.waits for gain in measured):
        parts.append(
            "Waits are implicit synchronisations of a step, with the time that the CPU spent in them. That time is not "
            "the gain: where something else waits later in the step, the CPU waits there instead."
        )
    if code == "PM202":
        parts.append(_pinning())
    origins = dict.fromkeys(gain.source.origin for gain in measured)
    parts.append(f"Measured by {', '.join(origins)}. [How it was measured](../evidence.md).")
    return "\n\n".join(parts)


def _pinning() -> str:
    """What pinned batches gain alone, over sizes of batches and kinds of steps."""
    measured = json.loads(PINNING.read_text("utf-8"))
    ranges = []
    for workers in sorted({row["workers"] for row in measured["rows"]}, reverse=True):
        ratios = [row["ratio"] for row in measured["rows"] if row["workers"] == workers]
        loaders = f"{workers} workers" if workers else "no workers"
        ranges.append(f"{min(ratios):.2f}x to {max(ratios):.2f}x with {loaders}")
    source = Source(PINNING, "python benchmarks/pinning.py")
    return (
        f"Pinned batches alone, over sizes of batches and kinds of steps: {', '.join(ranges)} ({measured['gpu']}, "
        f"torch {measured['torch']}; {source.origin})."
    )


def render_gains() -> str:
    """The README's table of what the rules gained, on each script."""
    reference = json.loads(REFERENCE.read_text("utf-8"))
    runs = [row for row in reference["verifications"] if not _is_repeated(row)]
    environment = next(row["environment"] for row in runs if row["environment"].get("torch"))
    setting = (
        f"Time of a step as written over that of a rewritten one, with its 95 % interval, on one {environment['gpu']} "
        f"(torch {environment['torch']}); each rule on top of those above it. 1.00x is no gain: what a pattern costs "
        "depends on the script, and `apply --verify` keeps only what is faster on yours."
    )
    lines = [table_row("script", "rule", "training", "step"), table_row("---", "---", "---", "--:")]
    for row in runs:
        if row.get("speed"):
            name = f"**[{row['script']}]({_kept(row['script'])})**"
            lines.append(table_row(name, "all", row["equality"]["verdict"], ratio(row["speed"])))
        for rule in row["rules"]:
            if rule["ratio"] is not None:
                page = f"[{rule['code']} {rule['name']}](docs/rules/{rule['code']}-{rule['name']}.md)"
                lines.append(table_row("", page, rule["equality"], ratio(rule)))
    source = REFERENCE.relative_to(ROOT).as_posix()
    origin = f"Measured by `python benchmarks/verify_reference.py` ([`{source}`]({source}))."
    return "\n\n".join([setting, "\n".join(lines), origin])
