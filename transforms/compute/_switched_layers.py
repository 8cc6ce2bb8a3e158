"""Layers and parameters that a line sets in Python: a replay does what they did when the step was recorded.

So does code that may bind any name, `exec(...)`, or give tensors other memory than the recorded step has.
"""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute._kept_containers import fills
from perfmod.transforms.compute._reached import targets_of
from perfmod.transforms.compute._step_calls import NotRecorded, calls_method, owner
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, dotted
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind

LOOKED_AT = frozenset({"param_groups", "training", "data", "grad"})
"""What the recorder looks at in every round, of optimizers and modules; gradients are another matter."""
_CHANGES_LAYERS = tuple(
    f"torch.{name}"
    for name in ("nn.utils.prune", "nn.utils.parametri", "nn.utils.remove_", "nn.utils.weight_norm",
                 "nn.utils.spectral_norm", "ao.quantization", "quantization")
)  # fmt: skip
"""Functions that give a layer other hooks or parameters."""
_GIVES_LAYERS = frozenset(
    {"append", "insert", "extend", "add_module", "register_module", "register_buffer", "register_parameter"}
)
_OF_MODEL = frozenset({"parameters", "named_parameters", "modules", "named_modules", "children", "named_children"})


def require_no_switch(file: FileFacts, node: cst.CSTNode) -> None:
    """No line may set what a layer of a library does, or which parameters need gradients, or look at these."""
    if isinstance(node, cst.Subscript) and file.qualified(node.value) == "sys.modules":
        raise NotRecorded(node, f"`{file.code(node)}` may bind a name that the step reads")
    for target in targets_of(node):
        if isinstance(target, cst.Subscript) and file.value(target.value).kind is Kind.MODULE:
            raise NotRecorded(node, f"`{file.code(target)}` sets in Python what a layer does")
        is_global = isinstance(target, cst.Subscript) and isinstance(target.value, cst.Call)
        if is_global and file.qualified(cst.ensure_type(target, cst.Subscript).value) == "builtins.globals":
            raise NotRecorded(node, f"`{file.code(target)}` binds a name that the step may read")
        if isinstance(target, cst.Subscript) and _is_inner(target.value):
            raise NotRecorded(node, f"`{file.code(target)}` sets in Python what a layer does")
        if not isinstance(target, cst.Attribute):
            continue
        if target.attr.value == "data" and isinstance(node, cst.Assign):
            raise NotRecorded(node, f"`{file.code(target)}` gets other memory than the step has")
        if target.attr.value == "requires_grad" and _is_of_model(file, target.value):
            raise NotRecorded(node, f"`{file.code(node)}` says in Python which parameters need gradients")
        if target.attr.value not in LOOKED_AT and _is_layer(file, target.value):
            raise NotRecorded(node, f"`{file.code(target)}` sets in Python what a layer does")
    name = (file.qualified(node) or "") if isinstance(node, cst.Call) else ""
    if name == "builtins.exec" or (isinstance(node, cst.Call) and _fills_globals(file, node)):
        raise NotRecorded(node, f"`{file.code(node)}` may bind a name that the step reads")
    if name.startswith(_CHANGES_LAYERS):
        raise NotRecorded(node, f"`{name}` sets in Python what a layer does")
    is_assigned = calls_method(node, "load_state_dict") and isinstance(node, cst.Call) and argument(node, "assign", 2)
    if is_assigned or (calls_method(node, "set_") and file.qualified(node) is None):
        raise NotRecorded(node, f"`{file.code(node)}` gives tensors other memory than the step has")
    if calls_method(node, *_GIVES_LAYERS) and isinstance(node, cst.Call) and _is_given_layers(file, node):
        raise NotRecorded(node, f"`{file.code(node)}` sets in Python what a layer does")
    if calls_method(node, "requires_grad_") and isinstance(node, cst.Call) and _is_of_model(file, owner(node)):
        raise NotRecorded(node, f"`{file.code(node)}` says in Python which parameters need gradients")
    holder = node.value if isinstance(node, cst.Attribute) and node.attr.value == "state" else None
    if holder is not None and file.value(holder).kind is Kind.OPTIMIZER:
        raise NotRecorded(node, f"`{file.code(node)}` may get other memory than the step has")
    is_gradient = isinstance(node, cst.Attribute) and node.attr.value == "grad" and file.qualified(node) is None
    subject = node.value if is_gradient and isinstance(node, cst.Attribute) else None
    if subject is not None and not file.tree.is_target(node) and _is_of_model(file, subject):
        raise NotRecorded(node, f"`{file.code(node)}` reads a gradient, which a replay may leave elsewhere")


def _fills_globals(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call binds names by what holds all of them: `globals().update(weight=0.5)`."""
    holder = call.func.value if isinstance(call.func, cst.Attribute) else None
    is_global = isinstance(holder, cst.Call) and file.qualified(holder) == "builtins.globals"
    return is_global and holder is not None and fills(file, holder)


def _is_inner(node: cst.BaseExpression) -> bool:
    """Whether something is a dictionary in which a module keeps what it has."""
    return isinstance(node, cst.Attribute) and node.attr.value in ("_modules", "_buffers", "_parameters")


def _is_given_layers(file: FileFacts, call: cst.Call) -> bool:
    """Whether a module gets layers or tensors that it did not have; not while it is made."""
    function = file.tree.function(call)
    is_own = isinstance(function, cst.FunctionDef) and dotted(owner(call)).partition(".")[0] == "self"
    return not is_own and file.value(owner(call)).when_used.kind is Kind.MODULE


def _is_layer(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether something is, or may be, a layer whose code is not in sight; what other code reads is seen there."""
    value = file.value(node)
    if value.is_tensor or (value.cls is not None and set(value.cls.bases) <= {"torch.nn.Module"}):
        return False
    while value.kind is not Kind.MODULE and isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
        value = file.value(node)
    is_own = isinstance(node, cst.Name) and node.value == "self"
    return (value.kind is Kind.MODULE and not is_own) or _is_looped(file, node)


def _is_of_model(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether something is a model, or may be one of its parameters; a tensor with a name of its own is none."""
    if isinstance(node, cst.Name):
        return not file.value(node).is_tensor or _is_looped(file, node)
    return isinstance(node, (cst.Attribute, cst.Subscript)) or file.value(node).kind is Kind.MODULE


def _is_looped(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a name may stand for each layer or parameter of a model: `for m in model.modules()`, `apply(set_p)`."""
    for each in file.flow.of_name(node):
        if each.binding is Binding.LOOPED and each.value is not None:
            given = [end.node for end in file.tracing.ends(each.value)]
            if any(
                calls_method(call, *_OF_MODEL) for part in (each.value, *given) for call in find_all(part, cst.Call)
            ):
                return True
        is_handed = each.binding is Binding.PARAMETER and isinstance(each.scope, cst.FunctionDef)
        is_unknown = is_handed and file.value(node).kind is Kind.UNKNOWN and dotted(node) != "self"
        if is_unknown and not file.values.calls.callers(cst.ensure_type(each.scope, cst.FunctionDef)):
            return True
    return False
