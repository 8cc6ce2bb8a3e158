"""What settings mean: the rules that run, in which files, and which of their findings may be applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from perfmod.codemods import catalog
from perfmod.codemods.results import Choice
from perfmod.config import Configurations, Options, Settings
from perfmod.config_table import Config
from perfmod.errors import UsageMistake
from perfmod.ignores import Patterns
from perfmod.transforms.card import Card
from perfmod.transforms.policy import Policy


def require(options: Options, known: Sequence[Card]) -> None:
    """Raise `UsageMistake` where the command line names a rule that is none of the `known` ones."""
    try:
        for selector in (*options.select, *options.extend_select, *options.ignore):
            catalog.require(selector, known)
    except catalog.SelectionError as error:
        raise UsageMistake(str(error)) from error


def require_configured(config: Config, known: Sequence[Card]) -> None:
    """Raise `UsageMistake` where a configuration names a rule that is none of the `known` ones."""
    for layer in config.layers:
        for key in ("select", "extend-select", "ignore", "per-file-ignores"):
            try:
                for selector in _selectors(layer.table.get(key, ())):
                    catalog.require(selector, known)
            except catalog.SelectionError as error:  # noqa: PERF203, the message names the file and the key
                raise UsageMistake(f'{layer.place} "{key}": {error}') from error


def _selectors(value: Any) -> Sequence[str]:  # noqa: ANN401
    if isinstance(value, Mapping):
        return [selector for rules in value.values() for selector in rules]
    return list(value)


def rules_for(settings: Settings, known: Sequence[Card] | None = None) -> tuple[tuple[Card, ...], Choice]:
    """Those of the `known` rules (all) that run under `settings`, and what may be applied. Raises `UsageMistake`."""
    known = catalog.cards() if known is None else known
    try:
        rules = tuple(catalog.select(known, settings.select, settings.ignore, settings.extend_select))
    except catalog.SelectionError as error:
        if settings.root is not None:
            require_configured(Configurations().config(settings.root), known)
        raise UsageMistake(str(error)) from error
    return rules, Choice(
        unsafe=settings.unsafe,
        opted_in=catalog.opted_in(known, (*settings.select, *settings.extend_select)),
        low_impact=settings.low_impact,
        proposing=settings.proposing,
        accepted=frozenset(settings.accepted),
        policy=Policy(
            settings.target,
            settings.workers,
            frozenset(settings.assume),
            settings.half_type,
            settings.compile_mode,
            settings.report_every,
        ),
    )


@frozen
class FileIgnores:
    """Which rules are not asked about which files."""

    _codes: tuple[tuple[Patterns, frozenset[str]], ...]

    @classmethod
    def of(cls, settings: Settings, known: Sequence[Card]) -> FileIgnores:
        """What `per-file-ignores` says of the `known` rules. Raises `UsageMistake`."""
        root = settings.root
        if root is None or not settings.per_file_ignores:
            return cls(())
        require_configured(Configurations().config(root), known)
        return cls(
            tuple(
                (
                    Patterns.of(root, [each.pattern]),
                    frozenset(card.code for card in known for rule in each.rules if catalog.matches(card, rule)),
                )
                for each in settings.per_file_ignores
            )
        )

    def codes(self, file: Path) -> tuple[str, ...]:
        """The codes of the rules that are not asked about a file (absolute), sorted."""
        return tuple(sorted({code for patterns, codes in self._codes if patterns.covers(file) for code in codes}))
