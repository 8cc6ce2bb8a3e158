"""What is said of larger batches, of the loader and of workers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, frozen
from breakdowns import PROFILE

from perfmod.profile.breakdown import Loader
from perfmod.tune.advice import advice, of_chosen_batch, of_switches, of_waits
from perfmod.tune.result import Batch
from perfmod.tune.search import Trial
from perfmod.tune.sizes import measured, usual_size
from perfmod.tune.stack import Stack

BEST = Stack.of({"PM201", "PM304"})
LEAN = Stack.of({"PM304"})


def batch(size: int, per_second: float) -> Batch:
    return Batch(size, 1000 * size / per_second, per_second, 100.0)


@pytest.mark.parametrize(("batches", "said"), [
    ((), None),
    ((Batch(32, reason="out of memory"),), None),
    ((batch(32, 1000), batch(64, 1900), batch(128, 3000), Batch(256, reason="out of memory")),
     "batches of 128 instead of 32 give 3.00x as many samples a second, with 100 MiB of memory; an epoch"),
    ((batch(32, 1000), batch(64, 1010)), "larger batches bring nothing: with 64 samples, each takes as long as with"),
    ((batch(32, 1000),), None),
])  # fmt: skip
def test_larger_batches(batches: tuple[Batch, ...], said: str | None) -> None:
    told = list(advice({}, BEST, LEAN, batches))
    assert len(told) == (said is not None)
    assert all(line.startswith(said or "") for line in told)


@pytest.mark.parametrize(("at_hand", "with_loader", "said"), [
    (2.0, 5.0, ["with batches at hand the step takes 2.00 ms instead of 5.00 ms"]),
    (2.0, 2.1, []),
    (None, 5.0, []),
])  # fmt: skip
def test_the_loader(at_hand: float | None, with_loader: float, said: list[str]) -> None:
    trials = {(LEAN, True): Trial(LEAN, True, at_hand, 9.0), (BEST, False): Trial(BEST, False, with_loader, 9.0)}
    assert [line.partition(":")[0] for line in advice(trials, BEST, LEAN, ())] == said


def test_a_loader_that_is_waited_for_as_written() -> None:
    (line,) = of_waits(54.0, 36.8)
    assert line.startswith("as written, 36.80 ms of a step's 54.00 ms pass in waiting for batches: data that is ")
    assert line.endswith(" would save up to 68 %")
    assert not [*of_waits(54.0, 4.0)]


def test_a_batch_size_that_was_asked_for() -> None:
    line = of_chosen_batch(32, 1024, original_ms=16.0, ms=64.0)
    assert "give 8.00x as many samples a second as the script as written (16,000 and 2,000)" in line


def test_numbers_of_workers() -> None:
    few = Stack.of(BEST.codes, workers=2)
    trials = {(stack, False): Trial(stack, False, ms, 9.0) for stack, ms in ((BEST, 5.0), (few, 5.5), (LEAN, 8.0))}
    (line,) = advice(trials, BEST, LEAN, ())
    assert line.startswith("the step takes 5.50 ms with 2 workers, 5.00 ms with 8 workers; each worker takes")


@frozen
class FakeRun:
    records: list[Mapping[str, Any]]
    trouble: None = None


@frozen
class FakeLab:
    """Steps of so many milliseconds, by how many times as large the batches are; 0 for a run without a step."""

    times: Mapping[int, float]

    def progress(self, text: str) -> None:
        assert text.startswith("batches of ")

    def time_larger(self, _side: object, _at_hand: int, batch_times: int) -> FakeRun:
        ms = self.times[batch_times]
        return FakeRun([{"window_seconds": ms, "window_steps": 1000 * bool(ms), "peak_reserved_mib": None}])


@pytest.mark.parametrize(("times", "wanted"), [
    ({1: 4.0, 2: 5.0, 4: 10.0}, [(32, 8000), (64, 12800), (128, 12800)]),  # no more samples a second
    ({1: 4.0, 2: 0.0}, [(32, 8000), (64, 0)]),
    (dict.fromkeys((1, 2, 4, 8, 16, 32, 64), 4.0), [(32 * 2**n, 8000 * 2**n) for n in range(7)]),
])  # fmt: skip
def test_sizes_are_doubled_while_that_brings_something(
    times: Mapping[int, float], wanted: list[tuple[int, float]]
) -> None:
    lab: Any = FakeLab(times)
    side: Any = None
    found = list(measured(lab, side, 32, time.monotonic() + 60))
    assert [(batch.size, batch.per_second) for batch in found] == wanted
    assert all(batch.reason for batch in found if batch.ms is None)
    assert not list(measured(lab, side, 32, time.monotonic()))


def test_the_size_of_a_batch_is_that_of_the_loader_that_is_used_most() -> None:
    loaders = (Loader(0, 0, False, False, 64, 7), Loader(0, 0, False, False, 8, 1), Loader(0, 0, False, False, None, 9))
    assert usual_size(evolve(PROFILE, loaders=loaders)) == 64
    assert usual_size(evolve(PROFILE, loaders=loaders[2:])) is None


CONSTANT = "compile = {}\nif compile:\n    print('compiling')\n    model = torch.compile(model)\n"
OPTION = (
    "parser.add_argument('--compile-model', {})\nargs = parser.parse_args()\n"
    "def main():\n    if args.compile_model:\n        model = torch.compile(model)\n"
)


@pytest.mark.parametrize(("code", "arguments", "said"), [
    (CONSTANT.format("False"), (), "`compile` holds (line 2)"),
    (CONSTANT.format("True"), ("--compile=False", "--lr=1"), "`compile` holds (line 2)"),
    (CONSTANT.format("True"), ("--lr=1",), None),
    (CONSTANT.format("False"), ("--compile=True",), None),
    (CONSTANT.format("True"), ("--compile=True",), None),
    (CONSTANT.format("True"), ("--compile", "no"), "`compile` holds (line 2)"),
    (CONSTANT.format("version > 2"), (), None),
    (OPTION.format("action='store_true'"), (), "`args.compile_model` holds (line 4)"),
    (OPTION.format("action='store_true'"), ("--compile-model",), None),
    (OPTION.format("action='store_false'"), (), None),
    (OPTION.format("default=True"), ("--no-compile-model",), "`args.compile_model` holds (line 4)"),
    ("fast = False\nif fast:\n    model = Net()\n", (), None),
    ("print 1", (), None),
])  # fmt: skip
def test_a_switch_of_the_script_for_compilation(code: str, arguments: tuple[str, ...], said: str | None) -> None:
    told = list(of_switches(code.encode(), arguments))
    assert len(told) == (said is not None)
    assert all(said in line for line in told if said is not None)
