"""What `perfmod migrate` takes over many repositories, and what it survives, as Markdown for `evidence.md`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from markdown import bullets, table_row

ZOO = "benchmarks/results/migrate_zoo.json"
SEATS = "benchmarks/results/migrate_seats_*.json"
_WAYS = {
    "local": "by the local engine",
    "dask": "through Dask",
    "killed": "through Dask, a worker killed in the middle of a verification",
}


def render_zoo(measured: Mapping[str, Any] | None) -> str:
    """The zoo of public repositories; nothing where nothing was measured."""
    if measured is None or "all" not in measured:
        return ""
    every = measured["all"]
    machine, seconds = every["machine"], every["seconds_of_a_project"]
    slowest, longest = seconds["slowest"][0]
    peak = every["peak_mib_of_a_project"]["largest"]
    setting = (
        f"{every['projects']} public repositories at pinned commits, dry, nothing cached, on {machine['cores']} cores "
        f"of {machine['cpu']}: {every['seconds'] / 60:.0f} minutes. Half of the projects take at most "
        f"{seconds['median']:.1f} s, 95 of 100 at most {seconds['p95']:.0f} s, the longest {longest:.0f} s "
        f"({slowest.replace('+', '/')}), and none more than {peak:.0f} MiB. Ten thousand of the kind would take "
        f"{every['hours_for_10000']:.0f} hours on the same machine. The campaign's folder has "
        f"{every['campaign_mib']:.0f} MiB."
    )
    texts = [
        setting,
        bullets(_facts(every)),
        *_dask(measured.get("dask")),
        *_others(measured),
        f"Measured by `python benchmarks/migrate_zoo.py` ([`{ZOO}`](../{ZOO})).",
    ]
    return "\n\n".join(texts)


def render_seats(measured: Iterable[Mapping[str, Any]]) -> str:
    """Verifications of scripts while other projects are analysed; nothing where nothing was measured."""
    lines = [
        table_row("how they ran", "where", "proven", "at once, at most", "analyses beside", "took"),
        table_row("---", "---", "--:", "--:", "--:", "--:"),
    ]
    for run in measured:
        for row in run["rows"]:
            found = [each["verification"] for script in row["verdicts"].values() for each in script]
            proven = sum(each["verdict"] == "proven" for each in found)
            cards = f"{run['seats']} x " if run["seats"] > 1 else ""
            where = {cards + each["gpu"] for each in found if each["gpu"]} or {f"{run['seats']} stand-ins on the CPU"}
            lines.append(
                table_row(
                    _WAYS[row["way"]],
                    ", ".join(sorted(where)),
                    f"{proven} of {len(found)}",
                    row["at_once"],
                    row["analysed_beside"],
                    f"{row['seconds']:.0f} s",
                )
            )
    if len(lines) == len(("head", "rule")):
        return ""
    told = "Scripts are verified through ZOO.toml, one at a time on each card, while other projects are analysed."
    return "\n\n".join([told, "\n".join(lines), "Measured by `python benchmarks/migrate_seats.py`."])


def _facts(every: Mapping[str, Any]) -> list[str]:
    causes = ", ".join(f"{number} {cause}" for cause, number in every["causes"].items())
    rules = ", ".join(f"{code} {number}" for code, number in sorted(every["rewrites"].items()))
    lacking = "what failed lacks files that are too large for the copy that was fetched"
    return [
        f"Projects: {_counts(every['outcomes'])} (causes: {causes}; {lacking}).",
        f"Files: {_counts(every['files'])}.",
        f"Rewrites: {rules}.",
    ]


def _dask(measured: Mapping[str, Any] | None) -> list[str]:
    if measured is None:
        return []
    rows = [table_row("", "took", "against one process"), table_row("---", "--:", "--:")]
    for name, way in measured["ways"].items():
        rows.append(table_row(name, f"{way['seconds']:.0f} s", f"{way['speed_up']:.2f}x"))
    same = "the same" if measured["identical"] else "different"
    told = f"{measured['projects']} of them on {measured['machine']['cores']} cores; the rows are {same} in all ways:"
    return [told, "\n".join(rows)]


def _others(measured: Mapping[str, Any]) -> list[str]:
    told = []
    if branches := measured.get("branches"):
        right = branches["projects"] - len({name for name, _ in branches["wrong"]})
        told.append(
            f"{branches['projects']} with changes got branches, {branches['commits']} commits: in clean clones, "
            "`git am` of the patches, `git apply` of the diff, `perfmod apply` and the branch come to the same tree, "
            f"byte for byte, in {right}."
        )
    if kills := measured.get("kills"):
        told.append(
            f"A campaign over {kills['projects']} was killed (SIGKILL) at {kills['of']} random moments and resumed: "
            f"rows and trees of an undisturbed run, and no finished work repeated, in {kills['same']}."
        )
    if edits := measured.get("edits"):
        told.append(f"After a commit in 3 of {edits['projects']}, a second run analysed {edits['analysed']}.")
    return [bullets(told)] if told else []


def _counts(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in numbers.items())
