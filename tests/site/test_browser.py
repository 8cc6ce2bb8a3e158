"""The site in a browser: wide and narrow, light and dark, without anybody else's server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import CHROMIUM, launched
from playwright.sync_api import Browser, Page

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)"),
    # The site is built and its links are checked in every run; how it looks changes rarely.
    pytest.mark.exhaustive,
]

RULE = "docs/rules/PM104-masked-loss"
PAGES = (
    "index",
    "docs/usage",
    RULE,
    "golden/masked-loss/labels_to_ignore.in",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


class Quiet(SimpleHTTPRequestHandler):
    def log_request(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where a server of this machine shows the site, in a folder as most sites are."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site.parent)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/{site.name}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def opened(browser: Browser, address: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page, as wide and in the colours that a test asks for. Nothing may fail on it, or come from another host."""
    asked = {"name": "index", "width": 1280, "scheme": "light", **getattr(request, "param", {})}
    context = browser.new_context(viewport={"width": asked["width"], "height": 900}, color_scheme=asked["scheme"])
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    # What the page loads ahead is broken off when it is left.
    aborted = "net::ERR_ABORTED"
    page.on("requestfailed", lambda sent: None if sent.failure == aborted else wrong.append(f"failed: {sent.url}"))
    page.on("request", lambda sent: None if sent.url.startswith(address) else wrong.append(sent.url))
    page.goto(f"{address}{asked['name']}.html")
    yield page
    context.close()
    assert wrong == []


def asking(*often: dict[str, object], rarely: tuple[dict[str, object], ...]) -> pytest.MarkDecorator:
    """Parametrize `opened`; what is asked for rarely shows what the others show once more."""
    asked = [*often, *(pytest.param(one, marks=pytest.mark.exhaustive) for one in rarely)]
    return pytest.mark.parametrize("opened", asked, indirect=True, ids=lambda one: "-".join(map(str, one.values())))


@asking(
    *({"name": name, "width": 360} for name in PAGES),
    rarely=tuple({"name": name, "width": 1280} for name in PAGES),
)
def test_only_what_is_wide_scrolls(opened: Page) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@asking(
    {"name": "index", "scheme": "light"},
    {"name": RULE, "scheme": "light"},
    {"name": RULE, "scheme": "dark"},
    rarely=tuple({"name": name, "scheme": scheme} for name in PAGES for scheme in ("light", "dark") if name != RULE)[
        1:
    ],
)
def test_accessible(opened: Page) -> None:
    found = Axe().run(opened)
    assert found.violations_count == 0, found.generate_report()


def test_the_page_of_a_rule_is_found(opened: Page) -> None:
    opened.locator("input[name=q]").first.fill("masked-loss")
    opened.keyboard.press("Enter")
    opened.locator("#search-results a", has_text="PM104 masked-loss").first.click()
    assert opened.locator("h1").text_content().startswith("PM104 masked-loss")
    assert opened.locator(".highlight-diff .gi").count() > 0
