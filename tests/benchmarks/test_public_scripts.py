"""The manifest of public scripts, the data that is generated for them, and what keeps an edited script out."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest
import torchvision_cpu
from attrs import evolve

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
FEWER = {
    "mnist": {"train": 50, "test": 10},
    "image_folder": {"train": 10, "val": 5},
    "image_and_mask_files": {"count": 3},
    "tu_dataset": {"graphs": 20},
    "tokens": {"train": 200, "val": 100},
    "words": {"train": 100, "held_out": 40},
    "letters": {"name": "input.txt", "count": 100},
    "pictures": {"train": 3, "test": 1},
    "graph_text": {"name": "graphs.txt", "graphs": 5},
    "cora_tables": {"nodes": 50, "features": 10, "edges": 60},
    "package_link": {"name": "package", "target": __file__},
    "no_weights": {"name": "weights.pth"},
    "silent_tracker": {"name": "tracker"},
}


@pytest.fixture
def verify_public(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("verify_public")


@pytest.fixture
def generated_data(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("generated_data")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_manifest_names_recipes_and_what_they_can_be_told(verify_public: ModuleType) -> None:
    scripts = verify_public.scripts()
    assert len({script.name for script in scripts}) == len(scripts) >= 6
    for script in scripts:
        assert len(script.commit) == 40
        assert len(script.sha256) == 64
        for recipe in script.data:
            told = {key: value for key, value in recipe.items() if key not in ("recipe", "folder")}
            inspect.signature(verify_public.RECIPES[recipe["recipe"]]).bind(Path(), **told)
            assert not Path(recipe["folder"]).is_absolute()


def test_the_differential_run_lists_scripts_that_can_be_placed(verify_public: ModuleType) -> None:
    differential = importlib.import_module("differential")
    scripts = verify_public.scripts(differential.MANIFEST)
    assert len({script.name for script in scripts}) == len(scripts) >= differential.LEAST
    for script in scripts:
        assert len(script.commit) == 40
        assert len(script.sha256) == 64
        for recipe in script.data:
            told = {key: value for key, value in recipe.items() if key not in ("recipe", "folder")}
            inspect.signature(verify_public.RECIPES[recipe["recipe"]]).bind(Path(), **told)


def test_a_differential_run_shows_enough_or_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    differential = importlib.import_module("differential")
    kept = {"code": "PM106", "withdrawn": False, "reason": ""}
    good = {"name": "good", "verdict": "proven", "reason": "equal", "rules": [kept]}
    idle = {"name": "idle", "verdict": "no measurable change", "reason": "nothing to rewrite", "rules": []}
    assert differential.failing([good, idle], least=1) == []
    assert differential.failing([good, idle], least=2) == ["1 of 2 scripts are proven with something rewritten"]
    refuted = {"name": "bad", "verdict": "refuted", "reason": "loss of step 2", "rules": [kept]}
    assert differential.failing([good, refuted], least=1) == ["bad: refuted, loss of step 2"]
    withdrawn = {"code": "PM202", "withdrawn": True, "reason": "other bits"}
    mixed = {"name": "mixed", "verdict": "proven", "reason": "equal", "rules": [kept, withdrawn]}
    assert differential.failing([mixed], least=1) == ["mixed: PM202 was withdrawn: other bits"]


def test_data_is_the_same_every_time(generated_data: ModuleType, tmp_path: Path) -> None:
    for name, recipe in generated_data.RECIPES.items():
        filled = []
        for number in range(2):
            folder = tmp_path / f"{name}{number}"
            folder.mkdir()
            recipe(folder, **FEWER.get(name, {}))
            filled.append(contents(folder))
        assert filled[0], name
        assert filled[0] == filled[1], name


def test_torchvision_takes_the_data_for_its_own(generated_data: ModuleType, tmp_path: Path) -> None:
    torchvision_cpu.load_or_skip()
    from torchvision.datasets import MNIST, ImageFolder

    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    generated_data.mnist(raw, train=30, test=10)
    digits = MNIST(str(tmp_path), train=True, download=True)
    assert digits.data.shape == (30, 28, 28)
    assert len(set(digits.targets.tolist())) > 1
    generated_data.image_folder(tmp_path / "photos", train=10, val=5)
    photos = ImageFolder(str(tmp_path / "photos" / "train"))
    assert len(photos) == 10
    assert len(photos.classes) == 5
    assert photos[0][0].size == (320, 240)


def test_only_the_pinned_bytes_are_run(verify_public: ModuleType, tmp_path: Path) -> None:
    source = tmp_path / "sources" / "owner" / "name"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "train.py").write_text("pinned\n")
    scratch = tmp_path / "scratch"
    script = verify_public.PublicScript(
        name="example",
        repository="https://github.com/owner/name",
        commit="0" * 40,
        path="deep/train.py",
        sha256=hashlib.sha256(b"pinned\n").hexdigest(),
        data=[{"recipe": "tokens", "folder": "data/text", "train": 20, "val": 10}],
    )
    placed = script.place(tmp_path / "sources", scratch)
    assert placed.read_text() == "pinned\n"
    assert (scratch / "name" / "data" / "text" / "train.bin").stat().st_size == 40
    assert contents(source) == {"deep/train.py": script.sha256}

    (source / "deep" / "train.py").write_text("edited\n")
    with pytest.raises(LookupError, match="not the file of commit"):
        script.place(tmp_path / "sources", tmp_path / "other")
    with pytest.raises(LookupError, match="is missing"):
        evolve(script, path="elsewhere.py").place(tmp_path / "sources", tmp_path / "other")
