"""Answers to questions that may depend on each other, and on themselves: `x = f(x)`.

What a name holds depends on its definitions, a parameter on the calls in sight, a call on what is called; code is full
of circles of these. A question that is asked again while it is being answered gets its kind's provisional answer. What
was computed from such an answer is provisional as well: all questions of a circle (a strongly connected component of
the graph of questions, found as Tarjan's algorithm does) are answered anew in rounds, each round from the answers of
the one before and the first from the provisional ones, until none of them changes. Only then are they kept. So no
answer depends on which question of a circle was asked first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from attrs import define, field

from perfmod.transforms.work import spend

Key = TypeVar("Key")
Answer = TypeVar("Answer")

# How many questions may wait for each other on Python's stack; every one of them takes about eight of its frames.
_DEPTH = 50
# What a question costs each time that it is computed, in units of work.
_QUESTION = 20
# How often an answer may change in rounds before it is taken for one that never settles.
_CHANGES = 8
_UNANSWERED: Any = object()
# And before the answer that it has then is kept, where no other is right in any case.
_MOST_CHANGES = 40


class _TooDeep(BaseException):
    """Python's stack is to be left: the question on top of the solver's own is to be answered first."""


@define(eq=False)
class _Pending(Generic[Key, Answer]):
    """A question without a final answer.

    Attributes:
        answer: the provisional one.
        place: where it stands on the stack of such questions.
        low: the lowest place of one that it depends on, as far as is known.
        is_circular: whether it was asked while it stood there.
        dependents: the questions that asked it since the rounds began.
        changes: how often the answer changed since then.
    """

    kind: Questions[Key, Answer]
    key: Key
    answer: Answer
    place: int
    low: int
    is_circular: bool = False
    dependents: dict[_AnyPending, None] = field(factory=dict)
    changes: int = 0


_AnyPending = _Pending[Any, Any]


class Questions(Generic[Key, Answer]):
    """Questions of one kind."""

    def __init__(
        self, solver: Solver, compute: Callable[[Key], Answer], provisional: Answer, *, may_give_up: bool = False
    ) -> None:
        """Questions that `compute` answers.

        Args:
            solver: what they share with all questions that they depend on.
            compute: gives the answer to a question, and may ask others. It is called again for the same question, so it
                may leave nothing behind but what depends on no answer.
            provisional: what a question is answered that depends on itself, at first.
            may_give_up: whether that is right in any case, and the answer where rounds would not come to an end.
        """
        self._solver = solver
        self.compute = compute
        self.provisional = provisional
        self.may_give_up = may_give_up
        self.final: dict[Key, Answer] = {}
        self.pending: dict[Key, _Pending[Key, Answer]] = {}

    def __call__(self, key: Key) -> Answer:
        """The answer to a question."""
        known = self.final.get(key, _UNANSWERED)
        return known if known is not _UNANSWERED else self._solver.answer(self, key)


class Solver:
    """Answers questions of several kinds that may depend on each other."""

    def __init__(self) -> None:
        # Questions without a final answer, and those of them that are being computed, the outermost first.
        self._stack: list[_AnyPending] = []
        self._open: list[_AnyPending] = []
        self._asker: _AnyPending | None = None
        self._depth = 0

    def answer(self, kind: Questions[Key, Answer], key: Key) -> Answer:
        """The answer to a question that has no final one yet."""
        asker, pending = self._asker, kind.pending.get(key)
        if pending is None:
            pending = _Pending(kind, key, kind.provisional, len(self._stack), len(self._stack))
            kind.pending[key] = pending
            self._stack.append(pending)
            self._open.append(pending)
            if asker is None:
                self._run()
                return kind.final[key]
            if self._depth >= _DEPTH:
                raise _TooDeep
            self._compute(pending)
            if key in kind.final:
                return kind.final[key]
        else:
            pending.is_circular = True
        assert asker is not None
        asker.low = min(asker.low, pending.low)
        pending.dependents[asker] = None
        return pending.answer

    def _run(self) -> None:
        """Answer all questions on the stack.

        What is too deep for Python's stack is computed from the bottom of it; those that wait for it are begun again.
        """
        try:
            while self._open:
                self._asker, self._depth = None, 0
                try:
                    self._compute(self._open[-1])
                except _TooDeep:
                    continue
        finally:
            for pending in self._stack:
                del pending.kind.pending[pending.key]
            self._stack.clear()
            self._open.clear()
            self._asker, self._depth = None, 0

    def _compute(self, pending: _Pending[Key, Answer]) -> None:
        """Answer the last of the open questions; for good where it depends on none below it on the stack."""
        pending.answer = self._asked_by(pending)
        if pending.low == pending.place:
            if pending.is_circular or len(self._stack) > pending.place + 1:
                self._settle(pending)
            if pending.low == pending.place:
                for each in self._stack[pending.place :]:
                    each.kind.final[each.key] = each.answer
                    del each.kind.pending[each.key]
                del self._stack[pending.place :]
        self._open.pop()

    def _asked_by(self, pending: _Pending[Key, Answer]) -> Answer:
        """What is computed for a question from what is known now."""
        spend(_QUESTION)
        outer, self._asker = self._asker, pending
        self._depth += 1
        answer = pending.kind.compute(pending.key)
        self._depth -= 1
        self._asker = outer
        return answer

    def _settle(self, root: _Pending[Key, Answer]) -> None:
        """Answer the questions from `root` on in rounds.

        A round may come upon further questions, with which they begin again; or upon one below `root`, whose circle is
        a larger one: that is left to the question with which it begins.
        """
        size = 0
        while size < len(self._stack) - root.place and root.low == root.place:
            circle = self._stack[root.place :]
            size = len(circle)
            for each in circle:
                each.answer, each.changes, each.low = each.kind.provisional, 0, root.place
                each.dependents.clear()
            self._go_round(root, circle)

    def _go_round(self, root: _Pending[Key, Answer], circle: list[_AnyPending]) -> None:
        due, size = circle, len(self._stack)
        while due and len(self._stack) == size:
            found = []
            for each in due:
                found.append((each, self._asked_by(each)))
                root.low = min(root.low, each.low)
            if root.low < root.place:
                return
            again: dict[_AnyPending, None] = {}
            for each, answer in found:
                if answer != each.answer:
                    each.changes += 1
                    gives_up = each.changes > _CHANGES and each.kind.may_give_up
                    each.answer = each.kind.provisional if gives_up else answer
                    again |= each.dependents
            due = [each for each in again if each.changes <= (_CHANGES if each.kind.may_give_up else _MOST_CHANGES)]
