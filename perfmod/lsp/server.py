"""The language server. It keeps what is open and answers the editor; the analysis runs in a process of its own.

Editors send whole texts: pygls would split them for smaller changes at characters (form feeds) that end no line for the
protocol. Only the newest version of a file is analysed to the end. While a file is no Python, as it happens in the
middle of a line, what was found before stays on the screen.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import evolve
from lsprotocol import converters, types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from perfmod import __version__
from perfmod.errors import PerfmodError
from perfmod.lsp import analysis, wording
from perfmod.lsp.analysis import Snapshot, Told
from perfmod.lsp.documents import Analysed, Document, path_of
from perfmod.lsp.lines import Lines
from perfmod.lsp.worker import Worker
from perfmod.transforms.decoding import SourceError, decode

_PAUSE = 0.4
"""Seconds without a change after which a file is analysed."""
_CONTENT_MODIFIED = types.LSPErrorCodes.ContentModified.value


class Server(LanguageServer):
    """perfmod for editors."""

    def __init__(self) -> None:
        super().__init__("perfmod", __version__, types.TextDocumentSyncKind.Full)
        self._worker = Worker()
        self._documents: dict[str, Document] = {}
        self._complaints: set[str] = set()
        """What was said already."""

    @property
    def encoding(self) -> str:
        """In whose units the editor counts characters."""
        return types.PositionEncodingKind(self.workspace.position_encoding or types.PositionEncodingKind.Utf16).value

    @property
    def edits(self) -> wording.WorkspaceEdits:
        """How the editor takes edits."""
        workspace = self.client_capabilities.workspace
        edit = workspace.workspace_edit if workspace is not None else None
        return wording.WorkspaceEdits.of(self.encoding, edit)

    @property
    def resolves_edits(self) -> bool:
        """Whether the editor asks for the edits of an action when it is chosen."""
        document = self.client_capabilities.text_document
        action = document.code_action if document is not None else None
        resolved = action.resolve_support if action is not None else None
        return resolved is not None and "edit" in resolved.properties

    @property
    def _opened(self) -> Iterable[Document]:
        return self._documents.values()

    def shutdown(self) -> None:
        """End, with all that runs."""
        self.stop()
        super().shutdown()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Stop everything that runs."""
        for document in self._documents.values():
            document.stop()
        self._worker.stop()

    def open(self, uri: str) -> None:
        """A file was opened."""
        path = path_of(uri)
        if path is not None:
            held = self.workspace.get_text_document(uri)
            self._documents[uri] = Document(uri, path, held.version or 0, held.source)
            self._start(uri)

    def change(self, uri: str) -> None:
        """A file has another text now."""
        document = self._documents.get(uri)
        if document is None:
            return
        held = self.workspace.get_text_document(uri)
        document.version, document.text = held.version or 0, held.source
        if document.pending is not None:
            document.pending.cancel()
        document.pending = asyncio.get_running_loop().call_later(_PAUSE, self._start, uri)

    def save(self, uri: str) -> None:
        """A file was saved, which other open files may depend on; perhaps for the first time."""
        if uri not in self._documents:
            self.open(uri)
        for each in self._documents:
            self._start(each)

    def close(self, uri: str) -> None:
        """A file was closed."""
        document = self._documents.pop(uri, None)
        if document is not None:
            document.stop()
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What can be done about the findings at a place, or about all of a file."""
        document, wanted = self._documents.get(params.text_document.uri), params.context.only
        if document is None:
            return []
        offered: list[types.CodeAction] = []
        found = await self._current(document) if _is_wanted(types.CodeActionKind.QuickFix, wanted) else None
        if found is not None:
            for place, told in found.told:
                if _meet(place, params.range):
                    quick = wording.quick_fixes(document, told, found.lines)
                    offered += [evolve(each, diagnostics=[self._diagnostic(place, told)]) for each in quick]
        if _is_wanted(wording.FIX_ALL, wanted) and (wanted or (found is not None and found.has_rewrites)):
            offered.append(wording.rewrite_all(document))
        return offered if self.resolves_edits else [await self.resolve(each) for each in offered]

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """An action with its edit. Raises `JsonRpcException` where the file has changed, or cannot be rewritten."""
        if action.edit is not None:
            return action
        asked = converters.get_converter().structure(action.data, wording.Asked)
        document = self._documents.get(asked.uri)
        if document is None or document.version != asked.version:
            raise JsonRpcException("perfmod: the file has changed meanwhile; ask again", _CONTENT_MODIFIED)
        snapshot = self._snapshot(document)
        try:
            if asked.code:
                change = analysis.silenced_at if asked.silences else analysis.rewritten_at
                replaced = await self._worker.run(change, snapshot, asked.code, asked.start)
            else:
                replaced = await self._worker.run(analysis.rewritten, snapshot)
        except PerfmodError as error:
            raise JsonRpcException(f"perfmod: {error}") from error
        return evolve(action, edit=self.edits.replacing(replaced, {each.path: each for each in self._opened}))

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """All that is known about the findings at a place."""
        document = self._documents.get(params.text_document.uri)
        found = await self._current(document) if document is not None else None
        at = types.Range(params.position, params.position)
        here = [(place, told) for place, told in found.told if _meet(place, at)] if found is not None else []
        if not here:
            return None
        text = "\n\n---\n\n".join(told.explanation for _, told in here)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), here[0][0])

    async def _current(self, document: Document) -> Analysed | None:
        """What was found in the text as it is now, as soon as that is known."""
        if document.pending is not None:
            self._start(document.uri)
        if document.running is not None:
            await asyncio.wait([document.running])
        found = document.found
        return found if found is not None and found.version == document.version else None

    def _start(self, uri: str) -> None:
        """Analyse a file now, instead of an older version of it."""
        document = self._documents[uri]
        document.stop()
        document.running = asyncio.get_running_loop().create_task(self._analyse(document))

    async def _analyse(self, document: Document) -> None:
        version, lines = document.version, Lines(document.text, self.encoding)
        try:
            found = await self._worker.run(analysis.told, self._snapshot(document))
        except PerfmodError as error:
            self._complain(str(error))
            return
        if found is None or document.version != version:
            return
        places = tuple((_place(each, lines), each) for each in found)
        document.found = Analysed(version, lines, places)
        told = [self._diagnostic(place, each) for place, each in places]
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, told, version))

    def _snapshot(self, document: Document) -> Snapshot:
        return Snapshot(document.path, {each.path: each.text for each in self._opened}, self.edits.creates)

    def _diagnostic(self, place: types.Range, told: Told) -> types.Diagnostic:
        return wording.diagnostic(place, told, self._lines_of)

    def _lines_of(self, path: Path) -> Lines | None:
        """The text of a file as it is in the editor, or on the disk."""
        opened = next((each.text for each in self._opened if each.path == path), None)
        try:
            return Lines(opened if opened is not None else decode(path.read_bytes())[0], self.encoding)
        except (OSError, SourceError):
            return None

    def _complain(self, message: str) -> None:
        """Say once what is wrong with the project."""
        if message not in self._complaints:
            self._complaints.add(message)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"perfmod: {message}"))


def _is_wanted(kind: str, wanted: Sequence[str] | None) -> bool:
    """Whether the editor asks for actions of a kind, or of one that holds it, such as `source` for `source.fixAll`."""
    return wanted is None or any(kind == each or kind.startswith(f"{each}.") for each in wanted)


def _place(told: Told, lines: Lines) -> types.Range:
    row = told.row
    return lines.range(lines.offset(row.line, row.column), lines.offset(row.end_line, row.end_column))


def _meet(one: types.Range, other: types.Range) -> bool:
    """Whether two places have a character in common, or touch."""
    return one.start <= other.end and other.start <= one.end


def _on_open(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
    ls.open(params.text_document.uri)


def _on_change(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
    ls.change(params.text_document.uri)


def _on_save(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
    ls.save(params.text_document.uri)


def _on_close(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
    ls.close(params.text_document.uri)


async def _on_code_action(ls: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    return await ls.actions(params)


async def _on_resolve(ls: Server, params: types.CodeAction) -> types.CodeAction:
    return await ls.resolve(params)


async def _on_hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
    return await ls.hover(params)


def _on_shutdown(ls: Server, _params: None) -> None:
    ls.stop()


_ACTIONS = types.CodeActionOptions([types.CodeActionKind.QuickFix, wording.FIX_ALL], resolve_provider=True)


def create() -> Server:
    """A server that answers to everything that perfmod does in editors."""
    server = Server()
    server.feature(types.TEXT_DOCUMENT_DID_OPEN)(_on_open)
    server.feature(types.TEXT_DOCUMENT_DID_CHANGE)(_on_change)
    server.feature(types.TEXT_DOCUMENT_DID_SAVE)(_on_save)
    server.feature(types.TEXT_DOCUMENT_DID_CLOSE)(_on_close)
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, _ACTIONS)(_on_code_action)
    server.feature(types.CODE_ACTION_RESOLVE)(_on_resolve)
    server.feature(types.TEXT_DOCUMENT_HOVER)(_on_hover)
    server.feature(types.SHUTDOWN)(_on_shutdown)
    return server


def serve() -> None:
    """Answer an editor on standard input and output until it says goodbye."""
    # Whatever else might print would garble the protocol.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    create().start_io(sys.stdin.buffer, out)
