"""The JSON Schema of `evidence.json`, read off the classes of the record."""

from __future__ import annotations

from typing import Any

from perfmod.report import json_schema as schemas
from perfmod.verify.evidence import SCHEMA_VERSION, Evidence
from perfmod.verify.report.evidence_json import NON_FINITE


def json_schema() -> dict[str, Any]:
    """The schema. Fields that nobody knows are allowed, as a later perfmod may have written them."""
    definitions: dict[str, Any] = {"number": {"anyOf": [{"type": "number"}, {"enum": list(NON_FINITE)}]}}
    record = schemas.record(Evidence, definitions)
    record["properties"]["schema"] = {"const": SCHEMA_VERSION}
    record["required"].insert(0, "schema")
    return schemas.document("perfmod verify: evidence.json", record, definitions)
