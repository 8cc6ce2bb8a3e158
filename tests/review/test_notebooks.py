"""A training notebook, and a module that it imports, through every way of reviewing and every output."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import nbformat
import notebooks
import pytest
from chromium import CHROMIUM, launched
from playwright.sync_api import Page
from repositories import commit_all, git
from review_server import decision, serving
from review_terminal import PROMPT, plain, spawned

from perfmod.config import Options
from perfmod.review.items import Verdict
from perfmod.review.session import Review

BOOK = "Übung.ipynb"
MODULE = """\
\"\"\"Prüfbilder.\"\"\"

import numpy
import torch
from torch.utils.data import Dataset


class Digits(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        return torch.from_numpy(numpy.load(f"digits/{index}.npy")), index % 2


def move(batch, device):
    images, labels = batch
    return images.to(device), labels.to(device)
"""
SETUP = """\
!nvidia-smi
device = torch.device("cuda")
loader = DataLoader(Digits(), batch_size=32, shuffle=True)"""
TRAINING = """\
%%time
total = 0.0
for batch in loader:
    images, labels = move(batch, device)
    noise = torch.randn(32, 8).to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images + noise), labels)
    loss.backward()
    optimizer.step()
    total += loss.item()
print(f"Verlust: {total} — fertig ✓")"""
TEST = """\
model.eval()
richtig = 0
for batch in prüfung:
    bilder, ziel = move(batch, device)
    richtig += (model(bilder).argmax(1) == ziel).sum().item()
richtig"""
PRINTED = {"name": "stdout", "output_type": "stream", "text": ["Verlust: 0.3 — fertig ✓\n"]}
PICTURE = {"data": {"image/png": "iVBORw0KGgo=\n"}, "metadata": {}, "output_type": "display_data"}
CELLS = (
    notebooks.text("# Übung 1: Ziffern\n\n`total += loss.item()` bleibt hier Text 🙂"),
    notebooks.code("%matplotlib inline\nimport torch\nfrom torch.utils.data import DataLoader\n\nfrom data import *"),
    notebooks.code(SETUP, outputs=[PRINTED], execution_count=2, metadata={"tags": ["daten"], "collapsed": False}),
    # One string instead of a list of lines is as valid.
    notebooks.code([])
    | {"source": "model = torch.nn.Linear(8, 2).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"},
    notebooks.text("## Training"),
    notebooks.code([]) | {"source": TRAINING, "outputs": [PRINTED, PICTURE], "execution_count": 3},
    notebooks.code("prüfung = DataLoader(Digits(), batch_size=64)"),
    notebooks.text("## Prüfung"),
    notebooks.code(TEST),
)
BEFORE = notebooks.document(*(cell | {"id": f"zelle-{number}"} for number, cell in enumerate(CELLS, 1)))
OPTIONS = ("--extend-select", "PM206")
FINDINGS = [(3, "PM201"), (3, "PM202"), (6, "PM106"), (6, "PM206"), (7, "PM202"), (9, "PM106")]
"""Cells and rules; what PM202 changes in the module belongs to both of its findings."""
ACCEPTED = {(3, "PM201"), (6, "PM106"), (7, "PM202")}
DECISIONS = ".perfmod/decisions.json"
Tree = Mapping[str, bytes]
Perfmod = Callable[..., subprocess.CompletedProcess[str]]


def tree(project: Path) -> Tree:
    return {name: (project / name).read_bytes() for name in (BOOK, "data.py")}


def opened(project: Path) -> Review:
    return Review.of((".",), Options(extend_select=("PM206",)), cwd=project)


def by_decisions(project: Path, perfmod: Perfmod) -> None:
    """Decided in this process, and written by `apply`."""
    accept(project)
    apply(perfmod, ".", "--decisions", DECISIONS)


def accept(project: Path) -> None:
    review = opened(project)
    for key, item in review.items.items():
        is_accepted = (item.finding.cell, item.finding.code) in ACCEPTED
        review.decide([key], Verdict.ACCEPTED if is_accepted else Verdict.REJECTED)


def apply(perfmod: Perfmod, *arguments: str) -> str:
    ran = perfmod("apply", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project in a repository, which nothing is written to."""
    root = tmp_path_factory.mktemp("notebooks") / "project"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "data.py").write_text(MODULE, encoding="utf-8")
    (root / BOOK).write_bytes(BEFORE)
    (root / ".gitignore").write_text(".perfmod/\n")
    commit_all(root)
    return root


@pytest.fixture
def project(committed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, the working directory of the test."""
    root = tmp_path / "project"
    shutil.copytree(committed, root)
    monkeypatch.chdir(root)
    return root


WITH_WORKERS = """\
loader = DataLoader(Digits(), batch_size=32, shuffle=True,
                    num_workers=min(8, os.cpu_count() or 1),
                    multiprocessing_context="fork")"""
EXPECTED = [
    ("loader = DataLoader(Digits(), batch_size=32, shuffle=True)", WITH_WORKERS),
    ("import torch\nfrom torch.utils", "import os\n\nimport torch\nfrom torch.utils"),
    ("    total += loss.item()\n", "    total += loss.detach()\ntotal = float(total)\n"),
    ("batch_size=64)", "batch_size=64, pin_memory=True)"),
]


@pytest.fixture(scope="module")
def wanted() -> Tree:
    """What each way has to come to."""
    cells = []
    for cell in json.loads(BEFORE)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            for old, new in EXPECTED:
                source = source.replace(old, new)
        cells.append(cell | {"source": source if isinstance(cell["source"], str) else source.splitlines(True)})
    module = MODULE.replace("to(device)", "to(device, non_blocking=True)")
    return {BOOK: notebooks.document(*cells), "data.py": module.encode()}


def by_terminal(project: Path, perfmod: Perfmod) -> None:
    """Typed into a terminal."""
    child = spawned(project, ".", *OPTIONS)
    asked = []
    while child.expect([PROMPT, "in .perfmod/decisions.json"]) == 0:
        shown = plain(child.before or "")
        (found,) = [
            (cell, rule) for cell, rule in FINDINGS if f" {rule} " in f" {shown}" and f"{BOOK}:cell {cell}:" in shown
        ]
        asked.append(found)
        child.sendline("y" if found in ACCEPTED else "n später")
    child.close()
    assert sorted(asked) == FINDINGS
    apply(perfmod, ".", "--decisions", DECISIONS)


def cell_and_rule(item: Mapping[str, Any]) -> tuple[int, str]:
    """Of an item as the page has it."""
    return int(item["place"].removeprefix(f"{BOOK}:cell ").split(":")[0]), item["rule"]


def press(page: Page) -> None:
    """Decide about every finding of a page by keys."""
    items = json.loads(page.locator("script[type='application/json']").inner_text())["items"]
    page.keyboard.press("j")
    for _ in items:
        item = items[int(page.evaluate("document.activeElement.closest('article').id.slice(1)"))]
        page.keyboard.press("a" if cell_and_rule(item) in ACCEPTED else "r")


def by_page(project: Path, perfmod: Perfmod) -> None:
    """Keys on the page, and its export."""
    perfmod("review", ".", *OPTIONS, "--html", "../page.html")
    with launched() as browser:
        page = browser.new_page()
        page.goto((project.parent / "page.html").as_uri())
        assert f"{BOOK}:cell 6:5:13" in (page.locator("article").last.text_content() or "")
        press(page)
        with page.expect_download() as download:
            page.get_by_role("button", name="Export decisions").click()
        download.value.save_as(project.parent / "exported.json")
    apply(perfmod, ".", "--decisions", "../exported.json")


def by_server(project: Path, perfmod: Perfmod) -> None:
    """Sent to the server, and applied by it."""
    del perfmod
    with serving(project, *OPTIONS) as server:
        assert sorted(map(cell_and_rule, server.items())) == FINDINGS
        rows = [
            decision(item, "accepted" if cell_and_rule(item) in ACCEPTED else "rejected") for item in server.items()
        ]
        assert server.post("decisions", {"decisions": rows}) == (200, {"saved": len(FINDINGS)})
        status, answer = server.post("apply", {})
        assert (status, sorted(answer["files"]), answer["left"]) == (200, ["data.py", BOOK], [])


def by_series(project: Path, perfmod: Perfmod) -> None:
    """A patch a finding, applied by git."""
    accept(project)
    apply(perfmod, ".", "--decisions", DECISIONS, "--patch-series", "../series", "--by", "finding")
    patches = sorted(str(path) for path in (project.parent / "series").iterdir())
    assert len(patches) == len(ACCEPTED)
    assert tree(project)[BOOK] == BEFORE
    git(project, "am", "--quiet", *patches)


def by_commits(project: Path, perfmod: Perfmod) -> None:
    """Commits of a finding each."""
    accept(project)
    apply(perfmod, ".", "--decisions", DECISIONS, "--commits", "--by", "finding")
    assert len(git(project, "log", "--oneline").splitlines()) == 1 + len(ACCEPTED)
    assert git(project, "status", "--porcelain") == b""


def by_hand(project: Path, perfmod: Perfmod) -> None:
    """Lines of a patch changed, and a hunk deleted."""
    apply(perfmod, ".", *OPTIONS, "--patch", "all.patch")
    patch = (project / "all.patch").read_text("utf-8")
    for old, new in [
        ('    multiprocessing_context=\\"fork\\", pin_memory=True)', '    multiprocessing_context=\\"fork\\")'),
        ("torch.randn(32, 8, device=device)", "torch.randn(32, 8).to(device)"),
    ]:
        assert patch.count(old) == 1
        patch = patch.replace(old, new)
    *kept, last = patch.split("\n@@ ")
    assert "sum().item()" in last
    (project / "all.patch").write_text("\n@@ ".join(kept) + "\n", encoding="utf-8")
    apply(perfmod, "--from", "all.patch")


WAYS = [
    by_decisions,
    by_terminal,
    pytest.param(by_page, marks=pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")),
    pytest.param(by_server, marks=pytest.mark.exhaustive),
    by_series,
    pytest.param(by_commits, marks=pytest.mark.exhaustive),
    by_hand,
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
def test_all_ways_come_to_the_same(
    way: Callable[[Path, Perfmod], None], project: Path, perfmod: Perfmod, wanted: Tree
) -> None:
    way(project, perfmod)
    after = tree(project)
    assert after == wanted
    nbformat.validate(nbformat.reads(after[BOOK].decode(), as_version=4))
    assert notebooks.others(after[BOOK]) == notebooks.others(BEFORE)


def plain_lines(out: str) -> list[tuple[int, str]]:
    lines = [line.split(": ")[:2] for line in out.splitlines() if line.startswith(f"{BOOK}:cell ")]
    return [(int(place.split(":")[1].removeprefix("cell ")), rest.split()[0]) for place, rest in lines]


def told(text: str) -> int:
    """The cell in `... cell N, line M ...`."""
    found = re.search(r"\bcell (\d+)(?:, |%2C )line \d+", text)
    assert found is not None, text
    return int(found[1])


READ: Mapping[str, Callable[[str], list[tuple[int, str]]]] = {
    "text": plain_lines,
    "concise": plain_lines,
    "json": lambda out: [(row["cell"], row["code"]) for row in json.loads(out)["findings"] if row["fixable"]],
    "sarif": lambda out: [
        (told(row["message"]["text"]), row["ruleId"]) for row in json.loads(out)["runs"][0]["results"]
    ],
    "github": lambda out: [
        (told(line), line.split("title=")[1].split()[0]) for line in out.splitlines() if line.startswith("::")
    ],
    "gitlab": lambda out: [(told(row["description"]), row["check_name"].split()[0]) for row in json.loads(out)],
    "markdown": lambda out: [
        (int(cell), rule) for cell, rule in re.findall(rf"^- `{BOOK}:cell (\d+):\d+:\d+`: (PM\d+) ", out, re.MULTILINE)
    ],
    "csv": lambda out: [(int(row["cell"]), row["code"]) for row in csv.DictReader(io.StringIO(out))],
}
"""How somebody who knows a format finds cells and rules in it."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", READ)
def test_every_output_names_the_cell(committed: Path, perfmod: Perfmod, form: str) -> None:
    ran = perfmod("check", ".", *OPTIONS, "--output-format", form, cwd=committed)
    assert ran.returncode == 1, ran.stderr
    # Rules on request are told, too.
    assert sorted(found for found in READ[form](ran.stdout) if not found[1].startswith("PM30")) == FINDINGS


def test_a_baseline_knows_findings_whatever_happens_to_other_cells(project: Path, perfmod: Perfmod) -> None:
    perfmod("check", ".", *OPTIONS, "--baseline", "baseline.json", "--write-baseline")
    whole = json.loads(BEFORE)
    first = {"cell_type": "markdown", "metadata": {}, "id": "neu", "source": []}
    again = notebooks.code(TRAINING.replace("total", "summe"), id="noch-mal")
    whole["cells"] = [first, *whole["cells"], again]
    (project / BOOK).write_text(json.dumps(whole, indent=1, ensure_ascii=False), "utf-8")
    ran = perfmod("check", ".", *OPTIONS, "--baseline", "baseline.json")
    assert sorted(plain_lines(ran.stdout)) == [(11, "PM106"), (11, "PM206")]


def test_a_cell_is_new_as_a_whole(project: Path, perfmod: Perfmod) -> None:
    """What was printed meanwhile is no change of the code."""
    text = BEFORE.decode().replace("batch_size=64", "batch_size=128").replace("Verlust: 0.3", "Verlust: 0.2")
    (project / BOOK).write_text(text, "utf-8")
    ran = perfmod("check", ".", *OPTIONS, "--new-only")
    assert plain_lines(ran.stdout) == [(7, "PM202")]


def test_ignore_comments_are_written_into_cells(project: Path, perfmod: Perfmod) -> None:
    assert perfmod("check", ".", *OPTIONS, "--add-ignore", "--reason", "später").returncode == 0
    after = (project / BOOK).read_bytes()
    nbformat.validate(nbformat.reads(after.decode(), as_version=4))
    assert notebooks.others(after) == notebooks.others(BEFORE)
    commented = [number for number, source in enumerate(notebooks.sources(after), 1) if "# perfmod: ignore[" in source]
    assert commented == [3, 6, 7, 9]
    assert perfmod("check", ".", *OPTIONS).returncode == 0
    assert perfmod("check", ".", *OPTIONS, "--remove-unused-ignores").returncode == 0
    assert (project / BOOK).read_bytes() == after
