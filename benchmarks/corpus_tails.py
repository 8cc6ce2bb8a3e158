"""Tails of transforms, `ToTensor, Normalize`, and the loops that they feed.

A tail is a list of transforms, literally given to a `Compose`, whose last two are called `ToTensor` and `Normalize`,
written there or behind a variable.

Its loops are **all visible** where everything that its images come to stands in the tree:

- it is given to at least one dataset, and every call on its way into a loader is known by name: a class or a function
  of the tree, or one of torch, torchvision or Python. A class that is computed (`eval(...)`, `getattr(...)`) or comes
  from another library may do anything with it;
- it is not called itself on pictures that no dataset reads, such as one to be shown;
- every loader of these datasets has a loop in the tree, and one of the loops trains;
- none of these loaders is also given to code of others (`trainer.fit(loader)`), nor is a whole batch, as it comes out
  of the loop.

None of this asks what perfmod can do with it: what the loop does with the images before it copies them, how the
dataset reads them, and how often the same code serves other loaders, makes no difference to what counts.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator

from corpus_index import WRAPPERS, File, Index, last
from corpus_loaders import argument, drawn
from corpus_occurrence import Occurrence, occurrence
from corpus_steps import Steps

_KNOWN = frozenset({"torch", "torchvision", *dir(builtins)}) - {"eval", "getattr", "exec", "globals", "locals"}
Loader = tuple[File, ast.Call]


def tails(index: Index, steps: Steps, counted: Collection[File]) -> Iterator[Occurrence]:
    """The tails in the files that are counted, whose loops are all visible."""
    composes = index.calls.get("Compose", ())
    found = [(file, call) for file, call in composes if file in counted and _is_tail(index, file, call)]
    if not found:
        return
    wanted = {call for _, call in found}
    used: dict[ast.Call, list[Loader]] = {call: [] for call in wanted}
    hidden: set[ast.Call] = set()
    """Tails that come to a loader by way of code that is not known."""
    for file, loader in index.calls.get("DataLoader", ()):
        for compose, is_known in _composes_of(index, file, loader, wanted):
            used[compose].append((file, loader))
            if not is_known:
                hidden.add(compose)
    looped = _looped(index, steps)
    seen = [
        (file, call)
        for file, call in found
        if call not in hidden
        and all(loader in looped for _, loader in used[call])
        and any(any(looped[loader]) for _, loader in used[call])
        and not _used_directly(file, call)
    ]
    elsewhere = _given_away(index, {loader for _, call in seen for _, loader in used[call]})
    for file, call in seen:
        if not any(loader in elsewhere for _, loader in used[call]):
            depends = frozenset((other.path, *other.place(loader.lineno)) for other, loader in used[call])
            yield occurrence(file, call, "tails", "Compose", ast.unparse(call), depends=depends)


def _is_tail(index: Index, file: File, call: ast.Call) -> bool:
    steps = argument(call, "transforms", 0)
    parts = steps.elts[-2:] if isinstance(steps, (ast.List, ast.Tuple)) else []
    return [_made(index, file, part) for part in parts] == ["ToTensor", "Normalize"]


def _made(index: Index, file: File, part: ast.expr) -> str:
    """The name of the class that makes a step, also of one behind a variable."""
    if isinstance(part, ast.Name):
        names = {last(end.func) if isinstance(end, ast.Call) else "" for _, end in index.ends(file, part)}
        return names.pop() if len(names) == 1 else ""
    return last(part.func) if isinstance(part, ast.Call) else ""


def _composes_of(index: Index, file: File, loader: ast.Call, wanted: set[ast.Call]) -> Iterator[tuple[ast.Call, bool]]:
    """The transforms of the datasets behind a loader, and whether all calls on the way are known."""
    dataset = argument(loader, "dataset", 0)
    stack = [(file, dataset, True)] if dataset is not None else []
    seen: set[ast.AST] = set()
    while stack:
        where, node, is_known = stack.pop()
        for other, end in index.ends(where, node):
            if end in seen:
                continue
            seen.add(end)
            if end in wanted and isinstance(end, ast.Call):
                yield end, is_known
            elif isinstance(end, ast.Call):
                known = is_known and _is_known(index, other, end)
                stack += [(other, arg, known) for arg in (*end.args, *(each.value for each in end.keywords))]
            elif isinstance(end, (ast.List, ast.Tuple)):
                stack += [(other, part, is_known) for part in end.elts]


def _is_known(index: Index, file: File, call: ast.Call) -> bool:
    """Whether what is called stands in the tree, or belongs to torch, torchvision or Python."""
    name = last(call.func)
    if name in index.classes or index.called(file, call):
        return True
    return file.dotted(call.func).partition(".")[0] in _KNOWN


def _is_foreign(index: Index, file: File, call: ast.Call) -> bool:
    """Whether a function of another library is called, or a method of what one made; those of the tree's own are not,
    nor what cannot be told.
    """
    if _is_known(index, file, call):
        return False
    root = call.func
    while isinstance(root, (ast.Attribute, ast.Call)):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    if not isinstance(root, ast.Name):
        return False
    if root.id in file.imports:
        return True
    makers = [(other, end) for other, end in index.ends(file, root) if isinstance(end, ast.Call)]
    return any(not _is_known(index, other, end) for other, end in makers)


def _looped(index: Index, steps: Steps) -> dict[ast.Call, list[bool]]:
    """The loaders that loops draw from, and for each loop whether it trains."""
    looped: dict[ast.Call, list[bool]] = {}
    for file in index.files.values():
        for loop in (each for each in ast.walk(file.module) if isinstance(each, (ast.For, ast.AsyncFor, ast.While))):
            trains = loop in steps.loops.get(file, ())
            for source, _ in drawn(loop):
                for _, call in index.ends(file, source):
                    if isinstance(call, ast.Call) and last(call.func) == "DataLoader":
                        looped.setdefault(call, []).append(trains)
    return looped


def _given_away(index: Index, loaders: Collection[ast.Call]) -> set[ast.Call]:
    """The loaders that code of others is given, or whose whole batches are."""
    found: set[ast.Call] = set()
    for file in index.files.values() if loaders else ():
        batches = _batches(index, file, loaders)
        for call in (each for each in ast.walk(file.module) if isinstance(each, ast.Call)):
            if last(call.func) in WRAPPERS or not _is_foreign(index, file, call):
                continue
            for arg in (*call.args, *(each.value for each in call.keywords)):
                if isinstance(arg, ast.Name):
                    found |= batches.get((file.function(arg), arg.id), set())
                if isinstance(arg, (ast.Name, ast.Attribute, ast.Subscript)):
                    found |= {end for _, end in index.ends(file, arg) if isinstance(end, ast.Call) and end in loaders}
    return found


def _batches(
    index: Index, file: File, loaders: Collection[ast.Call]
) -> dict[tuple[ast.AST | None, str], set[ast.Call]]:
    """The names that hold whole batches, by function, and the loaders that they come from."""
    found: dict[tuple[ast.AST | None, str], set[ast.Call]] = {}
    for loop in (each for each in ast.walk(file.module) if isinstance(each, (ast.For, ast.AsyncFor))):
        numbered = isinstance(loop.iter, ast.Call) and last(loop.iter.func) == "enumerate"
        target = loop.target
        if numbered and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            target = target.elts[1]
        if isinstance(target, ast.Name):
            from_ = {end for _, end in index.ends(file, loop.iter) if isinstance(end, ast.Call) and end in loaders}
            if from_:
                found.setdefault((file.function(target), target.id), set()).update(from_)
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
