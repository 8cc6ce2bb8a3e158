"""Options of the command line: which option an `args.workers` comes from, its default, and who else reads it."""

from __future__ import annotations

import re

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.rule import Edit

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
        return (is_flag and given is None) or (isinstance(given, cst.Name) and given.value == "True")


def option_of(file: FileFacts, given: cst.BaseExpression) -> Option | None:
    """The option that `args.workers` reads; `None` where it is none, or not a single one is declared."""
    if not isinstance(given, cst.Attribute):
        return None
    parsed = _parsed(file, given.value)
    if not parsed:
        return None
    declared = [call for call in file.tree.all(cst.Call) if _declares(call, given.attr.value)]
    if not declared:
        return None
    defaults = [argument(call, given.attr.value) for call in file.tree.all(cst.Call) if _sets_defaults(call)]
    defaults = [default for default in defaults if default is not None] or [argument(declared[0], "default")]
    if len(declared) > 1 and defaults == [None]:
        return None
    flags = [arg.value for arg in declared[0].args if arg.keyword is None]
    texts = [str(flag.evaluated_value) for flag in flags if isinstance(flag, cst.SimpleString)]
    reads: list[cst.Attribute] = []
    escape: cst.CSTNode | None = None
    for read in file.tree.all(cst.Attribute):
        if read.attr.value == given.attr.value and _parsed(file, read.value):
            if isinstance(file.tree.parent(read), cst.AssignTarget):
                return None  # set by hand
            reads.append(read)
    for call in parsed:
        for held in file.handing.uses(call):
            parent = file.tree.parent(held.node)
            if held.path or not isinstance(parent, cst.Attribute):
                escape = escape or held.node
    escape = escape or next(
        (call for call in file.tree.all(cst.Call) if _asks_for_default(call, given.attr.value)), None
    )
    long = [text for text in texts if text.startswith("--")] or texts
    return Option(long[0], declared[0], defaults[0] if len(defaults) == 1 else None, tuple(reads), escape)


def told_default(file: FileFacts, option: Option) -> tuple[Edit, ...]:
    """The edits by which an option's help says its default itself, where it says 0: `(default: %(default)s)`."""
    told = argument(option.declared, "help")
    if not isinstance(told, cst.SimpleString):
        return ()
    source = file.source_of(told)
    start, _ = source.span(told)
    match = _TOLD.search(told.value)
    return (Edit(start + match.start("number"), start + match.end("number"), "%(default)s"),) if match else ()


def _parsed(file: FileFacts, node: cst.BaseExpression) -> list[cst.Call]:
    """The calls of `parse_args` that made the options; empty where something else may have."""
    ends = file.tracing.ends(node)
    calls = [end.node for end in ends if isinstance(end.node, cst.Call) and _parses(end.node, end.path)]
    return calls if len(calls) == len(ends) else []


def _parses(call: cst.Call, path: tuple[object, ...]) -> bool:
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _PARSES:
        return False
    return path == ((0,) if call.func.attr.value == "parse_known_args" else ())


def _declares(call: cst.Call, name: str) -> bool:
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument" and call.args):
        return False
    given = argument(call, "dest")
    if given is not None:
        return isinstance(given, cst.SimpleString) and given.evaluated_value == name
    flags = [
        str(arg.value.evaluated_value)
        for arg in call.args
        if arg.keyword is None and isinstance(arg.value, cst.SimpleString)
    ]
    long = [flag for flag in flags if flag.startswith("--")] or flags
    return bool(long) and long[0].lstrip("-").replace("-", "_") == name


def _asks_for_default(call: cst.Call, name: str) -> bool:
    """Whether `parser.get_default("workers")` reads the default itself."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "get_default" or not call.args:
        return False
    asked = call.args[0].value
    return not isinstance(asked, cst.SimpleString) or asked.evaluated_value == name


def _sets_defaults(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "set_defaults"
