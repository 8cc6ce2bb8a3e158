"""Tiny rules over calls of made-up functions, one for each thing that can become of a finding.

They let the tests of the command line run without real rules: `python -m cli_fakes` is `perfmod` with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import libcst as cst
import libcst.matchers as m

from perfmod.codemods import catalog
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Question, Safety, Status
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question


class _CallRule(Rule):
    """Renames every call of `slow` to `fast`, or refuses to where `fast` is empty."""

    family = Family.SYNCS
    summary = "a slow call"
    fix_title = "Call the fast function"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "2.1"
    status = Status.STABLE
    references = ("https://example.org/slow-calls",)
    changes_results = "Never: both functions are made up."
    slow: ClassVar[str]
    fast: ClassVar[str]
    needed: ClassVar[tuple[str, ...]] = ()
    """Modules that the rewrite imports."""
    figures_may_differ: ClassVar[bool] = False
    predicate: ClassVar[Predicate | None] = None
    """What is asked about the first argument, where there is one."""

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for call in m.findall(file.source.module, m.Call(func=m.Name(self.slow))):
            assert isinstance(call, cst.Call)
            if self.fast:
                edit = Edit(*file.source.span(call.func), self.fast)
                yield self.found(
                    file,
                    call,
                    "the fast one does the same",
                    [edit],
                    imports=self.needed,
                    figures_may_differ=self.figures_may_differ,
                    questions=self._asked(file, call),
                )
            else:
                yield self.refused(file, call, "its result is used on line 41")

    def _asked(self, file: FileFacts, call: cst.Call) -> list[Question]:
        if self.predicate is None:
            return []
        return [question(file, self.predicate, arg.value, watchable=True) for arg in call.args[:1]]


class SlowCall(_CallRule):
    """Safe."""

    code = "PM901"
    name = "slow-call"
    slow = "torch_slow"
    fast = "torch_fast"
    triggers = frozenset({slow})


class RiskyCall(_CallRule):
    """An open question about what is called."""

    code = "PM902"
    name = "risky-call"
    safety = Safety.UNSAFE
    predicate = Predicate.IS_SCALAR
    slow = "torch_risky"
    fast = "torch_brave"
    triggers = frozenset({slow})


class OptionalCall(_CallRule):
    """On request; shown figures may differ."""

    code = "PM903"
    name = "optional-call"
    safety = Safety.OPT_IN
    numerics = Numerics.PRECISION
    slow = "torch_optional"
    fast = "torch_chosen"
    figures_may_differ = True
    triggers = frozenset({slow})


class KeptCall(_CallRule):
    """Left as it is."""

    code = "PM904"
    name = "kept-call"
    slow = "torch_kept"
    fast = ""
    triggers = frozenset({slow})


class EndlessCall(_CallRule):
    """Never done; says so by writing its process id to the file that `CLI_FAKES_PID_FILE` names."""

    code = "PM905"
    name = "endless-call"
    slow = "torch_endless"
    fast = ""
    triggers = frozenset({slow})

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for finding in super().check(file):
            whole = Path(os.environ["CLI_FAKES_PID_FILE"])
            begun = whole.with_name(f"{whole.name}.{os.getpid()}")
            begun.write_text(f"{os.getpid()}\n")
            begun.replace(whole)  # another worker writes the same file
            time.sleep(600)
            yield finding


class BusyCall(_CallRule):
    """Takes half a minute, in Python all the time."""

    code = "PM907"
    name = "busy-call"
    slow = "torch_busy"
    fast = ""
    triggers = frozenset({slow})

    def check(self, file: FileFacts) -> Iterator[Finding]:
        for finding in super().check(file):
            end = time.monotonic() + 30
            while time.monotonic() < end:
                pass
            yield finding


class TwiceCall(_CallRule):
    """Safe, and what it writes is rewritten once more."""

    code = "PM908"
    name = "twice-call"
    slow = "torch_twice"
    fast = "torch_slow"
    triggers = frozenset({slow})


class MinorCall(_CallRule):
    """Safe and of low impact."""

    code = "PM909"
    name = "minor-call"
    safety = Safety.LOW_IMPACT
    slow = "torch_minor"
    fast = "torch_major"
    triggers = frozenset({slow})


class FarCall(_CallRule):
    """Safe without arguments, and renames the function in the file that defines it, along with its calls elsewhere."""

    code = "PM906"
    name = "far-call"
    slow = "torch_far"
    fast = "torch_near"
    triggers = frozenset({slow})

    def check(self, file: FileFacts) -> Iterator[Finding]:
        places = {source.path: source for source in file.world.files}
        for call in m.findall(file.source.module, m.Call(func=m.Name(self.slow))):
            assert isinstance(call, cst.Call)
            named = m.Name(self.slow)
            function = m.FunctionDef(name=named)
            edits = [
                Edit(*source.span(node), self.fast, path)
                for path, source in places.items()
                for definition in m.findall(source.module, function | m.Call(func=named) | m.ImportAlias(name=named))
                for node in m.findall(definition, named)
            ]
            if any(m.findall(source.module, function) for source in places.values()):
                safety = Safety.UNSAFE if call.args else Safety.SAFE
                reason = "the fast one may not take arguments" if call.args else "the fast one does the same"
                yield self.found(file, call, reason, edits, safety=safety)
            else:
                yield self.refused(file, call, f"`{self.slow}` is not in sight")


RULES = (
    SlowCall(),
    RiskyCall(),
    OptionalCall(),
    KeptCall(),
    EndlessCall(),
    FarCall(),
    BusyCall(),
    TwiceCall(),
    MinorCall(),
)


def install() -> None:
    """Let the catalogue of this process hold these rules and no others."""
    vars(catalog)["rules"] = lambda: RULES
