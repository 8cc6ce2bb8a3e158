"""What is said of a patch: a subject, and a message as people write them for commits."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from perfmod.patches.by import By
from perfmod.patches.parts import Applied, Part
from perfmod.review.items import Proof
from perfmod.review.proofs import Proofs
from perfmod.roots import shown
from perfmod.transforms.card import Card
from perfmod.transforms.finding import Numerics
from perfmod.transforms.rule import Rule

_WIDTH = 76
_NUMERICS = {
    Numerics.BITWISE: "results are equal in every bit",
    Numerics.ROUNDING: "the same mathematics in another order of operations, so results may differ by a rounding",
    Numerics.SAMPLING: "the same distribution, with other random draws",
    Numerics.PRECISION: "other number formats or kernels, so results may differ by more than a rounding",
    Numerics.BEHAVIOURAL: "the training itself changes",
}


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
        if part.by in (By.FILE, By.OWNER) or len(part.codes) > 1:
            count = len(part.applied)
            return f"{shown(part.label)}: {count} {'rewrite' if count == 1 else 'rewrites'} ({codes})"
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
        figures = "; printed values may differ in the last digits" if finding.figures_may_differ else ""
        yield _wrapped(f"Numerics: {finding.numerics.value}: {_NUMERICS[finding.numerics]}{figures}", indent="  ")
        proof = self._proofs.of(finding)
        if proof is not None:
            yield _wrapped(f"Evidence: {_evidence(proof)}", indent="  ")

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


def _evidence(proof: Proof) -> str:
    words = [proof.verdict]
    if proof.ratio is not None:
        interval = f" ({proof.low:.2f} to {proof.high:.2f})" if proof.low is not None and proof.high is not None else ""
        words.append(f"a step took {proof.ratio:.2f} times as long before{interval}")
    if proof.syncs_removed:
        words.append(f"{proof.syncs_removed:g} fewer synchronisations per step")
    words.append(proof.where)
    stale = "; the code has changed since" if proof.is_stale else ""
    return f"{', '.join(filter(None, words))} [{proof.source}]{stale}"


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
