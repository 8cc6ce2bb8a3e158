"""Options of the command line: which option an `args.workers` comes from, its default, and who else reads it."""

from __future__ import annotations

import re

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import is_true
from perfmod.transforms.finding import Edit

_TOLD = re.compile(r"default(?: is|s to)?[:= ]*(?P<number>0)(?![\d.])")
_PARSES = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})


@frozen
class Option:
    """An option that a parser in sight declares.

    Attributes:
        name: as the user types it, `--workers`.
        declared: the call of `add_argument`.
        default: its default, if it has one.
        reads: every place in sight that reads it, `args.workers`.
        escape: a place that prints all options, or hands them to code out of sight; `None` where none does.
    """

    name: str
    declared: cst.Call
    default: cst.BaseExpression | None
    reads: tuple[cst.Attribute, ...]
    escape: cst.CSTNode | None

    @property
    def is_on(self) -> bool:
        """Whether it is true unless the user says something else."""
        action = argument(self.declared, "action")
        is_flag = isinstance(action, cst.SimpleString) and action.evaluated_value == "store_false"
        given = self.default
        return (is_flag and given is None) or is_true(given)


def option_of(file: FileFacts, given: cst.BaseExpression) -> Option | None:
    """The option that `args.workers` reads; `None` where it is none, or not a single one is declared."""
    return option_called(file, given.value, given.attr.value) if isinstance(given, cst.Attribute) else None


def option_called(file: FileFacts, options: cst.BaseExpression, name: str) -> Option | None:
    """The option of a name among those that a parser gave; `None` where they are none, or no single one is declared."""
    declared = file.once(declarations).get(name)
    parsed = _parsed(file, options) if declared else []
    if not declared or not parsed:
        return None
    defaults = [argument(call, name) for call in file.tree.all(cst.Call) if _sets_defaults(call)]
    defaults = [default for default in defaults if default is not None] or [argument(declared[0], "default")]
    if len(declared) > 1 and defaults == [None]:
        return None
    flags = [arg.value for arg in declared[0].args if arg.keyword is None]
    texts = [str(flag.evaluated_value) for flag in flags if isinstance(flag, cst.SimpleString)]
    reads: list[cst.Attribute] = []
    escape: cst.CSTNode | None = None
    for read in file.tree.all(cst.Attribute):
        if read.attr.value == name and _parsed(file, read.value):
            if isinstance(file.tree.parent(read), cst.AssignTarget):
                return None  # set by hand
            reads.append(read)
    for call in parsed:
        for held in file.handing.uses(call):
            parent = file.tree.parent(held.node)
            if held.path or not isinstance(parent, cst.Attribute):
                escape = escape or held.node
    escape = escape or next((call for call in file.tree.all(cst.Call) if _asks_for_default(call, name)), None)
    long = [text for text in texts if text.startswith("--")] or texts
    return Option(long[0], declared[0], defaults[0] if len(defaults) == 1 else None, tuple(reads), escape)


def told_default(file: FileFacts, option: Option, default: str) -> tuple[Edit, ...]:
    """The edits by which an option's help says its new default, where it says 0."""
    told = argument(option.declared, "help")
    if not isinstance(told, cst.SimpleString):
        return ()
    source = file.source_of(told)
    start, _ = source.span(told)
    match = _TOLD.search(told.value)
    return (Edit(start + match.start("number"), start + match.end("number"), default, source.path),) if match else ()


def _parsed(file: FileFacts, node: cst.BaseExpression) -> list[cst.Call]:
    """The calls of `parse_args` that made the options; empty where something else may have."""
    ends = file.tracing.ends(node)
    calls = [end.node for end in ends if isinstance(end.node, cst.Call) and _parses(end.node, end.path)]
    return calls if len(calls) == len(ends) else []


def _parses(call: cst.Call, path: tuple[object, ...]) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _PARSES:
        return False
    return path == ((0,) if call.func.attr.value == "parse_known_args" else ())


def declarations(file: FileFacts) -> dict[str, list[cst.Call]]:
    """The calls of `add_argument`, by the name under which the parser gives what the user says."""
    found: dict[str, list[cst.Call]] = {}
    for call in file.tree.all(cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument" and call.args:
            texts = [arg.value for arg in call.args if arg.keyword is None]
            flags = [str(text.evaluated_value) for text in texts if isinstance(text, cst.SimpleString)]
            long = [flag for flag in flags if flag.startswith("--")] or flags
            given = argument(call, "dest")
            if isinstance(given, cst.SimpleString):
                found.setdefault(str(given.evaluated_value), []).append(call)
            elif given is None and long:
                found.setdefault(long[0].lstrip("-").replace("-", "_"), []).append(call)
    return found


def _asks_for_default(call: cst.Call, name: str) -> bool:
    """Whether `parser.get_default("workers")` reads the default itself."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "get_default" or not call.args:
        return False
    asked = call.args[0].value
    return not isinstance(asked, cst.SimpleString) or asked.evaluated_value == name


def _sets_defaults(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "set_defaults"
