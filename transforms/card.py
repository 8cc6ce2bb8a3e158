"""What is known of a rule without its code, for those who select rules or print what they found."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from attrs import frozen

from perfmod.transforms.finding import Family, Safety

if TYPE_CHECKING:
    from perfmod.transforms.rule import Rule

LIBRARIES = ("torch", "TrainingArguments")
"""A file that names none of these does not train with PyTorch; Hugging Face's Trainer hides it."""


@frozen(cache_hash=True)
class Card:
    """A rule by its name; the attributes are those of `perfmod.transforms.rule.Rule`.

    Attributes:
        triggers: sorted.
        module, type_name: where its class is defined.
    """

    code: str
    name: str
    family: Family
    safety: Safety
    triggers: tuple[str, ...]
    module: str
    type_name: str

    @property
    def page(self) -> str:
        """Its page, from the root of this project."""
        return f"docs/rules/{self.code}-{self.name}.md"

    def load(self) -> Rule:
        """The rule itself, which needs a parser."""
        rule: Rule = getattr(importlib.import_module(self.module), self.type_name)()
        return rule
