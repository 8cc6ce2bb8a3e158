"""Where tensors with a graph end up: what differentiates them, prints them with their `grad_fn`, or keeps them.

A tensor that is computed without a graph has the same values. Who only reads numbers from it notices nothing; who calls
`backward` on it fails, and who prints the tensor itself sees another text. `Escapes` follows tensors forward, through
names, containers, arithmetic, calls and returns, and names each place where one of them is noticed or lost from sight.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import Calls
from perfmod.transforms.facts.classes import Classes
from perfmod.transforms.facts.flow import Flow, dotted, target_names
from perfmod.transforms.facts.handing import Handing
from perfmod.transforms.facts.names import Names
from perfmod.transforms.facts.tree import Tree
from perfmod.transforms.facts.value import UNKNOWN, DType, Kind
from perfmod.transforms.facts.values import Values

if TYPE_CHECKING:
    from perfmod.transforms.facts.file import FileFacts

# What gives a number, a tensor without a graph, or nothing that holds one.
_CUTS = frozenset(
    {
        "item", "detach", "detach_", "tolist", "numpy", "data", "argmax", "argmin", "argsort", "eq", "ne", "gt", "ge",
        "lt", "le", "isnan", "isinf", "isfinite", "long", "int", "bool", "byte", "short", "char", "size", "dim",
        "numel", "nelement", "shape", "dtype", "device", "ndim", "is_cuda", "any", "all", "nonzero", "equal",
        "allclose", "isclose", "logical_and", "logical_or", "logical_not", "count_nonzero", "unique", "ndimension",
        "element_size", "stride", "get_device", "is_contiguous", "multinomial", "bernoulli", "greater", "less",
    }
)  # fmt: skip
_CUT_FUNCTIONS = frozenset(
    {
        "float", "int", "bool", "len", "isinstance", "type", "range", "hasattr", "callable", "id",
    }
)  # fmt: skip
_DIFFERENTIATES = frozenset(
    {
        "backward", "grad_fn", "requires_grad", "requires_grad_", "retain_grad", "register_hook", "is_leaf", "grad",
        "manual_backward",
    }
)  # fmt: skip
_PRINTS = frozenset({"print", "str", "repr", "format", "pprint", "exit"})
_LOGS = frozenset({"info", "debug", "warning", "warn", "error", "critical", "write", "exception", "print", "echo"})
_REPORTS = frozenset({"add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "set_postfix"})
# Methods that put what they are given into their object, and the words by which objects are known that only count.
_COLLECTS = frozenset(
    {
        "append",
        "extend",
        "update",
        "add",
        "add_batch",
        "insert",
        "appendleft",
        "put",
        "push",
        "process",
        "record",
        "log",
    }
)
_COUNTS = frozenset(
    {
        "meter", "meters", "metric", "metrics", "loss", "losses", "acc", "accuracy", "stats", "stat", "tracker",
        "logger", "log", "logs", "history", "writer", "evaluator", "top", "avg", "average", "result", "results", "auc",
        "score", "scores", "confusion", "monitor", "iou", "miou", "dice", "psnr", "ssim", "fid", "recorder", "summary",
    }
)  # fmt: skip
_SHOWS = frozenset(
    {"plot", "show", "save", "log", "print", "display", "write", "draw", "visualize", "visualise", "imshow", "dump"}
)
_NO_TENSORS = ("math.", "numpy.", "sklearn.", "scipy.", "statistics.")
_TRUSTED = ("builtins.", "torch.", "torchvision.", "matplotlib.", "tqdm.", "wandb.")
_HOLDERS = (
    cst.BaseElement,
    cst.BaseDictElement,
    cst.BaseList,
    cst.Tuple,
    cst.Set,
    cst.Dict,
    cst.BaseSimpleComp,
    cst.DictComp,
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_DIFFERENTIATING = ("torch.autograd.", "torch.func.", "functorch.")
_PLAIN_FIELD = re.compile(r"(?<!\{)\{[^{}:]*\}")
_TEXT_FIELD = re.compile(r"%[-#0 +]*[\d.]*[sr]")


class Fate(enum.Enum):
    """What becomes of a tensor at the place where the trail ends."""

    DIFFERENTIATED = "differentiated"
    PRINTED = "printed"
    KEPT = "kept"
    RETURNED = "returned"


@frozen
class Escape:
    """One such place."""

    fate: Fate
    node: cst.CSTNode


def first_of(file: FileFacts, escapes: Iterable[Escape]) -> Escape | None:
    """The first of several places, those of the file itself before those of others."""

    def place(escape: Escape) -> tuple[bool, str, int]:
        source = file.source_of(escape.node)
        return source is not file.source, source.path, source.span(escape.node)[0]

    return min(escapes, key=place, default=None)


class Escapes:
    """Follows tensors of all files."""

    def __init__(
        self, tree: Tree, flow: Flow, names: Names, classes: Classes, values: Values, calls: Calls, handing: Handing
    ) -> None:
        self._facts = (tree, flow, names, classes, values, calls, handing)

    def of(self, sources: Iterable[cst.BaseExpression]) -> list[Escape]:
        """Every place where the values of expressions, or what is computed from them, are noticed or lost."""
        return _Trail(*self._facts).run(list(sources))


class _Trail:
    """One walk. What a function gives back goes on only at the calls by which the walk came into it."""

    def __init__(
        self, tree: Tree, flow: Flow, names: Names, classes: Classes, values: Values, calls: Calls, handing: Handing
    ) -> None:
        self._tree = tree
        self._flow = flow
        self._names = names
        self._classes = classes
        self._values = values
        self._calls = calls
        self._handing = handing
        self._homes: set[cst.FunctionDef | None] = set()
        self._entered: dict[cst.FunctionDef, list[cst.Call]] = {}
        self._left: set[cst.FunctionDef] = set()

    def run(self, sources: Sequence[cst.BaseExpression]) -> list[Escape]:
        found: dict[Escape, None] = {}
        seen: set[cst.CSTNode] = set()
        self._homes = {self._tree.function(source) for source in sources}
        stack: list[cst.CSTNode] = list(sources)
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            for step in self._steps(node):
                if isinstance(step, Escape):
                    found[step] = None
                else:
                    stack.append(step)
        return list(found)

    def _steps(self, node: cst.CSTNode) -> Iterator[cst.CSTNode | Escape]:
        """The expressions that hold the value of `node`, or something with its graph, next."""
        parent = self._tree.parent(node)
        if self._has_no_graph(node) or parent is None:
            return
        if isinstance(parent, cst.Attribute):
            yield from self._attribute(parent)
        elif isinstance(parent, cst.Arg):
            call = self._tree.parent(parent)
            if isinstance(call, cst.Call):
                yield from self._argument(call, parent)
        elif isinstance(parent, cst.BinaryOperation):
            yield from self._operation(parent, node)
        elif isinstance(parent, cst.FormattedStringExpression):
            if parent.conversion is not None or not (parent.format_spec or self._is_scalar(node)):
                yield Escape(Fate.PRINTED, node)
        elif isinstance(parent, cst.Assign):
            for target in parent.targets:
                yield from self._stored(target.target)
        elif isinstance(parent, (cst.AnnAssign, cst.AugAssign)):
            yield from self._stored(parent.target)
        elif isinstance(parent, cst.NamedExpr):
            yield parent
            yield from self._stored(parent.target)
        elif isinstance(parent, (cst.For, cst.CompFor)):
            yield from self._stored(parent.target)
        elif isinstance(parent, cst.Return):
            yield from self._returned(parent)
        elif isinstance(parent, (cst.Yield, cst.From, cst.Lambda)):
            yield Escape(Fate.RETURNED, node)
        elif isinstance(parent, (cst.Subscript, cst.UnaryOperation, cst.IfExp, cst.BooleanOperation, cst.Await)):
            is_test = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
            if not is_test and not (isinstance(parent, cst.IfExp) and parent.test is node):
                yield parent
        elif isinstance(parent, _HOLDERS):
            yield parent

    def _has_no_graph(self, node: cst.CSTNode) -> bool:
        """Whether a value is of integers or truth values, to which no gradient belongs.

        What is known as a number is none for sure: it is here because a tensor was put into it.
        """
        value = self._values.of(node) if isinstance(node, cst.BaseExpression) else UNKNOWN
        return value.is_tensor and value.dtype in (DType.INTEGER, DType.BOOL)

    def _is_scalar(self, node: cst.CSTNode) -> bool:
        """Whether a tensor has no dimensions, so that it is written as its number."""
        return self._values.of(node).rank == 0

    def _attribute(self, node: cst.Attribute) -> Iterator[cst.CSTNode | Escape]:
        name = node.attr.value
        if name in _DIFFERENTIATES:
            if not self._only_detaches(node):
                yield Escape(Fate.DIFFERENTIATED, node)
        elif name not in _CUTS:
            call = self._tree.parent(node)
            yield call if isinstance(call, cst.Call) and call.func is node else node

    def _only_detaches(self, node: cst.Attribute) -> bool:
        """`t.detach().numpy() if t.requires_grad else t.numpy()`: the same either way."""
        choice = self._tree.parent(node)
        if not isinstance(choice, cst.IfExp) or choice.test is not node or node.attr.value != "requires_grad":
            return False
        code = self._tree.code
        return code(choice.body).replace(".detach()", "") == code(choice.orelse)

    def _operation(self, parent: cst.BinaryOperation, node: cst.CSTNode) -> Iterator[cst.CSTNode | Escape]:
        left = parent.left
        if isinstance(parent.operator, cst.Modulo) and self._values.of(left).kind is Kind.TEXT:
            if not isinstance(left, cst.SimpleString) or _TEXT_FIELD.search(left.value):
                yield Escape(Fate.PRINTED, node)
        else:
            yield parent

    # Calls

    def _argument(self, call: cst.Call, arg: cst.Arg) -> Iterator[cst.CSTNode | Escape]:
        name = self._names.qualified(call.func)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if name is not None:
            short = name.rpartition(".")[2]
            if name.startswith(_DIFFERENTIATING):
                yield Escape(Fate.DIFFERENTIATED, arg.value)
            elif short in _PRINTS or name.startswith("logging."):
                yield Escape(Fate.PRINTED, arg.value)
            elif name == "torch.save":
                yield Escape(Fate.KEPT, arg.value)
            elif name.startswith(_NO_TENSORS):
                pass
            elif not name.startswith(_TRUSTED):
                yield from self._unseen(call, arg, short)
            elif not (short in _CUT_FUNCTIONS if name.startswith("builtins.") else short in _CUTS):
                yield call
        elif method in _DIFFERENTIATES:
            # `accelerator.backward(loss)`
            yield Escape(Fate.DIFFERENTIATED, arg.value)
        elif method == "format" and isinstance(call.func, cst.Attribute) and self._is_text(call.func.value):
            text = call.func.value
            if not isinstance(text, cst.SimpleString) or (
                _PLAIN_FIELD.search(text.value) and not self._is_scalar(arg.value)
            ):
                yield Escape(Fate.PRINTED, arg.value)
        elif method in _LOGS:
            yield Escape(Fate.PRINTED, arg.value)
        elif method not in _REPORTS:
            yield from self._handed(call, arg)

    def _is_text(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.BaseString) or self._values.of(node).kind is Kind.TEXT

    def _handed(self, call: cst.Call, arg: cst.Arg) -> Iterator[cst.CSTNode | Escape]:
        """A function of the file is followed into; what is called for its effect may keep what it is given."""
        param = self._handing.parameter(arg)
        if param is not None:
            for scope in (self._tree.scope(param), self._tree.scope(param.name)):
                for definition in self._flow.bound(scope, param.name.value):
                    if definition.node is param:
                        yield from self._flow.uses(definition)
            function = self._tree.function(param.name)
            if function is not None:
                self._entered.setdefault(function, []).append(call)
                if function in self._left:
                    yield call
        else:
            name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
            yield from self._unseen(call, arg, name)

    def _unseen(self, call: cst.Call, arg: cst.Arg, name: str) -> Iterator[cst.CSTNode | Escape]:
        """What a function elsewhere returns may hold the graph; one that is called for its effect may do anything."""
        if not isinstance(self._tree.parent(call), cst.Expr):
            yield call
            return
        holder = call.func.value if isinstance(call.func, cst.Attribute) else None
        if holder is not None and name in _COLLECTS and self._only_collects(holder):
            yield from self._kept(holder)
        elif not _words(name) & (_SHOWS | _COUNTS):
            yield Escape(Fate.KEPT, arg.value)

    def _only_collects(self, holder: cst.BaseExpression) -> bool:
        """Whether an object is a container, or named like something that counts."""
        while isinstance(holder, cst.Subscript):
            holder = holder.value
        known = self._values.of(holder)
        if known.kind in (Kind.SEQUENCE, Kind.OBJECT) and known.name is None:
            return True
        return bool(_words(dotted(holder).rpartition(".")[2]) & _COUNTS)

    def _kept(self, holder: cst.BaseExpression) -> Iterator[cst.CSTNode | Escape]:
        """Every use of what a tensor was put into."""
        while isinstance(holder, (cst.Subscript, cst.Call)):
            holder = holder.value if isinstance(holder, cst.Subscript) else holder.func
        if self._names.qualified(holder) is not None:
            return  # a function of a library
        if not isinstance(holder, cst.Name) or holder.value in self._handing.outer_names:
            yield Escape(Fate.KEPT, holder)
            return
        for definition in self._flow.definitions(holder):
            if isinstance(definition.node, cst.Param):
                yield Escape(Fate.KEPT, holder)
            yield from (use for use in self._flow.uses(definition) if use is not holder)

    # Names and returns

    def _stored(self, target: cst.BaseExpression) -> Iterator[cst.CSTNode | Escape]:
        names = list(target_names(target))
        for name in names:
            if name.value in self._handing.outer_names:
                yield Escape(Fate.KEPT, name)
            for definition in self._flow.defined(name):
                yield from self._flow.uses(definition)
        if isinstance(target, cst.Subscript):
            yield from self._kept(target.value)
        elif isinstance(target, cst.Attribute):
            yield Escape(Fate.KEPT, target)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                if not isinstance(element.value, cst.Name):
                    yield from self._stored(element.value)

    def _returned(self, statement: cst.Return) -> Iterator[cst.CSTNode | Escape]:
        function = self._tree.function(statement)
        if function is None:
            return
        self._left.add(function)
        entered = self._entered.get(function, [])
        yield from entered
        if entered and function not in self._homes:
            return
        callers = self._calls.callers(function)
        is_method = self._classes.of(self._tree.scope(function)) is not None
        if not callers or is_method or not self._calls.is_only_called(function):
            yield Escape(Fate.RETURNED, statement)
        yield from callers


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}
