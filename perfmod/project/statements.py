"""The import statements of a file, found in its bytes and read one by one: whole files would take ten times as long.

An import in the text of a string is taken for one, too. That links two files that need not be read together, and
does nothing else, because what a name means is looked up for real statements only.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

from attrs import frozen

_WORD = re.compile(rb"import[ \t(\\]")
_HEAD = re.compile(rb"(?:.*[;:])?[ \t]*((?:from\b(?:[^;#]|\\\r?\n)*?)?)\Z")
"""What stands between the start of a line and the word `import`, with the `from` of the same statement."""
_LONGEST_HEAD = 500
"""Characters; what lies further into a line is data."""
_TAIL = re.compile(rb"import[ \t]*(?:\([^)]{0,100000}\)|(?:\\\r?\n|[^\n;#(\\])*)")
_PATH = re.compile(rb"\bsys\.path\.(?:append|insert)\(([^\n#]{1,300})")
_LITERAL = re.compile(r"""(['"])([^'"{}]*)\1""")


@frozen
class Imported:
    """One module that a file imports, or imports from.

    Attributes:
        module: the dotted name as it is written, with the dots of a relative import.
        names: what is taken from the module, each perhaps a module itself; empty for `import module` and `*`.
        takes_all: whether it is `from module import *`.
        binds_package: whether `import a.b` made the name `a` known, so that `a.c` may be read as well.
    """

    module: str
    names: tuple[str, ...] = ()
    binds_package: bool = False
    takes_all: bool = False


def imports(data: bytes) -> tuple[Imported, ...]:
    """What a file imports, in order. Statements that Python cannot read (half of one, Python 2) are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(imported for statement in _statements(data) for imported in _parsed(statement))


def folders_added(data: bytes) -> tuple[str, ...]:
    """Where `sys.path.append(os.path.join(ROOT, "lib"))` and the like look for modules, as far as it is written out.

    The folder that this is relative to is not known: mostly it is that of the file or one above.
    """
    written = (_LITERAL.findall(found[1].decode("utf-8", "replace")) for found in _PATH.finditer(data))
    return tuple(dict.fromkeys("/".join(text for _, text in parts) for parts in written if parts))


def _statements(data: bytes) -> Iterator[bytes]:
    """The text of everything that looks like an import statement."""
    for word in _WORD.finditer(data):
        head = _HEAD.match(data, _line_start(data, word.start()), word.start())
        tail = _TAIL.match(data, word.start())
        if head is not None and tail is not None:
            yield head[1] + tail[0]


def _line_start(data: bytes, offset: int) -> int:
    """Where the line with `offset` starts, and with it those that a backslash continues to it."""
    start = offset
    while True:
        start = data.rfind(b"\n", max(0, offset - _LONGEST_HEAD), start) + 1
        if not start or not data[max(0, start - 3) : start].endswith((b"\\\n", b"\\\r\n")):
            return max(start, offset - _LONGEST_HEAD)
        start -= 1


@lru_cache(maxsize=50_000)
def _parsed(statement: bytes) -> tuple[Imported, ...]:
    try:
        (read,) = ast.parse(statement.decode("utf-8", "replace").strip()).body
    except (SyntaxError, ValueError):
        return ()
    return tuple(_read(read))


def _read(statement: ast.stmt) -> Iterator[Imported]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield Imported(alias.name, binds_package="." in alias.name and alias.asname is None)
    elif isinstance(statement, ast.ImportFrom):
        names = tuple(alias.name for alias in statement.names if alias.name != "*")
        takes_all = len(names) < len(statement.names)
        yield Imported("." * statement.level + (statement.module or ""), names, takes_all=takes_all)
