"""What a step waits for, by what a run has seen, and how that is told."""

from __future__ import annotations

import io
import json
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from perfmod.profile.breakdown import Bound, Breakdown, Wait, breakdown
from perfmod.profile.report import json_schema, render, render_json

LOADER = {
    "workers": 0,
    "prefetch": 0,
    "pin_memory": False,
    "persistent": False,
    "batch_size": 64,
    "batches": 40,
}
WAITS = [Wait("train.py", 7, "total += loss.item()", 1.0, 0.4, rule="PM106: perfmod apply rewrites it")]


def record(step: float, loader: float, busy: float, sync: float = 0.0, kernel: str = "sgemm") -> dict[str, Any]:
    """Of a run on a device: milliseconds a step, under a profiler that makes each step twice as long."""
    trace = {
        "step_ms": 2 * step,
        "busy_share": busy / (2 * step),
        "sync_ms": sync,
        "kernels": 20.0,
        "to_device_bytes": 2.0**20,
        "pageable_bytes": 2.0**19,
    }
    return {
        "plain": {"steps": 20, "step_ms": step, "loader_ms": loader, "loaders": [LOADER]},
        "trace": trace,
        "work": {kernel: [20.0, busy]},
        "memory": {"free_mib": 70000.0, "total_mib": 80000.0, "peak_reserved_mib": 900.0},
    }


def found(*figures: float, kernel: str = "sgemm") -> Breakdown:
    return breakdown(
        record(*figures, kernel=kernel), WAITS, device="H100", is_on_gpu=True, torch="2.11.0", command="again"
    )


@pytest.mark.parametrize(("figures", "kernel", "bound"), [
    ((10.0, 7.0, 1.0), "sgemm", Bound.LOADER),
    ((10.0, 0.5, 9.0), "sgemm", Bound.COMPUTE),
    ((10.0, 0.5, 9.0), "void elementwise", Bound.MEMORY),
    ((10.0, 0.5, 2.0, 0.1), "sgemm", Bound.LAUNCHES),
    ((10.0, 0.5, 6.0, 5.0), "sgemm", Bound.SYNCS),
    # The device works on the step before while the loader is waited for.
    ((10.0, 5.0, 9.0), "sgemm", Bound.COMPUTE),
])  # fmt: skip
def test_bounds(figures: tuple[float, ...], kernel: str, bound: Bound) -> None:
    assert found(*figures, kernel=kernel).bound is bound


def test_what_each_lever_would_leave() -> None:
    levers = {lever.name: round(lever.ms, 3) for lever in found(10.0, 4.0, 1.0, 2.0).levers}
    assert levers == {
        "both": 1.0,
        "the step as one CUDA graph, batches loaded beside it": 4.0,
        "no wait for batches": 6.0,
        "no wait for values from the GPU": 8.0,
    }
    # Nothing takes less than what the device does, and what gains nothing is not told.
    assert [lever.name for lever in found(10.0, 4.0, 9.9).levers] == []


def test_without_a_device() -> None:
    seen = {**record(10.0, 1.0, 0.0), "trace": None, "work": None, "memory": None}
    slow = breakdown(seen, [], device="AMD EPYC", is_on_gpu=False)
    assert (slow.bound, slow.busy_ms, slow.idle_ms) == (Bound.CPU, None, None)
    starved = breakdown({**seen, "plain": {**seen["plain"], "loader_ms": 6.0}}, [], device="AMD EPYC", is_on_gpu=False)
    assert starved.bound is Bound.LOADER
    assert [(lever.name, lever.ms) for lever in starved.levers] == [("no wait for batches", 4.0)]
    assert breakdown(seen, [], device="H100", is_on_gpu=True).bound is Bound.UNCLEAR


def test_lines_for_a_terminal() -> None:
    text = io.StringIO()
    render(found(10.0, 4.0, 1.0, 2.0), Console(file=text, width=80))
    lines = text.getvalue().splitlines()
    assert lines[0] == "starved: the step waits for batches"
    assert lines[1] == "step: 10.00 ms, over 20 steps (H100, torch 2.11.0)"
    assert "  waits for batches      4.00 ms   40 %" in lines
    assert "  GPU idle               9.00 ms   90 %  20 kernels, 1 implicit synchronisations" in lines
    assert "  train.py:7  once, 0.40 ms  PM106: perfmod apply rewrites it" in lines
    assert lines[-1] == "loader: batches of 64, no workers, pageable memory"


def test_json_fits_its_schema() -> None:
    for each in (found(10.0, 4.0, 1.0), found(1.0, 0.0, 0.9)):
        document = json.loads(render_json(each))
        jsonschema.validate(document, json_schema())
        assert document["bound"] == each.bound.value
        assert document["schema"] == 1
