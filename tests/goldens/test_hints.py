"""What has to be added to the command line yields what it promises, for every golden that leaves something to add."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from golden_harness.golden import Golden, goldens

from perfmod.cli.main import app
from perfmod.codemods.catalog import rules
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.rule import Finding, Rule
from perfmod.transforms.source import Source

GOLDENS = list(goldens())
USUAL = {golden.rule: golden.name for golden in sorted(GOLDENS, key=lambda golden: golden.head.change)}
"""Of each rule a golden that changes, if it has one, is tried each time."""
PARAMS = [
    pytest.param(golden, marks=[] if golden.name == USUAL[golden.rule] else [pytest.mark.exhaustive], id=golden.name)
    for golden in GOLDENS
]
Row = Mapping[str, Any]
Find = Callable[..., list[Row]]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Find:
    """What `perfmod apply --dry-run` finds in a golden with some options."""
    monkeypatch.chdir(tmp_path)

    def find(golden: Golden, *options: str) -> list[Row]:
        (tmp_path / "train.py").write_bytes(golden.before)
        usual = ("--dry-run", "--output-format", "json", "--no-cache", "--jobs", "1", "--time-limit", "60")
        app(["apply", "train.py", *usual, *options], prog_name="perfmod", standalone_mode=False)
        rows: list[Row] = json.loads(capsysbinary.readouterr().out)["findings"]
        return rows

    return find


@pytest.mark.parametrize("golden", PARAMS)
def test_what_is_promised_is_made_and_a_rule_finds_the_same_when_it_is_selected_alone(
    golden: Golden, found: Find
) -> None:
    """The latter where no other rule rewrites what it finds it in."""
    rows = found(golden)
    for flag in {row["flag"] for row in rows if row["flag"]}:
        made = {row["fingerprint"] for row in found(golden, *shlex.split(flag)) if row["state"] == "rewritten"}
        promised = [row for row in rows if row["flag"] == flag]
        assert [(row["line"], row["code"]) for row in promised if row["fingerprint"] not in made] == [], flag
    for code in {row["code"] for row in rows if row["edits"]}:
        if {row["code"] for row in rows if row["state"] == "rewritten"} <= {code}:
            alone, together = (
                [
                    (row["line"], row["column"], row["safety"], row["reason"], row["edits"])
                    for row in each
                    if row["edits"]
                ]
                for each in (found(golden, "--select", code), [row for row in rows if row["code"] == code])
            )
            assert alone == together


@pytest.mark.parametrize("golden", PARAMS)
def test_what_a_rule_finds_does_not_depend_on_which_rules_are_asked_before(golden: Golden) -> None:
    """Whatever others rewrite: all is found in the text as it is."""
    source = Source.parse(golden.before)

    def found_by(asked: Iterable[Rule]) -> dict[str, list[Finding]]:
        file = FileFacts(source)
        return {rule.code: list(rule.check(file)) for rule in asked}

    together = found_by(rules())
    assert found_by(rules()[::-1]) == together
    for rule in rules():
        if together[rule.code]:
            assert found_by([rule]) == {rule.code: together[rule.code]}
