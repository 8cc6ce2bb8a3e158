"""Hugging Face: the Trainer of transformers has the loop, and classes derived from it the hooks that it calls."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from perfmod.transforms.facts.classes import Classes, ClassFacts

_PACKAGES = ("transformers.", "trl.")
_HOOKS = ("training_step", "compute_loss", "_prepare_inputs")
"""What the Trainer calls in every step."""


def is_trainer(cls: ClassFacts) -> bool:
    """Whether a class is derived from `transformers.Trainer` or one of trl's."""
    bases = (base for each in cls.lineage() for base in each.bases)
    return any(base.startswith(_PACKAGES) and base.endswith("Trainer") for base in bases)


def training_steps(classes: Classes) -> Iterator[cst.FunctionDef]:
    """The methods that the Trainer calls in every step."""
    for cls in classes:
        hooks = [cls.methods[name] for name in _HOOKS if name in cls.methods]
        if hooks and is_trainer(cls):
            yield from hooks
