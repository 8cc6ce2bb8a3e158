"""Questions that depend on each other, as a table of what each asks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from perfmod.transforms.facts.solver import Questions, Solver

# What each question adds to the numbers of those that it asks.
GRAPHS: Mapping[str, Mapping[str, tuple[set[int], str]]] = {
    "chain": {"a": ({1}, "b"), "b": ({2}, "c"), "c": ({3}, "")},
    "circle": {"a": ({1}, "b"), "b": ({2}, "c"), "c": ({3}, "a")},
    "itself": {"a": (set(), "a")},
    "two circles that meet": {"a": ({1}, "b"), "b": ({2}, "ac"), "c": ({3}, "db"), "d": ({4}, "c"), "e": ({5}, "c")},
    "a circle below another": {"a": ({1}, "bc"), "b": ({2}, "a"), "c": ({3}, "d"), "d": ({4}, "c")},
}


def reached(graph: Mapping[str, tuple[set[int], str]], key: str) -> frozenset[int]:
    keys = [key]
    for each in keys:
        keys += [other for other in graph[each][1] if other not in keys]
    return frozenset().union(*(graph[each][0] for each in keys))


@pytest.mark.parametrize(("name", "first"), [(name, first) for name in GRAPHS for first in GRAPHS[name]])
def test_answers_hold_all_that_is_reached_whichever_is_asked_first(name: str, first: str) -> None:
    graph = GRAPHS[name]

    def compute(key: str) -> frozenset[int]:
        own, others = graph[key]
        return frozenset(own).union(*map(ask, others))

    ask = Questions[str, frozenset[int]](Solver(), compute, frozenset())
    assert ask(first) == reached(graph, first)
    assert {key: ask(key) for key in graph} == {key: reached(graph, key) for key in graph}


@pytest.mark.parametrize("first", "abc")
def test_what_never_settles_is_given_up_whichever_is_asked_first(first: str) -> None:
    asks = {"a": "b", "b": "a", "c": "a"}
    counts = Questions[str, int](Solver(), lambda key: counts(asks[key]) + 1, 0, may_give_up=True)
    counts(first)
    assert [counts(key) for key in asks] == [0, 0, 1]


def test_a_question_that_fails_leaves_nothing_behind() -> None:
    answers = Questions[int, int](Solver(), lambda key: answers(key - 1) + 1 if key else int(text), 0)
    text = "no number"
    with pytest.raises(ValueError, match="no number"):
        answers(200)
    text = "1"
    assert answers(200) == 201
