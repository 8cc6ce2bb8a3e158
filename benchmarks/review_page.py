"""How quick the review page is with 2,000 findings, in headless chromium.

    python benchmarks/review_page.py [--findings 2000] [--turns 5]

The findings are those of the goldens, repeated. Opening is the time from asking for the file until its script has run
and the first findings are painted; a filter is the time from the click or key until the next frame is painted, of
several values of each. Of every figure the median and the worst of all turns are told. Results go to
`results/review_page.json`; the exit code is 1 where the page took 2 s or longer to open, or a filter 100 ms or longer.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from process_cost import machine
from revision import revision

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "support"))

import review_items  # noqa: E402, lies beside the tests
from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from perfmod.review.page import render  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "review_page.json"
LONGEST_OPENING_MS = 2000
LONGEST_FILTER_MS = 100

PAINTED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
"""Milliseconds since the page was asked for, once the frame that comes next is on the screen."""

FILTERS = """async (name) => {
  const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))));
  const times = [];
  const timed = async (action) => {
    const start = performance.now();
    action();
    times.push(await painted() - start);
  };
  if (name === "search") {
    const search = document.getElementById("search");
    for (const text of ["l", "lo", "los", "loss", "loss item", "nothing like that", ""]) {
      await timed(() => { search.value = text; search.dispatchEvent(new Event("input")); });
    }
    return times;
  }
  const inputs = [...document.querySelectorAll(`#facets input[name=${name}]`)].slice(0, 6);
  for (const input of [...inputs, ...inputs.toReversed()]) await timed(() => input.click());
  return times;
}"""
"""Times of each value of a filter, put on and taken off, in milliseconds."""


def turn(browser: Browser, address: str) -> dict[str, list[float]]:
    """Opens the page once and uses every filter; times in milliseconds by what was done."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address)
    times = {"opening": [page.evaluate(PAINTED)]}
    for name in ("verdict", "numerics", "state", "rule", "file", "search"):
        times[name] = page.evaluate(FILTERS, name)
    context.close()
    return times


def measure(path: Path, turns: int) -> dict[str, Any]:
    """Median and worst of all turns, with the browser's version; one turn before warms the disk."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        turn(browser, path.as_uri())
        all_times = [turn(browser, path.as_uri()) for _ in range(turns)]
        version = browser.version
        browser.close()
    return {
        "browser": f"chromium {version}",
        "times_ms": {name: _told([time for times in all_times for time in times[name]]) for name in all_times[0]},
    }


def _told(times: Sequence[float]) -> Mapping[str, float]:
    return {"median": round(statistics.median(times), 1), "worst": round(max(times), 1), "number": len(times)}


def main() -> int:
    """Measures, writes and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--findings", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=5)
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
    times = measured["times_ms"]
    filters = [times[name]["worst"] for name in times if name != "opening"]
    return int(times["opening"]["worst"] >= LONGEST_OPENING_MS or max(filters) >= LONGEST_FILTER_MS)


if __name__ == "__main__":
    sys.exit(main())
