"""A rewrite that makes a file, in editors that make files for it and in others."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from attrs import evolve
from editor import CAPABILITIES, SERVER, Editor
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

from perfmod.transforms.compute.recorder import recorder

pytestmark = pytest.mark.asyncio(loop_scope="module")
SCRIPT = (Path(__file__).parents[2] / "golden" / "launch-bound-step" / "two-loops.in.py").read_text()
TITLE = "perfmod: Record the step as a CUDA graph"


async def _started(capabilities: types.ClientCapabilities, cache: Path) -> LanguageClient:
    client = await ClientServerConfig(SERVER, server_env={**os.environ, "PERFMOD_CACHE_DIR": str(cache)}).start()
    assert isinstance(client, LanguageClient)
    await client.initialize_session(types.InitializeParams(capabilities))
    return client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LanguageClient]:
    """A server for an editor that makes files."""
    able = types.WorkspaceEditClientCapabilities(
        document_changes=True, resource_operations=[types.ResourceOperationKind.Create]
    )
    capabilities = evolve(CAPABILITIES, workspace=types.WorkspaceClientCapabilities(workspace_edit=able))
    started = await _started(capabilities, tmp_path_factory.mktemp("cache"))
    yield started
    await started.shutdown_session()
    await started.stop()


async def test_one_finding(editor: Editor, project: Path) -> None:
    train = project / "train.py"
    train.write_text(SCRIPT)
    found = [each for each in await editor.open(train) if each.code == "PM314"]
    assert len(found) == 2
    chosen, *_ = [each for each in await editor.actions(train, found[0].range.start.line) if TITLE in each.title]
    assert chosen.title == f"{TITLE} (on request; also makes graphed_step.py)"
    await editor.choose(chosen)
    assert editor.texts[project / "graphed_step.py"] == recorder()
    assert editor.texts[train].count("from graphed_step import GraphedStep\n") == 1


async def test_all_of_a_file(editor: Editor, project: Path, applied: Callable[..., dict[str, bytes]]) -> None:
    (project / "pyproject.toml").write_text('[tool.perfmod]\nselect = ["PM314"]\n')
    train = project / "train.py"
    train.write_text(SCRIPT)
    await editor.open(train)
    expected = applied("train.py")
    (everything,) = await editor.actions(train, only="source.fixAll")
    await editor.choose(everything)
    assert {path.name: text.encode() for path, text in editor.texts.items()} == expected
    assert sorted(expected) == ["graphed_step.py", "train.py"]


async def test_one_that_is_open_is_used(editor: Editor, project: Path) -> None:
    train, other = project / "train.py", project / "graphed_step.py"
    train.write_text(SCRIPT)
    other.write_text("")
    await editor.open(other, recorder())
    found = [each for each in await editor.open(train) if each.code == "PM314"]
    chosen, *_ = [each for each in await editor.actions(train, found[0].range.start.line) if TITLE in each.title]
    assert chosen.title == f"{TITLE} (on request)"


async def test_an_editor_that_makes_no_files(project: Path, tmp_path: Path) -> None:
    client = await _started(CAPABILITIES, tmp_path / "cache")
    editor = Editor(client)
    train = project / "train.py"
    train.write_text(SCRIPT)
    assert not [each for each in await editor.open(train) if each.code == "PM314"]
    assert not [each for each in await editor.actions(train) if TITLE in each.title]
    await client.shutdown_session()
