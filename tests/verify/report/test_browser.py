"""The page in a browser: Debian's chromium, driven without a download of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import verify_evidence
from chromium import CHROMIUM, launched
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)")
NARROW = 360
SECTIONS = ("training", "speed", "why", "memory", "rules", "environment", "changes", "reproduce")

CONTRASTS = """() => {
  const channel = value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const parsed = color => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) =>
    0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = parsed(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const seen = element.checkVisibility() && !element.closest("script, style, title, desc, .hidden");
    if (!seen || !texts.currentNode.data.trim()) continue;
    const style = getComputedStyle(element);
    const ink = parsed(element.closest("svg") ? style.fill : style.color);
    const [high, low] = [luminance(ink), luminance(ground(element))].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), texts.currentNode.data.trim().slice(0, 40)]);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages lie that have been asked for."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture
def opened(browser: Browser, folder: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page of the record, at the width and under the colours that a test asks for; nothing may go wrong on it."""
    asked = {"name": "rich", "width": 1400, "scheme": "light", "scripts": True, **getattr(request, "param", {})}
    context = browser.new_context(
        viewport={"width": asked["width"], "height": 900},
        color_scheme=asked["scheme"],
        java_script_enabled=asked["scripts"],
    )
    page = context.new_page()
    wrong: list[str] = []
    file = folder / f"{asked['name']}.html"
    if not file.exists():
        file.write_bytes(verify_evidence.page(asked["name"]).encode("utf-8", "backslashreplace"))
    address = file.as_uri()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda sent: None if sent.url.partition("#")[0] == address else wrong.append(sent.url))
    page.goto(address)
    yield page
    context.close()
    assert wrong == []


def unfold(page: Page) -> None:
    """Open all that can be folded."""
    page.locator("details").evaluate_all("all => all.forEach(element => { element.open = true; })")


def background(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(
            {"name": name, "width": width},
            id=f"{name}-{width}",
            marks=[] if width == NARROW or name == "rich" else pytest.mark.exhaustive,
        )
        for name in verify_evidence.NAMES
        for width in (NARROW, 800, 1400)
    ],
    indirect=True,
)
def test_only_what_is_wide_scrolls(opened: Page) -> None:
    unfold(opened)
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert opened.evaluate("document.body.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize(
    "opened",
    [
        {"name": name, "scheme": scheme}
        for name in ("rich", "nan_losses", "against", "failed")
        for scheme in ("light", "dark")
    ],
    indirect=True,
    ids=lambda asked: f"{asked['name']}-{asked['scheme']}",
)
def test_contrast_of_every_text(opened: Page) -> None:
    unfold(opened)
    contrasts = opened.evaluate(CONTRASTS)
    assert len(contrasts) > 40
    assert [pair for pair in contrasts if pair[0] < 4.5] == []


@pytest.mark.parametrize(
    "opened", [{"width": width} for width in (360, 1400)], indirect=True, ids=lambda asked: str(asked["width"])
)
def test_sections_and_figures_are_there(opened: Page) -> None:
    for section in SECTIONS:
        assert opened.locator(f"#{section} h2").is_visible()
    figures = [figure for figure in opened.locator("svg").all() if figure.is_visible()]
    assert len(figures) == 2
    for figure in figures:
        box = figure.bounding_box()
        assert box is not None
        assert box["width"] > 280
        assert box["height"] > 250
        assert figure.locator("title").text_content()
        sizes = figure.evaluate("e => [...e.querySelectorAll('text')].map(t => t.getBoundingClientRect().height)")
        assert min(sizes) > 10


@pytest.mark.parametrize("opened", [{"name": "hostile"}], indirect=True)
def test_hostile_text_does_nothing(opened: Page) -> None:
    assert opened.title().startswith("proven: a</script><script>")
    assert opened.locator("script").count() == 1


@pytest.mark.parametrize(
    "opened",
    [{"scheme": "light"}, {"scheme": "dark"}, {"scheme": "dark", "scripts": False}],
    indirect=True,
    ids=["light", "dark", "without scripts"],
)
def test_the_toggle(opened: Page) -> None:
    at_first = background(opened)
    seen = {}
    for theme in ("dark", "light", "auto"):
        opened.locator(f"#theme-{theme}").check()
        seen[theme] = background(opened)
    assert seen["dark"] != seen["light"]
    assert seen["auto"] == at_first
    assert at_first in (seen["dark"], seen["light"])


@pytest.mark.parametrize("opened", [{"scheme": "light"}], indirect=True)
def test_the_choice_of_colours_is_kept(opened: Page) -> None:
    light = background(opened)
    opened.locator("#theme-dark").check()
    opened.reload()
    assert opened.locator("#theme-dark").is_checked()
    assert background(opened) != light


def test_the_command_is_copied(opened: Page) -> None:
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = opened.locator("#copy")
    button.click()
    opened.wait_for_function("document.getElementById('copy').textContent === 'Copied'")
    assert opened.evaluate("navigator.clipboard.readText()") == verify_evidence.rich().command


def test_the_command_is_selected_where_copying_is_forbidden(opened: Page) -> None:
    opened.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('forbidden')); }")
    opened.locator("#copy").click()
    opened.wait_for_function("document.getElementById('copy').textContent === 'Selected'")
    assert opened.evaluate("getSelection().toString()") == verify_evidence.rich().command


@pytest.mark.parametrize("opened", [{"scripts": False}], indirect=True)
def test_without_scripts_there_is_no_button_that_does_nothing(opened: Page) -> None:
    assert opened.locator("#command").is_visible()
    assert not opened.locator("#copy").is_visible()


@pytest.mark.parametrize("opened", [{"scheme": "dark"}], indirect=True)
def test_it_prints_dark_on_light(opened: Page) -> None:
    opened.locator("#theme-dark").check()
    opened.emulate_media(media="print")
    assert sum(map(int, re.findall(r"\d+", background(opened))[:3])) > 3 * 240
    assert not opened.locator(".theme").is_visible()
    assert opened.locator("svg").first.is_visible()
