"""What keeps code from being recorded as a CUDA graph: Python runs it once, and only the device's work is repeated."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._kept_containers import outlives
from perfmod.transforms.compute._reached import OF_TENSORS, reached, targets_of
from perfmod.transforms.compute._scaled_steps import is_scaler_call
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.rounds import runs_model
from perfmod.transforms.facts.tracing import literal
from perfmod.transforms.facts.tree import walk, walk_scope
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.waits import is_wait

RECORDER = "GraphedStep"
"""The class that is put into a script."""
Round = cst.For | cst.While | cst.FunctionDef
"""The code whose every run is one step: a loop, or a function that a loop calls."""
HOOKS = frozenset(
    {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook",
     "register_hook", "register_step_post_hook", "register_step_pre_hook"}
)  # fmt: skip
_OF_PROCESSES = frozenset({"is_available", "is_initialized", "get_rank", "get_world_size"})
"""What tells of the processes, and asks none of the others."""
_HOST_NOISE = ("numpy.random.", "random.")
_HOST = ("builtins.print", "builtins.input", "builtins.open", "builtins.next", "time.", "logging.", "wandb.", "os.")
_FROM_NUMBERS = frozenset(
    f"torch.{name}" for name in ("tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor")
)
_NOISE = re.compile(r"\b(?:rand|randn|randint|rand_like|randn_like|bernoulli|normal_|uniform_)\b")
_CHANGING = ("heapq.heap", "bisect.insort", "operator.setitem", "operator.i", "builtins.list.", "builtins.dict.")
"""Functions that change the container which they are given first."""
_SAME_ANSWER = frozenset({"builtins.isinstance", "builtins.hasattr", "torch.cuda.is_available"})
"""Functions that say the same in every round."""
_KEEPING = frozenset({"append", "extend", "insert", "update", "add", "pop", "put", "write", "set_postfix", "clear"})


@frozen
class Obstacle:
    """What keeps code from being recorded: where, and why in words that follow the line."""

    node: cst.CSTNode
    why: str


def obstacle(file: FileFacts, statement: cst.CSTNode, known: Container[cst.CSTNode] = ()) -> Obstacle | None:
    """What keeps a statement of a step, or what it calls, from being recorded; `known` parts of it do not."""
    outputs = outputs_of(file, statement)
    for node in (each for each in _recorded(file, statement) if each not in known):
        found = _obstacle_at(file, node, None, outputs) or _obstacle_of_own(file, node)
        if found is not None:
            return found
    for function in reached(file, statement):
        for node in _recorded(file, function.body):
            found = _obstacle_at(file, node, function)
            if found is not None:
                return found
    return None


def _recorded(file: FileFacts, code: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes of a step's code that may run while it is recorded: not those for machines without CUDA."""
    left_out: set[cst.CSTNode] = set()
    for node in walk_scope(code):
        if node in left_out:
            continue
        yield node
        if not isinstance(node, (cst.If, cst.IfExp)) or not isinstance(node.test, cst.Call):
            continue
        if node.orelse is not None and file.qualified(node.test) == "torch.cuda.is_available":
            left_out.update(walk(node.orelse))


def outputs_of(file: FileFacts, statement: cst.CSTNode) -> list[cst.Attribute]:
    """The attributes in which a statement keeps tensors for whoever reads them behind the step: `self.loss`."""
    return [
        target
        for node in walk_scope(statement)
        if isinstance(node, cst.Assign)
        for target in targets_of(node)
        if isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)
        if file.value(target).when_used.kind in (Kind.TENSOR, Kind.UNKNOWN) and not file.value(target.value).is_tensor
    ]


def _obstacle_at(
    file: FileFacts, node: cst.CSTNode, run: cst.FunctionDef | None, outputs: Sequence[cst.Attribute] = ()
) -> Obstacle | None:
    """What a node of a step, or of a function that it runs, is; `outputs` are given out by the step."""
    if is_scaler_call(file, node):
        return None
    if is_wait(file, node):
        return Obstacle(node, f"`{_short(file, node)}` waits for the device")
    if _is_read_in_python(file, node):
        return Obstacle(node, f"`{_short(file, node)}` is a number in Python, which a replay would not see change")
    if isinstance(node, (cst.Global, cst.Nonlocal)):
        return Obstacle(node, f"`{file.code(node)}` changes a value in Python")
    if isinstance(node, cst.WithItem) and not _is_of_torch(file, node.item):
        return Obstacle(node, f"`with {_short(file, node)}` would run its Python code only once")
    if isinstance(node, (cst.Yield, cst.Await)):
        return Obstacle(node, "a generator is no function of its tensors")
    for target in targets_of(node):
        if isinstance(target, cst.Attribute) and target not in outputs and not file.value(target.value).is_tensor:
            return Obstacle(target, f"`{file.code(target)}` is changed in Python")
        if isinstance(target, cst.Subscript) and _is_number_kept(file, target, run):
            return Obstacle(target, f"`{file.code(target)}` is changed in Python")
    grown = node.target if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name) else None
    if grown is not None and file.value(grown).kind is Kind.SEQUENCE and outlives(file, grown, run):
        return Obstacle(node, f"`{_short(file, node)}` changes a value in Python")
    if isinstance(node, cst.Attribute) and node.attr.value == "param_groups":
        return Obstacle(node, f"`{_short(file, node)}` is read in Python, which a replay would not see change")
    if isinstance(node, cst.Attribute) and _is_handed_method(file, node) and outlives(file, node.value, run):
        return Obstacle(node, f"`{_short(file, node)}` changes a value in Python")
    return _obstacle_of_call(file, node, run) if isinstance(node, cst.Call) else None


def _is_handed_method(file: FileFacts, node: cst.Attribute) -> bool:
    """Whether a method that changes a container gets another name, or is given to a function: `add = seen.append`."""
    parent = file.tree.parent(node)
    is_other = isinstance(parent, (cst.Arg, cst.Assign)) and parent.value is node
    return is_other and node.attr.value in _KEEPING and file.value(node.value).kind is Kind.SEQUENCE


def _is_read_in_python(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a call makes a number of a tensor: without a wait, where the tensor lies in the host's memory."""
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("item", "tolist"):
        return file.qualified(node) is None
    is_number = file.qualified(node) in ("builtins.int", "builtins.float", "builtins.bool")
    return is_number and any(file.value(arg.value).is_tensor for arg in node.args)


def _is_of_torch(file: FileFacts, manager: cst.BaseExpression) -> bool:
    """Whether a context manager is one of torch, whose switches a recording takes over: `torch.autocast("cuda")`."""
    made = [end.node for end in file.tracing.ends(manager)]
    return bool(made) and all(
        isinstance(each, cst.Call) and (file.qualified(each) or "").startswith(("torch.", "contextlib.nullcontext"))
        for each in made
    )


def _is_number_kept(file: FileFacts, target: cst.Subscript, run: cst.FunctionDef | None) -> bool:
    """Whether an item of a list or a dictionary that was there before is set: `stats["seen"] += len(x)`."""
    is_text = (
        isinstance(literal(cst.ensure_type(target.slice[0].slice, cst.Index).value), str) if _is_item(target) else False
    )
    holder = file.value(target.value)
    is_container = is_text or holder.kind in (Kind.SEQUENCE, Kind.INSTANCE, Kind.OBJECT)
    return is_container and not holder.is_tensor and outlives(file, target.value, run)


def _is_item(target: cst.Subscript) -> bool:
    return len(target.slice) == 1 and isinstance(target.slice[0].slice, cst.Index)


def _obstacle_of_call(file: FileFacts, call: cst.Call, run: cst.FunctionDef | None) -> Obstacle | None:
    name = file.qualified(call) or ""
    if name.startswith("torch.distributed.") and name.rpartition(".")[2] not in _OF_PROCESSES:
        return Obstacle(call, f"`{_short(file, call)}` talks to other processes")
    if name.startswith(_HOST_NOISE):
        return Obstacle(call, f"`{_short(file, call)}` draws on the host")
    if name.startswith(_HOST):
        return Obstacle(call, f"`{_short(file, call)}` would run only once")
    if name in _FROM_NUMBERS and not _is_empty(file, call):
        return Obstacle(call, f"`{_short(file, call)}` copies numbers from the host")
    if name.startswith(_CHANGING) and call.args and outlives(file, call.args[0].value, run):
        return Obstacle(call, f"`{_short(file, call)}` changes a value in Python")
    value = file.value(call)
    if name.startswith("torch.") and value.is_tensor and value.device is Device.CPU:
        return Obstacle(call, f"`{_short(file, call)}` is computed on the CPU")
    if not isinstance(call.func, cst.Attribute):
        return None
    method, owner = call.func.attr.value, call.func.value
    if method in HOOKS:
        return Obstacle(call, "the Python code of a hook would run only once")
    if not name and _is_generator(file, owner):
        return Obstacle(call, f"`{_short(file, call)}` draws on the host")
    if (
        method in _KEEPING
        and not name.startswith("torch.")
        and outlives(file, owner, run)
        and not file.value(owner).is_tensor
    ):
        return Obstacle(call, f"`{_short(file, call)}` changes a value in Python")
    if method in ("to", "cuda") and file.value(owner).device is Device.CPU:
        return Obstacle(call, f"`{_short(file, call)}` copies from the host")
    return None


def _is_generator(file: FileFacts, owner: cst.BaseExpression) -> bool:
    """Whether an object draws numbers on the host: `random.Random(0)`, `np.random.default_rng(0)`."""
    made = (end.node for end in file.tracing.ends(owner) if not end.path)
    return any(isinstance(each, cst.Call) and (file.qualified(each) or "").startswith(_HOST_NOISE) for each in made)


def _is_empty(file: FileFacts, call: cst.Call) -> bool:
    """Whether an old constructor is given sizes and reserves memory on the device: `torch.cuda.FloatTensor(n, 100)`."""
    where = file.values.placement.device_of_types(file.values.placement.tensor_types(call.func))
    is_sized = bool(call.args) and all(file.value(arg.value).kind is Kind.NUMBER for arg in call.args)
    return where is Device.ACCELERATOR and is_sized


def _obstacle_of_own(file: FileFacts, node: cst.CSTNode) -> Obstacle | None:
    """What a node of the loop's own body is, beside what it may be anywhere."""
    if isinstance(node, cst.If) and is_fixed(file, node):
        return None
    if isinstance(node, (cst.If, cst.While, cst.Try, cst.Assert, cst.Raise, cst.Break, cst.Continue, cst.Return)):
        return Obstacle(node, f"`{_short(file, node)}` decides in Python what a step does")
    if isinstance(node, cst.For) and not file.code(node.iter).endswith("parameters()"):
        return Obstacle(node, f"`{_short(file, node)}` is a loop in the step")
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("to", "cuda", "type"):
        value = file.value(node.func.value)
        if value.kind is not Kind.MODULE and value.device is not Device.ACCELERATOR:
            return Obstacle(node, f"`{_short(file, node)}` may copy from the host")
    if is_scaler_call(file, node):
        return None
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    if method in ("train", "eval") and not file.value(node).is_tensor:
        return Obstacle(node, f"`{_short(file, node)}` sets a mode in Python")
    is_usual = method in OF_TENSORS or method in ("parameters", "zero_grad") or _is_empty(file, node)
    if file.callees.of(node).is_unseen and not is_usual and not runs_model(file, node):
        return Obstacle(node, f"what `{_short(file, node)}` does is not in sight")
    return None


def is_fixed(file: FileFacts, branch: cst.If) -> bool:
    """Whether a condition comes out the same in every round, as long as nobody changes what it reads."""
    loops = file.tree.loops(branch)
    around: cst.CSTNode | None = loops[0] if loops else file.tree.function(branch)
    for node in walk_scope(branch.test):
        if isinstance(node, cst.Call) and file.qualified(node) not in _SAME_ANSWER:
            return False
        if isinstance(node, (cst.NamedExpr, cst.Subscript, cst.Await)):
            return False
        is_builtin = (file.qualified(node) or "").startswith("builtins.")
        if isinstance(node, cst.Name) and file.flow.is_read(node) and not is_builtin:
            made = file.flow.definitions(node)
            if file.value(node).is_tensor or around is None or not made:
                return False
            if any(file.tree.is_within(each.node, around) and not _is_self(file, each.node) for each in made):
                return False
    return True


def _is_self(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a definition is the first parameter of a method."""
    around = file.tree.function(node)
    if around is None or file.tree.class_of(around) is None:
        return False
    return isinstance(node, cst.Param) and around.params.params[:1] == (node,)


def draws(file: FileFacts, lines: Sequence[cst.BaseStatement]) -> bool:
    """Whether lines draw random numbers, themselves or by what they call, or a model in the files may have dropout."""
    if any("dropout" in source.text.lower() for source in file.world.files):
        return True
    code = [*lines, *(function for line in lines for function in reached(file, line))]
    return any(_NOISE.search(file.code(each)) for each in code)


def _short(file: FileFacts, node: cst.CSTNode) -> str:
    code = file.code(node).partition("\n")[0].strip()
    return code if len(code) <= 50 else f"{code[:47]}..."
