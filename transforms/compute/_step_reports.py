"""The lines among those of a step that only report, and can do so behind it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import libcst as cst

from perfmod.transforms.compute._reached import OF_TENSORS, reached, targets_of
from perfmod.transforms.compute._recordable import obstacle, outputs_of
from perfmod.transforms.compute._step_calls import ASKED, MAKES, MOVES, STILL, bound_names, calls_method, made_at, owner
from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, dotted
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Kind

_MODES = frozenset({"train", "eval", "zero_grad", "parameters"})
_REPORTS = frozenset({"item", "detach", "append", "update", "size", "mean", "sum", "add_scalar"})
_REPORTS_OF_TENSORS = _REPORTS - {"append", "update", "add_scalar", "size"}


def report_places(
    file: FileFacts, lines: Sequence[cst.BaseStatement], core: Sequence[int], brought: Container[cst.CSTNode]
) -> set[int]:
    """The places of the lines that can stay behind the step, in their order."""
    found: set[int] = set()
    for index in reversed([i for i in range(core[-1]) if i not in core]):
        behind = [lines[i] for i in range(index + 1, core[-1] + 1) if i not in found]
        if _stays_behind(file, lines[: index + 1], behind, brought):
            found.add(index)
    return found


def _stays_behind(
    file: FileFacts,
    above: Sequence[cst.BaseStatement],
    behind: Sequence[cst.BaseStatement],
    brought: Container[cst.CSTNode],
) -> bool:
    """Whether the last of some lines waits for a figure or adds one up, and can do so behind those of the step."""
    line = above[-1]
    is_sum = isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.AugAssign)
    if not is_sum and obstacle(file, line, brought) is None:
        return False
    is_among = any(computes(file, each) for each in above[:-1])
    return is_among and _only_reports(file, line, above[:-1], behind)


def computes(file: FileFacts, line: cst.BaseStatement) -> bool:
    """Whether a line runs a model with a history that a backward pass needs."""
    if isinstance(line, cst.With) and any("no_grad" in file.code(item.item) for item in line.items):
        return False
    read = [*find_all(line, cst.Name), *find_all(line, cst.Attribute)]
    models = (each for each in read if file.value(each).when_used.kind is Kind.MODULE and _is_run(file, each))
    return any(not _is_without_weights(file.value(each).when_used.cls) for each in models)


def _is_without_weights(cls: ClassFacts | None) -> bool:
    """Whether a module in sight holds nothing but buffers, as one that normalises images: its results have no history.

    The recorder looks at each tensor it is given, and does not record a step that is given one with a history.
    """
    if cls is None or cls.bases != ("torch.nn.Module",) or cls.parents or cls.children:
        return False
    calls = [call for call in find_all(cls.node, cst.Call) if dotted(call.func).startswith("self.")]
    own = [target for node in walk(cls.node) for target in targets_of(node) if isinstance(target, cst.Attribute)]
    return bool(calls) and not own and all(calls_method(call, "register_buffer") for call in calls)


def _is_run(file: FileFacts, model: cst.CSTNode) -> bool:
    """Whether a model is called, or given to something; its attributes and its mode are not looked at."""
    parent = file.tree.parent(model)
    if not isinstance(parent, cst.Attribute):
        return isinstance(parent, (cst.Call, cst.Arg))
    around = file.tree.parent(parent)
    return isinstance(around, cst.Call) and around.func is parent and parent.attr.value not in _MODES


def _only_reports(
    file: FileFacts,
    line: cst.BaseStatement,
    above: Sequence[cst.BaseStatement],
    behind: Sequence[cst.BaseStatement],
) -> bool:
    """Whether a line can as well run behind some others: it reads tensors that they leave alone, for a report."""
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    read = [name for name in find_all(line, cst.Name) if file.flow.is_read(name)]
    if any(file.value(name).kind in STILL for name in read) or not all(map(_is_report(file), find_all(line, cst.Call))):
        return False
    own, later = bound_names(file, [line]), bound_names(file, behind)
    if any(each.attr.value == "grad" for each in find_all(line, cst.Attribute)):
        return False
    if not all(name.value in own or _is_of_round(file, name, above) for name in read):
        return False
    used = {name.value for each in behind for name in find_all(each, cst.Name)}
    objects = [name for name in read if file.value(name).kind is Kind.INSTANCE]
    if not all(_is_left_alone(file, name, behind) for name in objects):
        return False
    others = [name for name in read if name not in objects]
    changes = [use for name in others for d in file.flow.definitions(name) for use in file.aliasing.mutations(d)]
    return (
        own.isdisjoint(used)
        and later.isdisjoint(name.value for name in read)
        and not any(file.tree.is_within(change, each) for change in changes for each in behind)
    )


def _is_of_round(file: FileFacts, name: cst.Name, above: Sequence[cst.BaseStatement]) -> bool:
    """Whether a name, or the attribute that is read of it, is no tensor that the lines behind may know otherwise.

    A parameter, a statistic of a layer or a running average has more names than one: only what the lines above have
    computed is left alone by all that do not name it.
    """
    read: cst.BaseExpression = name
    parent = file.tree.parent(name)
    if file.value(name).kind is Kind.INSTANCE and isinstance(parent, cst.Attribute):
        read, parent = parent, file.tree.parent(parent)
    is_asked = isinstance(parent, cst.Attribute) and parent.attr.value in _REPORTS_OF_TENSORS
    is_size = isinstance(parent, cst.Attribute) and parent.attr.value in ASKED - {"item", "tolist", "cpu"}
    if is_size or (not file.value(read).is_tensor and not is_asked):
        return True
    if isinstance(read, cst.Attribute):
        return any(file.code(each) == file.code(read) for line in above for each in outputs_of(file, line))
    return all(_is_computed(file, each, above) for each in file.flow.definitions(name))


def _is_computed(file: FileFacts, made: Definition, above: Sequence[cst.BaseStatement]) -> bool:
    """Whether lines compute what a name stands for, in their own code or in functions that they run."""
    if made.binding is Binding.LOOPED:
        return True  # a batch, which nothing but its own lines know
    if made.value is None or not any(file.tree.is_within(made.node, line) for line in above):
        return False
    moved = owner(made.value) if isinstance(made.value, cst.Call) and calls_method(made.value, *MOVES) else None
    if isinstance(moved, cst.Name):
        return all(_is_computed(file, each, above) for each in file.flow.definitions(moved) if each is not made)
    run = {function for line in above for function in reached(file, line)}
    for end in made_at(file, made):
        is_here = any(file.tree.is_within(end.node, line) for line in above) or file.tree.function(end.node) in run
        if end.path[:1] != (None,) and not (isinstance(end.node, MAKES) and is_here):
            return False
    return True


def _is_left_alone(file: FileFacts, name: cst.Name, behind: Sequence[cst.BaseStatement]) -> bool:
    """Whether lines, and what they call, do not mention the attribute of an object that is read: `self.losses`."""
    read = file.tree.parent(name)
    if not isinstance(read, cst.Attribute):
        return False
    code = [*behind, *(function for line in behind for function in reached(file, line))]
    return not any(each.attr.value == read.attr.value for part in code for each in find_all(part, cst.Attribute))


def _is_report(file: FileFacts) -> Callable[[cst.Call], bool]:
    def is_report(call: cst.Call) -> bool:
        is_of_tensor = calls_method(call, *OF_TENSORS) and file.value(owner(call)).is_tensor
        return is_of_tensor or calls_method(call, *_REPORTS) or (file.qualified(call) or "").startswith("builtins.")

    return is_report
