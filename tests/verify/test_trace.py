"""Reading what an equality run left behind."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import pytest
from traced_training import Recipe, document

from perfmod.errors import PerfmodError
from perfmod.verify.trace import Backward, Batch, Forward, MalformedTrace, Step, Trace


@pytest.fixture(scope="module")
def written() -> tuple[dict[str, Any], array[float]]:
    return document(Recipe(steps=2))


def test_everything_is_read(written: tuple[dict[str, Any], array[float]]) -> None:
    trace = Trace.read(*written)
    assert (trace.rank, trace.ended, trace.error, trace.half) == (0, "steps", "", False)
    assert (trace.steps, trace.backwards, trace.samples, trace.skipped) == ({"0": 2}, 2, 32, 0)
    assert [type(event) for event in trace.events] == 2 * [Batch, Forward, Backward, Step]
    assert trace.last == 2
    assert len(trace.losses()) == 2
    batch = next(trace.batches())
    assert (batch.loader, batch.epoch, batch.samples) == (0, 0, 16)
    assert [leaf.dtype for leaf in batch.leaves] == ["float32", "int64"]
    assert batch.leaves[0].sketch is None
    outputs = next(trace.forwards()).leaves[0]
    assert outputs.shape == (16, 10)
    assert outputs.sketch is not None
    assert len(outputs.sketch) == 128
    gradient = trace.snapshot("gradients", 1)["0.last.bias"]
    assert (gradient.shape, gradient.nan, gradient.inf, len(gradient.sketch)) == ((10,), 0, 0, 10)
    assert gradient.norm == pytest.approx(sum(value**2 for value in gradient.sketch) ** 0.5)
    assert trace.snapshot("gradients", 2) == {}


def test_a_failed_run_tells_its_error(written: tuple[dict[str, Any], array[float]]) -> None:
    failed = {**written[0], "ended": "error", "error": {"type": "ValueError", "message": "no data", "line": 3}}
    assert Trace.read(failed, written[1]).error == "ValueError: no data"


def _changed(document: dict[str, Any], *path: str | int, value: object) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(document))
    inner: Any = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


@pytest.mark.parametrize(("path", "value", "complaint"), [
    (("schema",), 2, "schema 2, not 1"),
    (("mode",), "timing", "of a timing run"),
    (("rank",), "0", "rank is '0', not an integer"),
    (("backwards",), True, "backwards is True, not an integer"),
    (("steps",), [2], r"steps is \[2\], not an object"),
    (("steps", "0"), 1.5, r"steps.0 is 1.5, not an integer"),
    (("events",), {}, "events is {}, not a list"),
    (("events", 0, "kind"), "nap", r"events\[0\] is of an unknown kind, 'nap'"),
    (("events", 2, "losses"), ["low"], r"events\[2\].losses\[0\] is 'low', not a number"),
    (("events", 3), {"kind": "step", "step": 0}, r"events\[3\] lacks 'optimizer'"),
    (("events", 1, "leaves", 0, "sketch"), [0, 10**9], r"events\[1\].leaves\[0\].sketch is .* no span of the"),
    (("events", 1, "leaves", 0, "sketch"), [-1, 2], "no span of the"),
    (("snapshots", 0, "tensors", "0.first.bias", "norm"), None, "norm is None, not a number"),
    (("error",), "oops", "error is 'oops', not an object"),
])  # fmt: skip
def test_a_malformed_trace_says_where(
    written: tuple[dict[str, Any], array[float]], path: tuple[str | int, ...], value: object, complaint: str
) -> None:
    with pytest.raises(MalformedTrace, match=complaint) as caught:
        Trace.read(_changed(written[0], *path, value=value), written[1])
    assert isinstance(caught.value, PerfmodError)
    assert "\n" not in str(caught.value)


def test_files_of_a_rank(written: tuple[dict[str, Any], array[float]], tmp_path: Path) -> None:
    path = tmp_path / "rank0.json"
    path.write_text(json.dumps(written[0]), encoding="utf-8")
    (tmp_path / "rank0.f64").write_bytes(written[1].tobytes())
    assert Trace.load(path) == Trace.read(*written)
    (tmp_path / "rank0.f64").write_bytes(written[1].tobytes()[:-3])
    with pytest.raises(MalformedTrace, match=r"rank0.json: "):
        Trace.load(path)
    (tmp_path / "rank0.f64").write_bytes(b"")
    with pytest.raises(MalformedTrace, match=r"rank0.json: .* no span of the 0 values"):
        Trace.load(path)
    path.write_text('{"schema": 1, "mode"', encoding="utf-8")
    with pytest.raises(MalformedTrace, match=r"rank0.json: "):
        Trace.load(path)
    path.unlink()
    with pytest.raises(OSError, match="rank0"):
        Trace.load(path)
