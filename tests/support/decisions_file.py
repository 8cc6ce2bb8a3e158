"""The file of decisions as a reader finds it who knows its format alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def rows(project: Path) -> list[dict[str, Any]]:
    """What is decided; nothing where there is no file. Fails where it is not whole."""
    file = project / ".perfmod" / "decisions.json"
    if not file.exists():
        return []
    found: list[dict[str, Any]] = json.loads(file.read_bytes())["decisions"]
    assert found[-1] == {}, "the end of the list is marked by an empty object"
    return found[:-1]
