"""Samples and batches that cost more memory or Python time than they need to.

Three habits in the code of datasets and collate functions, which runs for every sample of every epoch:

- numbers in double precision (`dtype=np.float64`, `.double()`): twice the bytes to stack, pin and copy, for a model
  that computes with float32 and casts them;
- tensors made from lists (`torch.tensor([float(v) for v in row])`, `torch.tensor(array.tolist())`): every number
  becomes a Python object on the way; `torch.from_numpy(array)` or `torch.as_tensor(array)` shares its memory;
- tensors made one by one in a collate function and then stacked (`torch.stack([torch.tensor(s) for s in batch])`):
  `torch.from_numpy(np.stack(batch))` makes one.

None of this can be changed without knowing how the values are used, so this is advice only.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import walk
from perfmod.transforms.facts.value import Kind
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.rule import Rule

_DOUBLE = frozenset({"torch.float64", "torch.double", "numpy.float64", "numpy.double", "builtins.float"})
_MAKES = frozenset({"torch.tensor", "torch.as_tensor", "torch.FloatTensor", "torch.LongTensor", "torch.Tensor"})
_JOINS = frozenset({"torch.stack", "torch.cat", "torch.concat"})


class CostlySamples(Rule):
    """PM207."""

    code = "PM207"
    name = "costly-samples"
    family = Family.FEEDING
    summary = "A sample is built with more memory or more Python work than it needs"
    fix_title = "Build samples from arrays, in the dtype that the model computes with"
    numerics = Numerics.PRECISION
    safety = Safety.ADVICE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"DataLoader"})
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html",)
    changes_results = (
        "Nothing is rewritten. Samples of float32 are rounded before the model sees them; tensors that share the "
        "memory of an array see later writes to it."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """Advice for every such place in what the workers of a training's loaders run."""
        seen: set[cst.CSTNode] = set()
        for loader in file.loaders.everywhere:
            if not loader.trains:
                continue
            for function in WorkerCode.of(file, loader).functions:
                if function in seen or not file.is_own(function):
                    continue
                seen.add(function)
                if isinstance(function, cst.FunctionDef) and function.name.value == "__init__":
                    continue
                for call in (node for node in walk(function.body) if isinstance(node, cst.Call)):
                    reason = _reason(file, call)
                    if reason:
                        yield self.found(file, call, reason, ())


def _reason(file: FileFacts, call: cst.Call) -> str:
    """What a call costs, in one line; empty where it costs nothing."""
    name = file.qualified(call) or ""
    if _is_double(file, call, name):
        return "float64: twice the bytes to stack, pin and copy if the model computes with float32"
    if name in _JOINS and call.args:
        made = call.args[0].value
        if isinstance(made, (cst.ListComp, cst.GeneratorExp)) and file.qualified(made.elt) in _MAKES:
            return "creates one tensor per element, only to stack them: create one tensor from a stacked array"
    if name in _MAKES and call.args and not _is_joined(file, call):
        given = call.args[0].value
        if isinstance(given, cst.ListComp):
            return "every number becomes a Python object first: build an array and use torch.from_numpy"
        if isinstance(given, cst.Call) and _lists_array(file, given):
            return "an array becomes a list and then a tensor: torch.as_tensor uses the array's memory directly"
    return ""


def _lists_array(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call makes a list of an array: `array.tolist()`, `list(array)`."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "tolist":
        return True
    is_list = file.qualified(call) == "builtins.list" and bool(call.args)
    return is_list and file.value(call.args[0].value).kind in (Kind.ARRAY, Kind.TENSOR)


def _is_double(file: FileFacts, call: cst.Call, name: str) -> bool:
    """Whether a call makes or casts numbers of double precision."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) and not name else ""
    if method == "double" and not call.args:
        return True
    given = argument(call, "dtype", 0 if method in ("astype", "to", "type") else None)
    if given is None or not (method or name.startswith(("torch.", "numpy."))):
        return False
    if isinstance(given, cst.SimpleString):
        return given.evaluated_value in ("float64", "double", "d")
    named = file.qualified(given)
    # Python's float is double precision to NumPy, and float32 to nobody.
    return named in _DOUBLE and not (named == "builtins.float" and name.startswith("torch."))


def _is_joined(file: FileFacts, call: cst.Call) -> bool:
    """Whether a tensor is an element of a comprehension that is put together: that is told once."""
    around = file.tree.parent(call)
    arg = file.tree.parent(around) if isinstance(around, (cst.ListComp, cst.GeneratorExp)) else None
    joins = file.tree.parent(arg) if isinstance(arg, cst.Arg) else None
    return isinstance(joins, cst.Call) and file.qualified(joins) in _JOINS
