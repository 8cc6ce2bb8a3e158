"""What was found, as the protocol says it: diagnostics, the actions that they offer, and edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from attrs import asdict, frozen
from lsprotocol import types

from perfmod.lsp.analysis import Replaced, Told
from perfmod.lsp.documents import Document
from perfmod.lsp.lines import Lines
from perfmod.report.rows import State

FIX_ALL = "source.fixAll.perfmod"


def diagnostic(place: types.Range, told: Told, lines_of: Callable[[Path], Lines | None]) -> types.Diagnostic:
    """A finding; `lines_of` gives the text of a file that it speaks of."""
    row = told.row
    is_rewritten = row.state is State.REWRITTEN
    return types.Diagnostic(
        place,
        row.message if is_rewritten else f"{row.message}\n{row.state.words}: {row.reason}",
        severity=types.DiagnosticSeverity.Warning if is_rewritten else types.DiagnosticSeverity.Hint,
        code=row.code,
        source="perfmod",
        related_information=_related(told, lines_of) or None,
        data={"fingerprint": row.fingerprint},
    )


@frozen
class Asked:
    """What an action is for, which the editor sends back when it is chosen.

    Attributes:
        code, start: the rule and the character of the finding that is meant; without, all safe ones are.
        silences: whether the finding gets a comment that silences it, and no rewrite.
    """

    uri: str
    version: int
    code: str = ""
    start: int = 0
    silences: bool = False


def quick_fixes(document: Document, told: Told, lines: Lines) -> Iterator[types.CodeAction]:
    """Offers the rewrite of a finding, and a comment that silences it; the edits are asked for when one is chosen."""
    row = told.row
    start = lines.offset(row.line, row.column)
    if told.title:
        yield types.CodeAction(
            f"perfmod: {told.title}",
            types.CodeActionKind.QuickFix,
            is_preferred=row.state is State.REWRITTEN,
            data=asdict(Asked(document.uri, document.version, row.code, start)),
        )
    yield types.CodeAction(
        f"perfmod: ignore {row.code} here",
        types.CodeActionKind.QuickFix,
        data=asdict(Asked(document.uri, document.version, row.code, start, silences=True)),
    )


def rewrite_all(document: Document) -> types.CodeAction:
    """Offers everything that `apply` would write because of one file."""
    asked = Asked(document.uri, document.version)
    return types.CodeAction("perfmod: fix all safe findings in this file", FIX_ALL, data=asdict(asked))


@frozen
class WorkspaceEdits:
    """Edits in the form that the editor takes.

    Attributes:
        encoding: in whose units it counts characters.
        takes_versions: whether it takes edits with the version of the file that they are for.
        creates: whether it makes files; it takes versions then.
    """

    encoding: str
    takes_versions: bool
    creates: bool

    @classmethod
    def of(cls, encoding: str, able: types.WorkspaceEditClientCapabilities | None) -> WorkspaceEdits:
        """By what the editor says that it is able to."""
        takes_versions = able is not None and bool(able.document_changes)
        operations = able.resource_operations if able is not None else None
        return cls(
            encoding, takes_versions, takes_versions and types.ResourceOperationKind.Create in (operations or ())
        )

    def replacing(self, replaced: Iterable[Replaced], documents: Mapping[Path, Document]) -> types.WorkspaceEdit:
        """Makes new texts of files, of which some are open, and some are not there yet."""
        files = list(replaced)
        edits: dict[str, tuple[int | None, Sequence[types.TextEdit]]] = {}
        for each in files:
            document = documents.get(each.path)
            uri = each.path.as_uri() if document is None else document.uri
            version = None if document is None else document.version
            edits[uri] = version, Lines(each.before or "", self.encoding).edits_to(each.after)
        return self._of(edits, [each.path.as_uri() for each in files if each.before is None])

    def _of(
        self, edits: Mapping[str, tuple[int | None, Sequence[types.TextEdit]]], new: Sequence[str]
    ) -> types.WorkspaceEdit:
        """Edits by address, each with the version of the file that they are for, where it is open; new files first."""
        if not self.takes_versions:
            return types.WorkspaceEdit(changes={uri: changes for uri, (_, changes) in edits.items()})
        return types.WorkspaceEdit(
            document_changes=[
                *map(types.CreateFile, new),
                *(
                    types.TextDocumentEdit(
                        types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version), changes
                    )
                    for uri, (version, changes) in edits.items()
                ),
            ]
        )


def _related(told: Told, lines_of: Callable[[Path], Lines | None]) -> list[types.DiagnosticRelatedInformation]:
    found = []
    for each in told.related:
        lines = lines_of(each.path)
        if lines is not None:
            place = lines.range(lines.offset(each.line, each.column), lines.offset(each.end_line, each.end_column))
            found.append(types.DiagnosticRelatedInformation(types.Location(each.path.as_uri(), place), each.words))
    return found
