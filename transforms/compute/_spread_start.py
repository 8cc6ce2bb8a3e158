"""What is written for the start and the end of several processes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._spread_parts import Parts
from perfmod.transforms.compute._spread_program import NotSpread
from perfmod.transforms.compute._spread_reports import bare_reports_above
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, find_in_scope
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import insert_after_statement, insert_before_statement, quoted


def start_edits(file: FileFacts, found: Parts) -> Iterator[Edit]:
    """The processes find each other before anything else is done, and part at the end."""
    torch, _ = file.names.spelled("torch", found.body[0])
    for name in find_all(file.tree.module, cst.Name):
        if name.value == "local_rank":
            raise NotSpread(name, "`local_rank` has a meaning already")
    begin = (
        f'dist.init_process_group("nccl" if {torch}.cuda.is_available() else "gloo")\n'
        'local_rank = int(os.environ["LOCAL_RANK"])\n'
        f"if {torch}.cuda.is_available():\n    {torch}.cuda.set_device(local_rank)\n"
    )
    begin = begin.replace('"', quoted(file.source, "")[0])
    yield insert_before_statement(file.source, _first(file, found), begin)
    last = found.body[-1]
    end = "dist.destroy_process_group()"
    if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[0], cst.Return):
        if any(True for _ in find_all(last, cst.Call)):
            raise NotSpread(last, "the training returns what is only computed at its end")
        yield insert_before_statement(file.source, last, end)
    else:
        yield insert_after_statement(file.source, last, end)


def _first(file: FileFacts, found: Parts) -> cst.BaseStatement:
    """The first statement that does something; behind the arguments of the command line."""
    lines = [line for line in found.body if not _only_defines(line)]
    for index, line in enumerate(lines[:-1]):
        calls = [call for call in find_in_scope(line, cst.Call) if isinstance(call, cst.Call)]
        if any(dotted(call.func).endswith(".parse_args") for call in calls):
            above = lines[: index + 1]
            is_late = any(file.tree.is_within(made, line) for made in (found.loader.call, found.call) for line in above)
            return lines[0] if is_late or bare_reports_above(file, above) else lines[index + 1]
    return lines[0]


def _only_defines(line: cst.BaseStatement) -> bool:
    if isinstance(line, (cst.FunctionDef, cst.ClassDef)):
        return True
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    is_text = isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
    return is_text or isinstance(small, (cst.Import, cst.ImportFrom, cst.Global))
