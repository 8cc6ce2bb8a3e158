"""The language of cells, which is more than Python: `%magics`, `!commands`, `help?`, indented cells, shown results.

What is no Python gets a stand-in that tells the facts what it does to the notebook's variables, as far as that can be
known: the statement of a `%time`, an assignment of something unknown, or a call that is handed every variable which
the line names. Nobody may edit a stand-in.
"""

from __future__ import annotations

import ast
import keyword
import re
import warnings
from collections.abc import Iterator

from attrs import frozen

_LINE_END = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(
    r"""
    (?P<text> ('''|\"\"\")(?:\\.|(?!\2)[^\\])*(?:\2|\Z) )
    | (?P<quoted> '(?:\\(?:\r\n|.)|[^\\'\r\n])*'? | "(?:\\(?:\r\n|.)|[^\\"\r\n])*"? )
    | (?P<comment> \#[^\r\n]* )
    | (?P<open> [(\[{] )
    | (?P<close> [)\]}] )
    | (?P<joined> \\(?:\r\n|\r|\n) )
    | (?P<end> \r\n|\r|\n )
    | [^'"#()\[\]{}\\\r\n]+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
"""What matters of Python for finding the first lines of statements."""
_ESCAPED = re.compile(r"[ \t]*(?P<escape>%{1,2}|!{1,2}|\?{1,2}|[,;/])")
_ASSIGNED = re.compile(r"[ \t]*(?P<targets>(?:[^\W\d][^=<>!#\r\n]*=[ \t]*)+)(?P<escape>[%!])")
_HELP = re.compile(r"[ \t]*[^#'\"\r\n]*\?[ \t]*$")
_SHELL_CALL = re.compile(r"[ \t]*(?:[\w, \t]+=[ \t]*)?get_ipython\(\)\.\w+\(")
_IN_SHELL = re.compile(r"\$(\w+)|\{([^{}]*)\}")
_INDENTED = re.compile(
    r"""
    (?:[ \t]*(?:\r\n|\r|\n))*             # blank lines
    (?P<line>[ \t]+)(?=
        (?:\#[^\r\n]*(?:\r\n|\r|\n)(?:[ \t]*(?:\#[^\r\n]*)?(?:\r\n|\r|\n))*[ \t]+)?  # comments
        [^\s\#]
    )
    """,
    re.VERBOSE,
)
"""The indentation of the first line, where that of the first code is indented, too."""
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
_STORED = re.compile(r"^[ \t]*([^\W\d]\w*)[ \t]*=(?!=)", re.MULTILINE)

_TRANSPARENT = frozenset({"time", "capture"})
"""Cell magics that run the cell as it would run without."""
_NO_CODE = frozenset({
    "alias", "autoreload", "autosave", "bash", "bookmark", "cat", "cd", "cmd", "colors", "conda", "config", "cp",
    "css", "cython", "dhist", "env", "file", "history", "html", "javascript", "js", "latex", "less", "load_ext", "ls",
    "lsmagic", "mamba", "man", "markdown", "matplotlib", "mkdir", "more", "mv", "notebook", "perl", "pip", "precision",
    "pwd", "R", "reload_ext", "rm", "ruby", "set_env", "sh", "script", "svg", "sx", "system", "tensorboard",
    "unload_ext", "uv", "watermark", "who", "whos", "writefile",
})  # fmt: skip
"""Magics that read no variable, and set none."""
_AUTOMAGIC = _NO_CODE | {"prun", "run", "store", "time", "timeit"}
"""Magics that are recognised without their `%`."""
_SILENT = frozenset({
    "add_scalar", "append", "backward", "clear", "close", "display", "eval", "extend", "fit", "insert", "makedirs",
    "manual_seed", "print", "savefig", "seed", "show", "sort", "step", "synchronize", "train", "update", "zero_grad",
})  # fmt: skip
"""Functions and methods whose result is nothing, or nothing that depends on a training, by their last name."""


@frozen(order=True)
class StandIn:
    """Python to read instead of the characters `start` to `end` of a cell.

    Attributes:
        start, end: whole lines without the last line ending; the same place for what is only added.
        python: one line without indentation.
        indentation: in front of it.
    """

    start: int
    end: int
    python: str
    indentation: str = ""


@frozen
class Shown:
    """The characters `start` to `end` of a cell are an expression whose value Jupyter shows below the cell."""

    start: int
    end: int


def stand_ins(cell: str) -> list[StandIn]:
    """What to read instead of that in a cell which is no Python, in its order."""
    if (command := _automagic(cell)) is not None:
        return [command]
    found: list[StandIn] = []
    at = 0
    while (head := _cell_magic(cell, at)) is not None:
        start, end, name, rest = head
        if name not in _TRANSPARENT:
            body = "" if name in _NO_CODE else f"{rest}\n{cell[end:]}"
            return [*found, StandIn(start, len(cell.rstrip()), _opaque(_used(body), _bound(body)))]
        target = rest.split()[-1:] if name == "capture" else []
        stored = target if target and target[0].isidentifier() else []
        found.append(StandIn(start, end, _opaque([] if name == "capture" else _used(rest), stored)))
        at = end
    return [*found, *_indented(cell, at), *_lines(cell, at)]


def _automagic(cell: str) -> StandIn | None:
    """A cell of one line that begins with the name of a magic without its `%`, such as `pip install torch`."""
    line = cell.strip()
    name, _, rest = line.partition(" ")
    if name not in _AUTOMAGIC or not rest or len(line.splitlines()) > 1 or _one_statement(line) is not None:
        return None
    start = cell.index(line)
    return StandIn(start, start + len(line), _magic(name, rest.strip()))


def is_foreign(cell: str) -> bool:
    """Whether a cell as a whole is given to something that does not run it as the notebook's Python."""
    at = 0
    while (head := _cell_magic(cell, at)) is not None:
        if head[2] not in _TRANSPARENT:
            return True
        at = head[1]
    return False


def shown(python: str) -> Shown | None:
    """The last expression of a cell without other things than Python, if its value is shown and may matter."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = ast.parse(python).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not statements or not isinstance(last := statements[-1], ast.Expr) or _is_silent(last.value):
        return None
    assert last.end_lineno is not None
    assert last.end_col_offset is not None
    start = _offset(python, last.lineno, last.col_offset)
    end = _offset(python, last.end_lineno, last.end_col_offset)
    # A semicolon behind it silences it.
    return None if python[end:].lstrip(" \t").startswith(";") else Shown(start, end)


def _is_silent(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        function = value.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _SILENT:
            return True
    return not any(isinstance(node, ast.Name) for node in ast.walk(value))


def _offset(text: str, line: int, column: int) -> int:
    """The character at a line, from 1, and a column in bytes, as `ast` counts."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    start = starts[line - 1]
    following = text[start : starts[line]] if line < len(starts) else text[start:]
    return start + len(following.encode()[:column].decode())


def _cell_magic(cell: str, at: int) -> tuple[int, int, str, str] | None:
    """The `%%magic` that stands first behind `at`: the characters of its line, its name and what follows the name."""
    match = re.compile(r"\s*?(?P<line>^[ \t]*%%(?P<name>\w+)(?P<rest>[^\r\n]*))", re.MULTILINE).match(cell, at)
    if match is None or match["rest"].rstrip().endswith("?"):
        return None
    return match.start("line"), match.end("line"), match["name"], match["rest"].strip()


def _indented(cell: str, at: int) -> Iterator[StandIn]:
    """IPython takes the indentation of the first line off the others; here it becomes that of a block."""
    match = _INDENTED.match(cell, at)
    if match is not None:
        yield StandIn(match.start("line"), match.start("line"), "if True:")


def _lines(cell: str, at: int) -> Iterator[StandIn]:
    """The lines from `at` on that are commands of IPython."""
    depth, fresh = 0, True
    while at < len(cell):
        if fresh and depth == 0 and (command := _command(cell, at)) is not None:
            yield command
            at = command.end
        fresh = False
        match = _TOKEN.match(cell, at)
        if match is None:
            return
        depth = max(0, depth + (match.lastgroup == "open") - (match.lastgroup == "close"))
        fresh = match.lastgroup == "end"
        at = match.end()


def _command(cell: str, at: int) -> StandIn | None:
    """The command that the line at `at`, the first of a statement, holds, if it is one."""
    end = _line_end(cell, at)
    line = cell[at:end]
    indentation = line[: len(line) - len(line.lstrip(" \t"))]
    escape = _ESCAPED.match(line) or _ASSIGNED.match(line)
    if escape is not None:
        while cell[at:end].endswith("\\") and end < len(cell):
            end = _line_end(cell, _LINE_END.match(cell, end).end())  # type: ignore[union-attr]
        rest = re.sub(r"\\(?:\r\n|\r|\n)", " ", cell[at + escape.end() : end]).strip()
        if escape.re is _ASSIGNED:
            used = _used(rest.partition(" ")[2]) if escape["escape"] == "%" else _used_in_shell(rest)
            python = f"{escape['targets'].strip()} {_opaque(used, call=True)}"
            if _one_statement(python) is None:
                return None
        else:
            python = _escaped(escape["escape"], rest, indentation)
        return StandIn(at, end, python, indentation)
    if _HELP.match(line):
        return StandIn(at, end, _opaque(_used(line)), indentation)
    if _SHELL_CALL.match(line) and (called := _shell_call(line.strip())) is not None:
        return StandIn(at, end, called, indentation)
    return None


def _line_end(cell: str, at: int) -> int:
    match = _LINE_END.search(cell, at)
    return match.start() if match else len(cell)


def _escaped(escape: str, rest: str, indentation: str) -> str:
    """The stand-in for a line that begins with an escape."""
    if escape.startswith("!"):
        return _opaque(_used_in_shell(rest))
    if escape.startswith("%"):
        name, _, code = rest.partition(" ")
        return _magic(name, code.strip(), indentation)
    return _opaque(_used(rest))


def _magic(name: str, code: str, indentation: str = "") -> str:
    """The stand-in for `%name code`."""
    if name in _NO_CODE:
        return "pass"
    if name == "time" and (statement := _one_statement(code)) is not None:
        shows = isinstance(statement, ast.Expr) and not _is_silent(statement.value)
        return f"print({code})" if shows else code
    if name == "pylab" and not indentation:
        return "from pylab import *"
    if name == "run" and not indentation:
        script = re.search(r"([^\W\d]\w*)(?:\.py|\.ipynb)?(?:\s|$)", re.sub(r"\S*/|(?:^|\s)-\S+", " ", code))
        return f"from {script[1]} import *" if script and not keyword.iskeyword(script[1]) else "from __main__ import *"
    return _opaque(_used(code))


def _one_statement(code: str) -> ast.stmt | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return statements[0] if len(statements) == 1 and "#" not in code else None


def _shell_call(line: str) -> str | None:
    """The stand-in for `get_ipython().run_line_magic("time", "code")` and its like, which say code as strings."""
    statement = _one_statement(line)
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    if not isinstance(call, ast.Call):
        return None
    texts = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if not texts or len(texts) != len(call.args):
        return None
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = texts[0].split(" ", 1)[0] if method.endswith("magic") else ""
    code = "" if name in _NO_CODE else "\n".join(texts)
    if isinstance(statement, ast.Assign):
        return f"{' = '.join(map(ast.unparse, statement.targets))} = {_opaque(_used(code), call=True)}"
    return _opaque(_used(code), _bound(code) if name else [])


def _opaque(used: list[str], bound: list[str] | None = None, *, call: bool = False) -> str:
    """Python that reads some variables and sets others, in a way that nobody knows."""
    if not used and not bound and not call:
        return "pass"
    targets = "".join(f"{name} = " for name in bound or ())
    return f"{targets}get_ipython().run({', '.join(used)})"


def _used(code: str) -> list[str]:
    """The names in code, or in something like it."""
    names = dict.fromkeys(match.group() for match in _NAME.finditer(code))
    return [name for name in names if not keyword.iskeyword(name)]


def _used_in_shell(command: str) -> list[str]:
    """The names that IPython expands in a command, as `$name` or `{name}`."""
    return _used(" ".join(variable or code for variable, code in _IN_SHELL.findall(command)))


def _bound(code: str) -> list[str]:
    """The names that code, or something like it, sets."""
    found: dict[str, None] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        found = dict.fromkeys(_STORED.findall(code))
    else:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found[node.name] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
            elif isinstance(node, ast.alias):
                found[(node.asname or node.name).partition(".")[0]] = None
    return [name for name in found if name.isidentifier() and not keyword.iskeyword(name)]
