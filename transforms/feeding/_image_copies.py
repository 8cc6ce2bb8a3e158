"""The copies of normalised images to the device: the only places that may see the images once they come as bytes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.feeding._pipelines import Feed, Path, Unmovable

_SHAPE_ONLY = frozenset({"shape", "size", "dim", "ndim", "numel", "is_cuda"})


@frozen
class Copy:
    """One copy of images to the device.

    Attributes:
        call: `images.to(device)` or `images.cuda()`.
        device: the device as code.
        anchor: the statement next to which the constants are made.
        is_before: whether they are made before `anchor`, or behind it.
    """

    call: cst.Call
    device: str
    anchor: cst.BaseStatement
    is_before: bool


def copies(file: FileFacts, feeds: list[Feed]) -> list[Copy]:
    """Every copy of the loaders' images.

    Raises:
        Unmovable: the images are seen by anything else, or a copy serves other batches too.
    """
    wanted: dict[cst.CSTNode, set[Path]] = {feed.loader.call: feed.paths for feed in feeds}
    found: list[cst.Call] = []
    for node in walk(file.source.module):
        if not isinstance(node, (cst.Name, cst.Subscript, cst.Attribute)) or not _is_read(file, node):
            continue
        ends = [(end.node, end.path) for end in file.tracing.ends(node)]
        held = [(loader, path) for loader, path in ends if loader in wanted and path[:1] == (None,)]
        if not held:
            continue
        images = [path for loader, path in held if path[1:] in wanted[loader]]
        deeper = [p for loader, p in held for w in wanted[loader] if p[1:] != w and p[1:] == w[: len(p) - 1]]
        unclear = [path for _, path in held if None in path[1:]]
        if unclear:
            raise Unmovable(f"a part of the batch is read on line {_line(file, node)} without saying which")
        if images:
            move = _use(file, node)
            if move is not None:
                if len(images) != len(ends):
                    raise Unmovable(f"the copy on line {_line(file, node)} serves other batches too")
                found.append(move)
        elif deeper and not _takes_apart(file, node):
            raise Unmovable(f"the whole batch is used on line {_line(file, node)}")
    if not found:
        raise Unmovable("the images are never copied to a device in sight")
    return [_placed(file, move) for move in dict.fromkeys(found)]


def _is_read(file: FileFacts, node: cst.BaseExpression) -> bool:
    parent = file.tree.parent(node)
    if isinstance(node, cst.Name):
        return file.flow.is_read(node)
    return not isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.Del))


def _use(file: FileFacts, node: cst.BaseExpression) -> cst.Call | None:
    """The copy that a read of images is part of; `None` where it only hands them on or asks for their shape.

    Raises:
        Unmovable: anything else.
    """
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Attribute) and parent.value is node:
        call = file.tree.parent(parent)
        if parent.attr.value in _SHAPE_ONLY:
            return None
        if isinstance(call, cst.Call) and call.func is parent and parent.attr.value in ("to", "cuda"):
            return call
    if isinstance(parent, cst.Arg):
        call = file.tree.parent(parent)
        if isinstance(call, cst.Call):
            if file.qualified(call) == "builtins.len":
                return None
            if file.values.calls.resolve(call) is not None and not parent.star and file.qualified(call) is None:
                return None
    if _is_bound(file, node):
        return None
    raise Unmovable(f"the normalised images are used on line {_line(file, node)} before they are copied to the device")


def _takes_apart(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a read of a whole batch only picks a part of it, unpacks it or hands it to a function of the file."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Subscript) and parent.value is node:
        return True
    if isinstance(parent, cst.Arg):
        call = file.tree.parent(parent)
        if isinstance(call, cst.Call):
            known = file.values.calls.resolve(call) is not None and not parent.star
            return known or file.qualified(call) == "builtins.len"
    return _is_bound(file, node)


def _is_bound(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether an expression is the right side of an assignment to names, alone or in a tuple."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Element):
        container = file.tree.parent(parent)
        parent = file.tree.parent(container) if isinstance(container, cst.Tuple) else None
    if isinstance(parent, cst.Assign):
        return all(isinstance(target.target, (cst.Name, cst.Tuple, cst.List)) for target in parent.targets)
    return False


def _placed(file: FileFacts, call: cst.Call) -> Copy:
    """A copy with the place where its constants are made once: behind the device's definition, or before the loop.

    Raises:
        Unmovable: every place is inside of the step, or the copy does more than to copy.
    """
    assert isinstance(call.func, cst.Attribute)
    device: cst.BaseExpression | None
    if call.func.attr.value == "cuda":
        device = argument(call, "device", 0)
    else:
        device = file.values.destination(call)
        given = [arg for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
        others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - {
            "device",
            "non_blocking",
        }
        if device is None or len(given) != 1 or others:
            raise Unmovable(f"the copy on line {_line(file, call)} also changes the images' type or layout")
    code = file.source.code(device) if device is not None else '"cuda"'
    if isinstance(device, cst.Name):
        behind = _behind_definition(file, file.flow.definitions(device))
        if behind is not None:
            return Copy(call, code, behind, False)
    loops = _loops(file, call)
    if not loops:
        raise Unmovable(
            f"there is no place outside of the step for the constants of the copy on line {_line(file, call)}"
        )
    return Copy(call, code, file.tree.line(loops[-1]), True)


def _loops(file: FileFacts, call: cst.Call) -> list[cst.CSTNode]:
    """The loops of the same function around a copy, innermost first; a comprehension counts by its statement."""
    loops: list[cst.CSTNode] = []
    for ancestor in file.tree.ancestors(call):
        if isinstance(ancestor, (cst.FunctionDef, cst.Lambda)):
            break
        if isinstance(ancestor, (cst.For, cst.While, cst.BaseComp)):
            loops.append(ancestor)
    return loops


def _behind_definition(file: FileFacts, definitions: tuple[Definition, ...]) -> cst.BaseStatement | None:
    """The statement that binds a device once and for all, outside of loops and branches."""
    if len(definitions) != 1 or not isinstance(file.tree.parent(definitions[0].node), cst.AssignTarget):
        return None
    line = file.tree.line(file.tree.statement(definitions[0].node))
    return line if isinstance(line, cst.SimpleStatementLine) and not file.tree.loops(line) else None


def _line(file: FileFacts, node: cst.CSTNode) -> int:
    return file.source.line(node)


def free_names(file: FileFacts) -> Iterator[str]:
    """Names for scale, mean and deviation that the file does not use yet."""
    taken = {node.value for node in find_all(file.source.module, cst.Name)}
    for name in ("scale", "mean", "std"):
        free = name
        while free in taken:
            free = f"image_{free}"
        yield free
