"""What a reviewer has to know about an item, in words, for the terminal and for messages of commits."""

from __future__ import annotations

from perfmod.report.rows import State
from perfmod.report.wording import figures
from perfmod.review.items import Item, Proof
from perfmod.transforms.finding import Numerics

OUTCOMES = {
    State.LOW_IMPACT: "low impact: as safe, and worth little",
    State.QUESTION: "open question: right if the answer is yes",
    State.ON_REQUEST: "on request: off by default",
}
"""What is told of rewrites that are not made by default."""


def results(item: Item) -> str:
    """What becomes of results under the rewrite."""
    return f"{Numerics(item.finding.numerics).words}{figures(item.finding)}"


def proven(proof: Proof) -> str:
    """What a verification found."""
    parts = [f"training {proof.verdict}"]
    if proof.ratio is not None:
        is_known = proof.low is not None and proof.high is not None
        interval = f" ({proof.low:.2f} to {proof.high:.2f})" if is_known else ""
        rules = f", all of {', '.join(proof.together)} together" if proof.together else ""
        parts.append(f"step {proof.ratio:.2f}x as fast{interval}{rules}")
    if proof.syncs_removed:
        parts.append(f"{proof.syncs_removed:g} fewer synchronisations per step")
    stale = "; the code has changed since" if proof.is_stale else ""
    return f"{', '.join(parts)}, on {proof.where}{stale} [{proof.source}]"


def title(item: Item) -> str:
    """Place, rule and name."""
    return f"{item.finding.place} {item.finding.code} {item.finding.name}"
