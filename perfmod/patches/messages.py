"""What is said of a patch: a subject, and a message as people write them for commits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from perfmod.patches.by import By
from perfmod.patches.parts import Applied, Part
from perfmod.report.wording import counted, figures
from perfmod.review.proofs import Proofs
from perfmod.review.words import proven
from perfmod.roots import shown
from perfmod.transforms.card import Card
from perfmod.transforms.rule import Rule

_WIDTH = 76
_EVERYTHING = "Rewrite training code for faster steps on CUDA"


@frozen
class Message:
    """One line, and paragraphs without a line feed at the end."""

    subject: str
    body: str

    @property
    def text(self) -> str:
        """Both, as git takes a message."""
        return f"{self.subject}\n\n{self.body}\n"


class Messages:
    """The messages of a series."""

    def __init__(self, rules: Sequence[Card], proofs: Proofs, root: Path) -> None:
        """`root` is what paths are told from."""
        self._cards = {card.code: card for card in rules}
        self._rules: dict[str, Rule] = {}
        self._proofs = proofs
        self._root = root

    def of(self, part: Part) -> Message:
        """The message of one patch."""
        return Message(self._subject(part), "\n\n".join(self._paragraphs(part)))

    def _subject(self, part: Part) -> str:
        codes = ", ".join(part.codes)
        if part.by is By.PROJECT:
            return f"{_EVERYTHING}: {counted(len(part.applied), 'rewrite')} ({codes})"
        if part.by in (By.FILE, By.OWNER) or len(part.codes) > 1:
            return f"{shown(part.label)}: {counted(len(part.applied), 'rewrite')} ({codes})"
        rule = self._rule(codes)
        where = f" ({self._place(part.applied[0])})" if len(part.applied) == 1 else ""
        return f"{rule.code} {rule.name}: {rule.fix_title}{where}"

    def _paragraphs(self, part: Part) -> Iterator[str]:
        for code in part.codes:
            rule = self._rule(code)
            yield _wrapped(f"{code} {rule.name}: {rule.summary}. {rule.fix_title}.")
            for one in part.applied:
                if one.finding.code == code:
                    yield "\n".join(self._told(one))
            yield _wrapped(f"When {code} changes results: {rule.changes_results}")
        yield "\n".join(self._trailers(part))

    def _told(self, one: Applied) -> Iterator[str]:
        finding = one.finding
        yield _wrapped(f"{self._place(one)}: {finding.message}")
        yield _wrapped(f"Why: {finding.reason}", indent="  ")
        results = f"{finding.numerics.words}{figures(finding)}"
        yield _wrapped(f"Numerics: {finding.numerics.value}: {results}", indent="  ")
        proof = self._proofs.of(finding)
        if proof is not None:
            yield _wrapped(f"Evidence: {proven(proof)}", indent="  ")

    def _trailers(self, part: Part) -> Iterator[str]:
        for owner in part.owners:
            yield f"Perfmod-Owner: {shown(owner)}"
        for one in part.applied:
            yield f"Perfmod-Finding: {self._name(one)} {one.finding.code} {one.finding.fingerprint}"

    def _place(self, one: Applied) -> str:
        cell = "" if one.finding.cell is None else f"cell {one.finding.cell}:"
        return f"{self._name(one)}:{cell}{one.finding.line}"

    def _name(self, one: Applied) -> str:
        return shown(one.each.file.real.relative_to(self._root).as_posix())

    def _rule(self, code: str) -> Rule:
        return self._rules.setdefault(code, self._cards[code].load())


def _wrapped(text: str, indent: str = "") -> str:
    """A paragraph of lines that are not broken within words, which may be paths or code."""
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}  " if indent else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
