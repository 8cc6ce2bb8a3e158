"""The variants of a script that `tune_public.py` times beside each other."""

from __future__ import annotations

import hashlib
import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
PATCH = """\
--- a/train.py
+++ b/train.py
@@ -1 +1 @@
-pinned
+made faster
"""


@pytest.fixture
def tune_public(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    module = importlib.import_module("tune_public")
    (tmp_path / "hand").mkdir()
    (tmp_path / "hand" / "example.patch").write_text(PATCH)
    return module


def test_a_public_script_and_its_patch(tune_public: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "sources" / "owner" / "name"
    source.mkdir(parents=True)
    (source / "train.py").write_text("pinned\n")
    script = tune_public.PublicScript(
        name="example",
        repository="https://github.com/owner/name",
        commit="0" * 40,
        path="train.py",
        sha256=hashlib.sha256(b"pinned\n").hexdigest(),
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = _settings(tune_public, tmp_path)
    texts = [
        tune_public.Case(script.name, script).place(variant, settings, scratch).read_text()
        for variant in tune_public.VARIANTS
    ]
    assert texts == ["pinned\n", "pinned\n", "made faster\n", "made faster\n"]
    (tmp_path / "other").mkdir()
    unpatched = tune_public.Case("unpatched", script)
    assert unpatched.place("hand", settings, tmp_path / "other") is None
    assert unpatched.place("graphed", settings, tmp_path / "other") is None


def test_what_an_earlier_search_has_found_is_written(tune_public: ModuleType, tmp_path: Path) -> None:
    offers = [
        {
            "numerics": numerics,
            "stack": "PM202",
            "verdict": "proven",
            "reason": "",
            "ratio": 2.0,
            "low": 1.9,
            "high": 2.1,
        }
        | {"diff": PATCH if numerics == "rounding" else ""}
        for numerics in ("bitwise", "rounding")
    ]
    search = {"offers": offers, "best": "rounding", "rows": [], "gpu": "H200", "torch": "2.11", "driver": "580"}
    search |= {"profile": {"step_ms": 10.0}, "advice": [], "seconds": 61.23}
    report = tmp_path / "found" / "example"
    report.mkdir(parents=True)
    (report / "tune.json").write_text(json.dumps(search))
    script = tmp_path / "tuned" / "train.py"
    script.parent.mkdir()
    script.write_text("pinned\n")
    (script.parent / "pyproject.toml").touch()
    row = tune_public.found(tune_public.Case("example"), _settings(tune_public, tmp_path), script)
    assert script.read_text() == "made faster\n"
    assert (row["best"], row["verdict"], row["seconds"], row["as_written_ms"]) == ("rounding", "proven", 61.2, 10.0)


def _settings(tune_public: ModuleType, folder: Path) -> object:
    hand = folder / "hand"
    return tune_public.Settings(
        folder / "sources", hand, hand, None, folder / "found", "5m", "precision", 1, "cpu", "python"
    )


@pytest.mark.parametrize("name", ["masked_loss", "cifar_resnet18"])
def test_a_reference_script_and_the_version_of_its_expert(tune_public: ModuleType, tmp_path: Path, name: str) -> None:
    case, scratch = tune_public.Case(name), tmp_path / "scratch"
    scratch.mkdir()
    settings = _settings(tune_public, tmp_path)
    texts = [case.place(variant, settings, scratch).read_text() for variant in tune_public.VARIANTS[:3]]
    assert case.place("graphed", settings, scratch) is None
    folder = BENCHMARKS / "reference" / name
    original, expert = ((folder / f"{each}.py").read_text() for each in ("original", "expert"))
    assert texts == [original, original, expert]


def test_a_larger_batch_has_more_samples_and_an_expert_of_its_own(tune_public: ModuleType, tmp_path: Path) -> None:
    case, scratch = tune_public.Case("cifar_resnet18_1024"), tmp_path / "scratch"
    scratch.mkdir()
    settings = _settings(tune_public, tmp_path)
    original, _, expert = (case.place(each, settings, scratch).read_text() for each in tune_public.VARIANTS[:3])
    assert case.batch == 1024
    assert "batch_size=1024" in expert
    assert "batch_size=32" in original
    assert all(text.count("size=(100000") == 2 for text in (original, expert))
