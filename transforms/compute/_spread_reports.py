"""What only one of several processes does: printing, and writing of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._spread_effects import WRITES, is_unknown, leaves_state
from perfmod.transforms.compute._spread_parts import Parts
from perfmod.transforms.compute._spread_program import NotSpread
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_in_scope
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.writing import nest_statements, replace

IS_FIRST = "dist.get_rank() == 0"
_WRITERS = frozenset({"torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter"})
_WRITING_METHODS = ("add_", "flush", "close")
_WRITER_METHODS = frozenset(
    f"add_{kind}"
    for kind in ("scalar", "scalars", "image", "images", "figure", "histogram", "text", "hparams", "embedding", "video")
)
_BARS = frozenset({"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.trange", "tqdm.auto.trange"})


def reports(file: FileFacts, found: Parts) -> Iterator[Edit]:
    """The edits that leave reports to the first process. Raises `NotSpread`."""
    _require_writers(file)
    lines: list[cst.SimpleStatementLine] = []
    saves: list[cst.Call] = []
    loads: list[cst.Call] = []
    for call in find_all(file.tree.module, cst.Call):
        name = file.qualified(call) or ""
        if name in _BARS:
            if argument(call, "disable") is not None:
                raise NotSpread(call, "the progress bar has a `disable` already")
            yield from add_keyword(file.source, call, "disable=dist.get_rank() != 0")
        elif name in _WRITERS:
            yield _writer(file, call)
        elif name in WRITES or _is_of_writer(file, call):
            _require_alone(file, found, call)
            saves += [call] if name == "torch.save" else []
            line = _line(file, call)
            if line not in lines:
                lines.append(line)
        elif name == "torch.load":
            loads.append(call)
        elif is_unknown(file, call):
            raise NotSpread(call, f"each process would run `{file.code(call.func)}`")
    for load in loads:
        is_at_start = file.tree.function(load) is file.tree.function(found.call) and not file.tree.loops(load)
        if saves and not (is_at_start and all(file.comes_before(load, each) for each in (found.epochs, *saves))):
            raise NotSpread(load, f"it may read what line {file.line(saves[0])} writes, before that is written")
    for group in _groups(file, lines):
        yield from nest_statements(file.source, group[0], group[-1], f"if {IS_FIRST}:")


def _is_of_writer(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call is `writer.add_scalar(...)` of a known writer."""
    func = call.func
    is_writing = isinstance(func, cst.Attribute) and func.attr.value.startswith(_WRITING_METHODS)
    return is_writing and isinstance(func, cst.Attribute) and file.value(func.value).name in _WRITERS


def _require_writers(file: FileFacts) -> None:
    """All processes but the first one have `None` for a writer, of which nothing but writing is asked on the first."""
    writers = [call for call in find_all(file.tree.module, cst.Call) if file.qualified(call) in _WRITERS]
    for call in find_all(file.tree.module, cst.Call) if writers else ():
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if method == "add_graph":
            raise NotSpread(call, "it runs the model in one process, which would wait for the others for ever")
        if method in _WRITER_METHODS and not _is_of_writer(file, call):
            raise NotSpread(call, f"`{file.code(call.func)}` may be called of the writer, which only one process has")
    for node in find_all(file.tree.module, cst.Attribute) if writers else ():
        if file.value(node.value).name in _WRITERS and not node.attr.value.startswith(_WRITING_METHODS):
            raise NotSpread(node, f"`{file.code(node)}` is asked of the writer, which only one process has")


def _writer(file: FileFacts, call: cst.Call) -> Edit:
    """Only the first process opens a file for events."""
    statement = file.tree.statement(call)
    if not isinstance(statement, cst.Assign) or statement.value is not call:
        raise NotSpread(call, "the writer is not assigned to a name")
    return replace(file.source, call, f"{file.code(call)} if {IS_FIRST} else None")


def _line(file: FileFacts, call: cst.Call) -> cst.SimpleStatementLine:
    """The line of a statement that is nothing but a report."""
    line = file.tree.line(call)
    is_alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
    statement = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    is_block = isinstance(file.tree.parent(line), (cst.IndentedBlock, cst.Module))
    if not is_alone or not is_block or not isinstance(statement, cst.Expr) or statement.value is not call:
        raise NotSpread(call, "it is not a statement on a line of its own, so that only one process could run it")
    assert isinstance(line, cst.SimpleStatementLine)
    return line


def _require_alone(file: FileFacts, found: Parts, call: cst.Call) -> None:
    """A report of one process must not do what the others have to do with it."""
    for inner in find_all(call, cst.Call):
        is_model = file.value(inner.func).kind is Kind.MODULE and inner is not call
        if is_model or file.values.calls.resolve(inner) is not None or leaves_state(file, inner):
            raise NotSpread(inner, f"`{file.code(inner)}` is called where only one process reports")
    if any(True for _ in find_all(call, cst.NamedExpr)):
        raise NotSpread(call, "a name is bound in what only one process reports")
    model = file.tree.statement(found.call)
    if file.qualified(call) == "torch.save" and call.args and isinstance(model, cst.Assign):
        saved = call.args[0].value
        held = [saved] if isinstance(saved, cst.Name) else [e.value for e in find_all(saved, cst.DictElement)]
        if any(isinstance(each, cst.Name) and file.value(each).kind is Kind.MODULE for each in held):
            raise NotSpread(
                call, "the whole model is saved, and with it how it is distributed: save its `state_dict()`"
            )
    function, entry = file.tree.function(call), file.tree.function(found.call)
    cls = file.classes.of(file.tree.scope(function)) if function is not None else None
    if cls is not None and not cls.is_module:
        raise NotSpread(call, "it may run in a worker of a loader, which is none of the processes")
    callers = file.values.calls.callers(entry) if entry is not None else ()
    started = [*map(file.tree.statement, callers)] if entry is not None else list(found.body)
    for place in file.entry.runs(call):
        if not any(file.tree.is_within(place, line) for line in started):
            raise NotSpread(place, f"line {file.line(call)} reports there before the processes know each other")


def _groups(file: FileFacts, lines: Sequence[cst.SimpleStatementLine]) -> Iterator[list[cst.SimpleStatementLine]]:
    """Reports that stand directly below each other, together."""
    group: list[cst.SimpleStatementLine] = []
    for line in sorted(lines, key=file.tree.place):
        block = file.tree.block(line)
        if group and group[-1] in block and block.index(line) == block.index(group[-1]) + 1:
            group.append(line)
        else:
            if group:
                yield group
            group = [line]
    if group:
        yield group


def bare_reports_above(file: FileFacts, lines: Sequence[cst.BaseStatement]) -> bool:
    """Whether statements print or call something in sight, which may print."""
    calls = (call for line in lines for call in find_in_scope(line, cst.Call) if isinstance(call, cst.Call))
    return any(file.qualified(call) in WRITES or file.values.calls.resolve(call) is not None for call in calls)
