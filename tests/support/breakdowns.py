"""A profile of a script that waits for launches."""

from __future__ import annotations

from perfmod.profile.breakdown import Bound, Breakdown, Lever, Loader

PROFILE = Breakdown(
    Bound.LAUNCHES,
    "H100",
    20,
    10.0,
    0.5,
    levers=(Lever("both", 1.0),),
    loaders=(Loader(0, 0, False, False, None, 7),),
)
