"""What the value of an expression is, as far as one file shows it: tensor or array, on which device, of which
type.

Values are asked for, never computed ahead: `Values.of(expression)` follows names to their definitions,
parameters to the calls of the file, attributes to their assignments and loops to their loaders, and says
`UNKNOWN` where the trail ends.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import libcst as cst
from attrs import evolve, frozen

from perfmod.transforms.facts import ranks, torch_api
from perfmod.transforms.facts.arguments import Arguments
from perfmod.transforms.facts.calls import Calls, argument, has_star, passed
from perfmod.transforms.facts.classes import AttributeAssignment, Classes, ClassFacts
from perfmod.transforms.facts.flow import Binding, Definition, Flow, dotted, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, walk, walk_scope


class Kind(enum.Enum):
    """What an expression evaluates to."""

    TENSOR = "tensor"
    ARRAY = "numpy array"
    NUMBER = "number"
    TEXT = "text"
    NONE = "None"
    DEVICE = "device"
    SEQUENCE = "sequence"
    MODULE = "module"
    LOADER = "loader"
    OPTIMIZER = "optimizer"
    INSTANCE = "instance"
    OBJECT = "object"
    UNKNOWN = "unknown"


class Device(enum.Enum):
    """Where a tensor lives. `ACCELERATOR` also stands for a device that is chosen at run time."""

    CPU = "cpu"
    ACCELERATOR = "accelerator"


class DType(enum.Enum):
    """The class of a tensor's or number's type."""

    BOOL = "bool"
    INTEGER = "integer"
    FLOATING = "floating"


@frozen
class Origin:
    """A part of what a loader yields: `path` leads from the batch to it, as `(1,)` leads to `y` in `x, y = batch`."""

    loader: cst.BaseExpression
    path: tuple[int | str, ...]


@frozen
class Value:
    """What is known of an expression's value; `None` in a field means that it is not known.

    Attributes:
        kind: see `Kind`.
        device: of tensors (and of batches that were moved).
        dtype: of tensors and numbers.
        rank: number of dimensions of a tensor.
        cls: the class of this file, for instances and modules of such a class.
        name: the qualified name of the library class or function that made an object (`torch.nn.CrossEntropyLoss`).
        call: the call that made a module, loader, optimizer or object.
        items: values of a tuple's or list's elements, where they are listed in the code.
        element: value of any element of a sequence.
        origin: for batches of a loader and their parts, also after a move to another device or a cast.
    """

    kind: Kind
    device: Device | None = None
    dtype: DType | None = None
    rank: int | None = None
    cls: ClassFacts | None = None
    name: str | None = None
    call: cst.Call | None = None
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    origin: Origin | None = None

    @property
    def is_tensor(self) -> bool:
        """Whether it is a `torch.Tensor` for sure."""
        return self.kind is Kind.TENSOR


# How many expressions one question may look at before it settles for what it knows.
_PATIENCE = 1000
# How many questions may wait for each other; every one of them takes about eight frames of Python's stack.
_DEPTH = 60

UNKNOWN = Value(Kind.UNKNOWN)
NUMBER = Value(Kind.NUMBER)
INTEGER = Value(Kind.NUMBER, dtype=DType.INTEGER)
FLOAT = Value(Kind.NUMBER, dtype=DType.FLOATING)
BOOL = Value(Kind.NUMBER, dtype=DType.BOOL)
TENSOR = Value(Kind.TENSOR)
ARRAY = Value(Kind.ARRAY)
OBJECT = Value(Kind.OBJECT)


def join(values: Iterable[Value]) -> Value:
    """What is true of all of several values; `UNKNOWN` where their kinds differ."""
    joined: Value | None = None
    for value in values:
        if joined is None or joined == value:
            joined = value
        elif joined.kind is not value.kind:
            return UNKNOWN
        else:
            same = {
                name: getattr(joined, name) if getattr(joined, name) == getattr(value, name) else None
                for name in ("device", "dtype", "rank", "cls", "name", "call", "items", "element", "origin")
            }
            joined = Value(joined.kind, **same)
    return joined if joined is not None else UNKNOWN


class Values:
    """Values of one file's expressions."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, classes: Classes) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self.calls = Calls(tree, flow, names, classes, self)
        self._known: dict[object, Value] = {}
        self._open: set[object] = set()
        self._cut = False

    @cached_property
    def _arguments(self) -> Arguments:
        return Arguments(self._tree.module, self._names)

    def of(self, node: cst.CSTNode) -> Value:
        """The value of an expression."""
        return self._remember(node, lambda: self._evaluate(node))

    def of_definition(self, definition: Definition) -> Value:
        """The value that a definition gives its name."""
        return self._remember(definition, lambda: self._define(definition))

    def returned(self, function: cst.FunctionDef) -> Value:
        """What a call of a function of this file returns, whatever its arguments."""
        return self._remember(("returned", function), lambda: self._return(function))

    def iterated(self, node: cst.BaseExpression) -> Value:
        """One element of an iterable expression: what a `for` over it binds."""
        return self._remember(("iterated", node), lambda: self._iterate(node))

    def loader_of(self, iterable: cst.BaseExpression) -> cst.BaseExpression | None:
        """The loader behind `loader`, `enumerate(loader)`, `tqdm(enumerate(loader))`, `iter(loader)` and the like."""
        value = self.of(iterable)
        if value.kind is Kind.LOADER:
            return value.call if value.call is not None else iterable
        if isinstance(iterable, cst.Name):
            inner = [d.value for d in self._flow.definitions(iterable) if d.binding is Binding.ASSIGNED and not d.path]
            found = {self.loader_of(v) for v in inner if isinstance(v, cst.Call)}
            return found.pop() if len(found) == 1 else None
        passing = torch_api.PASSES_ITEMS | torch_api.NUMBERS_ITEMS | {"builtins.iter"}
        if isinstance(iterable, cst.Call) and iterable.args and self._names.qualified(iterable.func) in passing:
            return self.loader_of(iterable.args[0].value)
        return None

    def attribute(self, cls: ClassFacts, name: str) -> Value:
        """The value of an attribute of this file's class, over all its assignments."""
        return self._remember(("attribute", cls, name), lambda: self._attribute(cls, name))

    @property
    def is_settled(self) -> bool:
        """Whether no question is open, so that an answer given now is the best there will be."""
        return not self._open

    # Recursion: code is full of cycles (`x = f(x)` in a loop). A value that is asked for while it is being computed is
    # UNKNOWN; what was computed from such a cut is kept only by the outermost question, because asked from elsewhere it
    # may come out better. A question that takes too many steps keeps everything from then on: a chain of cycles would
    # otherwise be walked once for every way through it.

    def _remember(self, key: object, compute: Callable[[], Value]) -> Value:
        known = self._known.get(key)
        if known is not None:
            return known
        if key in self._open or len(self._open) > _DEPTH:
            self._cut = True
            return UNKNOWN
        if not self._open:
            self._steps = 0
        self._steps += 1
        outer_cut, self._cut = self._cut, False
        self._open.add(key)
        try:
            value = compute()
        finally:
            self._open.discard(key)
        if not self._cut or not self._open or _is_complete(value) or self._steps > _PATIENCE:
            self._known[key] = value
        self._cut = (self._cut or outer_cut) and bool(self._open)
        return value

    # Definitions

    def _define(self, definition: Definition) -> Value:
        node, value = definition.node, definition.value
        if definition.binding is Binding.PARAMETER:
            assert isinstance(node, cst.Param)
            return self._parameter(node, definition)
        if definition.binding is Binding.ASSIGNED and value is not None:
            found, given = self._annotated(self._tree.parent(node)), self._project(self.of(value), definition.path)
            # `total: float = 0` holds an integer.
            written = found is None or (given.kind is found.kind is Kind.NUMBER and given.dtype is not None)
            return given if written or found is None else found
        if definition.binding is Binding.LOOPED and value is not None:
            return self._project(self.iterated(value), definition.path)
        if definition.binding is Binding.AUGMENTED:
            statement = self._tree.statement(node)
            assert isinstance(statement, cst.AugAssign)
            return self._arithmetic(self.of(statement.target), self.of(statement.value), statement.operator)
        if definition.binding is Binding.MANAGED and value is not None:
            return self._project(OBJECT if self.of(value).kind is Kind.OBJECT else UNKNOWN, definition.path)
        return UNKNOWN

    def _annotated(self, parent: cst.CSTNode | None) -> Value | None:
        if isinstance(parent, cst.AnnAssign):
            return self._annotation(parent.annotation)
        return None

    def _annotation(self, annotation: cst.Annotation | None) -> Value | None:
        if annotation is None:
            return None
        name = self._names.qualified(annotation.annotation)
        if name is None and isinstance(annotation.annotation, cst.SimpleString):
            name = {"Tensor": "torch.Tensor", "torch.Tensor": "torch.Tensor"}.get(
                str(annotation.annotation.evaluated_value)
            )
        if name is None:
            return None
        if name in torch_api.TENSOR_TYPES:
            return evolve(TENSOR, dtype=_dtype(torch_api.TENSOR_TYPES[name]))
        return {
            "builtins.int": INTEGER,
            "builtins.float": FLOAT,
            "builtins.bool": BOOL,
            "builtins.str": Value(Kind.TEXT),
            "numpy.ndarray": ARRAY,
            "torch.device": Value(Kind.DEVICE),
        }.get(name)

    def given(self, definition: Definition) -> list[cst.BaseExpression | None]:
        """What the calls of the file pass for a parameter, or its default; `None` for what cannot be seen."""
        param, function = definition.node, definition.scope
        if not isinstance(param, cst.Param) or not isinstance(function, cst.FunctionDef):
            return []
        is_method = isinstance(self._tree.scope(function), cst.ClassDef) and not _is_static(function)
        found: list[cst.BaseExpression | None] = []
        for call in self.calls.callers(function):
            value = passed(call, function, param, bound=is_method)
            found.append(param.default if value is None and not has_star(call) else value)
        return found

    def uses_half(self) -> bool:
        """Whether the file trains in float16 without autocast as far as it shows: casts by hand, Apex, DeepSpeed."""
        return any(
            isinstance(node, cst.Name) and node.value in ("half", "float16", "HalfTensor", "apex", "deepspeed")
            for node in walk(self._tree.module)
        )

    def _parameter(self, param: cst.Param, definition: Definition) -> Value:
        function = definition.scope
        if isinstance(function, cst.FunctionDef):
            cls = self._classes.of(self._tree.scope(function))
            if cls is not None and param is next(parameters(function), None) and not _is_static(function):
                return Value(Kind.MODULE if cls.is_module else Kind.INSTANCE, cls=cls)
        found = [self.of(given) if given is not None else UNKNOWN for given in self.given(definition)]
        if not found and param.default is not None and not _is_name(param.default, "None"):
            found.append(self.of(param.default))
        value = join(found)
        annotated = self._annotation(param.annotation)
        if annotated is not None and value.kind is not annotated.kind:
            value = annotated
        if value.kind is Kind.UNKNOWN and self._is_used_as_tensor(definition):
            value = TENSOR
        if value.kind is Kind.UNKNOWN and isinstance(function, cst.FunctionDef):
            value = self._forward_parameter(function, param, definition)
        if value.is_tensor and value.device is None and join(found).kind is Kind.UNKNOWN:
            value = evolve(value, device=Device.ACCELERATOR)
        return value

    def _forward_parameter(self, function: cst.FunctionDef, param: cst.Param, definition: Definition) -> Value:
        """A parameter of `forward` that is reshaped, compared or computed with as a tensor is taken for one."""
        cls = self._classes.of(self._tree.scope(function))
        optional = param.default is None or _is_name(param.default, "None")
        if cls is None or not cls.is_module or function.name.value != "forward" or not optional:
            return UNKNOWN
        if param.annotation is not None and not _mentions_tensor(param.annotation):
            return UNKNOWN
        for use in self._flow.uses(definition):
            parent = self._tree.parent(use)
            if isinstance(parent, cst.BinaryOperation):
                return TENSOR
            if isinstance(parent, (cst.ComparisonTarget, cst.Comparison)) and not self._is_identity_test(parent):
                return TENSOR
            if isinstance(parent, cst.Attribute) and parent.attr.value in torch_api.TENSOR_OR_ARRAY:
                return TENSOR
            # What modules are given by keyword are often flags.
            if isinstance(parent, cst.Arg) and parent.keyword is None:
                call = self._tree.parent(parent)
                if isinstance(call, cst.Call) and self.of(call.func).kind is Kind.MODULE:
                    return TENSOR
        return UNKNOWN

    def _is_identity_test(self, node: cst.CSTNode) -> bool:
        comparison = node if isinstance(node, cst.Comparison) else self._tree.parent(node)
        return isinstance(comparison, cst.Comparison) and any(
            isinstance(target.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for target in comparison.comparisons
        )

    def _is_used_as_tensor(self, definition: Definition) -> bool:
        """Whether some use of the name only works on a tensor: `x.cuda()`, `torch.nonzero(x == k)`, `F.relu(x)`."""
        return any(self._shows_tensor(use) for use in self._flow.uses(definition))

    def _shows_tensor(self, use: cst.CSTNode) -> bool:
        node = use
        parent = self._tree.parent(node)
        # `t == k` is a tensor only where `t` is one (or k, which a number is not).
        while isinstance(parent, (cst.Comparison, cst.UnaryOperation)) or (
            isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, (cst.BitAnd, cst.BitOr, cst.BitXor))
        ):
            others = (
                [parent.left, *(t.comparator for t in parent.comparisons)] if isinstance(parent, cst.Comparison) else []
            )
            if isinstance(parent, cst.BinaryOperation):
                others = [parent.left, parent.right]
            if any(other is not node and self.of(other).kind is not Kind.NUMBER for other in others):
                return False
            node, parent = parent, self._tree.parent(parent)
        if isinstance(parent, cst.Attribute) and parent.value is node:
            call = self._tree.parent(parent)
            called = isinstance(call, cst.Call) and call.func is parent
            return parent.attr.value in (torch_api.TENSOR_ONLY_METHODS if called else torch_api.TENSOR_ONLY_ATTRIBUTES)
        if isinstance(parent, cst.Subscript) and parent.value is node and len(parent.slice) == 1:
            # An array cannot be indexed with a tensor of the device.
            index = parent.slice[0].slice
            found = self.of(index.value) if isinstance(index, cst.Index) else UNKNOWN
            found = found.element or found
            return found.is_tensor and found.device is Device.ACCELERATOR
        if isinstance(parent, cst.Arg):
            call = self._tree.parent(parent)
            if isinstance(call, cst.Call) and call.args and call.args[0] is parent:
                name = self._names.qualified(call.func) or ""
                return name in torch_api.NEEDS_TENSOR or name.startswith("torch.nn.functional.")
        return False

    def _return(self, function: cst.FunctionDef) -> Value:
        is_lazy = any(isinstance(node, cst.Yield) for node in walk_scope(function.body))
        if is_lazy or function.asynchronous is not None:
            return UNKNOWN
        found = [
            self.of(node.value) if node.value is not None else Value(Kind.NONE)
            for node in walk_scope(function.body)
            if isinstance(node, cst.Return)
        ]
        return join(found) if found else Value(Kind.NONE)

    def _attribute(self, cls: ClassFacts, name: str) -> Value:
        found = [self._assigned(assignment) for assignment in cls.assignments(name)]
        for base, assignment in self._classes.assigned_elsewhere(name):
            owner = self.of(base)
            is_other = owner.cls is None or not (owner.cls in cls.lineage() or cls in owner.cls.lineage())
            if not is_other or owner.kind is Kind.UNKNOWN:
                found.append(self._assigned(assignment))
        return join(found)

    def _assigned(self, assignment: AttributeAssignment) -> Value:
        if assignment.value is None:
            return UNKNOWN
        value = self._project(self.of(assignment.value), assignment.path)
        if isinstance(assignment.node, cst.Call) and value.is_tensor:
            # A registered buffer moves with its module.
            value = evolve(value, device=Device.ACCELERATOR)
        return value

    # Parts of values

    def _project(self, value: Value, path: Sequence[int]) -> Value:
        for step in path:
            value = self.item(value, step)
        return value

    def item(self, value: Value, key: int | str) -> Value:
        """One element of a value, by position or by key; -1 stands for an unknown part, or several."""
        if key == -1:
            return UNKNOWN
        if value.origin is not None and not (value.is_tensor and value.origin.path):
            origin = Origin(value.origin.loader, (*value.origin.path, key))
            return Value(Kind.TENSOR, device=value.device, origin=origin)
        if value.is_tensor:
            return Value(Kind.TENSOR, device=value.device, dtype=value.dtype)
        if value.kind is Kind.ARRAY:
            return ARRAY
        if value.items is not None and isinstance(key, int) and -len(value.items) <= key < len(value.items):
            return value.items[key]
        return value.element or UNKNOWN

    def _iterate(self, node: cst.BaseExpression) -> Value:
        if isinstance(node, cst.Call):
            name = self._names.qualified(node.func)
            first = node.args[0].value if node.args else None
            if name in torch_api.NUMBERS_ITEMS and first is not None:
                return Value(Kind.SEQUENCE, items=(INTEGER, self.iterated(first)))
            if name == "builtins.zip" and not has_star(node):
                items = tuple(self.iterated(arg.value) for arg in node.args)
                return Value(Kind.SEQUENCE, items=items)
            if name == "builtins.range":
                return INTEGER
            if name in torch_api.PASSES_ITEMS and first is not None:
                return self.iterated(first)
            if isinstance(node.func, cst.Attribute) and node.func.attr.value == "log_every" and first is not None:
                return self.iterated(first)
        if isinstance(node, cst.Name):
            definitions = self._flow.definitions(node)
            if definitions and all(d.binding is Binding.ASSIGNED and not d.path for d in definitions):
                return join(self.iterated(d.value) for d in definitions if d.value is not None)
        value = self.of(node)
        if value.kind is Kind.LOADER:
            return Value(Kind.OBJECT, device=Device.CPU, origin=Origin(value.call or node, ()))
        if value.kind is Kind.UNKNOWN and isinstance(node, (cst.Name, cst.Attribute)) and is_loader_name(dotted(node)):
            return Value(Kind.OBJECT, device=Device.CPU, origin=Origin(node, ()))
        if value.items:
            return join(value.items)
        return self.item(value, 0) if value.kind in (Kind.TENSOR, Kind.ARRAY) else value.element or UNKNOWN

    # Expressions

    def _evaluate(self, node: cst.CSTNode) -> Value:
        if isinstance(node, cst.Name):
            return self._name(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        if isinstance(node, cst.Attribute):
            return self._read_attribute(node)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.Integer):
            return INTEGER
        if isinstance(node, cst.Float):
            return FLOAT
        if isinstance(node, (cst.BaseString, cst.FormattedString)):
            return Value(Kind.TEXT)
        if isinstance(node, cst.UnaryOperation):
            value = self.of(node.expression)
            if isinstance(node.operator, cst.Not):
                return BOOL
            return (
                evolve(value, origin=None, call=None)
                if value.kind in (Kind.TENSOR, Kind.NUMBER, Kind.ARRAY)
                else UNKNOWN
            )
        if isinstance(node, cst.BinaryOperation):
            return self._arithmetic(self.of(node.left), self.of(node.right), node.operator)
        if isinstance(node, cst.Comparison):
            return self._comparison(node)
        if isinstance(node, (cst.Tuple, cst.List)):
            if any(isinstance(element, cst.StarredElement) for element in node.elements):
                return Value(Kind.SEQUENCE)
            return Value(Kind.SEQUENCE, items=tuple(self.of(element.value) for element in node.elements))
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return Value(Kind.SEQUENCE, element=self.of(node.elt))
        if isinstance(node, cst.IfExp):
            return join((self.of(node.body), self.of(node.orelse)))
        if isinstance(node, cst.NamedExpr):
            return self.of(node.value)
        if isinstance(node, cst.BooleanOperation):
            return join((self.of(node.left), self.of(node.right)))
        if isinstance(node, (cst.Dict, cst.DictComp, cst.Set, cst.SetComp)):
            return OBJECT
        return UNKNOWN

    def _name(self, node: cst.Name) -> Value:
        definitions = self._flow.definitions(node)
        if not definitions:
            return {"True": BOOL, "False": BOOL, "None": Value(Kind.NONE)}.get(node.value, UNKNOWN)
        imported = self._names.qualified(node)
        if imported is not None:
            return Value(Kind.OBJECT, name=imported)
        value = join(self.of_definition(definition) for definition in definitions)
        if value.kind is Kind.UNKNOWN and any(self._is_used_as_tensor(d) for d in definitions):
            return evolve(TENSOR, device=Device.ACCELERATOR)
        return value

    def _read_attribute(self, node: cst.Attribute) -> Value:
        name = self._names.qualified(node)
        if name is not None:
            if name in torch_api.CONSTANTS:
                return FLOAT
            return Value(Kind.OBJECT, name=name)
        own = self._classes.self_attribute(node)
        if own is not None:
            value = self.attribute(*own)
            if value.kind is not Kind.UNKNOWN:
                return value
        base = self.of(node.value)
        attribute = node.attr.value
        if base.is_tensor:
            if attribute in torch_api.TENSOR_ATTRIBUTES:
                return Value(Kind.TENSOR, device=base.device, dtype=base.dtype, origin=base.origin)
            if attribute == "device":
                return Value(Kind.DEVICE)
            if attribute == "shape":
                return Value(Kind.SEQUENCE, element=INTEGER)
            if attribute in ("ndim", "is_cuda", "requires_grad"):
                return INTEGER if attribute == "ndim" else BOOL
            return UNKNOWN
        if base.kind is Kind.ARRAY:
            numbers = {"shape": Value(Kind.SEQUENCE, element=INTEGER), "size": INTEGER, "ndim": INTEGER}
            return numbers.get(attribute, ARRAY)
        if base.cls is not None and own is None:
            value = self.attribute(base.cls, attribute)
            if value.kind is not Kind.UNKNOWN:
                return value
        if base.name in ("torch.finfo", "torch.iinfo"):
            is_bits = attribute == "bits" or base.name == "torch.iinfo"
            return (INTEGER if is_bits else FLOAT) if attribute != "dtype" else UNKNOWN
        if base.name == "argparse.Namespace":
            declared = _dtype(self._arguments.type_of(attribute))
            return Value(Kind.NUMBER, dtype=declared) if declared is not None else UNKNOWN
        if base.origin is not None:
            if attribute in torch_api.GRAPH_COUNTS and self._names.imports("torch_geometric"):
                return INTEGER
            return self.item(base, attribute)
        if attribute == "shape":
            return Value(Kind.SEQUENCE, element=INTEGER)
        if self._shows_tensor(node):
            return evolve(TENSOR, device=Device.ACCELERATOR)
        return UNKNOWN

    def _subscript(self, node: cst.Subscript) -> Value:
        base = self.of(node.value)
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            index = node.slice[0].slice.value
            if isinstance(index, cst.Integer):
                return self.item(base, index.evaluated_value)
            if isinstance(index, cst.SimpleString) and isinstance(index.evaluated_value, str):
                found = self.item(base, index.evaluated_value)
                if found.kind is not Kind.UNKNOWN:
                    return found
        if base.is_tensor:
            return Value(Kind.TENSOR, device=base.device, dtype=base.dtype)
        if base.kind is Kind.ARRAY:
            return ARRAY
        if base.kind is Kind.SEQUENCE:
            if any(isinstance(part.slice, cst.Slice) for part in node.slice):
                return Value(Kind.SEQUENCE, element=base.element)
            return base.element or UNKNOWN
        if self._shows_tensor(node):
            return evolve(TENSOR, device=Device.ACCELERATOR)
        return UNKNOWN

    def _comparison(self, node: cst.Comparison) -> Value:
        if any(isinstance(t.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for t in node.comparisons):
            return BOOL
        sides = [self.of(node.left), *(self.of(target.comparator) for target in node.comparisons)]
        compared = self._arithmetic(sides[0], join(sides[1:]), None)
        if len(node.comparisons) == 1 and compared.kind in (Kind.TENSOR, Kind.ARRAY):
            return evolve(compared, dtype=DType.BOOL)
        return BOOL if compared.kind is Kind.NUMBER else UNKNOWN

    def _arithmetic(self, left: Value, right: Value, operator: cst.CSTNode | None) -> Value:
        kinds = {left.kind, right.kind}
        if Kind.TENSOR in kinds and Kind.ARRAY not in kinds:
            is_product = isinstance(operator, (cst.MatrixMultiply, cst.MatrixMultiplyAssign))
            dtype = DType.FLOATING if _is_division(operator) else _promote(left.dtype, right.dtype)
            rank = None if is_product else _broadcast_rank((left, right))
            devices = [value.device for value in (left, right) if value.is_tensor]
            device = Device.ACCELERATOR if Device.ACCELERATOR in devices else next(filter(None, devices), None)
            return Value(Kind.TENSOR, device=device, dtype=dtype, rank=rank)
        if Kind.ARRAY in kinds:
            return ARRAY if Kind.TENSOR not in kinds else UNKNOWN
        if kinds == {Kind.NUMBER}:
            dtype = DType.FLOATING if _is_division(operator) else _promote(left.dtype, right.dtype)
            # `2 ** -1` is a fraction.
            is_power = isinstance(operator, (cst.Power, cst.PowerAssign))
            return Value(Kind.NUMBER, dtype=None if is_power and dtype is not DType.FLOATING else dtype)
        return UNKNOWN

    # Calls

    def _call(self, node: cst.Call) -> Value:
        name = self._names.qualified(node.func)
        if name is not None:
            return self._library_call(node, name)
        made = self.calls.constructed(node)
        if made is not None:
            return self._instance(node, made)
        called = self.calls.resolve(node)
        if called is not None:
            value = self.returned(called)
            if value.kind is Kind.UNKNOWN and called.name.value == "forward":
                return Value(Kind.TENSOR, device=Device.ACCELERATOR)
            return value
        target = self.of(node.func)
        if target.kind is Kind.MODULE:
            return self._module_call(node, target)
        if isinstance(node.func, cst.Attribute):
            return self._method_call(node, node.func, self.of(node.func.value))
        return UNKNOWN

    def _instance(self, node: cst.Call, cls: ClassFacts) -> Value:
        if cls.derives("torch.utils.data.DataLoader"):
            return Value(Kind.LOADER, cls=cls, call=node)
        if cls.derives("torch.optim."):
            return Value(Kind.OPTIMIZER, cls=cls, call=node)
        return Value(Kind.MODULE if cls.is_module else Kind.INSTANCE, cls=cls, call=node)

    def _module_call(self, node: cst.Call, module: Value) -> Value:
        device = join(self.of(arg.value) for arg in node.args[:1]).device or Device.ACCELERATOR
        if module.name in torch_api.LOSS_MODULES:
            options = module.call.args if module.call is not None else ()
            named = ranks.keyword(options, "reduction", "reduce", "size_average")
            reduced = module.call is not None and named is None and len(ranks.positional(options)) <= 1
            return Value(Kind.TENSOR, device=device, dtype=DType.FLOATING, rank=0 if reduced else None)
        if module.name is not None and module.name in torch_api.SEQUENCE_MODULES:
            return UNKNOWN
        if module.name is not None or module.cls is None:
            if module.name is not None and module.name.startswith("torchvision.models.detection."):
                return UNKNOWN
            dtype = DType.FLOATING if module.name is not None else None
            if module.name in torch_api.SAME_DTYPE_MODULES:
                dtype = join(self.of(arg.value) for arg in node.args[:1]).dtype
            return Value(Kind.TENSOR, device=device, dtype=dtype)
        return Value(Kind.TENSOR, device=device) if module.cls.method("forward") is None else UNKNOWN

    def _library_call(self, node: cst.Call, name: str) -> Value:
        first = self.of(node.args[0].value) if node.args else UNKNOWN
        if name in torch_api.BUILTIN_NUMBERS:
            return Value(Kind.NUMBER, dtype=_dtype(torch_api.BUILTIN_NUMBERS[name]))
        if name in ("builtins.max", "builtins.min", "builtins.sum", "builtins.abs", "builtins.round"):
            values = [self.of(arg.value) for arg in node.args]
            if len(values) == 1 and name in ("builtins.max", "builtins.min", "builtins.sum"):
                value = self.iterated(node.args[0].value)
                is_count = name == "builtins.sum" and value.dtype is DType.BOOL
                return evolve(value, dtype=DType.INTEGER) if is_count else value
            return evolve(join(values), origin=None)
        if name in ("builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed"):
            return (
                Value(Kind.SEQUENCE, element=self.iterated(node.args[0].value)) if node.args else Value(Kind.SEQUENCE)
            )
        if name == "builtins.next" and node.args:
            return self.iterated(node.args[0].value)
        if name == "builtins.iter" and node.args:
            return first
        if name in torch_api.PASSES_ITEMS and node.args:
            return (
                first
                if first.kind is not Kind.LOADER
                else Value(Kind.SEQUENCE, element=self.iterated(node.args[0].value))
            )
        if name in ("builtins.super", "builtins.zip", "builtins.enumerate", "builtins.range"):
            return UNKNOWN
        if name == "torch.utils.data.DataLoader" or name in torch_api.OTHER_LOADERS:
            return Value(Kind.LOADER, name=name, call=node)
        if name == "torch.device":
            return Value(Kind.DEVICE, device=self.device_of(node), call=node)
        if name.startswith("torch.optim.") and not name.startswith("torch.optim.lr_scheduler."):
            return Value(Kind.OPTIMIZER, name=name, call=node)
        if name.startswith(("torchvision.models.", "timm.create_model")) or name in torch_api.MODEL_FACTORIES:
            return Value(Kind.MODULE, name=name, call=node)
        if name in torch_api.WRAPPERS and node.args:
            return first
        if name.startswith("torch.nn.") and not name.startswith(
            ("torch.nn.functional.", "torch.nn.utils.", "torch.nn.init.")
        ):
            if name in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
                return Value(
                    Kind.TENSOR,
                    device=Device.ACCELERATOR,
                    dtype=first.dtype or DType.FLOATING,
                    rank=first.rank,
                )
            return Value(Kind.MODULE, name=name, call=node)
        if name.startswith(torch_api.ARRAY_LIBRARIES):
            return ARRAY
        if name.startswith("torch."):
            return self._torch_call(node, name, first)
        return Value(Kind.OBJECT, name=name, call=node) if name.rpartition(".")[2][:1].isupper() else UNKNOWN

    def _torch_call(self, node: cst.Call, name: str, first: Value) -> Value:
        short = name.removeprefix("torch.nn.functional.").removeprefix("torch.linalg.").removeprefix("torch.")
        if short in ("finfo", "iinfo"):
            return Value(Kind.OBJECT, name=name, call=node)
        if short in torch_api.NOT_TENSORS:
            result = torch_api.NOT_TENSORS[short]
            return Value(Kind.NUMBER, dtype=_dtype(result)) if result else UNKNOWN
        if short == "nn.utils.rnn.pad_sequence":
            batch = first.element or UNKNOWN
            return Value(Kind.TENSOR, device=batch.device, dtype=batch.dtype)
        if short in torch_api.GRADIENT_NORMS:
            return Value(Kind.TENSOR, device=Device.ACCELERATOR, dtype=DType.FLOATING, rank=0)
        if "." in short and not name.startswith(("torch.nn.functional.", "torch.special.", "torch.fft.")):
            return Value(Kind.OBJECT, name=name, call=node)
        if short in torch_api.CREATES:
            where = argument(node, "device")
            device = self.device_of(where) if where is not None else None
            if device is None:
                device = (
                    (first.device if short.endswith("_like") else Device.CPU) if where is None else Device.ACCELERATOR
                )
            dtype, rank = _dtype(torch_api.CREATES[short]), self._created_rank(node, short, first)
            if short.endswith("_like"):
                dtype = first.dtype
            elif first.is_tensor and short in ("tensor", "as_tensor"):
                dtype, rank = first.dtype, first.rank
                device = first.device if where is None else device
            if argument(node, "dtype") is not None:
                dtype = self._dtype_argument(node)
            return Value(Kind.TENSOR, device=device, dtype=dtype, rank=rank)
        several = self._several(short, node.args[1:], first)
        if several is not None:
            return several
        if short == "where" and len(node.args) == 1:
            return _coordinates(first)
        if short == "nonzero" and _is_true(argument(node, "as_tuple")):
            return _coordinates(first)
        return self._tensor_result(short, node.args[1:], first)

    def _several(self, short: str, behind: Sequence[cst.Arg], first: Value) -> Value | None:
        """The values of operations that give more than one, `x.max(dim)`; `None` for others."""
        tensor = Value(Kind.TENSOR, device=first.device, dtype=first.dtype)
        index = Value(Kind.TENSOR, device=first.device, dtype=DType.INTEGER)
        if short in torch_api.PAIRS_WITH_DIM and (not ranks.has_dim(behind) or self._second(short, behind) is not None):
            return None
        if short in torch_api.PAIRS:
            return Value(Kind.SEQUENCE, items=(tensor, tensor if short in torch_api.PAIRS_OF_VALUES else index))
        asked = [arg.value for arg in behind if arg.keyword is not None and arg.keyword.value.startswith("return_")]
        if asked and short.startswith("unique") and all(map(_is_true, asked)):
            return Value(Kind.SEQUENCE, items=(tensor, *(index for _ in asked)))
        return Value(Kind.SEQUENCE) if asked else None

    def _second(self, short: str, behind: Sequence[cst.Arg]) -> Value | None:
        """The second operand of `torch.max(x, y)`."""
        second = self.of(behind[0].value) if behind and short in ("max", "min") else UNKNOWN
        return second if second.is_tensor else None

    def _tensor_result(self, short: str, behind: Sequence[cst.Arg], first: Value) -> Value:
        """Result of a tensor operation `torch.short(first, *behind)` or `first.short(*behind)`."""
        if self._second(short, behind) is not None:
            short = "maximum"
        given = [self.of(arg.value) for arg in behind]
        sources = [first, *given]
        if first.kind is Kind.SEQUENCE:
            first = first.element or join(first.items or ())
            sources.append(first)
        devices = {value.device for value in sources if value.is_tensor}
        device = (
            Device.ACCELERATOR if Device.ACCELERATOR in devices else Device.CPU if devices == {Device.CPU} else None
        )
        rank = ranks.operation_rank(short, first.rank, behind, self._is_number)
        if short in torch_api.BROADCASTS | {"where"}:
            rank = _broadcast_rank((first, *given))
        elif short in torch_api.JOINS:
            rank = first.rank + (short == "stack") if first.rank else None
        return Value(Kind.TENSOR, device=device, dtype=self._result_dtype(short, behind, first, given), rank=rank)

    def _result_dtype(self, short: str, behind: Sequence[cst.Arg], first: Value, given: list[Value]) -> DType | None:
        asked = ranks.keyword(behind, "dtype")
        if asked is not None:
            return self._dtype_of(asked)
        if short in torch_api.RESULT_DTYPES:
            return _dtype(torch_api.RESULT_DTYPES[short])
        if short in ("sum", "cumsum", "prod", "cumprod") and first.dtype is DType.BOOL:
            return DType.INTEGER
        if short == "where" and len(given) == 2:
            return _promote(given[0].dtype, given[1].dtype)
        is_division = short in ("div", "divide") and ranks.keyword(behind, "rounding_mode") is None
        if short in torch_api.FLOAT_RESULTS or is_division:
            return DType.FLOATING
        if short in torch_api.ARITHMETIC | {"div", "divide"}:
            dtype = first.dtype
            for value in given:
                dtype = dtype if value.kind in (Kind.NONE, Kind.TEXT) else _promote(dtype, value.dtype)
            return dtype
        if short == "type_as":
            return given[0].dtype if given else None
        if short == "view" and behind and self._dtype_of(behind[0].value) is not None:
            return self._dtype_of(behind[0].value)
        return first.dtype if short in torch_api.SAME_DTYPE | torch_api.JOINS else None

    def _is_number(self, node: cst.CSTNode) -> bool:
        return self.of(node).kind is Kind.NUMBER

    def _method_call(self, node: cst.Call, func: cst.Attribute, base: Value) -> Value:
        method = func.attr.value
        if method in ("to", "cuda", "cpu") and base.kind is not Kind.ARRAY:
            return self._moved(node, method, base)
        if base.kind is Kind.MODULE:
            if method in torch_api.MODULE_RETURNS_SELF:
                return base
            if method == "forward":
                return Value(Kind.TENSOR, device=Device.ACCELERATOR)
            if method in ("parameters", "buffers"):
                return Value(Kind.SEQUENCE, element=Value(Kind.TENSOR, device=Device.ACCELERATOR, dtype=DType.FLOATING))
            return UNKNOWN
        if base.kind is Kind.ARRAY:
            if method == "item":
                return NUMBER
            return ARRAY if method not in ("tolist", "tobytes") else UNKNOWN
        if base.kind is Kind.LOADER or base.kind is Kind.OPTIMIZER:
            return UNKNOWN
        if base.name == "argparse.ArgumentParser" and method == "parse_args":
            return Value(Kind.OBJECT, name="argparse.Namespace")
        if method == "item" and not node.args and not base.is_tensor:
            return NUMBER
        # Only tensors have a `size` that is called with a dimension.
        if method == "size" and len(node.args) == 1:
            return INTEGER
        known = base.is_tensor or (base.kind is Kind.UNKNOWN and method in torch_api.TENSOR_ONLY_METHODS)
        if not known:
            return UNKNOWN
        if method in torch_api.NOT_TENSORS:
            result = torch_api.NOT_TENSORS[method]
            if method == "item":
                return Value(Kind.NUMBER, dtype=base.dtype)
            return Value(Kind.NUMBER, dtype=_dtype(result)) if result else UNKNOWN
        if method in ("size", "stride"):
            return INTEGER if node.args else Value(Kind.SEQUENCE, element=INTEGER)
        if method == "numpy":
            return ARRAY
        several = self._several(method, node.args, base)
        if several is not None:
            return several
        if method == "where" and len(node.args) == 2:
            condition, other = self.of(node.args[0].value), self.of(node.args[1].value)
            rank = _broadcast_rank((base, condition, other))
            return Value(Kind.TENSOR, device=base.device, dtype=_promote(base.dtype, other.dtype), rank=rank)
        if method == "type" and not node.args:
            return Value(Kind.TEXT)
        if method == "type" and node.args:
            dtype = self._dtype_of(node.args[0].value)
            return Value(Kind.TENSOR, device=base.device, dtype=dtype, rank=base.rank, origin=base.origin)
        if method.startswith("new_"):
            where = argument(node, "device")
            dtype = self._dtype_argument(node) if argument(node, "dtype") is not None else base.dtype
            return Value(Kind.TENSOR, device=self.device_of(where) if where else base.device, dtype=dtype)
        if method == "nonzero" and _is_true(argument(node, "as_tuple")):
            return _coordinates(base)
        value = self._tensor_result(method.removesuffix("_"), node.args, base)
        if method.endswith("_"):
            in_place = method.removesuffix("_") in torch_api.BROADCASTS
            value = evolve(value, dtype=base.dtype, rank=base.rank if in_place else value.rank)
        if method in torch_api.CASTS or method in ("contiguous", "detach", "pin_memory", "requires_grad_"):
            value = evolve(value, origin=base.origin)
        return value

    def _moved(self, node: cst.Call, method: str, base: Value) -> Value:
        """`x.to(...)`, `x.cuda(...)`, `x.cpu()`: the same value elsewhere."""
        if base.kind in (Kind.MODULE, Kind.LOADER, Kind.OPTIMIZER):
            return base
        device: Device | None = base.device
        dtype = base.dtype
        if method == "cpu":
            device = Device.CPU
        elif method == "cuda":
            device = Device.ACCELERATOR
        else:
            where = self.destination(node)
            if where is not None:
                device = self.device_of(where) or Device.ACCELERATOR
                is_named = argument(node, "device") is not None or _is_device_name(where)
                if not is_named and self.of(where).kind is Kind.UNKNOWN:
                    dtype = None
            for arg in node.args:
                given = self.of(arg.value)
                if given.is_tensor:
                    device, dtype = given.device, given.dtype
                elif self._dtype_of(arg.value) is not None or self._is_dtype(arg.value):
                    dtype = self._dtype_of(arg.value)
        return Value(
            base.kind,
            device=device,
            dtype=dtype,
            rank=base.rank,
            origin=base.origin,
            cls=base.cls,
            call=base.call,
        )

    def destination(self, call: cst.Call) -> cst.BaseExpression | None:
        """The device argument of `x.to(...)`; `None` where only the type is changed."""
        named = argument(call, "device")
        if named is not None:
            return named
        for arg in call.args:
            if self._is_dtype(arg.value):
                return None
            if arg.keyword is None and self._dtype_of(arg.value) is None and not arg.star:
                value = self.of(arg.value)
                if value.kind in (Kind.NUMBER, Kind.NONE):
                    continue
                if value.is_tensor:
                    return None
                return arg.value
            break
        return None

    def _is_dtype(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a type as far as it shows: `x.dtype`, `torch.cfloat`, `weight_dtype`."""
        if "dtype" in dotted(node).rpartition(".")[2]:
            return True
        if isinstance(node, cst.IfExp):
            return self._is_dtype(node.body) and self._is_dtype(node.orelse)
        if isinstance(node, cst.Name):
            values = [d.value for d in self._flow.definitions(node) if d.value is not None]
            return bool(values) and all(isinstance(v, (cst.Attribute, cst.IfExp)) and self._is_dtype(v) for v in values)
        name = self._names.qualified(node) or ""
        return name in torch_api.DTYPES or name in torch_api.TENSOR_TYPES

    def device_of(self, node: cst.BaseExpression | None) -> Device | None:
        """The device that an expression names: `CPU` only where it can be nothing else."""
        if node is None:
            return None
        if isinstance(node, cst.SimpleString):
            text = node.evaluated_value
            return Device.CPU if isinstance(text, str) and text.startswith("cpu") else Device.ACCELERATOR
        if isinstance(node, cst.Integer):
            return Device.ACCELERATOR
        if isinstance(node, cst.Call) and self._names.qualified(node.func) == "torch.device" and node.args:
            return self.device_of(node.args[0].value)
        if isinstance(node, cst.IfExp):
            found = {self.device_of(node.body), self.device_of(node.orelse)}
            return Device.CPU if found == {Device.CPU} else Device.ACCELERATOR
        if isinstance(node, cst.Name):
            return self._remember_device(node)
        if isinstance(node, cst.Attribute) and node.attr.value == "device":
            owner = self.of(node.value)
            return owner.device if owner.is_tensor else Device.ACCELERATOR
        return Device.ACCELERATOR

    def _remember_device(self, node: cst.Name) -> Device:
        """The device that a variable names."""
        key = ("device", node)
        if key in self._open:
            return Device.ACCELERATOR
        self._open.add(key)
        try:
            found = {
                self.device_of(d.value) if d.binding is Binding.ASSIGNED and not d.path else Device.ACCELERATOR
                for d in self._flow.definitions(node)
            }
        finally:
            self._open.discard(key)
        return Device.CPU if found == {Device.CPU} else Device.ACCELERATOR

    def _created_rank(self, node: cst.Call, short: str, first: Value) -> int | None:
        if short in ("arange", "linspace", "randperm"):
            return 1
        if short.endswith("_like"):
            return first.rank
        if short == "tensor" and first.kind is Kind.NUMBER:
            return 0
        if short not in ("full", "zeros", "ones", "empty", "rand", "randn"):
            return None
        return ranks.sizes_rank(node.args[:1] if short == "full" else node.args, self._is_number)

    def _dtype_argument(self, node: cst.Call) -> DType | None:
        given = argument(node, "dtype")
        return self._dtype_of(given) if given is not None else None

    def _dtype_of(self, node: cst.BaseExpression) -> DType | None:
        name = self._names.qualified(node)
        if name is None and isinstance(node, cst.Attribute) and node.attr.value == "dtype":
            return self.of(node.value).dtype
        if isinstance(node, cst.IfExp):
            both = {self._dtype_of(node.body), self._dtype_of(node.orelse)}
            return both.pop() if len(both) == 1 else None
        if name is None and isinstance(node, cst.Name) and self._is_dtype(node):
            definitions = self._flow.definitions(node)
            given = [d.value for d in definitions if d.binding is Binding.ASSIGNED and not d.path]
            types = {self._dtype_of(v) if isinstance(v, (cst.Attribute, cst.IfExp)) else None for v in given}
            return types.pop() if len(types) == 1 and len(given) == len(definitions) else None
        return _dtype(torch_api.DTYPES.get(name or "")) or _dtype(torch_api.TENSOR_TYPES.get(name or ""))


def _coordinates(condition: Value) -> Value:
    """What nonzero gives as a tuple: one index per dimension."""
    index = Value(Kind.TENSOR, device=condition.device, dtype=DType.INTEGER, rank=1)
    return Value(Kind.SEQUENCE, device=condition.device, element=index)


def _is_true(node: cst.BaseExpression | None) -> bool:
    return node is not None and _is_name(node, "True")


def _is_device_name(node: cst.BaseExpression) -> bool:
    """Whether an argument of `x.to(...)` is a device by its name."""
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return True
    return any(word in dotted(node).rpartition(".")[2].lower() for word in ("dev", "gpu", "cuda", "cpu", "rank"))


def _broadcast_rank(operands: Iterable[Value]) -> int | None:
    """Number of dimensions of what several operands broadcast to."""
    ranks_seen = [
        0 if value.kind is Kind.NUMBER else value.rank for value in operands if value.kind not in (Kind.NONE, Kind.TEXT)
    ]
    known = [rank for rank in ranks_seen if rank is not None]
    return max(known) if len(known) == len(ranks_seen) else None


def _is_complete(value: Value) -> bool:
    """Whether a value says enough to be kept although a cycle of questions was cut while it was computed."""
    return value.kind is not Kind.UNKNOWN and not (value.is_tensor and value.dtype is None)


def _dtype(name: str | None) -> DType | None:
    return DType(name) if name else None


def _promote(left: DType | None, right: DType | None) -> DType | None:
    if DType.FLOATING in (left, right):
        return DType.FLOATING
    if left is None or right is None:
        return None
    return DType.INTEGER if DType.INTEGER in (left, right) else DType.BOOL


def _is_division(operator: cst.CSTNode | None) -> bool:
    return isinstance(operator, (cst.Divide, cst.DivideAssign))


def _is_static(function: cst.FunctionDef) -> bool:
    return any(dotted(decorator.decorator) == "staticmethod" for decorator in function.decorators)


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def is_loader_name(name: str) -> bool:
    """Whether a variable that comes from elsewhere is called what loaders are called."""
    return name.rpartition(".")[2].lower().endswith(("loader", "dl", "dataloader", "loader_train", "batches"))


def _mentions_tensor(annotation: cst.Annotation) -> bool:
    """Whether an annotation such as `torch.Tensor | None` or `Optional["Tensor"]` names a tensor."""
    return any(
        (isinstance(node, cst.Name) and node.value.endswith("Tensor"))
        or (isinstance(node, cst.SimpleString) and "Tensor" in node.value)
        for node in walk(annotation.annotation)
    )
