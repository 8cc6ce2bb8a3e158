"""The copies of normalised images to the device: the only places that may see the images once they come as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.entry import is_main_test
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import Definition
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import find_all, walk
from perfmod.transforms.facts.value import Device
from perfmod.transforms.feeding._image_feeds import Feed, Path
from perfmod.transforms.feeding._pipelines import Unmovable

_SHAPE_ONLY = frozenset({"shape", "size", "dim", "ndim", "ndimension", "numel", "nelement", "is_cuda", "device"})

_CHOOSES_DEVICE = frozenset(
    {"torch.cuda.set_device", "torch.distributed.init_process_group", "torch.multiprocessing.spawn"}
)


@frozen
class Copy:
    """One copy of images to the device.

    Attributes:
        call: `images.to(device)` or `images.cuda()`.
        device: the device as code.
        source: the definitions of the variable that holds it; empty for other expressions.
        anchor: the statement next to which the constants are made, once for all batches.
        is_before: whether they are made before `anchor`, or behind it.
    """

    call: cst.Call
    device: str
    source: tuple[Definition, ...]
    anchor: cst.BaseStatement
    is_before: bool


def copies(file: FileFacts, feeds: list[Feed]) -> list[Copy]:
    """Every copy of the loaders' images.

    Raises:
        Unmovable: the images are seen by anything else, or a copy serves other batches too.
    """
    return _Copies(file, feeds).run()


class _Copies:
    def __init__(self, file: FileFacts, feeds: list[Feed]) -> None:
        self.file = file
        self.iterations = [iteration for feed in feeds for iteration in feed.loader.iterations]
        self.wanted: dict[cst.CSTNode, set[Path]] = {feed.loader.call: feed.paths for feed in feeds}

    @cached_property
    def devices_change(self) -> bool:
        """Whether the script chooses a GPU by other means than by naming it, which must come before the first use."""
        tree = self.file.tree
        return any(self.file.qualified(call) in _CHOOSES_DEVICE for call in tree.all(cst.Call)) or any(
            text.evaluated_value == "CUDA_VISIBLE_DEVICES" for text in tree.all(cst.SimpleString)
        )

    def run(self) -> list[Copy]:
        found: dict[cst.Call, None] = {}
        for node in self._nodes():
            if isinstance(node, (cst.Name, cst.Subscript, cst.Attribute, cst.Call)) and self._is_read(node):
                move = self._examine(node)
                if move is not None:
                    found[move] = None
        if not found:
            raise Unmovable("the images are never copied to a device in sight")
        return [self._placed(move) for move in found]

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
        ends = self.file.tracing.ends(node)
        # From the loader's call, a path leads to a batch (any of them, or one of a list of them), then into it.
        held = [(end.node, end.path[1:]) for end in ends if end.node in self.wanted and _is_batch(end)]
        if not held:
            return None
        images = [path for loader, path in held if path in self.wanted[loader]]
        around = any(path == want[: len(path)] for loader, path in held for want in self.wanted[loader] if path != want)
        if isinstance(node, cst.Name) and node.value in self.file.handing.outer_names and (images or around):
            raise Unmovable(f"`{node.value}` takes batches to other functions by `global`, on line {self._line(node)}")
        if any(None in path for _, path in held):
            raise Unmovable(f"a part of the batch is read on line {self._line(node)} without saying which")
        if images:
            move = self._use(node, ends)
            if move is not None and len(images) != len(ends):
                raise Unmovable(f"the copy on line {self._line(node)} serves other batches too")
            return move
        if around and not self._takes_apart(node):
            raise Unmovable(f"the whole batch is used on line {self._line(node)}")
        return None

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
            if isinstance(call, cst.Call) and call.func is parent and parent.attr.value in ("to", "cuda"):
                return call
        if self._is_harmless(node, parent):
            return None
        if isinstance(parent, cst.Arg):
            call = file.tree.parent(parent)
            if isinstance(call, cst.Call) and file.qualified(call) == "torch.autograd.Variable":
                return None  # `Variable(images)` is traced on
        line = self._line(node)
        copied = [end.node for end in ends if isinstance(end.node, cst.Call) and _is_copy(end.node)]
        if copied:
            where = self._line(copied[0])
            raise Unmovable(f"not every way to line {line} comes by the copy on line {where}")
        if isinstance(parent, cst.Attribute):
            raise Unmovable(f"`.{parent.attr.value}` on line {line} works on the images before they are copied")
        raise Unmovable(f"the normalised images are used on line {line} before they are copied to the device")

    def _takes_apart(self, node: cst.BaseExpression) -> bool:
        """Whether a read of a whole batch only picks a part of it, unpacks it or hands it to a function of the file."""
        parent = self.file.tree.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            return not isinstance(self.file.tree.parent(parent), (cst.AssignTarget, cst.AugAssign))
        return self._is_harmless(node, parent) or (isinstance(parent, cst.Assign) and _all_bind_names(parent))

    def _is_harmless(self, node: cst.BaseExpression, parent: cst.CSTNode | None) -> bool:
        """Whether a value is only handed on to names that are traced back, or nothing but its length is asked."""
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

    def _placed(self, call: cst.Call) -> Copy:
        """A copy with the place where its constants are made once.

        Raises:
            Unmovable: every place is inside of the step, or the copy does more than to copy.
        """
        device = self._device(call)
        code = self.file.code(device) if device is not None else '"cuda"'
        source = self.file.flow.definitions(device) if isinstance(device, cst.Name) else ()
        behind = self._behind_definition(source)
        if behind is not None and self.file.source_of(behind) is not self.file.source_of(call):
            behind = None  # another file's names are not read here
        around = self.file.tree.function(call)
        if behind is not None and not self.devices_change and self.file.tree.function(behind) is around:
            return Copy(call, code, source, behind, False)
        loop = self._outermost_loop(call, device)
        if loop is not None:
            return Copy(call, code, source, self._line_of(loop), True)
        line = self._line(call)
        if behind is None:
            raise Unmovable(f"there is no place outside of the step for the constants of the copy on line {line}")
        if self.devices_change:
            raise Unmovable(f"the process may choose its GPU after line {self._line(behind)}, where `{code}` is made")
        if self._is_imported_code(behind):
            raise Unmovable(f"the constants for line {line} would be made by every process that imports this")
        return Copy(call, code, source, behind, False)

    def _device(self, call: cst.Call) -> cst.BaseExpression | None:
        """Where a copy goes; `None` for the current CUDA device."""
        line = self._line(call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda":
            return argument(call, "device", 0)
        device = self.file.values.placement.destination(call)
        given = [arg for arg in call.args if arg.keyword is None or arg.keyword.value == "device"]
        others = {arg.keyword.value for arg in call.args if arg.keyword is not None} - {"device", "non_blocking"}
        if device is None or len(given) != 1 or others:
            raise Unmovable(f"the copy on line {line} also changes the images' type or layout")
        if self.file.values.placement.device_of(device) is Device.CPU:
            raise Unmovable(f"the images of line {line} stay on the CPU")
        return device

    def _outermost_loop(self, call: cst.Call, device: cst.BaseExpression | None) -> cst.CSTNode | None:
        """The outermost loop of the same function around a copy before which its device is known already."""
        file = self.file
        names = [n for n in find_all(device, cst.Name) if file.flow.is_read(n)] if device is not None else []
        bindings = [definition.node for name in names for definition in file.flow.definitions(name)]
        found: cst.CSTNode | None = None
        for ancestor in file.tree.ancestors(call):
            if isinstance(ancestor, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
                break
            if isinstance(ancestor, (cst.For, cst.While, cst.BaseComp)):
                if any(file.tree.is_within(node, ancestor) for node in bindings):
                    break
                found = ancestor
        return found

    def _line_of(self, loop: cst.CSTNode) -> cst.BaseStatement:
        """The statement of a loop in its block; the whole `if` for a comprehension in the test of an `elif`."""
        line = self.file.tree.line(loop)
        above = self.file.tree.parent(line)
        while isinstance(above, cst.If):
            line, above = above, self.file.tree.parent(above)
        return line

    def _behind_definition(self, definitions: tuple[Definition, ...]) -> cst.BaseStatement | None:
        """The statement that binds a device once and for all, in its own scope and outside of loops."""
        file = self.file
        if len(definitions) != 1 or not isinstance(file.tree.parent(definitions[0].node), cst.AssignTarget):
            return None
        (definition,) = definitions
        if file.tree.scope(definition.node) is not definition.scope or isinstance(definition.scope, cst.ClassDef):
            return None
        if len(file.flow.bound(definition.scope, definition.name)) != 1:
            return None
        line = file.tree.line(file.tree.statement(definition.node))
        return line if isinstance(line, cst.SimpleStatementLine) and not file.tree.loops(line) else None

    def _is_imported_code(self, statement: cst.BaseStatement) -> bool:
        """Whether a statement runs where a script with a `__main__` guard is imported, such as by its workers."""
        entry, module = self.file.entry, self.file.tree.module_of(statement)
        guarded = any(isinstance(top, cst.If) and is_main_test(top.test) for top in entry.statements_of(module))
        if self.file.tree.function(statement) is not None or entry.is_guarded(statement):
            return False
        return guarded or bool(entry.importers(module))

    def _line(self, node: cst.CSTNode) -> str:
        return self.file.line(node)


def _is_batch(end: End) -> bool:
    return bool(end.path) and not isinstance(end.path[0], str)


def _is_copy(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("to", "cuda")


def _all_bind_names(assignment: cst.Assign) -> bool:
    return all(_binds_names(target.target) for target in assignment.targets)


def _binds_names(target: cst.BaseExpression) -> bool:
    if isinstance(target, (cst.Tuple, cst.List)):
        return all(isinstance(e, cst.Element) and _binds_names(e.value) for e in target.elements)
    return isinstance(target, cst.Name)
