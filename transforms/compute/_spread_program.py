"""Which scripts can be started on several processes: all that each of them does is in sight, and does no harm."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.programs import imports
from perfmod.transforms.facts.tree import find_all, find_any, is_true

DATA_PARALLEL = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
_LIBRARIES = {"torch", "torchvision", "torchaudio", "tqdm", "timm", "tensorboardX", "numpy", "scipy", "PIL", "cv2"}
_ALREADY = re.compile(
    r"\b(?:CUDA_VISIBLE_DEVICES|init_process_group|DistributedDataParallel|DistributedSampler|mp\.spawn)\b"
)
_STATE = re.compile(r"\.module\.(?:(?:load_)?state_dict|(?:named_)?parameters|train|eval)\(")
_OWN = ("time.", "datetime.", "os.getpid", "os.urandom", "uuid.", "secrets.", "builtins.hash", "builtins.id")
HOST_DRAWS = ("random.", "numpy.random.")
"""Streams of the host, of which each process has its own."""


class NotSpread(Exception):
    """Why a script stays as it is."""

    def __init__(self, node: cst.CSTNode, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


def require_one_program(file: FileFacts, call: cst.Call) -> None:
    """Only a script that can be seen as a whole is started on several processes."""
    own = file.tree.module
    linked = file.once(imports)
    if file.source.has_cells:
        raise NotSpread(call, "a notebook is no script that `torchrun` could start")
    if linked[own] or any(own in others for others in linked.values()):
        raise NotSpread(call, "the program has several files")
    for node in find_any(own, cst.Import, cst.ImportFrom):
        for name in _imported(node):
            if name.partition(".")[0] not in _LIBRARIES | sys.stdlib_module_names:
                raise NotSpread(node, f"what `{name}` does in several processes is not in sight")
    found = _ALREADY.search(file.source.text)
    if found is not None:
        raise NotSpread(call, f"`{found.group()}` is there already")
    if len([each for each in find_all(own, cst.Call) if file.qualified(each) in DATA_PARALLEL]) > 1:
        raise NotSpread(call, "the script has several models of this kind")
    if len([each for each in find_all(own, cst.Call) if dotted(each.func).endswith("backward")]) > 1:
        raise NotSpread(call, "the script has several backward passes")
    for node in find_all(own, cst.Attribute):
        if node.attr.value == "module" and not _STATE.match(file.source.text, file.source.span(node.value)[1]):
            raise NotSpread(node, f"`{file.code(node)}` passes by the wrapper, which then does not average gradients")
    for other in find_all(own, cst.Call):
        if is_true(argument(other, "download")):
            raise NotSpread(
                other, "all processes would download at once: download before the training, with another script"
            )
    for branch in find_any(own, cst.If, cst.While):
        assert isinstance(branch, (cst.If, cst.While))
        decided = own_call(file, branch.test, draws=True)
        if decided is not None:
            raise NotSpread(decided, "processes may decide differently here, and wait for each other for ever")


def _imported(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.ImportFrom):
        yield "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
    elif isinstance(node, cst.Import):
        yield from (dotted(alias.name) for alias in node.names)


def own_call(file: FileFacts, value: cst.BaseExpression, *, draws: bool) -> cst.Call | None:
    """The call that gives each process another value, and from which `value` is computed, directly or through names.

    With `draws`, also one in `value` itself that draws a number.
    """
    waiting: list[cst.CSTNode] = [value]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        for call in find_all(part, cst.Call):
            name = file.qualified(call) or ""
            if name.startswith(_OWN) or (draws and part is value and name.startswith(HOST_DRAWS)):
                return call
        for read in find_all(part, cst.Name):
            is_number = file.flow.is_variable(read)
            waiting += [each.value for each in file.flow.definitions(read) if is_number and each.value is not None]
    return None
