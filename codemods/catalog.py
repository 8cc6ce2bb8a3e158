"""Finds the rules, and selects among them by code, name, prefix or family."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar, get_origin

from perfmod.transforms.card import Card
from perfmod.transforms.finding import Family

if TYPE_CHECKING:
    from perfmod.transforms.rule import Rule

Kind = TypeVar("Kind", "Rule", Card)

ALL = "ALL"
PRESETS: Mapping[str, frozenset[str]] = {
    "fast": frozenset({"PM301", "PM302", "PM303", "PM304", "PM305", "PM306", "PM309", "PM315"}),
}
"""Rules on request that are selected together by one name. `fast`: formats of numbers and memory, compilation, fused
kernels, and data on the device."""


class SelectionError(Exception):
    """A selector that no rule answers to; the message is one line and names the nearest right one."""


def rules() -> list[Rule]:
    """Every rule, sorted by code: the subclasses of `Rule` in the modules of the families' packages."""
    return [kind() for kind in _rule_types()]


def cards() -> tuple[Card, ...]:
    """What is known of every rule without its code, sorted by code."""
    return tuple(rule.card for rule in rules())


def select(
    known: Sequence[Kind], select: Sequence[str] | None, ignore: Sequence[str], extend: Sequence[str] = ()
) -> list[Kind]:
    """Those of the `known` rules that `select` names (all, if there is none) and `ignore` does not, and `extend`.

    A selector is a code (`PM101`), the start of one (`PM1`), a name (`masked-loss`), a family (`syncs`), a preset
    (`fast`) or `ALL`.

    Raises:
        SelectionError: a selector that names no rule.
    """
    wanted: tuple[str, ...] = tuple(select or (ALL,))
    for selector in (*wanted, *ignore, *extend):
        require(selector, known)
    return [
        rule
        for rule in known
        if any(matches(rule, selector) for selector in extend)
        or (
            any(matches(rule, selector) for selector in wanted)
            and not any(matches(rule, selector) for selector in ignore)
        )
    ]


def opted_in(known: Iterable[Rule | Card], select: Iterable[str]) -> frozenset[str]:
    """Codes of the rules that are selected one by one: by their whole code or their name, or by a preset."""
    wanted = {selector.strip().lower() for selector in select}
    preset = frozenset[str]().union(*(codes for name, codes in PRESETS.items() if name in wanted))
    return frozenset(rule.code for rule in known if {rule.code.lower(), rule.name} & wanted or rule.code in preset)


def matches(rule: Rule | Card, selector: str) -> bool:
    """Whether a selector names `rule`; upper and lower case are the same."""
    wanted = selector.strip().lower()
    if wanted in (ALL.lower(), rule.name, rule.family.value) or rule.code in PRESETS.get(wanted, ()):
        return True
    return wanted.startswith("pm") and rule.code.lower().startswith(wanted)


def require(selector: str, known: Sequence[Rule | Card]) -> None:
    """Raises `SelectionError` where `selector` names none of the `known` rules."""
    if any(matches(rule, selector) for rule in known):
        return
    names = [ALL, *PRESETS, *(family.value for family in Family)]
    names += [name for rule in known for name in (rule.code, rule.name)]
    by_folded_name = {name.lower(): name for name in names}
    near = difflib.get_close_matches(selector.strip().lower(), by_folded_name, n=1)
    hint = f"; did you mean {by_folded_name[near[0]]}?" if near else "; `perfmod rules` lists them"
    raise SelectionError(f"unknown rule {selector.strip()!r}{hint}")


@cache
def _rule_types() -> tuple[type[Rule], ...]:
    from perfmod.transforms.rule import Rule

    found: dict[str, type[Rule]] = {}
    for family in Family:
        package_name = f"perfmod.transforms.{family.value}"
        if importlib.util.find_spec(package_name) is None:
            continue
        package = importlib.import_module(package_name)
        for info in pkgutil.iter_modules(package.__path__):
            # A private module has no rule; one that an older build left behind may not even be importable.
            if info.name.startswith("_"):
                continue
            module = importlib.import_module(f"{package_name}.{info.name}")
            for kind in vars(module).values():
                # In Python 3.10 `tuple[int, ...]` passes for a class.
                is_class = isinstance(kind, type) and get_origin(kind) is None
                if not (is_class and issubclass(kind, Rule)) or inspect.isabstract(kind):
                    continue
                if kind.__module__ != module.__name__:
                    continue
                if kind.code in found:
                    raise TypeError(f"{kind.code} is both {found[kind.code].__name__} and {kind.__name__}")
                found[kind.code] = kind
    return tuple(found[code] for code in sorted(found))
