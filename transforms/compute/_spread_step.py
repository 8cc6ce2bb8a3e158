"""A training step on a part of each batch: its loss is a mean over samples, and nothing else comes out of it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.compute._spread_parts import Parts
from perfmod.transforms.compute._spread_program import NotSpread
from perfmod.transforms.compute._spread_samples import Samples
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, find_in_scope, walk


class Step:
    """A loop's body as several processes would run it.

    Attributes:
        backward: the statement of the backward pass.
        loss: the name of what it differentiates.
        is_shown: whether that is read behind it, for a report.
        figures: what is counted or averaged over the samples of a part, and whether it is a `sum` or a `mean`.
        doubts: sides of losses and comparisons that may have another shape than the other side.
        sizes: numbers of samples, of which all processes together have that many times more.
    """

    def __init__(self, file: FileFacts, found: Parts) -> None:
        self._file = file
        self._loop = found.loop
        names = {node.value for node in _batch(found.loop) if isinstance(node, cst.Name)}
        self._samples = Samples(file, found.call, names)
        self._taken = {id(node) for node in walk(found.loop.target)}
        self.backward, self.loss = self._find_backward()
        for _ in range(2):  # what one round makes, the next may read
            self.figures: dict[cst.Call, str] = {}
            self.sizes: list[cst.BaseExpression] = []
            is_behind = False
            for line in _statements(found.loop.body):
                self._read(line, is_behind=is_behind)
                is_behind = is_behind or line is self.backward
        self.doubts = [*self._samples.doubts.values()]
        self.is_shown = any(self._loss_reads())
        self._require_batch_size_unread(found)
        self._require_unread_outside()

    def _find_backward(self) -> tuple[cst.Expr, str]:
        for line in _statements(self._loop.body):
            call = line.value if isinstance(line, cst.Expr) else None
            func = call.func if isinstance(call, cst.Call) and not call.args else None
            is_plain = isinstance(func, cst.Attribute) and func.attr.value == "backward"
            owner = func.value if is_plain and isinstance(func, cst.Attribute) else None
            if isinstance(line, cst.Expr) and isinstance(owner, cst.Name):
                return line, owner.value
        raise NotSpread(self._loop, "no plain `loss.backward()` stands in every round of the loop")

    def _read(self, line: cst.CSTNode, *, is_behind: bool) -> None:
        """Take in the next statement. Raises `NotSpread`."""
        if line is self.backward:
            if self.loss not in self._samples.means:
                raise NotSpread(line, f"`{self.loss}` is not seen to be a mean over the samples of the batch")
            return
        if self._is_figure(line, is_behind=is_behind):
            return
        if isinstance(line, cst.Assign) and len(line.targets) == 1:
            names = [n.value for n in walk(line.targets[0].target) if isinstance(n, cst.Name)]
            is_plain = all(isinstance(n, (cst.Name, cst.Tuple, cst.Element)) for n in walk(line.targets[0].target))
            if is_plain and not is_behind and self._samples.is_mean(line.value):
                self._samples.means.update(names)
                self._samples.names.difference_update(names)
                return
            if is_plain and self._samples.are(line.value) and not (is_behind and self.loss in names):
                self._samples.names.update(names)
                return
            if self.loss in names and not is_behind:
                raise NotSpread(line, f"`{self.loss}` is not seen to be a mean over the samples of the batch")
        if isinstance(line, cst.AugAssign) and not is_behind and self._samples.are_in(line.target):
            raise NotSpread(line, f"`{self._file.code(line.target)}` is changed in place before the backward pass")
        wrong = self._samples.names | (self._samples.means - {self.loss} if is_behind else self._samples.means)
        shown = [n for call in find_all(line, cst.Call) if self._file.qualified(call) == "builtins.print"
                 for n in walk(call) if isinstance(n, cst.BaseExpression) and self._samples.is_size(n)]  # fmt: skip
        self.sizes += shown
        for node in find_all(line, cst.Name):
            is_size = any(self._file.tree.is_within(node, each) for each in shown)
            if node.value in wrong and self._file.flow.is_read(node) and not is_size:
                raise NotSpread(node, f"`{node.value}` would be only a process's own part of the batch here")
        if isinstance(line, cst.If) or not isinstance(line, cst.BaseSmallStatement):
            steps = [c for c in find_all(line, cst.Call) if dotted(c.func).endswith((".step", ".zero_grad"))]
            if steps:
                raise NotSpread(steps[0], "gradients of several rounds are added up")
        for call in find_all(line, cst.Call):
            if dotted(call.func).endswith("scheduler.step") and call.args:
                raise NotSpread(call, "the learning rate follows a figure, which may differ in its last digits")

    def _is_figure(self, line: cst.CSTNode, *, is_behind: bool) -> bool:
        """Whether a statement counts or averages something over samples, which the processes can do together."""
        if isinstance(line, cst.AugAssign):
            target, is_sum = line.target, isinstance(line.operator, cst.AddAssign)
        elif isinstance(line, cst.Assign) and len(line.targets) == 1 and is_behind:
            target, is_sum = line.targets[0].target, True
        else:
            return False
        if not isinstance(target, cst.Name) or self._samples.are_in(target) or not is_sum:
            return False
        value = line.value
        func = value.func if isinstance(value, cst.Call) and not value.args else None
        inner = func.value if isinstance(func, cst.Attribute) and func.attr.value == "item" else value
        func = inner.func if isinstance(inner, cst.Call) and not inner.args else None
        is_taken = isinstance(func, cst.Attribute) and func.attr.value in ("sum", "mean")
        is_taken = is_taken and isinstance(func, cst.Attribute) and self._samples.are_compared(func.value)
        if is_taken and isinstance(inner, cst.Call) and isinstance(func, cst.Attribute):
            self.figures[inner] = func.attr.value
            return True
        sides = [value.left, value.right] if isinstance(value, cst.BinaryOperation) else [value]
        sizes = [each for each in sides if self._samples.is_size(each)]
        others = [self._file.code(each) for each in sides if each not in sizes]
        is_weighted = isinstance(getattr(value, "operator", None), cst.Multiply) and others == [f"{self.loss}.item()"]
        if isinstance(line, cst.AugAssign) and len(sizes) == 1 and (not others or (is_weighted and is_behind)):
            self.sizes += sizes
            return True
        return False

    def _loss_reads(self) -> Iterator[cst.Name]:
        """Where the loss is read behind the backward pass, or outside of the loop."""
        end = self._file.source.span(self.backward)[1]
        scope = self._file.tree.scope(self._loop)
        for node in find_in_scope(scope, cst.Name):
            is_loss = isinstance(node, cst.Name) and node.value == self.loss and self._is_of_loop(node)
            if is_loss and isinstance(node, cst.Name) and self._file.source.span(node)[0] > end:
                yield node

    def _is_of_loop(self, node: cst.Name) -> bool:
        """Whether a read may see what a round has bound."""
        return any(self._file.tree.is_within(d.node, self._loop) for d in self._file.flow.definitions(node))

    def _require_unread_outside(self) -> None:
        """What a round has made of its part of the batch is not read behind the loop."""
        for node in find_all(self._file.tree.module, cst.Name):
            wrong = self._samples.names | (self._samples.means - {self.loss})
            is_outside = node.value in wrong and not self._file.tree.is_within(node, self._loop)
            if is_outside and self._file.flow.is_read(node) and self._is_of_loop(node):
                raise NotSpread(node, f"`{node.value}` would be only a process's own part of the batch here")

    def _require_batch_size_unread(self, found: Parts) -> None:
        size = self._file.code(found.loader.values("batch_size")[0])
        for node in walk(self._file.tree.module):
            is_asked = isinstance(node, cst.Attribute) and dotted(node) == f"{found.name}.batch_size"
            is_size = isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) == size
            if is_asked or (is_size and self._file.tree.is_within(node, self._loop.body)):
                raise NotSpread(node, f"`{self._file.code(node)}` would no longer be the size of this loop's batches")


def _batch(loop: cst.For) -> Iterator[cst.CSTNode]:
    """The names of a batch, without the number of `enumerate`."""
    is_numbered = isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == "enumerate"
    if is_numbered and isinstance(loop.target, cst.Tuple):
        return (node for element in loop.target.elements[1:] for node in walk(element))
    return walk(loop.target)


def _statements(body: cst.BaseSuite) -> Iterator[cst.CSTNode]:
    """The statements of a loop's body in order, with those in `with` blocks."""
    for line in body.body:
        if isinstance(line, cst.SimpleStatementLine):
            yield from line.body
        elif isinstance(line, cst.With):
            yield from _statements(line.body)
        else:
            yield line
