"""Putting the work of a script under `if __name__ == "__main__":`, so that worker processes can import it.

Workers that are started by spawn or forkserver (macOS, Windows, Linux from Python 3.14 on) import the main
module again. Where that module trains as soon as it is imported, every worker would train; where it is
guarded, workers only see what stands outside the guard, so everything that the dataset and its helpers read
must stay there. A notebook cannot be imported at all: nothing runs twice there, and its own classes and functions
reach workers by fork only.
"""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.rule import Edit
from perfmod.transforms.writing import indent_range, insert_before_statement, statement_start

_HEADER = 'if __name__ == "__main__":'


@frozen
class Guard:
    """How a script becomes importable.

    Attributes:
        edits: the header and one insertion per indented line; empty where nothing is to be done.
        start: offset from which everything is indented; the end of the file where nothing is.
        refusal: why it cannot be done, in one line; else empty.
        doubt: why workers may still not be started, in one line; else empty.
    """

    edits: tuple[Edit, ...]
    start: int
    refusal: str = ""
    doubt: str = ""


def guard(file: FileFacts, loader: Loader, work: WorkerCode) -> Guard:
    """The guard that the file needs before the workers of `loader` can be started by spawn."""
    nothing = len(file.source.text)
    if file.source.has_cells:
        return Guard((), nothing, doubt=_doubt_in_notebook(file, work))
    needed = file.entry.needed([*work.functions, *(base.node for cls in work.classes for base in cls.lineage())])
    for definition, use in needed.items():
        what = f"{definition.name}, which the workers read on line {file.line(use)},"
        if file.tree.function(definition.node) is not None:
            return Guard((), nothing, f"{what} is set by a function, so workers would not see it")
        if file.entry.is_guarded(definition.node):
            return Guard((), nothing, f"{what} is only set under the __main__ guard, which spawned workers do not run")
        change = _change(file, definition) if definition.binding is Binding.ASSIGNED else None
        if change is not None:
            return Guard((), nothing, f"{what} is changed on line {file.line(change)}")
    if all(file.entry.runs_on_import(iteration.node) is None for iteration in loader.iterations):
        return Guard((), nothing)
    return _indent(file, work, needed)


def _doubt_in_notebook(file: FileFacts, work: WorkerCode) -> str:
    """What of the notebook's own the workers would have to import."""
    sent = {*work.functions, *(cls.node for cls in work.classes)}
    for node in walk(file.source.module):
        if node in sent:
            name = node.name.value if isinstance(node, (cst.FunctionDef, cst.ClassDef)) else "a lambda"
            return (
                f"{name} is defined in a cell (line {file.line(node)}), where workers started by spawn or "
                "forkserver (macOS, Windows, Linux from Python 3.14 on) cannot find it; right under fork"
            )
    return ""


def _change(file: FileFacts, definition: Definition) -> Read | None:
    """A use of a global that writes into it outside of plain top-level code, which workers would not
    repeat.
    """
    for use in file.flow.uses(definition):
        if file.aliasing.mutates(use) and (file.tree.function(use) is not None or file.entry.is_guarded(use)):
            return use
    return None


def _indent(file: FileFacts, work: WorkerCode, needed: dict[Definition, Read]) -> Guard:
    entry = file.entry
    own = [node for node in (*work.functions, *(cls.node for cls in work.classes)) if file.tree.parent(node)]
    last = max([entry.place(node) for node in own] + [entry.place(d.node) for d in needed], default=-1)
    active = [place for place, statement in enumerate(entry.statements) if not entry.is_plain(statement)]
    heavy = next((place for place in active if not entry.is_repeatable(entry.statements[place])), None)
    if heavy is None:
        return Guard((), len(file.source.text), "a definition at its top level runs the loop")
    if last > heavy:
        below = file.line(entry.statements[last])
        again = file.line(entry.statements[heavy])
        reason = (
            f"spawned workers need what line {below} defines, and would all run line {again} again: "
            "move the definitions up"
        )
        return Guard((), len(file.source.text), reason)
    definitions = [
        place
        for place in range(active[0], heavy)
        if entry.is_plain(entry.statements[place]) and _defines(entry.statements[place])
    ]
    earliest = max([last, *definitions], default=-1) + 1
    start = next(place for place in active if place >= earliest)
    statement = entry.statements[start]
    header = insert_before_statement(file.source, statement, _HEADER + "\n")
    opening, *others = indent_range(file.source, header.start, len(file.source.text))
    if opening.start > header.start:
        return Guard((header, opening, *others), header.start)
    merged = Edit(header.start, header.start, header.replacement + opening.replacement)
    return Guard((merged, *others), min(header.start, statement_start(file.source, statement)))


def _defines(statement: cst.CSTNode) -> bool:
    """Whether a plain statement is an import, a function or a class, rather than a constant."""
    if isinstance(statement, cst.SimpleStatementLine):
        return any(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)
    return True
