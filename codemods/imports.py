"""Imports and module-level definitions that rewritten code needs, put where a person would put them."""

from __future__ import annotations

import symtable
import sys
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.codemods.edits import Splice
from perfmod.transforms.card import LIBRARIES
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.names import imported_name
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.finding import Change, Edit
from perfmod.transforms.source import Source, parse_module
from perfmod.transforms.writing import insert_after_statement, insert_before_statement, statement_start


@frozen(order=True)
class Import:
    """`import module`, `import module as alias`, or `from module import member`."""

    module: str
    alias: str = ""
    member: str = ""

    @classmethod
    def parse(cls, text: str) -> Import:
        """Reads what stands behind `import`, or all of `from module import member`."""
        if text.startswith("from "):
            module, _, member = text.removeprefix("from ").partition(" import ")
            return cls(module.strip(), member=member.strip())
        module, _, alias = text.partition(" as ")
        return cls(module.strip(), alias.strip())

    @property
    def name(self) -> str:
        """The name that it binds."""
        return self.member or self.alias or self.package

    @property
    def meaning(self) -> str:
        """The module, or its member, that this name stands for."""
        if self.member:
            return f"{self.module}.{self.member}"
        return self.module if self.alias else self.name

    @property
    def code(self) -> str:
        """The statement."""
        if self.member:
            return f"from {self.module} import {self.member}"
        return f"import {self.module} as {self.alias}" if self.alias else f"import {self.module}"

    @property
    def package(self) -> str:
        """The outermost package of the module, or the module; empty where that is relative."""
        return self.module.partition(".")[0]

    @property
    def is_standard(self) -> bool:
        """Whether it belongs among the imports of the standard library."""
        return self.package in sys.stdlib_module_names


@frozen
class Needs:
    """What one round's findings need at the top of the file and do not find there."""

    imports: tuple[Import, ...] = ()
    definitions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.imports or self.definitions)


class Preamble:
    """What a file already binds, and so what a finding may ask for. One instance per round."""

    def __init__(self, file: FileFacts) -> None:
        self._file = file
        self._source = file.source
        self._asked: dict[str, str] = {}

    def problem(self, change: Change, *, is_admitted: bool = True) -> str | None:
        """Why a change of this file cannot get its imports and definitions, in one line; `None` if it can.

        Of changes that are made, none can have a name that another one defines differently.
        """
        if (change.imports or change.definitions) and not self._source.module.body:
            return "the file holds nothing but comments, so there is no place for an import or a definition"
        for wanted in map(Import.parse, change.imports):
            for definition in self._bindings(wanted.name):
                if definition.binding is Binding.IMPORTED and imported_name(definition) == wanted.meaning:
                    continue
                return self._taken(wanted.name, definition, wanted.code)
        for text in change.definitions:
            present = _has_definition(self._source, text, len(self._source.text))
            for name in _defined_names(text):
                bound = self._bindings(name)
                if len(bound) > present:
                    return self._taken(name, bound[-1], "the rewrite's own")
                if is_admitted and self._asked.setdefault(name, text) != text:
                    return f"{name} is needed for two different definitions"
        return None

    def _bindings(self, name: str) -> list[Definition]:
        """Every definition of a name in any scope."""
        return [
            definition
            for scope in walk(self._file.tree.module)
            if isinstance(scope, (cst.Module, cst.ClassDef, cst.FunctionDef, cst.Lambda))
            for definition in self._file.flow.bound(scope, name)
        ]

    def _taken(self, name: str, definition: Definition, wanted: str) -> str:
        line = self._source.line(definition.node)
        return f"{name} has another meaning on line {line}, so {wanted} cannot be added"


def missing(source: Source, changes: Iterable[Change]) -> Needs:
    """What has to be added to a file for `changes` of it; each thing once, in a fixed order."""
    imports: set[Import] = set()
    definitions: dict[str, None] = {}
    for change in (each for each in changes if each.imports or each.definitions):
        before = first_use(source, change.edits)
        imports |= {i for i in map(Import.parse, change.imports) if not _is_imported(source, i, before)}
        for text in change.definitions:
            if not _has_definition(source, text, before):
                definitions[text] = None
    return Needs(tuple(sorted(imports)), tuple(definitions))


def first_use(source: Source, edits: Iterable[Edit]) -> int:
    """Where edits first change code that may use what is added: not in an import, if they change anything else."""
    imports = [source.span(line) for line in source.module.body if _imports(line)]
    starts = sorted(edit.start for edit in edits)
    used = (at for at in starts if not any(first <= at <= last for first, last in imports))
    return next(used, starts[0])


def _is_imported(source: Source, wanted: Import, before: int) -> bool:
    for line in source.module.body:
        if source.span(line)[1] > before:
            return False
        for statement in _imports(line):
            for alias in _aliases(statement):
                if _gives(statement, alias, wanted):
                    return True
    return False


def _has_definition(source: Source, text: str, before: int) -> bool:
    wanted = text.strip().splitlines()
    return any(
        source.text[statement_start(source, line) : end].splitlines() == wanted
        for line in source.module.body
        if (end := source.span(line)[1]) <= before
    )


def preamble_edits(source: Source, needs: Needs, before: int) -> Splice:
    """The edits that add `needs` to a file, above the statement that holds the character `before`."""
    top = _of_one_part(source, _top(source, before))
    first = _first(source, before)
    edits: list[Edit] = []
    for standard in (True, False):
        wanted = [each for each in needs.imports if each.is_standard is standard and not each.member]
        if wanted:
            edits += _import_edits(source, top, first, wanted)
    members = [each for each in needs.imports if each.member]
    if members:
        edits.append(_member_edit(source, top, first, members))
    if needs.definitions:
        edits += _definition_edits(source, [*top[-1:], *_read_by(source, needs, before)], first, needs)
    return Splice.of(edits)


def _top(source: Source, before: int) -> Iterator[cst.BaseStatement]:
    """The docstring, the imports, and what stands between imports."""
    passed: list[cst.BaseStatement] = []
    for index, line in enumerate(source.module.body):
        scanned = isinstance(line, (cst.SimpleStatementLine, cst.Try, cst.If))
        if not scanned or source.span(line)[1] > before:
            return
        passed.append(line)
        if (index == 0 and _is_docstring(line)) or any(isinstance(node, _IMPORT) for node in walk(line)):
            yield from passed
            passed.clear()


def _of_one_part(source: Source, top: Iterable[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """Of a notebook's first lines those to the last import of the first cell that has some and may be edited."""
    found: list[cst.BaseStatement] = []
    end, last = None, 0
    for line in top:
        start = source.span(line)[0]
        if (end is not None and start >= end) or source.obstacle([insert_after_statement(source, line, "pass")]):
            continue
        found.append(line)
        if any(isinstance(node, _IMPORT) for node in walk(line)):
            end = source.part_end(start) if end is None else end
            last = len(found)
    return found[:last] if end is not None else found


def _read_by(source: Source, needs: Needs, before: int) -> Iterator[cst.BaseStatement]:
    """The imports that definitions need to stand behind."""
    read = {node.value for text in needs.definitions for node in walk(parse_module(text)) if isinstance(node, cst.Name)}
    for line in source.module.body:
        names = {name for statement in _imports(line) for alias in _aliases(statement) if (name := _bound_by(alias))}
        if source.span(line)[1] <= before and not names.isdisjoint(read):
            yield line


def _bound_by(alias: cst.ImportAlias) -> str:
    return alias.evaluated_alias or dotted(alias.name).partition(".")[0]


def _first(source: Source, before: int) -> cst.BaseStatement:
    """Where things go if there is no import: above this statement, the first; in a notebook above that of their use."""
    if not source.has_cells:
        return source.module.body[0]
    # A use in a comment may stand above all statements.
    above = [line for line in source.module.body if source.span(line)[0] <= before] or source.module.body[:1]
    return next((line for line in reversed(above) if not source.obstacle([_above(source, line, "pass\n")])), above[-1])


_IMPORT = (cst.Import, cst.ImportFrom)


def _imports(line: cst.CSTNode) -> list[cst.Import | cst.ImportFrom]:
    """The imports of a line that holds nothing else."""
    if not isinstance(line, cst.SimpleStatementLine):
        return []
    found = [small for small in line.body if isinstance(small, _IMPORT)]
    return found if len(found) == len(line.body) else []


def _aliases(statement: cst.Import | cst.ImportFrom) -> Sequence[cst.ImportAlias]:
    return () if isinstance(statement.names, cst.ImportStar) else statement.names


def _gives(statement: cst.Import | cst.ImportFrom, alias: cst.ImportAlias, wanted: Import) -> bool:
    """Whether an alias of an import statement makes `wanted` superfluous."""
    module = dotted(alias.name)
    name = alias.evaluated_alias
    if isinstance(statement, cst.ImportFrom):
        origin = "." * len(statement.relative) + (dotted(statement.module) if statement.module is not None else "")
        return f"{origin}.{module}" == wanted.meaning and (name or module) == wanted.name
    if wanted.member:
        return False
    if name is not None or wanted.alias:
        return (module, name or "") == (wanted.module, wanted.alias or wanted.module)
    return module == wanted.module or module.startswith(wanted.module + ".")


def _is_docstring(line: cst.BaseStatement) -> bool:
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.Expr):
        return False
    return isinstance(line.body[0].value, (cst.SimpleString, cst.ConcatenatedString))


def _is_future(line: cst.BaseStatement) -> bool:
    return any(
        isinstance(statement, cst.ImportFrom)
        and statement.module is not None
        and dotted(statement.module) == "__future__"
        for statement in _imports(line)
    )


def _defined_names(text: str) -> list[str]:
    """The names that module-level lines bind."""
    symbols = symtable.symtable(text, "<definition>", "exec").get_symbols()
    return [symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()]


@frozen
class _Group:
    """Import lines without a blank line or comment between them."""

    lines: tuple[cst.SimpleStatementLine, ...]

    def of_kind(self, standard: bool) -> list[cst.SimpleStatementLine]:
        return [line for line in self.lines if _import_of(line).is_standard is standard]

    def plain(self) -> list[cst.SimpleStatementLine]:
        return [line for line in self.lines if isinstance(line.body[0], cst.Import)]


def _import_of(line: cst.SimpleStatementLine) -> Import:
    """The first module of an import line; relative imports have an empty name."""
    statement = line.body[0]
    if isinstance(statement, cst.Import):
        return Import(dotted(statement.names[0].name))
    assert isinstance(statement, cst.ImportFrom)
    return Import("" if statement.relative or statement.module is None else dotted(statement.module))


def _groups(source: Source, top: Sequence[cst.BaseStatement]) -> list[_Group]:
    groups: list[list[cst.SimpleStatementLine]] = []
    behind = -1
    for line in top:
        if not _imports(line) or _is_future(line):
            behind = -1
            continue
        assert isinstance(line, cst.SimpleStatementLine)
        start, end = source.span(line)
        if source.line_start(start) == behind:
            groups[-1].append(line)
        else:
            groups.append([line])
        behind = source.line_end(end)
    return [_Group(tuple(lines)) for lines in groups]


def _import_edits(
    source: Source, top: Sequence[cst.BaseStatement], first: cst.BaseStatement, wanted: Sequence[Import]
) -> list[Edit]:
    """Places imports that are all of the standard library, or all not."""
    standard = wanted[0].is_standard
    groups = _groups(source, top)
    kin = [group for group in groups if group.of_kind(standard)]
    if kin:
        group = next((group for group in kin if set(group.plain()) & set(group.of_kind(standard))), kin[0])
        return [_in_group(source, group, each) for each in wanted]
    block = "\n".join(each.code for each in wanted)
    if groups and not standard:
        return [insert_after_statement(source, groups[-1].lines[-1], f"\n{block}")]
    if groups:
        return [_opening(source, groups[0].lines[0], f"{block}\n\n", above_label=True)]
    openers = [line for line in top if _is_docstring(line) or _is_future(line)]
    if openers:
        text = f"\n{block}" + _blank_behind(source, openers[-1], 1)
        return [insert_after_statement(source, openers[-1], text)]
    blank = 2 if isinstance(first, (cst.ClassDef, cst.FunctionDef)) else 1
    return [_opening(source, first, block + "\n" * (blank + 1))]


def _member_edit(
    source: Source, top: Sequence[cst.BaseStatement], first: cst.BaseStatement, wanted: Sequence[Import]
) -> Edit:
    """Places imports from the project's own files: behind one of their package, else behind all others."""
    groups = _groups(source, top)
    block = "\n".join(each.code for each in wanted)
    if not groups:
        return _import_edits(source, top, first, wanted)[0]
    kin = [line for group in groups for line in group.lines if _import_of(line).package == wanted[0].package]
    if kin:
        return insert_after_statement(source, kin[-1], block)
    last = groups[-1].lines
    is_own = not any(known.is_standard or known.package in LIBRARIES for known in map(_import_of, last))
    return insert_after_statement(source, last[-1], block if is_own else f"\n{block}")


def _in_group(source: Source, group: _Group, wanted: Import) -> Edit:
    """Next to the plain imports of a group: in sorted place if they are sorted, else behind its kind."""
    plain = group.plain()
    names = [_import_of(line).module.lower() for line in plain]
    later = [line for line, name in zip(plain, names, strict=True) if name > wanted.module.lower()]
    kin = [line for line in plain if line in group.of_kind(wanted.is_standard)]
    if names == sorted(names) and (later or not plain):
        return _above(source, later[0] if later else group.lines[0], f"{wanted.code}\n")
    return insert_after_statement(source, (kin or plain)[-1], wanted.code)


def _opening(source: Source, first: cst.BaseStatement, text: str, *, above_label: bool = False) -> Edit:
    """Above the first statement of a file, below the comments about the file; in a notebook those are about code.

    `above_label` where a comment right above the statement is its heading, `# PyTorch`, and not about the file.
    """
    if source.has_cells:
        return insert_before_statement(source, first, text)
    at = source.line_start(statement_start(source, first))
    label = _label_start(source, at) if above_label else at
    return Edit(label, label, text.replace("\n", source.newline))


def _label_start(source: Source, at: int) -> int:
    """Where the comments begin that stand right above a line, behind a blank line; the line where there are none."""
    start = at
    while start and source.text[source.line_start(start - 1) : start].lstrip().startswith("#"):
        start = source.line_start(start - 1)
    in_part = start and not source.text[source.line_start(start - 1) : start].strip()
    return start if in_part else at


def _above(source: Source, line: cst.BaseStatement, text: str) -> Edit:
    at = source.line_start(statement_start(source, line))
    return Edit(at, at, text.replace("\n", source.newline))


def _definition_edits(
    source: Source, above: Sequence[cst.BaseStatement], first: cst.BaseStatement, needs: Needs
) -> list[Edit]:
    """Places definitions behind the last of the statements `above`, with blank lines around."""
    text = "\n".join(text.strip("\r\n") for text in needs.definitions)
    compound = any(isinstance(line, cst.BaseCompoundStatement) for line in parse_module(text).body)
    blank = 2 if compound else 1
    if not above:
        return [_opening(source, first, text + "\n" * (blank + 1))]
    before = "\n" * blank
    last = max(above, key=lambda line: source.span(line)[1])
    return [insert_after_statement(source, last, before + text + _blank_behind(source, last, blank))]


def _blank_behind(source: Source, line: cst.BaseStatement, wanted: int) -> str:
    """The newlines that `wanted` blank lines behind a statement lack; none at the end of the file."""
    at = source.line_end(source.span(line)[1])
    if not source.text[at : source.part_end(at - 1)].strip():
        return ""
    present = 0
    while present < wanted and source.text[at : source.line_end(at)].strip() == "":
        at, present = source.line_end(at), present + 1
    return "\n" * (wanted - present + 1) if present < wanted else ""
