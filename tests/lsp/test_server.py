"""The language server in a whole session: what an editor shows of a file, and what its actions write."""

from __future__ import annotations

import asyncio
import codecs
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from editor import Editor, read
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient

from perfmod.config import Options
from perfmod.review.items import Verdict
from perfmod.review.session import Review

pytestmark = pytest.mark.asyncio(loop_scope="module")
Applied = Callable[..., dict[str, bytes]]
GOLDENS = Path(__file__).parents[2] / "golden"
TRAIN = '''"""Trains."""
import torch
from torch import nn
from torch.utils.data import DataLoader


class Batch:
    def __init__(self, samples):
        self.x = torch.stack(samples)

    def to(self, device):
        self.x = self.x.to(device)
        return self


def main():
    device = torch.device("cuda")
    data = [torch.full((3,), float(i)) for i in range(6)]
    model = nn.Linear(3, 1).to(device)
    for batch in DataLoader(data, batch_size=len("🔥🔥🔥"), collate_fn=Batch):
        model(batch.to(device).x).sum().backward()
    for batch in DataLoader(data, batch_size=3, collate_fn=Batch):
        model(batch.to(device).x).sum().backward()


if __name__ == "__main__":
    main()
'''
FIRST, SECOND = 19, 21
"""The lines with the loaders, from 0."""


def codes(diagnostics: object) -> list[tuple[str, int]]:
    assert isinstance(diagnostics, list)
    return [(each.code, each.range.start.line) for each in diagnostics]


async def test_diagnostics_follow_the_text(editor: Editor, project: Path) -> None:
    train = project / "train.py"
    train.write_text("import torch\n")
    assert await editor.open(train) == []
    editor.change(train, TRAIN)
    found = await editor.published(train)
    assert codes(found) == [("PM201", FIRST), ("PM201", SECOND)]
    assert found[0].severity == types.DiagnosticSeverity.Warning
    assert found[0].source == "perfmod"
    line = TRAIN.splitlines()[FIRST]
    units = len(line[: line.index(":")].encode("utf-16-le")) // 2
    assert found[0].range.end == types.Position(FIRST, units)
    editor.change(train, TRAIN + "def half(")  # nothing is said about a file that is no Python
    await asyncio.sleep(1)
    editor.change(train, TRAIN.replace("batch_size=3", "batch_size=3, num_workers=2"))
    assert codes(await editor.published(train)) == [("PM201", FIRST)]
    editor.client.text_document_did_close(
        types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(train.as_uri()))
    )
    closed = await editor.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert (closed.uri, list(closed.diagnostics)) == (train.as_uri(), [])


@pytest.mark.parametrize(
    ("encode", "text"),
    [
        pytest.param(lambda text: text.encode(), TRAIN, id="plain"),
        pytest.param(lambda text: text.replace("\n", "\r\n").encode(), TRAIN, id="crlf"),
        pytest.param(lambda text: codecs.BOM_UTF8 + text.encode(), TRAIN, id="byte order mark"),
        pytest.param(lambda text: text.encode(), TRAIN.replace("\n\n\nclass", "\n\f\n\nclass"), id="form feed"),
    ],
)
async def test_all_is_what_apply_writes(
    editor: Editor, project: Path, applied: Applied, encode: Callable[[str], bytes], text: str
) -> None:
    train = project / "train.py"
    train.write_bytes(encode(text))
    assert len(await editor.open(train)) == 2
    (everything,) = await editor.actions(train, only="source.fixAll")
    await editor.choose(everything)
    expected = applied("train.py")["train.py"]
    assert expected.count(b"num_workers=") == 2
    assert editor.texts[train] == expected.decode("utf-8-sig")


async def test_one_of_two(editor: Editor, project: Path, applied: Applied) -> None:
    """With the import that it needs, without the other one."""
    train = project / "train.py"
    train.write_text(TRAIN)
    await editor.open(train)
    chosen, ignore, everything = await editor.actions(train, SECOND)
    assert [chosen.title, ignore.title, everything.title] == [
        "perfmod: Load batches in worker processes",
        "perfmod: ignore PM201 here",
        "perfmod: fix all safe findings in this file",
    ]
    await editor.choose(chosen)
    comment = "    # perfmod: ignore[PM201]\n"
    lines = TRAIN.splitlines(keepends=True)
    train.write_text("".join([*lines[:FIRST], comment, *lines[FIRST:]]))
    assert editor.texts[train] == applied("train.py")["train.py"].decode().replace(comment, "")
    assert len(await editor.published(train)) == 1


async def test_ignore(editor: Editor, project: Path) -> None:
    train = project / "train.py"
    train.write_text(TRAIN)
    await editor.open(train)
    (_, ignore, _) = await editor.actions(train, FIRST)
    await editor.choose(ignore)
    assert editor.texts[train].splitlines()[FIRST].endswith("collate_fn=Batch):  # perfmod: ignore[PM201]")
    assert codes(await editor.published(train)) == [("PM201", SECOND)]


async def test_what_people_rejected_is_not_told(editor: Editor, project: Path) -> None:
    train = project / "train.py"
    train.write_text(TRAIN)
    await editor.open(train)
    review = Review.of(("train.py",), Options(), cwd=project, use_cache=False)
    (first, _) = review.items
    review.decide([first], Verdict.REJECTED)
    editor.change(train, TRAIN + "# More.\n")
    assert codes(await editor.published(train)) == [("PM201", SECOND)]
    (everything,) = await editor.actions(train, only="source.fixAll")
    await editor.choose(everything)
    assert editor.texts[train].count("num_workers=") == 1


async def test_an_action_for_an_older_text(editor: Editor, project: Path) -> None:
    train = project / "train.py"
    train.write_text(TRAIN)
    await editor.open(train)
    (chosen, _, _) = await editor.actions(train, FIRST)
    editor.change(train, "# A line more.\n" + TRAIN)
    with pytest.raises(JsonRpcException, match="the file has changed meanwhile; ask again") as refused:
        await editor.client.code_action_resolve_async(chosen)
    assert refused.value.code == types.LSPErrorCodes.ContentModified


async def test_over_two_files(editor: Editor, project: Path, applied: Applied) -> None:
    """One of the files is open and was changed; the other one lies on the disk."""
    shutil.copytree(GOLDENS / "pageable-transfer" / "loader_in_another_file.in", project, dirs_exist_ok=True)
    data, engine = project / "data.py", project / "engine.py"
    shifted = "# A line more.\n" + read(data)
    found = [each for each in await editor.open(data, shifted) if each.code == "PM202"]
    assert [each.range.start.line for each in found] == [11, 12]
    related = [each.location for each in found[0].related_information or ()]
    assert {each.uri for each in related} == {engine.as_uri()}
    actions = [each for each in await editor.actions(data) if "Pin the loader's batches" in each.title]
    assert [each.title.partition("(")[2] for each in actions] == ["on request; also changes engine.py)"] * 2
    await editor.choose(actions[0])
    assert editor.texts[data] == shifted.replace(
        "(train, batch_size=batch_size)", "(train, batch_size=batch_size, pin_memory=True)"
    )
    before = read(engine)
    once = before.replace(
        "points = points.to(device)\n        classes = classes.to(device)\n",
        "points = points.to(device, non_blocking=True)\n        classes = classes.to(device, non_blocking=True)\n",
    )
    assert editor.texts[engine] == once != before
    await editor.published(data)
    engine.write_text(editor.texts[engine])  # as an editor does for a file that was not open
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(data.as_uri())))
    await editor.published(data)
    (rest,) = [each for each in await editor.actions(data) if "Pin the loader's batches" in each.title]
    await editor.choose(rest)
    expected = applied("--select", "PM202", "data.py", "engine.py")
    assert editor.texts[engine].encode() == expected["engine.py"]
    assert editor.texts[data].encode() == b"# A line more.\n" + expected["data.py"]


async def test_an_open_question(editor: Editor, project: Path) -> None:
    script = project / "train.py"
    shutil.copy(GOLDENS / "scalar-accumulation" / "ddp_script.in.py", script)
    (found,) = [each for each in await editor.open(script) if each.code == "PM201"]
    assert found.severity == types.DiagnosticSeverity.Hint
    assert "\nopen question: " in found.message
    titles = [each.title for each in await editor.actions(script, found.range.start.line)]
    asked = "perfmod: Load batches in worker processes, if `DataLoader(dataset, batch_size=4, …` has CPUs of its own"
    assert asked in titles
    hover = await editor.client.text_document_hover_async(
        types.HoverParams(types.TextDocumentIdentifier(script.as_uri()), found.range.start)
    )
    assert hover is not None
    assert isinstance(hover.contents, types.MarkupContent)
    for words in ("**PM201** loader-without-workers (open question", "**Right if** `", "**When this changes results**"):
        assert words in hover.contents.value


async def test_settings_of_the_project(editor: Editor, project: Path) -> None:
    settings = '[tool.perfmod]\nselect = ["PM1"]\nexclude = ["old/"]\n'
    (project / "pyproject.toml").write_text(settings)
    (project / "old").mkdir()
    for name in ("train.py", "old/train.py"):
        (project / name).write_text(TRAIN)
        assert await editor.open(project / name) == []
    (project / "pyproject.toml").write_text(settings.replace("PM1", "PM2"))
    editor.change(project / "train.py", TRAIN)
    assert len(await editor.published(project / "train.py")) == 2
    editor.change(project / "old" / "train.py", TRAIN)
    assert await editor.published(project / "old" / "train.py") == []


async def test_a_newer_text_stops_the_analysis(editor: Editor, project: Path) -> None:
    """`published` demands that nothing is said about the first text, which takes long."""
    train = project / "train.py"
    train.write_text("import torch\n")
    await editor.open(train)
    many = "".join(TRAIN[TRAIN.index("def main") :].replace("main", f"main_{number}") for number in range(400))
    editor.change(train, TRAIN + many)
    await asyncio.sleep(0.6)
    editor.change(train, TRAIN)
    assert len(await asyncio.wait_for(editor.published(train), 15)) == 2


async def test_the_end(project: Path) -> None:
    """The server ends with 0, and so do its processes."""
    client = await ClientServerConfig([sys.executable, "-m", "perfmod", "lsp", "--stdio"]).start()
    assert isinstance(client, LanguageClient)
    await client.initialize_session(types.InitializeParams(types.ClientCapabilities()))
    file = project / "train.py"
    file.write_text(TRAIN)
    opened = types.TextDocumentItem(file.as_uri(), "python", 1, TRAIN)
    client.text_document_did_open(types.DidOpenTextDocumentParams(opened))
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    server = client._server
    assert server is not None
    workers = psutil.Process(server.pid).children(recursive=True)
    assert workers
    await client.shutdown_session()
    assert server.returncode == 0
    assert not psutil.wait_procs(workers, timeout=5)[1]
    await client.stop()
