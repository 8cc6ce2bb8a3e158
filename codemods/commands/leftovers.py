"""`LeftoversCommand`: the rules against debugging that was left switched on."""

from __future__ import annotations

from perfmod.codemods.commands.family import FamilyCommand
from perfmod.transforms.finding import Family


class LeftoversCommand(FamilyCommand):
    """Rewrites of `perfmod.transforms.leftovers`."""

    DESCRIPTION = "Removes debugging aids left switched on in PyTorch training code."
    family = Family.LEFTOVERS
