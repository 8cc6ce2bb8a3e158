"""What is written for a training on several processes: its start and end, the model, the loader."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._spread_model import MOVES, question_edits
from perfmod.transforms.compute._spread_parts import Parts
from perfmod.transforms.compute._spread_program import NotSpread
from perfmod.transforms.compute._spread_step import Step
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, find_in_scope, is_false, is_true
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.writing import call_text, insert_before_statement, quoted, replace

_ON_CUDA = re.compile(r"\w+(?:\.\w+)* == (?:\"cuda\"|'cuda')|torch\.cuda\.is_available\(\)")
_SEVERAL = re.compile(r"(?:torch\.cuda\.is_available\(\) and )?torch\.cuda\.device_count\(\) (?:> 1|>= 2)")


def model_edits(file: FileFacts, found: Parts) -> Iterator[Edit]:
    """The model, on its device, averages its gradients with the other processes."""
    call, source = found.call, file.source
    torch, _ = file.names.spelled("torch", call)
    nn, _ = file.names.spelled("torch.nn", call)
    model = call.args[0].value
    ids = f"device_ids=[local_rank] if {torch}.cuda.is_available() else None"
    move, whole = _move(file, found, model)
    arguments = [file.whole_code(model) + move, ids]
    start = source.span(call)[0]
    yield replace(source, whole, call_text(source, start, f"{nn}.parallel.DistributedDataParallel", arguments))
    yield from _condition(file, call)
    yield from question_edits(file, call)
    yield from _devices(file, found)


def _move(file: FileFacts, found: Parts, model: cst.BaseExpression) -> tuple[str, cst.Call]:
    """What brings the model to its device where it is not there yet, `.to(device)`, and the call that gives it now."""
    name, scope = file.code(model), file.tree.scope(found.call)
    held = file.tree.statement(found.call)
    names = {name, *(file.code(t.target) for t in getattr(held, "targets", ()))}
    made = [each.value for each in file.flow.definitions(model)] if isinstance(model, cst.Name) else []
    behind = ""
    for each in find_in_scope(scope, cst.Call):
        assert isinstance(each, cst.Call)
        func = each.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in MOVES:
            continue
        is_inside = file.tree.is_within(each, model) or (made == [each])
        if is_inside or (file.code(func.value) in names and file.comes_before(each, found.call)):
            return "", found.call
        if func.value is found.call:
            return file.source.text[file.source.span(found.call)[1] : file.source.span(each)[1]], each
        if file.code(func.value) in names:
            behind = behind or file.source.text[file.source.span(func.value)[1] : file.source.span(each)[1]]
    if not behind:
        raise NotSpread(found.call, "no line in sight puts the model on its device")
    return behind, found.call


def _condition(file: FileFacts, call: cst.Call) -> Iterator[Edit]:
    """`if torch.cuda.device_count() > 1:` becomes a question for the number of processes."""
    for around in file.tree.ancestors(call):
        if isinstance(around, (cst.FunctionDef, cst.Module)):
            return
        if isinstance(around, cst.If) and not (file.tree.function(call) is None and file.entry.is_guarded(call)
                                               and around is file.entry.statement(call)):  # fmt: skip
            if _ON_CUDA.fullmatch(file.code(around.test)) and not around.orelse and _only_wraps(file, around, call):
                yield replace(file.source, around.test, f"{file.code(around.test)} or dist.get_world_size() > 1")
                continue
            if not _SEVERAL.fullmatch(file.code(around.test)) or around.orelse is not None:
                raise NotSpread(around, f"`{file.code(around.test)}` decides whether there are several devices")
            yield replace(file.source, around.test, "dist.get_world_size() > 1")
        elif isinstance(around, (cst.Try, cst.With)):
            raise NotSpread(around, "the model is made in a block that may handle it otherwise")


def _only_wraps(file: FileFacts, around: cst.If, call: cst.Call) -> bool:
    """Whether an `if` does nothing else that would matter on another device."""
    lines = [line for line in around.body.body if not file.tree.is_within(call, line)]
    codes = [file.code(line) for line in lines]
    return all(code.startswith("print(") or code.endswith("cudnn.benchmark = True") for code in codes)


def _devices(file: FileFacts, found: Parts) -> Iterator[Edit]:
    """A device with a number becomes the process's own."""
    for string in find_all(file.tree.module, cst.SimpleString):
        if isinstance(device := string.evaluated_value, str) and device.startswith("cuda:"):
            parent = next(n for n in file.tree.ancestors(string) if isinstance(n, (cst.Call, cst.BaseStatement)))
            is_named = isinstance(parent, cst.Call) and dotted(parent.func).endswith((".device", ".to"))
            if device != "cuda:0" or not is_named:
                raise NotSpread(string, f"`{string.value}` is the device of one process only")
            yield replace(file.source, string, string.value.replace("cuda:0", "cuda"))
    for call in find_all(file.tree.module, cst.Call):
        name = file.qualified(call) or ""
        is_numbered = name == "torch.device" and len(call.args) > 1
        is_numbered |= name in ("torch.cuda.set_device", "torch.cuda.device", "torch.set_default_device")
        is_numbered |= dotted(call.func).endswith(".cuda") and any(arg.keyword is None for arg in call.args)
        is_move = isinstance(call.func, cst.Attribute) and call.func.attr.value in MOVES
        where = argument(call, "device", 0 if is_move or name == "torch.device" else None)
        is_numbered |= where is not None and file.value(where).kind is Kind.NUMBER
        if is_move and file.tree.function(call) is None and not any(file.tree.is_within(call, x) for x in found.body):
            raise NotSpread(call, f"`{file.code(call)}` runs before the process has its device")
        if is_numbered:
            raise NotSpread(call, f"`{file.code(call)}` chooses the device of one process only")
    for text in find_all(file.tree.module, cst.FormattedString):
        if "cuda:" in file.code(text):
            raise NotSpread(text, f"`{file.code(text)}` chooses the device of one process only")


def loader_edits(file: FileFacts, found: Parts) -> Iterator[Edit]:
    """Each process gets its share of each batch, in the order of the epoch."""
    call, source = found.loader.call, file.source
    dataset, shuffle = argument(call, "dataset", 0), argument(call, "shuffle")
    data, _ = file.names.spelled("torch.utils.data", call)
    size = argument(call, "batch_size", 1)
    drop = argument(call, "drop_last")
    assert dataset is not None
    assert size is not None
    if not isinstance(size, (cst.Name, cst.Attribute, cst.Integer)):
        raise NotSpread(size, "the batch size is computed in the call")
    if not (shuffle is None or is_true(shuffle) or is_false(shuffle) or isinstance(shuffle, (cst.Name, cst.Attribute))):
        raise NotSpread(shuffle, "whether samples are shuffled is computed in the call")
    taken = {name.value for name in find_all(file.tree.module, cst.Name)}
    sampler = next(name for name in ("sampler", f"{found.name}_sampler", f"{found.name}_shares") if name not in taken)
    order = file.code(shuffle) if shuffle is not None else "False"
    keywords = f"shuffle={order}" + (f", drop_last={file.code(drop)}" if drop is not None else "")
    written, quote = file.code(size), quoted(source, "")[0]
    message = f"the batch size {written} has to be a multiple of the number of processes"
    yield insert_before_statement(
        source,
        file.tree.statement(call),
        f"if {written} % dist.get_world_size():\n"
        f"    raise ValueError({quote}{message}{quote})\n"
        f"{sampler} = {data}.DistributedSampler({file.code(dataset)}, {keywords})",
    )
    yield replace(source, size, f"{written} // dist.get_world_size()")
    if shuffle is None:
        yield from add_keyword(source, call, f"sampler={sampler}")
        return
    yield replace(source, next(arg for arg in call.args if arg.value is shuffle), f"sampler={sampler}")
    if not is_false(shuffle):
        epoch = file.code(found.epochs.target)
        yield insert_before_statement(source, found.epochs.body.body[0], f"{sampler}.set_epoch({epoch})")


def figure_edits(file: FileFacts, step: Step) -> Iterator[Edit]:
    """What is counted in a step is counted by all processes."""
    for figure, kind in step.figures.items():
        text = f"sum_of_processes({file.code(figure)})" + (" / dist.get_world_size()" if kind == "mean" else "")
        is_part = kind == "mean" and isinstance(file.tree.parent(figure), cst.Attribute)
        yield replace(file.source, figure, f"({text})" if is_part else text)
    for size in step.sizes:
        is_alone = isinstance(file.tree.parent(size), (cst.AugAssign, cst.Arg, cst.FormattedStringExpression))
        text = f"{file.code(size)} * dist.get_world_size()"
        yield replace(file.source, size, text if is_alone else f"({text})")
