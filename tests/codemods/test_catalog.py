from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import toy_rules as toys

from perfmod.codemods import catalog
from perfmod.transforms import syncs
from perfmod.transforms.finding import Family


@pytest.fixture
def toy_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [
        toys.renaming(code="PM101", name="masked-loss"),
        toys.renaming(code="PM112", name="read-back"),
        toys.renaming(code="PM203", name="worker-restart", family=Family.FEEDING),
    ]
    monkeypatch.setattr(catalog, "rules", lambda: rules)


@pytest.mark.usefixtures("toy_catalog")
@pytest.mark.parametrize(("select", "ignore", "codes"), [
    ([], [], ["PM101", "PM112", "PM203"]),
    (None, ["PM1"], ["PM203"]),
    (["PM1"], [], ["PM101", "PM112"]),
    (["pm"], ["masked-loss"], ["PM112", "PM203"]),
    (["Read-Back", "PM203"], [], ["PM112", "PM203"]),
    (["syncs"], [], ["PM101", "PM112"]),
    (["ALL"], ["feeding"], ["PM101", "PM112"]),
    (["PM101"], ["PM1"], []),
])  # fmt: skip
def test_rules_are_selected_by_code_name_prefix_and_family(
    select: list[str] | None, ignore: list[str], codes: list[str]
) -> None:
    assert [rule.code for rule in catalog.select(catalog.rules(), select, ignore)] == codes


@pytest.mark.usefixtures("toy_catalog")
def test_rules_are_added_to_the_selected_ones() -> None:
    """Whatever else is ignored."""
    assert [rule.code for rule in catalog.select(catalog.rules(), ["PM101"], ["PM2"], ["worker-restart"])] == [
        "PM101",
        "PM203",
    ]


@pytest.mark.usefixtures("toy_catalog")
@pytest.mark.parametrize(("selector", "hint"), [
    ("PM2O3", "PM203"),
    ("maskedloss", "masked-loss"),
    ("feedin", "feeding"),
    ("all rules", "`perfmod rules`"),
])  # fmt: skip
def test_an_unknown_selector_names_the_nearest(selector: str, hint: str) -> None:
    for select, ignore, extend in (([selector], [], []), ([], [selector], []), ([], [], [selector])):
        with pytest.raises(catalog.SelectionError, match=selector) as caught:
            catalog.select(catalog.rules(), select, ignore, extend)
        assert hint in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("toy_catalog")
def test_an_empty_selector_selects_nothing() -> None:
    with pytest.raises(catalog.SelectionError):
        catalog.select(catalog.rules(), [""], [])


@pytest.mark.usefixtures("toy_catalog")
def test_only_a_whole_code_or_name_opts_in() -> None:
    assert catalog.opted_in(catalog.rules(), ["PM101", "worker-restart", "PM11", "syncs", "ALL"]) == {"PM101", "PM203"}


def test_presets_name_rules_and_opt_in() -> None:
    known = {rule.code for rule in catalog.rules()}
    for name, codes in catalog.PRESETS.items():
        assert codes <= known
        assert catalog.opted_in(catalog.rules(), [name]) == codes
        assert {rule.code for rule in catalog.select(catalog.rules(), [name.upper()], [])} == codes


def test_the_rules_are_found_in_order_and_without_torch() -> None:
    code = (
        "import sys; from perfmod.codemods import catalog; found = [rule.code for rule in catalog.rules()]; "
        "assert found == sorted(set(found)); assert 'torch' not in sys.modules; print(len(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_private_modules_are_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that an older build left in an installation, and that fails when it is imported."""
    (tmp_path / "_left_behind.py").write_text("from perfmod.transforms.rule import gone\n")
    monkeypatch.setattr(syncs, "__path__", [*syncs.__path__, str(tmp_path)])
    catalog._rule_types.cache_clear()
    assert "PM106" in {rule.code for rule in catalog.rules()}
