"""`FeedingCommand`: the rules against a device that waits for its data."""

from __future__ import annotations

from perfmod.codemods.commands.family import FamilyCommand
from perfmod.transforms.finding import Family


class FeedingCommand(FamilyCommand):
    """Rewrites of `perfmod.transforms.feeding`."""

    DESCRIPTION = "Feeds PyTorch training faster: loader workers, pinned memory, normalisation on the GPU."
    family = Family.FEEDING
