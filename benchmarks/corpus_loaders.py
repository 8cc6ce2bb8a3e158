"""Constructions of loaders, and copies of their batches to the device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from corpus_dated import dated_folders, is_dated
from corpus_index import File, Index, Loop, last
from corpus_occurrence import Occurrence, occurrence
from corpus_steps import Steps

_LOADERS = re.compile(r"Loader$")
_TORCH_LOADER = re.compile(r"^(torch\.utils\.data(\.dataloader)?\.|utils\.data\.|data\.|torchdata\.|td\.)?DataLoader$")
_UNPINNED = re.compile(r"^(dgl\.(distributed|graphbolt)\.|dgl\.dataloading\.(?!(pytorch\.)?GraphDataLoader$)|mxnet\.)")
"""Loaders that take no `pin_memory`: those of DGL that draw from one graph, those of MXNet."""
_PREPARES = ("prepare", "prepare_data_loader", "setup_dataloaders", "_setup_dataloaders")
_STRIPPED = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "non_blocking")


_Construction = tuple[File, ast.Call]


def moves(index: Index, file: File, steps: Steps) -> Iterator[Occurrence]:
    """The copies of batches in the steps of a file, where the loaders can be found."""
    if is_dated(file, _dated(index)):
        return
    moved_before = _prepared(index)
    for loop in steps.loops.get(file, []):
        names: dict[str, frozenset[_Construction]] = {}
        there: dict[str, ast.Assign | None] = {}
        for source, target in drawn(loop):
            made = frozenset(_constructions(index, file, source)) - moved_before
            names |= {name: names.get(name, frozenset()) | made for name in _names(target) if made}
        for call in _in_order(loop.body) if names else ():
            if not isinstance(call, ast.Call) or not _moves_batch(call, names):
                names |= _derived(call, names)
                there |= _moved_by(call, names)
                continue
            before = there.get(_root(call.func))
            if before is not None and before not in file.ancestors(call) and _always_before(file, before, call):
                continue
            blocking = not _is_true(argument(call, "non_blocking", 1 if last(call.func) == "cuda" else 2))
            constructions = names[_root(call.func)]
            unpinned = any(not _given(index, other, made, "pin_memory") for other, made in constructions)
            lacks = frozenset({"non_blocking"} if blocking else ()) | ({"pinning"} if unpinned else frozenset())
            depends = frozenset((other.path, *other.place(made.lineno)) for other, made in constructions)
            yield occurrence(file, call, "moves", last(call.func), _stripped(call), lacks=lacks, depends=depends)


@cache
def _dated(index: Index) -> frozenset[str]:
    return dated_folders(index.tree) if index.tree is not None else frozenset()


def _constructions(index: Index, file: File, source: ast.expr) -> Iterator[_Construction]:
    """The constructions of loaders behind an iterable."""
    for other, call in index.ends(file, source):
        is_loader = isinstance(call, ast.Call) and _LOADERS.search(last(call.func))
        if isinstance(call, ast.Call) and is_loader and not _UNPINNED.match(other.dotted(call.func)):
            yield other, call


@cache
def _prepared(index: Index) -> frozenset[_Construction]:
    """The loaders that Accelerate or Fabric is given, whose batches it moves before the loop gets them."""
    if any(argument(call, "device_placement", 0) is not None for _, call in index.calls.get("Accelerator", ())):
        return frozenset()
    calls = [each for name in _PREPARES for each in index.calls.get(name, ())]
    return frozenset(
        found
        for file, call in calls
        if isinstance(call.func, ast.Attribute) and re.search(r"accelerat|[Ff]abric", file.text)
        for arg in call.args
        for found in _constructions(index, file, arg)
    )


def drawn(loop: Loop) -> Iterator[tuple[ast.expr, ast.expr]]:
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


def _moved_by(node: ast.AST, names: Mapping[str, frozenset[_Construction]]) -> Mapping[str, ast.Assign | None]:
    """For the names that a statement assigns, itself where it moves what it assigns, and None where it does not."""
    if not isinstance(node, ast.Assign):
        return {}
    moves = isinstance(node.value, ast.Call) and _moves_batch(node.value, names)
    return {name: node if moves else None for target in node.targets for name in _names(target)}


def _always_before(file: File, statement: ast.AST, node: ast.AST) -> bool:
    """Whether a statement above a node runs whenever the node does: it stands in a block around it."""
    around = {*file.ancestors(node)}
    parent = file.parents[statement]
    blocks = [getattr(parent, name, []) for name in ("body", "orelse", "finalbody")]
    return any(statement in block and not around.isdisjoint(block) for block in blocks if isinstance(block, list))


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


def _derived(node: ast.AST, names: Mapping[str, frozenset[_Construction]]) -> Mapping[str, frozenset[_Construction]]:
    """Names that a statement gives to parts of a batch, with its loaders; a result of a model is none."""
    pairs: list[tuple[ast.AST, ast.expr]] = []
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        values = node.value.elts
        for target in node.targets:
            targets = target.elts if isinstance(target, ast.Tuple) else []
            pairs += zip(targets, values, strict=False) if all(_root(value) in names for value in values) else ()
    elif isinstance(node, ast.Assign):
        pairs = [(target, node.value) for target in node.targets]
    elif isinstance(node, (ast.comprehension, ast.For)):
        pairs = [(node.target, node.iter)]
    return {name: names[_root(value)] for target, value in pairs if _root(value) in names for name in _names(target)}


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


def _moves_batch(call: ast.Call, names: Mapping[str, frozenset[_Construction]]) -> bool:
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


def loaders(index: Index, file: File) -> Iterator[Occurrence]:
    """The constructions of PyTorch's loader in a file."""
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
        yield occurrence(file, call, "loaders", "DataLoader", "DataLoader", lacks=frozenset(lacks))


def _given(index: Index, file: File, call: ast.Call, name: str) -> bool:
    """Whether a setting has a value of its own, or may have one out of a dictionary that cannot be found."""
    positions = {"num_workers": 5, "pin_memory": 7}
    value = argument(call, name, positions[name])
    if value is not None:
        return not (isinstance(value, ast.Constant) and not value.value)
    bound = file.assigned.get((file.module, last(call.func)), ())
    if any(
        isinstance(made, ast.Call) and last(made.func) == "partial" and argument(made, name, 99) for made, _ in bound
    ):
        return True
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


def argument(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The argument of a call by name or position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if len(call.args) > position else None


def _is_true(node: ast.expr | None) -> bool:
    """Whether an argument may say yes; a string does not, but names a part: `data.to(device, "x", "y")`."""
    return node is not None and not (isinstance(node, ast.Constant) and (not node.value or isinstance(node.value, str)))


def _stripped(call: ast.Call) -> str:
    """A call's code without the keywords that rules add."""
    kept = [keyword for keyword in call.keywords if keyword.arg not in _STRIPPED]
    return ast.unparse(ast.Call(func=call.func, args=call.args[:1], keywords=kept))
