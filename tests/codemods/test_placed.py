"""The edits of a finding, placed in the files as given, are all that applying it alone does."""

from __future__ import annotations

import pytest
from attrs import evolve
from golden_harness.golden import Golden, goldens

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.placed import Code
from perfmod.codemods.results import Choice, Withheld
from perfmod.transforms.finding import Place

CHANGING = [golden for golden in goldens() if golden.head.change and golden.path.is_file()]
EVERYTHING = Choice(unsafe=True, low_impact=True, opted_in=frozenset(rule.code for rule in catalog.rules()))


@pytest.mark.exhaustive
@pytest.mark.parametrize("golden", CHANGING[::8], ids=lambda golden: golden.name)
def test_a_finding_alone(golden: Golden) -> None:
    path = golden.path.name
    given = Code.read(golden.before, path)
    result = rewrite(golden.before, path, catalog.rules(), EVERYTHING)
    places = {Place(path, finding.code, finding.start): finding for finding in result.applied}
    for place, finding in places.items():
        if finding.placed is None:
            assert finding.builds_on
            assert set(finding.builds_on) <= set(places)
            continue
        others = {other: Withheld("not asked about") for other in places if other != place}
        alone = rewrite(golden.before, path, catalog.rules(), evolve(EVERYTHING, withheld=others))
        # What is found once another rule has been refused its rewrite is no part of this.
        if [(each.code, each.start) for each in alone.applied] == [(finding.code, finding.start)]:
            assert given.edited(finding.placed).to_bytes() == alone.after, (finding.code, finding.line)
        else:
            assert (finding.code, finding.start) in {(each.code, each.start) for each in alone.applied}
