"""The variants that the verifier is tried on: they can be made, and there are enough of them. Nothing is trained."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perfmod.transforms.finding import Numerics

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
KINDS = sorted(path.stem for path in (BENCHMARKS / "adversaries").glob("*.py"))


@pytest.fixture
def adversaries(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("adversaries")


def test_every_script_has_variants(adversaries: ModuleType) -> None:
    assert adversaries.kinds() == KINDS
    for kind in KINDS:
        assert {variant.wrong for variant in adversaries.variants(kind)} == {True, False}


@pytest.mark.parametrize("kind", KINDS)
def test_variants_can_be_made(adversaries: ModuleType, kind: str) -> None:
    original = adversaries.original(kind)
    compile(original, kind, "exec")
    variants = adversaries.variants(kind)
    assert len({variant.name for variant in variants}) == len(variants)
    texts = {original}
    for variant in variants:
        text = variant.text(original)
        compile(text, variant.name, "exec")
        assert text not in texts, variant.name
        texts.add(text)
        assert variant.why.endswith("."), variant.name
        assert variant.needs in ("", "compiler")
        assert variant.classes
        assert len(set(variant.classes)) == len(variant.classes)
        assert set(variant.classes) <= set(adversaries.CLASSES)


def test_there_are_enough(adversaries: ModuleType) -> None:
    every = [variant for kind in KINDS for variant in adversaries.variants(kind)]
    wrong = Counter(variant.kind for variant in every if variant.wrong)
    assert wrong.total() >= 100
    assert len(wrong) >= 8
    assert sum(not variant.wrong for variant in every) >= 30
    for numerics in adversaries.CLASSES:
        assert {variant.wrong for variant in every if numerics in variant.classes} == {True, False}


def test_an_edit_that_does_not_fit_is_told(adversaries: ModuleType) -> None:
    variant = adversaries.Variant("kind", "name", True, (Numerics.BITWISE,), "why", (("a", "b"),))
    with pytest.raises(ValueError, match="2 times"):
        variant.text("a = a")
    with pytest.raises(ValueError, match="0 times"):
        variant.text("c = 1")
    with pytest.raises(ValueError, match="invalid syntax"):
        adversaries.Variant("kind", "name", True, (Numerics.BITWISE,), "why", (("a", "="),)).text("a = 1")


def _row(wrong: bool, verdict: str) -> dict[str, Any]:
    return {"kind": "k", "variant": "v", "class": "bitwise", "wrong": wrong, "verdict": verdict, "reason": "because"}


def test_what_speaks_against_the_verifier(adversaries: ModuleType) -> None:
    good = [_row(True, "refuted"), _row(True, "inconclusive"), *[_row(False, "proven")] * 28]
    assert adversaries.failing(good) == []
    assert adversaries.failing([*good, *[_row(False, "inconclusive")] * 2]) == []
    assert adversaries.failing([*good, *[_row(False, "refuted")] * 3]) == [
        "only 28 of 31 comparisons of right variants were proven"
    ]
    assert adversaries.failing([*good, _row(True, "proven")]) == ["k v as bitwise: wrong, and called proven"]
    assert adversaries.failing([*good, _row(True, "failed")]) == ["k v as bitwise: because"]


def test_variants_that_need_what_is_not_there_are_skipped(
    adversaries: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [variant for kind in KINDS for variant in adversaries.variants(kind)]
    monkeypatch.setattr(adversaries.shutil, "which", lambda _name: None)
    assert {variant.skipped("cpu") for variant in every if variant.needs} == {"needs a C++ compiler"}
    assert {variant.skipped("cpu") for variant in every if variant.cuda} == {"needs CUDA"}
    assert {variant.skipped("cuda") for variant in every if variant.cuda} == {""}
