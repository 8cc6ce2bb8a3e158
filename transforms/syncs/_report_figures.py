"""Scalars of the device that a statement shows, writes down or hands on, and which of them can be read together."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.syncs._devices import device_label, moves
from perfmod.transforms.syncs._host_reads import HostRead, host_read, is_differentiated

# Methods that put what they are given into a list, a meter or a dictionary: sums and lists are another rule's.
_KEEPS = frozenset({"add", "append", "appendleft", "extend", "insert", "update"})
_RANDOM = re.compile(r"rand|dropout|bernoulli|multinomial|normal|uniform|exponential|geometric|cauchy|poisson|sample")
_SPECIFIER = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d+)?([a-zA-Z]))")
_DEVICE_TEXT = re.compile(r"^(?:cuda|xpu):(\d+)$")
_OPERATORS = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.Power)


@frozen(eq=False)
class Figure:
    """A scalar of the device as a statement uses it.

    Attributes:
        node: what is replaced by a name: the read, or the tensor that a format reads.
        tensor: the tensor that is read.
        read: how; `None` where a format does it.
        definition: of the variable that holds the number, where an earlier statement reads it.
    """

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    read: HostRead | None
    definition: Definition | None = None


def figures(file: FileFacts, statement: cst.CSTNode) -> Iterator[Figure]:
    """The scalars that a statement reads, by `item()` and by formats, in the order in which they stand."""
    for node in walk(statement):
        if isinstance(node, cst.Call):
            read = host_read(file, node)
            if read is not None and not is_kept(file, node):
                yield Figure(node, read.tensor, read)
        if isinstance(node, (cst.Name, cst.Attribute)) and is_formatted(file, node):
            value = file.value(node)
            is_scalar = value.is_tensor and value.rank == 0 and value.device is not Device.CPU
            if is_scalar and not _may_be_parameter(file, node):
                yield Figure(node, node, None)


def _may_be_parameter(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a format may be given a parameter of a module, which it does not show as a number."""
    if isinstance(node, cst.Name):
        parts = [definition.part for definition in file.flow.definitions(node)]
        return any(part is not None and part is not node and _may_be_parameter(file, part) for part in parts)
    if isinstance(node, cst.Attribute):
        own = file.classes.self_attribute(node)
        cls = own[0] if own is not None else file.value(node.value).cls
        assigned = cls.assignments(node.attr.value) if cls is not None else []
        return any(found.value is not None and _makes_parameter(file, found.value) for found in assigned)
    return _makes_parameter(file, node)


def _makes_parameter(file: FileFacts, node: cst.BaseExpression) -> bool:
    return file.qualified(node) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")


def is_kept(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether a read stands in a call that puts it into a list, a meter or a dictionary."""
    for parent in file.tree.ancestors(node):
        if isinstance(parent, cst.BaseSmallStatement):
            return False
        func = parent.func if isinstance(parent, cst.Call) else None
        is_keeping = isinstance(func, cst.Attribute) and func.attr.value in _KEEPS
        if func is not None and is_keeping and not file.tree.is_within(node, func):
            return True
    return False


def is_formatted(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is shown by an f-string, `"...".format(...)` or `"%f" % ...`, which show scalars as numbers."""
    parent = file.tree.parent(node)
    if isinstance(parent, (cst.Element, cst.BinaryOperation)):
        return _is_shown_as_number(file, node)
    if isinstance(parent, cst.FormattedStringExpression):
        return parent.conversion is None and parent.expression is node
    call = file.tree.parent(parent) if isinstance(parent, cst.Arg) and not parent.star else None
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "format"):
        return False
    text = call.func.value
    is_text = isinstance(text, (cst.SimpleString, cst.ConcatenatedString)) and isinstance(text.evaluated_value, str)
    return is_text and "!" not in str(getattr(text, "evaluated_value", "!"))


def _is_shown_as_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether `text % node` or `text % (..., node)` asks a value for its number, as `%f` and `%d` do."""
    place: cst.CSTNode = node
    parent, shown = file.tree.parent(node), [node]
    if isinstance(parent, cst.Element):
        around = file.tree.parent(parent)
        if not isinstance(around, cst.Tuple) or not all(isinstance(part, cst.Element) for part in around.elements):
            return False
        place, parent, shown = around, file.tree.parent(around), [part.value for part in around.elements]
    if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, cst.Modulo):
        return False
    text = parent.left.evaluated_value if isinstance(parent.left, (cst.SimpleString, cst.ConcatenatedString)) else None
    if parent.right is not place or not isinstance(text, str) or "%" in _SPECIFIER.sub("", text):
        return False
    specifiers = [found[1] for found in _SPECIFIER.finditer(text) if found[1]]
    return len(specifiers) == len(shown) and specifiers[shown.index(node)] in "fFeEgGdi"


def why_not_joined(file: FileFacts, figure: Figure) -> str | None:
    """Why a scalar cannot be read with others in front of its statement; `None` where it can."""
    code = file.code(figure.tensor)
    if "#" in file.code(figure.node):
        return "a comment stands inside the read"
    parent = file.tree.parent(figure.node)
    if isinstance(parent, cst.FormattedStringExpression) and parent.equal is not None:
        return "an f-string shows how the figure is computed"
    if figure.definition is None:
        for ancestor in file.tree.ancestors(figure.node):
            if isinstance(ancestor, cst.BaseSmallStatement):
                break
            if isinstance(ancestor, (cst.Lambda, cst.BaseComp)):
                return f"`{code}` is read inside another expression, perhaps several times"
            if isinstance(ancestor, (cst.IfExp, cst.BooleanOperation, cst.Await, cst.NamedExpr)):
                return f"`{code}` is read only sometimes"
    value, is_trained = file.value(figure.tensor), is_differentiated(file, figure.tensor)
    is_cut = figure.read is not None and file.qualified(figure.read.call) == "builtins.int"
    if is_cut and value.dtype not in (DType.INTEGER, DType.BOOL):
        return "int() cuts off what stands behind the point"
    if not value.is_tensor and not is_trained:
        return f"`{code}` could not be shown to be a tensor"
    if dtype_of(file, figure) is None:
        return f"`{code}` may be an integer or a fraction, and all that are read together get one type"
    if figure.definition is None and not _is_pure(file, figure.tensor):
        return f"`{code}` may not be evaluated earlier than the rest of the line"
    return None


def dtype_of(file: FileFacts, figure: Figure) -> DType | None:
    """The class of type in which a figure can be read with others: floating, or integer; `None` for neither."""
    dtype = file.value(figure.tensor).dtype
    if dtype is None and is_differentiated(file, figure.tensor):
        dtype = DType.FLOATING
    converted = file.qualified(figure.read.call) if figure.read is not None else None
    if converted == "builtins.float" and dtype is not DType.FLOATING:
        return None
    return dtype if dtype in (DType.FLOATING, DType.INTEGER) else None


def is_placed(file: FileFacts, figure: Figure) -> bool:
    """Whether a tensor is on the accelerator as far as the code shows."""
    return file.value(figure.tensor).device is Device.ACCELERATOR


def several_devices(file: FileFacts) -> cst.CSTNode | None:
    """Where a second accelerator of this process comes in, if one does."""
    seen: dict[str, cst.CSTNode] = {}
    for node in walk(file.tree.module):
        number: str | None = None
        if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
            match = _DEVICE_TEXT.match(node.evaluated_value)
            number = match[1] if match else "0" if _is_current_device(file, node) else None
        if number is not None:
            seen.setdefault(number, node)
    named: dict[str, cst.CSTNode] = {}
    for call, destination in moves(file.tree.module):
        label = device_label(file, destination)
        if label is not None:
            (seen if label.isdigit() else named).setdefault(label, call)
    # A plain `device` may be any of those that have numbers.
    return next((list(found.values())[1] for found in (seen, named) if len(found) > 1), None)


def _is_current_device(file: FileFacts, node: cst.SimpleString) -> bool:
    """Whether a text is the "cuda" of `torch.device("cuda")`, `x.to("cuda")` or `device="cuda"`, by a choice too."""
    place: cst.CSTNode | None = node
    while isinstance(file.tree.parent(place or node), cst.IfExp):
        place = file.tree.parent(place or node)
    arg = file.tree.parent(place or node)
    call = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    if node.evaluated_value != "cuda" or not isinstance(arg, cst.Arg) or not isinstance(call, cst.Call):
        return False
    if arg.keyword is not None:
        return arg.keyword.value == "device"
    is_to = isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"
    return len(call.args) == 1 and (is_to or file.qualified(call) == "torch.device")


def _is_pure(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether evaluating an expression a little earlier gives the same and changes nothing."""
    if isinstance(node, (cst.Name, cst.BaseNumber)):
        return True
    if isinstance(node, cst.Attribute):
        return _is_pure(file, node.value)
    if isinstance(node, cst.Subscript):
        keys = [part.slice.value if isinstance(part.slice, cst.Index) else None for part in node.slice]
        plain = (cst.BaseNumber, cst.BaseString, cst.Name)
        return _is_pure(file, node.value) and all(isinstance(key, plain) for key in keys)
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _OPERATORS) and _is_pure(file, node.left) and _is_pure(file, node.right)
    if isinstance(node, cst.UnaryOperation):
        return _is_pure(file, node.expression)
    if isinstance(node, cst.Comparison):
        return _is_pure(file, node.left) and all(_is_pure(file, t.comparator) for t in node.comparisons)
    if not isinstance(node, cst.Call) or any(arg.star for arg in node.args):
        return False
    if not all(_is_pure(file, arg.value) for arg in node.args):
        return False
    if any(arg.keyword is not None and arg.keyword.value in ("out", "inplace", "training") for arg in node.args):
        return False
    name = file.qualified(node)
    if name is not None:
        return name.startswith("torch.") and not name.endswith("_") and not _RANDOM.search(name)
    if not isinstance(node.func, cst.Attribute):
        return False
    method = node.func.attr.value
    is_tensor = file.value(node.func.value).is_tensor or is_differentiated(file, node.func.value)
    return is_tensor and not method.endswith("_") and not _RANDOM.search(method) and _is_pure(file, node.func.value)


def held_in(file: FileFacts, read: HostRead) -> Definition | None:
    """The variable of `value = loss.item()`."""
    statement = file.tree.statement(read.call)
    if not isinstance(statement, cst.Assign) or statement.value is not read.call or len(statement.targets) != 1:
        return None
    target = statement.targets[0].target
    if not isinstance(target, cst.Name):
        return None
    found = file.flow.defined(target)
    return found[0] if len(found) == 1 and found[0].binding is Binding.ASSIGNED else None


def bare(file: FileFacts, statement: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.Call]]:
    """Tensors that are given to `print` or to a logger as they are, and the calls."""
    for call in find_all(statement, cst.Call):
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        is_print = file.qualified(call) in ("builtins.print", "builtins.str", "builtins.repr")
        is_function = (file.qualified(call) or "").startswith(("torch.", "math.", "numpy."))
        is_function = is_function or file.value(call).is_tensor
        if not is_print and (method not in SHOWS or is_function or _is_lightning(file, call)):
            continue
        for arg in call.args:
            values = [arg.value]
            if isinstance(arg.value, cst.Dict):
                values = [part.value for part in arg.value.elements]
            elif isinstance(arg.value, cst.BinaryOperation) and isinstance(arg.value.operator, cst.Modulo):
                right = arg.value.right
                values = [part.value for part in right.elements] if isinstance(right, cst.Tuple) else [right]
            for value in values:
                found = file.value(value)
                trained = isinstance(value, (cst.Name, cst.Attribute)) and is_differentiated(file, value)
                is_scalar = found.is_tensor and found.device is not Device.CPU and found.rank in (0, None)
                if is_scalar or (trained and found.kind is not Kind.NUMBER):
                    yield value, call


def _is_lightning(file: FileFacts, call: cst.Call) -> bool:
    """Whether a module logs by itself: `self.log` of Lightning keeps tensors on the device."""
    func = call.func
    return isinstance(func, cst.Attribute) and file.classes.self_attribute(func) is not None


SHOWS = frozenset(
    {"add_scalar", "add_scalars", "set_postfix", "set_description", "set_postfix_str", "set_description_str", "log",
     "info", "debug", "warning", "log_metrics", "log_metric", "write", "log_dict", "critical", "error", "report_scalar"}
)  # fmt: skip
"""Methods of progress bars, loggers and writers that show what they are given and change no tensor."""
