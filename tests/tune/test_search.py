"""The search over stacks, with times that are made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import pytest
from attrs import define, field, frozen

from perfmod.profile.breakdown import Bound
from perfmod.transforms.finding import Numerics
from perfmod.transforms.policy import MOST_WORKERS, CompileMode
from perfmod.tune.search import NO_TIME, PROCESSES, Search, Trial, pooled
from perfmod.tune.stack import Stack

CLASSES = {
    "PM106": Numerics.BITWISE,
    "PM201": Numerics.BITWISE,
    "PM202": Numerics.BITWISE,
    "PM301": Numerics.PRECISION,
    "PM303": Numerics.PRECISION,
    "PM304": Numerics.ROUNDING,
    "PM305": Numerics.PRECISION,
    "PM314": Numerics.SAMPLING,
}
FEEDING = frozenset({"PM201", "PM202"})
Cost = Callable[[Stack, bool], float]


@frozen
class FakeSpace:
    """A space of rules by their codes."""

    codes: tuple[str, ...]
    harmless: frozenset[str] = frozenset({"PM106", "PM202"})
    feeding: frozenset[str] = FEEDING
    numbers: tuple[int, ...] = ()
    instead: str = ""
    """A rule that leaves nothing to write to those that feed the step."""

    def effective(self, stack: Stack) -> Stack:
        others = self.feeding - {self.instead} if self.instead in stack.codes else set()
        return stack.under(stack.codes - others)

    def numerics(self, codes: Collection[str]) -> Numerics:
        return max((CLASSES[code] for code in codes), key=list(Numerics).index, default=Numerics.BITWISE)

    def within(self, widest: Numerics) -> frozenset[str]:
        return frozenset(code for code in self.codes if CLASSES[code].is_within(widest))

    def modes(self, codes: Collection[str]) -> tuple[CompileMode, ...]:
        return (CompileMode.DEFAULT, CompileMode.REDUCE_OVERHEAD) if "PM303" in codes else (CompileMode.DEFAULT,)

    def with_other_workers(self, stack: Stack) -> list[Stack]:
        return [Stack.of(stack.codes, stack.compile_mode, number) for number in self.numbers]


@define
class FakeBench:
    """Times by what a stack costs, in milliseconds; the original's are those of no rules."""

    cost: Cost
    most: int = 1000
    asked: list[tuple[Stack, bool]] = field(factory=list)

    def __call__(self, stacks: Sequence[Stack], at_hand: bool) -> list[Trial]:
        stacks = stacks[: self.most - len(self.asked)]
        self.asked += [(stack, at_hand) for stack in stacks]
        return [self._trial(stack, at_hand) for stack in stacks]

    def _trial(self, stack: Stack, at_hand: bool) -> Trial:
        ms = self.cost(stack, at_hand)
        if not ms:
            return Trial(stack, at_hand, reason="it crashed")
        compiled = 30.0 if "PM303" in stack.codes else 0.0
        return Trial(stack, at_hand, ms, self.cost(Stack(), at_hand), compile_seconds=compiled)


def search(space: FakeSpace, bench: FakeBench, bound: Bound = Bound.UNCLEAR, steps: int | None = None) -> Search:
    return Search(space, bench, bound, steps=steps)  # type: ignore[arg-type]


def factors(table: dict[str, float], loader_ms: float = 0.0) -> Cost:
    """A step of 10 ms, times a factor for each rule; `PM301+PM305` is one for both together."""

    def cost(stack: Stack, at_hand: bool) -> float:
        ms = 10.0
        for codes, factor in table.items():
            if set(codes.split("+")) <= stack.codes:
                ms *= factor
        waited = 0.0 if at_hand else loader_ms / (stack.workers if "PM201" in stack.codes else 1)
        return max(ms, waited)

    return cost


@pytest.mark.parametrize(("table", "widest", "wanted"), [
    # Each alone slows the step down, both together halve it.
    ({"PM301": 1.05, "PM305": 1.1, "PM301+PM305": 0.4}, Numerics.PRECISION, {"PM106", "PM301", "PM305"}),
    # What does not pay is taken out again, but for what is written by default.
    ({"PM304": 0.8, "PM303": 1.0, "PM301": 1.2}, Numerics.PRECISION, {"PM106", "PM304"}),
    # A class does not see the rules of wider ones.
    ({"PM304": 0.8, "PM303": 0.3}, Numerics.ROUNDING, {"PM106", "PM304"}),
    ({"PM304": 0.8, "PM303": 0.3}, Numerics.BITWISE, set()),
    # Nothing to find.
    ({"PM304": 0.995, "PM303": 0.99}, Numerics.PRECISION, set()),
])  # fmt: skip
def test_the_fastest_stack_of_a_class(table: dict[str, float], widest: Numerics, wanted: set[str]) -> None:
    space = FakeSpace(("PM106", "PM301", "PM303", "PM304", "PM305"))
    assert search(space, FakeBench(factors(table))).best(widest).codes == wanted


def test_what_is_written_by_default_goes_if_it_slows_a_stack_down() -> None:
    space, bench = FakeSpace(("PM106", "PM304")), FakeBench(factors({"PM304": 0.8, "PM106": 1.1}))
    found = search(space, bench)
    best = found.best(Numerics.PRECISION)
    assert best.codes == {"PM106", "PM304"}
    assert found.trimmed(best).codes == {"PM304"}
    neutral = search(space, FakeBench(factors({"PM304": 0.8})))
    assert neutral.trimmed(neutral.best(Numerics.PRECISION)).codes == {"PM106", "PM304"}


def test_a_mode_of_compiling() -> None:
    def cost(stack: Stack, _at_hand: bool) -> float:
        return 10.0 * (0.5 if stack.compile_mode is CompileMode.REDUCE_OVERHEAD else 0.8 if stack.codes else 1.0)

    space, bench = FakeSpace(("PM303",)), FakeBench(cost)
    found = search(space, bench, Bound.LAUNCHES).best(Numerics.PRECISION)
    assert (found.codes, found.compile_mode) == ({"PM303"}, CompileMode.REDUCE_OVERHEAD)
    # The likeliest goes first where launches are what is waited for.
    assert bench.asked[0][0].compile_mode is CompileMode.REDUCE_OVERHEAD


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ({"PM314": 0.3}, {"PM314"}),
        ({"PM314": 0.5, "PM303": 0.7}, {"PM303", "PM314"}),
        ({"PM314": 1.1, "PM303": 0.5}, {"PM303"}),
    ],
)
def test_a_recorded_step_is_tried_beside_others(table: dict[str, float], wanted: set[str]) -> None:
    bench = FakeBench(factors(table))
    assert search(FakeSpace(("PM303", "PM314")), bench, Bound.LAUNCHES).best(Numerics.PRECISION).codes == wanted
    opened = [stack for stack, _ in bench.asked]
    assert all(Stack.of(codes) in opened for codes in (["PM303", "PM314"], ["PM303"], ["PM314"]))
    assert not any("PM314" in stack.codes for stack in opened if stack.compile_mode is CompileMode.REDUCE_OVERHEAD)


def test_a_recorded_step_that_fails_leaves_the_rest() -> None:
    def cost(stack: Stack, at_hand: bool) -> float:
        return 0.0 if "PM314" in stack.codes else factors({"PM304": 0.8})(stack, at_hand)

    assert search(FakeSpace(("PM304", "PM314")), FakeBench(cost)).best(Numerics.PRECISION).codes == {"PM304"}


def test_compiling_has_to_be_earned_back() -> None:
    bench = FakeBench(factors({"PM303": 0.5, "PM304": 0.9}))
    space = FakeSpace(("PM303", "PM304"))
    # 30 s of compiling, 4.5 ms saved in each step.
    assert search(space, bench, steps=1000).best(Numerics.PRECISION).codes == {"PM304"}
    assert search(space, bench, steps=100_000).best(Numerics.PRECISION).codes == {"PM303", "PM304"}


def test_what_crashes_loses() -> None:
    def cost(stack: Stack, at_hand: bool) -> float:
        return 0.0 if {"PM303", "PM305"} <= stack.codes else factors({"PM303": 0.5, "PM305": 0.9})(stack, at_hand)

    found = search(FakeSpace(("PM303", "PM304", "PM305")), FakeBench(cost))
    assert found.best(Numerics.PRECISION).codes == {"PM303"}
    assert any(trial.reason == "it crashed" and not trial.ratio for trial in found.trials.values())


def test_the_loader_is_judged_by_itself() -> None:
    bench = FakeBench(factors({"PM304": 0.8}, loader_ms=40.0))
    space = FakeSpace(("PM106", "PM201", "PM202", "PM304"), numbers=(2, 4))
    found = search(space, bench).best(Numerics.ROUNDING)
    assert (found.codes, found.workers) == ({"PM106", "PM201", "PM202", "PM304"}, MOST_WORKERS)
    # With batches at hand nothing of that shows, and nothing of it is asked.
    assert all(stack.codes >= FEEDING for stack, at_hand in bench.asked if at_hand)
    few = FakeBench(lambda stack, _: 10.0 - (stack.workers == 2) if "PM201" in stack.codes else 40.0)
    assert search(space, few).best(Numerics.BITWISE).workers == 2
    # As fast as the others, and they cost more.
    alike = FakeBench(lambda stack, _: 10.0 if "PM201" in stack.codes else 40.0)
    assert search(space, alike).best(Numerics.BITWISE).workers == 2


def test_what_another_rule_replaces_is_neither_timed_nor_named() -> None:
    def cost(stack: Stack, _: bool) -> float:
        assert not {"PM201", "PM304"} <= stack.codes
        return 10.0 if "PM304" in stack.codes else 20.0 if "PM201" in stack.codes else 40.0

    bench = FakeBench(cost)
    space = FakeSpace(("PM201", "PM304"), feeding=frozenset({"PM201", "PM304"}), instead="PM304")
    found = space.effective(search(space, bench, Bound.LOADER).best(Numerics.ROUNDING))
    assert found.codes == {"PM304"}
    # Without the other one, it is tried.
    assert (Stack.of({"PM201"}), False) in bench.asked


def test_a_starved_step_is_fed_before_its_time_is_spent_otherwise() -> None:
    space = FakeSpace(("PM201", "PM202", "PM301", "PM304", "PM305"))
    cost = factors({"PM304": 0.8, "PM301": 0.9}, loader_ms=40.0)
    asked = FakeBench(cost)
    found = search(space, asked, Bound.LOADER).best(Numerics.PRECISION)
    assert found.codes == {"PM201", "PM202", "PM301", "PM304"}
    assert not asked.asked[2][1]


def test_a_wider_class_has_to_be_faster() -> None:
    found = search(FakeSpace(("PM304", "PM301")), FakeBench(factors({"PM304": 0.8, "PM301": 0.99})))
    narrow, wide = Stack.of({"PM304"}), Stack.of({"PM301", "PM304"})
    assert found.preferred(narrow, wide) == narrow
    assert found.preferred(Stack(), narrow) == narrow


def test_a_stack_whose_loader_was_not_timed_is_not_lost() -> None:
    bench = FakeBench(factors({"PM304": 0.5}), most=1)
    found = search(FakeSpace(("PM202", "PM304")), bench)
    best = found.best(Numerics.ROUNDING)
    assert best.codes == {"PM202", "PM304"}
    assert found.preferred(Stack(), best) == best


def test_a_budget_ends_the_search() -> None:
    bench = FakeBench(factors({"PM301": 0.9, "PM304": 0.8}), most=2)
    found = search(FakeSpace(("PM301", "PM304", "PM305")), bench)
    assert found.best(Numerics.PRECISION).codes == {"PM301", "PM304", "PM305"}
    assert len(bench.asked) == 2
    assert {trial.reason for trial in found.trials.values() if not trial.ratio} == {NO_TIME}
    assert found.has_left(Numerics.PRECISION)
    assert not found.has_left(Numerics.BITWISE)


def test_those_that_are_close_are_timed_again() -> None:
    """One process in which a stack was fast by chance does not decide."""
    times = {"PM301": iter((7.0, 9.0)), "PM304": iter((7.2, 7.2)), "PM305": iter((9.5,))}
    usual = factors({})

    def cost(stack: Stack, at_hand: bool) -> float:
        return next(times[next(iter(stack.codes))]) if stack.codes else usual(stack, at_hand)

    found = search(FakeSpace(()), FakeBench(cost))
    best = found.preferred(Stack.of({"PM304"}), Stack.of({"PM301"}))
    assert best.codes == {"PM304"}
    assert found.trials[Stack.of({"PM301"}), True].processes == 2


def test_a_stack_that_crashes_the_second_time_has_no_time() -> None:
    good, bad = Trial(Stack(), True, 5.0, 10.0, peak_mib=3.0), Trial(Stack(), True, reason="it crashed")
    assert pooled(good, bad) == pooled(bad, good) == bad
    both = pooled(good, Trial(Stack(), True, 20.0, 10.0, peak_mib=4.0))
    assert both == Trial(Stack(), True, pytest.approx(10.0), pytest.approx(10.0), peak_mib=4.0, processes=2)


def test_what_is_known_is_not_timed_again() -> None:
    space, bench = FakeSpace(("PM301", "PM304")), FakeBench(factors({"PM304": 0.8}))
    first = search(space, bench)
    first.best(Numerics.PRECISION)
    count = len(bench.asked)
    assert max(Counter(bench.asked).values()) == PROCESSES
    again = search(space, bench)
    again.trials.update(first.trials)
    assert again.best(Numerics.PRECISION) == first.best(Numerics.PRECISION)
    assert len(bench.asked) == count
