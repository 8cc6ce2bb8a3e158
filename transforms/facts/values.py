"""What the value of an expression is, as far as the files show it: tensor or array, on which device, of which
type.

Values are asked for, never computed ahead: `Values.of(expression)` follows names to their definitions,
parameters to the calls in sight, attributes to their assignments and loops to their loaders, and says
`UNKNOWN` where the trail ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

import libcst as cst
from attrs import evolve

from perfmod.transforms.facts import data_api, lightning, torch_api
from perfmod.transforms.facts.arguments import Arguments
from perfmod.transforms.facts.call_values import CallValues
from perfmod.transforms.facts.calls import Calls, has_star, is_decorated, passed
from perfmod.transforms.facts.classes import AttributeAssignment, Classes, ClassFacts
from perfmod.transforms.facts.flow import Binding, Definition, Flow, Read, dotted, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.placement import Placement
from perfmod.transforms.facts.solver import Questions, Solver
from perfmod.transforms.facts.tree import Tree, walk
from perfmod.transforms.facts.value import (
    ARRAY,
    BOOL,
    FLOAT,
    INTEGER,
    OBJECT,
    TENSOR,
    UNKNOWN,
    Device,
    DType,
    Kind,
    Origin,
    Value,
    broadcast_rank,
    dtype_named,
    is_loader_name,
    join,
    promoted,
)

Key = TypeVar("Key")

_GIVES_MODULE_BACK = torch_api.MODULE_RETURNS_SELF | {"to", "cuda", "cpu"}
"""Methods of modules that give the module itself."""


class Values:
    """Values of expressions."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, classes: Classes) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self.solver = Solver()
        self.calls = Calls(tree, flow, names, classes, self)
        self.placement = Placement(tree, flow, names, self)
        self._calls = CallValues(names, self.placement, self)
        self._of = self._questions(self._evaluate)
        self._of_definition = self._questions(self._define)
        self._returned = self._questions(self._return)
        self._iterated = self._questions(self._iterate)
        self._attributes = self._questions(self._attribute)
        self._is_used_as_tensor = Questions(self.solver, self._find_use_as_tensor, False)
        self._loaders = Questions(self.solver, self._find_loader, None)

    def _questions(self, compute: Callable[[Key], Value]) -> Questions[Key, Value]:
        return Questions(self.solver, compute, UNKNOWN, may_give_up=True)

    @cached_property
    def _arguments(self) -> Arguments:
        return Arguments(self._tree, self._names)

    def of(self, node: cst.CSTNode) -> Value:
        """The value of an expression."""
        return self._of(node)

    def of_definition(self, definition: Definition) -> Value:
        """The value that a definition gives its name."""
        return self._of_definition(definition)

    def assigned_to(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """The expressions that a variable may hold; nothing where one of them is not written down."""
        definitions = self._flow.definitions(node) if isinstance(node, cst.Name) and self._flow.is_read(node) else ()
        parts = [definition.part for definition in definitions if definition.binding is Binding.ASSIGNED]
        found = [part for part in parts if part is not None]
        return found if len(found) == len(definitions) else []

    def returned(self, function: cst.FunctionDef) -> Value:
        """What a call of a function in sight returns, whatever its arguments."""
        return self._returned(function)

    def iterated(self, node: cst.BaseExpression) -> Value:
        """One element of an iterable expression: what a `for` over it binds."""
        return self._iterated(node)

    def loader_of(self, iterable: cst.BaseExpression) -> cst.BaseExpression | None:
        """The loader behind `loader`, `enumerate(loader)`, `tqdm(enumerate(loader))`, `iter(loader)` and the like."""
        return self._loaders(iterable)

    def _find_loader(self, iterable: cst.BaseExpression) -> cst.BaseExpression | None:
        value = self.of(iterable)
        if value.kind is Kind.LOADER:
            return value.call if value.call is not None else iterable
        if self._flow.is_variable(iterable):
            inner = [d.value for d in self._flow.definitions(iterable) if d.binding is Binding.ASSIGNED and not d.path]
            found = {self.loader_of(v) for v in inner if isinstance(v, cst.Call)}
            return found.pop() if len(found) == 1 else None
        passing = torch_api.PASSES_ITEMS | torch_api.NUMBERS_ITEMS | {"builtins.iter"}
        if isinstance(iterable, cst.Call) and iterable.args and self._names.qualified(iterable.func) in passing:
            return self.loader_of(iterable.args[0].value)
        return None

    def attribute(self, cls: ClassFacts, name: str) -> Value:
        """The value of an attribute of a class in sight, over all its assignments."""
        return self._attributes((cls, name))

    # Definitions

    def _define(self, definition: Definition) -> Value:
        value = self._bound(definition)
        is_tuple = isinstance(definition.value, cst.Tuple) and not definition.path
        if value.kind is not Kind.SEQUENCE or is_tuple:
            return value
        return self._as_changed(value, self._flow.uses(definition))

    def _bound(self, definition: Definition) -> Value:
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

    def _as_changed(self, made: Value, uses: Iterable[cst.CSTNode]) -> Value:
        """A list with what is appended to it; where it is changed otherwise, nothing is known of its elements.

        One that starts empty may be filled wherever it is handed on by another name.
        """
        added: list[Value] = []
        for use in uses:
            parent = self._tree.parent(use)
            is_append = isinstance(parent, cst.Attribute) and parent.attr.value == "append"
            call = self._tree.parent(parent) if is_append and parent is not None else None
            if isinstance(call, cst.Call) and call.func is parent and call.args:
                added.append(self.of(call.args[0].value))
            elif (made.items == () and isinstance(parent, (cst.Attribute, cst.Assign))) or self._is_changed(use, set()):
                return Value(Kind.SEQUENCE)
        if not added:
            return made
        first = made.items if made.items is not None else (made.element or UNKNOWN,)
        return Value(Kind.SEQUENCE, element=join((*first, *added)))

    def _is_changed(self, use: cst.CSTNode, followed: set[cst.CSTNode]) -> bool:
        """Whether a list gets other items at a use of it, or by a function that is given it there.

        `followed` are the parameters that it has come by.
        """
        parent = self._tree.parent(use)
        if isinstance(parent, cst.Attribute) and parent.value is use and parent.attr.value in data_api.MUTATORS:
            return True
        if isinstance(parent, cst.AugAssign) or self._is_set(use):
            return True
        call = self._tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(call, cst.Call):
            return False
        if self._names.qualified(call.func) in data_api.STORES:
            return call.args[0] is parent
        functions = (made.node for made in self._flow.of_name(call.func) if isinstance(made.node, cst.FunctionDef))
        taken = [(f, each) for f in functions for each in parameters(f) if passed(call, f, each, bound=False) is use]
        for function, param in taken:
            if param not in followed:
                followed.add(param)
                own = (each for each in self._flow.bound(function, param.name.value) if each.node is param)
                if any(self._is_changed(read, followed) for each in own for read in self._flow.uses(each)):
                    return True
        return False

    def _is_set(self, use: cst.CSTNode) -> bool:
        """Whether an item of a list is bound or deleted at a use of it, or one of a list in it: `kept[i] = x`."""
        item = use
        while isinstance(parent := self._tree.parent(item), cst.Subscript) and parent.value is item:
            item = parent
        return item is not use and self._tree.is_target(item, cst.AugAssign, cst.Del)

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
            return evolve(TENSOR, dtype=dtype_named(torch_api.TENSOR_TYPES[name]))
        return {
            "builtins.int": INTEGER,
            "builtins.float": FLOAT,
            "builtins.bool": BOOL,
            "builtins.str": Value(Kind.TEXT),
            "numpy.ndarray": ARRAY,
            "torch.device": Value(Kind.DEVICE),
        }.get(name)

    def given(self, definition: Definition) -> list[cst.BaseExpression | None]:
        """What the calls in sight pass for a parameter, or its default; `None` for what cannot be seen."""
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
        """Whether the files show that they may compute in half precision: casts, autocast, settings, libraries."""
        return self._mentions(
            *("half", "float16", "bfloat16", "HalfTensor", "BFloat16Tensor", "autocast", "GradScaler", "amp"),
            *("apex", "deepspeed", "fp16", "bf16", "mixed_precision", "precision"),
        )

    def uses_bfloat16(self) -> bool:
        """Whether the files show that they may compute in bfloat16, or are a library, of which nothing shows it."""
        names = ("bfloat16", "bf16", "set_autocast_gpu_dtype", "set_autocast_dtype", "precision", "mixed_precision")
        return self._mentions(*names) or not self._mentions("backward")

    def uses_one_float(self) -> bool:
        """Whether nothing in the files makes floats of another type than float32, and none of them are arrays."""
        return not (self.uses_half() or self.uses_double() or self._mentions("from_numpy"))

    def uses_double(self) -> bool:
        """Whether the files show that they may compute in float64."""
        return self._mentions("double", "float64", "DoubleTensor", "set_default_dtype", "set_default_tensor_type")

    def uses_bytes(self) -> bool:
        """Whether the files make tensors or arrays of bytes by hand."""
        return self._mentions("uint8", "byte", "ByteTensor", "PILToTensor", "pil_to_tensor")

    def _mentions(self, *names: str) -> bool:
        return any(node.value in names for node in self._tree.all(cst.Name))

    def _parameter(self, param: cst.Param, definition: Definition) -> Value:
        function = definition.scope
        if isinstance(function, cst.FunctionDef):
            cls = self._classes.of(self._tree.scope(function))
            if cls is not None and param is next(parameters(function), None) and not _is_static(function):
                if is_decorated(function, "classmethod"):
                    return UNKNOWN
                return Value(Kind.MODULE if cls.is_module else Kind.INSTANCE, cls=cls)
            if cls is not None and function.name.value in lightning.STEPS and lightning.is_lightning_module(cls):
                # The Trainer has moved the batch; the further parameters are numbers.
                is_batch = param is next(islice(parameters(function), 1, None), None)
                return (
                    Value(Kind.OBJECT, device=Device.ACCELERATOR, origin=Origin(param.name, ()))
                    if is_batch
                    else INTEGER
                )
        found = [self.of(given) if given is not None else UNKNOWN for given in self.given(definition)]
        if not found and param.default is not None and not _is_name(param.default, "None"):
            found.append(self.of(param.default))
        value = join(found)
        annotated = self._annotation(param.annotation)
        if annotated is not None and value.kind is not annotated.kind:
            value = annotated
        if value.kind is Kind.UNKNOWN and self._is_used_as_tensor(definition):
            value = TENSOR
        if value == UNKNOWN and isinstance(function, cst.FunctionDef):
            value = self._forward_parameter(function, param, definition)
        if value.is_tensor and value.device is None and join(found).kind is Kind.UNKNOWN:
            value = evolve(value, device=Device.ACCELERATOR)
        if value.origin is not None and self._is_scattered(function):
            value = evolve(value, device=Device.ACCELERATOR)
        return value

    def _is_scattered(self, function: cst.CSTNode) -> bool:
        """Whether a function is a forward pass whose arguments DataParallel may have brought to the devices."""
        if not isinstance(function, cst.FunctionDef) or function.name.value != "forward":
            return False
        cls = self._classes.of(self._tree.scope(function))
        return cls is not None and cls.is_module and self.is_parallel

    @cached_property
    def is_parallel(self) -> bool:
        """Whether the files name a DataParallel, which brings batches to the devices itself."""
        return any(node.value.endswith("DataParallel") for node in self._tree.all(cst.Name))

    def _forward_parameter(self, function: cst.FunctionDef, param: cst.Param, definition: Definition) -> Value:
        """A parameter of `forward` that is reshaped, compared or computed with as a tensor is taken for one."""
        cls = self._classes.of(self._tree.scope(function))
        optional = param.default is None or _is_name(param.default, "None")
        if cls is None or not cls.is_module or function.name.value != "forward" or not optional:
            return UNKNOWN
        if param.annotation is not None and not _mentions_tensor(param.annotation):
            return UNKNOWN
        # A setting decides branches, `if eps > 0:`; for a tensor that would wait.
        if param.annotation is None and any(map(self._decides, self._flow.uses(definition))):
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

    def _decides(self, use: cst.CSTNode) -> bool:
        """Whether a value itself is compared, and the answer decides a branch."""
        side = self._tree.parent(use)
        test = self._tree.parent(side) if isinstance(side, cst.ComparisonTarget) else side
        around = self._tree.parent(test) if isinstance(test, cst.Comparison) else None
        is_test = isinstance(around, (cst.If, cst.IfExp, cst.While, cst.Assert)) and around.test is test
        is_identity = isinstance(test, cst.Comparison) and self._is_identity_test(test)
        return not is_identity and (is_test or isinstance(around, cst.BooleanOperation))

    def _find_use_as_tensor(self, definition: Definition) -> bool:
        """Whether some use of the name only works on a tensor: `x.cuda()`, `torch.nonzero(x == k)`, `F.relu(x)`."""
        return any(map(self._shows_tensor, self._flow.uses(definition)))

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
        results = self._tree.results(function)
        if function.asynchronous is not None or self._tree.is_generator(function):
            return UNKNOWN
        found = [self.of(node.value) if node.value is not None else Value(Kind.NONE) for node in results]
        return join(found) if found else Value(Kind.NONE)

    def _attribute(self, asked: tuple[ClassFacts, str]) -> Value:
        cls, name = asked
        assignments = cls.assignments(name)
        kept = [assignment for assignment in assignments if not self._gives_back(assignment, name)]
        found = [self._assigned(assignment) for assignment in kept]
        if len(kept) < len(assignments) and any(value.kind not in (Kind.MODULE, Kind.LOADER) for value in found):
            found = [self._assigned(assignment) for assignment in assignments]
        for base, assignment in self._classes.assigned_elsewhere(name):
            owner = self.of(base)
            is_other = owner.cls is None or not (owner.cls in cls.lineage() or cls in owner.cls.lineage())
            if not is_other or owner.kind is Kind.UNKNOWN:
                found.append(self._assigned(assignment))
        value = join(found)
        if value.kind is Kind.SEQUENCE:
            value = self._as_changed(value, self._reads.get(name, ()))
        is_prepared = value.kind is Kind.LOADER and any(map(self._is_prepared, assignments))
        return evolve(value, device=Device.ACCELERATOR) if is_prepared else value

    @cached_property
    def _reads(self) -> dict[str, list[cst.CSTNode]]:
        """All attributes, by their names."""
        found: dict[str, list[cst.CSTNode]] = {}
        for node in self._tree.all(cst.Attribute):
            found.setdefault(node.attr.value, []).append(node)
        return found

    def _is_prepared(self, assignment: AttributeAssignment) -> bool:
        call = assignment.value
        return isinstance(call, cst.Call) and self._calls.prepares(call)

    def _gives_back(self, assignment: AttributeAssignment, name: str) -> bool:
        """Whether an attribute is assigned what it holds already, `self.model = self.model.to(device)`, if that is a
        module: those methods give it back. Accelerate gives back everything that it prepares.
        """
        if self._is_prepared(assignment):
            return True
        node = assignment.value
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in _GIVES_MODULE_BACK:
                return False
            node = node.func.value
        own = self._classes.self_attribute(node) if isinstance(node, cst.Attribute) else None
        return own is not None and own[1] == name and not assignment.path

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
            return Value(
                Kind.TENSOR, device=value.device, dtype=value.dtype, rank=value.rank - 1 if value.rank else None
            )
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
        value = self.of(node)
        if value.kind is not Kind.SEQUENCE and self._flow.is_variable(node):
            definitions = self._flow.definitions(node)
            if definitions and all(d.binding is Binding.ASSIGNED and not d.path for d in definitions):
                return join(self.iterated(d.value) for d in definitions if d.value is not None)
        if value.kind is Kind.LOADER:
            return Value(Kind.OBJECT, device=value.device or Device.CPU, origin=Origin(value.call or node, ()))
        if value.kind is Kind.UNKNOWN and isinstance(node, (cst.Name, cst.Attribute)) and is_loader_name(dotted(node)):
            return Value(Kind.OBJECT, device=Device.CPU, origin=Origin(node, ()))
        if value.items:
            return join(value.items)
        return self.item(value, 0) if value.kind in (Kind.TENSOR, Kind.ARRAY) else value.element or UNKNOWN

    # Expressions

    def _evaluate(self, node: cst.CSTNode) -> Value:
        if self._flow.is_variable(node):
            return self._name(node)
        if isinstance(node, cst.Call):
            return self._calls.of_call(node)
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
                else Value(Kind.UNKNOWN, device=value.device)
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

    def _name(self, node: Read) -> Value:
        definitions = self._flow.definitions(node)
        if not definitions and isinstance(node, cst.Name):
            return {"True": BOOL, "False": BOOL, "None": Value(Kind.NONE)}.get(node.value, UNKNOWN)
        imported = self._names.qualified(node) or (self._names.member(node) if isinstance(node, cst.Name) else None)
        if imported is not None:
            return Value(Kind.OBJECT, name=imported)
        value = join(self.of_definition(definition) for definition in definitions)
        if value.kind is Kind.UNKNOWN and any(self._is_used_as_tensor(d) for d in definitions):
            return evolve(TENSOR, device=value.device or Device.ACCELERATOR)
        return value

    def _read_attribute(self, node: cst.Attribute) -> Value:
        name = self._names.qualified(node)
        if name is not None:
            if name in torch_api.CONSTANTS:
                return FLOAT
            return Value(Kind.OBJECT, name=name)
        own = self._classes.self_attribute(node)
        base = self.of(node.value)
        attribute = node.attr.value
        held = self.attribute(*own) if own is not None else UNKNOWN
        if held.kind is not Kind.UNKNOWN:
            return held
        if base.is_tensor:
            if attribute in torch_api.TENSOR_ATTRIBUTES:
                is_part = base.dtype is DType.COMPLEX and attribute in ("real", "imag")
                dtype = DType.FLOATING if is_part else base.dtype
                return Value(Kind.TENSOR, device=base.device, dtype=dtype, origin=base.origin)
            if attribute == "device":
                return Value(Kind.DEVICE)
            if attribute == "shape":
                return Value(Kind.SEQUENCE, element=INTEGER)
            if attribute in ("ndim", "is_cuda", "requires_grad"):
                return INTEGER if attribute == "ndim" else BOOL
            # What a loader gives may be a graph.
            return INTEGER if base.origin is not None and self._counts_graphs(attribute, node) else UNKNOWN
        if base.kind is Kind.ARRAY:
            numbers = {"shape": Value(Kind.SEQUENCE, element=INTEGER), "size": INTEGER, "ndim": INTEGER}
            return numbers.get(attribute, ARRAY)
        if base.cls is not None and own is None:
            held = self.attribute(base.cls, attribute)
            if held.kind is not Kind.UNKNOWN:
                return held
        if base.name in ("torch.finfo", "torch.iinfo"):
            is_bits = attribute == "bits" or base.name == "torch.iinfo"
            return (INTEGER if is_bits else FLOAT) if attribute != "dtype" else UNKNOWN
        if base.name == "argparse.Namespace":
            declared = dtype_named(self._arguments.type_of(attribute))
            return Value(Kind.NUMBER, dtype=declared) if declared is not None else UNKNOWN
        if base.origin is not None:
            if attribute == "device":
                return Value(Kind.DEVICE)
            if self._counts_graphs(attribute, node):
                return INTEGER
            return Value(Kind.SEQUENCE, element=INTEGER) if attribute == "shape" else self.item(base, attribute)
        if base.kind is Kind.UNKNOWN and self._counts_graphs(attribute, node):
            return INTEGER
        if attribute == "shape":
            return Value(Kind.SEQUENCE, element=INTEGER)
        if self._shows_tensor(node):
            return evolve(TENSOR, device=Device.ACCELERATOR)
        return held

    def _counts_graphs(self, attribute: str, node: cst.CSTNode) -> bool:
        """Whether an attribute of a batch of graphs is an integer of Python."""
        libraries = [library for library, counts in torch_api.GRAPH_COUNTS.items() if attribute in counts]
        return any(self._names.imports(library, node) for library in libraries)

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
        if left.kind is Kind.TEXT:
            return Value(Kind.TEXT)  # `"%.3f" % loss`
        if Kind.TENSOR in kinds and Kind.ARRAY not in kinds:
            is_product = isinstance(operator, (cst.MatrixMultiply, cst.MatrixMultiplyAssign))
            dtype = promoted(left.dtype, right.dtype)
            dtype = DType.FLOATING if _is_division(operator) and dtype is not DType.COMPLEX else dtype
            rank = None if is_product else broadcast_rank((left, right))
            devices = [value.device for value in (left, right) if value.is_tensor]
            device = Device.ACCELERATOR if Device.ACCELERATOR in devices else next(filter(None, devices), None)
            return Value(Kind.TENSOR, device=device, dtype=dtype, rank=rank)
        if Kind.ARRAY in kinds:
            return ARRAY if Kind.TENSOR not in kinds else UNKNOWN
        if kinds == {Kind.NUMBER}:
            dtype = DType.FLOATING if _is_division(operator) else promoted(left.dtype, right.dtype)
            # `2 ** -1` is a fraction.
            is_power = isinstance(operator, (cst.Power, cst.PowerAssign))
            return Value(Kind.NUMBER, dtype=None if is_power and dtype is not DType.FLOATING else dtype)
        return UNKNOWN


def _is_division(operator: cst.CSTNode | None) -> bool:
    return isinstance(operator, (cst.Divide, cst.DivideAssign))


def _is_static(function: cst.FunctionDef) -> bool:
    return is_decorated(function, "staticmethod")


def _is_name(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _mentions_tensor(annotation: cst.Annotation) -> bool:
    """Whether an annotation such as `torch.Tensor | None` or `Optional["Tensor"]` names a tensor."""
    return any(
        (isinstance(node, cst.Name) and node.value.endswith("Tensor"))
        or (isinstance(node, cst.SimpleString) and "Tensor" in node.value)
        for node in walk(annotation.annotation)
    )
