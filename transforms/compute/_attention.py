"""Attention written by hand: from the softmax back to the product of queries and keys, and on to the values."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import define, field, frozen

from perfmod.transforms.compute._attention_masks import Mask, fill
from perfmod.transforms.compute._attention_numbers import Factor, is_number, is_root
from perfmod.transforms.compute._attention_products import REST, Axes, Other, Product, Stays, permuted, product
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition, Read
from perfmod.transforms.facts.tree import Statement, is_false, is_true
from perfmod.transforms.facts.value import Kind

_SOFTMAX = frozenset({"torch.softmax", "torch.special.softmax", "torch.nn.functional.softmax"})
_CASTS = frozenset({"contiguous", "to", "type", "type_as", "float", "half", "bfloat16"})
_IN_PLACE = frozenset({"masked_fill_", "mul_", "div_", "add_"})
_DEPTH = 12


@frozen
class Softmax:
    """A softmax: its call, its input, its dimension, and the dropout that follows in the same module."""

    call: cst.Call
    subject: cst.BaseExpression
    dim: int
    dropout: str = ""


@define
class Attention:
    """What was found.

    Attributes:
        scores: the product of queries and keys.
        output: that of weights and values, with axes named as in `scores`.
        weights: which factor of it the weights are.
        key: the axis over which the softmax goes.
        factors: what the scores are multiplied with.
        masks: what is added to them or fills them; the last one first.
        dropout: the probability of dropout as it is written for the call; empty without.
        gone: the statements that serve nothing else.
        modules: the attributes of modules that are no longer called.
        described: where the type, device or shape of scores is read.
    """

    scores: Product
    output: Product
    weights: int
    key: str
    factors: list[Factor] = field(factory=list)
    masks: list[Mask] = field(factory=list)
    dropout: str = ""
    gone: list[Statement] = field(factory=list)
    modules: list[cst.BaseExpression] = field(factory=list)
    described: list[Read] = field(factory=list)


def softmax(file: FileFacts, call: cst.Call) -> Softmax | None:
    """The softmax that a call is."""
    name = file.qualified(call)
    if name in _SOFTMAX:
        return _softmax(file, call, argument(call, "input", 0), argument(call, "dim", 1))
    if name is not None:
        return None
    value = file.value(call.func)
    if value.kind is Kind.MODULE and value.call is not None and len(call.args) == 1:
        made, dropout = value.call, ""
        if value.name == "torch.nn.Sequential" and len(made.args) == 2:
            first, second = (arg.value for arg in made.args)
            is_dropout = isinstance(second, cst.Call) and file.qualified(second) == "torch.nn.Dropout"
            if not is_dropout or not isinstance(first, cst.Call):
                return None
            made, dropout = first, _in_training(file, call.func, f"{file.code(call.func)}[1]")
        if file.qualified(made) == "torch.nn.Softmax":
            return _softmax(file, call, call.args[0].value, argument(made, "dim", 0), dropout)
        return None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "softmax":
        return _softmax(file, call, call.func.value, argument(call, "dim", 0))
    return None


def _softmax(
    file: FileFacts,
    call: cst.Call,
    subject: cst.BaseExpression | None,
    dim: cst.BaseExpression | None,
    dropout: str = "",
) -> Softmax | None:
    number = file.constants.value(dim) if dim is not None else None
    return Softmax(call, subject, number, dropout) if subject is not None and isinstance(number, int) else None


def attention(file: FileFacts, found: Softmax) -> Attention:
    """The attention around a softmax.

    Raises:
        Other: there is none.
        Stays: it is computed in a way that one call cannot replace.
    """
    if not _leads_to_product(file, found.subject, 0):
        raise Other
    back, on = _Back(file), _On(file)
    on.follow(found.call)
    if found.dropout:
        on.dropouts.insert(0, found.dropout)
    scores = back.follow(found.subject)
    scores, output, key = _aligned(file, found, scores, on)
    return Attention(
        scores,
        output,
        on.weights,
        key,
        back.factors,
        back.masks,
        _joined(file, on.dropouts, found.call),
        [*back.gone, *on.gone],
        [*on.modules, *([found.call.func] if file.value(found.call.func).kind is Kind.MODULE else [])],
        back.described,
    )


def _joined(file: FileFacts, dropouts: Sequence[str], at: cst.CSTNode) -> str:
    if len(dropouts) > 1:
        raise Stays(f"the weights are dropped out twice, below line {file.line(at)}")
    return dropouts[0] if dropouts else ""


def _aligned(file: FileFacts, found: Softmax, scores: Product, on: _On) -> tuple[Product, Product, str]:
    """Both products with the same names for the same axes, and the axis of the keys."""
    output = on.product
    assert output is not None
    # Axes of the second product get names of their own first.
    output = output.renamed({axis: (f"{axis}'",) for each in output.axes for axis in each if axis != REST})
    given, theirs = scores.result, output.axes[on.weights]
    if REST in given and REST not in theirs:
        names = tuple(f"{axis}" for axis in theirs[:-2])
        scores = scores.renamed({REST: names})
        given = scores.result
    key = _key(file, found, given)
    axes: Axes | None = given
    for call in on.turned:
        axes = permuted(file, call, axes) if axes is not None else None
    if axes is None:
        raise Stays(f"the weights are turned on line {file.line(on.turned[0])} in a way that is not in sight")
    if REST in theirs and REST not in axes:
        output = output.renamed({REST: axes[: len(axes) - len(theirs) + 1]})
        theirs = output.axes[on.weights]
    if len(theirs) != len(axes):
        raise Other
    return scores, output.renamed({old: (new,) for old, new in zip(theirs, axes, strict=True)}), key


def _key(file: FileFacts, found: Softmax, axes: Axes) -> str:
    """The axis that a softmax goes over."""
    rank = len(axes) if REST not in axes else file.value(found.subject).rank
    dim = found.dim
    if rank is not None and dim >= 0 and REST in axes:
        dim -= rank
    if REST in axes and dim == 3:
        dim = -1
    if REST in axes and dim not in (-1, -2):
        raise Stays(
            f"the softmax on line {file.line(found.call)} goes over dimension {found.dim}, which may not be the last"
        )
    return axes[dim]


def _leads_to_product(file: FileFacts, node: cst.BaseExpression | None, depth: int) -> bool:
    """Whether an expression is computed from a product of two tensors, element by element as far as can be seen."""
    if node is None or depth > _DEPTH:
        return False
    if product(file, node) is not None:
        return True
    if isinstance(node, cst.Name):
        found = (each for each in file.flow.definitions(node) if not each.path)
        return any(
            _leads_to_product(file, each.value, depth + 1) for each in found if each.binding is Binding.ASSIGNED
        ) or any(
            _leads_to_product(file, getattr(file.tree.statement(each.node), "target", None), depth + 1)
            for each in file.flow.definitions(node)
            if each.binding is Binding.AUGMENTED
        )
    if isinstance(node, cst.BinaryOperation):
        return any(_leads_to_product(file, side, depth + 1) for side in (node.left, node.right))
    if isinstance(node, cst.Call):
        subject = node.func.value if isinstance(node.func, cst.Attribute) and file.qualified(node) is None else None
        return any(_leads_to_product(file, each, depth + 1) for each in (subject, *(arg.value for arg in node.args)))
    return False


class _Back:
    """From the input of a softmax back to the product of queries and keys."""

    def __init__(self, file: FileFacts) -> None:
        self.file = file
        self.factors: list[Factor] = []
        self.masks: list[Mask] = []
        self.gone: list[Statement] = []
        self.described: list[Read] = []

    def follow(self, node: cst.BaseExpression) -> Product:
        for _ in range(4 * _DEPTH):
            found = product(self.file, node)
            if found is not None:
                return found
            node = self._variable(node) if isinstance(node, cst.Name) else self._step(node, None)
        raise Other

    def _step(self, node: cst.BaseExpression, test: cst.BaseExpression | None) -> cst.BaseExpression:
        """Takes note of an operation on scores, and gives what it is applied to."""
        file = self.file
        if isinstance(node, cst.BinaryOperation):
            return self._arithmetic(node, node.left, node.operator, node.right, test)
        if isinstance(node, cst.Call):
            name = file.qualified(node)
            is_method = name is None and isinstance(node.func, cst.Attribute)
            method = node.func.attr.value if is_method and isinstance(node.func, cst.Attribute) else ""
            short = (name or "").removeprefix("torch.") or method
            subject = (
                node.func.value if is_method and isinstance(node.func, cst.Attribute) else argument(node, "input", 0)
            )
            shift = 0 if is_method else 1
            first = node.args[shift].value if len(node.args) > shift else None
            if subject is not None and short in ("masked_fill", "masked_fill_"):
                return self._filled(
                    node, subject, argument(node, "mask", shift), argument(node, "value", shift + 1), True, test
                )
            if name == "torch.where" and len(node.args) == 3:
                mask, kept, other = (arg.value for arg in node.args)
                if _leads_to_product(file, kept, 0):
                    return self._filled(node, kept, mask, other, False, test)
                return self._filled(node, other, mask, kept, True, test)
            if subject is not None and short in _OPERATORS and first is not None and len(node.args) == shift + 1:
                return self._arithmetic(node, subject, _OPERATORS[short], first, test)
            if method in _CASTS and test is None and subject is not None:
                return subject
        raise Stays(f"`{file.code(node)}` on line {file.line(node)} changes the scores in another way")

    def _arithmetic(
        self,
        node: cst.BaseExpression,
        left: cst.BaseExpression,
        operator: cst.BaseBinaryOp,
        right: cst.BaseExpression,
        test: cst.BaseExpression | None,
    ) -> cst.BaseExpression:
        file = self.file
        is_left = _leads_to_product(file, left, 0)
        scores, other = (left, right) if is_left else (right, left)
        if isinstance(operator, (cst.Multiply, cst.Divide)) and (is_left or isinstance(operator, cst.Multiply)):
            if test is not None:
                raise Stays(f"the scores are scaled on line {file.line(node)} under a condition")
            if not is_number(file, other) and not is_root(file, other):
                raise Stays(
                    f"the scores are scaled by `{file.code(other)}` on line {file.line(node)}, which may be a tensor"
                )
            self.factors.append(Factor(other, isinstance(operator, cst.Divide)))
            return scores
        if isinstance(operator, cst.Add) and not is_number(file, other):
            if self.factors:
                raise Stays(f"what is added to the scores on line {file.line(node)} is scaled with them")
            self.masks.append(Mask(other, None, test=test))
            return scores
        raise Stays(f"`{file.code(node)}` on line {file.line(node)} changes the scores in another way")

    def _filled(
        self,
        node: cst.Call,
        scores: cst.BaseExpression,
        mask: cst.BaseExpression | None,
        value: cst.BaseExpression | None,
        hides: bool,
        test: cst.BaseExpression | None,
    ) -> cst.BaseExpression:
        file = self.file
        is_finite = fill(file, value)
        if is_finite is None or mask is None:
            said = file.code(value) if value is not None else "something else"
            raise Stays(f"masked scores are filled with `{said}` on line {file.line(node)}, which may not hide them")
        self.masks.append(Mask(mask, hides, is_finite, test))
        return scores

    def _variable(self, name: cst.Name) -> cst.BaseExpression:
        file = self.file
        found = file.flow.definitions(name)
        if len(found) == 2:
            return self._under_condition(name, found[0], found[1])
        if len(found) != 1 or found[0].path or found[0].binding not in (Binding.ASSIGNED, Binding.AUGMENTED):
            raise Stays(f"`{name.value}` on line {file.line(name)} may be one of several values")
        (definition,) = found
        for use in reversed(file.flow.uses(definition)):
            if use is not name:
                self._in_place(name, use)
        return self._assigned(definition, None)

    def _in_place(self, name: cst.Name, use: Read) -> None:
        """A statement such as `scores.masked_fill_(mask, value)`."""
        file = self.file
        method = file.tree.parent(use)
        if self._describes(use):
            return
        call = file.tree.parent(method) if isinstance(method, cst.Attribute) else None
        statement = file.tree.parent(call) if isinstance(call, cst.Call) and call.func is method else None
        is_step = isinstance(method, cst.Attribute) and method.attr.value in _IN_PLACE
        if (
            not is_step
            or not isinstance(statement, cst.Expr)
            or not isinstance(call, cst.Call)
            or not file.comes_before(use, name)
        ):
            raise Stays(f"the scores are used again on line {file.line(use)}")
        test = self._condition(statement)
        self._step(call, test)

    def _describes(self, use: Read) -> bool:
        """Whether only the type, device or shape of scores is read; takes note of that."""
        parent = self.file.tree.parent(use)
        if not isinstance(parent, cst.Attribute) or parent.attr.value not in ("dtype", "device", "shape"):
            return False
        self.described.append(use)
        return True

    def _condition(self, statement: Statement) -> cst.BaseExpression | None:
        """The test of an `if` around a statement that stands alone in it; takes note that both go."""
        line = self.file.tree.line(statement)
        body = self.file.tree.parent(line)
        around = self.file.tree.parent(body) if body is not None else None
        is_alone = isinstance(body, cst.IndentedBlock) and len(body.body) == 1
        is_only_branch = isinstance(around, cst.If) and around.orelse is None and around.body is body
        if isinstance(around, cst.If) and is_alone and is_only_branch and not self._is_elif(around):
            self.gone.append(around)
            return around.test
        self.gone.append(statement)
        return None

    def _is_elif(self, node: cst.If) -> bool:
        return isinstance(self.file.tree.parent(node), cst.If)

    def _assigned(self, definition: Definition, test: cst.BaseExpression | None) -> cst.BaseExpression:
        """What a definition gives its variable, and that its statement goes."""
        file = self.file
        statement = file.tree.statement(definition.node)
        if isinstance(statement, cst.AugAssign):
            operator = _AUGMENTED.get(type(statement.operator))
            if operator is None:
                raise Stays(
                    f"`{file.code(statement)}` on line {file.line(statement)} changes the scores in another way"
                )
            test = self._condition(statement) if test is None else test
            return self._arithmetic(statement.target, statement.target, operator, statement.value, test)
        is_plain = isinstance(statement, cst.Assign) and len(statement.targets) == 1
        if not is_plain or definition.value is None:
            raise Stays(f"the scores are assigned in another way on line {file.line(statement)}")
        self.gone.append(statement)
        return definition.value

    def _under_condition(self, name: cst.Name, first: Definition, second: Definition) -> cst.BaseExpression:
        """A mask that is applied by the only statement of an `if`."""
        file = self.file
        statement = file.tree.statement(second.node)
        before = len(self.gone)
        test = self._condition(statement)
        uses = [use for use in file.flow.uses(second) if use is not name]
        others = [use for use in file.flow.uses(first) if use is not name and not self._describes(use)]
        if test is None or uses or first.path or [file.tree.statement(use) for use in others] != [statement]:
            del self.gone[before:]
            raise Stays(f"what the scores are depends on more than one line, {file.line(statement)} among them")
        if isinstance(statement, cst.AugAssign):
            self._assigned(second, test)
        elif second.value is not None and isinstance(statement, cst.Assign):
            inner = self._step(second.value, test)
            if not (isinstance(inner, cst.Name) and file.flow.definitions(inner) == (first,)):
                raise Stays(f"what the scores are depends on more than one line, {file.line(statement)} among them")
        return self._assigned(first, None)


_OPERATORS: dict[str, cst.BaseBinaryOp] = {
    **dict.fromkeys(("mul", "mul_", "multiply"), cst.Multiply()),
    **dict.fromkeys(("div", "div_", "divide"), cst.Divide()),
    **dict.fromkeys(("add", "add_"), cst.Add()),
}
_AUGMENTED: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
    cst.AddAssign: cst.Add(),
}


class _On:
    """From a softmax on to the product of its weights and the values."""

    def __init__(self, file: FileFacts) -> None:
        self.file = file
        self.product: Product | None = None
        self.weights = 0
        self.dropouts: list[str] = []
        self.gone: list[Statement] = []
        self.turned: list[cst.Call] = []
        self.modules: list[cst.BaseExpression] = []

    def follow(self, node: cst.BaseExpression) -> None:
        for _ in range(_DEPTH):
            following = self._next(node)
            if following is None:
                return
            node = following
        raise Other

    def _next(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        file = self.file
        parent = file.tree.parent(node)
        if isinstance(parent, cst.Element):
            parent = file.tree.parent(parent)
            parent = file.tree.parent(parent) if isinstance(parent, (cst.Tuple, cst.List)) else None
        user = file.tree.parent(parent) if isinstance(parent, (cst.Arg, cst.Attribute)) else parent
        found = product(file, user)
        if found is not None and node in found.factors:
            self.product, self.weights = found, found.factors.index(node)
            return None
        if isinstance(parent, cst.Assign) and parent.value is node:
            return self._variable(parent)
        if isinstance(user, cst.Call) and isinstance(parent, cst.Arg) and user.args[0] is parent and self._drops(user):
            return user
        if isinstance(user, cst.Call) and isinstance(parent, cst.Attribute) and user.func is parent:
            if parent.attr.value in _CASTS:
                return user
            if parent.attr.value in ("transpose", "permute", "swapaxes"):
                self.turned.append(user)
                return user
        if isinstance(user, cst.Call) and leads_on(file, user):
            raise Stays(f"`{file.code(user)}` on line {file.line(user)} changes the weights")
        raise Other

    def _drops(self, call: cst.Call) -> bool:
        """Whether a call is dropout, whose probability is then written down."""
        file = self.file
        if file.qualified(call) == "torch.nn.functional.dropout":
            given, training = argument(call, "p", 1), argument(call, "training", 2)
            p = file.code(given) if given is not None else "0.5"
            is_always = training is None or is_true(training)
            if not is_false(training):
                self.dropouts.append(p if is_always or training is None else f"{p} if {file.code(training)} else 0.0")
            return True
        value = file.value(call.func)
        if value.name != "torch.nn.Dropout" or value.kind is not Kind.MODULE:
            return False
        self.modules.append(call.func)
        self.dropouts.append(_in_training(file, call.func, file.code(call.func)))
        return True

    def _variable(self, statement: cst.Assign) -> cst.BaseExpression:
        file = self.file
        target = statement.targets[0].target
        found = file.flow.defined(target)
        if len(statement.targets) != 1 or not isinstance(target, cst.Name) or len(found) != 1:
            if isinstance(target, cst.Attribute):
                raise Stays(f"the weights are kept on line {file.line(statement)}")
            raise Other
        uses = file.flow.uses(found[0])
        if len(uses) != 1:
            if not any(self._is_attention(use) for use in uses):
                raise Other
            others = [use for use in uses if not self._is_attention(use)] or uses[1:]
            raise Stays(f"the weights are used again on line {file.line(others[0])}")
        if file.flow.definitions(uses[0]) != (found[0],):
            raise Stays(f"what the weights are depends on a condition, see line {file.line(uses[0])}")
        self.gone.append(statement)
        return uses[0]

    def _is_attention(self, use: Read) -> bool:
        """Whether something is done with weights that attention does: dropout, or a product."""
        parent = self.file.tree.parent(use)
        user = self.file.tree.parent(parent) if isinstance(parent, (cst.Arg, cst.Attribute)) else parent
        if product(self.file, user) is not None:
            return True
        is_call = isinstance(user, cst.Call) and isinstance(parent, cst.Arg)
        return (
            is_call
            and isinstance(user, cst.Call)
            and "dropout" in f"{self.file.value(user.func).name}{self.file.qualified(user)}".lower()
        )


def _in_training(file: FileFacts, func: cst.BaseExpression, module: str) -> str:
    """The probability of a dropout module, which does nothing in evaluation."""
    own = file.classes.self_attribute(func)
    owner = file.code(func.value) if own is not None and isinstance(func, cst.Attribute) else module
    return f"{module}.p if {owner}.training else 0.0"


def leads_on(file: FileFacts, call: cst.BaseExpression) -> bool:
    """Whether what a call makes of weights is multiplied with something."""
    parent = file.tree.parent(call)
    target = parent.targets[0].target if isinstance(parent, cst.Assign) else None
    found = file.flow.defined(target) if target is not None else ()
    uses: Sequence[cst.CSTNode] = [use for each in found for use in file.flow.uses(each)]
    for use in uses or [call]:
        around = file.tree.parent(use)
        user = file.tree.parent(around) if isinstance(around, (cst.Arg, cst.Attribute)) else around
        if product(file, user) is not None:
            return True
    return False


def without_factor(
    file: FileFacts, query: cst.BaseExpression
) -> tuple[cst.BaseExpression, Factor, Statement | None] | None:
    """Queries that were scaled before the product: what they were, by what, and the statement that did it alone."""
    statement: Statement | None = None
    node = query
    if isinstance(node, cst.Name):
        found = file.flow.definitions(node)
        if len(found) != 1 or found[0].path or len(file.flow.uses(found[0])) != 1 or found[0].value is None:
            return None
        statement = file.tree.statement(found[0].node)
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return None
        node = found[0].value
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, (cst.Multiply, cst.Divide)):
        return None
    divides = isinstance(node.operator, cst.Divide)
    if is_number(file, node.right):
        return node.left, Factor(node.right, divides), statement
    if not divides and is_number(file, node.left):
        return node.right, Factor(node.left), statement
    return None
