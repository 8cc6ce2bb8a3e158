"""What perfmod costs and how steady it is, as Markdown for `evidence.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markdown import table_row

_THROUGHPUT = "benchmarks/results/throughput.json"
_STEADINESS = "benchmarks/results/steadiness.json"


def _short(commit: str | None) -> str:
    """A commit as it is shown, with the plus sign of one that was edited."""
    return "an unknown commit" if commit is None else f"`{commit[:10]}{'+' * commit.endswith('+')}`"


def render_cost(measured: Mapping[str, Any] | None) -> str:
    """What `check` takes beside other tools, and by size; nothing where nothing was measured."""
    if measured is None:
        return ""
    machine, versions = measured["machine"], measured["versions"]
    parts = {part["name"]: part for part in measured["parts"]}
    others = ", ".join(f"{name} {version}" for name, version in versions.items())
    commits = ", ".join(dict.fromkeys(_short(part["commit"]) for part in parts.values()))
    setting = (
        f"`perfmod check` at {commits} beside {others}, {machine['cores']} cores of {machine['cpu']}, Python "
        f"{machine['python']}. Cold is without a cache, warm the same once more; processor time includes children, "
        "memory is that of the largest process."
    )
    texts = [setting]
    if sides := [parts[name] for name in ("timm", "six") if name in parts]:
        texts.append("\n".join(_beside(sides)))
    if sums := [part for name, part in parts.items() if name not in ("help", "timm")]:
        texts += ["By size, with two processes:", "\n".join(_by_size(sums))]
    if "help" in parts:
        best = parts["help"]["runs"][0]
        texts.append(f"`perfmod --help`: {best['seconds']:.2f} s, the best of {best['best_of']}.")
    loads = [part["load_at_start"] for part in parts.values() if part["load_at_start"] > _IDLE * machine["cores"]]
    if loads:
        texts.append(
            f"Other processes ran on the machine as well (load up to {max(loads):.1f} at the start): wall times are "
            "too long."
        )
    texts.append(f"Measured by `python benchmarks/throughput.py` ([`{_THROUGHPUT}`](../{_THROUGHPUT})).")
    return "\n\n".join(texts)


_IDLE = 0.5
"""Load per core up to which a machine counts as idle."""


def _beside(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of all tools over some parts."""
    lines = [
        table_row("over", "files", "tool", "processes", "cache", "wall time", "processor", "peak memory"),
        table_row("---", "--:", "---", "--:", "---", "--:", "--:", "--:"),
    ]
    for part in parts:
        over = part["packages"][0] if len(part["packages"]) == 1 else f"{part['name']} packages"
        for run in part["runs"]:
            processor, memory = f"{run['processor_seconds']:.1f} s", f"{run['peak_mib']} MiB"
            figures = (_time(run), *(("", "") if run.get("stopped") else (processor, memory)))
            lines.append(table_row(over, f"{part['files']:,}", run["tool"], run["jobs"], run["cache"], *figures))
    return lines


def _by_size(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of wall times by the number of files."""
    columns = list(dict.fromkeys((run["tool"], run["cache"]) for part in parts for run in part["runs"]))
    lines = [
        table_row(
            "packages", "files", *(" ".join(filter(None, column)) for column in columns), "cold, per 1,000 files"
        ),
        table_row("---", "--:", *["--:"] * len(columns), "--:"),
    ]
    for part in sorted(parts, key=lambda part: part["files"]):
        runs = {(run["tool"], run["cache"]): run for run in part["runs"]}
        times = (_time(runs[column]) if column in runs else "" for column in columns)
        cold = runs["perfmod", "cold"]
        each = "" if cold.get("stopped") else f"{1000 * cold['seconds'] / part['files']:.1f} s"
        lines.append(table_row(", ".join(part["packages"]), f"{part['files']:,}", *times, each))
    return lines


def _time(run: Mapping[str, Any]) -> str:
    if run.get("stopped"):
        return f"stopped at {run['seconds']:.0f} s"
    return f"{run['seconds']:.2f} s{' (failed)' if run.get('failed') else ''}"


def render_steadiness(measured: Mapping[str, Any] | None) -> str:
    """Whether perfmod said the same however it was run; nothing where that was not measured."""
    rows = [row for row in measured["repositories"] if "files" in row] if measured is not None else []
    if measured is None or not rows:
        return ""
    runs = sum(len(row["seconds"]) for row in rows)
    counts = {
        "whose output differs": _named(rows, "differs"),
        "where a file was left out for its time": _named(rows, "lost"),
        "where a run failed": _named(rows, "broken"),
    }
    slowest = max(rows, key=lambda row: max(row["seconds"].values()))
    jobs = " and ".join(map(str, measured["jobs"]))
    longest = f"{max(slowest['seconds'].values()):.1f} s ({slowest['repository']})"
    found = "; ".join(f"{what}: {names}" for what, names in counts.items())
    return (
        f"{len(rows)} of {measured['listed']} public repositories, {sum(row['files'] for row in rows):,} files, at "
        f"{_short(measured['commit'])}, each with {jobs} processes, alone and beside {measured['busy']} busy ones: "
        f"{runs} runs. Repositories {found}. The longest run took {longest}. "
        f"Measured by `python benchmarks/steadiness.py` ([`{_STEADINESS}`](../{_STEADINESS}))."
    )


def _named(rows: Sequence[Mapping[str, Any]], problem: str) -> str:
    """How many have a problem, and which."""
    names = [row["repository"] for row in rows if row[problem]]
    return f"{len(names)} ({', '.join(names)})" if names else "0"
