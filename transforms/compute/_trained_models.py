"""The models that an optimizer trains, and where a script has them complete and on their device."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import insert_after_statement, insert_before_statement

_GIVES_PARAMETERS = frozenset({"parameters", "named_parameters"})
_MOVES = frozenset({"to", "cuda", "half", "float", "double", "apply", "load_state_dict", "train"})


@frozen
class Trained:
    """A model whose parameters an optimizer is given.

    Attributes:
        model: as it is written there: a name, or an attribute.
        optimizer: the call that makes the optimizer.
    """

    model: cst.BaseExpression
    optimizer: cst.Call


def trained_models(file: FileFacts) -> Iterator[Trained]:
    """The models of a file that optimizers train, each once."""
    seen: set[tuple[cst.CSTNode | None, str]] = set()
    for call in find_all(file.tree.module, cst.Call):
        for model in _given_to(file, call):
            key = file.tree.function(call), file.code(model)
            is_plain = isinstance(model, (cst.Name, cst.Attribute)) and key[1] != "self"
            if is_plain and key not in seen:
                seen.add(key)
                yield Trained(model, call)


def makes_optimizer(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call makes an optimizer of torch."""
    return (file.qualified(call) or "").startswith("torch.optim.") and file.value(call).kind is Kind.OPTIMIZER


def _given_to(file: FileFacts, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The models for which a call makes an optimizer; a model's own method may do that."""
    if makes_optimizer(file, call):
        for given in find_all(call, cst.Call):
            if isinstance(given.func, cst.Attribute) and given.func.attr.value in _GIVES_PARAMETERS:
                yield given.func.value
    elif isinstance(call.func, cst.Attribute) and "optim" in call.func.attr.value:
        method = file.values.calls.resolve(call)
        inner = find_all(method.body, cst.Call) if method is not None else ()
        if any(makes_optimizer(file, each) for each in inner):
            yield call.func.value


def classes_of(file: FileFacts, trained: Trained) -> frozenset[ClassFacts] | None:
    """The classes of a model and of its parts that are in sight; None where its own is not known."""
    cls = file.value(trained.model).cls
    if cls is None:
        return None
    found, waiting = {cls}, [cls]
    while waiting:
        for method in waiting.pop().methods.values():
            for call in find_all(method.body, cst.Call):
                part = file.values.calls.constructed(call)
                if part is not None and part not in found:
                    found.add(part)
                    waiting.append(part)
    return frozenset(found)


def behind_complete(file: FileFacts, trained: Trained, line: str) -> Edit:
    """Write a line where a model is complete: behind what made or moved it last, before its optimizer is made."""
    statement = file.tree.statement(trained.optimizer)
    block = file.tree.block(file.tree.line(statement))
    start, code = file.source.span(statement)[0], file.code(trained.model)
    last: cst.BaseStatement | None = None
    for each in block:
        if file.source.span(each)[0] >= start:
            break
        if isinstance(each, cst.SimpleStatementLine) and any(_completes(file, part, code) for part in each.body):
            last = each
    if last is not None:
        return insert_after_statement(file.source, last.body[-1], line)  # type: ignore[attr-defined]
    return insert_before_statement(file.source, statement, line)


def _completes(file: FileFacts, statement: cst.CSTNode, code: str) -> bool:
    """Whether a statement binds a model, or changes it in place by one of its methods."""
    if isinstance(statement, cst.Assign):
        return any(file.code(target.target) == code for target in statement.targets)
    call = statement.value if isinstance(statement, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return False
    return call.func.attr.value in _MOVES and file.code(call.func.value) == code
