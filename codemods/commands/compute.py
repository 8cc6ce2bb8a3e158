"""`ComputeCommand`: the rules against work that the device does without need."""

from __future__ import annotations

from perfmod.codemods.commands.family import FamilyCommand
from perfmod.transforms.finding import Family


class ComputeCommand(FamilyCommand):
    """Rewrites of `perfmod.transforms.compute` that keep the mathematics; all of them are opt-in rules."""

    DESCRIPTION = (
        "Removes needless work from PyTorch code: autograd graphs in evaluations, zeroed gradients, two-step losses."
    )
    family = Family.COMPUTE
    opts_in = True
