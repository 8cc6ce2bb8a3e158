"""From the bytes of a file to its text, before anything is parsed."""

from __future__ import annotations

import codecs
import io
import tokenize


class SourceError(Exception):
    """A file that cannot be read as Python 3. `reason` is one line that says what and where."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ForeignSource(SourceError):
    """A notebook of a language or format that is not read, or with a cell that is no Python."""


def is_notebook(path: str) -> bool:
    """Whether a path is that of a Jupyter notebook."""
    return path.endswith(".ipynb")


def code_of(data: bytes, path: str) -> str:
    """The Python code in a file's bytes: its text, or that of a notebook's cells. Raises `SourceError`."""
    if is_notebook(path):
        from perfmod.transforms.notebook.document import Document

        return "\n".join(cell.source for cell in Document.read(data).cells)
    return decode(data)[0]


def decode(data: bytes) -> tuple[str, str, bytes]:
    """Text, encoding and byte order mark of a Python file's bytes. Raises `SourceError`."""
    if b"\0" in data:
        raise SourceError("contains null bytes, so it is not Python source")
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        encoding = "utf-8" if bom else encoding
        return data[len(bom) :].decode(encoding), encoding, bom
    except (SyntaxError, LookupError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot be decoded: {error}") from error
