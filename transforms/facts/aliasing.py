"""Who else can see a tensor: fresh storage, views, in-place writes, and whether rebinding a name can be observed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts import torch_api
from perfmod.transforms.facts.callees import Callees
from perfmod.transforms.facts.calls import argument, is_decorated, passed
from perfmod.transforms.facts.flow import Binding, Definition, Flow, Read, parameters
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.solver import Questions
from perfmod.transforms.facts.tree import Tree, is_false, is_true, walk
from perfmod.transforms.facts.value import DType, Kind
from perfmod.transforms.facts.values import Values

# Methods and functions whose result may share storage with (or be) their subject.
_VIEWS = frozenset(
    {
        "view", "view_as", "reshape", "flatten", "ravel", "squeeze", "unsqueeze", "transpose", "permute", "t",
        "expand", "expand_as",
        "narrow", "select", "diagonal", "unfold", "chunk", "split", "unbind", "contiguous", "detach", "to", "cuda",
        "cpu", "type",
        "type_as", "float", "double", "half", "long", "int", "bool", "byte", "short", "bfloat16", "data",
        "requires_grad_", "swapaxes",
        "movedim", "as_tensor", "from_numpy", "numpy", "pin_memory", "real", "imag", "T", "mT", "H", "atleast_1d",
        "broadcast_to",
        "view_as_real", "unflatten", "index", "adjoint", "as_strided", "broadcast_tensors",
        "swapdims", "moveaxis", "reshape_as", "sum_to_size", "atleast_2d", "atleast_3d", "view_as_complex", "conj",
        "resolve_conj", "resolve_neg", "positive", "hsplit", "vsplit", "dsplit", "tensor_split", "unsafe_chunk",
        "unsafe_split", "meshgrid", "char", "cfloat", "cdouble", "to_dense", "coalesce", "asarray", "einsum",
        "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
        "feature_alpha_dropout", "Tensor", "FloatTensor", "DoubleTensor", "HalfTensor", "LongTensor", "IntTensor",
        "BoolTensor", "ByteTensor", "Variable", "Parameter", "rename", "align_to",
    }
)  # fmt: skip
# Methods that give two fresh tensors.
_PAIRS = frozenset({"sort", "topk", "max", "min", "kthvalue", "median", "mode"})
# Methods after which it matters which tensor object a name holds: autograd watches that one.
_WATCHES = frozenset({"retain_grad", "register_hook", "register_post_accumulate_grad_hook", "requires_grad_"})
# Where the functions stand that compute from their arguments and keep none of them.
_FUNCTIONS = ("torch.nn.functional.", "torch.linalg.", "torch.special.", "torch.fft.", "torch.")
_CHANGES_CONTAINER = frozenset(
    {"append", "extend", "insert", "update", "add", "pop", "remove", "clear", "setdefault", "sort", "reverse"}
)
# Functions that write into their first argument and are not called so.
_WRITES = frozenset(
    {"numpy.copyto", "numpy.put", "numpy.place", "numpy.putmask", "numpy.fill_diagonal", "numpy.put_along_axis",
     "numpy.random.shuffle", "random.shuffle", "heapq.heappush", "heapq.heapify", "operator.setitem"}
    | {f"operator.{name}" for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "iand", "ior", "ixor", "ipow")}
    | {f"torch.distributed.{name}" for name in (
        "all_reduce", "all_reduce_coalesced", "broadcast", "reduce", "recv", "irecv", "scatter", "all_gather",
        "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single",
    )}
)  # fmt: skip
# Methods that write into what they are called on. Those of tensors end in an underscore.
_WRITING_METHODS = frozenset(
    {"fill", "itemset", "setfield", "byteswap", "__setitem__"}
    | {f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "and", "or", "xor", "pow", "mod")}
)
# Those of arrays that other objects have too, and mean something else by.
_OF_ARRAYS = frozenset({"sort", "partition", "put"})
# What makes an array of a tensor, or a tensor of an array, that shares its memory.
_SHARES = frozenset({"numpy.asarray", "numpy.asanyarray", "torch.from_numpy", "torch.as_tensor", "torch.asarray"})
_SAFE_BUILTINS = frozenset(
    {f"builtins.{name}" for name in ("len", "float", "int", "bool", "print", "str", "repr", "isinstance", "type")}
)
_NO_STORAGE = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "names"})


@frozen
class Write:
    """A place that writes in place.

    Attributes:
        node: the assignment's target, the augmented assignment or the call.
        into: the tensor or array, or the container of an item.
        is_item: whether an item of it is stored: one of a container gets another value, and no tensor is written into.
        is_seen: whether it writes for sure; a function out of sight may write into what it is given.
    """

    node: cst.CSTNode
    into: cst.BaseExpression
    is_item: bool = False
    is_seen: bool = True


class Aliasing:
    """Aliases and in-place writes of names."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._values = values
        self.callees = Callees(names, values)
        self._is_kept = Questions(values.solver, self._keeps, False)
        self._written = Questions[Definition, tuple[Read, ...]](values.solver, self._find_mutations, ())

    def is_fresh(self, node: cst.CSTNode) -> bool:
        """Whether evaluating `node` makes a tensor that nothing else refers to."""
        value = self._values.of(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Plus):
            return False
        if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)):
            return value.is_tensor
        if isinstance(node, cst.Subscript):
            return value.is_tensor and any(self._copies(element) for element in node.slice)
        if not isinstance(node, cst.Call):
            return False
        name = self._names.qualified(node.func)
        if name is not None:
            short = name.rpartition(".")[2]
            if any(arg.keyword is not None and arg.keyword.value in ("out", "inplace") for arg in node.args):
                return False
            if name.startswith("torch.nn.functional.") and any(_is_true(arg) for arg in node.args):
                # `F.relu(x, True)` works in place.
                return False
            return name.startswith("torch.") and value.is_tensor and short not in _VIEWS and not short.endswith("_")
        if isinstance(node.func, cst.Attribute) and value.is_tensor and self._values.of(node.func.value).is_tensor:
            method = node.func.attr.value
            return method not in _VIEWS and not method.endswith("_")
        return False

    def _is_its_own(self, node: cst.CSTNode) -> bool:
        """Whether evaluating `node` makes a fresh tensor, or one of another that has no name: `x.sort()[0][:3]`,
        `x.floor().to(torch.int64)`.
        """
        while not self.is_fresh(node):
            if isinstance(node, cst.Subscript):
                node = node.value
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _PAIRS:
                return self._values.of(node.func.value).is_tensor and argument(node, "out") is None
            elif (
                isinstance(node, cst.Call)
                and isinstance(node.func, cst.Attribute)
                and node.func.attr.value in torch_api.CASTS
            ):
                # Gives the tensor itself where it has the type, or is on the device, already.
                node = node.func.value
            else:
                return False
        return True

    def is_computed(self, call: cst.Call) -> bool:
        """Whether a method makes another tensor of whatever it is called on, as `model(x).softmax(-1)` does."""
        if self._names.qualified(call.func) is not None or not isinstance(call.func, cst.Attribute):
            return False
        method = call.func.attr.value
        return self._values.of(call).is_tensor and method not in _VIEWS and not method.endswith("_")

    def mutations(self, definition: Definition) -> Sequence[Read]:
        """The uses of names that write into the object a definition gives its name: stores, `+=`, `x.add_()`, `out=x`.

        Names that are given the same object or a view of it count too, and calls of functions in sight that write
        into what they are given. The `x += y` that is the definition itself does not.
        """
        return self._written(definition)

    def _find_mutations(self, definition: Definition) -> tuple[Read, ...]:
        found: list[Read] = []
        stack = self._sources(definition)
        seen = set(stack)
        while stack:
            for use in self._flow.uses(stack.pop()):
                if use is not definition.node and self.mutates(use):
                    found.append(use)
                for alias in self.aliases(use):
                    if alias not in seen:
                        seen.add(alias)
                        stack.append(alias)
        return tuple(found)

    def _sources(self, definition: Definition) -> list[Definition]:
        """A definition, and those that made the object that it gives its name: of `x` for `y = x.view(-1)`."""
        found = [definition]
        for current in found:
            node: cst.CSTNode | None = None
            if current.binding is Binding.ASSIGNED and not current.path and current.value is not None:
                node = self.viewed(current.value)
            elif current.binding is Binding.AUGMENTED:
                statement = self._tree.statement(current.node)
                node = statement.target if isinstance(statement, cst.AugAssign) else None
            if node is not None and self._flow.is_variable(node) and self._values.of(node).kind is not Kind.NUMBER:
                found += [source for source in self._flow.definitions(node) if source not in found]
        return found

    def viewed(self, node: cst.CSTNode) -> cst.CSTNode:
        """What an expression is a view of: `x` for `x.data`, `x[0].view(-1)`, `torch.squeeze(x)`."""
        while True:
            if isinstance(node, cst.Call):
                is_function = bool(node.args) and self._is_view_call(node.args[0])
                inner: cst.CSTNode = node.args[0].value if is_function else node.func
                if not is_function and not (isinstance(inner, cst.Attribute) and inner.attr.value in _VIEWS):
                    return node
            elif (
                isinstance(node, cst.NamedExpr)
                or (isinstance(node, cst.Attribute) and node.attr.value in _VIEWS)
                or (isinstance(node, cst.Subscript) and not any(self._copies(element) for element in node.slice))
            ):
                inner = node.value
            else:
                return node
            node = inner

    def aliases(self, use: cst.CSTNode) -> Sequence[Definition]:
        """Names that the object of `use`, or a view of it, is assigned to at once."""
        node = self._seen_through(use)
        parent = self._tree.parent(node)
        targets: list[cst.CSTNode] = []
        if isinstance(parent, cst.Assign):
            targets += [item.target for item in parent.targets]
        elif (isinstance(parent, (cst.AnnAssign, cst.NamedExpr)) and parent.value is node) or (
            isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is node
        ):
            targets.append(parent.target)
        return [definition for target in targets for definition in self._flow.defined(target)]

    def _seen_through(self, node: cst.CSTNode) -> cst.CSTNode:
        """The outermost expression around `node` that is a view of it: `x.data`, `x[0].view(-1)`."""
        while True:
            parent = self._tree.parent(node)
            if isinstance(parent, cst.Subscript) and parent.value is node:
                if any(self._copies(element) for element in parent.slice):
                    return node
                node = parent
            elif isinstance(parent, cst.Attribute) and parent.attr.value in _VIEWS:
                call = self._tree.parent(parent)
                node = call if isinstance(call, cst.Call) and call.func is parent else parent
            elif isinstance(parent, cst.Arg) and self._is_view_call(parent):
                around = self._tree.parent(parent)
                assert around is not None
                node = around
            elif isinstance(parent, cst.IfExp) and parent.test is not node:
                node = parent
            else:
                return node

    def _is_view_call(self, arg: cst.Arg) -> bool:
        call = self._tree.parent(arg)
        if not isinstance(call, cst.Call) or call.args[0] is not arg:
            return False
        name = self._names.qualified(call.func) or ""
        return name.startswith("torch.") and name.rpartition(".")[2] in _VIEWS

    def mutates(self, use: cst.CSTNode) -> bool:
        """Whether the expression around a use writes into its object, through views too (`x.data[m] = 0`)."""
        node, parent = use, self._tree.parent(use)
        if self._names.qualified(use) is not None:
            # `torch.nn.utils.clip_grad_norm_(...)` writes into its argument, not into `torch`.
            return False
        while parent is not None:
            if isinstance(parent, cst.Subscript) and parent.value is node:
                node = parent
            elif isinstance(parent, cst.Attribute) and parent.value is node:
                call = self._tree.parent(parent)
                name = parent.attr.value
                if isinstance(call, cst.Call) and call.func is parent:
                    if self._writes_itself(call):
                        return True
                    if name in _CHANGES_CONTAINER:
                        return self._values.of(node).kind is not Kind.TENSOR
                    if name not in _VIEWS:
                        return False
                    node = call
                else:
                    node = parent
            elif isinstance(parent, cst.Arg) and self._is_view_call(parent):
                node = self._tree.parent(parent) or node
            elif isinstance(parent, cst.NamedExpr) or (isinstance(parent, cst.IfExp) and parent.test is not node):
                node = parent
            else:
                break
            parent = self._tree.parent(node)
        if isinstance(parent, cst.AssignTarget):
            return parent.target is node and node is not use
        if isinstance(parent, cst.AugAssign):
            # Numbers are replaced, not written to.
            return parent.target is node and (node is not use or self._values.of(node).kind is not Kind.NUMBER)
        if isinstance(parent, cst.Del):
            return node is not use
        if isinstance(parent, (cst.Element, cst.StarredElement)):
            return node is not use and self._is_unpacked_into(parent)
        return isinstance(parent, cst.Arg) and self._call_writes(parent)

    def _call_writes(self, arg: cst.Arg) -> bool:
        """Whether a call writes into an argument."""
        call = self._tree.parent(arg)
        if not isinstance(call, cst.Call):
            return False
        if any(target is arg.value for target in self.written_by(call)):
            return True
        function = self._values.calls.resolve(call)
        if function is None or any(other.star for other in call.args):
            return False
        is_bound = isinstance(self._tree.scope(function), cst.ClassDef) and not is_decorated(function, "staticmethod")
        given = (p for p in parameters(function) if passed(call, function, p, bound=is_bound) is arg.value)
        return any(self.mutations(definition) for param in given for definition in self._flow.defined(param))

    def written_by(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What a call of a method, of a library's function or of a module writes into."""
        out = argument(call, "out")
        if out is not None:
            return [element.value for element in out.elements] if isinstance(out, cst.Tuple) else [out]
        name = self._names.qualified(call.func)
        if name is None and self._writes_itself(call):
            assert isinstance(call.func, cst.Attribute)
            return [call.func.value]
        in_place = argument(call, "inplace")
        if name is None:
            made = self._first_layer(call.func)
            in_place = argument(made, "inplace") if made is not None else None
        is_named = name is not None and (
            name in _WRITES
            or (name.startswith("torch.") and name.endswith("_") and not name.endswith("__"))
            or (name.startswith("numpy.") and name.endswith(".at"))
        )
        is_in_place = in_place is not None and not is_false(in_place)
        return [call.args[0].value] if call.args and (is_named or is_in_place) else []

    def _first_layer(self, module: cst.BaseExpression) -> cst.Call | None:
        """The call that makes a module, or the first layer of what calls its layers one after the other."""
        value = self._values.of(module)
        made = value.call if value.kind is Kind.MODULE else None
        if made is None or value.name != "torch.nn.Sequential" or not made.args or made.args[0].star:
            return made
        return self._first_layer(made.args[0].value)

    def _writes_itself(self, call: cst.Call) -> bool:
        """Whether a method writes into what it is called on: `x.add_(1)`, `array.fill(0)`."""
        if not isinstance(call.func, cst.Attribute):
            return False
        name = call.func.attr.value
        if name.endswith("_") and not name.startswith("_"):
            return name != "requires_grad_"
        is_array = self._values.of(call.func.value).kind is Kind.ARRAY
        return name in _WRITING_METHODS or (name in _OF_ARRAYS and is_array)

    @cached_property
    def writes(self) -> tuple[Write, ...]:
        """Every place in sight that writes in place, or may: a function out of sight may write into what it gets."""
        return tuple(self._find_writes())

    def _find_writes(self) -> Iterator[Write]:
        for node in self._tree.all_of(cst.AssignTarget, cst.AugAssign, cst.Call):
            if isinstance(node, cst.AssignTarget):
                for stored in _stored(node.target):
                    if isinstance(stored, cst.Subscript):
                        yield Write(node, stored.value, is_item=True)
            elif isinstance(node, cst.AugAssign):
                is_item = isinstance(node.target, cst.Subscript)
                yield Write(node, node.target.value if isinstance(node.target, cst.Subscript) else node.target, is_item)
            elif isinstance(node, cst.Call):
                written = self.written_by(node)
                yield from (Write(node, target) for target in written)
                if not written and self.callees.of(node).is_unseen:
                    yield from (Write(node, arg.value, is_seen=False) for arg in node.args)

    def shared(self, made: cst.CSTNode) -> cst.BaseExpression | None:
        """The tensor of which `x.numpy()` or `np.asarray(x)` is the memory; `None` for whatever else is made."""
        if not isinstance(made, cst.Call):
            return None
        if isinstance(made.func, cst.Attribute) and made.func.attr.value == "numpy":
            return made.func.value
        return made.args[0].value if made.args and self._names.qualified(made.func) in _SHARES else None

    def is_mutated(self, node: cst.CSTNode) -> bool:
        """Whether the object behind a name or attribute is written in place anywhere in the same function.

        `True` also where it cannot be told (other expressions). Calls of functions elsewhere are trusted not to write.
        """
        if self._flow.is_variable(node):
            return any(self.mutations(definition) for definition in self._flow.definitions(node))
        if isinstance(node, cst.Attribute):
            code = self._tree.code(node)
            around = self._tree.function(node) or self._tree.module_of(node)
            return any(
                isinstance(other, cst.Attribute)
                and self._tree.code(other) == code
                and (
                    self.mutates(other)
                    or self._is_assigned(other)
                    or any(self.mutations(alias) for alias in self.aliases(other))
                )
                for other in walk(around)
            )
        return True

    def rebinding_is_unobservable(self, name: cst.Name) -> bool:
        """Whether `x[m] = v` at this read of `x` may become `x = f(x)`: nobody else holds the tensor that `x` holds.

        True only for a local name whose every definition made a tensor of its own, and that was not handed on before:
        in a loop that writes to it in every round, nowhere.
        """
        definitions = self._flow.definitions(name)
        around = self._tree.loops(name)
        if any(self._tree.is_within(d.node, loop) for d in self._flow.from_earlier_rounds(name) for loop in around):
            # What was written in an earlier round may have been handed on behind the write.
            return False
        scope = self._tree.scope(name)
        for definition in definitions:
            if definition.scope is not scope or definition.binding is not Binding.ASSIGNED:
                return False
            if definition.part is None or not self._is_its_own(definition.part) or _asks_for_grad(definition.part):
                return False
            assignment, statement = self._tree.parent(definition.node), self._tree.statement(definition.node)
            if isinstance(statement, cst.Assign) and len(statement.targets) > 1:
                return False
            rounds = [loop for loop in around if not self._tree.is_within(definition.node, loop)]
            if self._tree.loops(definition.node) != around[len(rounds) :]:
                return False
            write = rounds[-1] if rounds else self._tree.line(self._tree.statement(name))
            if isinstance(assignment, cst.NamedExpr) and self.hands_on(assignment):
                return False
            for use in self._flow.uses(definition):
                if self._tree.scope(use) is not scope:
                    return False
                if self._is_watched(use) or (not self._is_behind(use, write) and self.hands_on(use)):
                    return False
        return bool(definitions)

    def _is_behind(self, use: cst.CSTNode, write: cst.BaseStatement) -> bool:
        """Whether `use` stands in a later statement than `write`: of its block, or of a block around it."""
        line: cst.BaseStatement = write
        while True:
            block = self._tree.block(line)
            later = block[block.index(line) + 1 :] if line in block else []
            if any(self._tree.is_within(use, statement) for statement in later):
                return True
            around = next((a for a in self._tree.ancestors(line) if isinstance(a, cst.BaseCompoundStatement)), None)
            if not isinstance(around, (cst.If, cst.With)):
                return False
            line = around

    def _is_watched(self, use: cst.CSTNode) -> bool:
        """Whether autograd is told about the very tensor that a name holds: `x.requires_grad_()`, `x.retain_grad()`."""
        parent = self._tree.parent(use)
        if not isinstance(parent, cst.Attribute):
            return False
        around = self._tree.parent(parent)
        if isinstance(around, cst.AssignTarget):
            return parent.attr.value == "requires_grad"
        return isinstance(around, cst.Call) and around.func is parent and parent.attr.value in _WATCHES

    def hands_on(self, node: cst.CSTNode) -> bool:
        """Whether the expression around `node` lets something keep the tensor of `node` or a view of it."""
        parent = self._tree.parent(node)
        if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Plus):
            # `+x` is `x`.
            return self.hands_on(parent)
        if isinstance(parent, (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.UnaryOperation)):
            return False
        if isinstance(parent, (cst.Expr, cst.AugAssign, cst.AssignTarget, cst.If, cst.While, cst.Assert)):
            return False
        if isinstance(parent, cst.FormattedStringExpression):
            return False
        if isinstance(parent, cst.Subscript) and parent.value is node:
            if any(self._copies(element) for element in parent.slice):
                return False
            return self.hands_on(parent)
        if isinstance(parent, cst.Index):
            return False
        if isinstance(parent, cst.Attribute):
            if parent.attr.value in _NO_STORAGE:
                return False
            call = self._tree.parent(parent)
            if isinstance(call, cst.Call) and call.func is parent:
                method = parent.attr.value
                if method in _VIEWS or (method.endswith("_") and not method.endswith("__")):
                    return self.hands_on(call)
                return not self._values.of(node).is_tensor
            return self.hands_on(parent)
        if isinstance(parent, cst.Arg):
            call = self._tree.parent(parent)
            if isinstance(call, cst.Call):
                return self._call_keeps(call, parent)
        return True

    def _call_keeps(self, call: cst.Call, arg: cst.Arg) -> bool:
        function = self._values.calls.resolve(call)
        if function is not None and not any(other.star for other in call.args):
            return self._parameter_keeps(call, function, arg)
        name = self._names.qualified(call.func)
        if name is not None:
            if name in _SAFE_BUILTINS:
                return False
            prefix = next((prefix for prefix in _FUNCTIONS if name.startswith(prefix)), None)
            short = name.removeprefix(prefix or "")
            if prefix is None or "." in short:
                return True
            return self.hands_on(call) if short in _VIEWS else False
        if not isinstance(call.func, cst.Attribute):
            return True
        owner = self._values.of(call.func.value)
        is_text = owner.kind is Kind.TEXT or isinstance(call.func.value, (cst.SimpleString, cst.ConcatenatedString))
        return not (owner.is_tensor or (is_text and call.func.attr.value == "format"))

    def _parameter_keeps(self, call: cst.Call, function: cst.FunctionDef, arg: cst.Arg) -> bool:
        """Whether a function in sight keeps an argument or a view of it, or returns one."""
        is_bound = isinstance(self._tree.scope(function), cst.ClassDef) and not is_decorated(function, "staticmethod")
        given = [p for p in parameters(function) if passed(call, function, p, bound=is_bound) is arg.value]
        return not given or any(map(self._is_kept, given))

    def _keeps(self, param: cst.Param) -> bool:
        """Whether a parameter is kept by its function, or by one that this hands it to."""
        uses = (use for made in self._flow.defined(param) for use in self._flow.uses(made))
        return any(self.hands_on(use) for use in uses)

    def _copies(self, element: cst.SubscriptElement) -> bool:
        """Whether an index makes a copy: a mask, a list, or a tensor with dimensions.

        Slices, numbers, `None` and `...` make views, and so do integer tensors without dimensions.
        """
        index = element.slice
        if not isinstance(index, cst.Index):
            return False
        value = self._values.of(index.value)
        if value.is_tensor:
            return value.dtype is DType.BOOL or bool(value.rank)
        parts = [*(value.items or ()), *([value.element] if value.element is not None else [])]
        return isinstance(index.value, (cst.List, cst.ListComp)) or any(part.is_tensor for part in parts)

    def _is_assigned(self, node: cst.CSTNode) -> bool:
        parent = self._tree.parent(node)
        return isinstance(parent, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)) and parent.target is node

    def _is_unpacked_into(self, element: cst.CSTNode) -> bool:
        child: cst.CSTNode = element
        for parent in self._tree.ancestors(element):
            if isinstance(parent, cst.AssignTarget):
                return parent.target is child
            if not isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
                return False
            child = parent
        return False


def _stored(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What an assignment gives values to: the parts of a tuple, each for itself."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _stored(element.value)
    else:
        yield target


def _is_true(arg: cst.Arg) -> bool:
    return arg.keyword is None and is_true(arg.value)


def _asks_for_grad(node: cst.CSTNode) -> bool:
    """Whether a call makes a tensor that is trained itself: `torch.zeros_like(x, requires_grad=True)`."""
    return isinstance(node, cst.Call) and any(
        arg.keyword is not None and arg.keyword.value == "requires_grad" for arg in node.args
    )
