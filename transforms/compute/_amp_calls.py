"""Uses of the deprecated AMP classes: what each becomes under `torch.amp`, or why it cannot be rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all, find_any, is_false
from perfmod.transforms.finding import Edit
from perfmod.transforms.keywords import add_keyword

_APIS = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
_MODULES = ("", "autocast_mode.", "grad_scaler.")
DEPRECATED = {
    f"torch.{device}.amp.{module}{api}": (api, device)
    for device in ("cuda", "cpu")
    for module in _MODULES
    for api in _APIS
}
"""The short name and the device of everything deprecated, by qualified name."""

_SCALERS = frozenset(name for name, (api, _) in DEPRECATED.items() if api == "GradScaler")

Parts = tuple[list[Edit], tuple[str, ...]]
"""Edits, and the imports that they need."""

_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}
_POSITIONAL = ("enabled", "dtype", "cache_enabled")
_SET_DTYPE = frozenset({"set_autocast_gpu_dtype", "set_autocast_cpu_dtype", "set_autocast_dtype"})
_OTHER_VERSIONS = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError"})
_VERSION_TESTS = ("version", "hasattr", "torch_at_least", "torch_ge", "torch_lt")


class Stays(Exception):
    """This use has no equal under `torch.amp`; the message says why."""


def use_edits(file: FileFacts, node: cst.BaseExpression, api: str, device: str) -> Parts:
    """What turns a use of an old class, once its name means the new one, into the same thing, and the imports for it.

    Raises:
        Stays: the new class cannot be used in the same way.
    """
    if _serves_versions(file, node):
        raise Stays("is inside a check of the PyTorch version")
    parent = file.tree.parent(node)
    if isinstance(parent, cst.Call) and parent.func is node:
        return _call_edits(file, parent, api, device)
    if isinstance(parent, cst.Decorator) and api.startswith("custom_"):
        end = file.source.span(node)[1]
        return [Edit(end, end, f'(device_type="{device}")')], ()
    if isinstance(parent, cst.Arg):
        call = file.tree.parent(parent)
        if isinstance(call, cst.ClassDef):
            raise Stays("is a base class here, and the subclass passes its arguments by position")
    if any(isinstance(around, cst.Annotation) for around in file.tree.ancestors(node)):
        return [], ()
    raise Stays(f"is passed on as a value on line {file.line(node)}, and its caller passes no device")


def _call_edits(file: FileFacts, call: cst.Call, api: str, device: str) -> Parts:
    if api.startswith("custom_"):
        return list(add_keyword(file.source, call, f'device_type="{device}"', wrap=False)), ()
    if argument(call, "device_type") is not None or argument(call, "device") is not None:
        raise Stays("is given a device, which the old class does not accept")
    first = _first_argument(file, call, f'"{device}"')
    if api == "GradScaler":
        for asked in file.once(_asked_for):
            raise Stays(f"is compared by its class on line {file.line(asked)}")
        return [first], ()
    if any(arg.star == "*" for arg in call.args):
        raise Stays("gets its arguments by `*`, and their positions change")
    edits = []
    positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
    for name, arg in zip(_POSITIONAL, positional, strict=False):
        if isinstance(arg.value, cst.BaseString):
            raise Stays("is given a string as its first argument, which is `enabled`")
        start = _start(file, arg)
        named = f"{name}="
        edits.append(Edit(start, start, named))
    needed, imports = _pinned(file, call, device)
    if not call.args:
        return [Edit(first.start, first.end, first.replacement + "".join(f", {text}" for text in needed))], imports
    if edits and edits[0].start == first.start:
        edits[0] = Edit(first.start, first.start, first.replacement + edits[0].replacement)
    else:
        edits.append(first)
    for text in needed:
        edits += add_keyword(file.source, call, text, wrap=False)
    return edits, imports


def _asked_for(file: FileFacts) -> list[cst.BaseExpression]:
    """Where files in sight mean the old scaler's class itself: what is made of the new class is no instance of it."""
    found: list[cst.BaseExpression] = []
    for source in file.world.files:
        for node in find_any(source.module, cst.Name, cst.Attribute):
            if isinstance(node, (cst.Name, cst.Attribute)) and file.qualified(node) in _SCALERS:
                parent = file.tree.parent(node)
                around = file.tree.parent(parent) if isinstance(parent, cst.Arg) else None
                is_made = isinstance(parent, cst.Call) or isinstance(around, cst.ClassDef)
                if (
                    not is_made
                    and parent is not None
                    and not isinstance(parent, (cst.ImportAlias, cst.AsName, cst.Attribute))
                ):
                    found.append(node)
    return found


def _first_argument(file: FileFacts, call: cst.Call, text: str) -> Edit:
    if not call.args:
        at = file.source.span(call)[1] - 1
        return Edit(at, at, text)
    at = _start(file, call.args[0])
    opening = file.source.text[file.source.span(call.func)[1] : at]
    # Arguments on lines of their own stay so.
    separator = opening[opening.index("(") + 1 :] if "\n" in opening and "#" not in opening else " "
    return Edit(at, at, f"{text},{separator}")


def _start(file: FileFacts, arg: cst.Arg) -> int:
    start = file.source.span(arg)[0]
    if arg.keyword is None and not arg.star and arg.value.lpar:
        return min(start, file.source.span(arg.value.lpar[0])[0])
    return start


# What `torch.amp.autocast` takes over from an autocast around it where the old classes have their own default.


def _pinned(file: FileFacts, call: cst.Call, device: str) -> tuple[list[str], tuple[str, ...]]:
    """Arguments that keep the old defaults where an autocast with others may be around the call."""
    at_import = isinstance(file.tree.parent(call), cst.Decorator) and file.tree.function(call) is None
    if at_import or has_star(call) or is_false(argument(call, "enabled", 0)):
        return [], ()
    needed: list[str] = []
    imports: tuple[str, ...] = ()
    is_in_module = _is_in_module(file, call) and (device != "cuda" or file.values.uses_bfloat16())
    if argument(call, "dtype", 1) is None and (is_in_module or _has_other_dtype(file, device)):
        torch, imports = file.names.spelled("torch", call)
        needed.append(f"dtype={torch}.{_DTYPES[device]}")
    if argument(call, "cache_enabled", 2) is None and any(
        argument(other, "cache_enabled", 2) is not None for other in _autocasts(file)
    ):
        needed.append("cache_enabled=True")
    return needed, imports


def _is_in_module(file: FileFacts, call: cst.Call) -> bool:
    """Whether the call runs inside of a model, under the autocast of whoever calls that."""
    function = file.tree.function(call)
    cls = file.classes.around(call)
    return function is not None and cls is not None and cls.is_module


def _has_other_dtype(file: FileFacts, device: str) -> bool:
    for other in _autocasts(file):
        dtype = argument(other, "dtype", 1)
        if dtype is not None and file.qualified(dtype) not in (f"torch.{_DTYPES[device]}", _HALF.get(device)):
            return True
    return any(node.value in _SET_DTYPE for node in find_all(file.tree.module, cst.Name))


_HALF = {"cuda": "torch.half"}


def _autocasts(file: FileFacts) -> Iterator[cst.Call]:
    for call in find_all(file.tree.module, cst.Call):
        name = file.qualified(call) or ""
        if name.startswith("torch.") and name.endswith(".autocast"):
            yield call


def _serves_versions(file: FileFacts, node: cst.CSTNode) -> bool:
    """Whether code stands under a test or a `try` that is there for other versions of PyTorch."""
    child = node
    for ancestor in file.tree.ancestors(node):
        if isinstance(ancestor, (cst.Try, cst.TryStar)) and any(map(_names_missing, ancestor.handlers)):
            return True
        if isinstance(ancestor, (cst.If, cst.IfExp)) and child is not ancestor.test:
            test = file.code(ancestor.test).lower()
            if any(word in test for word in _VERSION_TESTS):
                return True
        child = ancestor
    return False


def _names_missing(handler: cst.ExceptHandler | cst.ExceptStarHandler) -> bool:
    kinds: Iterable[cst.Name] = find_all(handler.type, cst.Name) if handler.type is not None else ()
    return any(name.value in _OTHER_VERSIONS for name in kinds)
