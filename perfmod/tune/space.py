"""All that may be tried with a script."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from attrs import define, field

from perfmod.codemods.results import Withheld
from perfmod.selection import rules_for
from perfmod.transforms.finding import Family, Numerics, Place, Safety
from perfmod.transforms.policy import MOST_WORKERS, CompileMode
from perfmod.tune.stack import COMPILE, ON_THE_DEVICE, WORKERS, Stack
from perfmod.verify.stacks import Rewriting

_OTHER_WORKERS = (2, 4, 16)


def not_now(places: Iterable[Place]) -> dict[Place, Withheld]:
    """Findings to leave out."""
    return {place: Withheld("a run decided against it") for place in places}


@define
class Space:
    """The stacks of a script.

    Attributes:
        usual: everything that is proposed, with nothing chosen otherwise.
        examine: what is proposed with other choices.
        withheld: findings that runs of the original have decided against; they are not part of `usual`.
        processors: that loaders may use.
        patient: whether the training is long enough for what takes minutes to compile.
    """

    usual: Rewriting
    examine: Callable[[Stack], Rewriting]
    withheld: tuple[Place, ...] = ()
    processors: int = MOST_WORKERS
    patient: bool = False
    _proposed: dict[Stack, Rewriting] = field(factory=dict, init=False)
    _made: dict[Stack, Rewriting] = field(factory=dict, init=False)

    @property
    def codes(self) -> tuple[str, ...]:
        """The rules that have something to write."""
        return self.usual.stack

    def numerics(self, codes: Collection[str]) -> Numerics:
        """How far results may lie apart under some rules."""
        return self.usual.numerics(codes)

    def within(self, widest: Numerics) -> frozenset[str]:
        """The rules that lie within a class."""
        return frozenset(code for code in self.codes if self.numerics((code,)).is_within(widest))

    @property
    def feeding(self) -> frozenset[str]:
        """The rules whose gain shows only together with the loader."""
        cards = {rule.code: rule for each in self.usual.files for rule in rules_for(each.file.settings)[0]}
        return frozenset(code for code in self.codes if cards[code].family is Family.FEEDING or code == ON_THE_DEVICE)

    @property
    def harmless(self) -> frozenset[str]:
        """The rules that are written by default, all of whose findings are safe: they need not pay for themselves."""
        doubtful = {code for _, (code, safety) in self._findings() if safety is not Safety.SAFE}
        return frozenset(self.codes) - doubtful

    def _findings(self) -> Sequence[tuple[str, tuple[str, Safety]]]:
        return [(path, (finding.code, finding.safety)) for path, finding in self.usual.findings]

    def modes(self, codes: Collection[str]) -> tuple[CompileMode, ...]:
        """In which models may be compiled, the likeliest first; one that does not matter where none is compiled."""
        if COMPILE not in codes:
            return (CompileMode.DEFAULT,)
        found = [mode for mode in CompileMode if self.patient or mode is not CompileMode.MAX_AUTOTUNE]
        return tuple(mode for mode in found if COMPILE in self.rewriting(Stack.of(codes, mode)).stack)

    def with_other_workers(self, stack: Stack) -> list[Stack]:
        """The same with other numbers of workers that this machine has processors for."""
        if WORKERS not in stack.codes:
            return []
        numbers = [number for number in _OTHER_WORKERS if number <= self.processors]
        others = [Stack.of(stack.codes, stack.compile_mode, number) for number in numbers]
        own = self.rewriting(stack).replacements(stack.codes)
        return [other for other in others if self.rewriting(other).replacements(other.codes) != own]

    def rewriting(self, stack: Stack) -> Rewriting:
        """The files under a stack."""
        if stack not in self._made:
            self._made[stack] = self._proposals(stack.parameters).restricted(stack.codes)
        return self._made[stack]

    def effective(self, stack: Stack) -> Stack:
        """A stack without the rules that write nothing in it, because another one replaces what they would improve."""
        return stack.under(self.rewriting(stack).stack)

    def _proposals(self, parameters: Stack) -> Rewriting:
        if parameters == Stack():
            return self.usual
        if parameters not in self._proposed:
            self._proposed[parameters] = self.examine(parameters).without(not_now(self.withheld))
        return self._proposed[parameters]
