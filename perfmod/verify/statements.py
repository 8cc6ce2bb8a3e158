"""The statements of a file, by the lines that they stand in."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping

from attrs import frozen

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@frozen
class Statements:
    """Those of one file.

    Attributes:
        spans: first and last line of each; of one with a body, of its head.
        bodies: the first line of the body of each function, by the line of its head.
        targets: line and column, from 1, of all names that something is assigned to.
    """

    spans: tuple[tuple[int, int], ...]
    bodies: Mapping[int, int]
    targets: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, text: str) -> Statements:
        """Of a file's text; none where it is no Python."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nodes = list(ast.walk(ast.parse(text)))
        except (SyntaxError, ValueError, RecursionError):
            return cls((), {}, frozenset())
        lines = text.encode().splitlines()
        return cls(
            tuple(span for node in nodes if isinstance(node, ast.stmt) for span in _spans(node)),
            {node.lineno: node.body[0].lineno for node in nodes if isinstance(node, _FUNCTIONS)},
            frozenset(_position(node, lines) for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)),
        )

    def at_or_behind(self, line: int) -> int:
        """The line, or the one in which the next statement begins where it is none of a statement: a comment's."""
        if line in self.bodies or any(first <= line <= last for first, last in self.spans):
            return line
        return min((each for each in (*self.bodies, *(first for first, _ in self.spans)) if each > line), default=line)

    def around(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost statement, or head of one, that has a line."""
        spans = (span for span in self.spans if span[0] <= line <= span[1])
        return min(spans, key=lambda span: span[1] - span[0], default=(line, line))

    def is_target(self, line: int, column: int) -> bool:
        """Whether what stands there gets its value from the statement."""
        return (line, column) in self.targets


def _spans(node: ast.stmt) -> Iterator[tuple[int, int]]:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    body = getattr(node, "body", None)
    if not body:
        yield first, node.end_lineno or first
    elif not isinstance(node, _FUNCTIONS):
        yield first, max(first, body[0].lineno - 1)


def _position(node: ast.AST, lines: list[bytes]) -> tuple[int, int]:
    line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
    return line, len(lines[line - 1][:column].decode("utf-8", "replace")) + 1
