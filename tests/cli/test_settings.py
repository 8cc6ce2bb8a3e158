"""Configuration and command line."""

from __future__ import annotations

import cli_fakes
import pytest
from cli_fakes.running import Run, Write


def test_configuration_counts(write: Write, perfmod: Run) -> None:
    write("pyproject.toml", '[tool.perfmod]\nunsafe = true\nignore = ["slow-call"]\n')
    path = write("train.py", "torch_slow(); torch_risky()\n")
    perfmod("apply", ".")
    assert path.read_text() == "torch_slow(); torch_brave()\n"


@pytest.mark.parametrize(("options", "code"), [
    (["--no-unsafe"], "torch_slow(); torch_risky()\n"),
    (["--select", "PM901"], "torch_fast(); torch_risky()\n"),
    (["--ignore", "PM902"], "torch_fast(); torch_risky()\n"),
    (["--ignore", "PM904", "--no-unsafe"], "torch_fast(); torch_risky()\n"),
])  # fmt: skip
def test_command_line_outweighs_it(write: Write, perfmod: Run, options: list[str], code: str) -> None:
    write("pyproject.toml", '[tool.perfmod]\nunsafe = true\nignore = ["slow-call"]\n')
    path = write("train.py", "torch_slow(); torch_risky()\n")
    perfmod("apply", ".", *options)
    assert path.read_text() == code


@pytest.mark.parametrize(("table", "options", "code"), [
    ("", ["--extend-select", "PM903"], "torch_fast(); torch_risky(); torch_chosen(); torch_minor()\n"),
    ("", ["--extend-select", "PM9"], "torch_fast(); torch_risky(); torch_optional(); torch_minor()\n"),
    ("", ["--select", "PM902", "--unsafe"], "torch_slow(); torch_brave(); torch_optional(); torch_minor()\n"),
    ("", ["--unsafe", "--low-impact"], "torch_fast(); torch_brave(); torch_optional(); torch_major()\n"),
    ('extend-select = ["PM903"]', [], "torch_fast(); torch_risky(); torch_chosen(); torch_minor()\n"),
    ('extend-select = ["PM903"]',
     ["--ignore", "PM903"],
     "torch_fast(); torch_risky(); torch_optional(); torch_minor()\n"),
    ('extend-select = ["PM903"]',
     ["--select", "PM901"],
     "torch_fast(); torch_risky(); torch_optional(); torch_minor()\n"),
    ('ignore = ["PM9"]',
     ["--extend-select", "PM901"],
     "torch_fast(); torch_risky(); torch_optional(); torch_minor()\n"),
    ("low-impact = true", [], "torch_fast(); torch_risky(); torch_optional(); torch_major()\n"),
    ("low-impact = true", ["--no-low-impact"], "torch_fast(); torch_risky(); torch_optional(); torch_minor()\n"),
])  # fmt: skip
def test_what_is_run_and_applied(write: Write, perfmod: Run, table: str, options: list[str], code: str) -> None:
    write("pyproject.toml", f"[tool.perfmod]\n{table}\n")
    path = write("train.py", "torch_slow(); torch_risky(); torch_optional(); torch_minor()\n")
    perfmod("apply", ".", *options)
    assert path.read_text() == code


@pytest.mark.parametrize(("table", "is_portable"), [("", False), ('target = "portable"', True)])
def test_the_target_reaches_the_rules(
    write: Write, perfmod: Run, monkeypatch: pytest.MonkeyPatch, table: str, *, is_portable: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(cli_fakes.SlowCall, "check", lambda _rule, file: asked.append(file.policy.is_portable) or ())
    write("pyproject.toml", f"[tool.perfmod]\n{table}\n")
    write("train.py", "torch_slow()\n")
    perfmod("check", ".")
    assert asked == [is_portable]


def test_nearest_table_counts(write: Write, perfmod: Run) -> None:
    """A `pyproject.toml` without our table does not hide the one above."""
    write("pyproject.toml", "[tool.perfmod]\nunsafe = true\n")
    write("inner/pyproject.toml", "[project]\nname = 'inner'\n")
    write("strict/pyproject.toml", "[tool.perfmod]\n")
    inner, strict = write("inner/a.py", "torch_risky()\n"), write("strict/a.py", "torch_risky()\n")
    perfmod("apply", "inner", "strict")
    assert inner.read_text() == "torch_brave()\n"
    assert strict.read_text() == "torch_risky()\n"


def test_lists_with_commas(write: Write, perfmod: Run) -> None:
    path = write("train.py", "torch_slow(); torch_optional(); torch_risky()\n")
    perfmod("apply", ".", "--select", "PM901, PM903")
    assert path.read_text() == "torch_fast(); torch_chosen(); torch_risky()\n"


def test_a_prefix_does_not_opt_in(write: Write, perfmod: Run) -> None:
    path = write("train.py", "torch_optional()\n")
    ran = perfmod("apply", ".", "--select", "PM9")
    assert "\n1 on request: `perfmod apply . --select PM9 --extend-select PM903` applies it\n" in ran.err
    assert path.read_text() == "torch_optional()\n"
    perfmod("apply", ".", "--select", "optional-call")
    assert path.read_text() == "torch_chosen()\n"
