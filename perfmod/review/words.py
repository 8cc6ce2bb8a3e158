"""What a reviewer has to know about an item, in words. For the terminal; the page has its own layout of the same."""

from __future__ import annotations

from perfmod.report.rows import State
from perfmod.review.items import Item, Proof

NUMERICS = {
    "bitwise": "nothing: losses, gradients and parameters keep their bits",
    "rounding": "the order of operations: results may differ by rounding",
    "sampling": "the random numbers drawn: the same distribution",
    "precision": "number formats or kernels: results may differ slightly",
    "behavioural": "the training itself",
}
"""What differs after a rewrite, by its numerics class."""
OUTCOMES = {
    State.LOW_IMPACT: "low impact: as safe, and worth little",
    State.QUESTION: "open question: right if the answer is yes",
    State.ON_REQUEST: "on request: off by default",
}
"""What is told of rewrites that are not made by default."""


def differs(item: Item) -> str:
    """What may differ after the rewrite."""
    figures = "; printed values may differ in the last digits" if item.finding.figures_may_differ else ""
    return f"{NUMERICS[item.finding.numerics]}{figures}"


def proven(proof: Proof) -> str:
    """What a verification found."""
    parts = [f"training {proof.verdict}"]
    if proof.ratio is not None:
        interval = "" if proof.low is None else f" ({proof.low:.2f} to {proof.high:.2f})"
        parts.append(f"step {proof.ratio:.2f}x{interval}")
    if proof.syncs_removed:
        parts.append(f"{proof.syncs_removed:g} synchronisations per step gone")
    stale = "; the code has changed since" if proof.is_stale else ""
    return f"{', '.join(parts)}, on {proof.where}{stale} [{proof.source}]"


def title(item: Item) -> str:
    """Place, rule and name."""
    return f"{item.finding.place} {item.finding.code} {item.finding.name}"
