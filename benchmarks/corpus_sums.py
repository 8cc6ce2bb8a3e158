"""Sums, lists and meters that a training step feeds with scalars of the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from corpus_index import File, last
from corpus_occurrence import Occurrence, occurrence
from corpus_steps import BACKWARD, Steps

_NO_METER = re.compile(r"pbar|bar$|tqdm|progress|task|scaler|writer|logger|optim", re.IGNORECASE)


def sums(file: File, steps: Steps) -> Iterator[Occurrence]:
    """The statements of the steps of a file that are fed with scalars, unless they are gated."""
    done: set[int] = set()
    for body in steps.regions(file):
        nodes = [node for statement in body for node in ast.walk(statement)]
        losses = {
            ast.unparse(call.func.value)
            for call in nodes
            if isinstance(call, ast.Call) and last(call.func) in BACKWARD and isinstance(call.func, ast.Attribute)
        }
        losses |= {
            ast.unparse(arg)
            for call in nodes
            if isinstance(call, ast.Call) and last(call.func) in ("backward", "loss_scaler", "manual_backward", "scale")
            for arg in call.args[:1]
        }
        read_into = {
            target.id: node.lineno
            for node in nodes
            if isinstance(node, ast.Assign) and len(node.targets) == 1
            for target in node.targets
            if isinstance(target, ast.Name) and any(_is_read(each, losses) for each in _on_cuda(node.value))
        }
        for node in nodes:
            parts = _fed(node)
            if parts is None or id(node) in done:
                continue
            form, target, values = parts
            inside = [each for value in values for each in _on_cuda(value)]
            through = [n.id for n in inside if isinstance(n, ast.Name) and n.id in read_into]
            if any(_is_read(each, losses) for each in inside):
                also: frozenset[int] = frozenset()
            elif through and target not in through:
                also = frozenset(file.place(read_into[name])[1] for name in through)
            else:
                continue
            if not _gated(file, node, body):
                done.add(id(node))
                is_read = any(_reads(file, each, target) and not _gated(file, each, body) for each in nodes)
                yield occurrence(file, node, "sums", form, f"{form} {target}", also=also, is_read=is_read)


def _reads(file: File, node: ast.AST, target: str) -> bool:
    """Whether a node reads what sums, lists and meters keep, and not only to feed or empty it."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or not isinstance(node.ctx, ast.Load):
        return False
    if ast.unparse(node) != target:
        return False
    parent = file.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in ("append", "update", "add", "push", "reset")
    statement = next((each for each in (parent, *file.ancestors(node)) if isinstance(each, ast.stmt)), None)
    fed = _fed(statement) if statement is not None else None
    return fed is None or fed[1] != target


def _on_cuda(value: ast.expr) -> Iterator[ast.AST]:
    """What is computed where tensors are on a GPU: of `a if x.is_cuda else b` the first."""
    stack: list[ast.AST] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.IfExp) and last(node.test) == "is_cuda":
            stack.append(node.body)
            continue
        yield node
        stack.extend(ast.iter_child_nodes(node))


def _is_read(node: ast.AST, losses: set[str]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        name, owner = node.func.attr, node.func.value
        if name == "item":
            return not node.args
        return name in ("numpy", "tolist") and any(
            ast.unparse(each) in losses for each in ast.walk(owner) if _is_name(each)
        )
    is_conversion = isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1
    return is_conversion and ast.unparse(node.args[0]) in losses


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute))


def _fed(node: ast.AST) -> tuple[str, str, Sequence[ast.expr]] | None:
    """Form, target and values of a statement or call that keeps a scalar."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        form = "append" if isinstance(node.value, ast.List) else "sum"
        return form, ast.unparse(node.target), [node.value]
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
        target = ast.unparse(node.targets[0])
        own = [each for each in _terms(node.value) if ast.unparse(each) == target]
        if own and isinstance(node.value.op, ast.Add):
            return "sum", target, [node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = ast.unparse(node.func.value)
        if node.func.attr == "append" and len(node.args) == 1:
            return "append", owner, node.args
        if node.func.attr in ("update", "add", "push") and not _NO_METER.search(owner):
            return "meter", owner, [*node.args, *(keyword.value for keyword in node.keywords)]
        if node.func.attr == "update" and re.search(r"metric_logger|MetricLogger", owner):
            return "meter", owner, [*node.args, *(keyword.value for keyword in node.keywords)]
    return None


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _gated(file: File, node: ast.AST, body: Sequence[ast.stmt]) -> bool:
    """Whether a modulo is tested before the node, or it handles an exception."""
    child = node
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, ast.ExceptHandler):
            return True
        if (
            isinstance(ancestor, (ast.If, ast.IfExp))
            and child is not ancestor.test
            and _tests_modulo(file, ancestor.test)
        ):
            return True
        if any(child is statement for statement in body):
            return False
        child = ancestor
    return False


def _tests_modulo(file: File, test: ast.expr) -> bool:
    function = file.function(test) or file.module
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        if isinstance(node, ast.Name):
            values = [value for value, path in file.assigned.get((function, node.id), ()) if not path]
            if any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for value in values for n in ast.walk(value)):
                return True
    return False
