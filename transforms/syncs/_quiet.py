"""Whether what a report shows is only computed for it, and whether who is given it only shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import is_false, walk

_STREAMS = frozenset({"sys.stdout", "sys.stderr"})
# What computes or formats figures, and does nothing else.
_BUILTINS = frozenset(
    {"float", "int", "round", "len", "str", "repr", "format", "min", "max", "sum", "abs", "dict", "list", "tuple",
     "zip", "enumerate", "range", "sorted", "isinstance"}
)  # fmt: skip
_MODULES = ("torch.", "math.", "numpy.", "statistics.", "time.", "datetime.", "os.path.")
_LOUD = re.compile(
    r"rand|drop|normal|bernoulli|multinomial|poisson|seed|save|load|set_|_$|backward|reset|sleep|distributed|autograd|"
    r"synchronize|empty_cache|compile|optim|manual|enable|put|fill|shuffle"
)
_METHODS = frozenset(
    {"item", "tolist", "cpu", "detach", "numpy", "clone", "mean", "sum", "argmax", "argmin", "max", "min", "eq", "ne",
     "gt", "lt", "ge", "le", "float", "double", "int", "long", "to", "norm", "abs", "exp", "log", "sqrt", "std", "var",
     "view", "view_as", "reshape", "flatten", "squeeze", "unsqueeze", "size", "numel", "dim", "type", "topk", "softmax",
     "sigmoid", "any", "all", "t", "format", "join", "ljust", "rjust", "upper", "strftime", "get_last_lr", "get_lr",
     "items", "keys", "values", "get", "total_seconds"}
)  # fmt: skip
_KEEPS = frozenset({"append", "extend", "add", "update", "insert", "setdefault"})
_DEPTH = 3
"""Of calls that are followed."""


def targets_of(node: cst.CSTNode) -> Sequence[cst.BaseExpression]:
    """What an assignment gives a value."""
    if isinstance(node, cst.Assign):
        return [each.target for each in node.targets]
    return [node.target] if isinstance(node, (cst.AugAssign, cst.AnnAssign)) else []


def why_kept(file: FileFacts, call: cst.Call) -> str | None:
    """Why a report has to be made in every step: whoever is given it keeps something of it."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "file" and file.qualified(arg.value) not in _STREAMS:
            return f"`{file.code(arg.value)}` keeps every line, and may be read later"
    for function in _called(file, call):
        for node in walk(function.body):
            method = node.func if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
            is_kept = isinstance(node, cst.Global) or any(_is_outside(each) for each in targets_of(node))
            if is_kept or (
                method is not None and method.attr.value in _KEEPS and dotted(method.value).startswith("self.")
            ):
                return f"`{function.name.value}` keeps something from call to call (line {file.line(node)})"
    return None


def _called(file: FileFacts, call: cst.Call) -> Sequence[cst.FunctionDef]:
    """The functions in sight that a report calls; those of its name where nothing shows whose method it is."""
    functions = file.values.calls.reached(call)
    if functions or not isinstance(call.func, cst.Attribute) or file.qualified(call) is not None:
        return functions
    if file.value(call.func.value).name is not None:
        return ()
    method = call.func.attr.value
    return [function for function in file.tree.all(cst.FunctionDef) if function.name.value == method]


def _is_outside(target: cst.BaseExpression) -> bool:
    """Whether an assignment writes into an object."""
    return any(isinstance(part, (cst.Attribute, cst.Subscript)) for part in walk(target))


def loud(file: FileFacts, value: cst.CSTNode) -> cst.CSTNode | None:
    """A part of an expression that may do more than to compute it."""
    return next(_loud_parts(file, value, frozenset()), None)


def _loud_parts(file: FileFacts, code: cst.CSTNode, seen: frozenset[cst.FunctionDef]) -> Iterator[cst.CSTNode]:
    for node in walk(code):
        is_loud = isinstance(node, (cst.NamedExpr, cst.Await, cst.Yield, cst.Global, cst.Nonlocal))
        if is_loud or (isinstance(node, cst.Call) and not _is_quiet(file, node, seen)):
            yield node


def _is_quiet(file: FileFacts, call: cst.Call, seen: frozenset[cst.FunctionDef]) -> bool:
    """Whether a call only computes something."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value in ("out", "inplace") and not is_false(arg.value):
            return False
    name = file.qualified(call)
    if name is not None:
        is_builtin = name.removeprefix("builtins.") in _BUILTINS
        return is_builtin or (name.startswith(_MODULES) and _LOUD.search(name) is None)
    functions = file.values.calls.reached(call)
    if functions:
        return len(seen) < _DEPTH and all(each in seen or _computes(file, each, seen | {each}) for each in functions)
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS


def _computes(file: FileFacts, function: cst.FunctionDef, seen: frozenset[cst.FunctionDef]) -> bool:
    """Whether a function does nothing but to compute what it returns; it may fill a list of its own."""
    if any(_is_outside(each) for node in walk(function.body) for each in targets_of(node)):
        return False
    made = {dotted(each) for node in walk(function.body) for each in targets_of(node)}
    for node in _loud_parts(file, function.body, seen):
        method = node.func if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
        if method is None or method.attr.value != "append" or dotted(method.value) not in made:
            return False
    return True
