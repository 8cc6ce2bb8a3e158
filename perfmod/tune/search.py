"""Looks for the fastest stack of a class with few trials.

Settings interact: mixed precision alone may slow down a step that it halves together with another layout of memory. So
whole stacks are tried first, and then each member of the fastest one is taken out again: it stays if the step is slower
without it. Rules that are written by default may stay for nothing, others have to pay.

A process may be faster or slower than the next one of the same code, so that stacks which lie close to the fastest are
timed in further processes before one of them is chosen.

Steps are timed with batches at hand, because the noise of a loader on shared processors is larger than most effects.
Rules that feed the step are then judged with the loader as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import define, evolve, field, frozen

from perfmod.profile.breakdown import Bound
from perfmod.transforms.finding import Numerics
from perfmod.transforms.policy import CompileMode
from perfmod.tune.space import Space
from perfmod.tune.stack import COMPILE, RECORDED, Stack

PAYS: Final = 1.01
"""Ratio from which on a member is worth its line."""
MOVES: Final = 1.02
"""Ratio from which on another stack is believed to be faster: fresh processes differ by as much."""
NEAR: Final = 0.9
"""Share of the fastest one's gain from which on a stack is close to it."""
PROCESSES: Final = 2
"""Of a stack that is close to the fastest one."""
NO_TIME: Final = "not tried within --budget"
_FORMATS: Final = frozenset({"PM301", "PM305"})
"""Rules that change formats of numbers and memory; they pay together or not at all."""


@frozen
class Trial:
    """A stack that was timed, or could not be.

    Attributes:
        at_hand: whether batches were at hand.
        ms, original_ms: of a step, and of the original's beside it; None where there is no time.
        reason: why there is none.
        compile_seconds: spent with compiling.
        peak_mib: of the device's memory, at most.
        processes: that it was timed in; times are geometric means of theirs.
    """

    stack: Stack
    at_hand: bool
    ms: float | None = None
    original_ms: float | None = None
    reason: str = ""
    compile_seconds: float = 0.0
    peak_mib: float | None = None
    processes: int = 1

    @property
    def ratio(self) -> float:
        """How many times as fast as the original; 0.0 without a time."""
        return self.original_ms / self.ms if self.ms and self.original_ms else 0.0

    def gain(self, steps: int | None) -> float:
        """The same over so many steps of a training, with the time that compiling takes; over very many for None."""
        if not (steps and self.ms and self.original_ms):
            return self.ratio
        return self.original_ms / (self.ms + 1000.0 * self.compile_seconds / steps)


def pooled(before: Trial, further: Trial) -> Trial:
    """A stack that was timed once more; one that cannot be timed again has no time."""
    if not (before.ms and before.original_ms and further.ms and further.original_ms):
        return further if before.ms else before
    share = further.processes / (before.processes + further.processes)
    return evolve(
        further,
        ms=_mean(before.ms, further.ms, share),
        original_ms=_mean(before.original_ms, further.original_ms, share),
        compile_seconds=max(before.compile_seconds, further.compile_seconds),
        peak_mib=max(filter(None, (before.peak_mib, further.peak_mib)), default=None),
        processes=before.processes + further.processes,
    )


def _mean(first: float, second: float, share: float) -> float:
    return math.exp((1 - share) * math.log(first) + share * math.log(second))


Bench = Callable[[Sequence[Stack], bool], Sequence[Trial]]
"""Times stacks, with batches at hand or not, as far as the budget allows."""


@define
class Search:
    """One search.

    Attributes:
        bench: times stacks.
        bound: what the original's step mostly waits for.
        trials: by stack, and by whether batches were at hand.
        steps: that the training is planned for; None where compiling does not count.
    """

    space: Space
    bench: Bench
    bound: Bound = Bound.UNCLEAR
    trials: dict[tuple[Stack, bool], Trial] = field(factory=dict)
    steps: int | None = None

    def best(self, widest: Numerics) -> Stack:
        """The fastest stack of a class, as far as the budget allows to tell."""
        codes = self.space.within(widest)
        feeding, wanted = codes & self.space.feeding, codes - self.space.feeding
        stack = self._fastest(self._openings(codes))
        # What decides most comes first, because the budget may not last for all.
        fed = self._fed(stack.under(stack.codes - feeding), feeding) if self.bound is Bound.LOADER else None
        stack = self._lean(stack, wanted - self.space.harmless, True)
        stack = self._grown(stack, wanted)
        if fed is None:
            return self._fed(stack, feeding)
        return Stack.of(stack.codes - feeding | fed.codes & feeding, stack.compile_mode, fed.workers)

    def trimmed(self, stack: Stack) -> Stack:
        """Without what is written by default and slows this stack down."""
        harmless = stack.codes & self.space.harmless
        stack = self._lean(stack, harmless - self.space.feeding, True)
        return self._lean(stack, harmless & self.space.feeding, False)

    def has_left(self, widest: Numerics) -> bool:
        """Whether the budget did not last for all stacks of a class."""
        left = [trial.stack for trial in self.trials.values() if trial.reason == NO_TIME]
        return any(self.space.numerics(stack.codes).is_within(widest) for stack in left)

    def preferred(self, narrow: Stack, wide: Stack) -> Stack:
        """Of the best stacks of a class and of a wider one: the wider one's only if it is faster, beyond doubt."""
        at_hand = self.space.feeding.isdisjoint(narrow.codes | wide.codes)
        self._compared([narrow, wide], at_hand)
        if not (self._ratio(narrow, at_hand) and self._ratio(wide, at_hand)):
            # There was no time for that, and what is known of the step has to do.
            at_hand = not at_hand
            self._compared([narrow, wide], at_hand)
        is_faster = self._ratio(wide, at_hand) >= MOVES * self._ratio(narrow, at_hand)
        return wide if is_faster else narrow

    def _openings(self, codes: frozenset[str]) -> list[Stack]:
        """Stacks that are likely to be good, the likeliest first."""
        if not codes:
            return []
        plain = codes - _FORMATS
        compiled = [Stack.of(part, mode) for part in (codes, plain) for mode in self.space.modes(part)]
        eager = [Stack.of(part - {COMPILE}) for part in (codes, plain)]
        if self.bound is Bound.LAUNCHES and RECORDED not in codes:
            # Replayed graphs launch least; the whole step as one is faster than models of their own.
            compiled.sort(key=lambda stack: stack.compile_mode is not CompileMode.REDUCE_OVERHEAD)
        stacks = [*compiled[:1], *eager, *compiled[1:]]
        # A recorded step may be faster or fail altogether, whatever it is combined with.
        twins = [twin for stack in stacks for twin in (stack, stack.under(stack.codes - {RECORDED}))]
        return list(dict.fromkeys(twins))

    def _fastest(self, stacks: Sequence[Stack]) -> Stack:
        """Of the openings; those that lie so close together that another process would choose otherwise are as good."""
        trials = self._timed(stacks, True)
        best = max(trials, key=self._gain, default=None)
        return best.stack if best is not None and self._gain(best) >= MOVES else Stack()

    def _lean(self, stack: Stack, members: Iterable[str], at_hand: bool) -> Stack:
        """Without the members that do not pay."""
        own = [code for code in sorted(members) if code in stack.codes]
        without = {code: stack.under(stack.codes - {code}) for code in own}
        self._compared([stack, *without.values()], at_hand)
        whole = self._ratio(stack, at_hand)
        if not whole:
            return stack
        rest = {code: self._ratio(other, at_hand) for code, other in without.items()}
        idle = {code for code, ratio in rest.items() if whole < ratio * self._worth(code)}
        if not idle:
            return stack
        lean = stack.under(stack.codes - idle)
        self._compared([stack, lean], at_hand)
        whole = self._ratio(stack, at_hand)
        if self._ratio(lean, at_hand) * PAYS >= whole:
            return lean
        # Alone each does without the others; not all can do without all others.
        worst = max(idle, key=rest.__getitem__)
        return self._lean(without[worst], set(own) - {worst}, at_hand) if rest[worst] >= whole else stack

    def _worth(self, code: str) -> float:
        """How much slower a step has to be without a rule for the rule to stay."""
        return 1.0 / MOVES if code in self.space.harmless else PAYS

    def _grown(self, stack: Stack, codes: frozenset[str]) -> Stack:
        """With further rules, for as long as one pays."""
        further = [stack.under(stack.codes | {code}) for code in sorted(codes - stack.codes - {COMPILE})]
        trials = self._compared([stack, *further], True)[1:] if stack.codes else []
        best = max(trials, key=self._gain, default=None)
        if best is None or self._gain(best) < MOVES * self._ratio(stack, True):
            return stack
        return self._grown(best.stack, codes)

    def _fed(self, stack: Stack, feeding: frozenset[str]) -> Stack:
        """With the rules that feed the step, judged together with the loader."""
        if not feeding:
            return stack
        with_all = stack.under(stack.codes | feeding)
        without = stack.under(stack.codes - feeding)
        self._compared([with_all, without], False)
        if self._ratio(with_all, False) * MOVES < self._ratio(without, False):
            return without
        fed = self._lean(with_all, feeding - self.space.harmless, False)
        others = self.space.with_other_workers(fed)
        trials = [trial for trial in self._compared([fed, *others], False) if self._gain(trial)] if others else []
        enough = max(map(self._gain, trials), default=0.0) / MOVES
        # Each worker takes a processor and memory.
        good = [trial.stack for trial in trials if self._gain(trial) >= enough]
        return min(good, key=lambda stack: stack.workers, default=fed)

    def _timed(self, stacks: Sequence[Stack], at_hand: bool) -> list[Trial]:
        """The trials of stacks that write different code; each is timed once, if there is time."""
        stacks = list(dict.fromkeys(map(self.space.effective, stacks)))
        new = [stack for stack in stacks if (stack, at_hand) not in self.trials and stack != Stack()]
        self._take(new, at_hand)
        for stack in new:
            self.trials.setdefault((stack, at_hand), Trial(stack, at_hand, reason=NO_TIME))
        return [self.trials[stack, at_hand] for stack in stacks if stack != Stack()]

    def _compared(self, stacks: Sequence[Stack], at_hand: bool) -> list[Trial]:
        """The same, with those that lie close to the fastest timed in further processes."""
        trials = self._timed(stacks, at_hand)
        for count in range(1, PROCESSES):
            enough = NEAR * max((1.0, *map(self._gain, trials)))
            near = [trial for trial in trials if self._gain(trial) >= enough]
            self._take([trial.stack for trial in near if trial.processes == count and len(near) > 1], at_hand)
            trials = self._timed(stacks, at_hand)
        return trials

    def _take(self, stacks: Sequence[Stack], at_hand: bool) -> None:
        for trial in self.bench(stacks, at_hand) if stacks else ():
            key = trial.stack, at_hand
            self.trials[key] = pooled(self.trials[key], trial) if key in self.trials else trial

    def _ratio(self, stack: Stack, at_hand: bool) -> float:
        stack = self.space.effective(stack)
        return 1.0 if stack == Stack() else self._gain(self.trials[stack, at_hand])

    def _gain(self, trial: Trial) -> float:
        return trial.gain(self.steps)
