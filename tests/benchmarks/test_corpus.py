"""The corpus: its manifests, what is counted in a tree, what became of it, and the checks of the outputs."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

TRAIN = """
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import MNIST

from meters import AverageMeter

device = torch.device("cuda")
transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.1,), (0.3,))])
train_loader = DataLoader(MNIST(".", transform=transform), batch_size=8)
test_loader = DataLoader(MNIST(".", train=False), num_workers=4, pin_memory=True)


def train(loader, model, optimizer):
    total = 0.0
    history = []
    losses = AverageMeter()
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.cuda(non_blocking=True)
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        total += loss.item() * x.size(0)
        history.append(float(loss))
        losses.update(loss.item(), x.size(0))
        if step % 10 == 0:
            total += loss.item()
    return total


def evaluate(loader, model):
    total = 0.0
    for x, y in loader:
        total += model(x.to(device), y).item()
    return total


for epoch in range(3):
    train(train_loader, model, optimizer)
    evaluate(test_loader, model)
"""


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


def module(name: str) -> ModuleType:
    return importlib.import_module(name)


def surveyed(tmp_path: Path, files: Mapping[str, str], *, operations: bool = False) -> list[Any]:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text))
    found = module("corpus_survey").survey(module("corpus_index").Index.of_tree(tmp_path, ["."]))
    return [each for each in found if (each.measure == "operations") is operations]


def line_of(text: str, code: str) -> int:
    return 1 + next(number for number, line in enumerate(text.splitlines()) if code in line)


def test_the_repositories_are_pinned_and_explained() -> None:
    listed = module("corpus_sources").repositories()
    assert len({each.name for each in listed}) == len(listed) >= 60
    assert len({each.kind for each in listed}) >= 15
    for each in listed:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", each.name)
        assert re.fullmatch(r"[0-9a-f]{40}", each.commit)
        assert each.licence
        assert each.note


def test_the_packages_are_pinned() -> None:
    listed = module("corpus_sources").packages()
    assert {each.name for each in listed} >= {"accelerate", "diffusers", "timm", "torch-geometric", "torchvision"}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", each.version) for each in listed)


def test_a_tree_is_clean_and_leaves_the_source_alone(tmp_path: Path) -> None:
    sources = module("corpus_sources")
    source = tmp_path / "sources" / "owner" / "name"
    source.mkdir(parents=True)
    (source / "train.py").write_text("import torch\n")
    (source / "picture.png").write_bytes(b"large")
    subprocess.run(["git", "init", "--quiet", str(source)], check=True)
    sources.git(source, "add", "--all")
    sources.git(source, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "one")
    commit = sources.git(source, "rev-parse", "HEAD").stdout.decode().strip()
    (source / "train.py").write_text("edited\n")

    repository = sources.Repository("owner/name", commit, "MIT", "toy", "a note")
    tree = repository.tree(tmp_path / "sources", tmp_path / "scratch")
    assert (tree / "train.py").read_text() == "import torch\n"
    assert not (tree / "picture.png").exists()
    assert (source / "train.py").read_text() == "edited\n"
    other = sources.Repository("owner/name", "0" * 40, "MIT", "toy", "a note")
    with pytest.raises(sources.Unavailable, match="--fetch"):
        other.tree(tmp_path / "sources", tmp_path / "more")


def test_every_kind_of_occurrence_is_counted(tmp_path: Path) -> None:
    found = surveyed(tmp_path, {"train.py": TRAIN})
    sums = {(each.form, each.line) for each in found if each.measure == "sums"}
    assert sums == {
        ("sum", line_of(TRAIN, "total += loss.item() * x")),
        ("append", line_of(TRAIN, "history.append")),
        ("meter", line_of(TRAIN, "losses.update")),
    }
    moves = {each.code: each.lacks for each in found if each.measure == "moves"}
    assert moves == {
        "x.to(device)": {"non_blocking", "pinning"},
        "y.cuda(non_blocking=True)": {"pinning"},
    }
    lacks = {each.line: each.lacks for each in found if each.measure == "loaders"}
    assert lacks == {
        line_of(TRAIN, "train_loader = "): {"workers", "pinning"},
        line_of(TRAIN, "test_loader = "): frozenset(),
    }
    assert [each.line for each in found if each.measure == "tails"] == [line_of(TRAIN, "Compose")]


def test_sums_that_the_step_reads_are_told_from_the_others(tmp_path: Path) -> None:
    text = """
        import torch
        for step, batch in enumerate(batches):
            loss = model(batch.cuda())
            loss.backward()
            shown += loss.item()
            kept += loss.item()
            losses.update(loss.item())
            meter.update(loss.item())
            bar.set_postfix(loss=shown / (step + 1), average=meter.avg)
            if step % 100 == 0:
                print(kept, losses.avg)
                kept = 0.0
    """
    found = surveyed(tmp_path, {"train.py": text})
    assert {each.key: each.is_needed for each in found} == {
        "sum shown": True,
        "sum kept": False,
        "meter losses": False,
        "meter meter": True,
    }


def test_operations_of_steps_are_counted_by_their_names(tmp_path: Path) -> None:
    text = """
        import numpy as np
        import torch
        for step, batch in enumerate(batches):
            out = model(batch.cuda())
            loss = out.mean()
            loss.backward(retain_graph=True)
            kinds = torch.unique(batch, return_counts=True)
            score(out.detach().cpu().numpy())
            chosen = batch[out > 0]
            ids = np.unique(names).tolist()
            wide = batch.repeat_interleave(2)
            if torch.isnan(loss):
                print(f"{loss}")
            if step % 100 == 0:
                torch.cuda.synchronize()
                value = loss.item()
                bar.show(value)
            with torch.cuda.amp.autocast():
                start = torch.tensor([1, 2], device=batch.device)
        print(loss.item())
    """
    found = surveyed(tmp_path, {"train.py": text}, operations=True)
    assert sorted((each.form, each.line) for each in found) == [
        ("amp", 19),
        ("branch", 13),
        ("copy", 9),
        ("item", 17),
        ("made", 20),
        ("mask", 10),
        ("report", 14),
        ("retained", 7),
        ("unique", 8),
        ("wait", 16),
    ]
    (item,) = (each for each in found if each.form == "item")
    assert item.also == {18}


def test_what_only_looks_like_a_sum_of_the_step_is_not_counted(tmp_path: Path) -> None:
    text = """
        import torch
        for step, batch in enumerate(batches):
            loss = model(batch.cuda())
            loss.backward()
            running.update(loss.detach())
            logs.update({"loss": loss.item()})
            if step % 100 == 0:
                loss = running.compute().item()
                print(loss)
    """
    assert surveyed(tmp_path, {"train.py": text}) == []


def test_sums_of_numbers_that_the_step_uses_are_told_from_the_others(tmp_path: Path) -> None:
    text = """
        import math, torch
        for step, batch in enumerate(batches):
            loss, other = model(batch.cuda())
            loss.backward()
            value = loss.item()
            if not math.isfinite(value):
                break
            guarded += value
            seen = other.item()
            assert isinstance(seen, float)
            kept.append(seen)
            shown += hits.item()
            print(hits.item())
            rare += far.item()
            if step % 100 == 0:
                print(far.item())
        for epoch in range(3):
            out = model(everything.cuda()).sum()
            out.backward()
            for batch in test_loader:
                total += model(batch).item()
            for name in names:
                scores.append(model(name).item())
            print(total, scores)
    """
    found = surveyed(tmp_path, {"train.py": text})
    assert {each.key: each.is_needed for each in found} == {
        "sum guarded": True,
        "append kept": False,
        "sum shown": True,
        "sum rare": False,
        "sum total": False,
        "append scores": True,
    }


def test_loaders_are_found_in_other_files(tmp_path: Path) -> None:
    files = {
        "data.py": """
            from torch.utils.data import DataLoader
            def loaders(args):
                kwargs = {"num_workers": 2}
                if args.pin:
                    kwargs.update(pin_memory=True)
                return {"train": DataLoader(args.data, **kwargs), "val": DataLoader(args.data)}
        """,
        "engine.py": """
            def train_one_epoch(model, data_loader, device):
                for batch in data_loader:
                    x = batch["image"].to(device)
                    model(x).backward()
        """,
        "main.py": """
            from data import loaders
            from engine import train_one_epoch
            found = loaders(args)
            train_one_epoch(model, found["train"], "cuda")
        """,
    }
    found = surveyed(tmp_path, files)
    move = next(each for each in found if each.measure == "moves")
    assert move.path == "engine.py"
    assert {place[0] for place in move.depends} == {"data.py"}
    assert [sorted(each.lacks) for each in found if each.measure == "loaders"] == [[], ["pinning", "workers"]]


DATED = """\
    loss = model(x.to(device), y.to(device))
    loss.backward()
    total += loss.data[0]"""


@pytest.mark.parametrize(("before", "after", "counted"), [
    ("", "", ["x.to(device)", "y.to(device)"]),
    ("from torch.utils.data import", "from dgl.dataloading import", []),
    ("from torch.utils.data import", "from dgl.distributed import", []),
    ("from torch.utils.data import", "from mxnet.gluon.data import", []),
    ("import DataLoader", "import GraphDataLoader as DataLoader", ["x.to(device)", "y.to(device)"]),
    ("for x, y", "model, loader = accelerator.prepare(model, loader)\nfor x, y", []),
    ("for x, y", "a = Accelerator(device_placement=False)\nloader = a.prepare(loader)\nfor x, y", 2),
    ("for x, y", "loader = pipeline.prepare(loader)\nfor x, y", ["x.to(device)", "y.to(device)"]),
    ("    model(", "    x = x.to(device)\n    model(", 2),
    ("    model(", "    if cuda:\n        x = x.to(device)\n    model(", 3),
    ("    model(", "    x = x.to(device)\n    x = y\n    model(", 3),
    ("x.to(device)", "x.to(device, 'a', 'b')", ["x.to(device, 'a', 'b')", "y.to(device)"]),
    ("    model(x.to(device), y.to(device)).backward()", DATED, []),
    ("    model(x.to(device), y.to(device)).backward()", DATED.replace("loss.data[0]", "x.data[0]"), 2),
    ("    model(x.to(device), y.to(device)).backward()", DATED.replace("[0]", "[1]"), 2),
])  # fmt: skip
def test_copies_that_count(tmp_path: Path, before: str, after: str, counted: list[str] | int) -> None:
    code = """\
from torch.utils.data import DataLoader
loader = DataLoader(data)
for x, y in loader:
    model(x.to(device), y.to(device)).backward()
"""
    moves = [each for each in surveyed(tmp_path, {"train.py": code.replace(before, after)}) if each.measure == "moves"]
    assert all(each.lacks == {"non_blocking", "pinning"} for each in moves)
    assert (len(moves) if isinstance(counted, int) else [each.code for each in moves]) == counted


@pytest.mark.parametrize(("path", "text", "counts"), [
    ("requirements.txt", "numpy\ntorch==0.3.0.post4\n", False),
    ("old/requirements-gpu.txt", "torch==0.3.1\n", False),
    ("environment.yml", "dependencies:\n  - pytorch=0.3\n", False),
    ("requirements.txt", "torch==0.4.1\n", True),
    ("requirements.txt", "torch==0.31\n", True),
    ("requirements.txt", "torchvision==0.2.0\n", True),
    ("other/requirements.txt", "torch==0.3.1\n", True),
])  # fmt: skip
def test_copies_of_a_torch_without_non_blocking(tmp_path: Path, path: str, text: str, *, counts: bool) -> None:
    code = "from torch.utils.data import DataLoader\nfor x in DataLoader(data):\n    model(x.cuda()).backward()\n"
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(text)
    found = [each.measure for each in surveyed(tmp_path, {"old/train.py": code})]
    assert ("moves" in found) is counts


def test_what_partial_binds_counts(tmp_path: Path) -> None:
    code = """
        MyLoader = partial(DataLoader, pin_memory=True)
        for x in MyLoader(data):
            model(x.to(device)).backward()
    """
    assert [each.lacks for each in surveyed(tmp_path, {"train.py": code})] == [{"non_blocking"}]


def test_a_copy_depends_on_the_loader_of_its_own_variable_and_of_the_nearest_caller(tmp_path: Path) -> None:
    engine = """
        def train_one_epoch(model, labelled, other):
            others = iter(other)
            for x, y in labelled:
                z, _ = next(others)
                model(x.cuda(), y, z.cuda()).backward()
    """
    main = """
        from torch.utils.data import DataLoader
        from engine import train_one_epoch
        train_one_epoch(model, DataLoader(a, pin_memory=True, num_workers=1), DataLoader(b))
    """
    files = {f"{folder}/{name}": text for folder in "pq" for name, text in (("engine.py", engine), ("main.py", main))}
    moves = [each for each in surveyed(tmp_path, files) if each.measure == "moves"]
    assert [(each.path, each.code, sorted(each.lacks)) for each in moves] == [
        (f"{folder}/engine.py", *rest)
        for folder in "pq"
        for rest in (("x.cuda()", ["non_blocking"]), ("z.cuda()", ["non_blocking", "pinning"]))
    ]
    assert all({place[0] for place in each.depends} == {each.path.replace("engine", "main")} for each in moves)


def test_what_git_ignores_is_not_counted(tmp_path: Path) -> None:
    module("corpus_sources").git(tmp_path, "init", "--quiet")
    found = surveyed(tmp_path, {"train.py": TRAIN, "backup/train.py": TRAIN, ".gitignore": "backup\n"})
    assert {each.path for each in found} == {"train.py"}


def test_a_loader_is_silent_where_one_of_its_lacks_is(tmp_path: Path) -> None:
    line = line_of(TRAIN, "train_loader = ")
    about = {"code": "PM201", "path": "train.py", "line": line, "state": "left-as-it-is", "reason": "no", "scope": ""}
    assert reached(tmp_path, TRAIN, [about])["loaders", line] == ("silent", "pinning: no finding; workers: PM201: no")
    after = TRAIN.replace("batch_size=8)", "batch_size=8, pin_memory=True)")
    assert reached(tmp_path, after, [])["loaders", line] == ("silent", "workers: no finding; pinning: rewritten")
    assert reached(tmp_path, after, [about])["loaders", line][0] == "refused"


def test_cells_of_a_notebook_are_counted_by_cell_and_line(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# title"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "import torch\n", "device = 'cuda'"]},
        {"cell_type": "code", "source": ["for x in batches:\n", "    loss = f(x)\n", "    loss.backward()\n"]},
    ]
    cells[-1]["source"].append("    total += loss.item()")  # type: ignore[attr-defined]
    found = surveyed(tmp_path, {"n.ipynb": json.dumps({"cells": cells})})
    assert [(each.cell, each.line) for each in found] == [(3, 4)]


def finding(line: int, code: str, state: str, reason: str = "", scope: str = "train") -> dict[str, Any]:
    return {"path": "train.py", "line": line, "code": code, "state": state, "reason": reason, "scope": scope}


def reached(tmp_path: Path, after: str, findings: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[str, str]]:
    (tmp_path / "train.py").write_text(TRAIN)
    checks, reach = module("corpus_checks"), module("corpus_reach")
    run = checks.Run({"findings": findings, "files": []}, b"", 0.0, 0.0)
    fates = reach.fates_in(checks.Checked(run, {}, tmp_path, {"train.py": after} if after != TRAIN else {}), ["."])
    return {(fate.occurrence.measure, fate.occurrence.line): (fate.state, fate.reason) for fate in fates}


def test_what_is_gone_was_rewritten_and_the_rest_has_a_reason_or_none(tmp_path: Path) -> None:
    after = (
        TRAIN.replace("loss.item() * x.size(0)", "(loss.double() if loss.is_cuda else loss.item()) * x.size(0)")
        .replace("x.to(device), y", "x.to(device, non_blocking=True), y")
        .replace("batch_size=8)", "batch_size=8, pin_memory=True)")
    )
    at = line_of(TRAIN, "history.append")
    loader = line_of(TRAIN, "train_loader =")
    found = reached(
        tmp_path,
        after,
        [
            finding(line_of(TRAIN, "total += loss.item() * x"), "PM106", "rewritten"),
            finding(at, "PM106", "left-as-it-is", "`history` is read again on line 30"),
            finding(loader, "PM202", "rewritten"),
            finding(loader, "PM201", "open-question", "it may draw random numbers (line 12)", scope=""),
        ],
    )
    assert found["sums", line_of(TRAIN, "total += loss.item() * x")] == ("rewritten", "")
    assert found["sums", at] == ("refused", "PM106: `…` is read again on line N")
    assert found["sums", line_of(TRAIN, "losses.update")] == ("silent", "")
    assert found["moves", line_of(TRAIN, "x.to(device), y")] == ("rewritten", "")
    reason = "workers: PM201: it may draw random numbers (line N); pinning: rewritten"
    assert found["loaders", loader] == ("held-back", reason)
    assert found["tails", line_of(TRAIN, "Compose")] == ("silent", "")


COMPOSE = "Compose([transforms.ToTensor(), transforms.Normalize((0.1,), (0.3,))])"
NAMED = "Compose([transforms.ToTensor(), n])"
DATA = 'MNIST(".", transform=transform)'


@pytest.mark.parametrize(("edits", "is_visible"), [
    ({}, True),
    ({f"transform = transforms.{COMPOSE}": f"n = transforms.Normalize(0, 1)\ntransform = transforms.{NAMED}"}, True),
    ({DATA: 'eval("MNIST")(".", transform=transform)'}, False),
    ({DATA: 'load(".", transform=transform)', "import torch\n": "import torch\nfrom far import load\n"}, False),
    ({DATA: "Own(transform)", "device =": "class Own:\n    pass\n\n\ndevice ="}, True),
    ({"for epoch": "from far import Trainer\nTrainer().fit(train_loader)\nfor epoch"}, False),
    ({"for epoch": "from far import show\nfor batch in train_loader:\n    show(batch)\nfor epoch"}, False),
    ({"for epoch": "from far import show\nfor x, y in train_loader:\n    show(x)\nfor epoch"}, True),
    ({"for epoch": "transform(picture)\nfor epoch"}, False),
    ({"for epoch": f"other = DataLoader({DATA})\nfor epoch"}, False),
    ({"loss.backward()": "pass"}, False),
])  # fmt: skip
def test_a_tail_counts_where_all_its_loops_are_visible(
    tmp_path: Path, edits: dict[str, str], *, is_visible: bool
) -> None:
    code = TRAIN
    for old, new in edits.items():
        assert old in code
        code = code.replace(old, new, 1)
    (tmp_path / "train.py").write_text(code)
    found = module("corpus_survey").survey(module("corpus_index").Index.of_tree(tmp_path, ["."]))
    assert [each.measure for each in found].count("tails") == is_visible


def test_of_two_tails_the_rewritten_one_is_gone(tmp_path: Path) -> None:
    second = (
        "transform = transforms.Compose([transforms.Resize(9), transforms.ToTensor(), transforms.Normalize(0, 1)])\n"
    )
    other = second.replace("transform =", "other =")
    both = 'ConcatDataset([MNIST(".", transform=transform), MNIST("more", transform=other)])'
    before = TRAIN.replace("import DataLoader", "import ConcatDataset, DataLoader")
    before = before.replace("train_loader =", other + "train_loader =").replace('MNIST(".", transform=transform)', both)
    after = before.replace("transforms.ToTensor(), transforms.Normalize((0.1,), (0.3,))", "transforms.PILToTensor()")
    survey, index = module("corpus_survey").survey, module("corpus_index").Index
    (tmp_path / "train.py").write_text(before)
    read = index.of_tree(tmp_path, ["."])
    keys = [
        {each.key for each in survey(tree) if each.measure == "tails"}
        for tree in (read, read.rewritten({"train.py": after}))
    ]
    assert [len(found) for found in keys] == [2, 1]
    assert keys[1] < keys[0]


def test_a_copy_that_does_not_wait_counts_only_with_pinning(tmp_path: Path) -> None:
    after = TRAIN.replace("x.to(device), y", "x.to(device, non_blocking=True), y")
    found = reached(tmp_path, after, [])
    assert found["moves", line_of(TRAIN, "x.to(device), y")] == ("silent", "")


def repository(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir()
    for path, text in files.items():
        (folder / path).write_text(text)
    git = module("corpus_sources").git
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "-m", "one")
    return folder


def test_a_tree_goes_through_perfmod_and_is_put_back(tmp_path: Path) -> None:
    checks = module("corpus_checks")
    texts = {"train.py": TRAIN.strip() + "\n", "old.py": "print 'two'\n", "model.py": "import torch\n"}
    tree = repository(tmp_path / "tree", texts)
    checked = checks.check(tree, ["."], tmp_path, jobs=1, whole_second_run=True)
    assert checked.problems == {}
    assert "pin_memory=True" in checked.after["train.py"]
    assert (tree / "train.py").read_text() == texts["train.py"]
    row = checks.row_of("owner/name", checked)
    assert row["files"] == {"changed": 1, "unchanged": 2}
    assert "PM202" in row["changed"]["train.py"]
    assert row["findings"]["rewritten"] == len(row["changed"]["train.py"])
    assert row["seconds"] > 0
    assert 5 < row["peak_mib"] < 2000


def test_failures_are_told_from_files_that_nobody_can_parse(tmp_path: Path) -> None:
    checks = module("corpus_checks")
    texts = {"old.py": "import torch\nprint 'two'\n", "good.py": "import torch\n", "ours.py": "import torch\n"}
    tree = repository(tmp_path / "tree", texts)
    rows = [
        {"path": "old.py", "outcome": "failed", "reason": "syntax error at line 2"},
        {"path": "good.py", "outcome": "failed", "reason": "syntax error at line 1"},
        {"path": "ours.py", "outcome": "failed", "reason": "internal error in PM101: KeyError"},
    ]
    run = checks.Run({"findings": [], "files": rows}, b"", 0.0, 0.0)
    assert checks.unreadable(run, tree) == {"old.py": "syntax error at line 2"}
    assert checks._faults(run, tree) == ["good.py", "ours.py"]


def test_reasons_fall_into_classes() -> None:
    reason = module("corpus_checks").reason_class
    assert reason("`x` is read on lines 3, 4 and 17; 2 times") == "`…` is read on line N; N times"


def entry(number: int, **more: Any) -> dict[str, Any]:
    row = {"number": number, "repository": "KimRass/DDPM", "path": "train.py", "cell": 0, "line": number}
    graded = {"grade": "merge", "wrong": False, "note": "", "mended": ""}
    return row | {"rule": "PM106", "fingerprint": "0"} | graded | more


def test_a_table_of_grades_is_complete_or_says_what_is_missing() -> None:
    problems = module("mergeable").problems
    whole = {"reader": "somebody", "hunk": [entry(1), entry(2, grade="nit", note="a comma")]}
    assert problems(whole, hunks=2, least=1) == []
    assert problems(whole) == ["2 hunks instead of 60", "1 repositories instead of 25"]
    assert "no grade" in problems({**whole, "hunk": [entry(1, grade="")]}, hunks=1, least=1)[0]
    assert "no note" in problems({**whole, "hunk": [entry(1, grade="nit")]}, hunks=1, least=1)[0]
    assert "there twice" in problems({**whole, "hunk": [entry(1), entry(2, line=1)]}, hunks=2, least=1)[0]
    assert problems({**whole, "reader": ""}, hunks=2, least=1) == ["nobody signed as its reader"]
    assert "not in the manifest" in problems({**whole, "hunk": [entry(1, repository="a/b")]}, hunks=1, least=1)[0]


def test_a_table_has_to_be_merged_and_never_wrong() -> None:
    problems = module("mergeable").problems
    wrong = entry(1, grade="reject", wrong=True, note="the list is read in the loop")
    assert "is wrong: the list" in problems({"reader": "x", "hunk": [wrong]}, hunks=1, least=1)[0]
    rows = [entry(n) for n in range(1, 10)]
    ugly = [entry(n, grade="differently", note="too long") for n in (10, 11)]
    assert problems({"reader": "x", "hunk": [*rows, ugly[0]]}, hunks=10, least=1) == []
    assert problems({"reader": "x", "hunk": [*rows, *ugly]}, hunks=11, least=1) == ["9 of 11 would be merged"]


def test_hunks_are_drawn_from_every_repository_first_and_the_same_for_a_seed(tmp_path: Path) -> None:
    mergeable, sources = module("mergeable"), module("corpus_sources")
    pool = [
        mergeable.Hunk(
            sources.Repository(f"owner/n{number % 5}", "0" * 40, "sealed"),
            {**finding(number, "PM106", "rewritten", "safe so"), "name": "n", "message": "m", "safety": "safe"}
            | {"numerics": "bitwise", "fingerprint": f"{number:016x}"},
            "a\nb\n",
            "a\nc\n",
            {},
        )
        for number in range(1, 60)
    ]
    drawn = mergeable.draw(pool, 7, seed=1)
    assert len(drawn) == 7
    assert {hunk.repository.name for hunk in drawn} == {f"owner/n{number}" for number in range(5)}
    assert drawn == mergeable.draw(pool, 7, seed=1) != mergeable.draw(pool, 7, seed=2)
    of_each = [hunk.repository.name for hunk in mergeable.draw(pool, 59, seed=1)]
    assert {of_each.count(name) for name in of_each} == {10}
    mergeable.write(drawn, tmp_path / "drawn", 1)
    assert "+c" in (tmp_path / "drawn" / "001.txt").read_text()
    table = mergeable.tomllib.loads((tmp_path / "drawn" / "mergeable.toml").read_text())
    assert [row["number"] for row in table["hunk"]] == list(range(1, 8))
    assert "no grade" in " ".join(mergeable.problems(table, hunks=7, least=1))


def test_repositories_that_nobody_tuned_to_are_in_no_corpus() -> None:
    sources = module("corpus_sources")
    unseen = sources.unseen()
    assert len(unseen) >= 200
    assert {each.kind for each in unseen} == {"development", "sealed"}
    assert not {each.name for each in unseen} & {each.name for each in sources.repositories()}
