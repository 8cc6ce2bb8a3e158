"""A search as lines, as Markdown and as JSON."""

from __future__ import annotations

import io
import json

import jsonschema
import pytest
from attrs import evolve
from rich.console import Console
from tunings import FOUND

from perfmod.tune.report import json_schema, render, render_json, render_markdown
from perfmod.tune.result import Batch, Offer, Row, Tuning
from perfmod.tune.search import NO_TIME


def lines(found: Tuning, *, verbose: bool = False) -> list[str]:
    text = io.StringIO()
    render(found, Console(file=text, width=200), verbose=verbose)
    return text.getvalue().splitlines()


def test_lines_for_a_terminal() -> None:
    told = lines(FOUND)
    assert told[0] == "4.00x (3.90 to 4.10) with PM106 + PM303 (reduce-overhead)"
    assert "  rounding     nothing faster than that" in told
    earned = "its longer start is earned back after 1,200 steps"
    assert any(line.startswith("  precision ") and line.endswith(earned) for line in told)
    assert "  PM106 + PM305 (batches at hand): 0.83x, 10.00 ms → 12.00 ms, slower" in told
    assert "  PM301 (batches at hand): it crashed: RuntimeError: no" in told


@pytest.mark.parametrize(("found", "said"), [
    (evolve(FOUND, complete=False), "the same command goes on from here, and --budget gives it more time"),
    (evolve(FOUND, complete=False, interrupted=True), "note: interrupted; the same command goes on from here"),
    (evolve(FOUND, resumed=True), "with what an earlier call had found"),
])  # fmt: skip
def test_what_is_not_the_whole_search_is_told(found: Tuning, said: str) -> None:
    assert any(said in line for line in lines(found))
    if not found.resumed:
        assert said.removeprefix("note: ")[1:] in render_markdown(found)


def test_what_was_not_tried_comes_last_and_counts_for_nothing() -> None:
    untried = Row("PM304", False, None, None, 0.0, 0.0, None, NO_TIME)
    told = lines(evolve(FOUND, rows=(untried, *FOUND.rows), complete=False))
    assert "tried: 3 stacks in 1 min 15 s, and 1 not tried" in told
    assert told.index("  PM304 (with the loader): not tried within --budget") > told.index(
        "  PM301 (batches at hand): it crashed: RuntimeError: no"
    )


def test_nothing_to_find() -> None:
    none = evolve(FOUND, offers=(Offer("bitwise", "equal to the last bit", ""),), best="")
    assert lines(none)[0] == "left as it is: nothing that was tried is faster"
    assert "  bitwise      nothing faster" in lines(none)
    left = evolve(none, offers=(Offer("bitwise", "equal to the last bit", "", tried=False),), complete=False)
    assert "  bitwise      nothing faster so far: not everything was tried" in lines(left)
    assert "| nothing faster so far: not everything was tried |" in render_markdown(left)
    unproven = evolve(none, offers=(Offer("bitwise", "", "PM106", "refuted", "other losses"),))
    assert lines(unproven)[0] == "nothing faster is proven"
    assert "  bitwise      PM106: refuted: other losses" in lines(unproven)
    unjudged = evolve(none, offers=(Offer("bitwise", "", "PM106"),))
    assert lines(unjudged)[0] == "something is faster, and not proven yet"


def test_many_trials_are_cut_unless_asked_for() -> None:
    many = evolve(FOUND, rows=FOUND.rows * 10)
    assert "  and 18 more (-v)" in lines(many)
    assert len(lines(many, verbose=True)) > 30


def test_markdown_and_json() -> None:
    text = render_markdown(FOUND)
    assert "| equal to the last bit | PM106 | 1.10x (1.050 to 1.150) | 9.10 ms | proven |" in text
    assert "```diff\n--- a/train.py" in text
    advised = evolve(FOUND, batches=(Batch(32, 2.5, 12800.0, 512.0), Batch(64, reason="no")), advice=("larger ones",))
    assert "\n\n- larger ones\n- 32 samples a batch: 12,800 a second, 512 MiB\n" in render_markdown(advised)
    assert lines(advised)[-2:] == ["what only you can decide", "  larger ones"]
    document = json.loads(render_json(FOUND))
    jsonschema.validate(document, json_schema())
    assert (document["schema"], document["best"], len(document["rows"])) == (1, "precision", 3)
