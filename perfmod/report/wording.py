"""What is said of a finding in the same words wherever it is printed."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten

from perfmod.report.rows import FindingRow, QuestionRow, State
from perfmod.transforms.finding import Family, Finding
from perfmod.transforms.questions import in_words

_LONGEST = 50
"""Characters of an expression that a question repeats."""


def because(row: FindingRow) -> str:
    """What follows the outcome: how far results may move or what to add to the command line, and why."""
    return f"{_how(row)}: {row.reason}{figures(row)}{along(row)}{_caveat(row)}"


def sentences(row: FindingRow) -> str:
    """What is wrong there; then what becomes of it, and why."""
    return f"{row.message}. {row.state.words.capitalize()}{because(row)}"


def along(row: FindingRow) -> str:
    """The other files that are rewritten or made, or would be."""
    others = of_others(row)
    return f" ({others})" if others else ""


def of_others(row: FindingRow) -> str:
    """What it does to other files than its own: `also changes engine.py and makes graphed_step.py`; mostly empty."""
    changed = [path for path in row.elsewhere if path not in row.makes]
    done = [f"{verb} {_listed(paths)}" for verb, paths in (("changes", changed), ("makes", row.makes)) if paths]
    return f"also {' and '.join(done)}" if done else ""


def _listed(paths: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(paths[:-1]), paths[-1])))


def in_question(question: QuestionRow) -> str:
    """What is open about a rewrite, as what has to be so: `` `loss` is a tensor without dimensions ``."""
    expression = shorten(question.expression, _LONGEST, placeholder=" …")
    return f"`{expression}` {in_words(question.predicate)}"


def counted(number: int, noun: str, nouns: str = "") -> str:
    """A number of things: `1 file`, `2 files`; `nouns` where the plural has no plain s."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def _how(row: FindingRow) -> str:
    """How far results may move, or what has to be added to the command line."""
    told = row.numerics if row.state is State.REWRITTEN else row.flag
    return f" ({told})" if told else ""


def _caveat(row: FindingRow) -> str:
    """A synchronisation costs only where a step runs it; a loader is built outside of the step anyway."""
    unseen = row.family is Family.SYNCS and not row.step_in_sight and row.state is not State.LEFT
    return "; outside of the training steps that perfmod found" if unseen else ""


def figures(row: FindingRow | Finding) -> str:
    """What a rewrite leaves as it was but for a rounding: never the training."""
    return "; printed values may differ in the last digits" if row.figures_may_differ else ""
