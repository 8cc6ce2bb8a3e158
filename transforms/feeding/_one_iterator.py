"""Whether a loader would do with one iterator, which is all that it has when its workers stay."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.feeding._loader_runs import executed, while_iterated

_COPIES = frozenset(
    {
        "copy.deepcopy", "copy.copy", "pickle.dump", "pickle.dumps", "torch.save", "joblib.dump", "dill.dump",
        "cloudpickle.dumps", "cloudpickle.dump",
    }
)  # fmt: skip


def why_not_one_iterator(file: FileFacts, loader: Loader) -> str:
    """Why a loader needs several iterators, or none that stays, in one line; empty where it does not."""
    for iteration in loader.iterations:
        if isinstance(iteration.node, cst.Call):
            continue
        line = file.line(iteration.iterable)
        if _goes_twice(file, loader, iteration.iterable):
            return f"line {line} iterates over it twice at the same time, and persistent workers serve one iterator"
        function = file.tree.function(iteration.node)
        if function is not None and file.tree.is_generator(function) and _is_begun_twice(file, loader, function):
            return f"{function.name.value} (line {line}) may iterate over it several times at the same time"
        inside = set(executed(file, while_iterated(file, iteration)))
        other = next((each for each in loader.iterations if each.node in inside and each is not iteration), None)
        if other is not None:
            again = file.line(other.iterable)
            return (
                f"line {again} starts it again while line {line} iterates over it, and persistent workers "
                "serve one iterator"
            )
    for assigned in file.tree.all(cst.AssignTarget):
        if isinstance(assigned.target, cst.Attribute) and _is_loader(file, loader, assigned.target.value):
            return f"line {file.line(assigned)} changes the loader, which persistent workers would not see"
    for call in file.tree.all(cst.Call):
        if file.qualified(call) in _COPIES and any(_holds(file, loader, arg.value) for arg in call.args):
            return f"line {file.line(call)} copies or pickles the loader, which is impossible while its workers run"
    return ""


def _is_begun_twice(file: FileFacts, loader: Loader, generator: cst.FunctionDef) -> bool:
    """Whether a generator over a loader may be begun before it was gone through: not by loops one after the other."""
    calls = file.values.calls.callers(generator)
    given = [call for call in calls if any(_is_loader(file, loader, arg.value) for arg in call.args)]
    loops = [next((a for a in file.tree.ancestors(call) if isinstance(a, cst.For)), None) for call in given or calls]
    return len(loops) > 1 and any(
        loop is None
        or not file.tree.is_within(call, loop.iter)
        or any(other is not call and file.tree.is_within(other, loop) for other in given)
        for call, loop in zip(given or calls, loops, strict=True)
    )


def _goes_twice(file: FileFacts, loader: Loader, iterable: cst.BaseExpression) -> bool:
    """Whether `zip(loader, loader)` or its like goes through a loader several times."""
    return any(
        sum(any(end.node is loader.call for end in file.tracing.ends(arg.value, (None,))) for arg in call.args) > 1
        for call in find_all(iterable, cst.Call)
    )


def _is_loader(file: FileFacts, loader: Loader, node: cst.BaseExpression) -> bool:
    return any(end.node is loader.call and not end.path for end in file.tracing.ends(node))


def _holds(file: FileFacts, loader: Loader, given: cst.BaseExpression) -> bool:
    """Whether a value is a loader, is written down with it in it, or is an object that keeps it in an attribute."""
    parts = (part for part in (given, *find_all(given, cst.Name), *find_all(given, cst.Attribute)))
    for part in parts:
        if _is_loader(file, loader, part):
            return True
        cls = file.value(part).cls if part is given else None
        for kept in (each.value for values in (cls.assigned.values() if cls else ()) for each in values):
            if kept is not None and _is_loader(file, loader, kept):
                return True
    return False
