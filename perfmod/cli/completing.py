"""What the shell may complete: rules by code, name and family. Only imported things that a completion needs."""

from __future__ import annotations


def rules(incomplete: str) -> list[tuple[str, str]]:
    """Codes and names of rules that go on with what was typed, each with its other name.

    In a list such as `PM101,PM2` its last entry is completed, as the shell replaces the whole word.
    """
    from perfmod.memory import cards

    before, comma, _ = incomplete.rpartition(",")
    known = cards(use_cache=True)
    pairs = [(rule.code, rule.name) for rule in known] + [(rule.name, rule.code) for rule in known]
    return [(f"{before}{comma}{word}", other) for word, other in pairs]
