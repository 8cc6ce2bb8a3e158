"""A project, and an editor in which it is open: the real server, driven over its standard input and output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_lsp
from editor import Editor
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

SERVER = [sys.executable, "-m", "perfmod", "lsp"]
CAPABILITIES = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
    ),
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            resolve_support=types.ClientCodeActionResolveOptions(["edit"]), data_support=True
        )
    ),
)


@pytest_lsp.fixture(config=ClientServerConfig(SERVER), scope="module")
async def client(client: LanguageClient) -> AsyncIterator[None]:
    """A server for the tests of a module."""
    await client.initialize_session(types.InitializeParams(CAPABILITIES))
    yield
    await client.shutdown_session()


@pytest.fixture
def editor(client: LanguageClient) -> Editor:
    return Editor(client)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


@pytest.fixture
def applied(project: Path, tmp_path: Path) -> Callable[..., dict[str, bytes]]:
    """What `perfmod apply` makes of a copy of the project, by the names of the files."""

    def apply(*arguments: str) -> dict[str, bytes]:
        copy = tmp_path / "copy"
        shutil.copytree(project, copy, dirs_exist_ok=True)
        environment = {**os.environ, "PERFMOD_STATE_DIR": str(tmp_path / "state")}
        command = [sys.executable, "-m", "perfmod", "apply", *arguments]
        subprocess.run(command, check=True, cwd=copy, env=environment, capture_output=True)
        return {path.name: path.read_bytes() for path in copy.glob("*.py")}

    return apply
