from __future__ import annotations

import builtins
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import verify_evidence
from attrs import evolve

from perfmod.errors import Failure
from perfmod.verify.evidence import Verdict, Why
from perfmod.verify.report import page

TIMES = "\N{MULTIPLICATION SIGN}"
VOID = {"meta", "br", "input", "link", "hr", "img", "path", "use"}


class Outline(HTMLParser):
    """What stands on a page: elements, their attributes, identifiers and the text outside of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        if tag in {"dd", "dt", "li", "td", "th"}:
            self.text += " "

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module", params=verify_evidence.NAMES)
def outline(request: pytest.FixtureRequest) -> Outline:
    return Outline(verify_evidence.page(request.param))


def test_every_element_is_closed_and_every_identifier_is_unique(outline: Outline) -> None:
    assert outline.open == []
    identifiers = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    known = set(identifiers)
    for _, attributes in outline.tags:
        for name in ("aria-labelledby", "href", "xlink:href"):
            for target in (attributes.get(name) or "").split():
                assert target.removeprefix("#") in known


def test_nothing_is_fetched(outline: Outline) -> None:
    assert not outline.all("link")
    assert not outline.all("img")
    for _, attributes in outline.tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#")


def test_what_readers_of_aloud_need(outline: Outline) -> None:
    assert outline.all("html")[0]["lang"] == "en"
    assert len(outline.all("h1")) == 1
    headings = [int(tag[1]) for tag, _ in outline.tags if tag in {"h1", "h2", "h3", "h4"}]
    assert all(below <= above + 1 for above, below in pairwise(headings))
    assert all(cell.get("scope") in {"col", "row"} for cell in outline.all("th"))
    for figure in outline.all("svg"):
        assert figure["role"] == "img"
        assert len((figure["aria-labelledby"] or "").split()) == 2


@pytest.mark.parametrize("name", verify_evidence.NAMES)
def test_size(name: str) -> None:
    assert len(verify_evidence.page(name).encode("utf-8", "backslashreplace")) < 1_000_000


def test_what_stands_on_the_page() -> None:
    text = " ".join(Outline(verify_evidence.page("rich")).text.split())
    for part in (
        f"Proven The training is the same, and a step is 1.47{TIMES} faster",
        f"1.47{TIMES} 95 % interval 1.46 to 1.48 noise ±0.4 %",
        "35.78 → 24.32 ms 11.46 ms saved per step",
        "8 → 2.2",
        "40 steps, 40 backward passes, 1,280 samples",
        "gradients of step 1 proven 4.1e-07 1.2e-05 0 6.0e-06",
        "pays off after 214 steps",
        "train.py:92 running += loss.item() 1 → 0.2 1.90 → 0.41 ms PM106 rewritten",
        "inside torch/optim/adam.py:417",
        "of it from pageable memory 39.3 MB 0 B",
        "host, growth of /dev/shm 0 MiB 96 MiB +96 MiB",
        f"PM201 idle-loader sampling proven 0.998{TIMES} 0.991 to 1.004",
        "and 7 more withdrawn: no measurable change",
        "NVIDIA H200, 141 GiB",
        "perfmod verify train.py --device cuda --seed 7 -- --data 'my data' --batch-size 32",
        "the script writes checkpoints",
    ):
        assert part in text


@pytest.mark.parametrize(("name", "parts"), [
    ("cpu", ("Speed was not judged: that needs --device cuda.", "Nothing was profiled.", "Memory was not measured.")),
    ("against", ("against train_by_hand.py", "Two given scripts were compared", f"1.002{TIMES}")),
    ("nan_losses", ("Refuted", "34 are NaN or infinite on one side only", "Speed was not measured.", "not finite")),
    ("failed", ("Failed", "No loss curve was recorded", "No rule was applied", "Nothing, or it was not recorded.")),
    ("one_step", ("1 backward pass, with equal losses on both sides.",)),
    ("crowded", ("188 more lines", "5,604 more lines in evidence.json", "Suspiciously fast: 12.1x")),
])  # fmt: skip
def test_what_is_missing_is_said(name: str, parts: Sequence[str]) -> None:
    text = " ".join(Outline(verify_evidence.page(name)).text.split())
    assert [part for part in parts if part not in text] == []


def test_a_side_that_could_not_be_profiled() -> None:
    why = verify_evidence.why()
    for one_sided in (evolve(why, original=None), evolve(why, rewritten=None, syncs=()), Why(None, None)):
        text = Outline(page.render(evolve(verify_evidence.cpu(), why=one_sided))).text
        assert ("Nothing was profiled." in text) == (one_sided == Why(None, None))


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_colour(verdict: Verdict) -> None:
    text = page.render(evolve(verify_evidence.failed(), verdict=verdict))
    name = verdict.value.replace(" ", "-")
    assert f'class="word {name}"' in text
    assert f".{name} {{ color:" in text or f".{name}, ." in text


def test_hostile_text_stays_text() -> None:
    text = verify_evidence.page("hostile")
    outline = Outline(text)
    assert len(outline.all("script")) == 1
    assert "<script>document" not in text
    assert outline.text.count("a</script><script>document.title='broken'") > 20
    assert r"*_\x1b[31m\x00\udc80.py" in outline.text
    assert not any(ord(char) < 32 and char != "\n" for char in text)


def test_colours_of_figures_are_those_of_the_page() -> None:
    figures = verify_evidence.page("rich").partition('<svg viewBox="')[2].partition("</section>")[0]
    assert "var(--original)" in figures
    assert "var(--rewritten)" in figures
    assert "#" not in figures.replace("#losses-", "")


def test_the_same_record_gives_the_same_page() -> None:
    assert page.render(verify_evidence.rich()) == verify_evidence.page("rich")


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_jinja(name: str, *args: object, **options: object) -> ModuleType:
        if name.partition(".")[0] == "jinja2":
            raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")
        return real(name, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without_jinja)
    with pytest.raises(Failure, match=r"the HTML report needs jinja2: pip install 'perfmod\[verify\]'"):
        page.render(verify_evidence.rich())


def python(code: str, environment: Mapping[str, str]) -> str:
    support = str(Path(verify_evidence.__file__).parent)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {support!r})\n{code}"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True).stdout


def test_the_home_is_left_alone(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c"), "XDG_CACHE_HOME": str(tmp_path / "d")}
    code = "import os, verify_evidence; from perfmod.verify.report import page; page.render(verify_evidence.rich())"
    assert python(f"{code}; print(os.environ.get('MPLCONFIGDIR'))", {**home, "MPLCONFIGDIR": "mine"}) == "mine\n"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_imported_before_it_is_needed() -> None:
    code = "from perfmod.verify.report import files, markdown, page, text, evidence_json"
    heavy = "{name.partition('.')[0] for name in sys.modules} & {'matplotlib', 'jinja2', 'numpy', 'torch'}"
    assert python(f"{code}; print({heavy})", {}) == "set()\n"
