"""Sparse tensors of PyTorch, which many versions cannot pin; one in a batch is enough to fail.

Not so the matrices of SciPy, which pinning leaves as they are, nor torch_sparse's tensors, which pin and copy their
parts themselves, nor PyTorch Geometric's EdgeIndex, which is sparse by its meaning alone. `ToSparseTensor` makes
tensors of torch_sparse where that is installed, and else those of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all

_OTHERS = ("scipy.", "torch_sparse.")
_MAKES = ("to_torch_coo", "to_torch_cs", "to_torch_sparse")
"""How functions of PyTorch Geometric, and methods of torch_sparse's tensors, are called that make one of PyTorch."""
_OF_SCIPY = frozenset({"to_scipy_sparse_matrix", "from_scipy_sparse_matrix"})
_ASK = frozenset({"sparse_size", "sparse_sizes", "sparse_narrow"})
"""Methods that only tensors of torch_sparse and EdgeIndex have."""
_LEAVES = frozenset({"builtins.exit", "builtins.quit", "sys.exit"})


def made_sparse(file: FileFacts, code: Iterable[cst.CSTNode]) -> cst.Call | None:
    """A call that makes a sparse tensor of PyTorch, or may do so; `None` where some code has none."""
    calls = (call for part in code for call in find_all(part, cst.Call))
    return next((call for call in calls if _makes_sparse(file, call)), None)


def _makes_sparse(file: FileFacts, call: cst.Call) -> bool:
    name = file.qualified(call) or ""
    written = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    short = name.rpartition(".")[2] or written
    if short.startswith(_MAKES):
        return True
    if "sparse" not in short.lower() or name.startswith(_OTHERS) or short in _OF_SCIPY:
        return False
    if not name and short in _ASK:
        return False
    if name == "torch_geometric.transforms.ToSparseTensor":
        return argument(call, "layout", 3) is not None or not _has_torch_sparse(file, call)
    return True


def _has_torch_sparse(file: FileFacts, at: cst.CSTNode) -> bool:
    """Whether a module cannot be run without torch_sparse: it imports it, or ends itself where that is missing."""
    return any(_needs_torch_sparse(file, statement) for statement in file.tree.module_of(at).body)


def _needs_torch_sparse(file: FileFacts, statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return any("torch_sparse" in (name.partition(".")[0] for name in _imported(part)) for part in statement.body)
    if not isinstance(statement, cst.If) or not isinstance(statement.test, cst.UnaryOperation):
        return False
    asked = statement.test.expression if isinstance(statement.test.operator, cst.Not) else statement.test
    is_asked = file.qualified(asked) == "torch_geometric.typing.WITH_TORCH_SPARSE"
    return is_asked and isinstance(statement.body, cst.IndentedBlock) and _leaves(file, statement.body.body[-1])


def _imported(part: cst.CSTNode) -> Iterator[str]:
    if isinstance(part, cst.ImportFrom) and part.module is not None and not part.relative:
        yield dotted(part.module)
    elif isinstance(part, cst.Import):
        yield from (dotted(alias.name) for alias in part.names)


def _leaves(file: FileFacts, statement: cst.CSTNode) -> bool:
    last = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
    called = last.value if isinstance(last, cst.Expr) else None
    return isinstance(last, cst.Raise) or (isinstance(called, cst.Call) and file.qualified(called) in _LEAVES)
