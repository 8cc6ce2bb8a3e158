"""The review page in a browser: Debian's chromium, as for the report of `verify`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import review_items
from attrs import evolve
from axe_playwright_python.sync_playwright import Axe
from chromium import CHROMIUM, launched
from playwright.sync_api import Browser, Page

from perfmod.cli.reviewing import page_title
from perfmod.review.items import Diff, Hunk, Item, Line
from perfmod.review.page import Server, render

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)")
NUMBER = 12
ATTACK = "</script><img src=x onerror=alert(1)><script>alert(1)</script>&lt;b&gt;"
TURNED = "admin\u202e\u2066# is off\u2069"
TOKEN = "a-token"
RISKS = ("bitwise", "rounding", "sampling", "precision", "behavioural")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return review_items.items(NUMBER)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, items: list[Item]) -> Path:
    """The pages that tests open."""
    folder = tmp_path_factory.mktemp("pages")
    pages = {
        "plain": (items, "Review of project"),
        "unusual": (review_items.unusual(), "Review of project"),
        "doubled": (doubled(items)[::-1], "Review of project"),
        "chain": (chain(items), "Review"),
        "hostile": ([hostile(items[0])], ATTACK),
        "empty": ([], "Review"),
    }
    for name, (chosen, title) in pages.items():
        (folder / f"{name}.html").write_bytes(render(chosen, review_items.rule_texts(), title=title))
    return folder


def doubled(items: list[Item]) -> list[Item]:
    """Findings of each risk, in turns, and each in a second file, which comes first by its name."""
    out = []
    for item, risk in zip(items, cycle(RISKS), strict=False):
        finding = evolve(item.finding, numerics=risk)
        path = f"a_{finding.path}"
        out += [evolve(item, finding=finding), evolve(item, key=path, path=path, finding=evolve(finding, path=path))]
    return out


def chain(items: list[Item]) -> list[Item]:
    """Three findings, each of which builds on the one before."""
    alike = [evolve(item, finding=evolve(item.finding, numerics="bitwise")) for item in items[:3]]
    first, second, third = sorted(alike, key=lambda item: item.finding.path)
    second = evolve(second, builds_on=(first.key,))
    return [first, second, evolve(third, builds_on=(second.key,))]


def hostile(item: Item) -> Item:
    """A finding whose every text would like to run."""
    finding = evolve(
        item.finding, path=f"{ATTACK}.py", message=ATTACK, reason=TURNED, scope=ATTACK, elsewhere=(ATTACK,)
    )
    lines = (Line("-", f"x = '{ATTACK}'"), Line("+", f"x = '{TURNED}'  # \u200b\U0001f600 end"))
    return evolve(item, finding=finding, diffs=(Diff(f"{ATTACK}.py", None, (Hunk(1, 1, lines),)),), note=ATTACK)


@pytest.fixture
def opened(browser: Browser, folder: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page at the width and under the colours that a test asks for; nothing may go wrong on it, or leave it."""
    asked = {"name": "plain", "width": 1400, "scheme": "light", **getattr(request, "param", {})}
    context = browser.new_context(
        viewport={"width": asked["width"], "height": 900}, color_scheme=asked["scheme"], reduced_motion="reduce"
    )
    page = context.new_page()
    wrong: list[str] = []
    address = (folder / f"{asked['name']}.html").as_uri()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda sent: None if sent.url.startswith((address, "blob:")) else wrong.append(sent.url))
    page.goto(address)
    yield page
    context.close()
    assert wrong == []


def press(page: Page, keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def wait(page: Page, condition: str, argument: object = None) -> None:
    """Until it holds, for some seconds; playwright's own way needs `eval`, which the page forbids."""
    for _ in range(100):
        if page.evaluate(condition, argument):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"did not come true: {condition}")


def said(page: Page) -> str:
    return page.locator("#said").inner_text()


def decided(page: Page) -> str:
    return page.locator("#decided").inner_text()


def verdicts(page: Page) -> list[str]:
    return page.locator("article").evaluate_all("cards => cards.map(card => card.dataset.verdict)")


def current(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id"))


def exported(page: Page) -> dict[str, Any]:
    with page.expect_download() as download:
        page.locator("#export").click()
    assert download.value.suggested_filename == "decisions.json"
    document: dict[str, Any] = json.loads(Path(download.value.path()).read_text("utf-8"))
    return document


def test_keys_alone_decide(opened: Page) -> None:
    press(opened, "j")
    assert current(opened) == opened.locator("article").first.get_attribute("id")
    press(opened, "ar")
    assert verdicts(opened)[:3] == ["accepted", "rejected", "undecided"]
    assert said(opened).startswith("Rejected: PM")
    assert decided(opened) == f"2 of {NUMBER} decided"
    assert opened.locator("#bar").get_attribute("aria-valuenow") == "2"
    press(opened, "u")
    assert verdicts(opened)[:3] == ["accepted", "undecided", "undecided"]
    assert said(opened).startswith("Undone: ")
    press(opened, "ku")
    assert decided(opened) == f"0 of {NUMBER} decided"
    press(opened, "n")
    opened.keyboard.type("jar, said the reviewer")
    opened.keyboard.press("Escape")
    assert current(opened) == opened.locator("article").first.get_attribute("id")
    assert opened.locator("textarea").first.input_value() == "jar, said the reviewer"
    press(opened, "x")
    assert opened.locator("article").first.locator("table").count() == 0
    press(opened, "x?")
    assert opened.locator("#keys").is_visible()
    press(opened, "a")
    opened.keyboard.press("Escape")
    assert decided(opened) == f"0 of {NUMBER} decided"


def test_every_finding_can_be_reached_and_seen(opened: Page, items: list[Item]) -> None:
    for number in range(NUMBER):
        press(opened, "j")
        rows, top = opened.evaluate("""() => {
          const card = document.activeElement;
          return [card.querySelectorAll("table tr").length, card.getBoundingClientRect().top];
        }""")
        assert rows > 1, number
        assert 0 <= top < 450, number
    press(opened, "j")
    assert said(opened) == "That was the last finding."
    assert opened.locator("article").count() == len(items)


@pytest.mark.parametrize("opened", [{"name": "doubled"}], indirect=True)
def test_the_order_is_that_of_risk(opened: Page, items: list[Item]) -> None:
    expected = sorted(
        (item.finding for item in doubled(items)), key=lambda finding: (RISKS.index(finding.numerics), finding.path)
    )
    opened.evaluate("document.getElementById('rest').click()")
    titles = opened.locator("section h2").evaluate_all("all => all.map(each => each.firstChild.data)")
    assert titles == [finding.path for finding in expected]
    opened.locator("#groupings").get_by_label("Rule").check()
    opened.evaluate("document.getElementById('rest').click()")
    groups = opened.locator("section").evaluate_all("""sections => sections.map(section =>
      [section.querySelector("h2").textContent.slice(0, 5), section.querySelectorAll("article").length])""")
    assert groups == [[code, 2] for code in dict.fromkeys(finding.code for finding in expected)]
    ids = opened.locator("article").evaluate_all("cards => cards.map(card => Number(card.id.slice(1)))")
    in_groups = sorted(range(len(expected)), key=lambda at: [code for code, _ in groups].index(expected[at].code))
    assert ids == in_groups


@pytest.mark.parametrize("opened", [{"name": "chain"}], indirect=True)
def test_what_builds_on_others_is_decided_with_them(opened: Page) -> None:
    press(opened, "jjj")
    press(opened, "a")
    assert verdicts(opened) == ["accepted"] * 3
    assert "with 2 that it builds on" in said(opened)
    press(opened, "kkr")
    assert verdicts(opened) == ["rejected", "undecided", "undecided"]
    press(opened, "u")
    assert verdicts(opened) == ["accepted"] * 3
    press(opened, "u")
    assert verdicts(opened) == ["undecided"] * 3


def test_filters_and_their_counts(opened: Page, items: list[Item]) -> None:
    rule = items[0].finding.code
    of_rule = sum(item.finding.code == rule for item in items)
    box = opened.locator(f"#facets input[name=rule][value={rule}]")
    assert box.locator("..").locator(".count").inner_text() == str(of_rule)
    box.check()
    assert opened.locator("article").count() == of_rule
    assert opened.locator("#shown").inner_text() == f"{of_rule} of {NUMBER} findings shown"
    wait(opened, "rule => location.hash === `#rule=${rule}`", rule)
    press(opened, "ja")
    opened.locator("#facets").get_by_label("undecided").check()
    assert opened.locator("article").count() == of_rule - 1
    wait(opened, "location.hash.includes('verdict=undecided')")
    exported(opened)
    opened.reload()
    assert opened.locator("article").count() == of_rule - 1
    press(opened, "ja")
    assert opened.locator("article").count() == max(of_rule - 2, 0)
    opened.locator("#clear").click()
    press(opened, "/")
    opened.keyboard.type("no such text anywhere")
    assert opened.locator("#empty").is_visible()
    opened.locator("#search").fill(f"{rule.lower()} {items[0].finding.path}")
    assert opened.locator("article").count() == 1


def test_accepting_all_that_is_shown_asks_first(opened: Page, items: list[Item]) -> None:
    rounding = sum(item.finding.numerics == "bitwise" for item in items)
    opened.locator("#facets input[value=bitwise]").check()
    press(opened, "jr")
    opened.locator("#accept-shown").click()
    assert "1 rejected finding among them stays rejected" in opened.locator("#question").inner_text()
    opened.locator("#question-no").click()
    assert decided(opened) == f"1 of {NUMBER} decided"
    opened.locator("#accept-shown").click()
    opened.locator("#question-yes").click()
    wait(opened, "document.getElementById('said').textContent.startsWith('Accepted')")
    assert decided(opened) == f"{rounding} of {NUMBER} decided"
    opened.locator("#undo").click()
    assert decided(opened) == f"1 of {NUMBER} decided"


def test_export_and_import(opened: Page, items: list[Item], tmp_path: Path) -> None:
    press(opened, "ja")
    press(opened, "n")
    opened.keyboard.type("looks wrong")
    opened.keyboard.press("Escape")
    press(opened, "r")
    document = exported(opened)
    assert document["schema_version"] == 1
    assert [(each["verdict"], each["note"]) for each in document["decisions"]] == [
        ("accepted", ""),
        ("rejected", "looks wrong"),
    ]
    by_place = {(item.finding.path, item.finding.fingerprint): item for item in items}
    for decision in document["decisions"]:
        item = by_place[decision["path"], decision["fingerprint"]]
        assert (decision["rule"], decision["scope"], decision["occurrence"]) == (
            item.finding.code,
            item.finding.scope,
            item.occurrence,
        )
        assert set(decision) == {"path", "rule", "scope", "fingerprint", "occurrence", "of", "verdict", "code", "note"}
    press(opened, "kuku")
    file = tmp_path / "decisions.json"
    for text, answer in (
        ("{", "Not imported: the file is not JSON"),
        ('{"schema_version": 2, "decisions": []}', "Not imported: the file holds no decisions of schema_version 1"),
        (json.dumps({**document, "decisions": [*document["decisions"], {}]}), "2 decisions taken over; 1 are about"),
    ):
        file.write_text(text)
        opened.locator("#file").set_input_files(file)
        wait(opened, "text => document.getElementById('said').textContent.startsWith(text)", answer)
    assert verdicts(opened)[:2] == ["accepted", "rejected"]
    assert exported(opened) == document


def test_decisions_are_kept_and_leaving_is_warned_about(opened: Page) -> None:
    leaves = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert opened.evaluate(leaves)
    press(opened, "ja")
    assert not opened.evaluate(leaves)
    exported(opened)
    assert opened.evaluate(leaves)
    opened.reload()
    assert verdicts(opened)[0] == "accepted"


def test_a_page_without_storage_works(opened: Page) -> None:
    opened.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden'); } });"
    )
    opened.reload()
    press(opened, "ja")
    assert verdicts(opened)[0] == "accepted"


@pytest.mark.parametrize("opened", [{"name": "hostile"}], indirect=True)
def test_hostile_text_does_nothing_and_hides_nothing(opened: Page) -> None:
    press(opened, "j")
    assert opened.title() == ATTACK
    assert opened.locator("script").count() == 2
    assert opened.locator("img").count() == 0
    assert ATTACK in opened.locator("h3").inner_text()
    assert opened.locator("textarea").input_value() == ATTACK
    added = opened.locator("td.line.added")
    assert r"admin\u202e\u2066# is off\u2069" in added.inner_text()
    assert "\U0001f600 end" in added.inner_text()
    assert opened.locator(".odd").all_inner_texts()[-1] == r"\u200b"
    assert "\u202e" not in opened.locator("main").inner_text()


def test_the_policy_forbids_what_is_not_the_pages_own(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    page.goto((folder / "hostile.html").as_uri())
    refused = page.evaluate("""async () => {
      const found = [];
      document.addEventListener("securitypolicyviolation", event => found.push(event.effectiveDirective));
      const add = (name, fields) => document.body.append(Object.assign(document.createElement(name), fields));
      add("img", { src: "https://example.org/x.png" });
      add("style", { textContent: "body { color: red; }" });
      try { document.body.innerHTML = "<b>"; } catch { found.push("markup"); }
      try { await fetch("https://example.org/"); } catch { /* as it should be */ }
      await new Promise(done => setTimeout(done, 100));
      return found;
    }""")
    page.close()
    assert {"img-src", "style-src-elem", "connect-src", "markup"} <= set(refused)


@pytest.mark.parametrize("opened", [{"name": "empty"}], indirect=True)
def test_nothing_to_review(opened: Page) -> None:
    assert opened.locator("#empty").inner_text() == "There is nothing to review."


@pytest.mark.parametrize("opened", [{"width": width} for width in (360, 800)], indirect=True, ids=["360", "800"])
def test_only_code_scrolls_sideways(opened: Page) -> None:
    opened.locator("#filters").evaluate("element => { element.open = true; }")
    press(opened, "jjj")
    assert opened.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    assert not opened.locator("#layouts").is_visible()
    assert opened.locator("table.split").count() == 0
    boxes = opened.locator(".code").evaluate_all("all => all.map(box => box.scrollWidth - box.clientWidth)")
    assert max(boxes) > 0
    opened.locator(".code").first.focus()
    assert opened.evaluate("document.activeElement.className") == "code"


@pytest.mark.parametrize("opened", [{"scheme": "light"}, {"scheme": "dark"}], indirect=True, ids=["light", "dark"])
def test_the_switch_of_colours(opened: Page) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    at_first = opened.evaluate(background)
    seen = {}
    for theme in ("Dark", "Light", "Auto"):
        opened.locator("#themes").get_by_label(theme).check()
        seen[theme] = opened.evaluate(background)
    assert seen["Dark"] != seen["Light"]
    assert seen["Auto"] == at_first
    opened.locator("#themes").get_by_label("Dark").check()
    opened.reload()
    assert opened.evaluate(background) == seen["Dark"]


def seen(scheme: str, width: int, layout: str | None) -> tuple[dict[str, object], str | None]:
    return {"name": "unusual", "scheme": scheme, "width": width}, layout


@pytest.mark.parametrize(
    ("opened", "layout"),
    [
        seen("light", 1400, "Side by side"),
        seen("dark", 360, None),
        *(
            pytest.param(*seen(*others), marks=pytest.mark.exhaustive)
            for others in (
                ("light", 1400, "Unified"),
                ("light", 360, None),
                ("dark", 1400, "Unified"),
                ("dark", 1400, "Side by side"),
            )
        ),
    ],
    indirect=["opened"],
)
def test_axe_finds_nothing(opened: Page, layout: str | None) -> None:
    if layout:
        opened.get_by_label(layout).check()
    press(opened, "jjar")
    for details in opened.locator("details").all()[:4]:
        details.evaluate("element => { element.open = true; }")
    found = Axe().run(opened)
    assert found.response["passes"]
    assert found.response["violations"] == [], found.generate_report()


def test_both_sides_stand_beside_each_other(opened: Page) -> None:
    opened.get_by_label("Side by side").check()
    press(opened, "j")
    cells = opened.locator("article").first.locator("td.removed.line, td.added.line")
    texts = cells.evaluate_all("all => all.map(cell => cell.querySelector('.unseen').textContent)")
    assert set(texts) <= {"removed: ", "added: "}
    widths = (
        opened.locator("article")
        .first.locator("tbody tr:first-child td.line")
        .evaluate_all("all => all.map(cell => cell.getBoundingClientRect().width)")
    )
    assert abs(widths[0] - widths[1]) < 2


def test_paper_has_everything_that_is_shown(opened: Page, items: list[Item]) -> None:
    opened.locator("#themes").get_by_label("Dark").check()
    press(opened, "ja")
    opened.emulate_media(media="print")
    wait(opened, "number => document.querySelectorAll('article table').length >= number", len(items))
    assert opened.locator(".printed").first.inner_text() == "Accepted"
    assert not opened.locator("#filters").is_visible()
    color = opened.evaluate("getComputedStyle(document.body).color")
    assert color == "rgb(28, 29, 32)"


class Kept(BaseHTTPRequestHandler):
    """Answers as the docstring of `perfmod.review.page` says."""

    page = b""
    trouble: tuple[int, str] | None = None
    received: list[dict[str, Any]]

    def do_GET(self) -> None:
        self._answer(200, self.page, "text/html")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["X-Perfmod-Token"] != TOKEN:
            return self._json(403, {"error": "wrong token"})
        if self.trouble:
            return self._json(self.trouble[0], {"error": self.trouble[1]})
        if self.path == "/apply":
            return self._json(200, {"files": ["train.py"], "findings": 1, "left": []})
        self.received += body["decisions"]
        return self._json(200, {"saved": len(body["decisions"])})

    def _json(self, status: int, body: object) -> None:
        self._answer(status, json.dumps(body).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002, the name is http.server's
        """Nobody reads it."""


def test_the_served_page_sends_decisions_and_applies(browser: Browser, items: list[Item]) -> None:
    handler = type("Handler", (Kept,), {"received": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        handler.page = render(items, review_items.rule_texts(), title="t", server=Server(address, TOKEN))
        page = browser.new_page()
        page.goto(address)
        with page.expect_response("**/decisions"):
            press(page, "ja")
        assert [each["verdict"] for each in handler.received] == ["accepted"]
        handler.trouble = 500, "the disk is full"
        press(page, "r")
        lost = page.locator("#lost")
        lost.wait_for(state="visible")
        assert "the disk is full 1 decision not saved yet." in lost.inner_text().replace("\n", " ")
        handler.trouble = None
        lost.get_by_role("button").click()
        lost.wait_for(state="hidden")
        assert [each["verdict"] for each in handler.received] == ["accepted", "rejected"]
        page.locator("#apply").click()
        page.locator("#question-yes").click()
        page.get_by_text("1 file changed").wait_for()
        assert "perfmod revert" in page.locator("#question").inner_text()
        assert page.locator("#question li").all_inner_texts() == ["train.py"]
        page.locator("#question-no").click()
        server.shutdown()
    press(page, "j")
    press(page, "a")
    lost.wait_for(state="visible")
    assert "still running" in lost.inner_text()
    page.close()


@pytest.mark.parametrize(("targets", "title"), [
    (["/home/me/project"], "Review of project"),
    (["/home/me/project/models", "/home/me/project"], "Review of project"),
    (["/home/me/project/train.py"], "Review of project: train.py"),
    (["/home/me/project/models", "/data/b\u202e.py"], r"Review of project: models, /data/b\u202e.py"),
    ([f"/home/me/project/{name}.py" for name in "abcde"], "Review of project: a.py, b.py, c.py, 2 more"),
])  # fmt: skip
def test_a_page_is_called_by_what_is_reviewed(targets: list[str], title: str) -> None:
    assert page_title(Path("/home/me/project"), [Path(target) for target in targets]) == title
