"""Rules of the feeding family over files that import each other: loaders here, loops there, transforms elsewhere."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import pytest
from attrs import evolve
from snippets import dotted_names

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome
from perfmod.transforms.feeding.cpu_normalisation import CpuNormalisation
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer
from perfmod.transforms.finding import Safety
from perfmod.transforms.rule import Rule
from perfmod.transforms.syncs.masked_loss import MaskedLoss

DATA = """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

MEAN = (0.5, 0.4, 0.3)

def dataset(train):
    tf = transforms.Compose([transforms.ToTensor(), transforms.Normalize(MEAN, (0.2, 0.2, 0.1))])
    return datasets.CIFAR10(".", train=train, transform=tf)

def build(size):
    return DataLoader(dataset(True), batch_size=size), DataLoader(dataset(False), batch_size=size)
"""
ENGINE = """
import torch.nn.functional as F

def train(model, loader, opt, device):
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        loss = F.cross_entropy(model(images), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
MAIN = """
import torch
import engine
from data import build

def main():
    device = torch.device("cuda")
    model = torch.nn.Linear(3, 3).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    train, val = build(32)
    engine.train(model, train, opt, device)
    engine.train(model, val, opt, device)

if __name__ == "__main__":
    main()
"""
LOOP = "from data import build\n" + ENGINE.lstrip("\n")
"""The loop's file can import the module from that of the pipeline, as it imports something else from there."""
MADE = "normalize = NormalizeOnDevice((0.5, 0.4, 0.3), (0.2, 0.2, 0.1)).to(device)\n"
CALLED = "images = normalize(images.to(device))\n"


def run(rule: Rule, files: Mapping[str, str], *, unsafe: bool = False, is_open: str = "") -> dict[str, FileResult]:
    """What one rule makes of linked files; a second run must find nothing to do."""
    given = [
        Given(path, textwrap.dedent(code).lstrip("\n").encode(), dotted_names(path), imported_elsewhere=path == is_open)
        for path, code in files.items()
    ]
    results = rewrite_together(given, [rule], Choice(unsafe=unsafe))
    assert not [result.reason for result in results if result.outcome is Outcome.FAILED]
    again = [evolve(each, data=result.after) for result, each in zip(results, given, strict=True)]
    assert {result.outcome for result in rewrite_together(again, [rule], Choice(unsafe=unsafe))} == {Outcome.UNCHANGED}
    return {result.path: result for result in results}


def after(results: Mapping[str, FileResult], path: str) -> str:
    return results[path].after.decode()


def reasons(results: Mapping[str, FileResult]) -> str:
    """Why all stays as it is."""
    assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}
    return " | ".join(finding.reason for result in results.values() for finding in result.refused)


# PM205


def test_normalisation_moves_to_the_loop_of_another_file() -> None:
    results = run(CpuNormalisation(), {"data.py": DATA, "engine.py": LOOP, "main.py": MAIN})
    assert "Compose([transforms.PILToTensor()])" in after(results, "data.py")
    assert "\n\n\nclass NormalizeOnDevice(torch.nn.Module):\n" in after(results, "data.py")
    assert after(results, "engine.py").startswith("from data import NormalizeOnDevice, build\n")
    assert f"    {MADE}    for images, labels in loader:\n        {CALLED}" in after(results, "engine.py")
    assert results["main.py"].outcome is Outcome.UNCHANGED
    assert results["data.py"].together == ("engine.py",)


@pytest.mark.parametrize(("imported", "made"), [
    ("from data import build", "NormalizeOnDevice(MEAN, STD)"),
    ("from data import Zoo, build", "NormalizeOnDevice(MEAN, STD)"),
    ("from data import build, Zoo", "NormalizeOnDevice(MEAN, STD)"),
    ("from data import build\nSTD = 1", "NormalizeOnDevice((0.5, 0.4, 0.3), (0.2, 0.2, 0.1))"),
    ("import data", "data.NormalizeOnDevice(data.MEAN, data.STD)"),
    ("import data as d", "d.NormalizeOnDevice(d.MEAN, d.STD)"),
    ("from data import *", ""),
    ("", ""),
])  # fmt: skip
def test_the_module_comes_from_the_file_of_the_pipeline(imported: str, made: str) -> None:
    data = DATA.replace("(0.2, 0.2, 0.1)", "STD").replace("MEAN =", "STD = (0.2, 0.2, 0.1)\nZoo = 3\nMEAN =")
    files = {"data.py": data, "engine.py": f"{imported}\n{ENGINE.lstrip()}", "main.py": MAIN}
    results = run(CpuNormalisation(), files)
    if not made:
        assert "line 5 of engine.py" in reasons(results).replace("line 6", "line 5")
        assert "copies the images, in a file that imports nothing from the file with the transforms" in reasons(results)
        return
    assert f"normalize = {made}.to(device)\n" in after(results, "engine.py")
    lines = {
        "from data import build": "from data import MEAN, STD, NormalizeOnDevice, build\n",
        "from data import Zoo, build": "from data import MEAN, STD, NormalizeOnDevice, Zoo, build\n",
        "from data import build, Zoo": "from data import build, Zoo, MEAN, STD, NormalizeOnDevice\n",
        "from data import build\nSTD = 1": "from data import NormalizeOnDevice, build\n",
    }
    assert after(results, "engine.py").startswith(lines.get(imported, imported))


@pytest.mark.parametrize("returned", [
    'return {"train": a, "val": b}',
    "return Loaders(a, b)",
])  # fmt: skip
def test_loaders_come_in_dictionaries_and_on_objects(returned: str) -> None:
    data = DATA.replace(
        "return DataLoader(dataset(True), batch_size=size), ", "a = DataLoader(dataset(True), batch_size=size)\n    "
    )
    data = data.replace(
        "    DataLoader(dataset(False), batch_size=size)",
        f"    b = DataLoader(dataset(False), batch_size=size)\n    {returned}",
    )
    data += "\nclass Loaders:\n    def __init__(self, train, val):\n        self.train, self.val = train, val\n"
    main = MAIN.replace("train, val = build(32)", "loaders = build(32)")
    pick = 'loaders["{}"]' if "{" in returned else "loaders.{}"
    main = main.replace("model, train", f"model, {pick.format('train')}").replace(
        "model, val", f"model, {pick.format('val')}"
    )
    results = run(CpuNormalisation(), {"data.py": data, "engine.py": LOOP, "main.py": main})
    assert CALLED in after(results, "engine.py"), reasons(results)


def test_a_trainer_in_another_file_keeps_the_loader() -> None:
    trainer = """
    import data
    import torch.nn.functional as F

    class Trainer:
        def __init__(self, model, loader, device):
            self.model, self.loader, self.device = model, loader, device

        def epoch(self):
            for images, labels in self.loader:
                images = images.to(self.device)
                F.cross_entropy(self.model(images), labels.to(self.device)).backward()
    """
    main = MAIN.replace("import engine", "from trainer import Trainer")
    main = main.replace("engine.train(model, train, opt, device)", "Trainer(model, train, device).epoch()")
    main = main.replace("engine.train(model, val, opt, device)", "Trainer(model, val, device).epoch()")
    results = run(CpuNormalisation(), {"data.py": DATA, "trainer.py": trainer, "main.py": main})
    assert f"        {MADE}".replace("NormalizeOn", "data.NormalizeOn").replace("(device)", "(self.device)") in after(
        results, "trainer.py"
    )


def test_who_else_looks_at_the_images_in_whichever_file() -> None:
    shown = "from data import build\n\ndef show(plot):\n    for images, _ in build(1)[1]:\n        plot(images[0])\n"
    results = run(CpuNormalisation(), {"data.py": DATA, "engine.py": LOOP, "main.py": MAIN, "shown.py": shown})
    assert "line 5 of shown.py" in reasons(results)


def test_files_out_of_sight_may_look_at_them_too() -> None:
    files = {"data.py": DATA, "engine.py": LOOP, "main.py": MAIN}
    assert reasons(run(CpuNormalisation(), files, is_open="data.py"))
    assert "also copies other batches" in reasons(run(CpuNormalisation(), files, is_open="engine.py"))
    assert CALLED in after(run(CpuNormalisation(), files, is_open="main.py"), "engine.py")


def test_pipelines_of_two_files_move_together_where_one_loop_takes_both() -> None:
    first = DATA.replace(", DataLoader(dataset(False), batch_size=size)", "")
    second = first.replace("dataset(True)", "dataset(False)")
    main = MAIN.replace("from data import build", "import first, second")
    main = main.replace("train, val = build(32)", "train, val = first.build(32), second.build(32)")
    files = {"first.py": first, "second.py": second, "engine.py": LOOP.replace("data", "first"), "main.py": main}
    results = run(CpuNormalisation(), files)
    assert [len(result.applied) for result in results.values()] == [1, 0, 0, 0]
    assert results["main.py"].together == ()
    assert results["second.py"].together == ("engine.py", "first.py")
    files["second.py"] = second.replace("0.5, 0.4", "0.1, 0.4")
    assert "normalise with different constants" in reasons(run(CpuNormalisation(), files))


def test_a_comment_at_the_copy_keeps_the_normalisation_where_it_is() -> None:
    engine = LOOP.replace("images.to(device)", "images.to(device)  # perfmod: ignore[PM205]")
    results = run(
        CpuNormalisation(),
        {
            "data.py": DATA,
            "engine.py": engine.replace("= images.to(device)", "= 1 * images.to(device)"),
            "main.py": MAIN,
        },
    )
    assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}
    assert len(results["data.py"].suppressed) == 1


def test_a_name_that_others_import_stays_imported() -> None:
    data = DATA.replace("datasets, transforms", "datasets").replace("transforms.", "")
    data = "from torchvision.transforms import Compose, Normalize, ToTensor\n" + data.lstrip("\n")
    files = {
        "data.py": data,
        "engine.py": LOOP,
        "main.py": MAIN,
        "other.py": "from data import Normalize, ToTensor\n",
    }
    results = run(CpuNormalisation(), files)
    assert "import Compose, Normalize, PILToTensor, ToTensor\n" in after(results, "data.py")


# PM202


def test_a_loader_pins_and_the_loop_of_another_file_does_not_wait() -> None:
    data = DATA.replace("batch_size=size", "batch_size=size, num_workers=2")
    results = run(PageableTransfer(), {"data.py": data, "engine.py": ENGINE, "main.py": MAIN})
    assert after(results, "data.py").count("pin_memory=True") == 2
    assert after(results, "engine.py").count("non_blocking=True") == 2
    assert "(lines 5, 6 of engine.py)" in results["data.py"].applied[0].reason


def test_without_the_other_file_nothing_is_done_by_halves() -> None:
    results = run(PageableTransfer(), {"data.py": DATA, "main.py": MAIN})
    assert {result.outcome for result in results.values()} == {Outcome.UNCHANGED}


# PM201


SAMPLES = """
import torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self):
        return 9

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt(), index % 3

def build(size):
    return DataLoader(Samples(), batch_size=size), DataLoader(Samples(), batch_size=size, num_workers=2)
"""


def test_workers_start_where_the_loader_is_made() -> None:
    results = run(LoaderWithoutWorkers(), {"data.py": SAMPLES, "engine.py": ENGINE, "main.py": MAIN})
    assert after(results, "data.py").count("DataLoader(Samples(), batch_size=size, num_workers=2)") == 2
    assert results["main.py"].outcome is Outcome.UNCHANGED, "it has its guard"


def test_a_script_that_trains_at_its_top_level_forks_its_workers() -> None:
    main = textwrap.dedent(MAIN.replace('if __name__ == "__main__":\n    main()', "main()"))
    results = run(LoaderWithoutWorkers(), {"data.py": SAMPLES, "engine.py": ENGINE, "main.py": main})
    assert 'multiprocessing_context="fork"' in after(results, "data.py")
    assert results["data.py"].together == ()
    (finding,) = results["data.py"].applied
    assert "line 13 of main.py trains as soon as the script is imported" in finding.reason


REGISTRY = """
import argparse
import torch
import engine
import data

def prepared():
    device = torch.device("cuda")
    model = torch.nn.Linear(3, 3).to(device)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), device

def small():
    model, opt, device = prepared()
    engine.train(model, data.build(8)[0], opt, device)

def large():
    model, opt, device = prepared()
    engine.train(model, data.build_large(64), opt, device)

TASKS = {"small": small, "large": large}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("task")
    TASKS[parser.parse_args().task]()
"""


def test_a_script_that_only_hands_functions_on_keeps_its_guard_as_it_is() -> None:
    data = SAMPLES + "\ndef build_large(size):\n    return DataLoader(Samples(), batch_size=size, shuffle=True)\n"
    results = run(LoaderWithoutWorkers(), {"data.py": data, "engine.py": ENGINE, "main.py": REGISTRY})
    assert after(results, "data.py").count("num_workers=2") == 3
    assert results["main.py"].outcome is Outcome.UNCHANGED, "what stands in a guard needs none"


@pytest.mark.parametrize(("helper", "safety"), [
    ("def shift(x):\n    return x + 1\n", Safety.SAFE),
    ("import random\ndef shift(x):\n    return x * random.random()\n", Safety.UNSAFE),
])  # fmt: skip
def test_what_a_sample_calls_in_another_file_is_read(helper: str, safety: Safety) -> None:
    data = "from helper import shift\n" + SAMPLES.replace(".sqrt()", ".sqrt() + shift(index)")
    files = {"data.py": data, "engine.py": ENGINE, "main.py": MAIN, "helper.py": helper}
    results = run(LoaderWithoutWorkers(), files, unsafe=True)
    assert [finding.safety for finding in results["data.py"].applied] == [safety]


def test_what_another_file_sets_is_not_there_in_a_worker() -> None:
    data = SAMPLES.replace("class Samples", "SIZE = 3\n\nclass Samples").replace("(3,)", "(SIZE,)")
    main = MAIN.replace("    train, val", "    import data\n    data.SIZE = 5\n    train, val")
    files = {"data.py": data, "engine.py": ENGINE, "main.py": main}
    (finding,) = run(LoaderWithoutWorkers(), files)["data.py"].applied
    assert "they need what line 10 of main.py defines, which only this process runs" in finding.reason


@pytest.mark.parametrize(
    ("tensor", "is_torch"), [("from torch import Tensor", True), ("from boxes import Tensor", False)]
)
@pytest.mark.parametrize("other", ["from torch import Tensor", "from boxes import Tensor", "x = 1"])
def test_annotations_mean_what_they_mean_in_their_own_file(tensor: str, other: str, *, is_torch: bool) -> None:
    loop = f"""
    import torch.nn.functional as F
    import areas
    {tensor}

    def step(logits: Tensor, labels: Tensor):
        mask = labels != -100
        F.cross_entropy(logits[mask], labels[mask]).backward()
    """
    results = run(MaskedLoss(), {"areas.py": other, "train.py": loop})
    assert bool(results["train.py"].applied) is is_torch
