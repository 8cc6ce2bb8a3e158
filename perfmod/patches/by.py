"""What one patch of a series holds."""

from __future__ import annotations

import enum


class By(str, enum.Enum):
    """How findings are put together."""

    RULE = "rule"
    FINDING = "finding"
    FILE = "file"
    OWNER = "owner"
    PROJECT = "project"
