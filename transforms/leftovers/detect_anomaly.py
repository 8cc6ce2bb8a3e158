"""Anomaly detection that was left switched on.

`torch.autograd.set_detect_anomaly(True)` helps to find the operation whose gradient became NaN: every forward
operation stores a traceback, and every backward operation is checked, for which the CPU waits each time. A step takes
several times as long. It is meant for a debugging session:

    torch.autograd.set_detect_anomaly(True)          (gone)

    with torch.autograd.detect_anomaly():            loss.backward()
        loss.backward()

It is a check: with it, a NaN in a backward pass ends the training; without it, the training continues. So the rewrite
is an open question, except where the check itself is off (`check_nan=False`) and only tracebacks are collected. A
switch that the user can turn, such as `if args.debug:`, is left alone, and so is one whose error is caught.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.anomaly import BLOCKS, SWITCHES
from perfmod.transforms.facts.calls import argument, has_star
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.finding import Family, Finding, Numerics, Safety, Status
from perfmod.transforms.leftovers import _switches
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import MOST_MOVED, replace

_RAISES = "it raises an error at the first NaN in a backward pass; without it the training continues"
_TRACES = "it does not check for NaN, and only stores tracebacks"


class DetectAnomaly(Rule):
    code = "PM401"
    name = "detect-anomaly"
    family = Family.LEFTOVERS
    summary = "Anomaly detection is left on, and checks every operation of every backward pass"
    fix_title = "Switch anomaly detection off"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({"set_detect_anomaly", "detect_anomaly"})
    references = (
        "https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-debugging-apis",
    )
    changes_results = (
        "Not as long as no gradient is NaN. A NaN in a backward pass, which ended the training with an error, is no "
        "longer noticed: an open question, unless `check_nan=False` says that nothing is checked."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in find_all(file.tree.module, cst.Call):
            name = file.qualified(call) or ""
            if name in SWITCHES or name in BLOCKS:
                yield from self._call(file, call, name)
            yield from self._trainer(file, call, name)

    def _call(self, file: FileFacts, call: cst.Call, name: str) -> Iterator[Finding]:
        checks = argument(call, "check_nan", 0 if name in BLOCKS else 1)
        on = True if name in BLOCKS else _switches.boolean(argument(call, "mode", 0), None)
        if _switches.is_optional(file, call) or (on is not True and not has_star(call)):
            return
        if has_star(call):
            yield self.refused(file, call, "its arguments could not be determined")
            return
        handler = _switches.catching(file, call) or (
            _handler(file) if _switches.with_item(file, call) is None else None
        )
        checked = _switches.boolean(checks, True)
        if checked is not False and handler is not None:
            yield self.refused(file, call, f"the error that it raises may be caught on line {file.line(handler)}")
            return
        block = _switches.with_item(file, call)
        edits = _switches.without_item(file, *block) if block is not None else _switches.without_statement(file, call)
        if edits is None:
            mode = argument(call, "mode", 0)
            if mode is None:
                yield self.refused(file, call, "the context manager is stored for later use")
                return
            edits = [replace(file.source, mode, "False")]
        reason, safety = (_TRACES, Safety.SAFE) if checked is False else (_RAISES, Safety.UNSAFE)
        if checked is False and len(edits) > MOST_MOVED:
            reason, safety = f"{reason}; many lines are re-indented: review it with `git diff -w`", Safety.OPT_IN
        yield self.found(file, call, reason, edits, safety=safety)

    def _trainer(self, file: FileFacts, call: cst.Call, name: str) -> Iterator[Finding]:
        """`Trainer(detect_anomaly=True)` of Lightning."""
        given = argument(call, "detect_anomaly")
        if name.endswith(".Trainer") and "lightning" in name and _switches.boolean(given, None) and given is not None:
            yield self.found(file, given, _RAISES, [replace(file.source, given, "False")], safety=Safety.UNSAFE)


def _handler(file: FileFacts) -> cst.CSTNode | None:
    """A handler around some backward pass of the file."""
    for call in find_all(file.tree.module, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
            handler = _switches.catching(file, call)
            if handler is not None:
                return handler
    return None
