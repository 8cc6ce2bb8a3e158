"""The tables of the configuration's page: keys, and the questions that a project may answer for itself."""

from __future__ import annotations

from markdown import table_row

from perfmod.config_table import KEYS, Config
from perfmod.report.configuration import key_rows
from perfmod.transforms.questions import Predicate


def render_keys() -> str:
    """Every key with its type, default, meaning and an example."""
    defaults = {row.key: row.toml for row in key_rows(Config())}
    lines = [table_row("key", "value", "default", "meaning", "example"), table_row(*["---"] * 5)]
    for key, field in KEYS.items():
        about = field.metadata
        lines.append(
            table_row(f"`{key}`", about["kind"].said, f"`{defaults[key]}`", about["meaning"], f"`{about['example']}`")
        )
    return "\n".join(lines)


def render_questions() -> str:
    """Every predicate with what the answer yes means."""
    lines = [table_row("question", "the answer yes means"), table_row("---", "---")]
    lines += [table_row(f"`{predicate.value}`", predicate.meaning) for predicate in Predicate]
    return "\n".join(lines)
