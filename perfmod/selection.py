"""What settings mean: the rules that run, and which of their findings may be applied."""

from __future__ import annotations

from collections.abc import Sequence

from perfmod.codemods import catalog
from perfmod.codemods.results import Choice
from perfmod.config import Options, Settings
from perfmod.errors import UsageMistake
from perfmod.roots import shown
from perfmod.transforms.card import Card
from perfmod.transforms.policy import Policy


def require(options: Options, known: Sequence[Card]) -> None:
    """Raise `UsageMistake` where the command line names a rule that is none of the `known` ones."""
    try:
        for selector in (*options.select, *options.extend_select, *options.ignore):
            catalog.require(selector, known)
    except catalog.SelectionError as error:
        raise UsageMistake(str(error)) from error


def rules_for(settings: Settings, known: Sequence[Card] | None = None) -> tuple[tuple[Card, ...], Choice]:
    """Those of the `known` rules (all) that run under `settings`, and what may be applied. Raises `UsageMistake`."""
    known = catalog.cards() if known is None else known
    try:
        rules = tuple(catalog.select(known, settings.select, settings.ignore, settings.extend_select))
    except catalog.SelectionError as error:
        raise UsageMistake(f"{shown(settings.origin or '')}: [tool.perfmod]: {error}") from error
    return rules, Choice(
        unsafe=settings.unsafe,
        opted_in=catalog.opted_in(known, (*settings.select, *settings.extend_select)),
        low_impact=settings.low_impact,
        proposing=settings.proposing,
        accepted=frozenset(settings.accepted),
        policy=Policy(settings.target),
    )
