"""What stands where in the Python files of a tree, by `ast` and by names alone.

This is the ruler that perfmod's reach is measured with, so it shares no code with perfmod. It is simpler on purpose: a
name means whatever is assigned to it anywhere in its function or module, and a method is known by its name. That makes
it blind in places; it is never wrong about what it counts in a way that a rule would notice.
"""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath

from attrs import define, field, frozen

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
Loop = ast.For | ast.AsyncFor | ast.While
Selector = int | str | None
"""Which item of a value is meant: of a tuple or dictionary, or, with None, any."""

WRAPPERS = frozenset(
    {
        "ProgressBar",
        "Progbar",
        "cycle",
        "enumerate",
        "islice",
        "iter",
        "list",
        "log_every",
        "next",
        "prepare",
        "prepare_data_loader",
        "reversed",
        "setup_dataloaders",
        "skip_first_batches",
        "tqdm",
        "track",
        "trange",
        "_setup_dataloaders",
    }
)
"""Callables that hand on the batches of the loader that they are given."""

DEPTH = 6
"""How many steps a value is followed: from a loop to a parameter, to its caller, to a factory, and so on."""


@define(eq=False)
class File:
    """One file.

    Attributes:
        path: from the tree's root, with slashes.
        text: its code; of a notebook, that of its cells.
        module: parsed.
        cells: for a notebook the number of the cell of every line (among all cells, from 1), and the line in it; else
            empty.
    """

    path: str
    text: str
    module: ast.Module
    cells: Sequence[tuple[int, int]] = ()
    parents: dict[ast.AST, ast.AST] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for node in ast.walk(self.module):
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """What is around a node, from the inside."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def function(self, node: ast.AST) -> Function | None:
        """The innermost function around a node."""
        return next((each for each in self.ancestors(node) if isinstance(each, Function)), None)

    def cls(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        return next((each for each in self.ancestors(node) if isinstance(each, ast.ClassDef)), None)

    def scope_name(self, node: ast.AST) -> str:
        """Dotted names of the classes and functions around a node."""
        around = [each.name for each in self.ancestors(node) if isinstance(each, (*_FUNCTIONS, ast.ClassDef))]
        return ".".join(reversed(around))

    def place(self, line: int) -> tuple[int, int]:
        """Cell and line of a line of `text`; the cell is 0 in a file."""
        return self.cells[line - 1] if self.cells else (0, line)

    @cached_property
    def imports(self) -> dict[str, str]:
        """What a name stands for that an import binds anywhere in the file, dotted."""
        found: dict[str, str] = {}
        for node in ast.walk(self.module):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{module}.{alias.name}"
        return found

    @cached_property
    def imported(self) -> frozenset[str]:
        """Every part of the names that it imports: packages, modules and what is in them."""
        return frozenset(part for name in self.imports.values() for part in name.split("."))

    def dotted(self, node: ast.AST) -> str:
        """A dotted expression with its first name as the import has it; empty for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.imports.get(node.id, node.id), *reversed(parts)])

    @cached_property
    def assigned(self) -> dict[tuple[ast.AST, str], list[tuple[ast.expr, tuple[Selector, ...]]]]:
        """Values by scope and name; a selector says which item of the value it is. `self.x` goes by its class."""
        found: dict[tuple[ast.AST, str], list[tuple[ast.expr, tuple[Selector, ...]]]] = {}

        def bind(target: ast.expr, value: ast.expr, path: tuple[Selector, ...]) -> None:
            if isinstance(target, (ast.Tuple, ast.List)):
                same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) and not path
                for number, part in enumerate(target.elts):
                    if same:
                        bind(part, value.elts[number], ())  # type: ignore[attr-defined]
                    else:
                        bind(part, value, (number, *path))
            elif isinstance(target, ast.Name):
                found.setdefault((self.function(target) or self.module, target.id), []).append((value, path))
            elif isinstance(target, ast.Attribute):
                owner = self.cls(target) if _is_self(target.value) else None
                found.setdefault((owner or self.module, "." + target.attr), []).append((value, path))
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                name = _name(target.value)
                key = (self.function(target) or self.module, f"{name}[{target.slice.value!r}]")
                found.setdefault(key, []).append((value, path))

        for node in ast.walk(self.module):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    bind(target, node.value, ())
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                bind(node.target, node.value, ())
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if item.optional_vars is not None:
                        bind(item.optional_vars, item.context_expr, ())
        return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@frozen(eq=False)
class Index:
    """All files of a tree that Python can parse, and where in it they lie."""

    files: Mapping[str, File]
    tree: Path | None = None
    _ends: dict[tuple[ast.expr, tuple[Selector, ...], int], list[tuple[File, ast.expr]]] = field(
        init=False, factory=dict
    )

    @classmethod
    def of_tree(cls, tree: Path, paths: Sequence[str]) -> Index:
        """Read `paths` of a tree, without what its `.gitignore` names, which nobody asks perfmod to read."""
        found = sorted({each for path in paths for each in _files(tree, path)})
        ignored = _ignored(tree, found)
        files = (_parsed(path.relative_to(tree).as_posix(), _read(path)) for path in found if path not in ignored)
        return cls({file.path: file for file in files if file is not None}, tree)

    def rewritten(self, after: Mapping[str, str]) -> Index:
        """The same tree with the new text of files that were changed, by path."""
        files = (_parsed(path, after[path]) if path in after else file for path, file in self.files.items())
        return Index({file.path: file for file in files if file is not None}, self.tree)

    @cached_property
    def functions(self) -> dict[str, list[tuple[File, Function]]]:
        """Functions and methods by name."""
        found: dict[str, list[tuple[File, Function]]] = {}
        for file in self.files.values():
            for node in ast.walk(file.module):
                if isinstance(node, _FUNCTIONS):
                    found.setdefault(node.name, []).append((file, node))
        return found

    @cached_property
    def classes(self) -> dict[str, list[tuple[File, ast.ClassDef]]]:
        """Classes by name."""
        found: dict[str, list[tuple[File, ast.ClassDef]]] = {}
        for file in self.files.values():
            for node in ast.walk(file.module):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append((file, node))
        return found

    @cached_property
    def attributes(self) -> dict[str, list[tuple[File, ast.expr, tuple[Selector, ...]]]]:
        """What attributes of any object are set to, by name with a dot before it."""
        found: dict[str, list[tuple[File, ast.expr, tuple[Selector, ...]]]] = {}
        for file in self.files.values():
            for (_, name), values in file.assigned.items():
                if name.startswith("."):
                    found.setdefault(name, []).extend((file, value, path) for value, path in values)
        return found

    @cached_property
    def calls(self) -> dict[str, list[tuple[File, ast.Call]]]:
        """Calls by the last name of what is called."""
        found: dict[str, list[tuple[File, ast.Call]]] = {}
        for file in self.files.values():
            for node in ast.walk(file.module):
                if isinstance(node, ast.Call):
                    found.setdefault(last(node.func), []).append((file, node))
        return found

    def called(self, file: File, call: ast.Call) -> list[tuple[File, Function]]:
        """The functions of the tree that a call may run: those of its name in the file; else, for a name that the
        file imports, those of modules or packages of the tree that the import names, of several the ones that share
        the most folders with the file, as copies of a helper lie beside their scripts; else, for a method, the only one
        of that name in the tree.
        """
        name = last(call.func)
        found = self.functions.get(name, [])
        own = [each for each in found if each[0] is file]
        is_method = isinstance(call.func, ast.Attribute)
        if own and (is_method or any(file.cls(function) is None for _, function in own)):
            return own
        head = call.func
        while isinstance(head, ast.Attribute):
            head = head.value
        if isinstance(head, ast.Name) and head.id in file.imports:
            module = set(file.imports[head.id].split(".")[:-1] or [head.id])
            named = [each for each in found if module & _parts(each[0].path)]
            nearest = max((_shared(file.path, other.path) for other, _ in named), default=0)
            return [each for each in named if _shared(file.path, each[0].path) == nearest]
        return found if is_method and len(found) == 1 else []

    def ends(
        self, file: File, node: ast.expr, path: tuple[Selector, ...] = (), depth: int = DEPTH
    ) -> Sequence[tuple[File, ast.expr]]:
        """The calls and displays that make a value, as far as names lead there."""
        key = (node, path, depth)
        if key not in self._ends:
            self._ends[key] = list(dict.fromkeys(self._find_ends(file, node, path, depth)))
        return self._ends[key]

    def _find_ends(
        self, file: File, node: ast.expr, path: tuple[Selector, ...], depth: int
    ) -> Iterator[tuple[File, ast.expr]]:
        if depth == 0:
            return
        if isinstance(node, ast.Call) and last(node.func) in WRAPPERS:
            for arg in _handed_on(node):
                yield from self.ends(file, arg, path, depth)
            return
        if isinstance(node, ast.Call) and last(node.func) == "zip":
            for arg in node.args:
                yield from self.ends(file, arg, path, depth)
            return
        if isinstance(node, ast.Call):
            yield from self._made_by_call(file, node, path, depth)
        elif isinstance(node, ast.IfExp):
            yield from self.ends(file, node.body, path, depth)
            yield from self.ends(file, node.orelse, path, depth)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self.ends(file, value, path, depth)
        elif isinstance(node, ast.Dict) and not path:
            yield file, node
        elif isinstance(node, (ast.Tuple, ast.List, ast.Dict, ast.DictComp)) and path:
            for item in _items(node, path[0]):
                yield from self.ends(file, item, path[1:], depth)
        elif isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            yield from self._of_item(file, node, key, path, depth)
        elif isinstance(node, ast.Name):
            yield from self._of_name(file, node, path, depth)
        elif isinstance(node, ast.Attribute):
            yield from self._of_attribute(file, node, path, depth)
        elif not isinstance(node, ast.Constant):
            yield file, node

    def _made_by_call(
        self, file: File, call: ast.Call, path: tuple[Selector, ...], depth: int
    ) -> Iterator[tuple[File, ast.expr]]:
        targets = self.called(file, call) if last(call.func) not in self.classes else []
        returned = [
            (target, statement.value)
            for target, function in targets
            for statement in _own(function)
            if isinstance(statement, (ast.Return, ast.Yield)) and statement.value is not None
        ]
        if not returned:
            yield file, call
        for target, value in returned:
            yield from self.ends(target, value, path, depth - 1)

    def _of_item(
        self, file: File, node: ast.Subscript, key: object, path: tuple[Selector, ...], depth: int
    ) -> Iterator[tuple[File, ast.expr]]:
        selector = key if isinstance(key, (int, str)) else None
        name = f"{_name(node.value)}[{key!r}]"
        scope = file.function(node) or file.module
        stored = [*file.assigned.get((scope, name), ()), *file.assigned.get((file.module, name), ())]
        for value, more in stored:
            yield from self.ends(file, value, (*more, *path), depth - 1)
        if not stored:
            yield from self.ends(file, node.value, (selector, *path), depth)

    def _of_name(
        self, file: File, node: ast.Name, path: tuple[Selector, ...], depth: int
    ) -> Iterator[tuple[File, ast.expr]]:
        function = file.function(node)
        while function is not None:
            values = file.assigned.get((function, node.id), ())
            for value, more in values:
                if not _holds(value, node):
                    yield from self.ends(file, value, (*more, *path), depth - 1)
            if node.id in _parameters(function):
                yield from self._of_parameter(file, function, node.id, path, depth)
                return
            if values:
                return
            function = file.function(function)
        for value, more in file.assigned.get((file.module, node.id), ()):
            if not _holds(value, node):
                yield from self.ends(file, value, (*more, *path), depth - 1)
        if node.id in file.imports:
            *module, name = file.imports[node.id].split(".")
            for other in self.files.values():
                if module and _module_name(other.path) == module[-1]:
                    for value, more in other.assigned.get((other.module, name), ()):
                        yield from self.ends(other, value, (*more, *path), depth - 1)

    def _of_parameter(
        self, file: File, function: Function, name: str, path: tuple[Selector, ...], depth: int
    ) -> Iterator[tuple[File, ast.expr]]:
        """What callers pass, in the whole tree."""
        parameters = _parameters(function)
        owner = file.cls(function)
        called = owner.name if function.name == "__init__" and owner is not None else function.name
        for caller, call in self.calls.get(called, ()):
            if called == function.name and not any(each is function for _, each in self.called(caller, call)):
                continue
            if called != function.name and not self._means(caller, called, file):
                continue
            bound = parameters[1:] if owner is not None and parameters[:1] in (["self"], ["cls"]) else parameters
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            given |= {
                each: arg for each, arg in zip(bound, call.args, strict=False) if not isinstance(arg, ast.Starred)
            }
            if name in given:
                yield from self.ends(caller, given[name], path, depth - 1)

    def _means(self, caller: File, name: str, file: File) -> bool:
        """Whether a class's name in one file is that of a class in another."""
        defining = [other for other, _ in self.classes.get(name, ())]
        if caller in defining or len(defining) == 1:
            return caller is file or len(defining) == 1
        return _module_name(file.path) in caller.imports.get(name, "").split(".")

    def _of_attribute(
        self, file: File, node: ast.Attribute, path: tuple[Selector, ...], depth: int
    ) -> Iterator[tuple[File, ast.expr]]:
        owner = file.cls(node) if _is_self(node.value) else None
        near = file.assigned.get((owner, "." + node.attr), ()) if owner is not None else ()
        for value, more in near:
            yield from self.ends(file, value, (*more, *path), depth - 1)
        if near:
            return
        for other, value, more in self.attributes.get("." + node.attr, ()):
            yield from self.ends(other, value, (*more, *path), depth - 1)


def last(node: ast.AST) -> str:
    """The last name of a dotted expression; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _handed_on(call: ast.Call) -> Sequence[ast.expr]:
    if last(call.func) in ("prepare", "setup_dataloaders"):
        return call.args
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("iterable", "data_loader", "dataloader")]
    return call.args[:1] or named[:1]


def _items(node: ast.Tuple | ast.List | ast.Dict | ast.DictComp, selector: Selector) -> Sequence[ast.expr]:
    if isinstance(node, ast.DictComp):
        return [node.value]
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        chosen = [value for key, value in zip(keys, node.values, strict=True) if key == selector]
        return chosen or node.values
    if isinstance(selector, int) and -len(node.elts) <= selector < len(node.elts):
        return [node.elts[selector]]
    return node.elts


def _own(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it."""
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))


def _parameters(function: Function) -> list[str]:
    args = function.args
    return [each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _name(node: ast.AST) -> str:
    return ast.unparse(node)


def _holds(outer: ast.expr, inner: ast.expr) -> bool:
    """Whether an expression of the same file stands in another, as in `x = f(x)`."""
    start, end = (outer.lineno, outer.col_offset), (outer.end_lineno or 0, outer.end_col_offset or 0)
    return start <= (inner.lineno, inner.col_offset) < end


def _parts(path: str) -> set[str]:
    """The names of a module's file and of the packages that it lies in."""
    pure = PurePosixPath(path)
    return {pure.stem, *pure.parent.parts}


def _shared(path: str, other: str) -> int:
    """How many folders, from the top, two files lie in together."""
    pairs = zip(PurePosixPath(path).parent.parts, PurePosixPath(other).parent.parts, strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _module_name(path: str) -> str:
    pure = PurePosixPath(path)
    return pure.parent.name if pure.stem == "__init__" else pure.stem


def _files(tree: Path, path: str) -> Iterator[Path]:
    start = tree / path.lstrip("/")
    found = start.rglob("*") if start.is_dir() else tree.glob(path.lstrip("/"))
    for each in found:
        if each.suffix in (".py", ".ipynb") and each.is_file() and ".git" not in each.relative_to(tree).parts:
            yield each


def _ignored(tree: Path, paths: Sequence[Path]) -> set[Path]:
    """The files that git would ignore if they were new; none where the tree is no repository."""
    names = "\0".join(path.relative_to(tree).as_posix() for path in paths)
    command = ["git", "-C", str(tree), "check-ignore", "--no-index", "-z", "--stdin"]
    told = subprocess.run(command, input=names.encode(), capture_output=True)
    return {tree / name for name in told.stdout.decode().split("\0") if name}


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _parsed(path: str, text: str) -> File | None:
    try:
        cells: list[tuple[int, int]] = []
        if path.endswith(".ipynb"):
            text, cells = python_of(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return File(path, text, ast.parse(text.removeprefix("\ufeff")), cells)
    except (SyntaxError, ValueError, RecursionError, KeyError, TypeError):
        return None


def cells_of(text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The lines of the code cells of a notebook, and the cell (among all, from 1) and line of each."""
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, cell in enumerate(json.loads(text)["cells"], start=1):
        if cell["cell_type"] == "code":
            own = "".join(cell["source"]).splitlines()
            lines += own
            places += [(number, at) for at, _ in enumerate(own, start=1)]
    return lines, places


def python_of(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The code cells of a notebook as one text; lines for IPython do nothing, nor do cells that begin with a magic."""
    lines, places = cells_of(text)
    foreign = {
        cell for line, (cell, at) in zip(lines, places, strict=True) if at == 1 and line.lstrip().startswith("%%")
    }
    kept = []
    for line, (cell, _) in zip(lines, places, strict=True):
        code = line.lstrip()
        indent = line[: len(line) - len(code)]
        kept.append("" if cell in foreign else indent + "pass" if code.startswith(("%", "!", "?")) else line)
    return "\n".join(kept) + "\n", places
