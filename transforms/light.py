"""LibCST trees without white space, built from Python's own, and where every node stands: faster than a full parse.

The nodes are those of LibCST, so rules cannot tell the trees apart as long as they ask about code: names, calls,
statements, parentheses around expressions. Fields for white space, commas and the like are not set; who touches one
gets an `AttributeError`, and the engine parses the files again in full.

What Python's tree does not tell, such as parentheses around an expression, is read from the text next to it. Code that
this does not understand raises `Unsupported`.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import itertools
import re
import tokenize
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import libcst as cst

from perfmod.transforms.spans import Spans, spans_of

Node = TypeVar("Node", bound=cst.CSTNode)
_Left = tuple[cst.LeftParen, ...]
_Right = tuple[cst.RightParen, ...]


class Unsupported(Exception):
    """Code that needs the full parser."""


def light_module(text: str) -> tuple[cst.Module, Spans]:
    """The tree of a file's text, and where its nodes stand.

    Raises:
        Unsupported: code that has to be parsed in full, or is no Python.
    """
    if "\f" in text or text.count("\r") != text.count("\r\n"):
        raise Unsupported("a line ends in another way")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = ast.parse(text)
        builder = _Builder(text)
        return builder.module(parsed), builder.spans
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unsupported(str(error)) from error


def _maker(kind: type[Node], *names: str) -> Callable[..., Node]:
    """A function that makes nodes of a type of its fields `names`, in this order.

    LibCST's own constructors check and fill in white space, which takes most of their time. Of the other fields, those
    that say that something is missing are set, as a constructor would; the rest is not.
    """
    missing = {
        field.name: field.default
        for field in dataclasses.fields(kind)
        if field.name not in (*names, *_UNSET)
        and (field.default is None or field.name in _EMPTY or field.name in _OPTIONAL)
    }
    missing |= {name: () for name in missing if name in _EMPTY}
    values = {f"value_{name}": value for name, value in missing.items()}
    setters = {f"set_{name}": getattr(kind, name).__set__ for name in (*names, *missing)}
    lines = [
        f"def make({', '.join(names)}):",
        "    node = new(kind)",
        *(f"    set_{name}(node, {name})" for name in names),
        *(f"    set_{name}(node, value_{name})" for name in missing),
        "    return node",
    ]
    space: dict[str, Any] = {"new": kind.__new__, "kind": kind, **values, **setters}
    exec("\n".join(lines), space)
    made: Callable[..., Node] = space["make"]
    return made


_EMPTY = frozenset({"decorators", "ifs", "keywords", "bases"})
_UNSET = frozenset({"lpar", "rpar", "indent"})
_OPTIONAL = frozenset({"star_arg", "posonly_ind"})

_ann_assign = _maker(cst.AnnAssign, "target", "annotation", "value")
_annotation = _maker(cst.Annotation, "annotation")
_arg = _maker(cst.Arg, "value", "keyword", "star")
_as_name = _maker(cst.AsName, "name")
_assert = _maker(cst.Assert, "test", "msg")
_assign = _maker(cst.Assign, "targets", "value")
_assign_target = _maker(cst.AssignTarget, "target")
_attribute = _maker(cst.Attribute, "value", "attr", "lpar", "rpar")
_aug_assign = _maker(cst.AugAssign, "target", "operator", "value")
_await = _maker(cst.Await, "expression", "lpar", "rpar")
_binary_operation = _maker(cst.BinaryOperation, "left", "operator", "right", "lpar", "rpar")
_break = _maker(cst.Break)
_boolean_operation = _maker(cst.BooleanOperation, "left", "operator", "right", "lpar", "rpar")
_call = _maker(cst.Call, "func", "args", "lpar", "rpar")
_class_def = _maker(cst.ClassDef, "name", "body", "bases", "keywords", "decorators")
_comp_for = _maker(cst.CompFor, "target", "iter", "ifs", "inner_for_in", "asynchronous")
_comp_if = _maker(cst.CompIf, "test")
_comparison = _maker(cst.Comparison, "left", "comparisons", "lpar", "rpar")
_comparison_target = _maker(cst.ComparisonTarget, "operator", "comparator")
_concatenated_string = _maker(cst.ConcatenatedString, "left", "right", "lpar", "rpar")
_continue = _maker(cst.Continue)
_decorator = _maker(cst.Decorator, "decorator")
_del = _maker(cst.Del, "target")
_dict = _maker(cst.Dict, "elements", "lpar", "rpar")
_dict_comp = _maker(cst.DictComp, "key", "value", "for_in", "lpar", "rpar")
_dict_element = _maker(cst.DictElement, "key", "value")
_dot = _maker(cst.Dot)
_element = _maker(cst.Element, "value")
_ellipsis = _maker(cst.Ellipsis, "lpar", "rpar")
_else = _maker(cst.Else, "body")
_except_handler = _maker(cst.ExceptHandler, "body", "type", "name")
_expr = _maker(cst.Expr, "value")
_finally = _maker(cst.Finally, "body")
_for = _maker(cst.For, "target", "iter", "body", "orelse", "asynchronous")
_from = _maker(cst.From, "item")
_function_def = _maker(cst.FunctionDef, "name", "params", "body", "decorators", "returns", "asynchronous")
_generator_exp = _maker(cst.GeneratorExp, "elt", "for_in", "lpar", "rpar")
_global = _maker(cst.Global, "names")
_if = _maker(cst.If, "test", "body", "orelse")
_if_exp = _maker(cst.IfExp, "test", "body", "orelse", "lpar", "rpar")
_import = _maker(cst.Import, "names")
_import_alias = _maker(cst.ImportAlias, "name", "asname")
_import_from = _maker(cst.ImportFrom, "module", "names", "relative")
_import_star = _maker(cst.ImportStar)
_indented_block = _maker(cst.IndentedBlock, "body")
_index = _maker(cst.Index, "value", "star")
_lambda = _maker(cst.Lambda, "params", "body", "lpar", "rpar")
_left_paren = _maker(cst.LeftParen)
_list = _maker(cst.List, "elements", "lpar", "rpar")
_list_comp = _maker(cst.ListComp, "elt", "for_in", "lpar", "rpar")
_name = _maker(cst.Name, "value", "lpar", "rpar")
_name_item = _maker(cst.NameItem, "name")
_named_expr = _maker(cst.NamedExpr, "target", "value", "lpar", "rpar")
_nonlocal = _maker(cst.Nonlocal, "names")
_param = _maker(cst.Param, "name", "annotation", "default", "star")
_param_star = _maker(cst.ParamStar)
_parameters = _maker(cst.Parameters, "params", "star_arg", "kwonly_params", "star_kwarg", "posonly_params")
_pass = _maker(cst.Pass)
_raise = _maker(cst.Raise, "exc", "cause")
_return = _maker(cst.Return, "value")
_right_paren = _maker(cst.RightParen)
_set = _maker(cst.Set, "elements", "lpar", "rpar")
_set_comp = _maker(cst.SetComp, "elt", "for_in", "lpar", "rpar")
_simple_statement_line = _maker(cst.SimpleStatementLine, "body")
_simple_statement_suite = _maker(cst.SimpleStatementSuite, "body")
_simple_string = _maker(cst.SimpleString, "value", "lpar", "rpar")
_slice = _maker(cst.Slice, "lower", "upper", "step")
_starred_dict_element = _maker(cst.StarredDictElement, "value")
_starred_element = _maker(cst.StarredElement, "value", "lpar", "rpar")
_subscript = _maker(cst.Subscript, "value", "slice", "lpar", "rpar")
_subscript_element = _maker(cst.SubscriptElement, "slice")
_try = _maker(cst.Try, "body", "handlers", "orelse", "finalbody")
_tuple = _maker(cst.Tuple, "elements", "lpar", "rpar")
_unary_operation = _maker(cst.UnaryOperation, "operator", "expression", "lpar", "rpar")
_while = _maker(cst.While, "test", "body", "orelse")
_with = _maker(cst.With, "items", "body", "asynchronous", "lpar", "rpar")
_with_item = _maker(cst.WithItem, "item", "asname")
_yield = _maker(cst.Yield, "value", "lpar", "rpar")

_module = _maker(cst.Module, "body", "encoding", "default_indent", "default_newline", "has_trailing_newline")
_NUMBERS: dict[type, Callable[..., cst.BaseExpression]] = {
    int: _maker(cst.Integer, "value", "lpar", "rpar"),
    float: _maker(cst.Float, "value", "lpar", "rpar"),
    complex: _maker(cst.Imaginary, "value", "lpar", "rpar"),
}

# A node for an operator has no fields but white space, and nobody asks where it stands: one for all places will do.
_OPERATORS: dict[type, Any] = {
    python: _maker(libcst)()
    for python, libcst in (
        (ast.Add, cst.Add),
        (ast.And, cst.And),
        (ast.BitAnd, cst.BitAnd),
        (ast.BitOr, cst.BitOr),
        (ast.BitXor, cst.BitXor),
        (ast.Div, cst.Divide),
        (ast.Eq, cst.Equal),
        (ast.FloorDiv, cst.FloorDivide),
        (ast.Gt, cst.GreaterThan),
        (ast.GtE, cst.GreaterThanEqual),
        (ast.In, cst.In),
        (ast.Invert, cst.BitInvert),
        (ast.Is, cst.Is),
        (ast.IsNot, cst.IsNot),
        (ast.LShift, cst.LeftShift),
        (ast.Lt, cst.LessThan),
        (ast.LtE, cst.LessThanEqual),
        (ast.MatMult, cst.MatrixMultiply),
        (ast.Mod, cst.Modulo),
        (ast.Mult, cst.Multiply),
        (ast.Not, cst.Not),
        (ast.NotEq, cst.NotEqual),
        (ast.NotIn, cst.NotIn),
        (ast.Or, cst.Or),
        (ast.Pow, cst.Power),
        (ast.RShift, cst.RightShift),
        (ast.Sub, cst.Subtract),
        (ast.UAdd, cst.Plus),
        (ast.USub, cst.Minus),
    )
}
_AUGMENTED: dict[type, Any] = {
    python: _maker(getattr(cst, f"{type(operator).__name__}Assign"))()
    for python, operator in _OPERATORS.items()
    if hasattr(cst, f"{type(operator).__name__}Assign")
}
_ASYNCHRONOUS = _maker(cst.Asynchronous)()

_COMPOUND = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While),
    *(ast.With, ast.AsyncWith, ast.Try),
)
_LITERAL = re.compile(
    r"""[rRbBuU]{0,2}(?:\"{3}(?:[^"\\]|\\.|"(?!""))*\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}"""
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""",
    re.DOTALL,
)
_BETWEEN = re.compile(r"(?:[ \t\r\n\\]|#[^\n]*)*")
"""What may stand between two tokens."""
_CLAUSE = re.compile(r"^[ \t]*(?=(?:else|finally)\b)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_FROM = re.compile(r"from[ \t\\\r\n]*((?:[. \t\\\r\n])*)")


class _Builder:
    """Makes LibCST's nodes from Python's, and remembers where they stand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spans: Spans = {}
        self._outer: Spans = {}
        """Of expressions in parentheses: the places with these."""
        self._is_ascii = text.isascii()
        self._lines = text.split("\n")
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in self._lines)]
        self._indent = ""

    # Places

    def _offset(self, line: int, column: int) -> int:
        """The character at Python's line (from 1) and column (bytes of UTF-8)."""
        if not self._is_ascii:
            written = self._lines[line - 1]
            if not written.isascii():
                column = len(written.encode()[:column].decode())
        return self._starts[line - 1] + column

    def _start(self, node: Any) -> int:
        return self._offset(node.lineno, node.col_offset)

    def _end(self, node: Any) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)

    def _at(self, node: Node, start: int, end: int) -> Node:
        self.spans[id(node)] = start, end
        return node

    def _whole(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where an expression stands, with the parentheses around it."""
        return self._outer.get(id(node)) or self.spans[id(node)]

    @cached_property
    def _comments(self) -> dict[int, int]:
        """Where comments start, by the number of the line, from 0."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {
            token.start[0] - 1: self._starts[token.start[0] - 1] + token.start[1]
            for token in tokens
            if token.type == tokenize.COMMENT
        }

    def _before(self, offset: int) -> int:
        """Where the last token before a place ends."""
        text = self.text
        while True:
            while offset and text[offset - 1] in " \t\r\\":
                offset -= 1
            if not offset or text[offset - 1] != "\n":
                return offset
            offset -= 1
            start = text.rfind("\n", 0, offset) + 1
            if "#" in text[start:offset]:
                offset = self._comments.get(text.count("\n", 0, offset), offset)

    def _after(self, offset: int) -> int:
        """Where the next token behind a place starts."""
        found = _BETWEEN.match(self.text, offset)
        return found.end() if found is not None else offset

    def _parentheses(self, start: int, end: int, first: int = 0) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """The left and right parentheses around what stands at a place, with the white space inside of them.

        Those before the character `first` belong to something else: a call, say, of which this is an argument.
        """
        text = self.text
        left: list[tuple[int, int]] = []
        right: list[tuple[int, int]] = []
        while end < len(text) and text[end] in ") \t\r\n\\#" and start:
            close = self._after(end) if text[end] != ")" else end
            if text[close : close + 1] != ")":
                break
            opened = self._before(start) if text[start - 1] != "(" else start
            if text[opened - 1 : opened] != "(" or opened <= first:
                break
            left.append((opened - 1, start))
            right.append((end, close + 1))
            start, end = opened - 1, close + 1
        left.reverse()
        return left, right

    def _expression(self, node: ast.expr, first: int = 0) -> Any:
        """The node of an expression; `first` is where parentheses around it may start."""
        make = _EXPRESSIONS.get(type(node))
        if make is None:
            raise Unsupported(type(node).__name__)
        start, end = self._start(node), self._end(node)
        text = self.text
        # Most expressions are seen to have no parentheses from the characters around them.
        if (
            not start
            or text[start - 1] not in "( \t\n\\"
            or (end < len(text) and text[end] not in ") \t\r\n\\#")
            or type(node) is ast.Starred
        ):
            lpar: tuple[cst.LeftParen, ...] = ()
            rpar: tuple[cst.RightParen, ...] = ()
        else:
            left, right = self._parentheses(start, end, first)
            lpar = tuple(self._at(_left_paren(), *span) for span in left)
            rpar = tuple(self._at(_right_paren(), *span) for span in right)
        made = make(self, node, start, end, lpar, rpar)
        if type(node) not in _WITH_OWN_PLACE:
            self.spans[id(made)] = start, end
        if lpar:
            self._outer[id(made)] = self.spans[id(lpar[0])][0], self.spans[id(rpar[-1])][1]
        return made

    # Statements

    def module(self, parsed: ast.Module) -> cst.Module:
        """The tree of a file."""
        body = self._statements(parsed.body)
        newline = "\r\n" if "\r\n" in self.text[: self._starts[1]] else "\n"
        made = _module(body, "utf-8", self._indent or "    ", newline, self.text.endswith("\n"))
        return self._at(made, 0, len(self.text))

    def _statements(self, statements: Sequence[ast.stmt]) -> tuple[cst.BaseStatement, ...]:
        found: list[cst.BaseStatement] = []
        small: list[cst.BaseSmallStatement] = []
        last = 0
        for statement in statements:
            if type(statement) in _COMPOUND:
                self._end_line(small, found)
                found.append(self._statement(statement))
                continue
            if statement.lineno != last:
                if small and ";" in self.text[self.spans[id(small[-1])][1] : self._start(statement)].partition("#")[0]:
                    raise Unsupported("a line that goes on behind a semicolon")
                self._end_line(small, found)
            small.append(self._statement(statement))
            last = statement.end_lineno or 0
        self._end_line(small, found)
        return tuple(found)

    def _end_line(self, small: list[cst.BaseSmallStatement], found: list[cst.BaseStatement]) -> None:
        if small:
            line = _simple_statement_line(tuple(small))
            found.append(self._at(line, self.spans[id(small[0])][0], self.spans[id(small[-1])][1]))
            small.clear()

    def _suite(self, statements: Sequence[ast.stmt]) -> Any:
        start, end = self._start(statements[0]), self._end(statements[-1])
        decorators = getattr(statements[0], "decorator_list", None)
        first = self.text.rindex("@", 0, self._start(decorators[0])) if decorators else start
        line_start = self.text.rfind("\n", 0, first) + 1
        if decorators and "#" in self.text[line_start : self._start(decorators[0])]:
            raise Unsupported("a comment in a decorator")
        if self.text[line_start:first].strip():
            return self._at(_simple_statement_suite(tuple(map(self._statement, statements))), start, end)
        if self.text[max(0, line_start - 3) : line_start].rstrip().endswith("\\"):
            raise Unsupported("a statement behind a line that goes on")
        self._indent = self._indent or self.text[line_start:first]
        return self._at(_indented_block(self._statements(statements)), start, end)

    def _statement(self, node: ast.stmt) -> Any:
        make = _STATEMENTS.get(type(node))
        if make is None:
            raise Unsupported(type(node).__name__)
        return self._at(make(self, node), self._start(node), self._end(node))

    def _optional(self, node: ast.expr | None) -> Any:
        return None if node is None else self._expression(node)

    def _annotated(self, node: ast.expr | None) -> cst.Annotation | None:
        if node is None:
            return None
        value = self._expression(node)
        return self._at(_annotation(value), *self._whole(value))

    def _assign(self, node: ast.Assign) -> cst.Assign:
        targets = []
        for target in node.targets:
            made = self._expression(target)
            targets.append(self._at(_assign_target(made), *self._whole(made)))
        return _assign(tuple(targets), self._expression(node.value))

    def _ann_assign(self, node: ast.AnnAssign) -> cst.AnnAssign:
        target, annotation = self._expression(node.target), self._annotated(node.annotation)
        return _ann_assign(target, annotation, self._optional(node.value))

    def _raise(self, node: ast.Raise) -> cst.Raise:
        raised, cause = self._optional(node.exc), None
        if node.cause is not None:
            item = self._expression(node.cause)
            start, end = self._whole(item)
            cause = self._at(_from(item), self._before(start) - len("from"), end)
        return _raise(raised, cause)

    def _delete(self, node: ast.Delete) -> cst.Del:
        if len(node.targets) == 1:
            target = self._expression(node.targets[0])
            if self.text.startswith(",", self._after(self._whole(target)[1])):
                raise Unsupported("a tuple of one that is deleted")
            return _del(target)
        elements = self._elements(node.targets)
        span = self.spans[id(elements[0])][0], self.spans[id(elements[-1])][1]
        return _del(self._at(_tuple(elements, (), ()), *span))

    def _declared(self, node: ast.Global | ast.Nonlocal) -> tuple[cst.NameItem, ...]:
        found = []
        for word in itertools.islice(_WORD.finditer(self.text, self._start(node), self._end(node)), 1, None):
            name = self._at(_name(word[0], (), ()), *word.span())
            found.append(self._at(_name_item(name), *word.span()))
        return tuple(found)

    def _plain_name(self, start: int, name: str) -> cst.Name:
        if not self.text.startswith(name, start):
            raise Unsupported("a name that is written in another way")
        return self._at(_name(name, (), ()), start, start + len(name))

    def _dotted(self, start: int, written: str) -> Any:
        first, *others = written.split(".")
        made: Any = self._plain_name(start, first)
        end = start + len(first)
        for other in others:
            name = self._plain_name(end + 1, other)
            end += 1 + len(other)
            made = self._at(_attribute(made, name, (), ()), start, end)
        return made

    def _aliases(self, node: ast.Import | ast.ImportFrom) -> tuple[cst.ImportAlias, ...]:
        found = []
        for alias in node.names:
            start, end = self._start(alias), self._end(alias)
            name, behind = self._dotted(start, alias.name), None
            if alias.asname is not None:
                behind = self._as(self._plain_name(end - len(alias.asname), alias.asname), name)
            found.append(self._at(_import_alias(name, behind), start, end))
        return tuple(found)

    def _as(self, name: Any, before: cst.CSTNode) -> cst.AsName:
        return self._at(_as_name(name), self._whole(before)[1], self._whole(name)[1])

    def _import_from(self, node: ast.ImportFrom) -> cst.ImportFrom:
        head = _FROM.match(self.text, self._start(node))
        if head is None:
            raise Unsupported("an import that is written in another way")
        module = self._dotted(head.end(), node.module) if node.module else None
        end = self._end(node)
        is_star = node.names[0].name == "*"
        names = self._at(_import_star(), end - 1, end) if is_star else self._aliases(node)
        dots = (head.start(1) + place for place, character in enumerate(head[1]) if character == ".")
        return _import_from(module, names, tuple(self._at(_dot(), at, at + 1) for at in dots))

    def _clause(self, make: Callable[[Any], Node], body: Sequence[ast.stmt], after: int) -> Node:
        """An `else` or `finally` behind a place."""
        suite = self._suite(body)
        found = _CLAUSE.search(self.text, after)
        if found is None:
            raise Unsupported("a clause that is written in another way")
        return self._at(make(suite), found.end(), self.spans[id(suite)][1])

    def _orelse(self, body: Sequence[ast.stmt], after: int) -> Any:
        return self._clause(_else, body, after) if body else None

    def _if(self, node: ast.If) -> cst.If:
        test, body = self._expression(node.test), self._suite(node.body)
        other = node.orelse[0] if len(node.orelse) == 1 else None
        if isinstance(other, ast.If) and self.text.startswith("elif", self._start(other)):
            return _if(test, body, self._statement(other))
        return _if(test, body, self._orelse(node.orelse, self._end(node.body[-1])))

    def _while(self, node: ast.While) -> cst.While:
        test, body = self._expression(node.test), self._suite(node.body)
        return _while(test, body, self._orelse(node.orelse, self._end(node.body[-1])))

    def _for(self, node: ast.For | ast.AsyncFor) -> cst.For:
        target, iterated, body = self._expression(node.target), self._expression(node.iter), self._suite(node.body)
        asynchronous = _ASYNCHRONOUS if isinstance(node, ast.AsyncFor) else None
        return _for(target, iterated, body, self._orelse(node.orelse, self._end(node.body[-1])), asynchronous)

    def _with(self, node: ast.With | ast.AsyncWith) -> cst.With:
        items = []
        for each in node.items:
            item = self._expression(each.context_expr)
            start, end = self._whole(item)
            name = None
            if each.optional_vars is not None:
                name = self._as(self._expression(each.optional_vars), item)
                end = self.spans[id(name)][1]
            items.append(self._at(_with_item(item, name), start, end))
        body = self._suite(node.body)
        asynchronous = _ASYNCHRONOUS if isinstance(node, ast.AsyncWith) else None
        first, last = self.spans[id(items[0])][0], self.spans[id(items[-1])][1]
        left, right = self._parentheses(first, last) if len(items) > 1 or items[0].asname else ([], [])
        if left:
            lpar, rpar = self._at(_left_paren(), *left[0]), self._at(_right_paren(), *right[0])
            return _with(tuple(items), body, asynchronous, lpar, rpar)
        return _with(tuple(items), body, asynchronous, cst.MaybeSentinel.DEFAULT, cst.MaybeSentinel.DEFAULT)

    def _try(self, node: ast.Try) -> cst.Try:
        body = self._suite(node.body)
        handlers = tuple(map(self._handler, node.handlers))
        before = self._end((node.handlers or node.body)[-1])
        orelse = self._orelse(node.orelse, before)
        before = self._end((node.orelse or node.handlers or node.body)[-1])
        final = self._clause(_finally, node.finalbody, before) if node.finalbody else None
        return _try(body, handlers, orelse, final)

    def _handler(self, node: ast.ExceptHandler) -> cst.ExceptHandler:
        kind = self._optional(node.type)
        name = None
        if node.name is not None:
            start = self._after(self._after(self._whole(kind)[1]) + len("as"))
            name = self._as(self._plain_name(start, node.name), kind)
        return self._at(_except_handler(self._suite(node.body), kind, name), self._start(node), self._end(node))

    def _parameters(self, given: ast.arguments) -> cst.Parameters:
        def made(each: ast.arg, default: ast.expr | None, star: str = "") -> cst.Param:
            start = self._start(each)
            end = start + len(each.arg)
            name = self._plain_name(start, each.arg)
            annotation = self._annotated(each.annotation)
            parameter = _param(name, annotation, self._optional(default), star)
            return self._at(parameter, self._before(start) - len(star) if star else start, end)

        plain = [*given.posonlyargs, *given.args]
        defaults = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
        found = list(itertools.starmap(made, zip(plain, defaults, strict=True)))
        star: Any = cst.MaybeSentinel.DEFAULT
        if given.vararg is not None:
            star = made(given.vararg, None, "*")
        elif given.kwonlyargs:
            at = self._before(self._before(self._start(given.kwonlyargs[0])) - 1) - 1
            star = self._at(_param_star(), at, at + 1)
        only_named = tuple(itertools.starmap(made, zip(given.kwonlyargs, given.kw_defaults, strict=True)))
        rest = made(given.kwarg, None, "**") if given.kwarg is not None else None
        number = len(given.posonlyargs)
        parameters = _parameters(tuple(found[number:]), star, only_named, rest, tuple(found[:number]))
        every: list[Any] = [*found, star, *only_named, rest]
        every = [each for each in every if isinstance(each, cst.CSTNode)]
        if every:
            last = rest or (only_named or every)[-1]
            end = self._after(self._whole(last.default or last.annotation or last)[1])
            while self.text[end] in ",/":
                end = self._after(end + 1)
            self.spans[id(parameters)] = self.spans[id(every[0])][0], end
        return parameters

    def _decorators(self, nodes: Sequence[ast.expr]) -> tuple[cst.Decorator, ...]:
        found = []
        for node in nodes:
            made = self._expression(node)
            start, end = self._whole(made)
            found.append(self._at(_decorator(made), self.text.rindex("@", 0, start), end))
        return tuple(found)

    def _function_def(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> cst.FunctionDef:
        if getattr(node, "type_params", None):
            raise Unsupported("type parameters")
        decorators = self._decorators(node.decorator_list)
        is_asynchronous = isinstance(node, ast.AsyncFunctionDef)
        start = self._start(node)
        if is_asynchronous:
            start = self._after(start + len("async"))
        name = self._plain_name(self._after(start + len("def")), node.name)
        parameters, returns = self._parameters(node.args), self._annotated(node.returns)
        if id(parameters) not in self.spans:
            behind = self._after(self._after(self.spans[id(name)][1]) + 1)
            self.spans[id(parameters)] = behind, behind
        body = self._suite(node.body)
        return _function_def(name, parameters, body, decorators, returns, _ASYNCHRONOUS if is_asynchronous else None)

    def _class_def(self, node: ast.ClassDef) -> cst.ClassDef:
        if getattr(node, "type_params", None):
            raise Unsupported("type parameters")
        decorators = self._decorators(node.decorator_list)
        name = self._plain_name(self._after(self._start(node) + len("class")), node.name)
        opened = self._after(self.spans[id(name)][1])
        bases, keywords = self._arguments(node.bases, (), opened), self._arguments((), node.keywords, opened)
        return _class_def(name, self._suite(node.body), bases, keywords, decorators)

    # Expressions

    def _arguments(
        self, positional: Sequence[ast.expr], named: Sequence[ast.keyword], opened: int
    ) -> tuple[cst.Arg, ...]:
        """The arguments of a call, or of a class, whose parenthesis opens at a place."""
        found: list[cst.Arg] = []
        for each in positional:
            if isinstance(each, ast.Starred):
                found.append(
                    self._at(_arg(self._expression(each.value), None, "*"), self._start(each), self._end(each))
                )
                continue
            if isinstance(each, ast.GeneratorExp) and self._start(each) == opened:
                made: Any = self._bare_generator(each, (), ())
                self._at(made, self._after(opened + 1), self._before(self._end(each) - 1))
            else:
                made = self._expression(each, opened + 1)
            found.append(self._at(_arg(made, None, ""), *self._whole(made)))
        for keyword in named:
            start = self._start(keyword)
            name = self._plain_name(start, keyword.arg) if keyword.arg else None
            named_arg = _arg(self._expression(keyword.value), name, "" if keyword.arg else "**")
            found.append(self._at(named_arg, start, self._end(keyword)))
        if positional and named and self._start(positional[-1]) > self._start(named[0]):
            found.sort(key=lambda arg: self.spans[id(arg)][0])
        return tuple(found)

    def _elements(self, nodes: Iterable[ast.expr]) -> tuple[Any, ...]:
        found: list[cst.BaseElement] = []
        for node in nodes:
            made = self._expression(node)
            if not isinstance(node, ast.Starred):
                made = self._at(_element(made), *self._whole(made))
            found.append(made)
        return tuple(found)

    def _text(self, node: ast.expr, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.BaseExpression:
        """One string, or several that stand next to each other."""
        written = self.text[start:end]
        literal = _LITERAL.match(written)
        if literal is not None and literal.end() == len(written):
            return _simple_string(written, lpar, rpar)
        places, offset = [], 0
        while literal is not None:
            places.append(literal.span())
            offset = self._after(start + literal.end()) - start
            literal = _LITERAL.match(written, offset) if offset < len(written) else None
        if not places or places[-1][1] != len(written):
            raise Unsupported("a string that is written in another way")
        return self._concatenated(
            [self._at(_simple_string(written[a:b], (), ()), start + a, start + b) for a, b in places], lpar, rpar
        )

    def _concatenated(self, parts: list[Any], lpar: _Left, rpar: _Right) -> cst.BaseExpression:
        made: cst.BaseExpression = parts.pop()
        for part in reversed(parts):
            left, right = (lpar, rpar) if part is parts[0] else ((), ())
            joined = _concatenated_string(part, made, left, right)
            made = self._at(joined, self.spans[id(part)][0], self.spans[id(made)][1])
        return made

    def _constant(self, node: ast.Constant, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.BaseExpression:
        value = node.value
        if isinstance(value, (str, bytes)):
            return self._text(node, start, end, lpar, rpar)
        if value is Ellipsis:
            return _ellipsis(lpar, rpar)
        if value is None or isinstance(value, bool):
            return _name(str(value), lpar, rpar)
        return _NUMBERS[type(value)](self.text[start:end], lpar, rpar)

    def _formatted(self, node: ast.JoinedStr, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.BaseExpression:
        """A formatted string, which LibCST parses: Python's places in it are not exact before 3.12."""
        if "\r" in self.text[start:end]:
            raise Unsupported("a formatted string with line ends that are told in another way")
        try:
            made: Any = cst.parse_expression(f"({self.text[start:end]})")
        except cst.ParserSyntaxError as error:
            raise Unsupported("a formatted string") from error
        spans = spans_of(made)
        parts = list(made.children)[1:-1]  # without the parentheses
        while parts:
            part = parts.pop()
            first, last = spans[id(part)]
            self._at(part, first + start - 1, last + start - 1)
            parts += part.children
        changed: cst.BaseExpression = made.with_changes(lpar=lpar, rpar=rpar)
        return changed

    def _tuple(self, node: ast.Tuple, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Tuple:
        elements = self._elements(node.elts)
        if self.text[start] != "(" or (elements and self.spans[id(elements[0])][0] == start):
            return self._at(_tuple(elements, lpar, rpar), start, end)
        return self._enclosed(partial(_tuple, elements), start, end, lpar, rpar)

    def _enclosed(self, make: Callable[[_Left, _Right], Node], start: int, end: int, lpar: _Left, rpar: _Right) -> Node:
        """An expression that Python places with its own parentheses, and LibCST without."""
        inside = self._after(start + 1), self._before(end - 1)
        if inside[0] >= inside[1]:
            inside = inside[0], inside[0]
        left, right = self._at(_left_paren(), start, inside[0]), self._at(_right_paren(), inside[1], end)
        made = self._at(make((*lpar, left), (right, *rpar)), *inside)
        self._outer[id(made)] = start, end
        return made

    def _lambda(self, node: ast.Lambda, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Lambda:
        parameters = self._parameters(node.args)
        self.spans.setdefault(id(parameters), (start + len("lambda"), start + len("lambda")))
        return _lambda(parameters, self._expression(node.body), lpar, rpar)

    def _generator(self, node: ast.GeneratorExp, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.GeneratorExp:
        return self._enclosed(partial(self._bare_generator, node), start, end, lpar, rpar)

    def _bare_generator(self, node: ast.GeneratorExp, lpar: _Left, rpar: _Right) -> cst.GeneratorExp:
        elt = self._expression(node.elt)
        return _generator_exp(elt, self._comprehension(elt, node.generators), lpar, rpar)

    def _comprehension(self, before: cst.CSTNode, generators: Sequence[ast.comprehension]) -> cst.CompFor:
        """The loops of a comprehension behind what it collects."""
        first, *others = generators
        start = self._whole(before)[1]
        target, iterated = self._expression(first.target), self._expression(first.iter)
        tests: list[cst.CompIf] = []
        last = iterated
        for each in first.ifs:
            test = self._expression(each)
            tests.append(self._at(_comp_if(test), self._whole(last)[1], self._whole(test)[1]))
            last = test
        inner = self._comprehension(last, others) if others else None
        made = _comp_for(target, iterated, tuple(tests), inner, _ASYNCHRONOUS if first.is_async else None)
        return self._at(made, start, self._whole(inner if inner is not None else last)[1])

    def _boolean(self, node: ast.BoolOp, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.BooleanOperation:
        made = self._expression(node.values[0])
        for value in node.values[1:]:
            left, right = (lpar, rpar) if value is node.values[-1] else ((), ())
            other = self._expression(value)
            joined = _boolean_operation(made, _OPERATORS[type(node.op)], other, left, right)
            made = self._at(joined, start, self._whole(other)[1])
        return made  # type: ignore[no-any-return]

    def _compare(self, node: ast.Compare, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Comparison:
        left = self._expression(node.left)
        targets = []
        before = self._whole(left)[1]
        for operator, comparator in zip(node.ops, node.comparators, strict=True):
            other = self._expression(comparator)
            last = self._whole(other)[1]
            targets.append(self._at(_comparison_target(_OPERATORS[type(operator)], other), before, last))
            before = last
        return _comparison(left, tuple(targets), lpar, rpar)

    def _dictionary(self, node: ast.Dict, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Dict:
        elements: list[cst.BaseDictElement] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                made = self._expression(value)
                first, last = self._whole(made)
                elements.append(self._at(_starred_dict_element(made), self._before(first) - len("**"), last))
            else:
                written, made = self._expression(key), self._expression(value)
                entry = _dict_element(written, made)
                elements.append(self._at(entry, self._whole(written)[0], self._whole(made)[1]))
        return _dict(tuple(elements), lpar, rpar)

    def _attribute(self, node: ast.Attribute, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Attribute:
        value = self._expression(node.value)
        return _attribute(value, self._plain_name(end - len(node.attr), node.attr), lpar, rpar)

    def _call(self, node: ast.Call, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Call:
        function = self._expression(node.func)
        args = self._arguments(node.args, node.keywords, self._after(self._whole(function)[1]))
        return _call(function, args, lpar, rpar)

    def _subscript(self, node: ast.Subscript, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Subscript:
        value, index = self._expression(node.value), node.slice
        parts = index.elts if isinstance(index, ast.Tuple) and not self._is_in_parentheses(index) else [index]
        elements = []
        for part in parts:
            made = self._slice(part)
            elements.append(self._at(_subscript_element(made), *self.spans[id(made)]))
        return _subscript(value, tuple(elements), lpar, rpar)

    def _is_in_parentheses(self, node: ast.Tuple) -> bool:
        start = self._start(node)
        if self.text[start] != "(":
            return False
        if not node.elts:
            return True
        first = self._start(node.elts[0]), self._end(node.elts[0])
        left, _ = self._parentheses(*first)
        return (left[0][0] if left else first[0]) != start

    def _slice(self, node: ast.expr) -> cst.Index | cst.Slice:
        if isinstance(node, ast.Slice):
            made = _slice(self._optional(node.lower), self._optional(node.upper), self._optional(node.step))
            return self._at(made, self._start(node), self._end(node))
        if isinstance(node, ast.Starred):
            return self._at(_index(self._expression(node.value), "*"), self._start(node), self._end(node))
        value = self._expression(node)
        return self._at(_index(value, None), *self._whole(value))

    def _yield_from(self, node: ast.YieldFrom, start: int, end: int, lpar: _Left, rpar: _Right) -> cst.Yield:
        item = self._expression(node.value)
        first, last = self._whole(item)
        return _yield(self._at(_from(item), self._before(first) - len("from"), last), lpar, rpar)


_WITH_OWN_PLACE = (ast.Tuple, ast.GeneratorExp)
"""Expressions that are placed where they are made."""
_STATEMENTS: dict[type, Callable[[_Builder, Any], cst.CSTNode]] = {
    ast.AnnAssign: _Builder._ann_assign,
    ast.Assert: lambda b, n: _assert(b._expression(n.test), b._optional(n.msg)),
    ast.Assign: _Builder._assign,
    ast.AsyncFor: _Builder._for,
    ast.AsyncFunctionDef: _Builder._function_def,
    ast.AsyncWith: _Builder._with,
    ast.AugAssign: lambda b, n: _aug_assign(b._expression(n.target), _AUGMENTED[type(n.op)], b._expression(n.value)),
    ast.Break: lambda _b, _n: _break(),
    ast.ClassDef: _Builder._class_def,
    ast.Continue: lambda _b, _n: _continue(),
    ast.Delete: _Builder._delete,
    ast.Expr: lambda b, n: _expr(b._expression(n.value)),
    ast.For: _Builder._for,
    ast.FunctionDef: _Builder._function_def,
    ast.Global: lambda b, n: _global(b._declared(n)),
    ast.If: _Builder._if,
    ast.Import: lambda b, n: _import(b._aliases(n)),
    ast.ImportFrom: _Builder._import_from,
    ast.Nonlocal: lambda b, n: _nonlocal(b._declared(n)),
    ast.Pass: lambda _b, _n: _pass(),
    ast.Raise: _Builder._raise,
    ast.Return: lambda b, n: _return(b._optional(n.value)),
    ast.Try: _Builder._try,
    ast.While: _Builder._while,
    ast.With: _Builder._with,
}
_EXPRESSIONS: dict[type, Callable[[_Builder, Any, int, int, _Left, _Right], cst.BaseExpression]] = {
    ast.Attribute: _Builder._attribute,
    ast.Await: lambda b, n, _s, _e, left, right: _await(b._expression(n.value), left, right),
    ast.BinOp: lambda b, n, _s, _e, left, right: _binary_operation(
        b._expression(n.left), _OPERATORS[type(n.op)], b._expression(n.right), left, right
    ),
    ast.BoolOp: _Builder._boolean,
    ast.Call: _Builder._call,
    ast.Compare: _Builder._compare,
    ast.Constant: _Builder._constant,
    ast.Dict: _Builder._dictionary,
    ast.DictComp: lambda b, n, _s, _e, left, right: _dict_comp(
        b._expression(n.key), value := b._expression(n.value), b._comprehension(value, n.generators), left, right
    ),
    ast.GeneratorExp: _Builder._generator,
    ast.IfExp: lambda b, n, _s, _e, left, right: _if_exp(
        b._expression(n.test), b._expression(n.body), b._expression(n.orelse), left, right
    ),
    ast.JoinedStr: _Builder._formatted,
    ast.Lambda: _Builder._lambda,
    ast.List: lambda b, n, _s, _e, left, right: _list(b._elements(n.elts), left, right),
    ast.ListComp: lambda b, n, _s, _e, left, right: _list_comp(
        elt := b._expression(n.elt), b._comprehension(elt, n.generators), left, right
    ),
    ast.Name: lambda b, _n, s, e, left, right: _name(b.text[s:e], left, right),
    ast.NamedExpr: lambda b, n, _s, _e, left, right: _named_expr(
        b._expression(n.target), b._expression(n.value), left, right
    ),
    ast.Set: lambda b, n, _s, _e, left, right: _set(b._elements(n.elts), left, right),
    ast.SetComp: lambda b, n, _s, _e, left, right: _set_comp(
        elt := b._expression(n.elt), b._comprehension(elt, n.generators), left, right
    ),
    ast.Starred: lambda b, n, _s, _e, left, right: _starred_element(b._expression(n.value), left, right),
    ast.Subscript: _Builder._subscript,
    ast.Tuple: _Builder._tuple,
    ast.UnaryOp: lambda b, n, _s, _e, left, right: _unary_operation(
        _OPERATORS[type(n.op)], b._expression(n.operand), left, right
    ),
    ast.Yield: lambda b, n, _s, _e, left, right: _yield(b._optional(n.value), left, right),
    ast.YieldFrom: _Builder._yield_from,
}
