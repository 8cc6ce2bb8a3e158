from __future__ import annotations

import re

import pytest
import verify_evidence
from attrs import evolve
from markdown_it import MarkdownIt

from perfmod.verify.evidence import Verdict
from perfmod.verify.report import markdown

READER = MarkdownIt("commonmark").enable("table")


def html(text: str) -> str:
    return READER.render(text)


@pytest.mark.parametrize("name", verify_evidence.NAMES)
def test_it_fits_into_a_comment_and_every_table_is_one(name: str) -> None:
    text = markdown.render(verify_evidence.named(name))
    assert len(text) < 65_536
    assert text.count("<details>") == text.count("</details>")
    rendered = html(text)
    assert "<p>|" not in rendered
    for table in re.findall(r"<table>(.*?)</table>", rendered, re.DOTALL):
        columns = len(re.findall("<th[ >]", table))
        assert {row.count("<td") for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)} <= {0, columns}


def test_the_verdict_comes_first_and_the_figures_are_there() -> None:
    text = markdown.render(verify_evidence.rich())
    times, arrow = "\N{MULTIPLICATION SIGN}", "\N{RIGHTWARDS ARROW}"
    heading = "### \N{WHITE HEAVY CHECK MARK} perfmod verify: proven"
    assert text.startswith(f"{heading}\n\n**the training is the same, and a step is 1.47x faster**\n")
    for part in (
        "- **Training:** proven: equal within twice what one-ulp noise on the inputs does (rounding; 40 steps, ",
        f"- **Speed:** proven: **1.47{times}** (95 % interval 1.46 to 1.48, noise \N{PLUS-MINUS SIGN}0.4 %), ",
        f", 35.78 {arrow} 24.32 ms per step; the whole interval lies above the noise\n",
        f"- **Implicit synchronisations per step:** 8 {arrow} 2.2\n",
        "> **Warning:** the script writes checkpoints",
        f"| PM104 masked-loss | proven | 1.20{times} | 1.19 to 1.21 | 2 | `train.py:47`, `train.py:51` | kept |\n",
        "`data/loaders.py:14` and 7 more | withdrawn: no measurable change |\n",
        f"| `train.py:92` | 1 {arrow} 0.2 | 1.90 {arrow} 0.41 ms | PM106 rewritten | `running += loss.item()` |\n",
        "| gradients of step 1 | proven | 4.1e-07 | 1.2e-05 | 0 | 6.0e-06 |  |\n",
        "| host, growth of /dev/shm | 0 MiB | 96 MiB |\n",
        "| GPU | NVIDIA H200, 141 GiB |\n",
        "```diff\n--- a/train.py\n",
        f"Reproduce:\n\n```console\n{verify_evidence.rich().command}\n```\n",
    ):
        assert part in text
    unfolded = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    assert len(unfolded.splitlines()) < 40


@pytest.mark.parametrize(("name", "there", "missing"), [
    ("cpu", "Speed was not judged: that needs --device cuda.", "<summary>Memory"),
    ("against", "no measurable change: **1.002", "| rule |"),
    ("nan_losses", "| loss curve | refuted | NaN | 1.2e-05 |", "**Speed:** proven"),
    ("failed", "failed: the script ended with RuntimeError in train.py:12", "<summary>Diff"),
    ("crowded", "**Suspiciously fast:** 12.1x is above 10x", "x150 = "),
])  # fmt: skip
def test_what_is_missing(name: str, there: str, missing: str) -> None:
    text = markdown.render(verify_evidence.named(name))
    assert there in text
    assert missing not in text


def test_a_short_horizon_is_said() -> None:
    short = evolve(verify_evidence.rich(), equality=evolve(verify_evidence.equality(), short_horizon=True))
    assert "judged over these few steps only" in markdown.render(short)
    assert "judged over these few steps only" not in markdown.render(verify_evidence.rich())


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_sign(verdict: Verdict) -> None:
    heading = markdown.render(evolve(verify_evidence.rich(), verdict=verdict)).partition("\n")[0]
    assert re.fullmatch(rf"### \S+ perfmod verify: {verdict.value}", heading)


def test_hostile_text_stays_text() -> None:
    rendered = html(markdown.render(verify_evidence.hostile()))
    raw = set(re.findall(r"</?[a-z0-9]+", rendered))
    assert not {tag for tag in raw if "script" in tag or "em" in tag}
    assert "a&lt;/script&gt;&lt;script&gt;document.title='broken'&lt;/script&gt;&amp;&quot;'|`*_" in rendered


@pytest.mark.parametrize("text", [
    "a|b",
    "`",
    "``a` b",
    "a`",
    "*a* _b_ [c](d) <e> #f ~g~ $h$ &amp; \\| \\",
    "|",
    "\\|",
    "a  b\n\nc",
    "<!-- x",
    "1. a",
])  # fmt: skip
def test_escaped_text_reads_as_it_was(text: str) -> None:
    words = " ".join(text.split())
    shown = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert f"<td>{shown}</td>" in html(f"| a |\n| --- |\n| {markdown.escaped(text)} |\n")


@pytest.mark.parametrize("text", ["a|b", "`", "``a` b", "a`", "*a* <e> &amp; $", "|", "a  b\n\nc", "x" * 500])
def test_code_reads_as_it_was(text: str) -> None:
    words = " ".join(text.split())
    shown = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert f"<td><code>{shown}</code></td>" in html(f"| a |\n| --- |\n| {markdown.code(text)} |\n")
    assert markdown.code(" ") == ""


def test_a_fence_is_longer_than_any_in_the_text() -> None:
    diff = "+```\n+````python\n"
    rendered = html(markdown.render(evolve(verify_evidence.rich(), diff=diff)))
    assert f'<code class="language-diff">{diff}</code>' in rendered
