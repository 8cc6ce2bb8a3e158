"""A data set on the device, and loaders that take each batch out of it at once, as code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from perfmod.transforms.compute._moved_batches import Kept
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.names import imported_name
from perfmod.transforms.finding import Edit
from perfmod.transforms.writing import call_text, insert_before_statement, line_length

PACKAGE = "torch.utils.data"
_SIMPLE = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
TAKING = "batches_of"
DEFINITION = f'''\
def {TAKING}(data_set):
    """Takes whole batches out of tensors on a device, by indices that are copied there without waiting for it."""
    device = data_set.tensors[0].device

    def taken(indices):
        indices = torch.tensor(indices, device="cpu", pin_memory=device.type == "cuda")
        return list(data_set[indices.to(device, non_blocking=True)])

    return taken
'''


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


def named(file: FileFacts, given: cst.BaseExpression, data_set: cst.Call, loader: cst.Call) -> tuple[str, bool]:
    """What samples are counted by, and whether that is a new name: the data set, its first tensor, or a name for the
    data set.
    """
    own = given if given is not data_set else data_set.args[0].value
    if isinstance(own, (cst.Name, cst.Attribute)):
        return file.code(own), False
    return new_name(file, loader), True


def new_name(file: FileFacts, loader: cst.Call) -> str:
    """A name for the data set that stands in the call of its loader. Raises `Kept` where none can be given."""
    statement = file.tree.parent(loader)
    target = statement.targets[0].target if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, cst.Name):
        raise Kept("the data set has no name, by which its samples could be counted")
    name = f"{target.value.removesuffix('loader').removesuffix('_') or 'data'}_set"
    if any(each.value == name for each in file.tree.all(cst.Name)):
        raise Kept(f"the data set has no name, and `{name}` is something else")
    return name


def batched(file: FileFacts, loader: Loader, data: str, samples: str, arguments: Sequence[str]) -> Edit:
    """The loader that counts samples, as many as `samples` has, and takes batches out of `data` at once."""
    start, end = file.source.span(loader.call)
    keyword = "dataset=" if argument(loader.call, "", 0) is None else ""
    given = [f"{keyword}range(len({samples}))", *arguments, f"collate_fn={TAKING}({data})"]
    return Edit(start, end, call_text(file.source, start, file.code(loader.call.func), given))


def spelled(
    file: FileFacts, call: cst.Call, names: Iterable[str], data_set: cst.Call
) -> tuple[dict[str, str], list[Edit]]:
    """What classes of `torch.utils.data` are called beside a loader, and where its data set is made; and the edits of
    the import that brings them.
    """
    root = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    scopes = dict.fromkeys((file.tree.scope(call), file.tree.scope(data_set), file.tree.module))
    brought = file.flow.definitions(root) if isinstance(root, cst.Name) else ()
    is_far = file.tree.scope(call) is not file.tree.scope(data_set)
    if is_far and not all(each.scope is file.tree.module for each in brought):
        raise Kept(f"`{file.code(call.func)}` is not known on line {file.line(data_set)}, where the data set is made")
    if not all(file.comes_before(each.node, data_set) or file.tree.function(data_set) for each in brought):
        raise Kept(f"`{file.code(call.func)}` is imported below line {file.line(data_set)}, where the data set is made")
    wanted = tuple(names)
    owner = file.qualified(call.func.value) if isinstance(call.func, cst.Attribute) else None
    modules = {owner} if isinstance(call.func, cst.Attribute) else {each.module for each in brought}
    if modules != {PACKAGE}:
        raise Kept(f"`{file.code(call.func)}` comes from a module that does not have all of {', '.join(wanted)}")
    if isinstance(call.func, cst.Attribute):
        return {name: f"{file.code(call.func.value)}.{name}" for name in wanted}, []
    known = {name: name for name in wanted}
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
