"""One index of nonzero and the assignments that read it, rewritten with the mask that it was made of."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from attrs import define, field

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.masks import is_repeatable, is_unchanged
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, DType, Kind
from perfmod.transforms.finding import Edit
from perfmod.transforms.syncs._mask_shapes import shape_objection
from perfmod.transforms.syncs._masked_writes import CannotWrite, Selection, atom, masked_write
from perfmod.transforms.syncs._nonzero import Bound, Form, NonzeroIndex, Write, is_whole
from perfmod.transforms.writing import comments, delete_statement, replace


@define
class MaskForIndex:
    """An index, and what is collected while its assignments are rewritten one by one.

    Attributes:
        index: what is rewritten.
        names: the variables that it is bound to, if there are any.
        gathers: subscripts on right sides that the edits do without.
        statements: the assignments that were rewritten, and the one that makes the index.
    """

    file: FileFacts
    index: NonzeroIndex
    names: Bound | None
    edits: list[Edit] = field(factory=list)
    imports: list[str] = field(factory=list)
    gathers: list[cst.Subscript] = field(factory=list)
    statements: list[cst.Assign | cst.AugAssign] = field(factory=list)
    is_shown: bool = True

    @property
    def doubt(self) -> str:
        """What could not be shown, so that the finding is held back; empty if there is nothing."""
        if not self.is_shown:
            return (
                "right if the condition has the same shape as the tensor it indexes, which a mask needs and "
                "which could not be determined"
            )
        lost = any(
            edit.start <= at < edit.end and text not in edit.replacement
            for edit in self.edits
            for statement in self.statements
            for at, text in comments(self.file.source, statement)
        )
        return "a comment inside the removed code would be lost" if lost else ""

    @property
    def condition(self) -> str:
        """The code of the mask, where it is made of the condition."""
        node, code = self.index.condition, self.file.code(self.index.condition)
        if _is_truth(self.file, node):
            return code
        return f"{atom(node, code)} != 0"

    @property
    def is_inline(self) -> bool:
        """Whether the mask is written where the index is used: it has a name already, or the index has several."""
        if self.names is None or len(self.names.definitions) > 1:
            return True
        return isinstance(self.index.condition, cst.Name) and _is_truth(self.file, self.index.condition)

    def write(self, write: Write) -> None:
        """Put the mask, or a `torch.where`, into one assignment. Raises `CannotWrite`."""
        self._check(write)
        self.statements.append(write.statement)
        mask = self.condition if self.is_inline else self._names[0]
        if isinstance(write.statement, cst.Assign) and _is_number(self.file, write.statement.value):
            if self.is_inline:
                source = self.file.source
                first, last = self._indices(write)
                self.edits.append(Edit(source.span(first)[0], source.span(last)[1], mask, source.path))
            return
        if not self._is_whole(write.target) or self.index.form is Form.ROWS:
            raise CannotWrite("the value is a tensor on the device and is not written to single elements")
        selection = Selection(mask, self._selects, self._has_shape, self._has_shape)
        found = masked_write(self.file, write.statement, write.target, selection)
        self.edits.append(replace(self.file.source, write.statement, found.text))
        self.gathers += found.gathers
        self.imports += found.imports

    def bind(self, names: Bound, found: Sequence[Write]) -> None:
        """Bind the mask instead of the index. Raises `CannotWrite` where anything else reads the index."""
        file, condition = self.file, self.index.condition
        self.statements.append(names.statement)
        covered = [part for write in found for part in write.target.slice]
        covered += [part for gather in self.gathers for part in gather.slice]
        for use in names.uses:
            line = file.line(use)
            if any(definition not in names.definitions for definition in file.flow.definitions(use)):
                raise CannotWrite(f"the index used on line {line} may be a different one")
            if isinstance(file.tree.parent(use), cst.Del) and not self.is_inline:
                continue
            if not any(file.tree.is_within(use, part) for part in covered):
                raise CannotWrite(f"the index is used again on line {line}")
            if self.is_inline and not is_unchanged(file, condition, use, besides=[file.tree.statement(use)]):
                raise CannotWrite(f"`{file.code(condition)}` is changed before the index is used on line {line}")
        if self.is_inline:
            if not (isinstance(condition, cst.Name) or (len(found) == 1 and is_repeatable(file, condition))):
                raise CannotWrite(
                    "the coordinates are unpacked into several variables, and the mask would have to be repeated"
                )
            self.edits += delete_statement(file.source, names.statement)
            return
        if not (_is_computed(condition) or file.aliasing.is_fresh(condition) or self.condition.endswith("!= 0")):
            raise CannotWrite(f"`{file.code(condition)}` may be changed before the index is used")
        mask = f"({self.condition})" if "\n" in self.condition else self.condition
        self.edits.append(replace(file.source, self.index.node, mask))
        if names.is_unpacked:
            start, end = file.source.span(names.target)
            if names.target.lpar:
                start, end = file.source.span(names.target.lpar[0])[0], file.source.span(names.target.rpar[-1])[1]
            self.edits.append(Edit(start, end, self._names[0], file.source.path))

    def _check(self, write: Write) -> None:
        """Raises `CannotWrite` where the mask would select other elements of the target than the index."""
        file, condition, form = self.file, self.index.condition, self.index.form
        target = file.value(write.target.value)
        on_device = file.value(condition).device is Device.ACCELERATOR
        if not target.is_tensor and not (target.kind is Kind.UNKNOWN and on_device):
            raise CannotWrite(f"`{file.code(write.target.value)}` is not known to be a tensor")
        objection = shape_objection(file, condition, write.target.value)
        if objection:
            raise CannotWrite(objection)
        is_same = self._has_shape(write.target.value)
        self.is_shown &= is_same
        is_only_one = self.names is not None and self.names.is_unpacked and len(self.names.definitions) == 1
        rank = 1 if is_only_one else file.value(condition).rank
        rank = target.rank if rank is None and is_same else rank
        if rank == 0:
            raise CannotWrite("the condition is 0-dimensional, and nonzero treats it as a tensor of one element")
        if form is Form.COORDINATES and not is_only_one:
            if not self._is_whole(write.target):
                raise CannotWrite("only part of the index is used, or it is combined with other indices")
            return
        if not self._stands_alone(write.target):
            raise CannotWrite("it is combined with another index")
        if rank != 1:
            raise CannotWrite(f"the index holds {form.value}, and the condition is not known to be one-dimensional")

    @property
    def _names(self) -> list[str]:
        return [definition.name for definition in self.names.definitions] if self.names is not None else []

    def _indices(self, write: Write) -> tuple[cst.CSTNode, cst.CSTNode]:
        """The first and the last part of a subscript that stand for the index."""
        held = [
            part.slice
            for part in write.target.slice
            if self.file.code(part.slice) in (*self._names, self.file.code(self.index.node))
        ]
        return (held[0], held[-1]) if held else (self.index.node, self.index.node)

    def _is_whole(self, node: cst.Subscript) -> bool:
        return len(node.slice) == 1 if self.names is None else is_whole(node, self._names)

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


def _is_computed(node: cst.BaseExpression) -> bool:
    """Whether an operator makes a new tensor."""
    return isinstance(node, (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation))


def _is_truth(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a tensor is boolean: by its type, or because it was compared with something."""
    if isinstance(node, cst.Comparison):
        return len(node.comparisons) == 1
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        return _is_truth(file, node.expression)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.BitAnd, cst.BitOr)):
        return _is_truth(file, node.left) and _is_truth(file, node.right)
    return file.value(node).dtype is DType.BOOL


def _is_number(file: FileFacts, node: cst.BaseExpression) -> bool:
    """Whether a value is a number or a scalar of the host, which fill in without waiting, or may be one.

    Nothing depends on it: under a mask, a tensor is written as it is under the index.
    """
    value = file.value(node)
    if value.is_tensor:
        return value.rank == 0 and value.device is Device.CPU
    may_be = value.kind is Kind.UNKNOWN and isinstance(node, (cst.Name, cst.Attribute))
    return value.kind is Kind.NUMBER or may_be
