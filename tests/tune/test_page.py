"""The page of a search, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import verify_evidence
from attrs import evolve
from chromium import CHROMIUM, launched
from playwright.sync_api import Browser
from tunings import FOUND

from perfmod.tune.page import render
from perfmod.tune.result import Batch, Offer, Row

BATCHES = (Batch(32, 2.5, 12800.0, 512.0), Batch(64, 3.0, 21333.0, 800.0), Batch(128, reason="out of memory"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    with launched() as browser:
        yield browser


@pytest.mark.parametrize("width", [360, 1200])
def test_the_page_shows_what_was_found(browser: Browser, tmp_path: Path, width: int) -> None:
    found = evolve(FOUND, batches=BATCHES, advice=("batches of 64 instead of 32 give 1.67x as many samples a second",))
    path = tmp_path / "tune.html"
    path.write_text(render(found, verify_evidence.named("rich")), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    assert page.inner_text("h1").endswith(" (3.90 to 4.10) with PM106 + PM303 (reduce-overhead)")
    assert page.locator("#classes tbody tr").count() == 3
    assert page.locator("#trials tbody tr").count() == 3
    assert "it crashed: RuntimeError: no" in page.inner_text("#trials")
    assert page.locator("#step .lane i").count() > 3
    assert page.locator("#advice tbody tr").count() == 3
    assert "Batches of 64 instead of 32" in page.inner_text("#advice")
    assert "+model.compile()" in page.inner_text("#changes")
    assert page.inner_text("#command") == FOUND.command
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert complaints == []


def test_text_of_scripts_is_text() -> None:
    evil = evolve(
        FOUND,
        script="<script>alert(1)</script>",
        rows=(Row("PM301", True, None, None, 0.0, 0.0, None, "<img src=x>"),),
        notes=("<b>",),
    )
    page = render(evil, None)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<b>" not in page


def test_nothing_to_find() -> None:
    none = evolve(FOUND, offers=(Offer("bitwise", "equal to the last bit", ""),), rows=(), best="", complete=False)
    page = render(none, None)
    assert "<h1>Left as it is: nothing was timed</h1>" in page
    assert "The same command goes on from here" not in page
    assert "Not everything was tried within 5 min 0 s" in page
