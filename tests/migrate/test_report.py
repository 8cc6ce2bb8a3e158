"""Status, progress, tables, Markdown and the page of campaigns whose rows were written by hand."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import campaigns
import pytest
from attrs import evolve
from axe_playwright_python.sync_playwright import Axe
from chromium import CHROMIUM, launched
from playwright.sync_api import Browser, Page
from rich.console import Console

from perfmod.errors import Failure, UsageMistake
from perfmod.migrate.report import tables
from perfmod.migrate.report.markdown import MOST, markdown
from perfmod.migrate.report.page import render_html
from perfmod.migrate.report.progress import Progress
from perfmod.migrate.report.summary import totals, troubles_of, verified_words
from perfmod.migrate.report.tables import rows_csv, rows_json, rows_parquet, stable_rows
from perfmod.migrate.report.text import render_status
from perfmod.migrate.results import Cause, Outcome
from perfmod.migrate.rows import CampaignRow

MANY = 10_000


def status(campaign: CampaignRow, *, terminal: bool = False, **options: object) -> str:
    text = io.StringIO()
    render_status(campaign, Console(file=text, width=80, force_terminal=terminal, color_system=None), **options)
    return text.getvalue()


# The numbers.


def test_totals_count_each_thing_once() -> None:
    sums = totals(campaigns.campaign())
    assert sums.outcomes == {
        "changed": 4,
        "unchanged": 1,
        "skipped": 1,
        "failed": 3,
        "needs a person": 2,
        "not done": 1,
    }
    assert sum(rewrites for rewrites, _ in sums.rules.values()) == sums.rewrites == 27
    assert sums.rules["PM101"] == (8, 6)
    assert sums.findings == 28
    assert list(sums.verdicts.items()) == [
        ("refuted", 1),
        ("failed", 1),
        ("not done", 1),
        ("no measurable change", 1),
        ("proven", 2),
    ]
    assert (sums.branches, sums.waiting, sums.decided, sums.of) == (3, 1, 9, 27)
    assert [(count.outcome.value, count.cause.value, count.projects) for count in sums.causes] == [
        ("failed", "timeout", 2),
        ("failed", "fails-before", 1),
        ("failed", "hook", 1),
        ("needs a person", "question", 1),
        ("needs a person", "refuted", 1),
        ("skipped", "no-commits", 1),
    ]


def test_a_refuted_script_is_a_trouble_of_a_changed_project() -> None:
    row = campaigns.project(
        "a",
        Outcome.CHANGED,
        analysis=campaigns.analysis(1),
        verdicts=(campaigns.verdict("t.py", "refuted", 0.5, 0.4, 0.6, reason="the loss differs"),),
    )
    (trouble,) = troubles_of(row)
    assert (trouble.outcome, trouble.cause, trouble.what) == (Outcome.NEEDS_A_PERSON, Cause.REFUTED, "t.py")


def test_of_several_scripts_the_smallest_gain_is_told() -> None:
    verdicts = (
        campaigns.verdict("a.py", "proven", 1.8, 1.6, 2.1),
        campaigns.verdict("b.py", "proven", 1.25, 1.2, 1.3),
        campaigns.verdict("c.py", "inconclusive", float("inf"), 1.0, 2.0),
    )
    row = campaigns.project("a", Outcome.CHANGED, verdicts=verdicts)
    assert verified_words(row) == "1 inconclusive, 2 proven, from 1.25x"
    assert verified_words(evolve(row, verdicts=verdicts[:1])) == "proven 1.80x (1.60 to 2.10)"
    assert verified_words(evolve(row, verdicts=())) == "no"


# Status.


def test_status_lists_what_needs_attention_first() -> None:
    text = status(campaigns.campaign(), terminal=True, folder="/data/my zoo")
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if line.startswith("acme/")]
    assert listed == [
        *("acme/refuted", "acme/asks", "acme/slow", "acme/slower", "acme/hooked", "acme/broken-before"),
        *("acme/detector", "acme/owned", "acme/plain"),
    ]
    assert "  timeout            2  perfmod migrate retry '/data/my zoo' --cause timeout" in lines
    assert "Needs a person: 1 question, 1 refuted" in lines
    at = lines.index("acme/detector       changed         +15 -6 in 3 patches")
    assert lines[at + 1].strip() == "reviewed 4 of 12; verified: proven 1.80x (1.60 to 2.10); branch perfmod"
    assert "held back: perfmod-text" in text
    assert lines[-1] == "Not listed: 1 unchanged, 1 skipped, 1 not done; --all lists them."


def test_status_of_everything_and_of_little() -> None:
    everything = status(campaigns.campaign(), everything=True, limit=1)
    assert all(f"\n{project.name} " in everything for project in campaigns.projects())
    assert "Not listed" not in everything
    little = status(campaigns.campaign(), limit=2)
    assert "\nacme/asks " in little
    assert "\nacme/slow " not in little
    assert "Not listed: 7 more of these, 1 unchanged, 1 skipped, 1 not done; --all lists them." in little


def test_a_terminal_gets_short_lines_and_a_file_whole_ones() -> None:
    name, reason = "owner/" + "n" * 100, "because " * 30
    long = campaigns.campaign((campaigns.project(name, Outcome.FAILED, cause=Cause.GIT, reason=reason),))
    assert name in status(long)
    assert reason.strip() in status(long)
    short = status(long, terminal=True)
    assert max(len(line) for line in short.splitlines()) <= 80
    assert "n…" in short
    assert "failed" in short.split("n…")[1]


def test_status_of_hostile_names_prints_no_control_characters() -> None:
    text = status(campaigns.hostile(), everything=True)
    assert "\u202e" not in text
    assert r"\u202e@all" in text


def test_what_there_is_to_say_beside_stands_below_a_project() -> None:
    noted = campaigns.project(
        "a", Outcome.CHANGED, analysis=evolve(campaigns.analysis(1), notes=("files\nfailed\u202e",))
    )
    campaign = campaigns.campaign((noted,))
    assert status(campaign).splitlines()[-1] == r"  files failed\u202e"
    assert rb"files failed\\u202e" in render_html(campaign)


def test_status_of_an_empty_campaign() -> None:
    assert status(campaigns.campaign((), writes=False)).splitlines() == [
        "zoo (dry run: patches only, perfmod 0.1.0)",
        "projects  0",
        "files     0",
        "",
    ]


# Progress.


def test_progress_without_a_terminal_prints_a_line_now_and_then() -> None:
    text = io.StringIO()
    with Progress(12, stream=Console(file=text), every=0.05) as progress:
        progress.running(["acme/a", "acme/b\u202e", "acme/c"])
        time.sleep(0.12)
        for row in campaigns.projects():
            progress.update(row)
    lines = text.getvalue().splitlines()
    assert len(lines) >= 2
    assert lines[0].startswith("0 of 12 projects done; 0 files; 0 findings; 0 s; now: acme/a and 2 more")
    assert lines[-1].startswith(
        "11 of 12 projects done; 4 changed, 1 unchanged, 1 skipped, 3 failed, 2 needs a person; 31 files; 28 findings; "
        "verdicts: 1 refuted, 1 failed, 1 no measurable change, 2 proven; 0 s"
    )
    assert all(thread.name != "progress" for thread in threading.enumerate())


def test_time_left_is_only_told_from_five_projects_on_and_of_this_run() -> None:
    rows = campaigns.many(6).projects
    done = [evolve(row, outcome=Outcome.UNCHANGED) for row in rows]
    with Progress(stream=Console(file=io.StringIO())) as progress:
        progress.total(110, before=100)
        for row in done[:4]:
            progress.update(row)
        assert "left" not in progress.line()
        time.sleep(0.5)
        progress.update(done[4])
        # Five took half a second; so do the five that are left, whatever the hundred before took.
        assert progress.line().startswith("105 of 110 projects done")
        assert progress.line().endswith(("about 0 s left", "about 1 s left"))


def test_a_project_that_is_told_twice_counts_once() -> None:
    row = campaigns.projects()[0]
    with Progress(2, stream=Console(file=io.StringIO())) as progress:
        progress.update(evolve(row, outcome=None, verdicts=()))
        assert progress.line().startswith("0 of 2 projects done; 5 files; 12 findings")
        progress.update(row)
        progress.update(row)
        assert progress.line().startswith("1 of 2 projects done; 1 changed; 5 files; 12 findings; verdicts: 1 proven")


def test_progress_on_a_terminal_leaves_one_line() -> None:
    text = io.StringIO()
    stream = Console(file=text, width=80, force_terminal=True, color_system=None)
    with Progress(12, stream=stream) as progress:
        progress.running([f"acme/{number}" for number in range(7)])
        progress.update(campaigns.projects()[0])
        time.sleep(0.4)
    shown = text.getvalue()
    assert "now: acme/0, acme/1, acme/2, acme/3, 3 more" in shown
    assert "1 of 12 projects done" in shown
    assert shown.splitlines()[-1].endswith("verdicts: 1 proven; 0 s")


# Tables.


def test_csv_has_a_row_for_each_project() -> None:
    rows = list(csv.DictReader(io.StringIO(rows_csv(campaigns.campaign()).decode())))
    assert [row["project"] for row in rows] == [project.name for project in campaigns.projects()]
    detector, owned = rows[0], rows[1]
    assert detector["rules"] == "PM101:3 PM102:3 PM204:2 PM301:2 PM405:2"
    assert (detector["ratio"], detector["low"], detector["high"]) == ("1.8", "1.6", "2.1")
    assert owned["verdicts"] == "no measurable change:1 not done:1 proven:1"
    assert owned["ratio"] == "1.01"
    assert rows[-1]["outcome"] == "not done"
    for name in rows[0]:
        assert name in (tables.__doc__ or ""), name


def test_csv_runs_nothing_in_a_spreadsheet() -> None:
    _, formula = csv.DictReader(io.StringIO(rows_csv(campaigns.hostile()).decode()))
    assert (formula["project"], formula["reason"]) == ("'=HYPERLINK(1)", "'=1+1")


def test_json_holds_everything() -> None:
    document = json.loads(rows_json(campaigns.campaign()))
    assert document["schema_version"] == 1
    detector = document["projects"][0]
    assert detector["outcome"] == "changed"
    assert len(detector["analysis"]["findings"]) == 12
    assert detector["analysis"]["files"][-1] == {"path": "old.py", "outcome": "skipped", "reason": "is Python 2"}
    assert detector["verdicts"][0]["verification"]["low"] == 1.6
    assert detector["branches"][0]["name"] == "perfmod"
    assert document["projects"][-1]["outcome"] is None
    infinite = json.loads(rows_json(campaigns.hostile()))["projects"][0]["verdicts"][0]["verification"]
    assert infinite["high"] is None


def test_parquet_has_the_columns_of_csv(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows_parquet(campaigns.campaign(), tmp_path / "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert ",".join(table.column_names) == rows_csv(campaigns.campaign()).decode().splitlines()[0]
    assert table.column("ratio").to_pylist()[:3] == [1.8, 1.01, None]
    assert table.column("patches").to_pylist()[:3] == [3, 2, 1]
    with pytest.raises(Failure, match="cannot be written"):
        rows_parquet(campaigns.campaign(), tmp_path / "none" / "rows.parquet")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageMistake, match="pip install pyarrow"):
        rows_parquet(campaigns.campaign(), tmp_path / "rows.parquet")


def test_stable_rows_know_no_time_and_no_place() -> None:
    first = campaigns.campaign()
    rows = [
        evolve(
            row,
            seconds=99.0,
            peak_mib=None,
            worker="other",
            branches=tuple(evolve(branch, tip=branch.tip and "f" * 40) for branch in row.branches),
            verdicts=tuple(
                evolve(
                    each,
                    seconds=1.0,
                    worker="other",
                    verification=each.verification
                    and evolve(each.verification, ratio=9.0, low=8.0, high=10.0, gpu="other"),
                )
                for each in row.verdicts
            ),
        )
        for row in first.projects
    ]
    second = campaigns.campaign(tuple(reversed(rows)), name="again", created="2027-01-01T00:00:00Z", seconds=1.0)
    assert stable_rows(first) == stable_rows(second)
    assert len(stable_rows(first).splitlines()) == 13


@pytest.mark.parametrize("change", ["outcome", "tip", "verdict", "finding"])
def test_stable_rows_tell_what_differs(change: str) -> None:
    first, *others = campaigns.projects()
    assert first.analysis is not None
    branch, each = first.branches[0], first.verdicts[0]
    assert each.verification is not None
    changed = {
        "outcome": evolve(first, outcome=Outcome.FAILED),
        "tip": evolve(first, branches=(evolve(branch, tip=""),)),
        "verdict": evolve(first, verdicts=(evolve(each, verification=evolve(each.verification, verdict="refuted")),)),
        "finding": evolve(first, analysis=evolve(first.analysis, findings=first.analysis.findings[1:])),
    }[change]
    before = stable_rows(campaigns.campaign()).splitlines()
    after = stable_rows(campaigns.campaign((changed, *others))).splitlines()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


# Markdown.


def test_markdown_for_a_tracking_issue() -> None:
    text = markdown(campaigns.campaign())
    assert "- [ ] acme/detector: 12 rewrites, 3 patches, branch `perfmod`, proven 1.80x (1.60 to 2.10)\n" in text
    assert "- [ ] acme/plain: 1 rewrite, 1 patch, no branch, not verified\n" in text
    assert text.count("- [ ]") == 4
    assert "- acme/asks `train_1.py:41` PM301: Does `collate` return tensors on the \\*processor\\*?\n" in text
    assert "- failed, timeout, 2 projects (`perfmod migrate retry zoo --cause timeout`): took longer than" in text


def test_markdown_is_no_longer_than_github_takes() -> None:
    campaign = campaigns.many(MANY)
    text = markdown(campaign)
    assert MOST * 0.9 < len(text.encode("utf-16-le")) / 2 <= MOST
    tasks, questions = text.split("## Questions for a person")
    left = tasks.strip().splitlines()[-1]
    assert left == f"- and {totals(campaign).outcomes['changed'] - tasks.count('- [ ]'):,} more, see report.html"
    assert "more, see report.html" in questions
    assert "## Failures and what was left out" in questions
    assert "more, see" not in markdown(campaigns.many(100))


def test_markdown_mentions_nobody_and_holds_no_markup() -> None:
    text = markdown(campaigns.hostile())
    assert "\\@all" in text
    assert "<img" not in re.sub(r"`[^`]*`|\\<", "", text)
    assert "\n# heading" not in text


# The page.

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (apt-get install chromium)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pages lie that have been asked for."""
    return tmp_path_factory.mktemp("campaigns")


PAGES = {
    "plain": campaigns.campaign,
    "hostile": campaigns.hostile,
    "empty": lambda: campaigns.campaign(()),
    "many": lambda: campaigns.many(MANY),
}


def address_of(folder: Path, name: str) -> str:
    """Of a page, which is made where nobody has asked for it yet."""
    file = folder / f"{name}.html"
    if not file.exists():
        file.write_bytes(render_html(PAGES[name]()))
    return file.as_uri()


@pytest.fixture
def opened(browser: Browser, folder: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page as a test asks for it; nothing may go wrong on it, or leave it."""
    asked = {"name": "plain", "width": 1280, "scheme": "light", **getattr(request, "param", {})}
    context = browser.new_context(
        viewport={"width": asked["width"], "height": 900}, color_scheme=asked["scheme"], reduced_motion="reduce"
    )
    page = context.new_page()
    wrong: list[str] = []
    address = address_of(folder, asked["name"])
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda sent: None if sent.url.startswith(address) else wrong.append(sent.url))
    page.goto(address)
    yield page
    context.close()
    assert wrong == []


def listed(page: Page) -> list[str]:
    return page.locator("#rows .project").all_inner_texts()


def wait(page: Page, condition: str) -> None:
    """Until it holds, for some seconds; playwright's own way needs `eval`, which the page forbids."""
    for _ in range(100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"did not come true: {condition}")


@needs_browser
def test_the_page_shows_the_numbers_and_every_project(opened: Page) -> None:
    assert opened.locator("#totals").inner_text().replace("\n", " ").startswith("Projects 12 4 changed 1 unchanged")
    assert listed(opened) == sorted(project.name for project in campaigns.projects())
    assert opened.locator("#gains li .what").all_inner_texts()[0] == "acme/detector: train.py"
    assert opened.locator("#gains svg.interval").count() == 4
    assert opened.locator("#causes code").first.inner_text() == "perfmod migrate retry zoo --cause timeout"
    assert opened.locator("#questions li").count() == 2
    assert opened.locator("#rules li").count() == 5
    assert not opened.locator("#stopped").is_visible()


@needs_browser
def test_bars_lie_where_the_numbers_are(opened: Page) -> None:
    bars = opened.locator("#gains li").evaluate_all("""rows => rows.map(row => {
      const number = (shape, name) => Number(row.querySelector(shape).getAttribute(name));
      const low = number(".range", "x");
      return [low, number(".point", "cx"), low + number(".range", "width"), number(".one", "x1")];
    })""")
    for low, point, high, _ in bars:
        assert 0 <= low <= point <= high <= 120
    points = [point for _, point, _, _ in bars]
    assert points == sorted(points, reverse=True)
    assert len({round(one, 3) for *_, one in bars}) == 1
    assert bars[0][0] > bars[0][3] > bars[-1][2]


@needs_browser
def test_sorting_by_heads(opened: Page) -> None:
    head = opened.locator("#heads").get_by_role("button", name="Patch")
    head.focus()
    opened.keyboard.press("Enter")
    assert listed(opened)[0] == "acme/detector"
    assert opened.locator("th[aria-sort]").all_inner_texts() == ["Patch"]
    assert opened.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    opened.keyboard.press("Enter")
    assert opened.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert listed(opened)[-1] == "acme/detector"
    opened.locator("#heads").get_by_role("button", name="Verified").click()
    assert listed(opened)[:3] == ["acme/detector", "acme/owned", "acme/refuted"]


@needs_browser
def test_filters_search_and_the_address(opened: Page) -> None:
    opened.locator("#facets input[name=cause][value=timeout]").check()
    assert listed(opened) == ["acme/slow", "acme/slower"]
    assert opened.locator("#shown").inner_text() == "2 of 12 projects shown"
    wait(opened, "location.hash === '#cause=timeout'")
    opened.reload()
    assert listed(opened) == ["acme/slow", "acme/slower"]
    opened.locator("#clear").click()
    opened.locator("#facets input[name=rule][value=PM405]").check()
    opened.locator("#facets input[name=verdict][value='not done']").check()
    assert listed(opened) == ["acme/owned"]
    opened.locator("#clear").click()
    opened.locator("#projects").press("/")
    opened.keyboard.type("apex BROKEN")
    assert listed(opened) == ["acme/broken-before"]
    opened.keyboard.press("Escape")
    assert opened.evaluate("document.activeElement.id") == "projects"
    opened.locator("#search").fill("nothing has this")
    assert opened.locator("#empty").inner_text() == "No project passes the filters."
    opened.locator("#causes").get_by_role("button", name="hook").click()
    assert listed(opened) == ["acme/hooked"]


@needs_browser
def test_links_lead_into_the_campaigns_folder(opened: Page) -> None:
    links = opened.locator("#rows tr", has_text="acme/detector").locator("a")
    assert links.evaluate_all("all => all.map(each => each.getAttribute('href'))") == [
        "./projects/acme/detector/changes.diff",
        "./projects/acme/detector/patches/",
        "./projects/acme/detector/review.html",
        "./projects/acme/detector/findings.json",
        "./projects/verify/train.py/report.html",
    ]
    assert links.first.inner_text().split("\n")[0].startswith("diff")
    assert opened.get_by_role("link", name="diff of acme/detector").count() == 1


@needs_browser
@pytest.mark.parametrize("opened", [{"name": "hostile"}], indirect=True)
def test_hostile_text_does_nothing_and_leads_nowhere(opened: Page, folder: Path) -> None:
    assert opened.locator("script").count() == 2
    assert opened.locator("img").count() == 0
    assert campaigns.ATTACK in opened.locator("#rows").inner_text()
    assert r"\u202e@all" in opened.locator("h1").inner_text()
    assert "\u202e" not in opened.locator("body").inner_text()
    addresses = opened.locator("a:not(.skip)").evaluate_all("all => all.map(each => each.href)")
    assert len(addresses) == 6
    for address in addresses:
        parts = urlsplit(address)
        assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("file", "", "", "")
        assert unquote(parts.path).startswith(f"{folder}/")
    assert "%FF/changes.diff" in addresses[1]


@needs_browser
def test_the_policy_forbids_what_is_not_the_pages_own(browser: Browser, folder: Path) -> None:
    page = browser.new_page()
    page.goto(address_of(folder, "hostile"))
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


@needs_browser
@pytest.mark.parametrize("opened", [{"name": "empty"}], indirect=True)
def test_a_page_of_no_projects(opened: Page) -> None:
    assert opened.locator("#empty").inner_text() == "There are no projects."
    assert opened.locator(".panels section:visible").count() == 0


@needs_browser
@pytest.mark.parametrize(
    "opened",
    [
        {"width": 1280, "scheme": "light"},
        {"width": 360, "scheme": "dark"},
        pytest.param({"width": 360, "scheme": "light"}, marks=pytest.mark.exhaustive),
        pytest.param({"width": 1280, "scheme": "dark"}, marks=pytest.mark.exhaustive),
        pytest.param({"name": "hostile", "width": 360}, marks=pytest.mark.exhaustive),
    ],
    indirect=True,
)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(opened: Page) -> None:
    opened.locator("#filters").evaluate("element => { element.open = true; }")
    assert opened.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0
    found = Axe().run(opened)
    assert found.response["passes"]
    assert found.response["violations"] == [], found.generate_report()


@needs_browser
@pytest.mark.parametrize("opened", [{"width": 360}], indirect=True)
def test_a_narrow_page_keeps_the_table(opened: Page) -> None:
    assert not opened.locator("#heads").is_visible()
    opened.locator("#sort").select_option("size")
    assert listed(opened)[0] == "acme/detector"
    row = opened.get_by_role("row").filter(has_text="acme/detector")
    assert row.get_by_role("cell").count() == 5
    assert row.get_by_role("rowheader").count() == 1


@needs_browser
@pytest.mark.parametrize("opened", [{"name": "many"}], indirect=True)
def test_ten_thousand_projects_are_shown_and_filtered_at_once(opened: Page) -> None:
    assert opened.locator("#shown").inner_text() == "10,000 projects"
    assert opened.locator("#rows tr").count() < 500
    opened.wait_for_timeout(500)
    # The time until the browser has laid the page out, not only until the script is through.
    timed = """action => {
      const began = performance.now();
      action();
      document.body.getBoundingClientRect();
      return performance.now() - began;
    }"""
    search = """value => (() => {
      const search = document.getElementById("search");
      search.value = value;
      search.dispatchEvent(new Event("input"));
    })"""
    clicked = """selector => (() => document.querySelector(selector).click())"""
    actions = [
        f"({search})('owner7')",
        f"({search})('')",
        f"({clicked})('#facets input[name=outcome]')",
        f"({clicked})('#facets input[name=rule]')",
        f"({clicked})('#clear')",
        f"({clicked})('#heads th:nth-child(4) button')",
    ]
    took = {action: opened.evaluate(f"({timed})({action})") for action in actions}
    assert max(took.values()) < 300, took
    before = opened.locator("#rows tr").count()
    opened.locator("#rest").scroll_into_view_if_needed()
    wait(opened, f"document.querySelectorAll('#rows tr').length > {before}")
    opened.locator("#search").fill("project-9999")
    assert listed(opened) == ["owner8/project-9999"]


@needs_browser
@pytest.mark.parametrize("opened", [{"name": "many"}], indirect=True)
def test_paper_has_every_project_that_is_shown(opened: Page) -> None:
    opened.locator("#search").fill("owner7/")
    assert opened.locator("#rows tr").count() < 100
    opened.emulate_media(media="print")
    wait(opened, "document.querySelectorAll('#rows tr').length > 100")
    assert opened.locator("#shown").inner_text() == f"{opened.locator('#rows tr').count()} of 10,000 projects shown"
    assert not opened.locator("#filters").is_visible()
