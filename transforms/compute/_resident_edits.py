"""A data set on the device, and loaders that take each batch out of it at once, as code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from perfmod.transforms.compute._moved_batches import Kept
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import PARAMETERS, Loader
from perfmod.transforms.facts.names import imported_name
from perfmod.transforms.facts.tree import is_false, is_none, is_true
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import call_text, comments, insert_before_statement, line_length

PACKAGE = "torch.utils.data"
_OWN_WAY = ("sampler", "batch_sampler", "collate_fn", "worker_init_fn")
_SIMPLE = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)


def moved_tensors(file: FileFacts, data_set: cst.Call, move: str) -> str:
    """The construction of a data set whose tensors are on the device."""
    codes = [(file.whole_code(arg.value), arg.value) for arg in data_set.args]
    tensors = [f"{code}{move}" if isinstance(node, _SIMPLE) or node.lpar else f"({code}){move}" for code, node in codes]
    start, _ = file.source.span(data_set)
    return call_text(file.source, start, file.code(data_set.func), tensors)


def assigned(file: FileFacts, statement: cst.Assign, name: str, value: str) -> Edit:
    """A statement above another that gives a value its name."""
    outer = file.source.indentation(file.source.span(statement)[0])
    inner = outer + file.source.module.default_indent
    joined = value.replace(f"(\n{inner}", "(").replace(f"\n{outer})", ")")
    fits = "\n" not in joined and len(f"{outer}{name} = {joined}") <= line_length(file.source)
    text = joined if fits else value.replace(f"\n{outer}", "\n")
    return insert_before_statement(file.source, statement, f"{name} = {text}", below_comments=True)


def takes_batches_whole(loader: Loader) -> bool:
    """Whether it makes no batches, but takes what its data set has for the indices of one."""
    return is_none(_given(loader.call, "batch_size"))


def sampler_of(file: FileFacts, loader: Loader) -> str:
    """The class that gives the loader's indices in the same order. Raises `Kept` where it batches in another way."""
    call = loader.call
    if loader.unseen or loader.open_keywords or any(arg.star for arg in call.args):
        raise Kept(f"the arguments of `{file.code(call.func)}` are not all written out")
    require_no_comment(file, call)
    for name in _OWN_WAY:
        given = _given(call, name)
        if given is not None and not is_none(given):
            raise Kept(f"`{name}={file.code(given)}` makes batches or workers in its own way")
    shuffle = _given(call, "shuffle")
    if shuffle is None or is_false(shuffle) or is_none(shuffle):
        return "SequentialSampler"
    if is_true(shuffle):
        return "RandomSampler"
    raise Kept(f"whether it shuffles is only known at run time: `shuffle={file.code(shuffle)}`")


def require_no_comment(file: FileFacts, call: cst.Call) -> None:
    """Raises `Kept` where a comment would be lost with the arguments of a call."""
    start, end = file.source.span(call)
    if any(start <= at < end for at, _ in comments(file.source, file.tree.statement(call))):
        raise Kept(f"a comment stands among the arguments of `{file.code(call.func)}` on line {file.line(call)}")


def draws_otherwise(loader: Loader) -> str:
    """Which argument lets the random numbers be other ones without workers; empty where none does."""
    kept = _given(loader.call, "persistent_workers")
    if kept is not None and not is_false(kept):
        return "persistent workers draw their seed once, and loaders without workers draw one in every epoch"
    ahead = _given(loader.call, "generator") is not None and _given(loader.call, "num_workers") is not None
    return "workers draw from its generator ahead of a loop that ends early" if ahead else ""


def named(file: FileFacts, given: cst.BaseExpression, data_set: cst.Call, loader: cst.Call) -> tuple[str, bool]:
    """What a sampler counts the samples by, and whether that is a new name: the data set, its first tensor, or a name
    for the data set.
    """
    own = given if given is not data_set else data_set.args[0].value
    if isinstance(own, (cst.Name, cst.Attribute)):
        return file.code(own), False
    statement = file.tree.parent(loader)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, cst.Name):
        raise Kept("the data set has no name, by which a sampler could count its samples")
    name = f"{target.value.removesuffix('loader').removesuffix('_') or 'data'}_set"
    if any(each.value == name for each in file.tree.all(cst.Name)):
        raise Kept(f"the data set has no name, and `{name}` is something else")
    return name, True


def batched(file: FileFacts, loader: Loader, data: str, samples: str, sampler: str, batches: str) -> Edit:
    """The loader that takes batches out of its data set at once: `data`, with as many samples as `samples` has.
    `sampler` and `batches` are the samplers' classes.
    """
    call = loader.call
    generator, dropped = _given(call, "generator"), _given(call, "drop_last")
    size = _given(call, "batch_size")
    seeded = f"generator={file.code(generator)}" if generator is not None and not is_none(generator) else ""
    indices = f"{sampler}({samples}, {seeded})" if seeded and "Random" in sampler else f"{sampler}({samples})"
    drawn = ", ".join(
        [
            indices,
            f"batch_size={file.code(size) if size is not None else 1}",
            f"drop_last={file.code(dropped) if dropped is not None else False}",
        ]
    )
    given = [data, f"sampler={batches}({drawn})", "batch_size=None", *filter(None, [seeded])]
    start, end = file.source.span(call)
    return Edit(start, end, call_text(file.source, start, file.code(call.func), given))


def _given(call: cst.Call, name: str) -> cst.BaseExpression | None:
    return argument(call, name, PARAMETERS.index(name) if name in PARAMETERS else None)


def spelled(file: FileFacts, call: cst.Call, names: Iterable[str]) -> tuple[dict[str, str], list[Edit]]:
    """What classes of `torch.utils.data` are called beside a loader, and the edits of the import that brings them."""
    if isinstance(call.func, cst.Attribute):
        return {name: f"{file.code(call.func.value)}.{name}" for name in names}, []
    known = {name: name for name in names}
    scopes = (file.tree.scope(call), file.tree.module)
    bound = {name: {imported_name(each) for scope in scopes for each in file.flow.bound(scope, name)} for name in known}
    taken = [name for name, found in bound.items() if not found <= {f"{PACKAGE}.{name}"}]
    if taken:
        raise Kept(f"`{taken[0]}` is something else in this file")
    missing = sorted(name for name, found in bound.items() if not found)
    return known, [_imported(file, call, missing)] if missing else []


def _imported(file: FileFacts, call: cst.Call, missing: Sequence[str]) -> Edit:
    """The import of a loader's class, with further names."""
    definitions = file.flow.seen(call.func) if isinstance(call.func, cst.Name) else ()
    aliases = [each.node for each in definitions if isinstance(each.node, cst.ImportAlias) and file.is_own(each.node)]
    statement = file.tree.parent(aliases[0]) if len(aliases) == 1 else None
    if not isinstance(statement, cst.ImportFrom) or not isinstance(statement.names, (list, tuple)):
        raise Kept(f"where `{file.code(call.func)}` is imported is not in sight")
    own = [file.code(alias) for alias in statement.names]
    start = file.source.span(statement.names[0])[0]
    end = file.source.span(statement.names[-1])[1]
    text = file.source.text[start:end]
    gap = text[len(own[0].rstrip(", \n")) : text.index(own[1])] if len(own) > 1 else ", "
    if "#" in text or "\\" in text:
        raise Kept("a comment stands in the import of its class")
    bare = [each.rstrip(",").rstrip() for each in own]
    together = sorted([*bare, *missing]) if bare == sorted(bare) else [*bare, *missing]
    trailing = "," if own[-1].endswith(",") else ""
    return Edit(start, end, gap.join(together) + trailing)
