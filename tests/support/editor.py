"""An editor for tests: it talks to the real language server, and keeps the texts of its files itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field
from lsprotocol import types
from pygls.uris import to_fs_path
from pytest_lsp import LanguageClient

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
_LINE_END = re.compile(r"\r\n|\n|\r")


@define
class Editor:
    """Files that are open.

    Attributes:
        texts: of the open files, and of those that edits have opened.
    """

    client: LanguageClient
    texts: dict[Path, str] = field(factory=dict)
    versions: dict[Path, int] = field(factory=dict)

    async def open(self, path: Path, text: str | None = None) -> Sequence[types.Diagnostic]:
        """Open a file, with another text than it has on the disk if one is given; what is found in it."""
        self._put(path, read(path) if text is None else text)
        item = types.TextDocumentItem(path.as_uri(), "python", self.versions[path], self.texts[path])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.published(path)

    def change(self, path: Path, text: str) -> None:
        """Type another text."""
        self._put(path, text)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(uri=path.as_uri(), version=self.versions[path]),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    async def published(self, path: Path) -> Sequence[types.Diagnostic]:
        """What is said about a file next, which has to be about its newest text."""
        while True:
            params = await self.client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
            if params.uri == path.as_uri():
                assert params.version == self.versions[path]
                return list(params.diagnostics)

    async def actions(self, path: Path, line: int | None = None, only: str | None = None) -> list[types.CodeAction]:
        """What is offered on a line, from 0, or in the whole file."""
        first, last = (0, 10_000) if line is None else (line, line)
        where = types.Range(types.Position(first, 0), types.Position(last, 1_000))
        context = types.CodeActionContext([], only=None if only is None else [only])
        params = types.CodeActionParams(types.TextDocumentIdentifier(path.as_uri()), where, context)
        found = await self.client.text_document_code_action_async(params)
        assert all(isinstance(each, types.CodeAction) for each in found or [])
        return [each for each in found or [] if isinstance(each, types.CodeAction)]

    async def choose(self, action: types.CodeAction) -> None:
        """Choose an action, and make its edits."""
        if action.edit is None:
            action = await self.client.code_action_resolve_async(action)
        assert action.edit is not None
        for change in action.edit.document_changes or ():
            if isinstance(change, types.CreateFile):
                with _path(change.uri).open("x"):  # an error where it is there
                    continue
            assert isinstance(change, types.TextDocumentEdit)
            path = _path(change.text_document.uri)
            assert change.text_document.version == self.versions.get(path)
            text = self.texts.get(path) or read(path)
            edits = [edit for edit in change.edits if isinstance(edit, types.TextEdit)]
            edited = apply_edits(text, edits)
            if path in self.texts:
                self.change(path, edited)
            else:
                self.texts[path] = edited

    def close(self, path: Path) -> None:
        """Close a file."""
        del self.texts[path], self.versions[path]
        self.client.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(path.as_uri()))
        )

    def _put(self, path: Path, text: str) -> None:
        self.texts[path] = text
        self.versions[path] = self.versions.get(path, 0) + 1


def read(path: Path) -> str:
    """The text of a file as editors have it: line endings as they are, no byte order mark."""
    return path.read_bytes().decode("utf-8-sig")


def apply_edits(text: str, edits: Sequence[types.TextEdit]) -> str:
    """A text with edits whose positions count in UTF-16."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def offset(position: types.Position) -> int:
        start = starts[position.line]
        units = text[start:].encode("utf-16-le")[: 2 * position.character]
        assert len(units) == 2 * position.character, "a position behind the end of the text"
        return start + len(units.decode("utf-16-le"))

    for edit in sorted(edits, key=lambda edit: edit.range.start, reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def _path(uri: str) -> Path:
    path = to_fs_path(uri)
    assert path is not None
    return Path(path)
