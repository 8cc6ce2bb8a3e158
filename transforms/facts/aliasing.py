"""Who else can see a tensor: fresh storage, views, in-place writes, and whether rebinding a name can be observed."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.flow import Binding, Definition, Flow
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree, walk
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
# Methods after which it matters which tensor object a name holds: autograd watches that one.
_WATCHES = frozenset({"retain_grad", "register_hook", "register_post_accumulate_grad_hook", "requires_grad_"})
# Where the functions stand that compute from their arguments and keep none of them.
_FUNCTIONS = ("torch.nn.functional.", "torch.linalg.", "torch.special.", "torch.fft.", "torch.")
_SAFE_BUILTINS = frozenset(
    {f"builtins.{name}" for name in ("len", "float", "int", "bool", "print", "str", "repr", "isinstance", "type")}
)
_NO_STORAGE = frozenset({"shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout", "names"})


class Aliasing:
    """Aliases and in-place writes of one file's names."""

    def __init__(self, tree: Tree, flow: Flow, names: Names, values: Values) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._values = values

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

    def mutations(self, definition: Definition) -> Iterator[cst.Name]:
        """The uses of a name that write into the object it holds: stores, `+=`, `x.add_()`, `out=x`."""
        return (use for use in self._flow.uses(definition) if self.mutates(use))

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
                    if name.endswith("_") and not name.endswith("__") and name != "requires_grad_":
                        return True
                    if name in (
                        "append",
                        "extend",
                        "insert",
                        "update",
                        "add",
                        "pop",
                        "remove",
                        "clear",
                        "setdefault",
                        "sort",
                        "reverse",
                    ):
                        return self._values.of(node).kind is not Kind.TENSOR
                    if name not in _VIEWS:
                        return False
                    node = call
                elif name in _VIEWS or isinstance(call, (cst.AssignTarget, cst.AugAssign)):
                    node = parent
                else:
                    node = parent
            else:
                break
            parent = self._tree.parent(node)
        if isinstance(parent, cst.AssignTarget):
            return parent.target is node and node is not use
        if isinstance(parent, cst.AugAssign):
            return parent.target is node
        if isinstance(parent, cst.Del):
            return node is not use
        if isinstance(parent, (cst.Element, cst.StarredElement)):
            return node is not use and self._is_unpacked_into(parent)
        return isinstance(parent, cst.Arg) and parent.keyword is not None and parent.keyword.value == "out"

    def is_mutated(self, node: cst.CSTNode) -> bool:
        """Whether the object behind a name or attribute is written in place anywhere in the same function.

        `True` also where it cannot be told (other expressions). Calls of functions elsewhere are trusted not to write.
        """
        if isinstance(node, cst.Name):
            return any(True for definition in self._flow.definitions(node) for _ in self.mutations(definition))
        if isinstance(node, cst.Attribute):
            code = _code(node)
            around = self._tree.function(node) or self._tree.module
            return any(
                isinstance(other, cst.Attribute)
                and _code(other) == code
                and (self.mutates(other) or self._is_assigned(other))
                for other in walk(around)
            )
        return True

    def rebinding_is_unobservable(self, name: cst.Name) -> bool:
        """Whether `x[m] = v` at this read of `x` may become `x = f(x)`: nobody else holds the tensor that `x` holds.

        True only for a local name whose every definition made a fresh tensor, and that was not handed on before.
        """
        definitions = self._flow.definitions(name)
        scope = self._tree.scope(name)
        write = self._tree.line(self._tree.statement(name))
        for definition in definitions:
            if definition.scope is not scope or definition.binding is not Binding.ASSIGNED or definition.path:
                return False
            if definition.value is None or not self.is_fresh(definition.value) or _asks_for_grad(definition.value):
                return False
            assignment = self._tree.parent(definition.node)
            statement = self._tree.parent(assignment) if assignment is not None else None
            if isinstance(statement, cst.Assign) and len(statement.targets) > 1:
                return False
            if self._tree.loops(name)[:1] != self._tree.loops(definition.node)[:1]:
                return False
            for use in self._flow.uses(definition):
                if self._tree.scope(use) is not scope:
                    return False
                if self._is_watched(use) or (not self._is_behind(use, write) and self.hands_on(use)):
                    return False
        return bool(definitions)

    def _is_behind(self, use: cst.Name, write: cst.BaseStatement) -> bool:
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

    def _is_watched(self, use: cst.Name) -> bool:
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
        if isinstance(
            parent,
            (
                cst.BinaryOperation,
                cst.Comparison,
                cst.ComparisonTarget,
                cst.UnaryOperation,
                cst.Expr,
                cst.AugAssign,
            ),
        ):
            return False
        if isinstance(parent, (cst.FormattedStringExpression, cst.If, cst.While, cst.Assert, cst.AssignTarget)):
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
                return self._call_keeps(call)
        return True

    def _call_keeps(self, call: cst.Call) -> bool:
        name = self._names.qualified(call.func)
        if name is not None:
            if name in _SAFE_BUILTINS:
                return False
            prefix = next((prefix for prefix in _FUNCTIONS if name.startswith(prefix)), None)
            short = name.removeprefix(prefix or "")
            if prefix is None or "." in short:
                return True
            return self.hands_on(call) if short in _VIEWS else False
        return not (isinstance(call.func, cst.Attribute) and self._values.of(call.func.value).is_tensor)

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


def _is_true(arg: cst.Arg) -> bool:
    return arg.keyword is None and isinstance(arg.value, cst.Name) and arg.value.value == "True"


def _asks_for_grad(node: cst.CSTNode) -> bool:
    """Whether a call makes a tensor that is trained itself: `torch.zeros_like(x, requires_grad=True)`."""
    return isinstance(node, cst.Call) and any(
        arg.keyword is not None and arg.keyword.value == "requires_grad" for arg in node.args
    )


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)
