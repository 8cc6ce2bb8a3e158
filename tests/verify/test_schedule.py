from __future__ import annotations

from statistics import mean

from perfmod.verify.schedule import mirrored


def test_every_second_round_runs_backwards() -> None:
    assert "".join(mirrored("AB", 4)) == "ABBAABBA"
    assert "".join(mirrored("AB", 1, first=1)) == "BA"
    assert mirrored("AB", 0) == []


def test_all_sides_have_the_same_mean_place() -> None:
    order = mirrored("ABCD", 4)
    places = {side: mean(place for place, other in enumerate(order) if other == side) for side in "ABCD"}
    assert len(set(places.values())) == 1
