"""How quick the review page is with 2,000 findings, in headless chromium.

    python benchmarks/review_page.py [--findings 2000] [--turns 8]

The findings are those of the goldens, repeated. Opening is the time from asking for the file until its script has run
and the first findings are painted; a filter is the time from the click or key until the next frame is painted, of
several values of each. Of each, two times are told, with the median, the 95th percentile and the worst of all turns:

- `wall_ms`: what somebody at the screen waits. On a machine with other work that is mostly waiting for a processor:
  `load` says how many processes ran or waited on average in the last minute, beside the number of cores.
- `work_ms`: what the page's main thread computed meanwhile, all of script, style, layout and painting. Where nothing
  else runs, one waits for about this long and for up to a frame (17 ms) more.

Results go to `results/review_page.json`. The exit code is 1 where the 95th percentile of the work reaches 2 s for
opening, or 100 ms for any filter: other load lengthens it a little, and the wall time without bound.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from process_cost import machine
from revision import revision

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

import review_items  # noqa: E402, lies beside the tests
from playwright.sync_api import Browser, CDPSession, sync_playwright  # noqa: E402

from perfmod.review.page import render  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "review_page.json"
LIMITS_MS = {"opening": 2000}
LIMIT_OF_FILTERS_MS = 100

PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
"""Milliseconds since the page was asked for, once the frame that comes next is on the screen."""

FILTER = """async ([name, value]) => {
  const start = performance.now();
  if (name === "search") {
    const search = document.getElementById("search");
    search.value = value;
    search.dispatchEvent(new Event("input"));
  } else {
    document.querySelectorAll(`#facets input[name=${name}]`)[value].click();
  }
  return await new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))));
}"""
"""Milliseconds from a change of a filter until it is on the screen."""

FACETS = ("verdict", "numerics", "state", "rule", "file")
VALUES = 6
"""Of a facet that are put on, one after the other, and taken off again."""
SEARCHED = ("l", "lo", "los", "loss", "loss item", "nothing like that", "")
SETTLED_MS = 500
"""Between opening and filtering: the page finds the words to search in where nobody waits for it."""


@frozen
class Times:
    """How long something took, in milliseconds.

    Attributes:
        wall: for somebody who waits.
        work: of that, on the processor, for the page's main thread.
    """

    wall: float
    work: float


def turn(browser: Browser, address: str) -> Iterator[tuple[str, Times]]:
    """Opens the page once and uses every filter; says what was done."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def timed(action: Callable[[], float]) -> Times:
        before = _thread_ms(devtools)
        wall = action()
        return Times(wall, _thread_ms(devtools) - before)

    def opened() -> float:
        page.goto(address)
        return float(page.evaluate(PAINTED))

    yield "opening", timed(opened)
    page.wait_for_timeout(SETTLED_MS)
    for name in FACETS:
        values = range(min(VALUES, page.locator(f"#facets input[name={name}]").count()))
        for value in (*values, *reversed(values)):
            yield name, timed(lambda: page.evaluate(FILTER, [name, value]))  # noqa: B023, called at once
    for text in SEARCHED:
        yield "search", timed(lambda: page.evaluate(FILTER, ["search", text]))  # noqa: B023, called at once
    context.close()


def _thread_ms(devtools: CDPSession) -> float:
    """What the main thread of the page has computed since it began."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return 1000 * next(float(each["value"]) for each in metrics if each["name"] == "ThreadTime")


def measure(path: Path, turns: int) -> dict[str, Any]:
    """All turns, with the browser's version; one turn before warms the disk."""
    times: dict[str, list[Times]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        for number in range(turns + 1):
            for name, taken in turn(browser, path.as_uri()):
                if number:
                    times.setdefault(name, []).append(taken)
        version = browser.version
        browser.close()
    return {
        "browser": f"chromium {version}",
        "load": round(os.getloadavg()[0], 1),
        "times": {
            name: {
                "number": len(taken),
                "wall_ms": _told([each.wall for each in taken]),
                "work_ms": _told([each.work for each in taken]),
            }
            for name, taken in times.items()
        },
    }


def _told(times: Sequence[float]) -> dict[str, float]:
    *_, p95 = statistics.quantiles(times, n=20, method="inclusive")
    figures = {"median": statistics.median(times), "p95": p95, "worst": max(times)}
    return {name: round(figure, 1) for name, figure in figures.items()}


def main() -> int:
    """Measures, writes and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=8)
    asked = parser.parse_args()
    items = review_items.items(asked.findings)
    start = time.perf_counter()
    page = render(items, review_items.rule_texts(), title="2,000 findings")
    seconds = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_bytes(page)
        measured = measure(path, asked.turns)
    results = {
        "revision": revision(),
        "machine": machine(),
        "findings": asked.findings,
        "size_mib": round(len(page) / 2**20, 2),
        "rendering_s": round(seconds, 2),
        **measured,
    }
    text = json.dumps(results, indent=2) + "\n"
    RESULTS.write_text(text, "utf-8")
    print(text, end="")
    return int(
        any(
            taken["work_ms"]["p95"] >= LIMITS_MS.get(name, LIMIT_OF_FILTERS_MS)
            for name, taken in measured["times"].items()
        )
    )


if __name__ == "__main__":
    sys.exit(main())
