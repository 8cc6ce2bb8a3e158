"""Training steps of a tree, by names alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence

from corpus_index import File, Function, Index, Loop, last

BACKWARD = frozenset({"backward", "manual_backward", "optimize_parameters", "training_step"})
"""Methods that run a backward pass."""


class Steps:
    """Training steps of a tree.

    Attributes:
        training: functions that run one backward pass whenever they are called, not in a loop of theirs.
        loops: the training loops of every file.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.training: set[ast.AST] = set()
        self.loops: dict[File, list[Loop]] = {}
        files = [
            file for file in index.files.values() if re.search(r"backward|optimize_parameters|training_step", file.text)
        ]
        functions = [(file, function) for group in index.functions.values() for file, function in group]
        changed = True
        while changed:
            changed = False
            for file, function in functions:
                if function not in self.training and self._once(file, function.body):
                    self.training.add(function)
                    changed = True
        reaching = {file for file, function in functions if function in self.training}
        for file in index.files.values():
            if file in reaching or file in files or self._imports_training(file):
                self.loops[file] = [
                    node
                    for node in ast.walk(file.module)
                    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and self._once(file, node.body)
                ]

    def regions(self, file: File) -> Iterator[Sequence[ast.stmt]]:
        """The bodies of the steps of a file, and of the functions of the file that they call; each once."""
        loops = self.loops.get(file, [])
        bodies: dict[ast.AST, Sequence[ast.stmt]] = {loop: loop.body for loop in loops}
        for node in ast.walk(file.module):
            if node in self.training and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                bodies[node] = node.body
        stack = list(bodies.values())
        while stack:
            for call in calls_in(stack.pop()):
                for target, function in self.index.called(file, call):
                    if target is file and function not in bodies:
                        bodies[function] = function.body
                        stack.append(function.body)
        inner = {id(node) for body in bodies.values() for statement in body for node in ast.walk(statement)}
        for owner, body in bodies.items():
            if id(owner) not in inner:
                yield body

    def _once(self, file: File, body: Sequence[ast.stmt]) -> bool:
        for call in calls_in(body, into_loops=False):
            name = last(call.func)
            if name in BACKWARD and isinstance(call.func, ast.Attribute):
                return True
            if name == "loss_scaler" and len(call.args) > 1:
                return True
            if any(function in self.training for _, function in self.index.called(file, call)):
                return True
        return False

    def _imports_training(self, file: File) -> bool:
        names = {function.name for function in self.training if isinstance(function, Function)}
        return any(name.rpartition(".")[2] in names for name in file.imports.values()) or any(
            last(call.func) in names for call in calls_in(file.module.body)
        )


def calls_in(body: Iterable[ast.AST], *, into_loops: bool = True) -> Iterator[ast.Call]:
    """Calls in statements, not in functions or classes defined there; nor, on demand, in loops."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and not into_loops:
            continue
        stack.extend(ast.iter_child_nodes(node))
