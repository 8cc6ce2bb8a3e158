"""What there is to rewrite in a tree, counted from its syntax alone.

Four kinds of occurrences are counted in the Python files and notebooks of a tree, by `corpus_index.py`, which shares no
code with perfmod:

**sums**: a statement of a training step that adds a device scalar to something (`+=`, or `x = x + ...`), appends it to
a list, or hands it to a meter's `update`, `add` or `push`. A device scalar is `.item()` of anything; `float(...)` and
`.numpy()` of what the step runs `backward` on; and a variable that the step assigned from one. What stands behind an
`if` that tests a modulo, or in an `except`, is not counted, nor is `.data[0]`, which torch refuses since 0.5, nor what
is computed only where a tensor is not on a GPU (`... if x.is_cuda else x.item()`).

**moves**: a `.to(...)` or `.cuda(...)` of a batch or of a part of it, in the loop of a training step, whose loader can
be found by following names: through `enumerate`, `tqdm` and the like, parameters, callers, attributes and functions
that return loaders. Non-blocking copies of pinned batches are not counted.

**loaders**: a construction of `torch.utils.data.DataLoader` without workers (absent, or 0) or without pinning (absent,
or False). Where keywords come out of a dictionary that cannot be found, what it may hold is not counted as missing.

**tails**: a list of transforms, literally given to a `Compose`, that ends with `ToTensor(), Normalize(...)`, where the
loaders of the datasets that use it can be found and each has a loop in sight, at least one of which trains.

A training step is the body of the innermost loop that runs `backward`, itself or by calling a function of the tree that
does; or a function that does, where no such loop is found; with all functions of its file that it calls. A file counts
only if it, or one that it imports or that imports it, names a device (`cuda`, `device`, `accelerat`, `fabric`).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen
from corpus_index import File, Function, Index, Loop, last

MEASURES = ("sums", "moves", "loaders", "tails")

_BACKWARD = frozenset({"backward", "manual_backward", "optimize_parameters", "training_step"})
_DEVICE = re.compile(r"cuda|device|accelerat|[Ff]abric")
_NO_METER = re.compile(r"pbar|bar$|tqdm|progress|task|scaler|writer|logger|optim", re.IGNORECASE)
_LOADERS = re.compile(r"Loader$")
_TORCH_LOADER = re.compile(r"^(torch\.utils\.data(\.dataloader)?\.|utils\.data\.|data\.|torchdata\.|td\.)?DataLoader$")
_STRIPPED = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "non_blocking")


@frozen
class Occurrence:
    """One place.

    Attributes:
        measure: one of `MEASURES`.
        form: how it is written, for the tables: `sum`, `append`, `meter`; `to`, `cuda`; the class of the loader.
        path, cell, line, end: where it is; lines of the cell in a notebook.
        also: further lines that belong to it, such as the one where the scalar is read.
        scope: the classes and functions around it.
        key: what it is, in a way that survives rewriting it: occurrences with the same key in the rewritten tree are
            still there.
        code: the code, in one line.
        lacks: what is missing at it: `workers`, `pinning`, `non_blocking`.
        depends: for moves, the places of the loaders' constructions; path, cell and line.
    """

    measure: str
    form: str
    path: str
    cell: int
    line: int
    end: int
    scope: str
    key: str
    code: str
    also: frozenset[int] = frozenset()
    lacks: frozenset[str] = frozenset()
    depends: frozenset[tuple[str, int, int]] = frozenset()


def survey(index: Index) -> list[Occurrence]:
    """All occurrences of a tree, those of the same key numbered."""
    steps = _Steps(index)
    found: list[Occurrence] = []
    for file in index.files.values():
        if not _names_device(index, file):
            continue
        found += _sums(file, steps)
        found += _moves(index, file, steps)
        found += _loaders(index, file)
    found += _tails(index, steps)
    seen: Counter[tuple[str, str, str, str]] = Counter()
    numbered = []
    for each in found:
        same = (each.measure, each.path, each.scope, each.key)
        seen[same] += 1
        numbered.append(evolve(each, key=f"{each.key} #{seen[same]}") if each.measure != "sums" else each)
    return numbered


class _Steps:
    """Training steps of a tree."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.training: set[ast.AST] = set()
        """Functions that run one backward pass whenever they are called, not in a loop of theirs."""
        self.looping: set[ast.AST] = set()
        """Functions that have a training loop."""
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
            for call in _calls(stack.pop()):
                for target, function in self.index.called(file, call):
                    if target is file and function not in bodies:
                        bodies[function] = function.body
                        stack.append(function.body)
        inner = {id(node) for body in bodies.values() for statement in body for node in ast.walk(statement)}
        for owner, body in bodies.items():
            if id(owner) not in inner:
                yield body

    def _once(self, file: File, body: Sequence[ast.stmt]) -> bool:
        for call in _calls(body, into_loops=False):
            name = last(call.func)
            if name in _BACKWARD and isinstance(call.func, ast.Attribute):
                return True
            if name == "loss_scaler" and len(call.args) > 1:
                return True
            if any(function in self.training for _, function in self.index.called(file, call)):
                return True
        return False

    def _imports_training(self, file: File) -> bool:
        names = {function.name for function in self.training if isinstance(function, Function)}
        return any(name.rpartition(".")[2] in names for name in file.imports.values()) or any(
            last(call.func) in names for call in _calls(file.module.body)
        )


def _calls(body: Iterable[ast.AST], *, into_loops: bool = True) -> Iterator[ast.Call]:
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


def _names_device(index: Index, file: File) -> bool:
    """Whether a file, or one that it imports or that imports it, names a device."""
    if _DEVICE.search(file.text):
        return True
    own = _module(file)
    imported = file.imported
    near = (other for other in index.files.values() if _module(other) in imported or own in other.imported)
    return any(_DEVICE.search(other.text) for other in near)


def _module(file: File) -> str:
    return file.path.rpartition("/")[2].removesuffix(".py")


def _occurrence(file: File, node: ast.AST, measure: str, form: str, key: str, **more: object) -> Occurrence:
    first, end = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
    cell, line = file.place(first)
    return Occurrence(
        measure=measure,
        form=form,
        path=file.path,
        cell=cell,
        line=line,
        end=file.place(end)[1],
        scope=file.scope_name(node),
        key=key,
        code=" ".join((ast.get_source_segment(file.text.removeprefix("\ufeff"), node) or "").split())[:240],
        **more,  # type: ignore[arg-type]
    )


# Sums, appends and meters


def _sums(file: File, steps: _Steps) -> Iterator[Occurrence]:
    done: set[int] = set()
    for body in steps.regions(file):
        nodes = [node for statement in body for node in ast.walk(statement)]
        losses = {
            ast.unparse(call.func.value)
            for call in nodes
            if isinstance(call, ast.Call) and last(call.func) in _BACKWARD and isinstance(call.func, ast.Attribute)
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
                yield _occurrence(file, node, "sums", form, f"{form} {target}", also=also)


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


# Moves of batches


def _moves(index: Index, file: File, steps: _Steps) -> Iterator[Occurrence]:
    for loop in steps.loops.get(file, []):
        sources = list(_drawn(loop))
        constructions = {
            (other, call)
            for source, _ in sources
            for other, call in index.ends(file, source)
            if isinstance(call, ast.Call) and _LOADERS.search(last(call.func))
        }
        if not constructions:
            continue
        names = {name for _, target in sources for name in _names(target)}
        depends = frozenset((other.path, *other.place(call.lineno)) for other, call in constructions)
        unpinned = any(not _given(index, other, call, "pin_memory") for other, call in constructions)
        for call in _in_order(loop.body):
            if not isinstance(call, ast.Call) or not _moves_batch(call, names):
                names |= _derived(call, names)
                continue
            blocking = not _is_true(_argument(call, "non_blocking", 1 if last(call.func) == "cuda" else 2))
            lacks = frozenset({"non_blocking"} if blocking else ()) | ({"pinning"} if unpinned else frozenset())
            yield _occurrence(file, call, "moves", last(call.func), _stripped(call), lacks=lacks, depends=depends)


def _drawn(loop: Loop) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Iterables of a step, and the targets that their batches go to."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        yield loop.iter, loop.target
    for node in (each for statement in loop.body for each in ast.walk(statement)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            name = last(node.value.func)
            if name == "next" and node.value.args:
                yield node.value.args[0], node.targets[0]
            elif name in ("next", "__next__") and isinstance(node.value.func, ast.Attribute):
                yield node.value.func.value, node.targets[0]


def _names(target: ast.AST) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id


def _in_order(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Assignments and calls of a step, by line."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    kept = [node for node in nodes if isinstance(node, (ast.Assign, ast.Call, ast.comprehension, ast.For))]
    yield from sorted(
        kept,
        key=lambda node: (
            getattr(node, "lineno", getattr(getattr(node, "iter", None), "lineno", 0)),
            not isinstance(node, ast.comprehension),
        ),
    )


def _derived(node: ast.AST, names: set[str]) -> set[str]:
    """Names that a statement gives to parts of a batch; a result of a model is none."""
    if isinstance(node, ast.Assign) and _root(node.value) in names:
        return {name for target in node.targets for name in _names(target)}
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and all(_root(e) in names for e in node.value.elts)
    ):
        return {name for target in node.targets for name in _names(target)}
    if isinstance(node, (ast.comprehension, ast.For)) and _root(node.iter) in names:
        return set(_names(node.target))
    return set()


def _root(node: ast.AST) -> str:
    """The name that an attribute, item, move or view of something starts with."""
    while True:
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Call) and last(node.func) in ("Variable", "enumerate", "zip") and node.args:
            node = node.args[0]
        else:
            return node.id if isinstance(node, ast.Name) else ""


def _moves_batch(call: ast.Call, names: set[str]) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("to", "cuda"):
        return False
    if _root(call.func.value) not in names or _is_computed(call.func.value):
        return False
    if call.func.attr == "cuda":
        return True
    first = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "device"), None)
    if first is None:
        return False
    code = ast.unparse(first)
    return not re.search(r"dtype|float|long|int|half|bool|'cpu'|memory_format", code) and code != "torch.device('cpu')"


def _is_computed(node: ast.AST) -> bool:
    """Whether the receiver is more than a part of the batch, such as a sum over it."""
    return any(
        isinstance(each, ast.Call)
        and last(each.func) in ("sum", "mean", "cpu", "item", "size", "max", "argmax", "backward")
        for each in ast.walk(node)
    )


# Constructions of loaders


def _loaders(index: Index, file: File) -> Iterator[Occurrence]:
    for call in ast.walk(file.module):
        if not isinstance(call, ast.Call) or last(call.func) != "DataLoader":
            continue
        if not _TORCH_LOADER.match(file.dotted(call.func)):
            continue
        lacks = set()
        if not _given(index, file, call, "num_workers"):
            lacks.add("workers")
        if not _given(index, file, call, "pin_memory"):
            lacks.add("pinning")
        yield _occurrence(file, call, "loaders", "DataLoader", "DataLoader", lacks=frozenset(lacks))


def _given(index: Index, file: File, call: ast.Call, name: str) -> bool:
    """Whether a setting has a value of its own, or may have one out of a dictionary that cannot be found."""
    positions = {"num_workers": 5, "pin_memory": 7}
    value = _argument(call, name, positions[name])
    if value is not None:
        return not (isinstance(value, ast.Constant) and not value.value)
    for keyword in call.keywords:
        if keyword.arg is None:
            keys = _keys(index, file, keyword.value)
            if keys is None or name in keys:
                return True
    return any(isinstance(arg, ast.Starred) for arg in call.args)


def _keys(index: Index, file: File, node: ast.expr, depth: int = 3) -> set[str] | None:
    """The keys that a dictionary of keywords may have, with what is put into it later; None where it is not found."""
    found: set[str] = set()
    shown = False
    for other, end in [(file, node)] if isinstance(node, ast.Dict) else index.ends(file, node):
        if isinstance(end, ast.Dict):
            found |= {key.value for key in end.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
            spread = [value for key, value in zip(end.keys, end.values, strict=True) if key is None]
        elif isinstance(end, ast.Call) and last(end.func) == "dict":
            found |= {keyword.arg for keyword in end.keywords if keyword.arg}
            spread = [*end.args, *(keyword.value for keyword in end.keywords if keyword.arg is None)]
        else:
            return None
        shown = True
        for each in spread:
            more = _keys(index, other, each, depth - 1) if depth else None
            if more is None:
                return None
            found |= more
    if not shown:
        return None
    if isinstance(node, ast.Name):
        found |= _put_later(index, file, node, depth)
    return found


def _put_later(index: Index, file: File, name: ast.Name, depth: int) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(file.function(name) or file.module):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _root(node) == name.id:
            found |= {node.slice.value} if isinstance(node.slice, ast.Constant) else set()  # type: ignore[arg-type]
        elif isinstance(node, ast.Call) and last(node.func) == "update" and _root(node.func) == name.id:
            found |= {keyword.arg for keyword in node.keywords if keyword.arg}
            for arg in node.args:
                found |= (_keys(index, file, arg, depth - 1) if depth else None) or set()
    return found


def _argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if len(call.args) > position else None


def _is_true(node: ast.expr | None) -> bool:
    return node is not None and not (isinstance(node, ast.Constant) and not node.value)


def _stripped(call: ast.Call) -> str:
    """A call's code without the keywords that rules add."""
    kept = [keyword for keyword in call.keywords if keyword.arg not in _STRIPPED]
    return ast.unparse(ast.Call(func=call.func, args=call.args[:1], keywords=kept))


# Tails of transforms


def _tails(index: Index, steps: _Steps) -> Iterator[Occurrence]:
    composes = [
        (file, call) for file, call in index.calls.get("Compose", ()) if _has_tail(call) and _names_device(index, file)
    ]
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
            for source, _ in _drawn(loop):
                for _, call in index.ends(file, source):
                    if isinstance(call, ast.Call) and last(call.func) == "DataLoader":
                        looped.setdefault(call, []).append(trains)
    for file, call in composes:
        loaders = used[call]
        seen = all(loader in looped for _, loader in loaders)
        if seen and any(any(looped[loader]) for _, loader in loaders) and not _used_directly(file, call):
            depends = frozenset((other.path, *other.place(loader.lineno)) for other, loader in loaders)
            yield _occurrence(file, call, "tails", "Compose", "tail", depends=depends)


def _has_tail(call: ast.Call) -> bool:
    parts = call.args[0].elts if call.args and isinstance(call.args[0], (ast.List, ast.Tuple)) else []
    names = [last(part.func) if isinstance(part, ast.Call) else "" for part in parts]
    return names[-2:] == ["ToTensor", "Normalize"]


def _composes_of(index: Index, file: File, loader: ast.Call, wanted: set[ast.Call]) -> set[ast.Call]:
    """The transforms of the datasets behind a loader."""
    dataset = _argument(loader, "dataset", 0)
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


def by_key(found: Iterable[Occurrence]) -> Mapping[tuple[str, str, str, str], list[Occurrence]]:
    """Occurrences by what they are: measure, path, scope and key."""
    groups: dict[tuple[str, str, str, str], list[Occurrence]] = {}
    for each in found:
        groups.setdefault((each.measure, each.path, each.scope, each.key), []).append(each)
    return groups
