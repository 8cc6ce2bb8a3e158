"""What keeps code from being recorded as a CUDA graph: Python runs it once, and only the device's work is repeated."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.compute._scaled_steps import is_scaler_call
from perfmod.transforms.facts import anomaly
from perfmod.transforms.facts.accelerators import records_graphs
from perfmod.transforms.facts.calls import argument, is_decorated
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.rounds import runs_model
from perfmod.transforms.facts.tracing import literal
from perfmod.transforms.facts.tree import children, find_all, find_in_scope, walk, walk_scope
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.source import Source
from perfmod.transforms.waits import is_wait

RECORDER = "GraphedStep"
"""The class that is put into a script."""
Round = cst.For | cst.While | cst.FunctionDef
"""The code whose every run is one step: a loop, or a function that a loop calls."""
_HOOKS = frozenset(
    {"register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook",
     "register_hook", "register_step_post_hook", "register_step_pre_hook"}
)  # fmt: skip
_DISTRIBUTED = ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "init_process_group")
_OF_PROCESSES = frozenset({"is_available", "is_initialized", "get_rank", "get_world_size"})
"""What tells of the processes, and asks none of the others."""
_HOST_NOISE = ("numpy.random.", "random.")
_HOST = ("builtins.print", "builtins.input", "builtins.open", "builtins.next", "time.", "logging.", "wandb.", "os.")
_FROM_NUMBERS = frozenset(
    f"torch.{name}" for name in ("tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor")
)
_NOISE = re.compile(r"\b(?:rand|randn|randint|rand_like|randn_like|bernoulli|normal_|uniform_)\b")
OF_TENSORS = frozenset(
    {"abs", "argmax", "clamp", "contiguous", "detach", "div", "exp", "expand", "expand_as", "flatten", "float",
     "gather", "log", "log_softmax", "long", "max", "mean", "min", "mul", "permute", "pow", "repeat", "reshape", "size",
     "softmax", "sqrt", "squeeze", "sum", "transpose", "type_as", "unsqueeze", "view", "view_as"}
)  # fmt: skip
_LOOPED = re.compile(
    r"torch_geometric\.nn\.(?:\w+\.)*(?:AGNN|Cheb|ClusterGCN|DNA|EG|FA|FeaSt|GAT|GATv2|GCN|GCN2|MixHop|PDN|PPF|PointNet"
    r"|PointTransformer|SG|SSG|SuperGAT)Conv|torch_geometric\.nn\.(?:\w+\.)*APPNP"
)
_RUN_METHODS = (
    cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.Comparison, cst.AugAssign, cst.If, cst.IfExp,
    cst.While, cst.Assert, cst.For, cst.CompFor, cst.FormattedStringExpression,
)  # fmt: skip
"""What runs special methods of its operands."""
_CONTAINERS = frozenset({"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"})
"""Modules that run the layers that they are given; others of torch run layers of their own."""
_WITHOUT_LOOPS = {"add_self_loops": "False", "cached": "True", "normalize": "False"}
"""Arguments of such layers with which they look for none, or only once."""
_MADE_ANEW = (
    cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp, cst.Tuple, cst.BinaryOperation,
)  # fmt: skip
"""Expressions whose value no other name stands for yet."""
_MAKERS = ("builtins.list", "builtins.dict", "builtins.set", "builtins.bytearray", "collections.", "copy.")
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


def obstacle_of_files(file: FileFacts, loop: cst.CSTNode) -> Obstacle | None:
    """What the files with the code of a loop do that keeps any of their steps from being recorded."""
    if anomaly.is_checked(file):
        return Obstacle(loop, "anomaly detection looks at every gradient")
    sources = {file.source: None, **{file.source_of(function): None for function in reached(file, loop)}}
    if any(records_graphs(source) and not _has_recorder(source) for source in sources):
        return Obstacle(loop, "the files record CUDA graphs already")
    for source in sources:
        for call in find_all(source.module, cst.Call):
            name = dotted(call.func).rpartition(".")[2]
            if name in _DISTRIBUTED and _is_in_every_run(file, call):
                return Obstacle(call, f"`{name}` makes every step talk to other processes")
            if name in _HOOKS and _is_in_every_run(file, call, is_called=False):
                return Obstacle(call, "the Python code of a hook would run only once")
            if _looks_for_loops(file, call):
                return Obstacle(call, f"`{name}` looks for self-loops in every step, which waits for the device")
    return None


def _is_in_every_run(file: FileFacts, call: cst.Call, *, is_called: bool = True) -> bool:
    """Whether no condition keeps a call from being made; the recorder looks in each run for processes and hooks.

    Functions that nothing in sight calls are run if `is_called`.
    """
    waiting, seen = [call], {call}
    while waiting:
        current = waiting.pop()
        around = file.tree.function(current)
        if _is_under_condition(file, current, around):
            continue
        callers = file.values.calls.callers(around) if around is not None else ()
        if around is None or (not callers and is_called):
            return True
        waiting += [each for each in callers if each not in seen]
        seen.update(callers)
    return False


def _is_under_condition(file: FileFacts, call: cst.Call, around: cst.FunctionDef | None) -> bool:
    for each in file.tree.ancestors(call):
        if each is around:
            break
        if isinstance(each, (cst.If, cst.IfExp)) and "__name__" not in file.code(each.test):
            return True
    return around is not None and any(file.comes_before(each, call) for each in file.tree.results(around))


def _looks_for_loops(file: FileFacts, call: cst.Call) -> bool:
    """Whether a layer for graphs selects edges by a mask in every forward pass, and does not keep the result."""
    if not _LOOPED.fullmatch(file.qualified(call) or ""):
        return False
    given = ((name, argument(call, name)) for name in _WITHOUT_LOOPS)
    return not any(value is not None and file.code(value) == _WITHOUT_LOOPS[name] for name, value in given)


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


def reached(file: FileFacts, statement: cst.CSTNode) -> list[cst.FunctionDef]:
    """The functions in sight that a statement runs, through others too."""
    found: dict[cst.FunctionDef, None] = {}
    stack: list[cst.CSTNode] = [statement]
    while stack:
        for node in find_in_scope(stack.pop(), cst.Call, cst.Attribute, cst.Subscript, *_RUN_METHODS):
            for function in _run_by(file, node):
                for each in (function, *_wrappers(file, function)):
                    if each not in found:
                        found[each] = None
                        stack.append(each.body)
    return list(found)


def _wrappers(file: FileFacts, function: cst.FunctionDef) -> Iterator[cst.FunctionDef]:
    """The functions in decorators in sight, which run in the place of a function."""
    for decorator in function.decorators:
        name = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
        for made in file.flow.of_name(name):
            if isinstance(made.node, cst.FunctionDef):
                yield from find_all(made.node.body, cst.FunctionDef)


def _run_by(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """The functions in sight that a call runs, that a property is, or that gives an item."""
    if isinstance(node, cst.Call):
        yield from file.values.calls.reached(node) or _maybe_run_by(file, node)
        yield from file.values.calls.handed(node)
    elif isinstance(node, cst.Attribute) and file.qualified(node) is None:
        own = file.classes.self_attribute(node)
        cls = own[0] if own is not None else file.value(node.value).cls
        method = cls.method(node.attr.value) if cls is not None else None
        if method is not None and is_decorated(method, "property"):
            yield method
    elif isinstance(node, cst.Subscript) and (cls := file.value(node.value).cls) is not None:
        yield from filter(None, [cls.method("__getitem__")])
    yield from _run_by_operands(file, node)


def _run_by_operands(file: FileFacts, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """What arithmetic with an object of a class in sight may run, a comparison, a condition or a conversion of it:
    `__mul__`, `__eq__`, `__bool__`, `__float__`.
    """
    operands: list[cst.CSTNode] = []
    if isinstance(node, _RUN_METHODS):
        operands = [*children(node), *(each.comparator for each in getattr(node, "comparisons", ()))]
    elif isinstance(node, cst.Call) and (file.qualified(node) or "").startswith("builtins."):
        operands = [arg.value for arg in node.args]
    values = (file.value(each) for each in operands if isinstance(each, cst.BaseExpression))
    for cls in filter(None, (each.cls for each in values)):
        for own in cls.lineage():
            yield from (
                each
                for name, each in own.methods.items()
                if name.startswith("__") and name not in ("__init__", "__call__")
            )


def _maybe_run_by(file: FileFacts, call: cst.Call) -> list[cst.FunctionDef]:
    """What a call may run that names no function in sight: methods of that name where the object is not known, as those
    of callbacks in a list, and layers in sight that a container, or a wrapper around a model, may hold.
    """
    func = call.func
    if isinstance(func, cst.Attribute) and file.qualified(func) is None and func.attr.value not in OF_TENSORS:
        held = file.value(func.value)
        if held.kind is Kind.UNKNOWN and held.present is None:
            return [each for cls in file.classes if (each := cls.methods.get(func.attr.value)) is not None]
    made = [each.value for each in file.flow.of_name(func) if isinstance(each.value, cst.Call)]
    makers = [each for call_of_maker in made for each in file.values.calls.reached(call_of_maker)]
    if makers and isinstance(func, cst.Name) and file.value(func).kind is Kind.UNKNOWN:
        return [each for maker in makers for each in find_all(maker.body, cst.FunctionDef)]
    value = file.value(func).when_used
    is_looped = value.kind is Kind.UNKNOWN and (
        isinstance(func, cst.Subscript) or any(each.binding is Binding.LOOPED for each in file.flow.of_name(func))
    )
    is_layer = (value.name or "").startswith("torch.nn.") and value.name not in _CONTAINERS
    is_whole = is_layer or (value.call is not None and _is_of_torch_only(file, value.call))
    if is_looped or (value.kind is Kind.MODULE and value.cls is None and not is_whole):
        return [each for cls in file.classes if cls.is_module and (each := cls.methods.get("forward")) is not None]
    return []


def _is_of_torch_only(file: FileFacts, made: cst.BaseExpression) -> bool:
    """Whether a module is one of torch and holds no other: `nn.Sequential(nn.Linear(4, 8), nn.ReLU())`."""
    name = file.qualified(made) or "" if isinstance(made, cst.Call) else ""
    if name not in _CONTAINERS or not isinstance(made, cst.Call):
        return name.startswith("torch.nn.")
    return all(not arg.star and _is_of_torch_only(file, arg.value) for arg in made.args)


def _has_recorder(source: Source) -> bool:
    """Whether it records graphs by what another step of it was given already."""
    return any(node.name.value == RECORDER for node in find_all(source.module, cst.ClassDef))


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
    if grown is not None and file.value(grown).kind is Kind.SEQUENCE and _outlives(file, grown, run):
        return Obstacle(node, f"`{_short(file, node)}` changes a value in Python")
    if isinstance(node, cst.Attribute) and node.attr.value == "param_groups":
        return Obstacle(node, f"`{_short(file, node)}` is read in Python, which a replay would not see change")
    if isinstance(node, cst.Attribute) and _is_handed_method(file, node) and _outlives(file, node.value, run):
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
    return is_container and not holder.is_tensor and _outlives(file, target.value, run)


def _is_item(target: cst.Subscript) -> bool:
    return len(target.slice) == 1 and isinstance(target.slice[0].slice, cst.Index)


def targets_of(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a statement, or the head of a loop, binds, changes or deletes: `x = 1`, `for self.epoch in range(9)`."""
    if isinstance(node, cst.Assign):
        for each in node.targets:
            yield from _parts(each.target)
    elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor)):
        yield from _parts(node.target)
    elif isinstance(node, cst.WithItem) and node.asname is not None:
        yield from _parts(node.asname.name)
    elif isinstance(node, cst.Del):
        yield from _parts(node.target)


def _parts(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _parts(element.value)
    else:
        yield target


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
    if name.startswith(_CHANGING) and call.args and _outlives(file, call.args[0].value, run):
        return Obstacle(call, f"`{_short(file, call)}` changes a value in Python")
    value = file.value(call)
    if name.startswith("torch.") and value.is_tensor and value.device is Device.CPU:
        return Obstacle(call, f"`{_short(file, call)}` is computed on the CPU")
    if not isinstance(call.func, cst.Attribute):
        return None
    method, owner = call.func.attr.value, call.func.value
    if method in _HOOKS:
        return Obstacle(call, "the Python code of a hook would run only once")
    if not name and _is_generator(file, owner):
        return Obstacle(call, f"`{_short(file, call)}` draws on the host")
    if (
        method in _KEEPING
        and not name.startswith("torch.")
        and _outlives(file, owner, run)
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


def _outlives(file: FileFacts, owner: cst.BaseExpression, run: cst.FunctionDef | None) -> bool:
    """Whether an object may have been there before the step: not where each round, or `run` of a function, makes it."""
    if not isinstance(owner, cst.Name):
        return True
    around = file.tree.function(owner)
    loops = set(file.tree.loops(owner)) if run is None else set()
    is_of_module = around is None and not loops
    return is_of_module or not all(
        (d.scope is around or around is None)
        and not isinstance(d.node, cst.Param)
        and loops <= set(file.tree.loops(d.node))
        and d.binding is not Binding.LOOPED
        and not d.path
        and _is_made_anew(file, d.value)
        for d in file.flow.definitions(owner)
    )


def _is_made_anew(file: FileFacts, value: cst.BaseExpression | None) -> bool:
    """Whether an object is made where a name is bound to it, or by the function that is called there."""
    if not isinstance(value, cst.Call):
        return isinstance(value, _MADE_ANEW)
    if (file.qualified(value) or "").startswith(_MAKERS) or file.values.calls.constructed(value) is not None:
        return True
    functions = list(file.values.calls.reached(value))
    ends = [end.node for end in file.tracing.ends(value)] if functions else []
    if ends and all(isinstance(each, _MADE_ANEW) and file.tree.function(each) in functions for each in ends):
        return True
    return not functions and runs_model(file, value)


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
