"""A pipeline that ends in `ToTensor(), Normalize(mean, std)` turns bytes into floats on the CPU: four times the memory to collate,
to hand from worker to process, to pin and to copy, and three passes over every pixel by the slower processor.

The dataset hands on the bytes (`PILToTensor()`), and the batch is converted where it arrives: the same division, subtraction and
division in the same order, by tensors that are made once. Dividing by a tensor matters: CUDA multiplies by the reciprocal of a
Python number, which gives other bits for half of all byte values.

All loops over all loaders of such a dataset are rewritten together or not at all, because each of them would otherwise see bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._image_copies import Copy, copies, free_names
from perfmod.transforms.feeding._pipelines import Feed, Pipeline, Unmovable, feeds, pipelines
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.writing import (
    delete_statement,
    insert_after_statement,
    insert_before_statement,
    replace,
)


class CpuNormalisation(Rule):
    code: ClassVar[str] = "PM205"
    name: ClassVar[str] = "cpu-normalisation"
    family: ClassVar[Family] = Family.FEEDING
    summary: ClassVar[str] = "images are converted to floats and normalised on the CPU"
    fix_title: ClassVar[str] = "Feed bytes and normalise on the device"
    numerics: ClassVar[Numerics] = Numerics.BITWISE
    safety: ClassVar[Safety] = Safety.SAFE
    min_torch: ClassVar[str] = "1.8"
    status: ClassVar[Status] = Status.STABLE
    triggers: ClassVar[frozenset[str]] = frozenset({"Normalize"})
    references: ClassVar[tuple[str, ...]] = (
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.PILToTensor.html",
        "https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.Normalize.html",
    )
    changes_results: ClassVar[str] = (
        "It does not, for pictures of eight bits a channel: every value passes the same float32 operations in the same order. "
        "Pictures of other modes, which ToTensor does not scale, are refused, as are float arrays and transforms behind Normalize."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        movable: list[Pipeline] = []
        for found in pipelines(file):
            if isinstance(found, Pipeline):
                movable.append(found)
            elif any(loader.trains for loader in file.loaders):
                yield self.refused(file, found[0].value, found[1])
        if not movable:
            return
        first = movable[0].normalize.value
        try:
            fed = {pipeline: feeds(file, pipeline) for pipeline in movable}
            every = _together(fed)
            if not any(feed.loader.trains for feed in every):
                reason = "no training step in sight is fed with these images"
                yield self.refused(file, first, reason)
                return
            yield self._moved(file, movable, copies(file, every))
        except Unmovable as reason:
            if any(loader.trains for loader in file.loaders):
                yield self.refused(file, first, str(reason))

    def _moved(self, file: FileFacts, movable: list[Pipeline], moves: list[Copy]) -> Finding:
        mean, std = _constants(file, movable)
        if any(file.qualified(call) == "torch.set_default_dtype" for call in find_all(file.source.module, cst.Call)):
            raise Unmovable("the file changes torch's default type")
        torch, imports = file.names.spelled("torch", moves[0].call)
        names = list(free_names(file))
        edits = [edit for pipeline in movable for edit in _as_bytes(file, pipeline)]
        edits += _imported(file, movable)
        edits += _unread(file, movable)
        places: dict[tuple[cst.BaseStatement, str], bool] = {}
        for move in moves:
            places[move.anchor, move.device] = move.is_before
        edits += _conversions(file, [move.call for move in moves], names)
        if len({anchor for anchor, _ in places}) < len(places):
            raise Unmovable("the images of one loop are copied to several devices")
        for (anchor, device), is_before in places.items():
            _check_order(file, movable[0], anchor)
            lines = "\n".join(
                (
                    f"{names[0]} = {torch}.tensor(255.0, device={device})",
                    f"{names[1]} = {torch}.tensor({mean}, device={device}).view(-1, 1, 1)",
                    f"{names[2]} = {torch}.tensor({std}, device={device}).view(-1, 1, 1)",
                )
            )
            insert = insert_before_statement if is_before else insert_after_statement
            edits.append(insert(file.source, anchor, lines))
        lines_of = sorted({file.source.line(move.call) for move in moves})
        where = ", ".join(map(str, lines_of))
        reason = f"the loader hands on bytes; the copies on line {where} convert and normalise them on the device"
        return self.found(file, movable[0].normalize.value, reason, edits, imports=imports)


def _together(fed: dict[Pipeline, list[Feed]]) -> list[Feed]:
    """The feeds of all pipelines, one for each loader."""
    merged: dict[cst.Call, Feed] = {}
    for found in fed.values():
        for feed in found:
            merged.setdefault(feed.loader.call, Feed(feed.loader)).paths.update(feed.paths)
    return list(merged.values())


def _constants(file: FileFacts, movable: list[Pipeline]) -> tuple[str, str]:
    """Mean and deviation as code that means the same everywhere in the file.

    Raises:
        Unmovable: pipelines differ, or the constants are no literals and no module-level names of such.
    """
    codes = {tuple("".join(file.source.whole_code(value).split()) for value in (p.mean, p.std)) for p in movable}
    plain = {tuple(code.replace("[", "(").replace("]", ")").replace(",)", ")") for code in pair) for pair in codes}
    if len(plain) > 1:
        raise Unmovable("pipelines of this file normalise with different constants")
    for value in (movable[0].mean, movable[0].std):
        if not _is_constant(file, value):
            raise Unmovable(f"`{file.source.code(value)}` is no constant that can be read where the images arrive")
    return file.source.whole_code(movable[0].mean), file.source.whole_code(movable[0].std)


def _is_constant(file: FileFacts, node: cst.CSTNode) -> bool:
    for name in find_all(node, cst.Name):
        if not file.flow.is_read(name):
            continue
        definitions = file.flow.definitions(name)
        if not all(isinstance(d.scope, cst.Module) and d.binding is Binding.ASSIGNED for d in definitions):
            return False
        if len(definitions) != 1 or definitions[0].value is None or not _is_constant(file, definitions[0].value):
            return False
    return not any(True for kind in (cst.Call, cst.Attribute, cst.Subscript) for _ in find_all(node, kind))


def _conversions(file: FileFacts, calls: list[cst.Call], names: list[str]) -> Iterator[Edit]:
    """The conversion behind each copy: on a line of its own where the copy goes to a variable, else behind the call."""
    operations = ".float()" + "".join(f".{op}({n})" for op, n in zip(("div_", "sub_", "div_"), names, strict=True))
    lines: dict[cst.CSTNode, list[str]] = {}
    for call in calls:
        target = _target(file, call)
        if target is None:
            end = file.source.span(call)[1]
            yield Edit(end, end, operations)
        else:
            lines.setdefault(file.tree.statement(call), []).append(f"{target} = {target}{operations}")
    for statement, added in lines.items():
        assert isinstance(statement, cst.Assign)
        yield insert_after_statement(file.source, statement, "\n".join(added))


def _target(file: FileFacts, copy: cst.Call) -> str | None:
    """The variable that an assignment, also one of several at once, gives the copied images."""
    statement = file.tree.statement(copy)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return None
    target: cst.BaseExpression = statement.targets[0].target
    value = statement.value
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        pairs = zip(target.elements, value.elements, strict=True)
        target, value = next(((t.value, v.value) for t, v in pairs if v.value is copy), (target, value))
    return target.value if value is copy and isinstance(target, cst.Name) else None


def _check_order(file: FileFacts, pipeline: Pipeline, anchor: cst.BaseStatement) -> None:
    """Raises `Unmovable` where the module-level statement `anchor` runs before the constants that are wanted there exist."""
    if file.tree.function(anchor) is not None:
        return
    for value in (pipeline.mean, pipeline.std):
        for name in find_all(value, cst.Name):
            for definition in file.flow.definitions(name):
                if file.source.span(definition.node)[0] > file.source.span(anchor)[0]:
                    raise Unmovable(
                        f"`{name.value}` is defined below line {file.source.line(anchor)}, where it would be needed"
                    )


def _unread(file: FileFacts, movable: list[Pipeline]) -> Iterator[Edit]:
    """Drop `normalize = Normalize(...)` where no other code reads the name."""
    elements = {pipeline.normalize.value for pipeline in movable}
    statements: dict[cst.Assign, None] = {}
    for name in elements:
        if isinstance(name, cst.Name):
            for definition in file.flow.definitions(name):
                statement = file.tree.statement(definition.node)
                if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
                    if all(use in elements for use in file.flow.uses(definition)):
                        statements[statement] = None
    for assignment in statements:
        yield from delete_statement(file.source, assignment)


def _as_bytes(file: FileFacts, pipeline: Pipeline) -> Iterator[Edit]:
    """`ToTensor()` becomes `PILToTensor()`, and the step behind it goes, with what stands between them."""
    source = file.source
    to_tensor, normalize = pipeline.to_tensor.value, pipeline.normalize.value
    name = to_tensor.func if isinstance(to_tensor, cst.Call) else None
    if isinstance(name, cst.Attribute):
        yield replace(source, name.attr, "PILToTensor")
    elif isinstance(name, cst.Name):
        yield replace(source, name, "PILToTensor")
    else:
        raise Unmovable(f"ToTensor is made on another line than the pipeline on line {source.line(pipeline.compose)}")
    start, end = source.span(to_tensor)[1], source.span(normalize)[1]
    if "#" not in source.text[start:end]:
        yield Edit(start, end, "")
        return
    # A comment behind ToTensor stays: only the lines of Normalize go.
    first, last = source.line_start(source.span(normalize)[0]), source.line_end(end)
    if source.text[first : source.span(normalize)[0]].strip() or source.text[end:last].strip(" \t\r\n,"):
        raise Unmovable("a comment between ToTensor and Normalize would be lost")
    yield Edit(first, last, "")


def _imported(file: FileFacts, movable: list[Pipeline]) -> Iterator[Edit]:
    """Where `ToTensor` was imported by name, import `PILToTensor`; drop imported names that nothing reads any more."""
    gone = {p.to_tensor.value.func for p in movable if isinstance(p.to_tensor.value, cst.Call)}
    gone |= {p.normalize.value.func for p in movable if isinstance(p.normalize.value, cst.Call)}
    dropped: dict[cst.ImportFrom, list[cst.ImportAlias]] = {}
    for name in gone:
        if not isinstance(name, cst.Name):
            continue
        for definition in file.flow.definitions(name):
            alias = definition.node
            statement = file.tree.parent(alias)
            if not isinstance(alias, cst.ImportAlias) or not isinstance(statement, cst.ImportFrom):
                continue
            still_read = any(use not in gone for use in file.flow.uses(definition))
            if name.value == "ToTensor" and alias.asname is None:
                yield replace(file.source, alias.name, "PILToTensor" if not still_read else "PILToTensor, ToTensor")
            elif name.value == "ToTensor":
                raise Unmovable("ToTensor is imported under another name")
            elif not still_read and alias not in dropped.setdefault(statement, []):
                dropped[statement].append(alias)
    for statement, aliases in dropped.items():
        for alias in aliases:
            yield from _without(file, statement, alias)


def _without(file: FileFacts, statement: cst.ImportFrom, alias: cst.ImportAlias) -> Iterator[Edit]:
    assert not isinstance(statement.names, cst.ImportStar)
    names = list(statement.names)
    at = names.index(alias)
    if len(names) == 1:
        return
    if at + 1 < len(names):
        yield Edit(file.source.span(alias)[0], file.source.span(names[at + 1])[0], "")
    else:
        yield Edit(file.source.span(names[at - 1])[1], file.source.span(alias)[1], "")
