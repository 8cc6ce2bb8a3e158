"""Small traces as torch's profiler exports them, with what they say about waiting, copying and being busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perfmod.verify.harness.perfmod_harness.chrome_trace import Trace, covered

Event = dict[str, Any]
Make = Callable[..., Event]


def of_torch_2_1(kind: str, name: str, start: float, duration: float, thread: object = 40, **args: Any) -> Event:
    """Whole microseconds since 1970."""
    times = {"ts": 1_700_000_000_000_000 + round(start), "dur": round(duration)}
    return {"ph": "X", "cat": kind, "name": name, "pid": 40, "tid": thread, **times, "args": {"External id": 7, **args}}


def of_torch_2_11(kind: str, name: str, start: float, duration: float, thread: object = 40, **args: Any) -> Event:
    """Fractions, since a `baseTimeNanoseconds` that the trace tells."""
    times = {"ts": 4330480322988.541 + start, "dur": duration}
    return {"ph": "X", "cat": kind, "name": name, "pid": 40, "tid": thread, **times, "args": {"Ev Idx": 1, **args}}


@pytest.fixture(params=[of_torch_2_1, of_torch_2_11])
def event(request: pytest.FixtureRequest) -> Make:
    """Makes a complete event in one of the formats."""
    make: Make = request.param
    return make


def surroundings(event: Make) -> list[Event]:
    """What else is in a trace."""
    return [
        {"ph": "M", "name": "process_name", "pid": 40, "tid": 0, "args": {"name": "python"}},
        {"ph": "s", "id": 3, "pid": 40, "tid": 40, "ts": 5, "cat": "ac2g", "name": "ac2g"},
        {"ph": "i", "name": "Iteration Start: PyTorch Profiler", "s": "g", "pid": "Traces", "tid": "Trace", "ts": 0},
        event("Trace", "PyTorch Profiler (0)", 0, 5000),
        event("cpu_op", "aten::item", 1000, 90),
        event("user_annotation", "Optimizer.step#SGD.step", 1000, 90),
        event("gpu_user_annotation", "perfmod:first", 1, 1, thread=7),
    ]


def profiled_steps(event: Make) -> list[Event]:
    """Two steps in the 2 ms between the marks, with something of every kind, and something outside of them."""
    return [
        *surroundings(event),
        event("kernel", "before", 900, 50, thread=7, correlation=1),
        event("cuda_runtime", "cudaDeviceSynchronize", 900, 60, correlation=2),
        event("user_annotation", "perfmod:first", 990, 10),
        # 300 us of kernels that overlap, on two streams: 400 us busy
        event("cuda_runtime", "cudaLaunchKernel", 1000, 10, correlation=3),
        event("kernel", "void gemm<float>()", 1100, 300, thread=7, stream=7, correlation=3),
        event("cuda_driver", "cuLaunchKernelEx", 1010, 10, correlation=4),
        event("kernel", "triton_poi_0", 1200, 300, thread=13, stream=13, correlation=4),
        # a pageable copy that holds the host up for 200 us, then a wait of 100 us
        event("cuda_runtime", "cudaMemcpyAsync", 1500, 200, correlation=5),
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1650, 50, thread=7, correlation=5, bytes=4096),
        event("cuda_runtime", "cudaStreamSynchronize", 1700, 100, correlation=6),
        # a pinned copy, which holds nobody up, and its answer
        event("cuda_runtime", "cudaMemcpyAsync", 1900, 10, correlation=8),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1950, 50, thread=7, correlation=8, bytes=2048),
        event("cuda_runtime", "cudaMemcpyAsync", 2010, 10, correlation=9),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 2050, 25, thread=7, correlation=9, bytes=8),
        event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 2075, 25, thread=7, correlation=10, bytes=512),
        event("gpu_memset", "Memset (Device)", 2100, 100, thread=7, correlation=11, bytes=64),
        # two threads wait at the same time, for 150 us together
        event("cuda_runtime", "cudaEventSynchronize", 2200, 100, correlation=12),
        event("cuda_runtime", "cudaStreamSynchronize", 2250, 100, thread=41, correlation=13),
        event("user_annotation", "perfmod:last", 2400, 10),
        # our own wait for what is left: the device works until 2900, the host does not wait of its own accord
        event("cuda_runtime", "cudaDeviceSynchronize", 2420, 500, correlation=14),
        event("kernel", "void late()", 2800, 100, thread=7, correlation=15),
        event("user_annotation", "perfmod:idle", 3000, 10),
        event("kernel", "after", 3100, 100, thread=7, correlation=16),
        event("cuda_runtime", "cudaStreamSynchronize", 3100, 100, correlation=17),
    ]


def test_two_steps(event: Make) -> None:
    trace = Trace(profiled_steps(event))
    assert trace.is_whole()
    assert trace.per_step(2) == pytest.approx(
        {
            "step_ms": 1.0,
            "sync_ms": (200 + 100 + 150) / 1000 / 2,
            "to_device_bytes": 3072,
            "pageable_bytes": 2048,
            "from_device_bytes": 4,
            "kernels": 1.5,
            "busy_share": (400 + 50 + 50 + 50 + 100 + 100) / 2000,
        }
    )


def test_work_by_name(event: Make) -> None:
    found = Trace(profiled_steps(event)).work_by_name(2)
    assert found["triton_poi_0"] == pytest.approx([0.5, 0.15])
    assert found["Memset (Device)"] == pytest.approx([0.5, 0.05])
    assert not {"before", "after"} & found.keys()


@pytest.mark.parametrize("missing", ["perfmod:first", "perfmod:last", "perfmod:idle"])
def test_a_trace_without_a_mark_is_not_whole(event: Make, missing: str) -> None:
    assert not Trace(each for each in profiled_steps(event) if each["name"] != missing).is_whole()


def test_a_trace_in_which_the_device_did_nothing_is_not_whole(event: Make) -> None:
    assert not Trace(each for each in profiled_steps(event) if each.get("cat") != "kernel").is_whole()


def sync(event: Make, number: int, start: float) -> Event:
    return event("user_annotation", f"perfmod:sync:{number}", start, 5)


def test_a_mark_answers_for_the_waits_since_the_one_before(event: Make) -> None:
    trace = Trace(
        [
            *surroundings(event),
            # .item(): one wait
            event("cuda_runtime", "cudaMemcpyAsync", 100, 10, correlation=1),
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 290, 5, thread=7, correlation=1, bytes=4),
            event("cuda_runtime", "cudaStreamSynchronize", 110, 190, correlation=2),
            sync(event, 0, 310),
            # nonzero: two waits, then two warnings
            event("cuda_runtime", "cudaStreamSynchronize", 400, 100, correlation=3),
            event("cuda_runtime", "cudaStreamSynchronize", 520, 30, correlation=4),
            sync(event, 1, 560),
            sync(event, 2, 570),
            # a backward pass waits in a thread of its own and reports at its end
            event("cuda_runtime", "cudaStreamSynchronize_v3020", 700, 50, thread=41, correlation=5),
            sync(event, 3, 900),
        ]
    )
    assert trace.waited_for(4) == pytest.approx([0.19, 0.13, 0.0, 0.05])


def test_a_pageable_copy_belongs_to_the_wait_right_after_it(event: Make) -> None:
    copy = "Memcpy HtoD (Pageable -> Device)"
    trace = Trace(
        [
            # asked for with non_blocking: holds the host up, yet nobody warned of it
            event("cuda_runtime", "cudaMemcpyAsync", 100, 50, correlation=1),
            event("gpu_memcpy", copy, 120, 5, thread=7, correlation=1, bytes=4),
            event("cuda_runtime", "cudaLaunchKernel", 160, 10, correlation=2),
            event("cuda_runtime", "cudaMemcpyAsync", 200, 70, correlation=3),
            event("gpu_memcpy", copy, 260, 5, thread=7, correlation=3, bytes=4),
            event("cuda_runtime", "cudaStreamSynchronize", 270, 20, correlation=4),
            sync(event, 0, 300),
        ]
    )
    assert trace.waited_for(1) == pytest.approx([0.09])


def test_waits_that_the_script_asks_for_count_for_no_line(event: Make) -> None:
    trace = Trace(
        [
            event("cuda_runtime", "cudaDeviceSynchronize", 100, 400, correlation=1),
            event("cuda_runtime", "cudaEventSynchronize", 500, 100, correlation=2),
            event("cuda_runtime", "cudaStreamSynchronize", 600, 20, correlation=3),
            sync(event, 0, 630),
            event("cuda_runtime", "cudaStreamSynchronize", 700, 90, correlation=4),
        ]
    )
    assert trace.waited_for(1) == pytest.approx([0.02])


def test_a_synchronisation_without_a_mark_leaves_the_waits_to_the_others(event: Make) -> None:
    trace = Trace([event("cuda_runtime", "cudaStreamSynchronize", 600, 20, correlation=3), sync(event, 1, 630)])
    assert trace.waited_for(3) == pytest.approx([0.0, 0.02, 0.0])


def test_covered() -> None:
    assert covered([]) == 0
    assert covered([(5, 9), (0, 4), (3, 6), (1, 2), (20, 21)]) == 10
