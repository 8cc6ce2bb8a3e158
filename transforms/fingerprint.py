"""What a finding is known by across edits of its file: its rule, its scope, and its code however that is written."""

from __future__ import annotations

import ast
import hashlib
import textwrap
import warnings
from collections.abc import Sequence

_HEADERS = ("{}", "{}\n    pass", "{} pass", "async def _():\n {}")
"""Ways to complete what is no module by itself: the header of a statement, what only a coroutine may hold."""


def fingerprint(code: str, scope: str, snippet: str) -> str:
    """Sixteen hexadecimal digits. Findings of one scope with the same code share them.

    Args:
        code: of the rule, `PM101`.
        scope: dotted, `MaskedLoss.forward`.
        snippet: the code that shows the pattern.
    """
    text = "\0".join((code, scope, normalised(snippet, with_keywords=False)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def normalised(snippet: str, *, with_keywords: bool = True) -> str:
    """Code as it would be written in one style, without comments; of a compound statement its header alone.

    Without keyword arguments it is the same after people have tuned them, and after other rewrites have added some.
    """
    text = textwrap.dedent(snippet.expandtabs())
    for form in _HEADERS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(form.format(text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        statements = [_without_body(statement) for statement in tree.body]
        for call in [] if with_keywords else (node for each in statements for node in ast.walk(each)):
            if isinstance(call, ast.Call):
                call.keywords = []
        return "\n".join(map(ast.unparse, statements))
    return " ".join(text.split())


def _without_body(statement: ast.stmt) -> ast.stmt:
    """What stands in a loop or function does not tell it from another: that is edited more often than its header."""
    if isinstance(getattr(statement, "body", None), list):
        statement.body = [ast.Pass()]  # type: ignore[attr-defined]
        for name in ("orelse", "finalbody", "handlers", "decorator_list"):
            if isinstance(getattr(statement, name, None), Sequence):
                setattr(statement, name, [])
    return statement
