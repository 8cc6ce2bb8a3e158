"""Launches that wait for their kernels, because `CUDA_LAUNCH_BLOCKING=1` was left in the code.

With that variable set the host waits for the end of every kernel before it launches the next, so that an error shows
up on the line that caused it. Host and device then work in turns instead of at the same time.

    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"         (gone)

No value changes: the kernels run in the same order. An assertion that fails on the device is reported later, and times
that are taken without a synchronisation no longer hold the device's part. Streams are another matter: their kernels
may then overlap, which a missing wait does not survive, so that the rewrite is held back in files that use them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.leftovers import _switches
from perfmod.transforms.rule import Edit, Family, Finding, Numerics, Rule, Safety, Status
from perfmod.transforms.writing import delete_statement, replace

_VARIABLE = "CUDA_LAUNCH_BLOCKING"
_SETTERS = frozenset({"os.environ.setdefault", "os.putenv"})
_STREAMS = frozenset({"Stream", "stream", "ExternalStream"})


class CudaLaunchBlocking(Rule):
    code = "PM403"
    name = "cuda-launch-blocking"
    family = Family.LEFTOVERS
    summary = "CUDA_LAUNCH_BLOCKING makes the host wait for every kernel"
    fix_title = "Let the host run ahead of the device"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({_VARIABLE})
    references = (
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#asynchronous-concurrent-execution",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    )
    changes_results = (
        "Never for values. Errors of kernels are reported at a later line, and times that are taken without "
        "`torch.cuda.synchronize()` only measure launches. Held back as unsafe where the file uses streams of its own."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        reads = [
            node
            for facts in file.world.files.values()
            for node in _mentions(facts.source.module)
            if _setting(facts, node) is None and not _clears(facts, node)
        ]
        for node in _mentions(file.source.module):
            setting = _setting(file, node)
            if setting is None:
                if _is_handed_on(file, node):
                    yield self.refused(file, node, "it is set for another process")
                continue
            value, edits = setting
            if not _switches_on(value) or _switches.is_optional(file, node):
                continue
            if reads:
                yield self.refused(file, node, f"the variable is read on line {file.line(reads[0])}")
                continue
            streams = _uses_streams(file)
            doubt = "the file uses streams, whose kernels it keeps apart" if streams else ""
            yield self.found(
                file, node, doubt or "the kernels run in the same order", edits, safety=Safety.UNSAFE if doubt else None
            )


def _mentions(module: cst.Module) -> Iterator[cst.SimpleString | cst.Name]:
    """The texts and keywords that name the variable."""
    yield from (text for text in find_all(module, cst.SimpleString) if text.evaluated_value == _VARIABLE)
    keywords = (arg.keyword for arg in find_all(module, cst.Arg) if arg.keyword is not None)
    yield from (keyword for keyword in keywords if keyword.value == _VARIABLE)


def _setting(file: FileFacts, node: cst.CSTNode) -> tuple[cst.BaseExpression, Sequence[Edit]] | None:
    """The value that a mention of the variable sets in this process, and what undoes it; None for other mentions."""
    source = file.source
    statement = file.tree.statement(node)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if (
            isinstance(target, cst.Subscript)
            and _is_environment(file, target.value)
            and file.tree.is_within(node, target)
        ):
            return statement.value, delete_statement(source, statement)
        return None
    call = next((a for a in file.tree.ancestors(node) if isinstance(a, cst.Call)), None)
    if call is None or not isinstance(statement, cst.Expr) or statement.value is not call:
        return None
    if file.qualified(call) in _SETTERS and len(call.args) == 2 and call.args[0].value is node:
        return call.args[1].value, delete_statement(source, statement)
    if (
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "update"
        and _is_environment(file, call.func.value)
    ):
        return _updated(file, call, node, statement)
    return None


def _updated(
    file: FileFacts, call: cst.Call, node: cst.CSTNode, statement: cst.Expr
) -> tuple[cst.BaseExpression, Sequence[Edit]] | None:
    """`os.environ.update(...)`: the call goes where it sets nothing else."""
    entry = file.tree.parent(node)
    entries = 0
    for arg in call.args:
        entries += len(arg.value.elements) if isinstance(arg.value, cst.Dict) else 1
    if isinstance(node, cst.Name):  # a keyword
        entry = next(arg for arg in call.args if arg.keyword is node)
    if not isinstance(entry, (cst.DictElement, cst.Arg)) or (
        isinstance(entry, cst.DictElement) and entry.key is not node
    ):
        return None
    if entries == 1:
        return entry.value, delete_statement(file.source, statement)
    return entry.value, [replace(file.source, entry.value, '"0"')]


def _is_environment(file: FileFacts, node: cst.BaseExpression) -> bool:
    return file.qualified(node) == "os.environ"


def _switches_on(value: cst.BaseExpression) -> bool:
    """Whether a value is a text that is written down, and not the one for off."""
    return isinstance(value, cst.SimpleString) and str(value.evaluated_value).strip() not in ("0", "")


def _clears(file: FileFacts, node: cst.CSTNode) -> bool:
    """`del os.environ[...]`, `os.environ.pop(..., None)`."""
    if isinstance(file.tree.statement(node), cst.Del):
        return True
    call = file.tree.parent(file.tree.parent(node) or node)
    if not isinstance(call, cst.Call) or len(call.args) < 2:
        return False
    return dotted(call.func).endswith("environ.pop")


def _is_handed_on(file: FileFacts, node: cst.CSTNode) -> bool:
    element = file.tree.parent(node)
    if isinstance(element, cst.DictElement) and element.key is node:
        return _switches_on(element.value)
    if isinstance(node, cst.Name):
        arg = next(a for a in find_all(file.tree.statement(node), cst.Arg) if a.keyword is node)
        return _switches_on(arg.value)
    statement = file.tree.statement(node)
    return (
        isinstance(statement, cst.Assign)
        and isinstance(statement.targets[0].target, cst.Subscript)
        and (file.tree.is_within(node, statement.targets[0].target) and _switches_on(statement.value))
    )


def _uses_streams(file: FileFacts) -> bool:
    return any(
        node.attr.value in _STREAMS and (file.qualified(node) or "").startswith("torch.cuda.")
        for node in find_all(file.tree.module, cst.Attribute)
    )
