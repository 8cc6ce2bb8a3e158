"""Sums, lists and meters that a training step feeds with scalars of the device.

A sum is **ungated** where each step comes by it: no `if` that tests a modulo and no `except` stands around it in the
step. An ungated sum counts for the reach unless the step **needs the number** every time, whatever a rewrite does:

- it reads what the sum adds up to: for a progress bar, a print, a log, a condition, as an operand of something else;
- it uses the scalar itself for more than sums: hands it to a call (a print, a guard against NaN), or tests it.

Where the step goes through batches itself, as an evaluation does, each of these is a step.

Such a number has to be on the host in every step, so that no rewrite without another report saves the wait. What reads
or uses the number only behind a modulo, or behind the loop, does not make it needed; nor does an `if` that asks for a
rank or an option, since there all steps of one process come by: that makes it needed. All of this is told from the
syntax of the step alone, and so independently of what perfmod makes of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from corpus_index import File, last
from corpus_occurrence import Occurrence, occurrence
from corpus_steps import BACKWARD, Steps

_NUMBERS = frozenset({"float", "int", "round"})
_TESTS_OF_TYPE = frozenset({"isinstance", "is_tensor"})
_BATCHES = re.compile(r"loader|batch|iter", re.IGNORECASE)
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
        assigned = _assigned(nodes)
        for node in nodes:
            parts = _fed(node)
            if parts is None or id(node) in done or _gated(file, node, body):
                continue
            form, target, values = parts
            inside = [each for value in values for each in _on_cuda(value)]
            scalars = {ast.unparse(each) for each in inside if _is_read(each, losses)}
            also: frozenset[int] = frozenset()
            if not scalars:
                held = {n.id: _last_value(n, assigned) for n in inside if isinstance(n, ast.Name)}
                through = {
                    name: statement
                    for name, statement in held.items()
                    if statement is not None
                    and not _gated(file, statement, body)
                    and any(_is_read(each, losses) for each in _on_cuda(statement.value))
                }
                if not through or target in through:
                    continue
                also = frozenset(file.place(statement.lineno)[1] for statement in through.values())
                scalars = set(through)
            done.add(id(node))
            needed = any(
                (_reads(file, each, target) or _uses(file, each, scalars)) and not _gated(file, each, body)
                for each in _round(file, node, body)
            )
            yield occurrence(file, node, "sums", form, f"{form} {target}", also=also, is_needed=needed)


def _round(file: File, node: ast.AST, body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """What runs with a node each time: the round of a loop over batches in the step, or else the step."""
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, ast.For) and _BATCHES.search(ast.unparse(ancestor.iter)):
            body = ancestor.body
            break
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)) or any(ancestor is each for each in body):
            break
    return (each for statement in body for each in ast.walk(statement))


def _assigned(nodes: Sequence[ast.AST]) -> dict[str, list[ast.Assign]]:
    """The plain assignments of names in a step."""
    found: dict[str, list[ast.Assign]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node)
    return found


def _last_value(name: ast.Name, assigned: dict[str, list[ast.Assign]]) -> ast.Assign | None:
    """The last assignment of a name above its use."""
    above = [each for each in assigned.get(name.id, ()) if each.lineno < name.lineno]
    return max(above, key=lambda each: each.lineno, default=None)


def _uses(file: File, node: ast.AST, scalars: set[str]) -> bool:
    """Whether a scalar that feeds a sum stands where the step needs its number for something else than sums."""
    if not isinstance(node, (ast.Call, ast.Name)) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)):
        return False
    if ast.unparse(node) not in scalars:
        return False
    child = node
    is_used = False
    for ancestor in file.ancestors(node):
        if _fed(ancestor) is not None or (isinstance(ancestor, ast.Call) and last(ancestor.func) in _TESTS_OF_TYPE):
            return False
        is_used |= isinstance(ancestor, (ast.Compare, ast.FormattedValue)) or (
            isinstance(ancestor, ast.Call) and child is not ancestor.func and last(ancestor.func) not in _NUMBERS
        )
        is_used |= isinstance(ancestor, (ast.If, ast.While, ast.IfExp, ast.Assert)) and child is ancestor.test
        if isinstance(ancestor, ast.stmt):
            break
        child = ancestor
    return is_used


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
        is_dictionary = any(isinstance(arg, ast.Dict) for arg in node.args)
        if node.func.attr in ("update", "add", "push") and not _NO_METER.search(owner) and not is_dictionary:
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
