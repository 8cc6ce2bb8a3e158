"""Evaluations: code that runs a model for its figures only, and what in it needs gradients after all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.gradients import may_carry_gradient
from perfmod.transforms.facts.tree import Scope, find_all, find_in_scope, is_false, walk, walk_scope
from perfmod.transforms.facts.value import Kind

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_EVALUATES = frozenset({"test", "eval", "evaluate", "evaluation", "validate", "validation", "valid", "val", "testing"})
_LOADERS = frozenset({"val", "valid", "validation", "test", "testing", "eval", "dev"})
_MODELS = frozenset(
    {"model", "net", "network", "encoder", "decoder", "generator", "classifier", "backbone", "unet", "vae", "policy"}
)
# Words in names of methods that run a model.
_RUNS = frozenset(
    {
        "forward", "predict", "encode", "decode", "sample", "infer", "inference", "score", "embed",
        "feature", "features", "loss", "reconstruct", "classify", "prob", "module", "logits", "represent", "embedding",
    }
)  # fmt: skip
_VERBS = frozenset(
    {
        "unwrap", "wrap", "save", "load", "get", "build", "create", "make", "init", "prepare", "setup", "set", "print",
        "count", "compile", "export", "eval", "evaluate", "test", "validate", "train", "update", "check", "log", "to",
    }
)  # fmt: skip
_SWITCHES = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "enable_grad"})
_OPTIMIZERS = frozenset({"optim", "optimizer", "optimiser"})
# Words in names of functions that are not in sight: what they do needs gradients.
_NEEDS_GRADIENTS = frozenset(
    {
        "attack", "adversarial", "adv", "pgd", "fgsm", "grad", "grads", "gradient", "gradients", "saliency", "cam",
        "gradcam", "hessian", "jacobian", "influence", "adapt", "adaptation", "finetune", "tune", "train", "fit",
        "optimize", "optimise", "langevin", "invert", "inversion", "attribution", "explain", "attribute", "perturb",
        "penalty", "backward",
    }
)  # fmt: skip
# Words for what models compute by gradients of their own: tasks that are learned, forces, attacks.
_INNER = frozenset(
    {
        "support", "maml", "meta", "finetune", "finetunning", "finetuning", "forces", "force", "energy", "energies",
        "adv", "adversarial", "attack", "gradient", "penalty", "hamiltonian", "physics", "pde", "residual",
    }
)  # fmt: skip
_READS = frozenset({"grad_fn", "retain_grad", "register_hook", "is_leaf"})
_OTHER_PATH = frozenset({"TransformerEncoder", "TransformerEncoderLayer", "MultiheadAttention", "Transformer"})
_FUSED = frozenset({"scaled_dot_product_attention", "compile"})


def words(name: str) -> set[str]:
    """The words of a name, in lower case."""
    return {word.lower() for word in _WORDS.findall(name)}


@frozen
class Region:
    """Statements of one block that evaluate, next to each other, and the calls of models in them."""

    first: cst.BaseStatement
    last: cst.BaseStatement
    calls: tuple[cst.Call, ...]


@frozen
class Need:
    """Why gradients are needed, and where."""

    node: cst.CSTNode
    reason: str


def mode(file: FileFacts, call: cst.Call) -> bool | None:
    """Whether `model.train()` or `model.eval()` puts a model in training mode; None for anything else."""
    if not isinstance(call.func, cst.Attribute):
        return None
    name = call.func.attr.value
    if name not in ("eval", "train") or file.qualified(call) is not None:
        return None
    if name == "eval" and not call.args:
        return False
    given = argument(call, "mode", 0)
    if name != "train" or len(call.args) > 1 or (call.args and given is None):
        return None
    if given is None:
        return True
    return {"True": True, "False": False}.get(given.value) if isinstance(given, cst.Name) else None


def modes(file: FileFacts, node: cst.CSTNode) -> Iterator[tuple[cst.Call, bool]]:
    """The calls at or below `node`, in its scope, that switch the mode of a model."""
    for call in find_in_scope(node, cst.Call):
        if isinstance(call, cst.Call) and (found := mode(file, call)) is not None:
            yield call, found


def receiver(file: FileFacts, call: cst.Call) -> str:
    """The model whose mode a call switches, as it is written."""
    assert isinstance(call.func, cst.Attribute)
    return file.code(call.func.value)


def model_calls(file: FileFacts, scope: cst.CSTNode, evaluated: set[str]) -> list[cst.Call]:
    """The calls of models in a scope: what was put into evaluation mode, modules, and what is named like one."""
    calls = find_in_scope(scope, cst.Call)
    return [call for call in calls if isinstance(call, cst.Call) and _is_model_call(file, call, evaluated)]


def parameters_read(file: FileFacts, nodes: Sequence[cst.CSTNode]) -> Iterator[cst.Call]:
    """The calls that give the parameters of a model, of which other tensors with a graph may be computed."""
    for call in (call for node in nodes for call in find_in_scope(node, cst.Call) if isinstance(call, cst.Call)):
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) and file.qualified(call) is None else ""
        if name in ("parameters", "named_parameters"):
            yield call


def _is_model_call(file: FileFacts, call: cst.Call, evaluated: set[str]) -> bool:
    if file.qualified(call) is not None or mode(file, call) is not None or _is_class(file, call.func):
        return False
    func = call.func
    code = dotted(func) or file.code(func)
    if code in evaluated:
        return True
    value = file.value(func)
    if value.kind is Kind.MODULE:
        return not (value.name or "").endswith("Loss")
    if isinstance(func, cst.Attribute) and func.attr.value in ("module", "forward"):
        return dotted(func.value) in evaluated or bool(words(dotted(func.value)) & _MODELS)
    if isinstance(func, cst.Attribute) and dotted(func.value) in evaluated:
        return bool(words(func.attr.value) & _RUNS) and not words(func.attr.value) & {"set", "load", "save", "init"}
    if isinstance(func, cst.Name) and any(
        isinstance(arg.value, (cst.Name, cst.Attribute)) and dotted(arg.value) in evaluated for arg in call.args
    ):
        return _runs_model(file, file.values.calls.resolve(call))
    is_named = isinstance(func, (cst.Name, cst.Attribute)) and _is_model_name(code) and value.kind is Kind.UNKNOWN
    function = file.values.calls.resolve(call) if is_named else None
    return is_named and (function is None or function.name.value == "forward")


def _is_class(file: FileFacts, func: cst.BaseExpression) -> bool:
    """Whether a call makes a model instead of running one."""
    if not isinstance(func, cst.Name):
        return False
    is_class = any(isinstance(d.node, cst.ClassDef) for d in file.flow.definitions(func))
    return (
        is_class
        or func.value in ("cls", "type")
        or (func.value[:1].isupper() and file.value(func).kind is Kind.UNKNOWN)
    )


def _runs_model(file: FileFacts, function: cst.FunctionDef | None) -> bool:
    """Whether a function of the file runs a model with gradients, and is no evaluation of its own."""
    if function is None or names_evaluation(function) or next(modes(file, function.body), None) is not None:
        return False
    calls = model_calls(file, function.body, _named_models(function))
    return any(not is_switched(file, call) for call in calls)


def _named_models(function: cst.FunctionDef) -> set[str]:
    return {param.name.value for param in function.params.params if _is_model_name(param.name.value)}


def _is_model_name(code: str) -> bool:
    last = code.rpartition(".")[2]
    return bool(words(last) & _MODELS) and not words(last) & _VERBS and last.isidentifier()


def is_switched(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether somebody has decided already whether `node` runs with gradients."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.With) and child is ancestor.body:
            if any(_switches(file, item.item) for item in ancestor.items):
                return True
        elif isinstance(ancestor, cst.FunctionDef) and child is ancestor.body:
            if any(_switches(file, decorator.decorator) for decorator in ancestor.decorators):
                return True
            if _is_called_without(file, ancestor) or _sets_mode(file, ancestor.body, node):
                return True
        elif isinstance(ancestor, cst.Module):
            return _sets_mode(file, ancestor, node)
        child = ancestor
    return False


def _switches(file: FileFacts, node: cst.BaseExpression) -> bool:
    for part in walk(node):
        if isinstance(part, (cst.Name, cst.Attribute)):
            name = (file.qualified(part) or dotted(part)).rpartition(".")[2]
            # `smart_inference_mode` decides, too
            if any(switch in name.lower() for switch in (*_SWITCHES, "nograd")):
                return True
            own = [d.node for d in file.flow.definitions(part) if isinstance(d.node, cst.FunctionDef)]
            if any(_SWITCHES & {inner.value for inner in find_all(f.body, cst.Name)} for f in own):
                return True
    # `with context:` of a variable, `with self.no_grad():` of a trainer.
    return isinstance(node, cst.Name) and any(
        d.value is not None and d.value is not node and _switches(file, d.value)
        for d in file.flow.definitions(node)
        if not isinstance(d.value, cst.Name)
    )


def _is_called_without(file: FileFacts, function: cst.FunctionDef) -> bool:
    callers = file.values.calls.callers(function)
    if not callers or not file.values.calls.is_only_called(function):
        return False
    return all(not file.tree.is_within(call, function) and is_switched(file, call) for call in callers)


def _sets_mode(file: FileFacts, scope: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether `torch.set_grad_enabled(False)` stands as a statement above `node`."""
    for statement in walk_scope(scope):
        if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
            name = (file.qualified(statement.value) or "").rpartition(".")[2]
            if name == "set_grad_enabled" and file.comes_before(statement, node):
                return True
    return False


# What evaluates


def names_evaluation(function: cst.FunctionDef) -> bool:
    """Whether a function is called `validate`, `test_epoch` or the like."""
    return bool(words(function.name.value) & _EVALUATES) and not words(function.name.value) & {"train", "training"}


def loads_evaluation(loop: cst.For) -> bool:
    """Whether a loop runs over something named like a loader of validation or test data."""
    return any(
        words(name.value) & _LOADERS and not words(name.value) & {"train"} for name in find_all(loop.iter, cst.Name)
    )


def evaluated_by(file: FileFacts, model_call: cst.Call, statement: cst.BaseStatement, scope: Scope) -> cst.Call | None:
    """The `model.eval()` that holds at a statement, for the model that `model_call` runs.

    It is the last switch of that model above the statement, in its block and those around it, unless that is to
    training.
    """
    line: cst.BaseStatement = statement
    while True:
        block = file.tree.block(line)
        for earlier in reversed(block[: block.index(line)] if line in block else []):
            for call, is_training in reversed(list(modes(file, earlier))):
                if _runs(model_call, receiver(file, call)):
                    return None if is_training else call
        outer = next((a for a in file.tree.ancestors(line) if isinstance(a, cst.BaseCompoundStatement)), None)
        if outer is None or outer is scope or isinstance(outer, (cst.FunctionDef, cst.ClassDef)):
            return None
        line = outer


def _runs(call: cst.Call, model: str) -> bool:
    """Whether a call runs a model, a part of it, or a function that is given it."""
    called = dotted(call.func)
    return called == model or called.startswith(f"{model}.") or any(dotted(arg.value) == model for arg in call.args)


# What needs gradients


def reached(file: FileFacts, nodes: Iterable[cst.CSTNode]) -> list[cst.CSTNode]:
    """Nodes, and the bodies of all functions of the file that run when they do."""
    found: dict[cst.CSTNode, None] = dict.fromkeys(nodes)
    stack = list(found)
    while stack:
        for function in file.steps.called_by(stack.pop()):
            if function.body not in found:
                found[function.body] = None
                stack.append(function.body)
    return list(found)


def need_of_gradients(file: FileFacts, nodes: Sequence[cst.CSTNode], calls: Iterable[cst.Call]) -> Need | None:
    """The first place at or below nodes, or in what they call, that asks autograd for something."""
    bodies = reached(file, nodes)
    inner = (call for body in bodies for call in model_calls(file, body, set()))
    if any(_is_unknown(file, call) for call in (*calls, *inner)):
        # Any module in sight may be the one that is called.
        bodies += [body for body in _forwards(file) if body not in bodies]
    for body in bodies:
        for node in walk_scope(body):
            reason = _need(file, node)
            if reason:
                return Need(node, f"{reason} on line {file.line(node)}")
    return None


def _is_unknown(file: FileFacts, call: cst.Call) -> bool:
    """Whether what a call runs is not in sight, and no module of PyTorch."""
    known = file.value(call.func)
    is_library = (known.name or "").startswith("torch.nn.") and known.name != "torch.nn.Sequential"
    if known.cls is not None or is_library:
        return False
    return file.values.calls.resolve(call) is None


def _forwards(file: FileFacts) -> list[cst.CSTNode]:
    methods = (cls.methods.get("forward") for cls in file.classes if cls.is_module)
    return reached(file, [method.body for method in methods if method is not None])


def _need(file: FileFacts, node: cst.CSTNode) -> str:
    if isinstance(node, cst.Call):
        return _need_of_call(file, node)
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "volatile":
        return "`volatile` already switches gradients off in PyTorch before 0.4"
    if isinstance(node, cst.Attribute):
        name = node.attr.value
        if name in _READS or (name == "requires_grad" and not _is_set_to_false(file, node)):
            return f"`{name}` is used"
        if name == "grad" and file.qualified(node) is None and file.value(node.value).kind is not Kind.MODULE:
            return "a gradient is read"
    if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value == "requires_grad":
        return "" if is_false(node.value) else "`requires_grad` is given"
    return ""


def _need_of_call(file: FileFacts, call: cst.Call) -> str:
    name = file.qualified(call) or ""
    if name.startswith(("torch.autograd.grad", "torch.autograd.functional", "torch.autograd.backward", "torch.func.")):
        return f"`{name}` is called"
    if name.rpartition(".")[2] in ("enable_grad", "is_grad_enabled"):
        return f"`{name}` is called"
    if name.startswith(("torch.", "builtins.", "numpy.")):
        return "" if not name.startswith("torch.optim.") else "an optimizer is created"
    if isinstance(call.func, cst.Attribute):
        method = call.func.attr.value
        if method in ("backward", "manual_backward") or (method == "requires_grad_" and not _is_false(call)):
            return f"`{method}` is called"
        if method == "step" and words(dotted(call.func.value)) & (_OPTIMIZERS | {"opt", "scaler"}):
            return "an optimizer steps"
        if method == "numpy" and _may_be_caught(file, call) and may_carry_gradient(file, call.func.value):
            return "the error of `numpy()` on a tensor that requires grad may be caught"
    if file.values.calls.resolve(call) is None and mode(file, call) is None:
        short = dotted(call.func).rpartition(".")[2]
        if short not in ("zero_grad", "no_grad") and words(short) & _NEEDS_GRADIENTS:
            return f"perfmod cannot see the code of `{short}`, which may need gradients"
        if any(words(dotted(arg.value)) & _OPTIMIZERS for arg in call.args):
            return f"the optimizer is passed to `{short}`"
    return ""


def _may_be_caught(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a `try` of the same function has a handler for what `node` raises."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, cst.Try) and child is ancestor.body and ancestor.handlers:
            return True
        if isinstance(ancestor, cst.FunctionDef):
            return False
        child = ancestor
    return False


def _is_set_to_false(file: FileFacts, node: cst.Attribute) -> bool:
    target = file.tree.parent(node)
    statement = file.tree.parent(target) if isinstance(target, cst.AssignTarget) else None
    return isinstance(statement, cst.Assign) and is_false(statement.value)


def _is_false(call: cst.Call) -> bool:
    given = argument(call, "requires_grad", 0)
    return is_false(given)


def suggests_gradients(file: FileFacts, nodes: Sequence[cst.CSTNode], calls: Iterable[cst.Call]) -> str:
    """A name by which a model that is not in sight may take gradients in its forward pass; empty if none does."""
    if not any(_is_unknown(file, call) for call in calls):
        return ""
    mentioned = (name.value for node in nodes for name in find_all(node, cst.Name))
    return next((name for name in mentioned if words(name) & _INNER), "")


# What computes otherwise without gradients


def takes_another_path(file: FileFacts) -> str:
    """A module of the file that takes a fused path where gradients are off, with other figures; empty if none does."""
    return next((node.value for node in find_all(file.tree.module, cst.Name) if node.value in _OTHER_PATH), "")


def may_round_differently(file: FileFacts) -> bool:
    """Whether the file uses something that picks another kernel where gradients are off."""
    return any(node.value in _FUSED for node in find_all(file.tree.module, cst.Name))
