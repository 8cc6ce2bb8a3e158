"""Which rule did what: the stack is built up one rule at a time, and every rule gets a row of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from attrs import define, field, frozen

from perfmod.verify.evidence import Equality, RuleRow, Speed, Verdict, Why
from perfmod.verify.proving import Candidate, Prover
from perfmod.verify.sides import Side
from perfmod.verify.stacks import SPREADING, Rewriting, Stack, prefixes


def attribute(stack: Stack, judge: Callable[[Sequence[Stack]], Sequence[Equality]]) -> Stack:
    """The rules of `stack` that keep the training the same, together.

    They are added one at a time; one that spoils it is dropped, and the others go on without it. All stacks of a
    pass are judged together, because their runs can go on side by side: one pass, and another for every dropped rule.
    """
    kept: Stack = ()
    rest = stack
    while rest:
        grown = [(*kept, *prefix) for prefix in prefixes(rest)]
        for code, equality in zip(rest, judge(grown), strict=True):
            rest = rest[1:]
            if equality.verdict is not Verdict.PROVEN:
                break
            kept = (*kept, code)
    return kept


@frozen
class Timed:
    """What a rule brought when it was added to those before it."""

    code: str
    speed: Speed


@define
class StackJudge:
    """The stacks of one rewriting, compared with one original.

    Attributes:
        judged: the verdict on every stack so far.
    """

    rewriting: Rewriting
    prover: Prover
    judged: dict[Stack, Equality] = field(factory=dict)

    @property
    def whole(self) -> Stack:
        """All rules that changed something."""
        return self.rewriting.stack

    def candidate(self, stack: Stack) -> Candidate:
        """A stack as something to be judged."""
        original = self.prover.original
        root = original.tree.root
        new = self.rewriting.replacements(stack)
        # What lies outside of the tree is not there for a run, and only changes along with something that is.
        files = {path.relative_to(root): data for path, data in new.items() if path.is_relative_to(root)}
        request = self.prover.lab.request
        nproc = request.nproc if not request.spread or SPREADING & {*stack} else None
        side = Side("+".join(stack), original.tree, original.script, files, nproc)
        return Candidate(side, self.rewriting.numerics(stack))

    def side(self, stack: Stack) -> Side:
        """The files under a stack."""
        return self.candidate(stack).side

    def judge(self, stacks: Sequence[Stack]) -> list[Equality]:
        """Verdicts on stacks; each is run once."""
        new = [stack for stack in stacks if stack not in self.judged]
        if new:
            self.judged.update(zip(new, self.prover.judge([self.candidate(stack) for stack in new]), strict=True))
        return [self.judged[stack] for stack in stacks]

    def keep(self, *, quick: bool) -> Stack:
        """The rules that keep the training the same together; `quick` asks for single rules only in trouble."""
        if quick and self.judge([self.whole])[0].verdict is Verdict.PROVEN:
            return self.whole
        kept = attribute(self.whole, self.judge)
        return self.whole if self.judged[self.whole].verdict is Verdict.PROVEN else kept

    def rows(self, kept: Collection[str], timed: Collection[Timed], why: Why | None) -> tuple[RuleRow, ...]:
        """A row for every rule of the whole stack.

        Args:
            kept: the rules of the final stack.
            timed: what single rules brought.
            why: the synchronisations that went.
        """
        speeds = {each.code: each.speed for each in timed}
        names = self.rewriting.names()
        return tuple(self._row(code, names[code], code in kept, speeds.get(code), why) for code in self.whole)

    def _row(self, code: str, name: str, kept: bool, speed: Speed | None, why: Why | None) -> RuleRow:
        equality = self._equality(code)
        gone = [row for row in why.syncs if row.rules[:1] == (code,) and row.after < row.before] if why else []
        reason = "" if kept or equality.verdict is Verdict.PROVEN else equality.reason
        if speed is not None and speed.verdict is Verdict.REFUTED:
            reason = reason or speed.reason
        return RuleRow(
            code=code,
            name=name,
            numerics=self.rewriting.numerics((code,)).value,
            lines=self.rewriting.lines(code, self.prover.original.tree.root),
            equality=equality.verdict,
            ratio=speed.ratio if speed else None,
            low=speed.low if speed else None,
            high=speed.high if speed else None,
            syncs_removed=sum(row.before - row.after for row in gone) if why else None,
            sync_ms_removed=sum(row.before_ms - row.after_ms for row in gone) if why else None,
            withdrawn=not kept,
            reason=reason,
            fingerprints=self.rewriting.fingerprints(code),
        )

    def _equality(self, code: str) -> Equality:
        """The verdict on the stack that the rule was added to last; else on the whole."""
        added = [equality for stack, equality in self.judged.items() if stack[-1] == code]
        return added[-1] if added else self.judged[self.whole]
