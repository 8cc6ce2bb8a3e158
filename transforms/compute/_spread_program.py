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
_DRAWS = re.compile(r"torch\.(?:rand\w*|utils\.data\.random_split|normal|multinomial|bernoulli)$")


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
        _require_shared(file, other)
        tests = [each for each in file.tree.ancestors(other) if isinstance(each, (cst.If, cst.While))]
        is_tested = any(file.tree.is_within(other, each.test) for each in tests)
        if is_tested and (file.qualified(other) or "").startswith(("time.", "datetime.", "random.", "numpy.random.")):
            raise NotSpread(other, "processes may decide differently here, and wait for each other for ever")


def _imported(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.ImportFrom):
        yield "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
    elif isinstance(node, cst.Import):
        yield from (dotted(alias.name) for alias in node.names)


def _require_shared(file: FileFacts, call: cst.Call) -> None:
    """What each process does must be the same, or do no harm when several do it at once."""
    name = file.qualified(call) or ""
    if is_true(argument(call, "download")):
        raise NotSpread(call, "all processes would download at once: download before the training, with another script")
    library = "torch" if _DRAWS.match(name) else name.partition(".")[0]
    is_draw = _DRAWS.match(name) or name.startswith(("random.", "numpy.random."))
    seeds = {"torch": "torch.manual_seed", "random": "random.seed", "numpy": "numpy.random.seed"}
    function = file.tree.function(call)
    is_of_class = function is not None and file.tree.class_of(function) is not None
    if not is_draw or name in seeds.values() or is_of_class or argument(call, "generator") is not None:
        return
    for seed in find_all(file.tree.module, cst.Call):
        is_above = file.tree.function(seed) is not function or file.comes_before(seed, call)
        if file.qualified(seed) == seeds[library] and seed.args and is_above:
            return
    raise NotSpread(call, f"each process would draw its own numbers: call `{seeds[library]}` before")
