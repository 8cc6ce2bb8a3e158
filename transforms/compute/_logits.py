"""Edits that hand the logits to a loss in place of what was computed from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._activations import Activation, NotEqual, activation_of
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_unchanged
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import delete_statement, replace


def activations(file: FileFacts, calls: Sequence[cst.Call], kind: str) -> list[tuple[cst.Call, Activation]]:
    """The activation that each call of a loss is given; none, or all. Raises `NotEqual`."""
    given = [(call, activation_of(file, call, kind)) for call in calls]
    found = [(call, activation) for call, activation in given if activation is not None]
    other = next((call for call, activation in given if activation is None), None)
    if found and other is not None:
        raise NotEqual(f"the same loss is given something else on line {file.line(other)}")
    return found


def require_own(file: FileFacts, nodes: Sequence[cst.CSTNode]) -> None:
    """Raises `NotEqual` where one of several nodes stands in another file."""
    for node in nodes:
        if not file.is_own(node):
            raise NotEqual(f"the two operations are in different files: line {file.line(node)}")


def require_all_in_sight(file: FileFacts, made: cst.Call, calls: Sequence[cst.Call]) -> None:
    """Raises `NotEqual` where a loss module is used for anything but the calls that were found."""
    for use in file.handing.module_uses(made):
        parent = file.tree.parent(use)
        if not (isinstance(parent, cst.Call) and parent.func is use and parent in calls):
            raise NotEqual(f"the loss is used for something else on line {file.line(use)}")


def renamed_to(
    file: FileFacts, func: cst.BaseExpression, better: str, *, is_module: bool
) -> tuple[list[Edit], tuple[str, ...]]:
    if isinstance(func, cst.Attribute):
        return [replace(file.source, func.attr, better)], ()
    module, imports = file.names.spelled("torch.nn" if is_module else "torch.nn.functional", func)
    return [replace(file.source, func, f"{module}.{better}")], imports


def logits_for(file: FileFacts, calls: Sequence[cst.Call], loss: cst.Call, activation: Activation) -> Iterator[Edit]:
    """Puts the logits where the activation, or the variable that holds it, stands."""
    source = file.source
    definition, logits = activation.definition, activation.logits
    if definition is None or definition.value is None:
        yield _in_place(file, activation)
        return
    uses = file.flow.uses(definition)
    fed = [_input(other) for other in calls]
    rest = [use for use in uses if use not in fed]
    use = _input(loss)
    statement = file.tree.statement(definition.node)
    alone = isinstance(statement, cst.Assign) and len(statement.targets) == 1
    if rest and activation.call is definition.value and isinstance(logits, (cst.Name, cst.Attribute)):
        line = file.line(rest[0])
        if not source.code(loss.func).endswith(("binary_cross_entropy",)) and _is_log(file, activation):
            raise NotEqual(f"the log-probabilities are also used on line {line}, and would be computed twice")
        if not is_unchanged(file, logits, use):
            raise NotEqual(f"`{source.code(logits)}` has changed by the time the loss is computed")
        yield replace(source, use, source.code(logits))
    elif rest:
        raise NotEqual(f"the probabilities are also used on line {file.line(rest[0])}")
    elif alone and activation.call is definition.value and isinstance(logits, cst.Name):
        if logits.value == definition.name:
            yield from delete_statement(source, statement)
        elif all(is_unchanged(file, logits, each) for each in uses):
            yield from delete_statement(source, statement)
            yield replace(source, use, logits.value)
        else:
            yield _in_place(file, activation)
    else:
        yield _in_place(file, activation)


def _in_place(file: FileFacts, activation: Activation) -> Edit:
    """Replaces the activation by its argument."""
    code = file.whole_code(activation.logits)
    around = file.tree.parent(activation.call)
    simple = isinstance(activation.logits, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or activation.logits.lpar
    return replace(
        file.source, activation.call, code if simple or not isinstance(around, cst.Attribute) else f"({code})"
    )


def _is_log(file: FileFacts, activation: Activation) -> bool:
    code = file.code(activation.call)
    return "log" in code.lower()


def _input(loss: cst.Call) -> cst.BaseExpression:
    named = next((arg.value for arg in loss.args if arg.keyword is not None and arg.keyword.value == "input"), None)
    return named if named is not None else loss.args[0].value
