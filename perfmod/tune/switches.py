"""Switches of a script's own with which its model is compiled: `if args.compile: model = torch.compile(model)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from attrs import frozen

_WORDS: Final = {**dict.fromkeys(("true", "1", "yes", "on"), True), **dict.fromkeys(("false", "0", "no", "off"), False)}


@frozen
class Switch:
    """A condition under which a script compiles its model.

    Attributes:
        code: the condition as it is written.
        name: of the constant or option. line: of the condition.
        is_on: whether it holds unless the script is told otherwise.
    """

    code: str
    name: str
    line: int
    is_on: bool

    def seems_off(self, arguments: Sequence[str]) -> bool:
        """Whether a call leaves the model as it is: one that names the switch without a value turns it over."""
        for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
            name, _, value = argument.lstrip("-").partition("=")
            value = (value or following).lower()
            if name.replace("-", "_") == self.name and value in _WORDS:
                return not _WORDS[value]
            if name.replace("-", "_") in (self.name, f"no_{self.name}"):
                return self.is_on
        return not self.is_on


def switches(code: bytes) -> Iterator[Switch]:
    """The switches of a script, in the order of their lines; none of one that is no Python."""
    try:
        module = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    constants, options = _constants(module), _options(module)
    for node in ast.walk(module):
        if isinstance(node, ast.If) and any(map(_compiles, node.body)):
            test = node.test
            known = constants if isinstance(test, ast.Name) else options
            name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
            if name in known:
                yield Switch(ast.unparse(test), name, node.lineno, known[name])


def _constants(module: ast.Module) -> dict[str, bool]:
    """The names that the top level of a script sets to True or False first, which a call may change."""
    found: dict[str, bool] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, node.value.value)
    return found


def _options(module: ast.Module) -> dict[str, bool]:
    """The options of argparse, and whether they are on by default."""
    found: dict[str, bool] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            names = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            given = {each.arg: each.value.value for each in node.keywords if isinstance(each.value, ast.Constant)}
            is_on = bool(given.get("default", given.get("action") == "store_false"))
            for name in (*names, given.get("dest")):
                if isinstance(name, str):
                    found[name.lstrip("-").replace("-", "_")] = is_on
    return found


def _compiles(statement: ast.stmt) -> bool:
    """Whether a statement puts what `torch.compile` makes into a variable."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and ast.unparse(statement.value.func) == "torch.compile"
    )
