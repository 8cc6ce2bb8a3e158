"""Pictures of torchvision that are made into the same samples in every epoch, and so can be prepared once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import libcst as cst

from perfmod.transforms.compute._moved_batches import Kept
from perfmod.transforms.compute._resident_edits import new_name
from perfmod.transforms.compute._sampling import require_no_comment
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import DType
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import call_text, insert_after_statement, insert_before_statement

PREPARING = ("TensorDataset", "default_collate")
"""What of `torch.utils.data` prepares samples."""
KINDS = (None, DType.INTEGER)
"""A sample is a picture and the number of its class, of these types as far as they are known."""
_SHOWS = frozenset({"classes", "class_to_idx"})
_CALLED = 3
"""So far up is looked for a loop that calls what goes through a loader."""
_LINE_END = re.compile(r"(?<=[(\[{])[ \t]*\n\s*|,?[ \t]*\n\s*(?=\])|[ \t]*\n\s*(?=[)}])")


def only_shows(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a use of a data set leaves it as it is and shows names, sizes, or a sample that is made for it."""
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Attribute):
        above = file.tree.parent(parent)
        is_size = isinstance(above, cst.Attribute) and above.attr.value in ("shape", "size") and above.value is parent
        return (parent.attr.value in _SHOWS and not isinstance(above, cst.AssignTarget)) or (
            parent.attr.value in ("data", "targets") and is_size
        )
    if isinstance(parent, cst.Subscript):
        return not isinstance(file.tree.parent(parent), (cst.AssignTarget, cst.AugAssign, cst.Del))
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and file.qualified(call) == "builtins.print"


def require_several_epochs(file: FileFacts, loaders: Iterable[Loader]) -> None:
    """Raises `Kept` where every sample is made once only: preparing them would spare nothing."""
    loops = [iteration.node for loader in loaders for iteration in loader.iterations]
    if len(loops) == 1 and not _comes_again(file, loops[0], _CALLED):
        raise Kept(f"line {file.line(loops[0])} goes through its samples once, which takes as long as to prepare them")


def _comes_again(file: FileFacts, node: cst.CSTNode, depth: int) -> bool:
    function = file.tree.function(node)
    if file.tree.loops(node) or function is None:
        return bool(file.tree.loops(node))
    callers = file.values.calls.callers(function) if isinstance(function, cst.FunctionDef) else ()
    return len(callers) != 1 or not depth or _comes_again(file, callers[0], depth - 1)


def prepared(
    file: FileFacts, data_set: cst.Call, loaders: Sequence[Loader], names: dict[str, str], move: str, *, is_shown: bool
) -> tuple[str, list[Edit]]:
    """The name by which loaders call the samples of a data set once they are prepared, and the edits that do that.

    `names` says how `PREPARING` is spelled, `move` moves a tensor to the device; `is_shown` says that the data set
    itself is used, too. Raises `Kept` where there is no place for it.
    """
    parts = f"{names['default_collate']}([*{{}}])"
    (given,) = loaders[0].values("dataset")
    is_inline = given is data_set
    statement = file.tree.parent(loaders[0].call if is_inline else data_set)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        raise Kept(f"the data set on line {file.line(data_set)} has no name")
    start = file.source.span(statement)[0]
    outer = file.source.indentation(start)
    if is_inline:
        require_no_comment(file, data_set)
        own = name = new_name(file, loaders[0].call)
        made = call_text(file.source, start, f"{own} = {file.code(data_set.func)}", _arguments(file, data_set))
    else:
        own = name = file.code(statement.targets[0].target)
        made = ""
        if is_shown:
            name = _beside(file, statement, loaders)
    moved = f"*(part{move} for part in {parts.format(own)})"
    text = call_text(file.source, start, f"{name} = {names['TensorDataset']}", [moved])
    text = "\n".join(filter(None, [made, text])).replace(f"\n{outer}", "\n")
    if is_inline:
        return name, [insert_before_statement(file.source, statement, text, below_comments=True)]
    return name, [insert_after_statement(file.source, statement, text)]


def _arguments(file: FileFacts, call: cst.Call) -> list[str]:
    """The arguments of a call, each in one line."""
    codes = [file.code(arg).rstrip().removesuffix(",") for arg in call.args]
    several = [each for each in find_all(call, cst.Subscript) if "\n" in file.code(each)]
    if several or any(mark in code for code in codes for mark in ('"""', "'''", "\\\n")):
        raise Kept(f"text or an index of several lines stands in the data set on line {file.line(call)}")
    return [re.sub(r"\s*\n\s*", " ", _LINE_END.sub("", code)) for code in codes]


def _beside(file: FileFacts, statement: cst.Assign, loaders: Iterable[Loader]) -> str:
    """A second name for a data set that keeps its own."""
    target = statement.targets[0].target
    for loader in loaders:
        (given,) = loader.values("dataset")
        is_same = isinstance(given, cst.Name) and isinstance(target, cst.Name) and given.value == target.value
        if not is_same or file.tree.scope(given) is not file.tree.scope(statement):
            raise Kept(f"`{file.code(target)}` is used for more than its loaders, which are made elsewhere")
    name = f"{file.code(target)}_on_device"
    if any(each.value == name for each in file.tree.all(cst.Name)):
        raise Kept(f"`{name}` is something else")
    return name
