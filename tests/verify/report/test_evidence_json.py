from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema
import pytest
import verify_evidence
from attrs import evolve

from perfmod.verify.evidence import SCHEMA_VERSION, Curve, Evidence
from perfmod.verify.report.evidence_json import NotEvidence, load, render
from perfmod.verify.report.schema import json_schema

Json: TypeAlias = Any
SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "evidence.schema.json"


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def strict(text: str) -> Json:
    """The document, read as only JSON allows."""
    return json.loads(text, parse_constant=no_constant)


def same(one: Evidence, other: Evidence) -> bool:
    """Whether two records are equal, NaN being equal to itself; `repr` gives every digit of a float."""
    return repr(one) == repr(other)


@pytest.fixture
def validator() -> jsonschema.Draft202012Validator:
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", verify_evidence.NAMES)
def test_what_is_written_reads_back(name: str, validator: jsonschema.Draft202012Validator) -> None:
    evidence = verify_evidence.named(name)
    text = render(evidence)
    assert same(load(text), evidence)
    validator.validate(strict(text))
    text.encode("ascii")


def test_numbers_that_json_does_not_know() -> None:
    values = (math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1, 1e300)
    equality = evolve(verify_evidence.equality(), original=Curve("NaN", values))
    text = render(evolve(verify_evidence.rich(), equality=equality, reason="NaN"))
    assert '["NaN", "Infinity", "-Infinity", -0.0, 5e-324, 0.1, 1e+300]' in text
    loaded = load(text)
    assert loaded.reason == "NaN"
    assert loaded.equality.original is not None
    assert repr(loaded.equality.original.losses) == repr(values)


def test_a_text_that_looks_like_an_array_is_left_alone() -> None:
    evidence = evolve(verify_evidence.rich(), diff="[\n  1,\n  2\n]", warnings=("[ 1,  2 ]",))
    assert same(load(render(evidence)), evidence)


def test_steps_take_one_line() -> None:
    text = render(verify_evidence.rich())
    lines = [line for line in text.splitlines() if '"step_ms": [' in line]
    assert len(lines) == len(verify_evidence.SEQUENCE)
    assert all(line.count(",") == 80 for line in lines)


def test_the_schema_version_stands_first() -> None:
    assert next(iter(strict(render(verify_evidence.rich())))) == "schema"


def changed(**fields: object) -> str:
    return json.dumps({**strict(render(verify_evidence.rich())), **fields})


def test_what_a_later_version_added_is_passed_over() -> None:
    equality = strict(render(verify_evidence.rich()))["equality"]
    text = changed(weather="fine", equality={**equality, "mood": {"good": True}})
    assert same(load(text), verify_evidence.rich())


def test_what_an_earlier_version_did_not_know_has_its_default() -> None:
    document = strict(render(verify_evidence.rich()))
    del document["seconds"], document["speed"]
    assert same(load(json.dumps(document)), evolve(verify_evidence.rich(), seconds=0.0, speed=None))


@pytest.mark.parametrize(("text", "message"), [
    ("", "not valid JSON"),
    ("[" * 100_000, "not valid JSON"),
    ("[]", "no schema version"),
    ("{}", "no schema version"),
    (changed(schema=True), "no schema version"),
    (changed(schema=0), "no schema version"),
    (changed(schema="1"), "no schema version"),
    (changed(schema=SCHEMA_VERSION + 1), f"version {SCHEMA_VERSION + 1} is from a later perfmod"),
    ('{"schema": 1}', "verdict: is missing"),
    (changed(verdict="fine"), "verdict: one of proven, "),
    (changed(verdict=[]), "verdict: one of proven, "),
    (changed(reason=None), "reason: a string is expected"),
    (changed(seconds="3"), "seconds: a number is expected"),
    (changed(seconds=True), "seconds: a number is expected"),
    (changed(warnings="w"), "warnings: an array is expected"),
    (changed(warnings=["w", 1]), r"warnings\[1\]: a string is expected"),
    (changed(environment={"packages": [["numpy"]]}), r"environment.packages\[0\]: an array of 2 is expected"),
    (changed(equality=3), "equality: Equality is expected"),
    (changed(equality={"verdict": "proven", "reason": "", "numerics": "", "steps": 1.5}), "equality.steps: a whole"),
])  # fmt: skip
def test_what_is_no_record(text: str, message: str) -> None:
    with pytest.raises(NotEvidence, match=message):
        load(text)


def test_the_committed_schema_is_that_of_the_classes() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == json_schema()


@pytest.mark.parametrize(
    "fields", [{"verdict": "fine"}, {"seconds": "3"}, {"schema": 2}, {"warnings": [1]}, {"equality": None}]
)
def test_the_schema_refuses(fields: dict[str, object], validator: jsonschema.Draft202012Validator) -> None:
    assert not validator.is_valid(strict(changed(**fields)))
