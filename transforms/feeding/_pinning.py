"""Whether a loader pins: by what is passed for `pin_memory`, there and through variables and the command line; and
what else the project has to do with its pinning.
"""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tree import find_all, is_false, is_true
from perfmod.transforms.feeding._command_line import option_of
from perfmod.transforms.feeding._settings import written

_OF_THE_DEVICE = ("cuda", "gpu", "device")


@frozen
class Pinning:
    """Whether a loader pins.

    Attributes:
        on: it does, wherever there is a device.
        depends: what decides at run time; `None` where nothing does.
    """

    on: bool
    depends: cst.BaseExpression | None = None

    @classmethod
    def of(cls, file: FileFacts, loader: Loader) -> Pinning:
        """What is passed for `pin_memory`, on all ways."""
        answers = {given: _pins(file, given) for given in loader.values("pin_memory")}
        depends = next((given for given, answer in answers.items() if answer is None), None)
        depends = depends or next(filter(None, (_left_out(file, given) for given in answers)), None)
        return cls(any(answers.values()) and depends is None, depends)


def _left_out(file: FileFacts, given: cst.BaseExpression) -> cst.BaseExpression | None:
    """What chooses an argument by a parameter that every call in sight leaves out:
    `kwargs = {"pin_memory": True} if cuda > -1 else {}`, with `cuda=-1`.
    """
    for choice in file.tree.ancestors(given):
        for name in find_all(choice.test, cst.Name) if isinstance(choice, cst.IfExp) else ():
            made = [end.node for end in file.tracing.ends(name)]
            if made and all(isinstance(file.tree.parent(node), cst.Param) for node in made):
                return choice.test if isinstance(choice, cst.IfExp) else None
    return None


def why_chosen_elsewhere(file: FileFacts, loader: Loader) -> str:
    """What decides elsewhere whether loaders pin, where nothing does for this one; empty where nothing does."""
    if "pin_memory" in loader.settings:
        return ""
    chosen = file.once(_choices)
    near = [node for node in chosen if file.tree.module_of(node) is file.tree.module_of(loader.call)]
    for node in near or chosen:
        if isinstance(node, cst.Param):
            return f"line {file.line(node)} has a parameter pin_memory: this loader should follow it"
        return f"line {file.line(node)} sets pin_memory by `{file.code(node)}`: this loader should follow it"
    return ""


def _choices(file: FileFacts) -> tuple[cst.Param | cst.BaseExpression, ...]:
    """All that is passed for `pin_memory` in the files and is not written down there, and all parameters of that name;
    tensors, which have it too, aside.
    """
    found: list[cst.Param | cst.BaseExpression] = []
    for arg in file.tree.all(cst.Arg):
        call = file.tree.parent(arg)
        if arg.keyword is None or arg.keyword.value != "pin_memory" or not isinstance(call, cst.Call):
            continue
        name = file.qualified(call) or ""
        is_of_tensor = name.startswith("torch.") and not name.startswith("torch.utils.data.")
        if not is_of_tensor and not _is_constant(arg.value):
            found.append(arg.value)
    found += [param for param in file.tree.all(cst.Param) if param.name.value == "pin_memory"]
    return tuple(found)


def why_kept(file: FileFacts, loader: Loader) -> str:
    """Which `itertools.cycle` keeps every batch of a loader, in one line; empty where none does."""
    for call in file.tree.all(cst.Call):
        if not call.args or file.qualified(call) != "itertools.cycle":
            continue
        ends = file.tracing.ends(call.args[0].value, (None,))
        if any(end.node is loader.call and end.path[:1] == (None,) for end in ends):
            return f"itertools.cycle (line {file.line(call)}) keeps every batch, and all would stay in pinned memory"
    return ""


def _pins(file: FileFacts, given: cst.BaseExpression) -> bool | None:
    """Whether an argument is true where there is a device; `None` where that is decided elsewhere."""
    if is_false(given):
        return False
    option = option_of(file, given)
    if option is not None:
        return True if option.is_on else None
    code = file.code(given).lower()
    if any(word in code for word in _OF_THE_DEVICE):
        return True
    made = [_value(value) for value in written(file, given)]
    if any(is_true(value) or _asks_for_device(file, value) for value in made):
        return True
    return False if all(isinstance(value, cst.BaseExpression) and is_false(value) for value in made) else None


def _value(node: cst.CSTNode) -> cst.CSTNode:
    """The default of a parameter whose callers are out of sight."""
    return node.default if isinstance(node, cst.Param) and node.default is not None else node


def _is_constant(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value in ("True", "False", "None")


def _asks_for_device(file: FileFacts, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseExpression) and any(word in file.code(node).lower() for word in _OF_THE_DEVICE)
