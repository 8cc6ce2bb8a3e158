"""What commands cost, how runs are compared, and the tables that are made of it."""

from __future__ import annotations

import importlib
import json
import re
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_sixty_public_repositories_are_pinned() -> None:
    sources = module("corpus_sources")
    listed, known = sources.public(), {each.name: each for each in sources.repositories()}
    assert len({each.name for each in listed}) == len(listed) == 60
    assert all(re.fullmatch(r"[0-9a-f]{40}", each.commit) and each.licence and each.kind for each in listed)
    both = [each for each in listed if each.name in known]
    assert len(both) == 42
    assert all(known[each.name].commit == each.commit for each in both)


@pytest.mark.parametrize(("script", "expected"), [
    ("import sys; print('said'); sys.exit(3)", {"code": 3, "output": b"said\n", "stopped": False}),
    ("import sys; print('x' * 9000, 'end', file=sys.stderr)", {"code": 0, "output": b""}),
    (f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])", {"code": 0}),
    ("import time; time.sleep(60)", {"code": -9, "stopped": True}),
], ids=["exit code", "errors", "child", "limit"])  # fmt: skip
def test_cost_of_a_command(script: str, expected: Mapping[str, object], tmp_path: Path) -> None:
    limit = 0.5 if expected.get("stopped") else 60
    run = module("process_cost").cost([sys.executable, "-c", script], tmp_path, limit)
    assert {key: getattr(run, key) for key in expected} == expected
    assert run.seconds >= 0
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert 5 <= run.peak_mib < max(500, own // 1024 + 1)
    assert len(run.errors) <= 500
    assert run.errors.endswith("end") is ("stderr" in script)
    assert (run.processor_seconds >= 0.3) is ("process_time" in script)


@pytest.mark.parametrize(("script", "states"), [
    ("pass", [("cold", None), ("warm", None)]),
    ("raise SystemExit(3)", [("cold", "failed"), ("warm", None)]),
    ("import time; print(time.time_ns())", [("cold", None), ("warm", "failed")]),
    ("import os, pathlib; pathlib.Path(os.environ['PERFMOD_CACHE_DIR'], 'kept').touch(exist_ok=False)",
     [("cold", None), ("warm", "failed")]),
], ids=["the same", "a fault", "another answer", "one cache for both"])  # fmt: skip
def test_a_tool_is_run_cold_and_warm(
    script: str, states: Sequence[tuple[str, str | None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    throughput = module("throughput")
    monkeypatch.setattr(throughput, "PERFMOD", (sys.executable, "-c", script))
    runs = list(throughput._runs(throughput.OURS, 2, tmp_path, tmp_path, tmp_path, time.monotonic() + 60))
    assert [(run["cache"], next((key for key in ("failed", "stopped") if key in run), None)) for run in runs] == states
    assert {run["jobs"] for run in runs} == {2}


def test_parts_of_before_are_kept_on_the_same_machine() -> None:
    document = module("throughput").document
    first = document([{"name": "six", "runs": 1}, {"name": "help", "runs": 1}], None)
    second = document([{"name": "timm", "runs": 2}, {"name": "six", "runs": 2}], first)
    assert [(row["name"], row["runs"]) for row in second["parts"]] == [("help", 1), ("timm", 2), ("six", 2)]
    elsewhere = document([{"name": "timm", "runs": 3}], second | {"machine": {}})
    assert [row["name"] for row in elsewhere["parts"]] == ["timm"]


def said(*reasons: str, code: int = 0, output: bytes | None = None) -> object:
    files = [{"path": f"{number}.py", "reason": reason} for number, reason in enumerate(reasons)]
    text = json.dumps({"files": files}).encode() if output is None else output
    return module("process_cost").Cost(1.0, 1.0, 50, code, stopped=False, output=text, errors="fault")


def test_runs_are_compared() -> None:
    compared = module("steadiness").compared
    late = "not analysed: it needs more than 20 s; raise --time-limit"
    cases = [
        ([said("", ""), said("", "")], {"files": 2, "differs": [], "lost": [], "broken": []}),
        ([said("", "a"), said("", "b")], {"differs": ["1"], "lost": []}),
        ([said(""), said("", code=1)], {"differs": ["1"], "lost": []}),
        ([said("", late), said("", late)], {"differs": [], "lost": ["1.py"]}),
        ([said(""), said(output=b"", code=3)], {"files": 1, "broken": ["1: exit code 3: fault"], "differs": ["1"]}),
    ]
    for runs, expected in cases:
        found = compared({str(number): run for number, run in enumerate(runs)})
        assert {key: found[key] for key in expected} == expected


def test_a_repository_is_run_four_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steadiness, sources = module("steadiness"), module("corpus_sources")
    folder = tmp_path / "owner+name"
    folder.mkdir()
    sources.git(folder, "init", "--quiet")
    commits = []
    for name in ("one", "two"):
        author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        sources.git(folder, *author, "commit", "--quiet", "--allow-empty", "-m", name)
        commits.append(sources.git(folder, "rev-parse", "HEAD").stdout.decode().strip())
    monkeypatch.setattr(steadiness, "PERFMOD", (sys.executable, "-c", "print('{\"files\": []}')"))
    row = steadiness.row(sources.Repository("owner/name", commits[1], ""), tmp_path)
    assert list(row["seconds"]) == ["1 idle", "2 idle", "1 loaded", "2 loaded"]
    assert not row["differs"] + row["lost"] + row["broken"]
    assert "at commit" in steadiness.row(sources.Repository("owner/name", commits[0], ""), tmp_path)["unavailable"]


def test_a_sample_is_spread_evenly() -> None:
    sample = module("steadiness").sample
    assert [list(sample(range(60), number)) for number in (None, 3, 90)] == [
        list(range(60)),
        [0, 20, 40],
        list(range(60)),
    ]


def run(tool: str, cache: str, seconds: float, **more: object) -> dict[str, object]:
    return {"tool": tool, "jobs": 2, "cache": cache, "seconds": seconds, "processor_seconds": 9, "peak_mib": 80} | more


def test_costs_become_tables() -> None:
    render = module("costs").render_cost
    sums = [run("perfmod", "cold", 10), run("perfmod", "warm", 1.25), run("hotpath", "", 3)]
    alone = [run("perfmod", "cold", 5, stopped=True), run("torchfix", "", 900, failed=True)]
    head = {"commit": "c" * 40 + "+", "load_at_start": 0.2}
    parts = [
        head | {"name": "help", "runs": [run("perfmod --help", "", 0.12, best_of=10)]},
        head | {"name": "timm", "packages": ["timm"], "files": 286, "runs": alone},
        head | {"name": "six", "packages": ["accelerate", "timm"], "files": 5000, "runs": sums},
    ]
    measured = {"machine": {"cpu": "CPU", "cores": 2, "python": "3.11"}, "versions": {"ruff": "1"}, "parts": parts}
    text = render(measured)
    for line in (
        "| timm | 286 | perfmod | 2 | cold | stopped at 5 s |  |  |",
        "| timm | 286 | torchfix | 2 |  | 900.00 s (failed) | 9.0 s | 80 MiB |",
        "| six packages | 5,000 | perfmod | 2 | warm | 1.25 s | 9.0 s | 80 MiB |",
        "| packages | files | perfmod cold | perfmod warm | hotpath | cold, per 1,000 files |",
        "| accelerate, timm | 5,000 | 10.00 s | 1.25 s | 3.00 s | 2.0 s |",
        "`perfmod --help`: 0.12 s, the best of 10.",
    ):
        assert line in text.splitlines()
    assert "`cccccccccc+`" in text
    assert "Other processes" not in text
    assert "load up to 8.0" in render(measured | {"parts": [parts[0] | {"load_at_start": 8.0}]})
    assert render(None) == ""


def test_steadiness_becomes_a_paragraph() -> None:
    render = module("costs").render_steadiness
    good = {"repository": "a/b", "files": 20, "seconds": {"1 idle": 1.0}, "differs": [], "lost": [], "broken": []}
    rows = [good, good | {"repository": "c/d", "lost": ["x.py"], "seconds": {"1 idle": 2.5}}, {"unavailable": "gone"}]
    head = {"commit": None, "jobs": [1, 2], "busy": 2, "listed": 60}
    text = render(head | {"repositories": rows})
    for words in ("2 of 60", "40 files", "differs: 0", "its time: 1 (c/d)", "2.5 s (c/d)"):
        assert words in text
    assert render(None) == render(head | {"repositories": rows[2:]}) == ""
