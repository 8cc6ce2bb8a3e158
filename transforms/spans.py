"""Where the nodes of a LibCST tree stand in the text that it prints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst
from libcst._nodes.internal import CodegenState

Spans = dict[int, tuple[int, int]]
"""The first character of nodes, by their ids, and the one behind their last; without white space around them."""


def spans_in(module: cst.Module, text: str) -> Spans:
    """Where all nodes of a file's full tree stand in its text."""
    state = _SpanState(module)
    module._codegen(state)
    printed = "".join(state.tokens)
    return state.spans if printed == text else _moved(state.spans, printed, text)


def spans_of(node: cst.CSTNode) -> Spans:
    """Where a node, and those below it, stand in what LibCST prints of it."""
    state = _SpanState(cst.Module([]))
    node._codegen(state)
    return state.spans


class _SpanState(CodegenState):
    """Writes a module and remembers the characters that every node covers, without the white space around it."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.spans: Spans = {}
        self._offset = 0
        self._starts: list[int] = []

    def add_indent_tokens(self) -> None:
        super().add_indent_tokens()
        self._offset += sum(map(len, self.indent_tokens))

    def add_token(self, value: str) -> None:
        super().add_token(value)
        self._offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        self._starts.append(self._offset)

    def after_codegen(self, node: cst.CSTNode) -> None:
        start = self._starts.pop()
        self.spans.setdefault(id(node), (start, self._offset))

    @contextmanager
    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Iterator[None]:
        start = self._offset
        yield
        first = self.spans[id(start_node)][0] if start_node is not None else start
        last = self.spans[id(end_node)][1] if end_node is not None else self._offset
        self.spans[id(node)] = (first, last)


def _moved(spans: Spans, printed: str, text: str) -> Spans:
    """Spans of what LibCST prints as spans of `text`, of which it leaves out some form feeds and white space."""
    places: list[int] = []
    for character in printed:
        places.append(text.index(character, places[-1] + 1 if places else 0))
    # Where the text ends without a newline, one was printed and taken back.
    places += [len(text)] * 3
    return {
        key: (places[start], places[end - 1] + 1 if end > start else places[start])
        for key, (start, end) in spans.items()
    }
