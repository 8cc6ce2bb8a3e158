"""What becomes of a pipeline whose last steps move to the device: its list, imports, and names that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.feeding._pipelines import Pipeline, Unmovable
from perfmod.transforms.finding import Edit
from perfmod.transforms.source import Source
from perfmod.transforms.writing import delete_statement, replace


def as_bytes(file: FileFacts, pipeline: Pipeline) -> Iterator[Edit]:
    """`ToTensor()` becomes `PILToTensor()`, and what stands behind it goes, with what stands between."""
    source = file.source_of(pipeline.compose)
    if pipeline.renamed is not None:
        if pipeline.last.value is not pipeline.renamed:
            line = file.line(pipeline.compose)
            raise Unmovable(f"ToTensor is created outside of the list of transforms on line {line}")
        name = pipeline.renamed.func
        yield replace(source, name.attr if isinstance(name, cst.Attribute) else name, "PILToTensor")
    start, end = _end_of(source, pipeline.last), _end_of(source, pipeline.dropped)
    if "#" not in source.text[start:end]:
        yield Edit(start, end, "", source.path)
        return
    # A comment behind the last step that stays is kept: only the lines of the others go.
    elements = _elements(file, pipeline)
    gone = elements[elements.index(pipeline.last) + 1 :]
    first, last = source.line_start(source.span(gone[0].value)[0]), source.line_end(end)
    before, after = source.text[first : source.span(gone[0].value)[0]], source.text[end:last]
    if before.strip() or after.strip(" \t\r\n,") or "#" in source.text[first:last]:
        raise Unmovable("a comment between the removed transforms would be lost")
    yield Edit(first, last, "", source.path)


def _elements(file: FileFacts, pipeline: Pipeline) -> list[cst.BaseElement]:
    steps = file.tree.parent(pipeline.last)
    assert isinstance(steps, (cst.List, cst.Tuple))
    return list(steps.elements)


def _end_of(source: Source, element: cst.BaseElement) -> int:
    """Where an element ends, with the parentheses around it."""
    return source.span(element)[0] + len(source.whole_code(element.value))


def unread(file: FileFacts, pipelines: list[Pipeline], arguments: list[str]) -> Iterator[Edit]:
    """Drop `normalize = Normalize(...)`, and constants of a function, where no other code reads the name.

    The device's module is made with `arguments`.
    """
    steps = {one.dropped.value for one in pipelines}
    gone: set[cst.CSTNode] = {node for step in steps for node in walk(step)}
    names = [name for step in steps for name in find_all(step, cst.Name) if file.flow.is_read(name)]
    for name in names:
        for definition in file.flow.definitions(name):
            statement = file.tree.statement(definition.node)
            is_kept = name not in steps and name.value in arguments
            if is_kept or not isinstance(statement, cst.Assign) or statement in gone or len(statement.targets) > 1:
                continue
            # A constant of the module may be what the device's module is made with.
            is_own = name in steps or not isinstance(definition.scope, cst.Module)
            is_unread = is_own and gone.issuperset(file.flow.uses(definition)) and not file.flow.is_exported(definition)
            if is_unread and isinstance(statement.targets[0].target, cst.Name):
                gone.update(walk(statement))
                names += [inner for inner in find_all(statement.value, cst.Name) if file.flow.is_read(inner)]
                yield from delete_statement(file.source_of(statement), statement)


def imported(file: FileFacts, pipelines: list[Pipeline]) -> Iterator[Edit]:
    """Where `ToTensor` was imported by name, import `PILToTensor`; drop imported names that nothing reads any more."""
    renamed = {p.renamed.func for p in pipelines if p.renamed is not None}
    gone = renamed | {call.func for p in pipelines for call in _going(file, p)}
    gone |= {dtype for p in pipelines for call in _going(file, p) for dtype in find_all(call, cst.Name)}
    dropped: dict[cst.ImportFrom, set[cst.ImportAlias]] = {}
    names = [name for name in gone if isinstance(name, cst.Name)]
    for definition in dict.fromkeys(d for name in names for d in file.flow.definitions(name)):
        alias, uses = definition.node, file.flow.uses(definition)
        if not all(file.source_of(alias) is file.source_of(name) for name in renamed.intersection(uses)):
            raise Unmovable(f"ToTensor is imported through line {file.line(alias)}")
        statement = file.tree.parent(alias)
        if not isinstance(alias, cst.ImportAlias) or not isinstance(statement, cst.ImportFrom):
            continue
        still_read = any(use not in gone for use in uses) or file.flow.is_exported(definition)
        if renamed.intersection(uses):
            if alias.asname is not None:
                raise Unmovable("ToTensor is imported under another name")
            if not _imports(statement, "PILToTensor"):
                yield replace(file.source_of(alias), alias, "PILToTensor, ToTensor" if still_read else "PILToTensor")
            elif not still_read:
                dropped.setdefault(statement, set()).add(alias)
        elif not still_read:
            dropped.setdefault(statement, set()).add(alias)
    for statement, aliases in dropped.items():
        yield from _without(file.source_of(statement), statement, aliases)


def _imports(statement: cst.ImportFrom, name: str) -> bool:
    names = () if isinstance(statement.names, cst.ImportStar) else statement.names
    return any(alias.evaluated_name == name and alias.asname is None for alias in names)


def _going(file: FileFacts, pipeline: Pipeline) -> Iterator[cst.Call]:
    """The constructors of the steps that go, also where a variable holds one that nobody else reads."""
    elements = _elements(file, pipeline)
    for element in elements[elements.index(pipeline.last) + 1 :]:
        value: cst.BaseExpression | None = element.value
        if isinstance(value, cst.Name):
            definitions = file.flow.definitions(value)
            value = definitions[0].value if len(definitions) == 1 else None
        if isinstance(value, cst.Call):
            yield value


def _without(source: Source, statement: cst.ImportFrom, aliases: set[cst.ImportAlias]) -> Iterator[Edit]:
    """Cut aliases out of an import, each with one comma."""
    assert not isinstance(statement.names, cst.ImportStar)
    names = list(statement.names)
    if aliases.issuperset(names):
        yield from delete_statement(source, statement)
        return
    last_kept = max(index for index, name in enumerate(names) if name not in aliases)
    for index, name in enumerate(names[:last_kept]):
        if name in aliases:
            yield Edit(source.span(name)[0], source.span(names[index + 1])[0], "", source.path)
    if last_kept + 1 < len(names):
        yield Edit(source.span(names[last_kept])[1], source.span(names[-1])[1], "", source.path)
