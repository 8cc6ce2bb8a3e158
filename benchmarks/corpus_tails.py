"""Tails of transforms, `ToTensor, Normalize`, and the loops that they feed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from corpus_index import File, Index, last
from corpus_loaders import argument, drawn
from corpus_occurrence import Occurrence, occurrence
from corpus_steps import Steps


def tails(index: Index, steps: Steps, counted: Collection[File]) -> Iterator[Occurrence]:
    """The tails in the files that are counted, whose loaders all have a loop in sight, one of which trains."""
    composes = [(file, call) for file, call in index.calls.get("Compose", ()) if _has_tail(call) and file in counted]
    if not composes:
        return
    wanted = {call for _, call in composes}
    used: dict[ast.Call, list[tuple[File, ast.Call]]] = {call: [] for call in wanted}
    for file in index.files.values():
        for loader in (each for each in ast.walk(file.module) if isinstance(each, ast.Call)):
            if last(loader.func) == "DataLoader":
                for compose in _composes_of(index, file, loader, wanted):
                    used[compose].append((file, loader))
    looped: dict[ast.Call, list[bool]] = {}
    for file in index.files.values():
        for loop in (each for each in ast.walk(file.module) if isinstance(each, (ast.For, ast.AsyncFor, ast.While))):
            trains = loop in steps.loops.get(file, ())
            for source, _ in drawn(loop):
                for _, call in index.ends(file, source):
                    if isinstance(call, ast.Call) and last(call.func) == "DataLoader":
                        looped.setdefault(call, []).append(trains)
    for file, call in composes:
        loaders = used[call]
        seen = all(loader in looped for _, loader in loaders)
        if seen and any(any(looped[loader]) for _, loader in loaders) and not _used_directly(file, call):
            depends = frozenset((other.path, *other.place(loader.lineno)) for other, loader in loaders)
            yield occurrence(file, call, "tails", "Compose", ast.unparse(call), depends=depends)


def _has_tail(call: ast.Call) -> bool:
    parts = call.args[0].elts if call.args and isinstance(call.args[0], (ast.List, ast.Tuple)) else []
    names = [last(part.func) if isinstance(part, ast.Call) else "" for part in parts]
    return names[-2:] == ["ToTensor", "Normalize"]


def _composes_of(index: Index, file: File, loader: ast.Call, wanted: set[ast.Call]) -> set[ast.Call]:
    """The transforms of the datasets behind a loader."""
    dataset = argument(loader, "dataset", 0)
    found: set[ast.Call] = set()
    stack = [(file, dataset)] if dataset is not None else []
    seen: set[ast.AST] = set()
    while stack:
        where, node = stack.pop()
        for other, end in index.ends(where, node):
            if end in seen:
                continue
            seen.add(end)
            if end in wanted and isinstance(end, ast.Call):
                found.add(end)
            elif isinstance(end, ast.Call):
                stack += [(other, arg) for arg in (*end.args, *(each.value for each in end.keywords))]
            elif isinstance(end, (ast.List, ast.Tuple)):
                stack += [(other, part) for part in end.elts]
    return found


def _used_directly(file: File, compose: ast.Call) -> bool:
    """Whether the transform is called outside of a dataset, such as on a picture to be shown."""
    statement = file.parents.get(compose)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name = statement.targets[0].id
    scope = file.function(compose) or file.module
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
        for node in ast.walk(scope)
    )
