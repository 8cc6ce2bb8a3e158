"""`SyncsCommand`: the rules against waiting for the device inside the step."""

from __future__ import annotations

from perfmod.codemods.commands.family import FamilyCommand
from perfmod.transforms.finding import Family


class SyncsCommand(FamilyCommand):
    """Rewrites of `perfmod.transforms.syncs`."""

    DESCRIPTION = "Removes host-device synchronisations from PyTorch training steps."
    family = Family.SYNCS
