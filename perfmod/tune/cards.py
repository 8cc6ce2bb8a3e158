"""The cards of a machine on which the runs of a search go on beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perfmod.seats import Seat, division, gpus_of_this_machine
from perfmod.verify import machine
from perfmod.verify.request import Request

_FEWEST_CORES: Final = 4
"""Of a card; with fewer, launches of processes that are warm at the same time would wait for each other."""


def seats(request: Request, first: Mapping[str, Any]) -> tuple[Seat, ...]:
    """A seat for each idle card that can be seen, if there are several of one model; else all runs take turns on one.

    Args:
        request: what is asked for.
        first: the record of the original's first run, which saw all cards; empty where there was none.
    """
    # A script that uses other cards than the first one, or several of them, would not find them on its seat.
    if request.device == "cpu" or request.nproc is not None or first.get("devices") != [0]:
        return ()
    # The first one has just been used by the script itself.
    own, *others = gpus_of_this_machine() or [""]
    cards = [own, *filter(machine.is_idle, others)]
    models = set(map(machine.model_of, cards))
    if len(cards) < 2 or len(models) != 1 or "" in models:
        return ()
    found = division(cards).seats
    return found if all(len(seat.cores) >= _FEWEST_CORES for seat in found) else ()
