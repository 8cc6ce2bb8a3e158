"""Whether a loader pins: by what is passed for `pin_memory`, there and through variables and the command line."""

from __future__ import annotations

import libcst as cst
from attrs import frozen

from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.feeding._command_line import option_of
from perfmod.transforms.feeding._copies import is_false
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
        return cls(any(answers.values()) and depends is None, depends)


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
    if any(_is_true(value) or _asks_for_device(file, value) for value in made):
        return True
    return False if all(isinstance(value, cst.BaseExpression) and is_false(value) for value in made) else None


def _value(node: cst.CSTNode) -> cst.CSTNode:
    """The default of a parameter whose callers are out of sight."""
    return node.default if isinstance(node, cst.Param) and node.default is not None else node


def _is_true(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "True"


def _asks_for_device(file: FileFacts, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseExpression) and any(word in file.code(node).lower() for word in _OF_THE_DEVICE)
