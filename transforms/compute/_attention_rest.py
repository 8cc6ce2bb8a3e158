"""What goes along with attention that is replaced, and what forbids to replace it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.compute._attention import Attention
from perfmod.transforms.compute._attention_products import Stays
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.masks import is_unchanged, names
from perfmod.transforms.facts.tree import Statement, find_all, is_true

_IDLE = ("torch.", "math.", "numpy.", "builtins.")
_DRAWS = ("rand", "dropout", "bernoulli", "normal", "print", "input", "open", "next")
_TRANSFORMS = ("torch.func.", "torch.autograd.functional.", "functorch.")


def require_replaceable(file: FileFacts, whole: Attention, kept: Sequence[cst.BaseExpression]) -> None:
    """Raises `Stays` where the code of tensors would mean something else at the end, or somebody needs the steps."""
    output = whole.output.node
    end = file.tree.statement(output)
    block = file.tree.parent(file.tree.line(end))
    for statement in whole.gone:
        if file.tree.parent(file.tree.line(statement)) is not block:
            raise Stays(f"line {file.line(statement)} stands in another block than the product with the values")
    for node in kept:
        if not is_unchanged(file, node, output, besides=whole.gone) and not file.tree.is_within(node, output):
            raise Stays(
                f"`{file.code(node)}` has changed by the time the values are multiplied on line {file.line(output)}"
            )
    for read in whole.described:
        is_gone = any(file.tree.is_within(read, statement) for statement in whole.gone)
        if not is_gone or any(file.tree.is_within(read, node) for node in kept):
            raise Stays(f"the scores are used again on line {file.line(read)}")
    for twice in file.once(_differentiated_twice):
        raise Stays(f"line {file.line(twice)} differentiates twice, which the fused kernels do not support")
    if _is_double(file, output):
        raise Stays("it is computed in float64, for which there is no fused kernel")
    for module in whole.modules:
        _require_only_called(file, module)


def _require_only_called(file: FileFacts, module: cst.BaseExpression) -> None:
    """Raises `Stays` where a module that is no longer called is used otherwise, as where a hook watches it."""
    own = file.classes.self_attribute(module)
    if own is None or not isinstance(module, cst.Attribute):
        return
    for read in file.tree.all(cst.Attribute):
        if read.attr.value != own[1] or read is module or file.tree.is_target(read):
            continue
        parent = file.tree.parent(read)
        reader = file.classes.self_attribute(read)
        if reader is not None and reader[0] is not own[0] and own[0] not in reader[0].lineage():
            continue
        if not (isinstance(parent, cst.Call) and parent.func is read):
            raise Stays(f"`{file.code(read)}` is used for something else on line {file.line(read)}")


def _differentiated_twice(file: FileFacts) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = [
        arg
        for arg in file.tree.all(cst.Arg)
        if arg.keyword is not None and arg.keyword.value == "create_graph" and is_true(arg.value)
    ]
    return found + [call for call in file.tree.all(cst.Call) if (file.qualified(call) or "").startswith(_TRANSFORMS)]


def _is_double(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether the function or class around shows that it computes in float64."""
    if not file.values.uses_double():
        return False
    around = [each for each in file.tree.ancestors(node) if isinstance(each, (cst.FunctionDef, cst.ClassDef))]
    words = {name.value for name in find_all(around[-1] if around else file.tree.module, cst.Name)}
    everywhere = {name.value for name in file.tree.all(cst.Name)}
    return bool(words & {"double", "float64"} or everywhere & {"set_default_dtype", "set_default_tensor_type"})


def orphans(file: FileFacts, whole: Attention, kept: Sequence[cst.CSTNode]) -> Iterator[Statement]:
    """Assignments of variables that only what goes has read, and that do nothing else."""
    gone: list[cst.CSTNode] = [*whole.gone, whole.output.node]
    waiting = [name for node in gone for name in names(file, node)]
    while waiting:
        for definition in file.flow.definitions(waiting.pop()):
            statement = file.tree.statement(definition.node)
            uses = file.flow.uses(definition)
            is_read = any(
                not any(file.tree.is_within(use, node) for node in gone)
                or any(file.tree.is_within(use, node) for node in kept)
                for use in uses
            )
            is_gone = any(file.tree.is_within(statement, node) for node in gone)
            if is_gone or is_read or not _is_idle(file, definition, statement):
                continue
            gone.append(statement)
            yield statement
            waiting += names(file, statement)


def _is_idle(file: FileFacts, definition: Definition, statement: Statement) -> bool:
    """Whether a statement does nothing but to bind a variable of its function."""
    value = definition.value
    is_plain = isinstance(statement, cst.Assign) and len(statement.targets) == 1 and not definition.path
    if not is_plain or definition.binding is not Binding.ASSIGNED or value is None:
        return False
    if not isinstance(definition.scope, cst.FunctionDef) or any(True for _ in find_all(value, cst.NamedExpr)):
        return False
    return all(_only_computes(file, call) for call in find_all(value, cst.Call))


def _only_computes(file: FileFacts, call: cst.Call) -> bool:
    name = file.qualified(call)
    if name is not None:
        return name.startswith(_IDLE) and not name.rpartition(".")[2].startswith(_DRAWS)
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    return method in ("size", "dim", "to", "bool", "float", "unsqueeze", "view", "exp")


def runs(file: FileFacts, statements: Sequence[Statement]) -> list[list[Statement]]:
    """Statements in order, those that stand next to each other together."""
    found: list[list[Statement]] = []
    last: cst.BaseStatement | None = None
    for statement in sorted(set(statements), key=file.tree.place):
        line = file.tree.line(statement)
        block = file.tree.block(line)
        is_next = last in block and block.index(line) == block.index(last) + 1 if last is not None else False
        is_apart = bool(getattr(line, "leading_lines", ()))
        if is_next and not is_apart:
            found[-1].append(statement)
        else:
            found.append([statement])
        last = line
    return found
