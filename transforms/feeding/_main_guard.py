"""Putting the work of a script under `if __name__ == "__main__":`, so that worker processes can import it.

Workers that are started by spawn or forkserver (macOS, Windows, Linux from Python 3.14 on) import the main
module again. Where that module trains as soon as it is imported, every worker would train; where it is
guarded, workers only see what stands outside the guard, so everything that the dataset and its helpers read
must stay there. A notebook cannot be imported at all: nothing runs twice there, and its own classes and functions
reach workers by fork only.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.entry import is_guard
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._imported_again import imported_again
from perfmod.transforms.rule import Edit
from perfmod.transforms.source import Source
from perfmod.transforms.style import quoted
from perfmod.transforms.writing import nest_statements

_LONGEST = 30
"""How many lines are indented unless one asks for more."""


@frozen
class Indented:
    """The part of a script that goes under the guard.

    Attributes:
        first, last: its lines.
        is_short: whether it is so short that a reviewer sees what has changed, and defines nothing.
        edits: what indents it.
    """

    first: int
    last: int
    is_short: bool
    edits: tuple[Edit, ...]


@frozen
class Guard:
    """How scripts become importable.

    Attributes:
        scripts: those that have to be changed; mostly none, or the loader's own file.
        refusal: why it cannot be done, in one line; else empty.
        doubt: why workers may still not be started, in one line; else empty.
    """

    scripts: Mapping[Source, Indented] = {}
    refusal: str = ""
    doubt: str = ""

    @property
    def edits(self) -> list[Edit]:
        """All edits."""
        return [edit for script in self.scripts.values() for edit in script.edits]

    @property
    def is_short(self) -> bool:
        """Whether little is indented."""
        return all(script.is_short for script in self.scripts.values())

    def indents(self, source: Source, offset: int) -> bool:
        """Whether a place in a file goes under the guard."""
        script = self.scripts.get(source)
        return script is not None and script.first <= source.position(offset)[0] <= script.last

    def why(self, file: FileFacts) -> str:
        """What is indented, and why, for messages."""
        where = (
            f"a `__main__` guard is put around {' and '.join(self._lines(file))}, because workers may import "
            "the script again"
        )
        return (
            where if self.is_short else f"{where}: select PM201 by name to apply it, and review it with `git diff -w`"
        )

    def _lines(self, file: FileFacts) -> Iterator[str]:
        for source, script in self.scripts.items():
            last = file.line_at(source, script.last)
            yield f"lines {script.first} to {last}" if script.first < script.last else f"line {last}"


def joined(guards: Sequence[Guard]) -> Guard:
    """The guard for several loaders: what any of them needs outside of it stays outside."""
    scripts: dict[Source, Indented] = {}
    for each in guards:
        for source, script in each.scripts.items():
            scripts[source] = max(scripts.get(source, script), script, key=lambda one: one.first)
    doubt = next((each.doubt for each in guards if each.doubt), "")
    return Guard({} if doubt else scripts, doubt=doubt)


def guard(file: FileFacts, loader: Loader, work: WorkerCode) -> Guard:
    """The guard that scripts need before the workers of `loader` can be started by spawn."""
    doubt = _doubt_in_notebook(file, work)
    if doubt:
        return Guard(doubt=doubt)
    if file.source.has_cells:
        return Guard(refusal=imported_again(file, loader, work).refusal)
    needed = file.entry.needed([*work.functions, *(base.node for cls in work.classes for base in cls.lineage())])
    imported = imported_again(file, loader, work)
    refusal = _missed(file, needed) or _guarded(file, work) or imported.refusal
    if refusal:
        return Guard(refusal=refusal)
    scripts: dict[Source, Indented] = {}
    for module, runs in _scripts(file, loader).items():
        source = file.source_of(module)
        if source.has_cells:
            continue  # nobody imports it
        importers = file.entry.importers(module)
        if importers:
            reason = f"line {file.line(runs)} trains as soon as line {file.line(importers[0])} imports it"
            return Guard(refusal=reason)
        script = _indent(file, module, runs, work, [*(each.node for each in needed), *imported.kept])
        if isinstance(script, str):
            return Guard(refusal=script)
        if script is not None:
            scripts[source] = script
    again = _run_again(file, loader, scripts)
    if again is not None:
        line = file.line(again)
        doubt = f"workers started by spawn or forkserver would run line {line} again, which a guard cannot prevent"
        return Guard(doubt=doubt)
    return Guard(scripts)


def _scripts(file: FileFacts, loader: Loader) -> dict[cst.Module, cst.CSTNode]:
    """The files that may run a loop over the loader when they are imported, and the code at their top level that does;
    code that only hands a function on, `TASKS = {"train": train}`, where there is no other.
    """
    found: dict[cst.Module, cst.CSTNode] = {}
    for iteration in loader.iterations:
        for runs in file.entry.runs_unguarded(iteration.node):
            module = file.tree.module_of(runs)
            if module not in found or _hands_on(file, found[module]):
                found[module] = runs
    return found


def _hands_on(file: FileFacts, runs: cst.CSTNode) -> bool:
    """Whether a statement of a top level only gives a function to others and calls nothing."""
    statement = file.entry.statement(runs)
    return isinstance(statement, cst.SimpleStatementLine) and file.entry.is_plain(statement)


def _run_again(file: FileFacts, loader: Loader, guarded: Container[Source]) -> cst.CSTNode | None:
    """What a script does outside of its own guard, while the loop over the loader stands under it."""
    for iteration in loader.iterations:
        for runs in file.entry.runs(iteration.node):
            if file.entry.is_guarded(runs) and file.source_of(runs) not in guarded:
                for statement in file.entry.statements_of(file.tree.module_of(runs)):
                    if not is_guard(statement) and not file.entry.is_repeatable(statement):
                        return statement
    return None


def _missed(file: FileFacts, needed: Mapping[Definition, Read]) -> str:
    """Why workers would not find what they read as it is; empty where they would."""
    for definition, use in needed.items():
        what = f"{definition.name}, which the workers read on line {file.line(use)},"
        if file.tree.function(definition.node) is not None:
            return f"{what} is assigned by a function, so spawned workers would not see it"
        if file.tree.module_of(definition.node) is not definition.scope:
            return f"{what} is assigned by another file on line {file.line(definition.node)}"
        if file.entry.is_guarded(definition.node):
            return f"{what} is only set under the __main__ guard, which spawned workers do not run"
        change = _change(file, definition) if definition.binding is Binding.ASSIGNED else None
        if change is not None:
            return f"{what} is changed on line {file.line(change)}"
    return ""


def _guarded(file: FileFacts, work: WorkerCode) -> str:
    """Which class or function workers would not find because only the script itself defines it; empty where none."""
    for node in (*(cls.node for cls in work.classes), *work.functions):
        if isinstance(node, (cst.ClassDef, cst.FunctionDef)) and file.entry.is_guarded(node):
            where = f"{node.name.value} (line {file.line(node)})"
            return f"{where} is only defined under the __main__ guard, which spawned workers do not run"
    return ""


def _doubt_in_notebook(file: FileFacts, work: WorkerCode) -> str:
    """What of a notebook's own the workers would have to import."""
    for node in (*work.functions, *(cls.node for cls in work.classes)):
        if file.source_of(node).has_cells:
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


def _indent(
    file: FileFacts, module: cst.Module, runs: cst.CSTNode, work: WorkerCode, needed: Iterable[cst.CSTNode]
) -> Indented | str | None:
    """How the part of a script that trains gets the guard, or why it cannot; what is needed stays outside. `None` where
    whatever is not repeatable has its guard.
    """
    entry, source = file.entry, file.source_of(module)
    statements = entry.statements_of(module)
    sent = [*work.functions, *(cls.node for cls in work.classes), *needed]
    own = [node for node in sent if file.tree.parent(node) is not None and file.tree.module_of(node) is module]
    lowest = max((entry.place(node) for node in own), default=-1)
    guards = [place for place, each in enumerate(statements) if is_guard(each)]
    bare = (place for place, each in enumerate(statements) if place not in guards and not entry.is_repeatable(each))
    start = next(bare, None)
    if start is None and _hands_on(file, runs):
        return None
    if start is None:
        return "a function or class at the top level of the script runs the loop"
    if lowest > start:
        below, again = file.line(statements[lowest]), file.line(statements[start])
        return (
            f"spawned workers need what line {below} defines, and would all run line {again} again: "
            "move the definitions up"
        )
    while start > lowest + 1 and _continues(statements[start]) and not entry.is_plain(statements[start - 1]):
        start -= 1
    last = max(place for place in range(start, len(statements)) if not _defines(statements[place]))
    inner = next((place for place in guards if start <= place <= last), None)
    if inner is not None:
        outside, within = file.line(statements[start]), file.line(statements[inner])
        return (
            f"line {outside} stands outside of the __main__ guard on line {within}, and workers that import the script "
            "would run it again: move it into the guard"
        )
    header = f"if __name__ == {quoted(source, '__main__')}:"
    edits = nest_statements(source, statements[start], statements[last], header, with_comments=True)
    lines = [source.position(edit.start)[0] for edit in edits]
    is_short = lines[-1] - lines[0] < _LONGEST and not any(map(_defines, statements[start:last]))
    return Indented(lines[0], lines[-1], is_short, edits)


def _continues(statement: cst.SimpleStatementLine | cst.BaseCompoundStatement) -> bool:
    """Whether no blank line stands above a statement."""
    return all(line.comment is not None for line in statement.leading_lines)


def _defines(statement: cst.CSTNode) -> bool:
    """Whether a statement is an import, a function or a class."""
    if isinstance(statement, cst.SimpleStatementLine):
        return any(isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body)
    return isinstance(statement, (cst.FunctionDef, cst.ClassDef))
