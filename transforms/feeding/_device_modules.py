"""Where images are copied to a device, and where the module that normalises them there is made and called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Device
from perfmod.transforms.feeding._device_arithmetic import NAME, Arithmetic
from perfmod.transforms.feeding._pipelines import Pipeline, Unmovable
from perfmod.transforms.finding import Edit
from perfmod.transforms.source import Source
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

_CHOOSES = frozenset({"torch.cuda.set_device", "torch.cuda.device"})


@frozen
class Copy:
    """One copy of images to the device.

    Attributes:
        call: `images.to(device)` or `images.cuda()`.
        method: the call that takes a module to the same place, `.cuda(args.gpu)`.
        source: the definitions of the variable that holds the device; empty for other expressions.
        anchor: the statement next to which the module is made, once for all batches.
        is_before: whether it is made before `anchor`, or behind it.
        unpacked: where images that were copied with all their batch get names, and which.
    """

    call: cst.Call
    method: str
    source: tuple[Definition, ...]
    anchor: cst.BaseStatement
    is_before: bool
    unpacked: tuple[tuple[cst.Assign, str], ...] = ()


def _destination(file: FileFacts, call: cst.Call) -> tuple[cst.BaseExpression | None, str]:
    """The argument that says where a copy goes, `None` for the current CUDA device; and the call that says so.

    Raises:
        Unmovable: the copy does more than to copy, or the images stay on the CPU.
    """
    assert isinstance(call.func, cst.Attribute)
    line = file.line(call)
    if call.func.attr.value == "cuda":
        where = argument(call, "device", 0)
        return where, f".cuda({file.code(where) if where is not None else ''})"
    given = [arg for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
    others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - {"device", "non_blocking"}
    device = file.values.placement.destination(call)
    if device is None or len(given) != 1 or others:
        raise Unmovable(f"the copy on line {line} also changes the dtype or memory format of the images")
    if file.values.placement.device_of(device) is Device.CPU:
        raise Unmovable(f"the images of line {line} stay on the CPU")
    return device, f".to({file.code(device)})"


def placed(file: FileFacts, call: cst.Call, *, devices_change: bool) -> Copy:
    """A copy with the place where its module is made once: where its device is known, or else in front of the loop.

    `devices_change` says that the script chooses a GPU by other means than by naming it.

    Raises:
        Unmovable: every place is inside of the step, or the copy does more than to copy.
    """
    where, method = _destination(file, call)
    source = file.flow.definitions(where) if isinstance(where, cst.Name) else ()
    behind = None if devices_change else _behind_definition(file, source)
    # The names of another file, or of a cell of a notebook that may not run again, are not read here.
    is_here = behind is not None and _part(file, behind) == _part(file, call)
    if behind is not None and is_here and not _is_imported_code(file, behind):
        return Copy(call, method, source, behind, is_before=False)
    loop = _outermost_loop(file, call, where)
    if loop is not None:
        return Copy(call, method, source, _line_of(file, loop), is_before=True)
    raise Unmovable(f"there is no place before the loop to create the normalisation module for line {file.line(call)}")


def _outermost_loop(file: FileFacts, call: cst.Call, where: cst.BaseExpression | None) -> cst.CSTNode | None:
    """The outermost loop of the same function around a copy before which its device is known already."""
    found: cst.CSTNode | None = None
    for ancestor in file.tree.ancestors(call):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(ancestor, (cst.For, cst.While, cst.BaseComp)):
            chosen = any(file.qualified(each) in _CHOOSES for each in find_all(ancestor, cst.Call))
            if chosen or not all(
                _is_steady(file, node, ancestor) for node in (walk(where) if where is not None else ())
            ):
                break
            found = ancestor
    return found


def _is_steady(file: FileFacts, node: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Whether a part of a device is the same before a loop as in it: no call, and no name that the loop may bind."""
    if isinstance(node, cst.Call):
        return file.qualified(node) == "torch.device"
    if isinstance(node, cst.Name) and file.flow.is_read(node):
        bound = (file.tree.is_within(each.node, loop) for each in file.flow.definitions(node))
        return node.value not in file.handing.outer_names and not any(bound)
    if isinstance(node, cst.Subscript) or (isinstance(node, cst.Attribute) and file.qualified(node) is None):
        return next(file.stores.inside(node, loop), None) is None
    return True


def _line_of(file: FileFacts, loop: cst.CSTNode) -> cst.BaseStatement:
    """The statement of a loop in its block; the whole `if` for a comprehension in the test of an `elif`."""
    line = file.tree.line(loop)
    above = file.tree.parent(line)
    while isinstance(above, cst.If):
        line, above = above, file.tree.parent(above)
    return line


def _behind_definition(file: FileFacts, definitions: tuple[Definition, ...]) -> cst.BaseStatement | None:
    """The statement that binds a device once and for all, in its own scope and outside of loops."""
    if len(definitions) != 1 or not isinstance(file.tree.parent(definitions[0].node), cst.AssignTarget):
        return None
    (definition,) = definitions
    if file.tree.scope(definition.node) is not definition.scope or isinstance(definition.scope, cst.ClassDef):
        return None
    if len(file.flow.bound(definition.scope, definition.name)) != 1:
        return None
    line = file.tree.line(file.tree.statement(definition.node))
    return line if isinstance(line, cst.SimpleStatementLine) and not file.tree.loops(line) else None


def _is_imported_code(file: FileFacts, statement: cst.BaseStatement) -> bool:
    """Whether a statement runs where a script with a `__main__` guard is imported, such as by its workers."""
    entry, module = file.entry, file.tree.module_of(statement)
    guarded = any(isinstance(top, cst.If) and is_main_test(top.test) for top in entry.statements_of(module))
    if file.tree.function(statement) is not None or entry.is_guarded(statement):
        return False
    return guarded or bool(entry.importers(module))


# Edits


def makers(file: FileFacts, moves: list[Copy]) -> list[Copy]:
    """The copies whose modules serve all of them. Raises `Unmovable` where a name would mean another module."""
    check_scopes(file, moves)
    chosen: list[Copy] = []
    for move in sorted(moves, key=lambda move: file.tree.place(move.anchor)):
        if not any(_serves(file, other, move) for other in chosen):
            chosen.append(move)
    return chosen


def homes(file: FileFacts, chosen: list[Copy]) -> int:
    """In how many functions modules are made; a top level counts as one."""
    return len({_home(file, move.anchor) for move in chosen})


def modules(file: FileFacts, chosen: list[Copy], pipeline: Pipeline, arithmetic: Arithmetic, name: str) -> list[Edit]:
    """What makes the modules, by the class in the file of a pipeline."""
    edits: list[Edit] = []
    for move in chosen:
        source = file.source_of(move.anchor)
        spelled, arguments, imports = _named(file, pipeline, move, arithmetic)
        text = f"{name} = {spelled}({', '.join(arguments)}){move.method}"
        insert = insert_before_statement if move.is_before else insert_after_statement
        edits += [*imports, insert(source, move.anchor, text)]
    return list(dict.fromkeys(edits))


def below_constants(file: FileFacts, move: Copy, moves: list[Copy], arithmetic: Arithmetic) -> Copy:
    """A copy whose module is made below the constants, where these are set in the same block as its device."""
    names = [name for node in arithmetic.written for name in find_all(node, cst.Name) if file.flow.is_read(name)]
    made = [file.tree.line(file.tree.statement(each.node)) for name in names for each in file.flow.definitions(name)]
    block = file.tree.block(move.anchor)
    if move.is_before or any(line not in block for line in made):
        return move
    anchor = max((move.anchor, *made), key=lambda line: file.tree.place(line))
    function = file.tree.function(anchor)
    is_above = all(
        file.tree.function(each.call) is not function or file.comes_before(anchor, each.call) for each in moves
    )
    return evolve(move, anchor=anchor) if is_above else move


def _serves(file: FileFacts, other: Copy, move: Copy) -> bool:
    """Whether the module of another copy, made above, is there for this one too."""
    if other.anchor is move.anchor:
        return True
    if (other.method, other.source, _part(file, other.anchor)) != (move.method, move.source, _part(file, move.anchor)):
        return False
    block = file.tree.block(other.anchor)
    return any(line in block for line in (move.anchor, *file.tree.ancestors(move.anchor)))


def _part(file: FileFacts, node: cst.CSTNode) -> tuple[str, int]:
    """The file, or the cell of a notebook, that holds a node."""
    source = file.source_of(node)
    return source.path, source.part_end(source.span(node)[0])


def _named(
    file: FileFacts, pipeline: Pipeline, move: Copy, arithmetic: Arithmetic
) -> tuple[str, list[str], list[Edit]]:
    """What the class and its constants are called where a copy stands, and the edits that import them there.

    Raises:
        Unmovable: the file of the copy imports nothing from that of the pipeline.
    """
    home, source = file.source_of(pipeline.compose), file.source_of(move.call)
    arguments = arithmetic.arguments(file, move.anchor)
    if home is source:
        return NAME, arguments, []
    module, stem = file.tree.module_of(pipeline.compose), PurePath(home.path).stem
    for alias in file.tree.all(cst.ImportAlias):
        statement = file.tree.parent(alias)
        if file.source_of(alias) is not source or file.tree.function(alias) is not None:
            continue
        if module not in file.flow.imported(alias):
            continue
        if isinstance(statement, cst.ImportFrom) and file.flow.bound(module, alias.evaluated_name):
            constants = arithmetic.exported(file)
            if not {node.value for node in find_all(source.module, cst.Name)}.isdisjoint(constants):
                constants = []
            return NAME, constants or arguments, _imported(source, statement, {NAME, *constants})
        if alias.evaluated_name == stem:
            prefix = alias.evaluated_alias or stem
            constants = [f"{prefix}.{name}" for name in arithmetic.exported(file)]
            return f"{prefix}.{NAME}", constants or arguments, []
    copied = file.line(move.call)
    raise Unmovable(
        f"line {copied} copies the images, in a file that imports nothing from the file with the transforms"
    )


def _imported(source: Source, statement: cst.ImportFrom, names: set[str]) -> list[Edit]:
    """Names that a statement imports too: in their place where the others are sorted, else behind them."""
    assert not isinstance(statement.names, cst.ImportStar)
    present = [alias.evaluated_name for alias in statement.names]
    is_sorted = present == sorted(present, key=_sorted_by)
    added: dict[int, str] = {}
    for name in sorted(names, key=_sorted_by):
        later = [each for each in statement.names if is_sorted and _sorted_by(each.evaluated_name) > _sorted_by(name)]
        at = source.span(later[0])[0] if later else source.span(statement.names[-1])[1]
        added[at] = added.get(at, "") + (f"{name}, " if later else f", {name}")
    return [Edit(at, at, text, source.path) for at, text in added.items()]


def _sorted_by(name: str) -> tuple[int, str]:
    """Constants come first, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def _home(file: FileFacts, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
    """The function or the module whose names a node sees first."""
    return file.tree.function(node) or file.tree.module_of(node)


def check_scopes(file: FileFacts, moves: list[Copy]) -> None:
    """Raises `Unmovable` where a copy would call a module that a function around it makes for another."""
    binding = {_home(file, move.anchor) for move in moves}
    for move in moves:
        home = _home(file, move.call)
        while home not in binding and not isinstance(home, cst.Module):
            home = _home(file, home)
        if home is not _home(file, move.anchor):
            line = file.line(move.call)
            raise Unmovable(
                f"another copy would need a normalisation module of the same name as the copy on line {line}"
            )
    devices: dict[cst.CSTNode, str] = {}
    for move in moves:
        if devices.setdefault(_home(file, move.anchor), move.method) != move.method:
            raise Unmovable(
                f"the copy on line {file.line(move.call)} goes to another device than other copies in its function"
            )


def calls(file: FileFacts, moves: list[Copy], name: str) -> Iterator[Edit]:
    """The call around each copy; behind the unpacking where images are copied with all their batch."""
    lines: dict[cst.Assign, list[str]] = {}
    for move in moves:
        source = file.source_of(move.call)
        start, end = source.span(move.call)
        if not move.unpacked:
            yield Edit(start, start, f"{name}(", source.path)
            yield Edit(end, end, ")", source.path)
        for unpacking, target in move.unpacked:
            lines.setdefault(unpacking, []).append(f"{target} = {name}({target})")
    for line, added in lines.items():
        yield insert_after_statement(file.source_of(line), line, "\n".join(added))


def merged(edits: list[Edit]) -> list[Edit]:
    """Insertions joined with what is replaced at the same place, such as a line above one that goes."""
    joined: dict[tuple[str, int], Edit] = {}
    for edit in sorted(edits):
        before = joined.get((edit.path, edit.start))
        text = edit.replacement if before is None else before.replacement + edit.replacement
        joined[edit.path, edit.start] = evolve(edit, replacement=text)
    return list(joined.values())
