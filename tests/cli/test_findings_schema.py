"""The published schema of the JSON: it is that of the rows, and real output keeps to it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import notebooks
import pytest
from cli_fakes.running import Run, Write

from perfmod.report.json import schema

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "findings.schema.json"


@pytest.fixture
def validator() -> jsonschema.Draft202012Validator:
    published = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    return jsonschema.Draft202012Validator(published)


def test_the_committed_schema_is_that_of_the_rows() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == schema()


@pytest.mark.parametrize("arguments", [
    ["check", "."],
    ["check", ".", "--explain-all", "--statistics", "--diff"],
    ["apply", ".", "--dry-run", "--unsafe", "--low-impact"],
    ["apply", "."],
])  # fmt: skip
def test_real_output(
    write: Write, perfmod: Run, validator: jsonschema.Draft202012Validator, arguments: list[str]
) -> None:
    write("engine.py", "def torch_far(): pass\n")
    write("train.py", "from engine import torch_far\n\ntorch_far()\ntorch_risky(y)\ntorch_twice()\ntorch_kept()\n")
    write("notes.ipynb", notebooks.document("torch_slow()  # perfmod: ignore", "torch_minor()\ntorch_optional()"))
    write("bad.py", "torch_slow(\n")
    document = json.loads(perfmod(*arguments, "--output-format", "json").out)
    validator.validate(document)
    assert document["$schema"] == validator.schema["$id"]
    assert ("reasons" in document) == ("statistics" in document) == ("--statistics" in arguments)
    # The schema allows what it does not know, so that it would also pass if it described nothing of this.
    described = validator.schema["$defs"]
    for name, rows in (("FindingRow", document["findings"]), ("FileRow", document["files"])):
        assert all(set(row) == set(described[name]["properties"]) for row in rows)


@pytest.mark.parametrize("damage", [
    {"schema_version": 1},
    {"$schema": "https://example.org"},
    {"findings": [{"path": "train.py"}]},
    {"summary": {"files": {"changed": "1"}}},
])  # fmt: skip
def test_what_is_no_such_document(
    write: Write, perfmod: Run, validator: jsonschema.Draft202012Validator, damage: dict[str, object]
) -> None:
    write("train.py", "torch_slow()\n")
    document = json.loads(perfmod("check", ".", "--output-format", "json").out)
    validator.validate(document)
    assert not validator.is_valid({**document, **damage})
