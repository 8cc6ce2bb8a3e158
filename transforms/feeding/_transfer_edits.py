"""The edits that make a loader pin, and a copy not wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.batch_copies import Copy
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._casts import cast_apart, goes_behind, swap
from perfmod.transforms.feeding._settings import places
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.source import Source
from perfmod.transforms.style import width

_COPIES_GAPS = "1.2"


def pinned(file: FileFacts, loader: Loader) -> tuple[Edit, ...]:
    """The edits that make a loader pin: where the setting is written, or in its call."""
    written = places(file, loader, "pin_memory")
    if not written:
        return add_keyword(file.source_of(loader.written), loader.written, "pin_memory=True")
    return tuple(_instead(file, place.value) for place in written)


def not_waiting(file: FileFacts, copies: Iterable[Copy]) -> Iterator[Edit]:
    """The edits that make copies not wait. What assigns several, `x, y = x.to(device), y.to(device)`, gets a line for
    each if it gets too long, or if another in the file does.
    """
    by_statement: dict[cst.CSTNode, list[Edit]] = {}
    for copy in copies:
        edits = _not_waiting(file, copy)
        if edits:
            by_statement.setdefault(file.tree.statement(copy.call), []).extend(edits)
    lines = {statement: _in_lines(file, statement, each) for statement, each in by_statement.items()}
    narrow = {
        file.source_of(statement)
        for statement, each in by_statement.items()
        if lines[statement] is not None and _is_too_long(file.source_of(statement), statement, each)
    }
    for statement, each in by_statement.items():
        line = lines[statement]
        yield from each if line is None or file.source_of(statement) not in narrow else [line]


def _is_too_long(source: Source, statement: cst.CSTNode, edits: list[Edit]) -> bool:
    start, _ = source.span(statement)
    line = source.text[source.line_start(start) : source.line_end(start)].rstrip()
    return len(line) + sum(len(edit.replacement) - edit.end + edit.start for edit in edits) > width(source)


def _not_waiting(file: FileFacts, copy: Copy) -> tuple[Edit, ...]:
    """The edits of one copy; a cast before it goes behind it."""
    if not copy.blocks:
        edits: tuple[Edit, ...] = ()
    elif apart := cast_apart(file, copy):
        return apart
    elif copy.non_blocking is None:
        edits = add_keyword(file.source_of(copy.call), copy.call, "non_blocking=True", wrap=False)
    else:
        edits = (_instead(file, copy.non_blocking),)
    return (*edits, *swap(file, copy)) if copy.cast is not None and goes_behind(file, copy) else edits


def _in_lines(file: FileFacts, statement: cst.CSTNode, edits: list[Edit]) -> Edit | None:
    """An assignment of several values with a line for each; `None` where it does not stand alone on one line."""
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return None
    source, target, value = file.source_of(statement), statement.targets[0].target, statement.value
    if not (isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple)):
        return None
    start, end = source.span(statement)
    before, after = source.text[source.line_start(start) : start], source.text[end : source.line_end(end)]
    if before.strip() or after.strip() or "\n" in source.text[start:end]:
        return None
    names = [each.value.value for each in target.elements if isinstance(each.value, cst.Name)]
    if not len(names) == len(target.elements) == len(value.elements):
        return None
    lines: list[str] = []
    for index, element in enumerate(value.elements):
        if not {name.value for name in find_all(element.value, cst.Name)}.isdisjoint(names[:index]):
            return None
        at = source.span(element)[0]
        code = source.whole_code(element.value)
        for edit in sorted((each for each in edits if at <= each.start <= at + len(code)), reverse=True):
            code = code[: edit.start - at] + edit.replacement + code[edit.end - at :]
        lines.append(f"{names[index]} = {code}")
    return Edit(start, end, f"{source.newline}{before}".join(lines), source.path)


def torch_that_copies(file: FileFacts, copies: Iterable[Copy]) -> str | None:
    """The version of PyTorch that copies these without waiting; `None` where the oldest does that knows the argument.

    Before 1.2 it raised for a tensor with gaps in its memory, such as `x.transpose(1, 2)`; a part of a batch has none.
    """
    sources = (copy.call.func.value for copy in copies if isinstance(copy.call.func, cst.Attribute))
    return None if all(file.value(source).origin is not None for source in sources) else _COPIES_GAPS


def _instead(file: FileFacts, node: cst.BaseExpression) -> Edit:
    source = file.source_of(node)
    start, end = source.span(node)
    return Edit(start, end, "True", source.path)
