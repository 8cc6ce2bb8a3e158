"""A project, and an editor in which it is open: the real server, driven over its standard input and output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from editor import CAPABILITIES, SERVER, Editor
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient

from perfmod.cli.main import run
from perfmod.errors import ExitCode


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LanguageClient]:
    """A server for the tests of a module."""
    environment = {**os.environ, "PERFMOD_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
    started = await ClientServerConfig(SERVER, server_env=environment).start()
    assert isinstance(started, LanguageClient)
    await started.initialize_session(types.InitializeParams(CAPABILITIES))
    yield started
    await started.shutdown_session()
    await started.stop()


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
def applied(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, bytes]]:
    """What `perfmod apply` makes of a copy of the project, by the names of the files."""
    monkeypatch.setenv("PERFMOD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PERFMOD_CACHE_DIR", str(tmp_path / "cache"))

    def apply(*arguments: str) -> dict[str, bytes]:
        copy = shutil.copytree(project, tmp_path / "copy")
        monkeypatch.chdir(copy)
        monkeypatch.setattr(sys, "argv", ["perfmod", "apply", *arguments])
        with pytest.raises(SystemExit) as end:
            run()
        assert end.value.code == ExitCode.OK
        return {path.name: path.read_bytes() for path in copy.glob("*.py")}

    return apply
