"""In which order a loader takes samples, and how many at once, as arguments of another loader."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute._moved_batches import Kept
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import PARAMETERS, Loader
from perfmod.transforms.facts.tree import is_false, is_none
from perfmod.transforms.writing import comments, quoted

_OWN_WAY = ("sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_FOR_WORKERS = frozenset(
    {
        "num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context",
        "pin_memory_device",
    }
)  # fmt: skip
"""What a loader without workers does not need."""
_DEFAULTS = {"batch_size": "1", "shuffle": "False", "drop_last": "False"}
_TAKES_OUT = frozenset({"pop", "popitem", "clear"})


def makes_no_batches(file: FileFacts, loader: Loader) -> bool:
    """Whether its data set does: it takes what that has for the indices of a batch, or only counts them."""
    counted = [each for each in loader.values("dataset") if isinstance(each, cst.Call)]
    is_counting = any(file.qualified(each) == "builtins.range" for each in counted)
    return is_counting or is_none(_given(loader.call, "batch_size"))


def arguments_of(file: FileFacts, loader: Loader) -> list[str]:
    """The code of what tells a loader how to take samples. Raises `Kept` where it makes batches in another way."""
    call = loader.call
    hidden = [name for name, each in loader.settings.items() if each.arg is None]
    is_hidden = not _FOR_WORKERS.union(_DEFAULTS).issuperset(hidden)
    if loader.unseen or loader.open_keywords or is_hidden or any(arg.star == "*" for arg in call.args):
        raise Kept(f"the arguments of `{file.code(call.func)}` are not all written out")
    require_no_comment(file, call)
    for name in _OWN_WAY:
        given = _given(call, name)
        if given is not None and not is_none(given):
            raise Kept(f"`{name}={file.code(given)}` makes batches or workers in its own way")
    if any(map(is_none, loader.values("batch_size"))):
        raise Kept("whether it makes batches is only known at run time")
    named = enumerate(arg for arg in call.args if not arg.star)
    written = [PARAMETERS[at] if arg.keyword is None else arg.keyword.value for at, arg in named]
    further = [name for name in _DEFAULTS if name in hidden]
    wanted = [name for name in (*written, *further) if name in (*_DEFAULTS, "generator")]
    return [f"{name}={_code(file, loader, name)}" for name in wanted]


def _code(file: FileFacts, loader: Loader, name: str) -> str:
    """The code of an argument, also where a dictionary of keywords holds it. Raises `Kept` where that has no name."""
    given = _given(loader.call, name)
    if given is not None:
        return file.code(given)
    keywords = [arg.value for arg in loader.call.args if arg.star == "**"]
    held = keywords[0] if len(keywords) == 1 else None
    if not isinstance(held, cst.Name) or _is_emptied(file, held.value):
        raise Kept(f"the arguments of `{file.code(loader.call.func)}` are not all written out")
    key = quoted(file.source, name)
    is_there = loader.settings[name].always
    return f"{held.value}[{key}]" if is_there else f"{held.value}.get({key}, {_DEFAULTS[name]})"


def _is_emptied(file: FileFacts, name: str) -> bool:
    """Whether something is taken out of the dictionary of a name."""
    for each in file.tree.all(cst.Name):
        parent = file.tree.parent(each) if each.value == name else None
        if isinstance(parent, cst.Attribute) and parent.attr.value in _TAKES_OUT:
            return True
        if isinstance(parent, cst.Subscript) and isinstance(file.tree.parent(parent), cst.Del):
            return True
    return False


def require_no_comment(file: FileFacts, call: cst.Call) -> None:
    """Raises `Kept` where a comment would be lost with the arguments of a call."""
    start, end = file.source.span(call)
    if any(start <= at < end for at, _ in comments(file.source, file.tree.statement(call))):
        raise Kept(f"a comment stands among the arguments of `{file.code(call.func)}` on line {file.line(call)}")


def draws_otherwise(loader: Loader) -> str:
    """Which argument lets the random numbers be other ones without workers; empty where none does."""
    if not all(map(is_false, loader.values("persistent_workers"))):
        return "persistent workers draw their seed once, and loaders without workers draw one in every epoch"
    ahead = _given(loader.call, "generator") is not None and bool(loader.values("num_workers"))
    return "workers draw from its generator ahead of a loop that ends early" if ahead else ""


def _given(call: cst.Call, name: str) -> cst.BaseExpression | None:
    return argument(call, name, PARAMETERS.index(name) if name in PARAMETERS else None)
