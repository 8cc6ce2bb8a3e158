"""Which statements are reports of a step, and which reads of scalars are another rule's."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.syncs import _meters
from perfmod.transforms.syncs._host_reads import HostRead
from perfmod.transforms.syncs._kept_elements import stored_at
from perfmod.transforms.syncs._needed_now import why_needed
from perfmod.transforms.syncs._report_figures import held_in, is_kept

_LITERALS = (cst.Dict, cst.FormattedString, cst.Tuple, cst.List, cst.ConcatenatedString)
_PLACES = (cst.Attribute, cst.Subscript)


def is_report(node: cst.CSTNode) -> bool:
    """Whether a statement calls something for its effect, or puts figures into a text, a collection or an entry."""
    if isinstance(node, cst.Expr):
        return isinstance(node.value, cst.Call)
    if not isinstance(node, cst.Assign):
        return False
    value = node.value
    if isinstance(value, cst.BinaryOperation):
        is_text = isinstance(value.left, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString))
    else:
        func = value.func if isinstance(value, cst.Call) else None
        is_text = isinstance(func, cst.Attribute) and isinstance(func.value, (cst.SimpleString, cst.ConcatenatedString))
    is_stored = len(node.targets) == 1 and isinstance(node.targets[0].target, (cst.Subscript, cst.Attribute))
    return isinstance(value, _LITERALS) or is_text or is_stored


def is_anothers(file: FileFacts, read: HostRead) -> bool:
    """Whether sums, lists, meters and conditions, which are another rule's, are fed with a read."""
    statement = file.tree.statement(read.call)
    places: list[cst.CSTNode] = [read.call]
    definition = held_in(file, read)
    places += file.flow.uses(definition) if definition is not None else ()
    if why_needed(file, read) is not None or _meters.metered_by(file, read) is not None:
        return True
    if stored_at(file, read.call) is not None:
        return True
    if isinstance(statement, cst.AugAssign) or any(is_kept(file, place) for place in places):
        return True
    return any(_is_summed(file, place) for place in places)


def _is_summed(file: FileFacts, place: cst.CSTNode) -> bool:
    statement = file.tree.statement(place)
    if isinstance(statement, cst.AugAssign):
        return True
    if not isinstance(statement, cst.Assign):
        return False
    targets = {file.code(target.target) for target in statement.targets}
    for node in walk(statement.value):
        is_read = file.flow.is_read(node) if isinstance(node, cst.Name) else isinstance(node, _PLACES)
        if is_read and file.code(node) in targets:
            return True
    return False
