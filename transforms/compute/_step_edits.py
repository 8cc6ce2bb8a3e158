"""What is written for a recorded step, and where: its recorder, the function of its lines, and the call of that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.beside import Beside
from perfmod.transforms.compute._recordable import Round
from perfmod.transforms.compute._step_calls import NotRecorded, owner
from perfmod.transforms.compute._step_names import Parts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition, parameters
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import free_lines, statement_start


def recorder_file(file: FileFacts) -> Beside:
    """Where the recorder is, or will be. Raises `NotRecorded` where the code could not import it."""
    if file.beside is None:
        raise NotRecorded(file.tree.module, "the recorder is a file of its own, and none can be made beside this code")
    if file.beside.problem:
        raise NotRecorded(file.tree.module, file.beside.problem)
    return file.beside


def step_place(file: FileFacts, found: Parts) -> Round:
    """In front of what the step is defined: the function around the loop, or the outermost loop that it can stand
    before.
    """
    scope = found.loop if isinstance(found.loop, cst.FunctionDef) else file.tree.scope(found.loop)
    is_outer = isinstance(scope, cst.FunctionDef) and isinstance(file.tree.parent(scope), cst.Module)
    own = [d for d in found.closed if file.is_own(d.node)]  # the others are imported
    if is_outer and all(_is_made_before(file, d, scope) for d in own):
        return cst.ensure_type(scope, cst.FunctionDef)
    if isinstance(found.loop, cst.FunctionDef):
        raise NotRecorded(found.loop, f"`{found.loop.name.value}` runs one step, and what it trains is made elsewhere")
    for loop in reversed([found.loop, *file.tree.loops(found.loop)]):
        if not any(file.tree.is_within(d.node, loop) for d in own):
            return loop
    return found.loop


def _is_made_before(file: FileFacts, definition: Definition, function: cst.CSTNode) -> bool:
    """Whether a name of the module is bound above a function, and not by another function that runs later."""
    is_of_module = definition.scope is file.tree.module and file.tree.function(definition.node) in (
        None,
        definition.node,
    )
    return is_of_module and file.comes_before(definition.node, function)


def step_name(place: cst.CSTNode, taken: set[str], trained: str = "") -> str:
    """A name for the function that is not taken yet, after the model that it trains; from now on it is."""
    usual = f"{place.name.value}_step" if isinstance(place, cst.FunctionDef) else "train_step"
    name = f"{trained}_step" if trained else usual
    while name in taken:
        name = f"graphed_{name}"
    taken.add(name)
    return name


def step_functions(file: FileFacts, place: cst.CSTNode, steps: Sequence[tuple[Parts, str, Sequence[str]]]) -> Edit:
    """The functions of the moved lines, and the lines that record them.

    They stand in front of `place`. `steps` has of each the lines, the name, and the optimizers of which the recorder is
    told.
    """
    source = file.source
    start = statement_start(source, place)  # type: ignore[arg-type]
    at = source.line_start(start)
    while at and re.fullmatch(r"[ \t]*#.*\r?\n", source.text[source.line_start(at - 1) : at]):
        at = source.line_start(at - 1)
    outer = source.indentation(start)
    above = source.text[:at].rstrip(" \t\r\n")
    wanted = 2 if not outer else 0 if above.endswith(":") else 1
    present = source.text[len(above) : at].count("\n") - 1
    blank = "\n" * (2 if not outer else 1)
    text = "\n" * max(0, wanted - present) + blank.join(_function(file, outer, blank, *step) for step in steps)
    return Edit(at, at, (text + ("\n\n" if isinstance(place, cst.FunctionDef) else "\n")).replace("\n", source.newline))


def _function(file: FileFacts, outer: str, blank: str, found: Parts, name: str, optimizers: Sequence[str]) -> str:
    source = file.source
    old = source.indentation(source.span(found.moved[0])[0])
    unit = old.removeprefix(source.indentation(source.span(found.within)[0])) or "    "
    shift = old, outer + unit
    body = "".join(_block(file, found.within, line, found.brought, shift) for line in found.moved).lstrip("\r\n")
    result = f"{outer}{unit}return {', '.join(found.returned)}\n" if found.returned else ""
    record = f"{outer}{name} = GraphedStep({name}, [{', '.join(optimizers)}])\n"
    return f"{outer}def {name}({', '.join(found.given)}):\n" + body.replace("\r\n", "\n") + result + blank + record


def _block(
    file: FileFacts,
    around: Round | cst.If,
    line: cst.BaseStatement,
    brought: Sequence[cst.Call] = (),
    shift: tuple[str, str] = ("", ""),
) -> str:
    """The lines of a statement, with a new indentation in the place of an old one; what is brought is there already."""
    start, end = _block_span(file, around, line)
    within = [call for call in brought if file.tree.is_within(call, line)]
    edits = [Edit(*file.source.span(call), file.code(owner(call))) for call in within]
    old, new = shift
    edits += [
        Edit(at, at + len(old), new)
        for at in free_lines(file.source, start, end)
        if file.source.text.startswith(old, at) and not any(edit.start < at < edit.end for edit in edits)
    ]
    text = file.source.text[start:end]
    for each in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: each.start - start] + each.replacement + text[each.end - start :]
    return text if text.endswith(("\n", "\r")) else text + file.source.newline


def _block_span(file: FileFacts, around: Round | cst.If, line: cst.BaseStatement) -> tuple[int, int]:
    """The lines of a statement, from behind the one above: with its comments and blank lines."""
    body = cst.ensure_type(around.body, cst.IndentedBlock).body
    index = body.index(line)
    above = file.source.span(body[index - 1])[1] if index else _head_end(file, around)
    return file.source.line_end(above), file.source.line_end(file.source.span(line)[1])


def _head_end(file: FileFacts, around: Round | cst.If) -> int:
    """The end of the line in front of the first comment or statement of a loop, a function or an `if`."""
    if isinstance(around, cst.FunctionDef):
        return max([file.source.span(around.name)[1], *(file.source.span(each)[1] for each in parameters(around))])
    return file.source.span(around.iter if isinstance(around, cst.For) else around.test)[1]


def step_call(file: FileFacts, found: Parts, name: str) -> Iterator[Edit]:
    """The call in the place of the lines that are moved, and the reports behind it."""
    source = file.source
    for line in found.early:
        yield Edit(*_block_span(file, found.within, line), "")
    main = [line for line in found.moved if line not in found.early]
    start, end = _block_span(file, found.within, main[0])[0], _block_span(file, found.within, main[-1])[1]
    indent = source.indentation(source.span(main[0])[0])
    result = f"{', '.join(found.returned)} = " if found.returned else ""
    alone = ".clone()" if found.kept and len(found.returned) == 1 else ""
    moves = {file.code(owner(call)): file.code(call) for call in found.brought}
    given = ", ".join(moves.get(each, each) for each in found.given)
    text = f"{indent}{result}{name}({given}){alone}\n"
    if not alone:
        text += "".join(f"{indent}{each} = {each}.clone()\n" for each in found.kept)
    blank = re.match(r"(?:[ \t]*\r?\n)*", source.text[start:end])
    text = text.replace("\n", source.newline) + "".join(_block(file, found.within, line) for line in found.late)
    yield Edit(start, end, (blank.group() if blank else "") + text)
