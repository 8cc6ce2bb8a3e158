"""What each process draws or orders by itself, and what all of them must have alike: samples, splits, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._spread_program import HOST_DRAWS, NotSpread, own_call
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all

_DRAWS = re.compile(r"torch\.(?:rand\w*|utils\.data\.random_split|normal|multinomial|bernoulli)$")
_DRAWS_IN_PLACE = frozenset({"normal_", "uniform_", "random_", "bernoulli_", "exponential_"})
_WEIGHTS = re.compile(r"\b(?:weight|bias)\b")
_SEEDS = {"torch": "torch.manual_seed", "random": "random.seed", "numpy": "numpy.random.seed"}
_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
_OWN_NUMBERS = frozenset({"builtins.hash", "torch.seed", "torch.random.seed", "torch.initial_seed"})
_IN_ORDER = frozenset(
    f"builtins.{name}" for name in ("list", "tuple", "enumerate", "zip", "iter", "map", "dict")
) | {"itertools.chain", "torch.tensor", "numpy.array"}  # fmt: skip
_SETS = frozenset({"builtins.set", "builtins.frozenset"})


def require_alike(file: FileFacts) -> None:
    """All processes have the same samples, split and numbered alike. Raises `NotSpread`."""
    for call in find_all(file.tree.module, cst.Call):
        name = file.qualified(call) or ""
        given = [own_call(file, arg.value, draws=False) for arg in call.args] if name in _SEEDS.values() else []
        if name in _OWN_NUMBERS or any(given):
            raise NotSpread(call, f"`{file.code(call)}` is another number in each process")
        _require_seeded(file, call)
    for node in _ordered(file):
        if _is_set(file, node):
            raise NotSpread(node, f"`{file.code(node)}` has another order in each process: sort it")


def _require_seeded(file: FileFacts, call: cst.Call) -> None:
    name = file.qualified(call) or ""
    if name in _GENERATORS and not call.args:
        raise NotSpread(call, "each process would draw its own numbers: give the generator a seed")
    is_in_place = isinstance(call.func, cst.Attribute) and call.func.attr.value in _DRAWS_IN_PLACE
    is_in_place = is_in_place and not _WEIGHTS.search(dotted(call.func))
    library = "torch" if _DRAWS.match(name) or is_in_place else name.partition(".")[0]
    is_draw = _DRAWS.match(name) or is_in_place or name.startswith(HOST_DRAWS)
    is_free = name in {*_SEEDS.values(), *_GENERATORS} or argument(call, "generator") is not None
    if not is_draw or is_free or _is_by_sample(file, call):
        return
    function = file.tree.function(call)
    for seed in find_all(file.tree.module, cst.Call):
        is_above = file.tree.function(seed) is not function or file.comes_before(seed, call)
        if file.qualified(seed) == _SEEDS[library] and seed.args and is_above and _is_certain(file, seed):
            return
    raise NotSpread(call, f"each process would draw its own numbers: call `{_SEEDS[library]}` before")


def _is_certain(file: FileFacts, seed: cst.Call) -> bool:
    """Whether a seed is set in any case, not only if the user asks for it."""
    guard = file.entry.statement(seed) if file.entry.is_guarded(seed) else None
    around = [each for each in file.tree.ancestors(seed) if isinstance(each, cst.If) and each is not guard]
    return not any(file.tree.function(each) is file.tree.function(seed) for each in around)


def _is_by_sample(file: FileFacts, call: cst.Call) -> bool:
    """Whether a method draws for a model, which all processes take from the first, or each time a sample is read."""
    function = file.tree.function(call)
    if function is None or file.tree.class_of(function) is None:
        return False
    cls = file.classes.of(file.tree.scope(function))
    if cls is not None and cls.is_module:
        return True
    around = {function, *map(file.tree.function, file.values.calls.callers(function))}
    return not any(each is not None and each.name.value == "__init__" for each in around)


def _ordered(file: FileFacts) -> Iterator[cst.BaseExpression]:
    """What is read in its order."""
    for node in find_all(file.tree.module, cst.For):
        yield node.iter
    for comprehension in find_all(file.tree.module, cst.CompFor):
        yield comprehension.iter
    for call in find_all(file.tree.module, cst.Call):
        is_joined = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("join", "extend")
        if is_joined or file.qualified(call) in _IN_ORDER:
            yield from (arg.value for arg in call.args)


def _is_set(file: FileFacts, node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Name):
        return any(
            each.value is not None and not each.path and not isinstance(each.value, cst.Name)
            and each.node is not node and _is_set(file, each.value)
            for each in file.flow.definitions(node)
        )  # fmt: skip
    is_made = isinstance(node, cst.Call) and file.qualified(node) in _SETS and bool(node.args)
    return is_made or isinstance(node, (cst.Set, cst.SetComp))
