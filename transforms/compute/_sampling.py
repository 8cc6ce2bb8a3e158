"""In which order a loader takes samples, and how many at once, as code that a sampler of batches needs."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._moved_batches import Kept
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import PARAMETERS, Loader
from perfmod.transforms.facts.tree import is_false, is_none, is_true
from perfmod.transforms.writing import comments, quoted

_OWN_WAY = ("sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_FOR_WORKERS = frozenset(
    {
        "num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context",
        "pin_memory_device",
    }
)  # fmt: skip
"""What a loader without workers does not need."""
_OF_BATCHES = frozenset({"batch_size", "shuffle", "drop_last"})
_TAKES_OUT = frozenset({"pop", "popitem", "clear"})


@frozen
class Sampling:
    """How a loader takes samples.

    Attributes:
        samplers: the classes that give its indices in the same order: two where a condition chooses.
        condition: the code of that condition, which stands for the first; empty where there is one class.
        batch_size, drop_last: their codes.
        generator: the code of the generator that it draws from; empty where that is the global one.
    """

    samplers: tuple[str, ...]
    condition: str
    batch_size: str
    drop_last: str
    generator: str


def takes_batches_whole(loader: Loader) -> bool:
    """Whether it makes no batches, but takes what its data set has for the indices of one."""
    return is_none(_given(loader.call, "batch_size"))


def sampling_of(file: FileFacts, loader: Loader) -> Sampling:
    """How a loader takes samples. Raises `Kept` where it makes batches in another way."""
    call = loader.call
    hidden = [name for name, each in loader.settings.items() if each.arg is None]
    is_hidden = not _FOR_WORKERS.union(_OF_BATCHES).issuperset(hidden)
    if loader.unseen or loader.open_keywords or is_hidden or any(arg.star == "*" for arg in call.args):
        raise Kept(f"the arguments of `{file.code(call.func)}` are not all written out")
    require_no_comment(file, call)
    for name in _OWN_WAY:
        given = _given(call, name)
        if given is not None and not is_none(given):
            raise Kept(f"`{name}={file.code(given)}` makes batches or workers in its own way")
    generator = _given(call, "generator")
    seeded = f"generator={file.code(generator)}" if generator is not None and not is_none(generator) else ""
    condition = ""
    samplers: tuple[str, ...] = ("RandomSampler",)
    shuffle = loader.values("shuffle")
    if all(is_false(each) or is_none(each) for each in shuffle):
        samplers = ("SequentialSampler",)
    elif not all(map(is_true, shuffle)) or not loader.settings["shuffle"].always:
        if "shuffle" not in hidden or seeded:
            raise Kept(f"whether it shuffles is only known at run time: `shuffle={file.code(shuffle[0])}`")
        condition, samplers = _code(file, loader, "shuffle", ""), ("RandomSampler", "SequentialSampler")
    if any(map(is_none, loader.values("batch_size"))):
        raise Kept("whether it makes batches is only known at run time")
    size, dropped = _code(file, loader, "batch_size", "1"), _code(file, loader, "drop_last", "False")
    return Sampling(samplers, condition, size, dropped, seeded)


def _code(file: FileFacts, loader: Loader, name: str, default: str) -> str:
    """The code of a setting, also where a dictionary of keywords holds it. Raises `Kept` where that has no name."""
    setting = loader.settings.get(name)
    if setting is None or setting.arg is not None:
        given = _given(loader.call, name)
        return file.code(given) if given is not None else default
    keywords = [arg.value for arg in loader.call.args if arg.star == "**"]
    held = keywords[0] if len(keywords) == 1 else None
    if not isinstance(held, cst.Name) or _is_emptied(file, held.value):
        raise Kept(f"the arguments of `{file.code(loader.call.func)}` are not all written out")
    key = quoted(file.source, name)
    return f"{held.value}[{key}]" if setting.always else f"{held.value}.get({', '.join(filter(None, [key, default]))})"


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
