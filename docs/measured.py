"""What was measured of the rewrites, as Markdown for `evidence.md`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown import ratio, table_row

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "reference_scripts_h200.json"
VERIFIED_REFERENCE = RESULTS.with_name("verify_reference_h200.json")
FALSE_ALARMS = RESULTS.with_name("false_alarms_h200.json")
VERIFIED_PUBLIC = RESULTS.with_name("verify_public_h200.json")
GRADES = RESULTS.with_name("mergeable.toml")
PINNING = RESULTS.with_name("pinning_h200.json")
PUBLIC_SCRIPTS = ROOT / "benchmarks" / "public_scripts.toml"


def render_results(results: Mapping[str, Any] | None) -> str:
    """The reference scripts next to an expert's version; nothing where nothing was measured."""
    if results is None:
        return ""
    machine = results["machine"]
    headings = (
        "script",
        "batch",
        "as written",
        "after perfmod",
        "by an expert",
        "speed-up",
        "perfmod / expert",
    )
    speed = [table_row(*headings), table_row("---", *["--:"] * 6)]
    for row in results["timings"]:
        digits = 0 if row["unit"] == "samples/s" else 2
        figures = (f"{variant['median']:,.{digits}f} {row['unit']}" for variant in row["variants"].values())
        speedup, ratio = f"{row['speedup']:.2f}x", f"{row['rewritten_over_expert']:.3f}"
        speed.append(table_row(row["script"], row["batch_size"], *figures, speedup, ratio))
    training = [
        table_row("script", "steps compared", "loss", "gradient", "syncs per step before", "after"),
        table_row("---", *["--:"] * 5),
    ]
    for comparison in results["comparisons"]:
        moved = comparison["differences"]["rewritten"]
        syncs = (comparison["syncs"][variant] for variant in ("original", "rewritten"))
        counts = (len(sync["places"]) + sync["native"] for sync in syncs)
        differences = (f"{moved[what]:.1e}" for what in ("loss", "gradient"))
        training.append(table_row(comparison["script"], comparison["steps"], *differences, *counts))
    source = RESULTS.relative_to(ROOT).as_posix()
    setting = (
        f"Two published scripts on one {machine['gpu']} with {machine['cores']} CPU cores and torch "
        f"{machine['torch']}; medians over fresh, interleaved processes. The expert's version is the same "
        "script improved by hand."
    )
    same = (
        "The training stays the same: largest relative difference to the script as written, and implicit "
        "synchronisations as PyTorch counts them."
    )
    origin = f"Measured by `python benchmarks/reference_scripts.py` ([`{source}`](../{source}))."
    parts = ["## Next to an expert", setting, "\n".join(speed), same, "\n".join(training), origin]
    return "\n\n".join(parts)


def render_verified(
    reference: Mapping[str, Any] | None, public: Mapping[str, Any] | None, themselves: Mapping[str, Any] | None
) -> str:
    """The figures of `perfmod verify`; nothing where nothing was verified."""
    if reference is None or public is None:
        return ""
    own, others = reference["verifications"], public["scripts"]
    environment = next(row["environment"] for row in own if row["environment"].get("torch"))
    machine = f"one {environment['gpu']} (driver {environment['driver']}), torch {environment['torch']}"
    setting = (
        f"The reference scripts on {machine}, {environment['cpu']}. The ratio is the time of a step as written over "
        "that of a rewritten one, with its 95 % interval; noise is how much the original differs from itself."
    )
    headings = ("verdict", "ratio", "noise", "syncs per step", "ms per step")
    scripts = [table_row("script", *headings, "verifying took"), table_row("---", "---", *["--:"] * 5)]
    for row in own:
        name = " ".join((row["script"], *(f"`{option}`" for option in row["options"])))
        scripts.append(table_row(name, *_verified(row), f"{row['seconds']:.0f} s"))
    late = [
        f"{' '.join((row['script'], *row['options']))} took {row['seconds']:.0f} s, more than the "
        f"{row['longest']:.0f} s that the benchmark allows."
        for row in own
        if row["longest"] is not None and row["seconds"] > row["longest"]
    ]
    rules = [table_row("script", "rule", "training", "ratio to the rules above it"), table_row(*["---"] * 3, "--:")]
    for row in own:
        timed = [rule for rule in row["rules"] if rule["ratio"] is not None]
        rules += [
            table_row(row["script"], f"{rule['code']} {rule['name']}", rule["equality"], ratio(rule)) for rule in timed
        ]
    faster = sum(row["verdict"] == "proven" for row in others)
    listed = [script["name"] for script in tomllib.loads(PUBLIC_SCRIPTS.read_text("utf-8"))["script"]]
    missing = [name for name in listed if name not in {row["name"] for row in others}]
    touched = sum(bool(row["rules"]) for row in others)
    gpu = next(row["environment"] for row in others if row["environment"].get("torch"))
    honest = (
        f"Public training scripts, unmodified, on generated data: rules rewrite {touched} of {len(others)}, and "
        f"{faster} are proven faster. Measured with `--quick` (10 steps, few processes), each on one {gpu['gpu']}, all "
        f"but unet's of a busy eight-GPU host, torch {gpu['torch']}. Noise was large there and intervals are "
        "wide, so that a smaller gain shows as no measurable change; what has none is what `apply --verify` withdraws."
    )
    if missing:
        honest += f" Listed but not reached in the time: {', '.join(missing)}."
    table = [table_row("script", *headings, "rules"), table_row("---", "---", *["--:"] * 4, "---")]
    for row in others:
        codes = ", ".join(rule["code"] for rule in row["rules"]) or row["reason"].partition(": ")[2]
        options = "".join(f" `{option}`" for option in row["options"])
        name = f"[{row['name']}]({row['repository']}/blob/{row['commit']}/{row['script']}){options}"
        table.append(table_row(name, *_verified(row), codes))
    links = [path.relative_to(ROOT).as_posix() for path in (VERIFIED_REFERENCE, VERIFIED_PUBLIC)]
    origin = (
        f"Measured by `python benchmarks/verify_reference.py` ([`{links[0]}`](../{links[0]})) and "
        f"`python benchmarks/verify_public.py` ([`{links[1]}`](../{links[1]}))."
    )
    tables = ["\n".join(lines) for lines in (scripts, rules, table)]
    alarms = [] if themselves is None else [_alarms(themselves["runs"])]
    return "\n\n".join([setting, tables[0], *late, tables[1], honest, tables[2], *alarms, origin])


def _alarms(runs: Sequence[Mapping[str, Any]]) -> str:
    """How often a script was not found equal to itself, or not as fast."""
    scripts = len({run["name"] for run in runs})
    wrong = [run for run in runs if run["verdict"] != "no measurable change"]
    named = "; ".join(f"{run['name']}: {run['verdict']}, {run['reason']}" for run in wrong)
    source = FALSE_ALARMS.relative_to(ROOT).as_posix()
    return (
        f"False alarms: {scripts} scripts were compared with themselves, {len(runs)} times in all, with `--quick`; "
        f"wrong verdicts: {len(wrong)}{f' ({named})' if named else ''} ([`{source}`](../{source}))."
    )


def _verified(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """Verdict, ratio, noise, synchronisations and times of one verification."""
    if not row["speed"]:
        return row["verdict"] if row["rules"] else "nothing to rewrite", "", "", "", ""
    speed, profile = row["speed"], row["profile"]
    syncs = [profile[side]["syncs"] if profile.get(side) else None for side in ("before", "after")]
    counts = "" if None in syncs else " -> ".join(f"{count:g}" for count in syncs)
    times = f"{speed['original_ms']:.2f} -> {speed['rewritten_ms']:.2f}"
    horizon = " (short horizon)" if row["equality"]["short_horizon"] else ""
    return row["verdict"] + horizon, ratio(speed), f"{speed['spread']:.1%}", counts, times


def render_grades(table: Mapping[str, Any] | None) -> str:
    """What reviewers said of drawn diffs; nothing where nobody was asked."""
    if table is None:
        return ""
    rows = table["hunk"]
    grades = ("merge", "nit", "differently", "reject")
    lines = [table_row("rule", *grades, "wrong"), table_row("---", *["--:"] * 5)]
    for code in [*sorted({row["rule"] for row in rows}), "all"]:
        own = [row for row in rows if code in ("all", row["rule"])]
        counts = [sum(row["grade"] == grade for row in own) for grade in grades]
        lines.append(table_row(code, *counts, sum(row["wrong"] for row in own)))
    repositories = len({row["repository"] for row in rows})
    source = GRADES.relative_to(ROOT).as_posix()
    setting = (
        f"{len(rows)} rewrites, drawn from what perfmod does by default in {repositories} repositories that are in no "
        "corpus and that nobody had looked at, read by people who had not written the rules, as the maintainer of that "
        'code would: merged as it is, after a nit, "write it differently", rejected.'
    )
    return "\n\n".join(
        [
            setting,
            "\n".join(lines),
            f"Drawn and checked by `python benchmarks/mergeable.py` ([`{source}`](../{source})).",
        ]
    )


def render_pinning(measured: Mapping[str, Any] | None) -> str:
    """What pinned batches gain with workers and without; nothing where that was not measured."""
    if measured is None:
        return ""
    workers = sorted({row["workers"] for row in measured["rows"]})
    lines = [
        table_row("batch", "samples", "step", *(f"{n} workers" if n else "no workers" for n in workers)),
        table_row("---", "---", "---", *["--:"] * len(workers)),
    ]
    cases = dict.fromkeys((row["batch"], row["samples"], row["step"]) for row in measured["rows"])
    for case in cases:
        own = [row for row in measured["rows"] if (row["batch"], row["samples"], row["step"]) == case]
        ratios = {row["workers"]: f"{row['ratio']:.2f}x" for row in own}
        lines.append(table_row(*case, *(ratios[n] for n in workers)))
    source = PINNING.relative_to(ROOT).as_posix()
    setting = (
        "Time of a step from pageable batches over that from pinned ones (`pin_memory=True` and `non_blocking=True`), "
        f"one {measured['gpu']}, torch {measured['torch']}."
    )
    return "\n\n".join(
        [
            setting,
            "\n".join(lines),
            f"Measured by `python benchmarks/pinning.py` ([`{source}`](../{source})).",
        ]
    )


def render_quick(paths: Iterable[Path]) -> str:
    """How long `verify --quick` takes, and what noise it finds, on each GPU; nothing where that was not measured."""
    parts = []
    for path in sorted(paths):
        measured = json.loads(path.read_text("utf-8"))
        rows = measured["rows"]
        columns = list(dict.fromkeys(row["perfmod"] for row in rows))
        headings = (f"{what}, {when}" for what in ("seconds", "runs", "noise") for when in columns)
        lines = [
            table_row("script", "ms per step", *headings, "ratio", "verdict"),
            table_row("---", *["--:"] * (2 + 3 * len(columns)), "---"),
        ]
        for script in dict.fromkeys(row["script"] for row in rows):
            own = {when: [row for row in rows if (row["script"], row["perfmod"]) == (script, when)] for when in columns}
            speeds = {when: [row["speed"] for row in own[when] if row.get("speed")] for when in columns}
            last = own[columns[-1]][-1]
            speed = last.get("speed")
            cells = [[f"{row['seconds']:.0f}" for row in own[when]] for when in columns]
            cells += [[str(sum(row.get("runs", {}).values())) for row in own[when]] for when in columns]
            cells += [[f"{each['spread']:.1%}" for each in speeds[when]] for when in columns]
            lines.append(
                table_row(
                    script,
                    f"{speed['original_ms']:.2f} -> {speed['rewritten_ms']:.2f}" if speed else "",
                    *map(", ".join, cells),
                    ratio(speed) if speed else "",
                    last["verdict"],
                )
            )
        environment = next(row["environment"] for row in rows if "environment" in row)
        older = f"; before is {measured['before'][:9]}" if measured["before"] else ""
        setting = (
            f"`verify --quick` where steps take less than 20 ms, on one {environment['gpu']} (torch "
            f"{environment['torch']}, {environment['cpu']}): seconds of the whole, by turns; runs are those of the "
            f"script, noise is how much the original differs from itself{older}."
        )
        source = path.relative_to(ROOT).as_posix()
        origin = f"Measured by `python benchmarks/verify_quick.py` ([`{source}`](../{source}))."
        parts += [setting, "\n".join(lines), origin]
    return "\n\n".join(parts)
