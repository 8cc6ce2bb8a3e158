"""One index of nonzero and the assignments that read it, rewritten with the mask that it was made of."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Binding, Definition
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.rule import Edit, Numerics
from perfmod.transforms.syncs._mask_shapes import least_rank, shape_objection
from perfmod.transforms.syncs._masked_writes import CannotWrite, Selection, atom, masked_write
from perfmod.transforms.syncs._nonzero import Bound, Form, NonzeroIndex, Write, is_whole
from perfmod.transforms.syncs._own_sizes import own_size
from perfmod.transforms.writing import comments, replace

_CONDITIONS = (
    cst.Name,
    cst.Attribute,
    cst.Subscript,
    cst.Call,
    cst.Comparison,
    cst.UnaryOperation,
    cst.BinaryOperation,
)


@define
class MaskForIndex:
    """An index, and what is collected while its assignments are rewritten one by one.

    Attributes:
        index: what is rewritten.
        names: the variables that it is bound to, if there are any.
        condition: the code of the mask, to be written where the index was made.
        gathers: subscripts on right sides that the edits do without.
        doubts: what could not be shown of single assignments.
        statements: the assignments that were rewritten, and the one that makes the index.
    """

    file: FileFacts
    index: NonzeroIndex
    names: Bound | None
    condition: str
    edits: list[Edit] = field(factory=list)
    numerics: Numerics = Numerics.BITWISE
    imports: list[str] = field(factory=list)
    gathers: list[cst.Subscript] = field(factory=list)
    doubts: list[str] = field(factory=list)
    statements: list[cst.Assign | cst.AugAssign] = field(factory=list)

    @property
    def mask(self) -> str:
        """How the mask is written where the index is used."""
        if self.names is None:
            return self.condition
        if len(self.names.definitions) == 1:
            return self.names.definitions[0].name
        taken = {name.value for name in find_all(self.file.source.module, cst.Name)}
        name = "_".join([*(definition.name for definition in self.names.definitions), "mask"])
        return next(free for free in (name, *(f"{name}_{n}" for n in range(len(taken)))) if free not in taken)

    @property
    def doubt(self) -> str:
        """What could not be shown, so that the finding is held back; empty if there is nothing."""
        lost = {
            "a comment inside the code that goes would be lost"
            for edit in self.edits
            for statement in self.statements
            for at, text in comments(self.file.source, statement)
            if edit.start <= at < edit.end and text not in edit.replacement
        }
        return "; ".join(dict.fromkeys([*self.doubts, *lost]))

    def check(self, write: Write) -> None:
        """Raises `CannotWrite` where the mask would select other elements of the target than the index."""
        target, condition, form = self.file.value(write.target.value), self.index.condition, self.index.form
        on_device = self.file.value(condition).device is Device.ACCELERATOR
        if not target.is_tensor and not (target.kind is Kind.UNKNOWN and on_device):
            raise CannotWrite(f"`{self.file.code(write.target.value)}` is not shown to be a tensor")
        objection = shape_objection(self.file, condition, write.target.value)
        if objection is not None:
            raise CannotWrite(objection)
        made = own_size(self.file, write.target.value, condition)
        if made is not None:
            code, line = self.file.code(write.target.value), self.file.line(made)
            self.doubts.append(f"`{code}` has a size of its own (line {line}), and the mask is not shown to have it")
        rank = 1 if self._is_only_one() else self.file.value(condition).rank
        if rank is None and self.file.shapes.same(condition, write.target.value):
            rank = target.rank
        if rank == 0:
            raise CannotWrite("the condition has no dimension, and nonzero takes it for one element of one")
        if form is Form.COORDINATES and not self._is_only_one():
            if not self._is_whole(write.target):
                raise CannotWrite("only a part of the index is used, or other indices stand beside it")
            return
        if not self._stands_alone(write.target):
            raise CannotWrite("another index stands beside it")
        held = f"the index holds {form.value}, and the condition"
        if rank is None and least_rank(self.file, condition) > 1:
            raise CannotWrite(f"{held} has several dimensions")
        if rank is None:
            reads_target = form is Form.FIRST and _reads(self.file, condition, write.target.value)
            if form in (Form.ROWS, Form.COLUMN) or reads_target:
                raise CannotWrite(f"{held} is not shown to have one dimension")
            self.doubts.append(f"{held} is not shown to have one dimension")
        elif rank > 1:
            raise CannotWrite(f"{held} has {rank} dimensions")

    def write(self, write: Write) -> None:
        """Put the mask, or a `torch.where`, into one assignment. Raises `CannotWrite`."""
        source = self.file.source
        self.statements.append(write.statement)
        if isinstance(write.statement, cst.Assign) and _is_number(self.file, write.statement.value):
            if self.names is None:
                self.edits.append(replace(source, self.index.node, self.condition))
            elif len(self.names.definitions) > 1:
                first, last = write.target.slice[0], write.target.slice[-1].slice
                self.edits.append(Edit(source.span(first)[0], source.span(last)[1], self.mask))
            return
        if not self._is_whole(write.target) or self.index.form is Form.ROWS:
            raise CannotWrite("the value comes from the device and is not written to single elements")
        selection = Selection(self.mask, self._selects, self._has_shape, self._has_shape)
        found = masked_write(self.file, write.statement, write.target, selection)
        self.edits.append(replace(source, write.statement, found.text))
        self.gathers += found.gathers
        self.imports += found.imports
        self.numerics = self.numerics if found.numerics is Numerics.BITWISE else found.numerics

    def bind(self, names: Bound, found: Sequence[Write]) -> None:
        """Bind the mask instead of the index. Raises `CannotWrite` where anything else reads the index."""
        self.statements.append(names.statement)
        covered = [part for write in found for part in write.target.slice]
        covered += [part for gather in self.gathers for part in gather.slice]
        for use in names.uses:
            line = self.file.line(use)
            if any(definition not in names.definitions for definition in self.file.flow.definitions(use)):
                raise CannotWrite(f"the index that is used on line {line} may be another one")
            if isinstance(self.file.tree.parent(use), cst.Del) and not names.is_unpacked:
                continue
            if not any(self.file.tree.is_within(use, part) for part in covered):
                raise CannotWrite(f"the index is used again on line {line}")
        mask = f"({self.condition})" if "\n" in self.condition else self.condition
        self.edits.append(replace(self.file.source, self.index.node, mask))
        if names.is_unpacked:
            self.edits.append(Edit(*_span_with_parentheses(self.file, names.target), self.mask))

    def _is_only_one(self) -> bool:
        """Whether the index was unpacked into a single variable, as only that of one dimension can be."""
        return self.names is not None and self.names.is_unpacked and len(self.names.definitions) == 1

    def _is_whole(self, node: cst.Subscript) -> bool:
        if self.names is None:
            return len(node.slice) == 1
        return is_whole(node, [definition.name for definition in self.names.definitions])

    def _stands_alone(self, node: cst.Subscript) -> bool:
        """Whether everything beside the index in a subscript is a slice or an integer."""
        indices = [element.slice.value for element in node.slice if isinstance(element.slice, cst.Index)]
        return sum(not self._is_basic(index) for index in indices) == 1

    def _is_basic(self, index: cst.BaseExpression) -> bool:
        value = self.file.value(index)
        return isinstance(index, cst.Ellipsis) or (value.kind is Kind.NUMBER and value.dtype is DType.INTEGER)

    def _selects(self, node: cst.Subscript) -> bool:
        if self.names is None or not self._is_whole(node):
            return False
        reads = [self.file.flow.definitions(name) for element in node.slice for name in find_all(element, cst.Name)]
        return reads == [(definition,) for definition in self.names.definitions]

    def _has_shape(self, node: cst.BaseExpression) -> bool:
        return self.file.shapes.same(self.index.condition, node)


def _reads(file: FileFacts, condition: cst.BaseExpression, target: cst.BaseExpression) -> bool:
    """Whether a condition is computed from the tensor that it indexes."""
    code = file.code(target)
    found = [node for node in find_all(condition, type(target)) if file.code(node) == code]
    if not isinstance(target, cst.Name):
        return bool(found)
    seen = [file.flow.definitions(node) for node in found if isinstance(node, cst.Name)]
    return file.flow.definitions(target) in seen


def mask_of(file: FileFacts, condition: cst.BaseExpression, *, is_named: bool) -> str:
    """The code of a boolean tensor that stays true where `condition` is true now.

    `is_named` says that a variable holds it until the assignments: other code may write to it before.

    Raises:
        CannotWrite: the condition is no expression that can be written so.
    """
    code = file.code(condition)
    if not isinstance(condition, _CONDITIONS):
        raise CannotWrite("the condition is no plain expression")
    if not _is_truth(file, condition):
        return f"{atom(condition, code)} != 0"
    return f"{atom(condition, code)}.clone()" if is_named and _may_change(file, condition, frozenset()) else code


def _is_truth(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a tensor is boolean: by its type, or because it was compared with something."""
    if isinstance(node, cst.Comparison):
        return len(node.comparisons) == 1
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        return _is_truth(file, node.expression)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.BitAnd, cst.BitOr)):
        return _is_truth(file, node.left) and _is_truth(file, node.right)
    return file.value(node).dtype is DType.BOOL


def _may_change(file: FileFacts, node: cst.CSTNode, seen: frozenset[Definition]) -> bool:
    """Whether an expression gives a tensor that is an attribute, written to or handed on, or a view of one."""
    if file.aliasing.is_fresh(node):
        return False
    if isinstance(node, cst.Name):
        definitions = [d for d in file.flow.definitions(node) if d not in seen and d.binding is Binding.ASSIGNED]
        uses = (use for d in file.flow.definitions(node) for use in file.flow.uses(d))
        return (
            file.aliasing.is_mutated(node)
            or any(file.aliasing.hands_on(use) for use in uses if not isinstance(file.tree.statement(use), cst.Return))
            or any(_may_change(file, d.value, seen | {d}) for d in definitions if d.value is not None)
        )
    if isinstance(node, cst.Attribute):
        return True
    if isinstance(node, cst.Subscript):
        return _may_change(file, node.value, seen)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return file.value(node.func.value).is_tensor and _may_change(file, node.func.value, seen)
    return False


def _is_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is a number or a scalar of the host, which fill in without waiting, or may be one.

    Nothing depends on it: under a mask, a tensor is written as it is under the index.
    """
    value = file.value(node)
    if value.is_tensor:
        return value.rank == 0 and value.device is Device.CPU
    may_be = value.kind is Kind.UNKNOWN and isinstance(node, (cst.Name, cst.Attribute))
    return value.kind is Kind.NUMBER or may_be


def _span_with_parentheses(file: FileFacts, node: cst.BaseAssignTargetExpression) -> tuple[int, int]:
    start, end = file.source.span(node)
    if node.lpar:
        start, end = file.source.span(node.lpar[0])[0], file.source.span(node.rpar[-1])[1]
    return start, end
