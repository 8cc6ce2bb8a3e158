from __future__ import annotations

from collections.abc import Sequence

import pytest

from perfmod.verify.attribution import attribute
from perfmod.verify.evidence import Equality, Verdict
from perfmod.verify.stacks import Stack


class Judge:
    """Refutes every stack that holds a bad rule, or all rules of a bad combination."""

    def __init__(self, *bad: set[str]) -> None:
        self.bad = bad
        self.passes: list[Sequence[Stack]] = []

    def __call__(self, stacks: Sequence[Stack]) -> list[Equality]:
        self.passes.append(stacks)
        verdicts = [any(bad <= set(stack) for bad in self.bad) for stack in stacks]
        return [Equality(Verdict.REFUTED if bad else Verdict.PROVEN, "", "bitwise") for bad in verdicts]


@pytest.mark.parametrize(("bad", "kept"), [
    ([], "abcd"),
    ([{"b"}], "acd"),
    ([{"a"}], "bcd"),
    ([{"d"}], "abc"),
    ([{"b"}, {"d"}], "ac"),
    ([{"a"}, {"b"}, {"c"}, {"d"}], ""),
    ([{"a", "c"}], "abd"),
])  # fmt: skip
def test_culprits_are_dropped_and_the_others_go_on(bad: list[set[str]], kept: str) -> None:
    assert attribute(tuple("abcd"), Judge(*bad)) == tuple(kept)


def test_one_pass_where_all_is_well_and_one_more_per_culprit() -> None:
    judge = Judge({"b"})
    attribute(tuple("abcd"), judge)
    assert judge.passes == [
        [("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")],
        [("a", "c"), ("a", "c", "d")],
    ]
