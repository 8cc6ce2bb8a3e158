"""Stacks of rules: what the files become under some of the rules that change them, in the order of their codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from attrs import field, frozen

from perfmod.again import Answer, answered
from perfmod.codemods.results import Outcome, Withheld
from perfmod.errors import Failure
from perfmod.examined import Examined
from perfmod.selection import rules_for
from perfmod.task import Task
from perfmod.transforms.finding import Finding, Numerics, Place
from perfmod.withholding import without

Stack = tuple[str, ...]
"""Codes of rules, in ascending order."""

SPREADING = frozenset({"PM311"})
"""Codes of rules after which a script is started in several processes, and was in one before."""
_ORDER = list(Numerics)


@frozen
class Rewriting:
    """Files that some rules change, and what they become under a part of these rules.

    Attributes:
        examined: the files as they were examined with all rules, also those that stay.
    """

    examined: tuple[Examined, ...]
    _made: dict[tuple[int, Stack], Answer] = field(factory=dict, init=False, eq=False, repr=False)
    """Tasks with some of their rules, and their results; for tasks by their identity."""

    @classmethod
    def of(cls, examined: Sequence[Examined]) -> Rewriting:
        """What was found in files. Raises `Failure` for one that could not be examined."""
        for each in examined:
            if each.result.outcome is Outcome.FAILED:
                raise Failure(f"{each.result.path}: {each.result.reason}")
        return cls(tuple(examined))

    @property
    def files(self) -> tuple[Examined, ...]:
        """The changed ones."""
        return tuple(each for each in self.examined if each.result.outcome is Outcome.CHANGED)

    @property
    def findings(self) -> tuple[tuple[str, Finding], ...]:
        """Path as shown and finding, for all that was applied."""
        return tuple((each.result.path, finding) for each in self.examined for finding in each.result.applied)

    @property
    def stack(self) -> Stack:
        """All rules that changed something."""
        return tuple(sorted({finding.code for _, finding in self.findings}))

    def numerics(self, stack: Collection[str]) -> Numerics:
        """The widest class among the findings of the rules in `stack`."""
        classes = [finding.numerics for _, finding in self.findings if finding.code in stack]
        return max(classes, key=_ORDER.index, default=Numerics.BITWISE)

    def names(self) -> Mapping[str, str]:
        """Name of every rule in the stack, by code."""
        return {rule.code: rule.name for each in self.files for rule in rules_for(each.file.settings)[0]}

    def lines(self, code: str, root: Path) -> tuple[str, ...]:
        """Where findings of a rule were applied, as `train.py:12`, from the root of the tree."""
        places = (
            f"{_inside(each.file.real, root)}:{finding.line}"
            for each in self.examined
            for finding in each.result.applied
            if finding.code == code
        )
        return tuple(dict.fromkeys(places))

    def fingerprints(self, code: str) -> tuple[str, ...]:
        """The fingerprints of a rule's applied findings, each once."""
        return tuple(dict.fromkeys(finding.fingerprint for _, finding in self.findings if finding.code == code))

    def touched(self) -> dict[Path, dict[int, list[str]]]:
        """For every changed file the lines, from 1, that a rule rewrites, with the codes of these rules.

        A new file has none that could be rewritten.
        """
        found: dict[Path, dict[int, list[str]]] = {}
        stacks: list[Stack] = [(), *prefixes(self.stack)]
        versions = [{each.file.real: each.result.after for each in self.under(stack)} for stack in stacks]
        for real in (each.file.real for each in self.files if not each.result.is_new):
            lines = found.setdefault(real, {})
            texts = [_lines(version[real]) for version in versions]
            origin = list(range(1, len(texts[0]) + 1))
            for code, before, after in zip(self.stack, texts, texts[1:], strict=False):
                origin = _follow(origin, before, after, lines, code)
        return found

    def under(self, stack: Collection[str]) -> list[Examined]:
        """The files with the rules of `stack` alone; files that these leave as they are come back unchanged."""
        return [each for each in self._under(stack) if each.task is not None]

    def restricted(self, stack: Collection[str]) -> Rewriting:
        """The same with the rules of `stack` alone."""
        return Rewriting(tuple(self._under(stack)))

    def replacements(self, stack: Collection[str]) -> dict[Path, bytes]:
        """New bytes by real path, for the files that the rules of `stack` change."""
        changed = (each for each in self.under(stack) if each.result.outcome is Outcome.CHANGED)
        return {each.file.real: each.result.after for each in changed}

    def sparing(self, files: Collection[Path]) -> Rewriting:
        """The same without the findings in some files (real paths), which change only along with others then."""
        answers: dict[int, Answer] = {}
        for task in self.tasks():
            spared = task.sparing(
                {each.result.path for each in self.examined if each.task is task and each.file.real in files}
            )
            answers[id(task)] = spared, spared.run()
        return Rewriting(tuple(answered(self.examined, answers)))

    def without(self, withheld: Mapping[Place, Withheld]) -> Rewriting:
        """The same without some findings, which are reported with the reason instead."""
        if not withheld:
            return self
        return Rewriting(tuple(without(self.examined, withheld)))

    def _under(self, stack: Collection[str]) -> Sequence[Examined]:
        if set(self.stack) <= set(stack):
            return self.examined
        answers: dict[int, Answer] = {}
        for task in self.tasks():
            key = id(task), tuple(sorted(stack))
            if key not in self._made:
                part = task.under(stack)
                self._made[key] = part, part.run()
            answers[id(task)] = self._made[key]
        return answered(self.examined, answers)

    def tasks(self) -> Collection[Task]:
        """What the engine was asked, each once."""
        tasks = (each.task for each in self.examined)
        return {id(task): task for task in tasks if task is not None}.values()


def prefixes(stack: Stack) -> list[Stack]:
    """The stack as it grows, one rule at a time: `(a,)`, `(a, b)`, ... up to the whole."""
    return [stack[: length + 1] for length in range(len(stack))]


def _inside(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _lines(data: bytes) -> list[str]:
    # Without indentation: a loop that moved under a main guard is not rewritten by that.
    return [line.strip() for line in data.decode("utf-8", "replace").splitlines()]


def _follow(
    origin: list[int], before: list[str], after: list[str], lines: dict[int, list[str]], code: str
) -> list[int]:
    """Note the first text's lines that `code` rewrote; returns for each line after it the first text's line."""
    found: list[int] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if kind == "equal":
            found += origin[start:end]
            continue
        for line in dict.fromkeys(origin[start:end]):
            lines.setdefault(line, []).append(code)
        # Lines that were only added belong to the line above them.
        last = origin[max(start, end - 1)] if start < len(origin) else origin[-1]
        found += [origin[min(start + i, end - 1)] if start < end else last for i in range(new_end - new_start)]
    return found
