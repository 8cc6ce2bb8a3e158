"""Texts that show values: f-strings, `"...".format(...)` and `"..." % ...`, and which ask a tensor for its number."""

from __future__ import annotations

import re
import string

import libcst as cst

from perfmod.transforms.facts.file import FileFacts

_SPECIFIER = re.compile(r"%(?:%|(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?([a-zA-Z]))")


def shows_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is put into a text that shows a tensor without dimensions as its number.

    F-strings and `format` do, unless they ask for `!r` or `!s`; of the `%` formats those of numbers do.
    """
    parent = file.tree.parent(node)
    if isinstance(parent, cst.FormattedStringExpression):
        return parent.conversion is None and parent.expression is node
    if isinstance(parent, (cst.Element, cst.BinaryOperation)):
        return _is_shown_by_percent(file, node)
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) and not parent.star else None
    return isinstance(call, cst.Call) and is_plain_format(call)


def shows_type(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether it could be seen that a number is a float instead of the equal integer: not where it is divided, compared
    or shown with digits behind the point.
    """
    while True:
        parent = file.tree.parent(node)
        if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
            return False
        if isinstance(parent, cst.FormattedStringExpression) and parent.format_spec:
            last = parent.format_spec[-1]
            return not (isinstance(last, cst.FormattedStringText) and last.value[-1:] in "eEfFgG%")
        if not isinstance(parent, cst.BinaryOperation) or isinstance(parent.operator, cst.Modulo):
            return not (isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.DivideAssign))
        if isinstance(parent.operator, cst.Divide):
            return False
        node = parent


def is_plain_format(call: cst.Call) -> bool:
    """Whether a call is `"...".format(...)` of a text that is written down and converts nothing by `!r` or `!s`."""
    if not (isinstance(call.func, cst.Attribute) and call.func.attr.value == "format"):
        return False
    text = _literal(call.func.value)
    try:
        fields = list(string.Formatter().parse(text)) if text is not None else []
    except ValueError:
        return False
    return text is not None and not any(conversion for *_, conversion in fields)


def _is_shown_by_percent(file: FileFacts, node: cst.BaseExpression) -> bool:
    place: cst.CSTNode = node
    parent, shown = file.tree.parent(node), [node]
    if isinstance(parent, cst.Element):
        around = file.tree.parent(parent)
        if not isinstance(around, cst.Tuple) or not all(isinstance(part, cst.Element) for part in around.elements):
            return False
        place, parent, shown = around, file.tree.parent(around), [part.value for part in around.elements]
    if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, cst.Modulo):
        return False
    text = _literal(parent.left)
    if parent.right is not place or text is None or "%" in _SPECIFIER.sub("", text):
        return False
    specifiers = [found[1] for found in _SPECIFIER.finditer(text) if found[1]]
    return len(specifiers) == len(shown) and specifiers[shown.index(node)] in "fFeEgGdi"


def _literal(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) else None
    return value if isinstance(value, str) else None
