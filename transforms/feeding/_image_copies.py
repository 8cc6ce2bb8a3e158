"""The copies of normalised images to the device: the only places that may see the images once they come as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst
from attrs import evolve

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import find_all, is_false, is_none, walk
from perfmod.transforms.feeding._device_modules import Copy, placed
from perfmod.transforms.feeding._image_feeds import Feed, Path
from perfmod.transforms.feeding._pipelines import Unmovable
from perfmod.transforms.feeding._whole_copies import WholeCopy, whole_copies

_COPIES = frozenset({"to", "cuda"})
_SHAPE_ONLY = frozenset({"shape", "size", "dim", "ndim", "ndimension", "numel", "nelement", "is_cuda", "device"})
_KEEPS_SHAPE = frozenset({"contiguous", "detach", "pin_memory"})
"""Methods that leave every value where it is, so that the constants of single channels fit behind the copy too."""

_CHOOSES_DEVICE = frozenset(
    {"torch.cuda.set_device", "torch.distributed.init_process_group", "torch.multiprocessing.spawn"}
)


def copies(file: FileFacts, feeds: list[Feed]) -> list[Copy]:
    """Every copy of the loaders' images.

    Raises:
        Unmovable: the images are seen by anything else, or a copy serves other batches too.
    """
    return _Copies(file, feeds).run()


class _Copies:
    def __init__(self, file: FileFacts, feeds: list[Feed]) -> None:
        self.file = file
        self.feeds = feeds
        self.iterations = [iteration for feed in feeds for iteration in feed.loader.iterations]
        self.wanted: dict[cst.CSTNode, set[Path]] = {feed.loader.call: feed.paths for feed in feeds}

    @cached_property
    def devices_change(self) -> bool:
        """Whether the script chooses a GPU by other means than by naming it, which must come before the first use."""
        tree = self.file.tree
        return any(self.file.qualified(call) in _CHOOSES_DEVICE for call in tree.all(cst.Call)) or any(
            text.evaluated_value == "CUDA_VISIBLE_DEVICES" for text in tree.all(cst.SimpleString)
        )

    @cached_property
    def nodes(self) -> list[cst.CSTNode]:
        return list(self._nodes())

    def run(self) -> list[Copy]:
        found: dict[cst.Call, None] = {}
        for node in self.nodes:
            if isinstance(node, (cst.Name, cst.Subscript, cst.Attribute, cst.Call)) and self._is_read(node):
                move = self._examine(node)
                if move is not None:
                    found[move] = None
        if not found:
            raise Unmovable("no copy of the images to a device was found")
        moves = [placed(self.file, move, devices_change=self.devices_change) for move in found]
        for move in found:
            self._check_unwritten(move)
        return [evolve(move, unpacked=self._unpacked(move.call)) for move in moves]

    def _check_unwritten(self, copy: cst.Call) -> None:
        """Raises `Unmovable` where copied images are written into and the batch may be copied once more.

        On the CPU a copy is the batch itself, so that the next one would find it written into.
        """
        file = self.file
        statement = file.tree.statement(copy)
        again = next((feed.kept for feed in self.feeds if feed.kept is not None), None) or self._loop_inside(copy)
        if again is None or not isinstance(statement, cst.Assign):
            return
        names = [name for target in statement.targets for name in find_all(target, cst.Name)]
        for use in (use for name in names for d in file.flow.defined(name) for use in file.flow.uses(d)):
            if file.aliasing.mutates(use):
                what = f"line {self._line(use)} writes into the copied images"
                raise Unmovable(
                    f"{what}, which on the CPU changes the batch that line {self._line(again)} returns again"
                )

    def _loop_inside(self, copy: cst.Call) -> cst.CSTNode | None:
        """The loop in which a batch is copied more often than it is drawn."""
        loop = next(iter(self.file.tree.loops(copy)), None)
        return None if loop is None or any(loop is each.node for each in self.iterations) else loop

    @cached_property
    def whole(self) -> list[WholeCopy]:
        """Copies of all parts of a batch, images among them."""
        found = whole_copies(self.file, self.nodes, _COPIES)
        return [each for each in found if self._takes_all_apart(each)]

    def _takes_all_apart(self, copy: WholeCopy) -> bool:
        """Whether a copy is of whole batches of these loaders only, and each part of them has a name then."""
        ends = self._ends(copy.batch)
        return bool(ends) and all(
            _is_batch(end)
            and len(end.path) == 1
            and all(len(path) == 1 and path[0] in range(len(copy.names)) for path in self.wanted.get(end.node, [()]))
            for end in ends
        )

    def _unpacked(self, call: cst.Call) -> tuple[tuple[cst.Assign, str], ...]:
        """The statements that give copied images their names behind a copy of whole batches."""
        found: dict[tuple[cst.Assign, str], None] = {}
        for each in (each for each in self.whole if each.call is call):
            for end in self._ends(each.batch):
                for (index,) in self.wanted[end.node]:
                    assert isinstance(index, int)
                    found[each.unpacking, each.names[index]] = None
        return tuple(found)

    def _nodes(self) -> Iterator[cst.CSTNode]:
        """The code that batches may come to: the files that draw them, and functions of others that are called."""
        file = self.file
        drawing = {file.tree.module_of(iteration.node): None for iteration in self.iterations}
        for module in drawing:
            yield from walk(module)
        seen: set[cst.FunctionDef] = set()
        stack = [f for f in file.tree.all(cst.FunctionDef) if file.tree.module_of(f) in drawing]
        while stack:
            function = stack.pop()
            if function in seen:
                continue
            seen.add(function)
            if file.tree.module_of(function) not in drawing:
                yield from walk(function)
            stack += file.steps.called_by(function.body)
            stack += [around for call in file.values.calls.callers(function) if (around := file.tree.function(call))]
            cls = file.classes.of(file.tree.scope(function))
            stack += [method for each in cls.lineage() for method in each.methods.values()] if cls is not None else []

    def _examine(self, node: cst.BaseExpression) -> cst.Call | None:
        """The copy that an expression is the source of, if it holds images; `None` where it harms nobody."""
        if any(node in (each.batch, each.call.func) for each in self.whole):
            return None
        whole = next((each for each in self.whole if node is each.part), None)
        if whole is not None:
            return whole.call
        ends = self._ends(node)
        # From the loader's call, a path leads to a batch (any of them, or one of a list of them), then into it.
        held = [(end.node, end.path[1:]) for end in ends if end.node in self.wanted and _is_batch(end)]
        if not held:
            return None
        images = [path for loader, path in held if path in self.wanted[loader]]
        around = any(path == want[: len(path)] for loader, path in held for want in self.wanted[loader] if path != want)
        if isinstance(node, cst.Name) and node.value in self.file.handing.outer_names and (images or around):
            raise Unmovable(
                f"`{node.value}` passes batches to other functions through `global` on line {self._line(node)}"
            )
        if any(None in path for _, path in held):
            raise Unmovable(f"which part of the batch line {self._line(node)} reads could not be determined")
        if images:
            move = self._use(node, ends)
            if move is not None and len(images) != len(ends):
                others = [end.node for end in ends if (end.node, end.path[1:]) not in held]
                if move in others:
                    raise Unmovable(f"the copy on line {self._line(node)} is applied again to its own result")
                raise Unmovable(f"the copy on line {self._line(node)} also copies other batches", *others)
            return move
        if around and not self._takes_apart(node):
            raise Unmovable(f"the whole batch is used on line {self._line(node)}")
        return None

    def _ends(self, node: cst.BaseExpression) -> tuple[End, ...]:
        """Where the value of a node may have been made; no batch comes out of a loader that is `None`."""
        return tuple(end for end in self.file.tracing.ends(node) if not end.path or not is_none(end.node))

    def _is_read(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name):
            return self.file.flow.is_read(node)
        return not isinstance(self.file.tree.parent(node), (cst.AssignTarget, cst.AugAssign))

    def _use(self, node: cst.BaseExpression, ends: tuple[End, ...]) -> cst.Call | None:
        """The copy that a read of images is part of; `None` where it only hands them on or asks for their shape.

        Raises:
            Unmovable: anything else.
        """
        file = self.file
        parent = file.tree.parent(node)
        if isinstance(parent, cst.Attribute) and parent.value is node:
            call = file.tree.parent(parent)
            if parent.attr.value in _SHAPE_ONLY:
                return None
            if isinstance(call, cst.Call) and call.func is parent:
                if parent.attr.value in _COPIES:
                    return call
                if parent.attr.value in _KEEPS_SHAPE:
                    return None
        if self._is_harmless(node, parent):
            return None
        if isinstance(parent, cst.Arg):
            call = file.tree.parent(parent)
            if isinstance(call, cst.Call) and file.qualified(call) == "torch.autograd.Variable":
                self._check_no_gradient(call)
                return None  # `Variable(images)` is traced on
        line = self._line(node)
        copied = [end.node for end in ends if isinstance(end.node, cst.Call) and _copies_to_device(end.node)]
        if copied:
            where = self._line(copied[0])
            choice = next((each for each in file.tree.ancestors(copied[0]) if isinstance(each, cst.If)), None)
            if choice is not None:
                test = self._line(choice)
                raise Unmovable(
                    f"line {where} copies the images only under the `if` on line {test}: otherwise they stay on the CPU"
                )
            raise Unmovable(f"line {line} may also get images that line {where} has not copied to the device")
        if isinstance(parent, cst.Attribute):
            raise Unmovable(f"`.{parent.attr.value}` on line {line} uses the images before they are copied")
        raise Unmovable(f"the normalised images are used on line {line} before they are copied to the device")

    def _check_no_gradient(self, variable: cst.Call) -> None:
        asked = argument(variable, "requires_grad", 1)
        if asked is not None and not is_false(asked):
            line = self._line(variable)
            raise Unmovable(
                f"line {line} may set requires_grad on the images before they are copied, which uint8 "
                "images do not allow"
            )

    def _takes_apart(self, node: cst.BaseExpression) -> bool:
        """Whether a read of a whole batch only picks a part of it, unpacks it or hands it to a function of the file."""
        parent = self.file.tree.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            return not isinstance(self.file.tree.parent(parent), (cst.AssignTarget, cst.AugAssign))
        return self._is_harmless(node, parent) or (isinstance(parent, cst.Assign) and _all_bind_names(parent))

    def _is_harmless(self, node: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
        """Whether a value is only handed on to names that are traced back, or nothing but its length is asked."""
        if isinstance(parent, cst.Yield):
            function = self.file.tree.function(parent)
            return function is not None and function.name.value == "log_every"  # is traced on, whoever calls it
        return self._is_len(parent) or self._is_parameter(parent) or self._is_bound(node) or isinstance(parent, cst.Del)

    def _is_len(self, parent: cst.CSTNode | None) -> bool:
        call = self.file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and self.file.qualified(call) == "builtins.len"

    def _is_parameter(self, parent: cst.CSTNode | None) -> bool:
        """Whether an argument goes to a parameter of a function of the file, whose reads are traced back to here."""
        call = self.file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
        if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
            return False
        if self.file.names.qualified(call.func) is not None:
            return False
        return self.file.handing.parameter(parent) is not None

    def _is_bound(self, node: cst.BaseExpression) -> bool:
        """Whether an assignment gives a value to a name: alone, or in a tuple that is unpacked at once."""
        parent = self.file.tree.parent(node)
        if isinstance(parent, cst.Assign):
            return all(isinstance(target.target, cst.Name) for target in parent.targets)
        container = self.file.tree.parent(parent) if isinstance(parent, cst.Element) else None
        assignment = self.file.tree.parent(container) if isinstance(container, cst.Tuple) else None
        if not isinstance(assignment, cst.Assign) or not isinstance(container, cst.Tuple):
            return False
        unpacked = [target.target for target in assignment.targets]
        return _all_bind_names(assignment) and all(
            isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == len(container.elements)
            for target in unpacked
        )

    def _line(self, node: cst.CSTNode) -> str:
        return self.file.line(node)


def _is_batch(end: End) -> bool:
    return bool(end.path) and not isinstance(end.path[0], str)


def _copies_to_device(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in _COPIES


def _all_bind_names(assignment: cst.Assign) -> bool:
    return all(_binds_names(target.target) for target in assignment.targets)


def _binds_names(target: cst.BaseExpression) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return all(isinstance(e, cst.Element) and _binds_names(e.value) for e in target.elements)
    return isinstance(target, cst.Name)
