"""Classes such as `AverageMeter`, which keep the last figure, its sum, its weight and its mean.

`understood` says what the fields of such a class are, or why it is another kind of class.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.classes import ClassFacts
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import parameters
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.syncs._host_reads import CannotRewrite

# Methods that see or change attributes behind the back of properties.
_ATTRIBUTE_MAGIC = frozenset(
    {
        "__slots__", "__getattr__", "__getattribute__", "__setattr__", "__delattr__", "__getstate__", "__setstate__",
        "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__init_subclass__",
    }
)  # fmt: skip
SHOWS = frozenset({"builtins.str", "builtins.repr", "builtins.print", "builtins.format"})
"""Functions that turn a meter into text at once."""

Start = cst.Assign | cst.AnnAssign


@define(eq=False)
class Meter:
    """What a meter class does with the figures that its `update` is given.

    Attributes:
        cls: the class.
        update: the method that is given the figures.
        value: its parameter for the figure.
        weight: its parameter for the figure's weight, if it has one.
        latest: fields that hold the last figure.
        sums: fields that add figures up.
        counts: fields that add weights up.
        means: fields that hold a sum divided by a count, with the statement that divides.
        renewed: for every mean, the statements of other methods that compute it anew.
        starts: for every field, the statements that set it to a constant.
    """

    cls: ClassFacts
    update: cst.FunctionDef
    value: cst.Param
    weight: cst.Param | None
    latest: list[str] = field(factory=list)
    sums: list[str] = field(factory=list)
    counts: list[str] = field(factory=list)
    means: dict[str, cst.Assign] = field(factory=dict)
    renewed: dict[str, list[cst.Assign]] = field(factory=dict)
    starts: dict[str, list[Start]] = field(factory=dict)

    @property
    def figures(self) -> list[str]:
        """The fields that come from figures: the last ones, their sums, their means."""
        return [*self.latest, *self.sums, *self.means]


def is_stored(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether an expression is written, deleted or unpacked into, by whatever statement."""
    child = node
    for parent in file.tree.ancestors(node):
        if isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.Del)):
            return parent.target is child
        if isinstance(parent, cst.AsName):
            return True
        if not isinstance(parent, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
            return False
        child = parent
    return False


def understood(file: FileFacts, cls: ClassFacts) -> Meter:
    """How a class keeps its figures.

    Raises:
        CannotRewrite: it does more with them than keep the last one and add them up, or it is no plain class.
    """
    _require_plain(file, cls)
    update = cls.methods.get("update")
    if update is None or update.decorators or isinstance(update.body, cst.SimpleStatementSuite):
        raise CannotRewrite(f"`{cls.name}` has no plain method `update`")
    _, *given = parameters(update)
    if not 1 <= len(given) <= 2 or any(param.star in ("*", "**") for param in given):
        raise CannotRewrite(f"`{cls.name}.update` takes other things than a figure and its weight")
    meter = Meter(cls, update, given[0], given[1] if len(given) == 2 else None)
    for part in update.body.body:
        for statement in part.body if isinstance(part, cst.SimpleStatementLine) else (part,):
            _read_update(file, meter, statement)
    for mean, division in meter.means.items():
        line = file.tree.line(division)
        if not (isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1):
            raise CannotRewrite(f"`{mean}` is set in an unusual way on line {file.line(division)}")
    _read_starts(file, meter)
    for node in find_all(cls.node, cst.Attribute):
        if own_field(file, cls, node) == "update":
            raise CannotRewrite(f"`{cls.name}` calls its own `update` on line {file.line(node)}")
    taken = {node.attr.value for node in find_all(cls.node, cst.Attribute)} | set(cls.methods) | set(cls.assigned)
    for name in (*meter.latest, *meter.sums):
        if f"_{name}" in taken:
            raise CannotRewrite(f"`{cls.name}` uses the name `_{name}` already")
    if not meter.sums and not meter.latest:
        raise CannotRewrite(f"`{cls.name}.update` keeps nothing of the figure")
    return meter


def _require_plain(file: FileFacts, cls: ClassFacts) -> None:
    name, source = cls.name, file.source
    if cls.node.decorators:
        raise CannotRewrite(f"a decorator changes `{name}` (line {source.line(cls.node.decorators[0])})")
    if cls.parents or cls.node.keywords or any(base != "builtins.object" for base in cls.bases):
        raise CannotRewrite(f"`{name}` inherits from other classes, which may use what it keeps")
    if len(cls.bases) < len(cls.node.bases):
        raise CannotRewrite(f"what `{name}` inherits from could not be shown")
    for other in file.classes:
        if cls in other.parents:
            raise CannotRewrite(f"`{other.name}` inherits from `{name}` on line {file.line(other.node)}")
    for method in cls.methods:
        replaced = file.classes.replaced(method)
        if replaced is not None:
            raise CannotRewrite(f"`{method}` is replaced on line {file.line(replaced)}")
    for statement in cls.node.body.body:
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,):
            is_text = isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)
            if not (isinstance(small, (cst.FunctionDef, cst.Pass)) or is_text):
                raise CannotRewrite(f"`{name}` has more than methods (line {source.line(small)})")
    for magic in _ATTRIBUTE_MAGIC & set(cls.methods):
        raise CannotRewrite(f"`{name}.{magic}` sees how the figures are kept (line {source.line(cls.methods[magic])})")


def own_field(file: FileFacts, cls: ClassFacts, node: cst.CSTNode) -> str | None:
    """`sum` of `self.sum` in a method of the class itself."""
    found = file.classes.self_attribute(node)
    return found[1] if found is not None and found[0] is cls else None


def _read_update(file: FileFacts, meter: Meter, statement: cst.CSTNode) -> None:
    """Sort one statement of `update` by what it does."""
    if isinstance(statement, cst.Pass) or (
        isinstance(statement, cst.Expr) and isinstance(statement.value, cst.BaseString)
    ):
        return
    target, added = _update_of(file, meter.cls, statement)
    if target is not None and target not in (*meter.figures, *meter.counts):
        if added is not None:
            product = isinstance(added, cst.BinaryOperation) and isinstance(added.operator, cst.Multiply)
            factors = [added.left, added.right] if isinstance(added, cst.BinaryOperation) and product else [added]
            weights = [factor for factor in factors if _is(factor, meter.weight)]
            if len(weights) < 2 and len(weights) == len(factors) - 1 and any(_is(f, meter.value) for f in factors):
                meter.sums.append(target)
                return
            if weights == [added] or (isinstance(added, cst.Integer) and added.evaluated_value > 0):
                meter.counts.append(target)
                return
        elif isinstance(statement, cst.Assign):
            if _is(statement.value, meter.value):
                meter.latest.append(target)
                return
            if _is_mean(file, meter, statement.value):
                meter.means[target] = statement
                return
    line = file.line(statement)
    raise CannotRewrite(f"`{meter.cls.name}.update` does more than keep the figure and add it up (line {line})")


def _update_of(
    file: FileFacts, cls: ClassFacts, statement: cst.CSTNode
) -> tuple[str | None, cst.BaseExpression | None]:
    """The field that a statement sets, and what is added to it where it is a sum."""
    if isinstance(statement, cst.AugAssign) and isinstance(statement.operator, cst.AddAssign):
        return own_field(file, cls, statement.target), statement.value
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = own_field(file, cls, statement.targets[0].target)
        value = statement.value
        if (
            isinstance(value, cst.BinaryOperation)
            and isinstance(value.operator, cst.Add)
            and own_field(file, cls, value.left) == target
        ):
            return target, value.right
        return target, None
    return None, None


def _is(node: cst.BaseExpression, param: cst.Param | None) -> bool:
    return param is not None and isinstance(node, cst.Name) and node.value == param.name.value


def _is_mean(file: FileFacts, meter: Meter, node: cst.BaseExpression) -> bool:
    """Whether an expression is `self.sum / self.count` of what the statements above have set.

    It may stand in a choice that asks for a count of zero and has a number for it.
    """
    division = quotient(node)
    return (
        division is not None
        and own_field(file, meter.cls, division.left) in meter.sums
        and own_field(file, meter.cls, division.right) in meter.counts
        and (division is node or _asks_for(file, cst.ensure_type(node, cst.IfExp), division.right))
    )


def quotient(node: cst.BaseExpression) -> cst.BinaryOperation | None:
    """The division that a mean is, by itself or as `a / b if b != 0 else 0`."""
    division = node.body if isinstance(node, cst.IfExp) else node
    is_division = isinstance(division, cst.BinaryOperation) and isinstance(division.operator, cst.Divide)
    return division if is_division and isinstance(division, cst.BinaryOperation) else None


def _asks_for(file: FileFacts, choice: cst.IfExp, count: cst.BaseExpression) -> bool:
    """Whether a choice has a number where the count is zero: `... if self.count > 0 else 0`."""
    test = choice.test
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        (comparison,) = test.comparisons
        is_known = (
            isinstance(comparison.operator, (cst.NotEqual, cst.GreaterThan)) and _number(comparison.comparator) == 0
        )
        test = test.left if is_known else test
    return file.code(test) == file.code(count) and _number(choice.orelse) is not None


def _read_starts(file: FileFacts, meter: Meter) -> None:
    """Find what sets the fields to constants, and require that nothing else sets them."""
    source, cls = file.source, meter.cls
    fields = {*meter.figures, *meter.counts}
    by_method: dict[cst.FunctionDef, set[str]] = {}
    for node in find_all(cls.node, cst.Attribute):
        name, method = own_field(file, cls, node), file.tree.function(node)
        if name is None or name not in fields or method is meter.update or not is_stored(file, node):
            continue
        statement = file.tree.statement(node)
        is_start = (
            isinstance(statement, (cst.Assign, cst.AnnAssign))
            and isinstance(statement.value, (cst.Integer, cst.Float))
            and method is not None
            and file.tree.line(statement) in method.body.body
            and isinstance(file.tree.parent(node), (cst.AssignTarget, cst.AnnAssign))
        )
        if method is not None and method.name.value != "__init__" and _sets_number(file, meter, name, statement):
            if name in meter.means:
                meter.renewed.setdefault(name, []).append(cst.ensure_type(statement, cst.Assign))
            by_method.setdefault(method, set()).add(name)
            continue
        if not is_start or method is None:
            where = method.name.value if method is not None else cls.name
            raise CannotRewrite(f"`{where}` sets `{name}` on line {source.line(node)} to what is no constant")
        assert isinstance(statement, (cst.Assign, cst.AnnAssign))
        meter.starts.setdefault(name, []).append(statement)
        by_method.setdefault(method, set()).add(name)
    together = {*meter.sums, *meter.counts, *meter.means}
    for method, names in by_method.items():
        if meter.means and names & together and not together <= names:
            missing = ", ".join(f"`{name}`" for name in sorted(together - names))
            raise CannotRewrite(f"`{cls.name}.{method.name.value}` leaves {missing} as before")
    for name in fields:
        values = [start.value for start in meter.starts.get(name, ())]
        codes = {source.code(value) for value in values if value is not None}
        if not codes:
            raise CannotRewrite(f"where `{name}` of `{cls.name}` starts could not be shown")
        if name in meter.means and len(codes | _without_count(file, meter.means[name])) > 1:
            raise CannotRewrite(f"`{name}` of `{cls.name}` starts in different ways")
        if name in meter.counts and any(_number(value) != 0 for value in values):
            raise CannotRewrite(f"`{name}` of `{cls.name}` does not start at zero")


def _without_count(file: FileFacts, mean: cst.Assign) -> set[str]:
    """The number that a mean is where the count is zero, if it says so itself."""
    return {file.source_of(mean).code(mean.value.orelse)} if isinstance(mean.value, cst.IfExp) else set()


def _sets_number(file: FileFacts, meter: Meter, name: str, statement: cst.CSTNode) -> bool:
    """Whether a statement sets a field to a number that is computed: `self.sum, self.count = total.tolist()`."""
    if not isinstance(statement, cst.Assign) or isinstance(statement.value, (cst.Integer, cst.Float)):
        return False
    line = file.tree.line(statement)
    if name in meter.means:
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == len(statement.targets) == 1
        return alone and _is_mean(file, meter, statement.value)
    value = statement.value
    if isinstance(value, cst.Subscript):
        # `t = t.tolist()`, `self.total = t[1]`
        value = value.value
    made = [value]
    if isinstance(value, cst.Name):
        made = [definition.part or value for definition in file.flow.definitions(value)]
    return all(_is_read(part) or file.value(part).kind is Kind.NUMBER for part in made)


def _is_read(node: cst.BaseExpression) -> bool:
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    return isinstance(func, cst.Attribute) and func.attr.value in ("tolist", "item")


def _number(node: cst.BaseExpression | None) -> float | None:
    return node.evaluated_value if isinstance(node, (cst.Integer, cst.Float)) else None


def whole_uses(file: FileFacts, method: cst.FunctionDef) -> Iterator[cst.Name]:
    """The uses of `self` in a method that are no access to one of its attributes."""
    own = next(parameters(method), None)
    for node in find_all(method.body, cst.Name):
        if own is not None and node.value == own.name.value and file.flow.is_read(node):
            parent = file.tree.parent(node)
            if not isinstance(parent, cst.Attribute) or parent.attr.value == "__dict__":
                yield node


def reading_methods(file: FileFacts, meter: Meter) -> set[str]:
    """The methods and properties that read a figure, themselves or through others."""
    reading = set(meter.figures)
    before: set[str] = set()
    while reading != before:
        before = set(reading)
        for name, method in meter.cls.methods.items():
            fields = (node for node in find_all(method.body, cst.Attribute) if not is_stored(file, node))
            if method is not meter.update and (
                any(own_field(file, meter.cls, node) in reading for node in fields)
                or next(whole_uses(file, method), None) is not None
            ):
                reading.add(name)
    return reading
