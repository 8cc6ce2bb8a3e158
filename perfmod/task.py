"""One file for the engine."""

from __future__ import annotations

import ast
import warnings
from functools import cache

from attrs import frozen

from perfmod.codemods.engine import Choice, FileResult, Outcome, rewrite
from perfmod.transforms.rule import Rule
from perfmod.transforms.source import Source, SourceError, decode


@frozen
class Task:
    """One file and what to do with it, here or in another process: rules hold no state and travel by name.

    Attributes:
        path: its path as it is printed.
        data: its bytes.
        named: whether the user gave it by name; then a file that is no Python is a failure even where no
            rule would have looked into it.
        rules, choice: what the engine shall do.
    """

    path: str
    data: bytes
    named: bool
    rules: tuple[Rule, ...]
    choice: Choice

    @property
    def is_candidate(self) -> bool:
        """Whether the engine may have to parse it, which takes long: it holds a word that rules look for."""
        return b"torch" in self.data and any(word in self.data for word in _triggers(self.rules))

    def run(self) -> FileResult:
        """The engine's result."""
        result = rewrite(self.data, self.path, self.rules, self.choice)
        if self.named and result.outcome is Outcome.UNCHANGED:
            try:
                _require_python(self.data)
            except SourceError as error:
                return FileResult(self.path, Outcome.FAILED, self.data, self.data, error.reason)
        return result


def _require_python(data: bytes) -> None:
    """Raise `SourceError` where `data` is no Python; quick where it is, since Python itself can tell."""
    text, _, _ = decode(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        Source.parse(data)


@cache
def _triggers(rules: tuple[Rule, ...]) -> tuple[bytes, ...]:
    return tuple(sorted({word.encode() for rule in rules for word in rule.triggers}))
