"""PM201: which loaders get workers, which don't and why; a rewritten script prints the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from cases import says
from forked_python import THREADS, python

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given
from perfmod.transforms.feeding.loader_without_workers import LoaderWithoutWorkers
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.outside import OutsideSetting
from perfmod.transforms.policy import Policy, Target

COUNT = "min(8, os.cpu_count() or 1)"
HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, index):
        return torch.full((3,), float(index)).square()


"""
MAIN = """\
def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Squares(), batch_size=2)
    for x in loader:
        model(x.to(model.weight.device)).sum().backward()
        print(x.sum().item())


if __name__ == "__main__":
    main()
"""


def run(code: str, *, unsafe: bool = False) -> FileResult:
    return rewrite(code.encode(), "train.py", [LoaderWithoutWorkers()], Choice(unsafe=unsafe))


def flat(code: str) -> str:
    """Code without its spaces and line ends."""
    return "".join(code.split())


def refusal(code: str) -> str:
    result = run(code)
    assert result.after == code.encode()
    assert [finding.refused for finding in result.refused] == [True]
    return result.refused[0].reason


def test_a_training_on_the_cpu_is_held_back() -> None:
    code = HEAD + MAIN.replace("x.to(model.weight.device)", "x")
    result = run(code)
    assert result.after == code.encode()
    (held,) = result.held_back
    assert held.safety is Safety.OPT_IN
    assert "trains on the CPU" in held.reason


@pytest.mark.parametrize(("loader", "comment"), [
    ("DataLoader(\n        Squares(),\n        # num_workers=4,\n        batch_size=2)", "# num_workers=4,"),
    ("DataLoader(Squares(), batch_size=2)  # , num_workers=args.n", "# , num_workers=args.n"),
])  # fmt: skip
def test_workers_that_somebody_switched_off(loader: str, comment: str) -> None:
    code = HEAD + MAIN.replace("DataLoader(Squares(), batch_size=2)", loader)
    result = run(code)
    assert result.after == code.encode()
    (held,) = result.held_back
    assert held.safety is Safety.UNSAFE
    assert says(held.reason, f"switched it off … `{comment}` … line 16")


@pytest.mark.parametrize(("lines", "is_chosen"), [
    ("    workers = 0  # 0 on Windows", True),
    ("    seed = 1\n    workers = 0", True),
    ("    workers = 0\n    shuffle = True", True),
    ("    size, workers = 32, 0", True),
    ("    torch.manual_seed(0)\n    workers = 0", False),
    ("    squares = Squares()\n    workers = 0", False),
])  # fmt: skip
def test_a_zero_that_somebody_chose(lines: str, is_chosen: bool) -> None:
    loader = lines + "\n" + LOADER.replace("batch_size=2", "batch_size=2, num_workers=workers")
    code = HEAD + MAIN.replace(LOADER, loader)
    result = run(code)
    assert bool(result.applied) is not is_chosen
    at = code[: code.index("workers = ")].count("\n") + 1
    expected = f"line {at} sets the number of workers to 0"
    assert [(each.safety, each.reason) for each in result.held_back] == [(Safety.UNSAFE, expected)] * is_chosen


@pytest.mark.parametrize(
    ("default", "given", "is_overridden"),
    [("=4", "num_workers=0", True), ("=4", "0", True), ("=0", "num_workers=0", False), ("", "num_workers=0", False)],
)
def test_a_default_with_workers_that_a_call_overrides(default: str, given: str, is_overridden: bool) -> None:
    code = HEAD + MAIN.replace(LOADER, "    loader = batches(WORKERS)\n")
    made = "return DataLoader(Squares(), 2, num_workers=num_workers)"
    code = code.replace("def main", f"def batches(num_workers{default}):\n    {made}\n\n\ndef main")
    result = run(code.replace("WORKERS", given))
    at = code[: code.index("batches(WORKERS)")].count("\n") + 1
    default_at = code[: code.index("def batches")].count("\n") + 1
    assert bool(result.applied) is not is_overridden
    expected = f"the call on line {at} overrides the default num_workers=4 on line {default_at}"
    assert [(each.safety, each.reason) for each in result.held_back] == [(Safety.OPT_IN, expected)] * is_overridden


@pytest.mark.parametrize(("default", "use", "raised", "safety"), [
    (0, "", 4, Safety.SAFE),
    (8, "", 8, Safety.SAFE),
    (8, "    threads = args.num_workers\n", 8, Safety.SAFE),
    (0, "    print(args)\n", 4, Safety.UNSAFE),
    (0, "    threads = args.num_workers\n", None, Safety.SAFE),
])  # fmt: skip
@pytest.mark.parametrize("forked", [False, True])
def test_an_option_for_it_is_used(default: int, use: str, raised: int | None, safety: Safety, forked: bool) -> None:
    options = (
        "import argparse\n\nparser = argparse.ArgumentParser()\n"
        f'parser.add_argument("--num_workers", type=int, default={default}, help="default: {default}")\n'
    )
    parsed = f"    args = parser.parse_args()\n{use}"
    loader = LOADER.replace("batch_size=2", "collate_fn=lambda items: torch.stack(items)") if forked else LOADER
    code = f"{options}{HEAD}{MAIN.replace(LOADER, parsed + loader)}"
    result = run(code, unsafe=True)
    (finding,) = result.applied
    assert finding.safety is safety
    after = result.after.decode()
    if raised is None:
        assert f"num_workers={COUNT}" in after
        return
    context = ', multiprocessing_context="fork" if args.num_workers else None' if forked else ""
    assert flat(f", num_workers=args.num_workers{context})") in flat(after)
    assert f'default={raised}, help="default: {raised}")' in after
    assert "cpu_count" not in after


@pytest.mark.parametrize(("settings", "loader", "number"), [
    ("@dataclass\nclass Config:\n    size: int = 2\n    num_workers: int = 6\n\n\nconfig = Config()",
     "batch_size=config.size", "config.num_workers"),
    ('config = {"size": 2, "workers": 3}', 'batch_size=config["size"]', 'config["workers"]'),
    ('config = {"size": 2, "workers": 0}', 'batch_size=config["size"]', COUNT),
    ('config = {"size": 2}', 'batch_size=config["size"]', COUNT),
])  # fmt: skip
def test_settings_for_it_are_used(settings: str, loader: str, number: str) -> None:
    code = "from dataclasses import dataclass\n" + HEAD + settings + "\n\n\n" + MAIN.replace("batch_size=2", loader)
    assert flat(f", num_workers={number})") in flat(run(code).after.decode())


@pytest.mark.parametrize(("head", "number"), [
    ('@click.option("--workers", default=4)\ndef main(workers):', "workers"),
    ('@click.option("--workers", default=0)\ndef main(workers):', COUNT),
    ("def main(num_workers=2):", "num_workers"),
    ("def main(num_workers=None):", COUNT),
])  # fmt: skip
def test_parameters_for_it_are_used(head: str, number: str) -> None:
    code = "import click\n" + HEAD + MAIN.replace("def main():", head)
    assert f"num_workers={number})" in run(code).after.decode()


def test_a_default_of_a_class_that_a_call_overrides() -> None:
    own = (
        "class Data:\n    def __init__(self, num_workers=2):\n"
        "        self.loader = DataLoader(Squares(), 2, num_workers=num_workers)\n\n\ndef main"
    )
    code = HEAD + MAIN.replace(LOADER, "    loader = Data(0).loader\n").replace("def main", own)
    (held,) = run(code).held_back
    assert says(held.reason, "line 21 … num_workers=2 on line 15")


def test_a_zero_at_the_top_of_a_script_is_somebodys_choice() -> None:
    code = HEAD.replace("\n\n", "\n\nWORKERS = 0\n", 1) + MAIN.replace(
        "batch_size=2", "batch_size=2, num_workers=WORKERS"
    )
    (held,) = run(code).held_back
    assert "number of workers to 0" in held.reason


READY = HEAD.replace("torch.full((3,), float(index)).square()", "SAMPLE").replace(
    "    def __len__",
    """\
    def __init__(self):
        self.x = torch.randn(8, 3)
        self.rows = [[1.0, 2.0, 3.0]] * 8
        self.size = 3
        self.order = shuffled(8)

    def __len__""",
)
READY = f"from orders import shuffled\n{READY}"


@pytest.mark.parametrize(("sample", "is_ready"), [
    ("self.x[index]", True),
    ("torch.tensor(self.rows[index])", True),
    ("torch.LongTensor(self.rows[index]).float()", True),
    ("{'x': self.x[index], 'row': torch.as_tensor(self.rows[index])}['x']", True),
    ("{name: torch.tensor(rows[index]) for name, rows in {'x': self.rows}.items()}['x']", True),
    ("self.x[index].square()", False),
    ("self.x[index] @ self.x.T", False),
    ("self.x[index] / 255", False),
    ("self.x[index + 1 - 1]", True),
    ("str(self.rows[index]).lower().split()", True),
    ("torch.tensor([int(each) for each in str(self.rows[index]).split()])", False),
    ("self.rows[self.order[index]]", True),
    ("self.order[index]", False),
    ("clean(self.rows[index])", False),
    ("torch.load(f'{index}.pt')", False),
    ("torch.tensor(self.rows[index]).normal_()", False),
])  # fmt: skip
def test_samples_that_are_ready_in_memory(sample: str, is_ready: bool) -> None:
    code = READY.replace("SAMPLE", sample) + MAIN
    result = run(code)
    if is_ready:
        assert not result.applied
        (held,) = result.held_back
        assert held.safety is Safety.LOW_IMPACT
        assert "ready in memory" in held.reason
    else:
        assert "ready in memory" not in "".join(each.reason for each in (*result.held_back, *result.refused))


def test_a_sample_behind_local_names_and_a_check_of_the_index() -> None:
    body = "row = self.rows[index]\n        if index >= self.size:\n            raise IndexError(index)\n"
    code = READY.replace("return SAMPLE", f"{body}        x = torch.tensor(row)\n        return x") + MAIN
    assert run(code).held_back[0].safety is Safety.LOW_IMPACT


@pytest.mark.parametrize(("dataset", "is_ready"), [
    ("TensorDataset(torch.randn(8, 3))", True),
    ("random_split(TensorDataset(torch.randn(8, 3)), [6, 2])[0]", True),
    ("ConcatDataset([Squares(), Squares()])", True),
    ("torch.randn(8, 3)", True),
    ("CIFAR10('data', transform=ToTensor())", False),
    ("MNIST('data', transform=ToTensor())", False),
])  # fmt: skip
def test_datasets_that_are_ready_in_memory(dataset: str, is_ready: bool) -> None:
    imports = (
        "from torch.utils.data import ConcatDataset, TensorDataset, random_split\n"
        "from torchvision.datasets import CIFAR10, MNIST\nfrom torchvision.transforms import ToTensor\n"
    )
    result = run(imports + READY.replace("SAMPLE", "self.x[index]") + MAIN.replace("Squares()", dataset, 1))
    assert [each.safety for each in result.held_back] == ([Safety.LOW_IMPACT] if is_ready else [])
    assert bool(result.applied) is not is_ready


@pytest.mark.parametrize(("batch", "is_ready"), [
    ("torch.stack(items)", True),
    ("torch.tensor([item.tolist() + [0.0] * (3 - len(item)) for item in items])", True),
    ("torch.nn.utils.rnn.pad_sequence(items, batch_first=True)", True),
    ("torch.stack([torch.fft.rfft(item).abs() for item in items])", False),
])  # fmt: skip
def test_collate_functions_that_only_pad_or_stack(batch: str, is_ready: bool) -> None:
    collate = f"def gather(items):\n    return {batch}\n\n\n"
    loader = MAIN.replace("batch_size=2", "batch_size=2, collate_fn=gather")
    result = run(READY.replace("SAMPLE", "self.x[index]") + collate + loader)
    assert [each.safety for each in result.held_back] == ([Safety.LOW_IMPACT] if is_ready else [])
    assert bool(result.applied) is not is_ready


WRAPPED = (
    HEAD.replace("float(index)).square()", "VALUE)")
    + """\
class Wrapped(Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return 800

    def __getitem__(self, index):
        return self.inner[index]


"""
)


@pytest.mark.parametrize(
    ("value", "safety"),
    [("float(index)", Safety.LOW_IMPACT), ("torch.rand(1).item()", Safety.UNSAFE)],
)
def test_a_dataset_that_wraps_another_does_what_that_does(value: str, safety: Safety) -> None:
    code = WRAPPED.replace("VALUE", value) + MAIN.replace("Squares()", "Wrapped(Squares())")
    assert [each.safety for each in run(code).held_back] == [safety]


def test_keywords_that_a_caller_may_pass() -> None:
    maker = (
        "class Maker:\n    def __init__(self, options={}):\n        self.options = options\n\n"
        "    def make(self, data):\n        return DataLoader(data, batch_size=2, **self.options)\n\n\n"
    )
    (held,) = run(
        HEAD + maker + MAIN.replace("DataLoader(Squares(), batch_size=2)", "Maker().make(Squares())")
    ).held_back
    assert held.safety is Safety.UNSAFE
    assert says(held.reason, "`**self.options` … num_workers")
    passed = MAIN.replace("DataLoader(Squares(), batch_size=2)", "Maker({'drop_last': True}).make(Squares())")
    assert run(HEAD + maker + passed).applied


def constructions(result: FileResult) -> str:
    """The statement that makes the loader, as it stands after the rewrite."""
    text = result.after.decode()
    start = text.index("loader = DataLoader(")
    return text[start : text.index("\n    for ", start)]


@pytest.mark.parametrize(("before", "after"), [
    ("DataLoader(Squares())", "DataLoader(Squares(), num_workers=COUNT)"),
    ("DataLoader(Squares(), batch_size=2)",
     "DataLoader(Squares(), batch_size=2,\n                        num_workers=COUNT)"),
    ("DataLoader(Squares(), 2)", "DataLoader(Squares(), 2, num_workers=COUNT)"),
    ("DataLoader(Squares(), num_workers=0)", "DataLoader(Squares(), num_workers=COUNT)"),
    ("DataLoader(Squares(), 2, False, None, None, 0)", "DataLoader(Squares(), 2, False, None, None, COUNT)"),
    ("DataLoader(\n        Squares(),\n        batch_size=2,  # small\n    )",
     "DataLoader(\n        Squares(),\n        batch_size=2,  # small\n        num_workers=COUNT,\n    )"),
    ("DataLoader(Squares(),\n                        shuffle=True)",
     "DataLoader(Squares(),\n                        shuffle=True,\n                        num_workers=COUNT)"),
])  # fmt: skip
def test_the_keyword_follows_the_authors_style(before: str, after: str) -> None:
    result = run(HEAD + MAIN.replace("DataLoader(Squares(), batch_size=2)", before))
    assert constructions(result) == f"loader = {after}".replace("COUNT", COUNT)
    assert result.after.startswith(b"import os\n\nimport torch\n")
    assert not run(result.after.decode()).applied


@pytest.mark.parametrize(("imported", "written"), [
    ("from os import path", "os.cpu_count()"),
    ("import os as system", "system.cpu_count()"),
    ("import os.path", "os.cpu_count()"),
])  # fmt: skip
def test_os_is_called_what_the_file_calls_it(imported: str, written: str) -> None:
    after = run(f"{imported}\n{HEAD}{MAIN}").after.decode()
    assert f"min(8, {written} or 1)" in after
    assert after.count("import os") == 1


def test_a_name_that_is_taken() -> None:
    assert "os has another meaning on line 14" in refusal(HEAD + "os = 3\n\n\n" + MAIN)


@pytest.mark.parametrize(("above", "others", "number"), [
    ("WORKERS = 6", "num_workers=WORKERS", "WORKERS"),
    ("", "num_workers=args.workers", "args.workers"),
    ("", "num_workers=4", "4"),
    ("", "num_workers=1", COUNT),
    ("", "num_workers=read()", COUNT),
    ("", "num_workers=unseen", COUNT),
    ("size = 3\nsize = 4", "num_workers=size", COUNT),
])  # fmt: skip
def test_the_number_of_another_loader(above: str, others: str, number: str) -> None:
    """It is written if it means the same here."""
    other = f"    test = DataLoader(Squares(), {others})\n"
    code = HEAD + above + "\n\n\n" + MAIN.replace("main()", "main(args)").replace(LOADER, LOADER + other)
    assert f"num_workers={number})" in run(code).after.decode()


@pytest.mark.parametrize(("option", "number"), [
    ('"--n_cpu", type=int, default=8', "opt.n_cpu"),
    ('"-j", "--workers", type=int, default=8', "opt.workers"),
    ('"--n_crit", type=int, default=5', COUNT),
])  # fmt: skip
def test_the_number_that_the_user_is_asked_for(option: str, number: str) -> None:
    parsed = f"    parser = argparse.ArgumentParser()\n    parser.add_argument({option})\n"
    parsed += '    parser.add_argument("--size", default=2)\n    opt = parser.parse_args()\n'
    loader = LOADER.replace("batch_size=2", "batch_size=opt.size")
    code = "import argparse\n" + HEAD + MAIN.replace(LOADER, parsed + loader)
    assert f"num_workers={number})" in run(code).after.decode()


@pytest.mark.parametrize("arguments", [
    "num_workers=2",
    "num_workers=workers",
    "num_workers=args.workers",
    "2, False, None, None, workers",
    "**({'num_workers': 2} if cuda else {})",
    "**dict(num_workers=4)",
])  # fmt: skip
def test_a_number_that_somebody_gives_is_a_decision(arguments: str) -> None:
    result = run(HEAD + MAIN.replace("batch_size=2", arguments))
    assert not result.applied
    assert not result.refused
    assert not result.held_back


def test_keywords_collected_in_a_dictionary() -> None:
    given = """\
    train_kwargs = {"batch_size": 2}
    if torch.cuda.is_available():
        train_kwargs.update({"num_workers": 1, "pin_memory": True})
    loader = DataLoader(Squares(), **train_kwargs)
"""
    result = run(HEAD + MAIN.replace("    loader = DataLoader(Squares(), batch_size=2)\n", given))
    assert not result.applied
    assert not result.refused


@pytest.mark.parametrize(("code", "reason"), [
    (HEAD + MAIN.replace("model(x.to(model.weight.device)).sum().backward()", "model(x)"),
     "only evaluates"),
    (HEAD + MAIN.replace("batch_size=2", "**options()"), "could not be determined"),
    (HEAD + MAIN.replace("batch_size=2", "collate_fn=lambda b: torch.stack(b).cuda()"), "uses the GPU"),
    (HEAD.replace("(Dataset)", "(torch.utils.data.IterableDataset)") + MAIN, "get_worker_info"),
    (HEAD.replace(".square()", ".cuda()") + MAIN, "worker processes must not"),
    (HEAD.replace(".square()", ".to('cuda')") + MAIN, "worker processes must not"),
    (HEAD.replace("        return torch.full", "        self.last = index\n        return torch.full") + MAIN,
     "self.last"),
    (HEAD.replace("    def __len__", "    def __init__(self):\n        self.f = open('x')\n\n    def __len__") + MAIN,
     "open('x')"),
    (
        HEAD.replace(
            "    def __len__", "    def __init__(self):\n        self.f = threading.Lock()\n\n    def __len__"
        ).replace("import torch\n", "import threading, torch\n", 1)
        + MAIN,
        "threading.Lock() (line 8)",
    ),
    (HEAD.replace("        return torch", "        print(index)\n        return torch") + MAIN, "prints"),
    (HEAD + MAIN.replace("for x in loader:", "for _ in range(9):\n        x = next(iter(loader))"),
     "restarts it in every step"),
    (HEAD + MAIN.replace("        print(", "        loader.dataset.scale = 2\n        print("),
     "changes data that the loader reads"),
    (
        HEAD.replace("import torch\n", "import numpy as np\nimport torch\n", 1)
        .replace(
            "    def __len__",
            "    def __init__(self):\n        self.rng = np.random.default_rng(0)\n\n    def __len__",
        )
        .replace(".square()", " * self.rng.random()")
        + MAIN,
        "equal copy",
    ),
])  # fmt: skip
def test_refusals_say_why(code: str, reason: str) -> None:
    assert reason in refusal(code)


@pytest.mark.parametrize(("code", "numerics", "reason"), [
    (HEAD.replace(".square()", " * torch.rand(3)") + MAIN, Numerics.SAMPLING, "torch.rand()"),
    ("from data import Photos\n" + HEAD + MAIN.replace("Squares()", "Photos()"), Numerics.SAMPLING, "data.Photos"),
    ("from data import pad\n" + HEAD + MAIN.replace("batch_size=2", "collate_fn=pad"), Numerics.SAMPLING, "data.pad"),
])  # fmt: skip
def test_what_could_not_be_shown_is_held_back(code: str, numerics: Numerics, reason: str) -> None:
    result = run(code)
    assert result.after == code.encode()
    (finding,) = result.held_back
    assert finding.numerics is numerics
    assert reason in finding.reason
    assert f"num_workers={COUNT}" in run(code, unsafe=True).after.decode()


def test_random_transforms_of_torchvision_are_sampling() -> None:
    code = (
        HEAD.replace("import torch\n", "import torch\nimport torchvision\nimport torchvision.transforms as T\n", 1)
        + MAIN
    )
    dataset = "torchvision.datasets.CIFAR10('data', transform=T.Compose([{}T.ToTensor()]))"
    (finding,) = run(code.replace("Squares()", dataset.format("T.RandomHorizontalFlip(), "))).held_back
    assert "RandomHorizontalFlip" in finding.reason
    assert run(code.replace("Squares()", dataset.format(""))).applied


def test_a_seeded_generator_of_each_sample_is_no_randomness() -> None:
    seeded = " * torch.rand(3, generator=torch.Generator().manual_seed(index))"
    assert run(HEAD.replace(".square()", seeded) + MAIN).applied


SCRIPT = '''\
"""A script without a guard."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
FACTOR = torch.tensor(3.0)


def scaled(x):
    return x / FACTOR


class Waves(Dataset):
    def __len__(self):
        return 1200

    def __getitem__(self, index):
        return scaled(torch.full((4,), float(index))).sin(), index


def collate(samples):
    xs, ys = zip(*samples)
    return torch.stack(xs), torch.tensor(ys) / 12


def train(x, y, model, optimizer):
    loss = (model(x.to(model[0].weight.device)).squeeze(1) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


# the model
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Waves(), 3, True, collate_fn=collate)
note = """
not indented
"""
for epoch in range(2):
    for x, y in loader:
        print(repr(train(x, y, model, optimizer).item()), note)
'''


def test_a_script_that_trains_at_module_level_forks_its_workers() -> None:
    result = run(SCRIPT)
    before = "loader = DataLoader(Waves(), 3, True, collate_fn=collate)"
    after = f'{before[:-1]}, num_workers={COUNT}, multiprocessing_context="fork")'
    assert flat(result.after.decode()) == flat(SCRIPT.replace(before, after).replace("import", "import os import", 1))
    assert says(result.applied[0].reason, "workers are forked … line 43 … `__main__`")
    assert result.applied[0].min_torch == "1.2"


@pytest.mark.parametrize(
    ("portable", "python_below_3_14", "context"), [(False, False, "fork"), (False, True, ""), (True, False, None)]
)
def test_what_the_target_and_the_python_of_a_project_ask_for(
    portable: bool, python_below_3_14: bool, context: str | None
) -> None:
    choice = Choice(policy=Policy(Target.PORTABLE if portable else Target.CUDA))
    given = [Given("train.py", SCRIPT.encode(), forks_by_default=python_below_3_14)]
    (result,) = rewrite_together(given, [LoaderWithoutWorkers()], choice)
    if context is not None:
        assert (f'multiprocessing_context="{context}"' in result.after.decode()) is bool(context)
        assert result.applied
        return
    (held,) = result.held_back
    assert held.safety is Safety.UNSAFE
    assert says(held.reason, "Windows and macOS do not fork … line 43")
    assert [asked.predicate for asked in held.questions] == ["forks-workers"]
    guarded = Given("train.py", (HEAD + MAIN).encode())
    assert rewrite_together([guarded], [LoaderWithoutWorkers()], choice)[0].applied


@pytest.mark.parametrize(("old", "new", "is_forked"), [
    ("", "", False),
    ("batch_size=2", "collate_fn=lambda items: torch.stack(items)", True),
    ("Squares()", "Subset(Squares(), [0])", False),
    ("    loader =",
     ("    class Squares(Dataset):\n        def __getitem__(self, i):\n"
       "            return torch.full((3,), float(i)).square()\n\n    loader ="), True),
    ("DataLoader(Squares()", "DataLoader(Squares(), collate_fn=joined", False),
    ("    loader = DataLoader(",
     "    def joined(items):\n        return torch.stack(items)\n\n    loader = DataLoader(collate_fn=joined, dataset=",
     True),
    ("batch_size=2", "collate_fn=Trainer().join", True),
    ("    main()", "    SCALE = 2\n    main()", True),
    ("if __name__", "main()\n\n\nif __name__", True),
])  # fmt: skip
def test_workers_are_only_forked_where_they_need_it(old: str, new: str, is_forked: bool) -> None:
    trainer = "class Trainer:\n    def join(self, items):\n        return torch.stack(items)\n\n\n"
    trainer += "def joined(items):\n    return torch.stack(items)\n\n\n"
    head = HEAD.replace("import DataLoader", "import Subset, DataLoader") + trainer
    head = head.replace("float(index)", "float(index) * SCALE") if "SCALE" in new else head
    code = head + (MAIN.replace(old, new, 1) if old else MAIN)
    after = run(code).after.decode()
    assert f"num_workers={COUNT}" in after
    assert ('multiprocessing_context="fork"' in after) is is_forked


@pytest.mark.parametrize(
    ("method", "lambdas", "is_asked"),
    [("spawn", False, False), ("forkserver", True, True), ("fork", True, False), ("fork", False, False)],
)
@pytest.mark.parametrize("chosen", ["set_start_method", "context"])
def test_a_start_method_that_the_script_chooses(method: str, lambdas: bool, is_asked: bool, chosen: str) -> None:
    code = HEAD + (MAIN.replace("batch_size=2", "collate_fn=lambda items: torch.stack(items)") if lambdas else MAIN)
    if chosen == "context":
        code = code.replace("DataLoader(Squares(), ", f"DataLoader(Squares(), multiprocessing_context={method!r}, ")
    else:
        code = code.replace("    main()", f"    torch.multiprocessing.set_start_method({method!r})\n    main()")
    result = run(code)
    assert bool(result.held_back) is is_asked
    assert ("num_workers" in result.after.decode()) is not is_asked
    assert 'context="fork"' not in result.after.decode()


@pytest.mark.parametrize("launched", [
    "torch.distributed.init_process_group('nccl')",
    "sampler = torch.utils.data.distributed.DistributedSampler(range(8))",
    "from accelerate import Accelerator; print(Accelerator().is_main_process)",
])  # fmt: skip
def test_several_processes_share_the_processors(launched: str) -> None:
    code = HEAD + MAIN.replace("    model =", f"    {launched}\n    model =")
    (held,) = run(code).held_back
    assert "several processes train together (line 15), and each would start this many workers" in held.reason
    assert [asked.predicate for asked in held.questions] == ["has-cpus-of-its-own"]
    assumed = Choice(policy=Policy(assumed=frozenset({"has-cpus-of-its-own"})))
    (made,) = rewrite(code.encode(), "train.py", [LoaderWithoutWorkers()], assumed).applied
    assert made.reason.endswith("; assumed: has-cpus-of-its-own")
    assert not made.questions


@pytest.mark.parametrize(("most", "counted", "default"), [
    (1, "1", "1"), (2, "min(2, os.cpu_count() or 1)", "2"), (16, "min(16, os.cpu_count() or 1)", "4"),
])  # fmt: skip
def test_no_more_workers_than_the_project_allows(most: int, counted: str, default: str) -> None:
    choice = Choice(policy=Policy(workers=most))
    option = "    parser.add_argument('--workers', type=int, default=0)\n    args = parser.parse_args()\n"
    told = f"    import argparse\n    parser = argparse.ArgumentParser()\n{option}    model ="
    code = HEAD + MAIN
    asking = HEAD + MAIN.replace("    model =", told, 1)
    for given, written in ((code, f"num_workers={counted}"), (asking, f"type=int, default={default})")):
        assert written in rewrite(given.encode(), "train.py", [LoaderWithoutWorkers()], choice).after.decode()


@pytest.mark.parametrize(
    "method", ["spawn", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("fork", "forkserver"))]
)
def test_the_rewritten_script_prints_the_same(tmp_path: Path, method: str) -> None:
    if method == "fork" and sys.platform == "win32":
        pytest.skip("Windows has no fork")
    chosen = f"import multiprocessing\n\nmultiprocessing.set_start_method({method!r}, force=True)\n"
    (tmp_path / "sitecustomize.py").write_text(chosen)
    (tmp_path / "before.py").write_text(SCRIPT)
    (tmp_path / "after.py").write_bytes(run(SCRIPT).after)
    printed = [
        subprocess.run(
            [python(), name],
            cwd=tmp_path,
            env={**os.environ, **THREADS, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in ("before.py", "after.py")
    ]
    assert printed[0].count("not indented") == 800
    assert printed[0] == printed[1]


SHUFFLED = MAIN.replace("batch_size=2)", "batch_size=2, shuffle=True)")


def test_explicit_iterators_may_change_the_order_of_draws() -> None:
    loop = dedent(
        """\
            batches = iter(loader)
            model = nn.Linear(3, 1)
            for _ in range(4):
                x = next(batches)
        """
    )
    by_hand = "".join(f"    {line}\n" for line in loop.splitlines())
    code = HEAD + SHUFFLED.replace("    for x in loader:\n", by_hand)
    assert (
        "with workers the order of the samples is drawn when the iterator is created, not at the first batch (line"
        in run(code).held_back[0].reason
    )
    # Samples in their own order take nothing from the stream but the seed of the workers, which is drawn by `iter`.
    assert run(HEAD + MAIN.replace("    for x in loader:\n", by_hand)).applied
    direct = code.replace("    model = nn.Linear(3, 1)\n    for _", "    for _")
    assert run(direct).applied


@pytest.mark.parametrize(("begin", "loop"), [
    ("batches = enumerate(loader)", "for i, x in batches:"),
    ("batches = zip(loader, range(9))", "for x, i in batches:"),
    ("batches = itertools.islice(loader, 3)", "for x in batches:"),
])  # fmt: skip
def test_iterators_that_are_begun_before_others_draw(begin: str, loop: str) -> None:
    code = HEAD + SHUFFLED.replace("    for x in loader:", f"    {begin}\n    z = torch.randn(3)\n    {loop}")
    code = code.replace("import torch\n", "import itertools\n\nimport torch\n", 1)
    assert (
        "with workers the order of the samples is drawn when the iterator is created, not at the first batch (line"
        in run(code).held_back[0].reason
    )
    assert run(code.replace("    z = torch.randn(3)\n", "")).applied


def test_a_progress_bar_begins_with_its_loop() -> None:
    code = "from tqdm import tqdm\n" + HEAD + SHUFFLED
    code = code.replace("    for x in loader:", "    bar = tqdm(loader)\n    z = torch.randn(3)\n    for x in bar:")
    assert run(code).applied


def test_loaders_side_by_side() -> None:
    """Each loader draws a seed when it is begun and the order of its samples when the first batch is drawn."""
    other = "    other = DataLoader(Squares(), batch_size=2, shuffle=True)\n    for x, y in zip(loader, other):"
    code = HEAD + SHUFFLED.replace("    for x in loader:", other)
    result = run(code)
    assert not result.applied
    assert all("one after the other" in finding.reason for finding in result.held_back)
    assert run(code.replace("shuffle=True", "shuffle=False")).applied


@pytest.mark.parametrize(("expression", "numerics"), [
    ("x - x.mean()", Numerics.ROUNDING),
    ("x / torch.sum(x)", Numerics.ROUNDING),
    ("x @ x", Numerics.ROUNDING),
    ("x * 2 + 1", Numerics.BITWISE),
    ("torch.as_tensor(np.ones(3).mean() * x.numpy())", Numerics.BITWISE),
])  # fmt: skip
def test_sums_round_by_the_number_of_threads(expression: str, numerics: Numerics) -> None:
    body = f"x = torch.full((3,), float(index))\n        return {expression}"
    code = "import numpy as np\n" + HEAD.replace("return torch.full((3,), float(index)).square()", body) + MAIN
    applied = run(code).applied
    assert [finding.numerics for finding in applied] == [numerics]
    assert ("one thread" in applied[0].reason) == (numerics is Numerics.ROUNDING)


@pytest.mark.parametrize("change", [
    "sampler.update(0, 2.0)",
    "loader.sampler.update(0, 2.0)",
    "dataset.grow()",
    "loader.dataset.grow()",
    "setattr(dataset, 'size', 3)",
])  # fmt: skip
def test_methods_that_change_what_is_read(change: str) -> None:
    sampler = """\
class Hard(Sampler):
    def __init__(self, size):
        self.weights = [1.0] * size

    def __len__(self):
        return len(self.weights)

    def __iter__(self):
        return iter(sorted(range(len(self.weights)), key=self.weights.__getitem__))

    def update(self, index, weight):
        self.weights[index] = weight

    def highest(self):
        return self.weights


"""
    code = HEAD.replace("Dataset\n", "Dataset, Sampler\n") + sampler + MAIN
    made = "sampler, dataset = Hard(8), Squares()\n    loader = DataLoader(dataset, batch_size=2, sampler=sampler)"
    code = code.replace("loader = DataLoader(Squares(), batch_size=2)", made)
    inside = code.replace("        print(", f"        {change}\n        print(")
    assert "changes data that the loader reads while it runs, which workers would not see" in refusal(inside)
    between = code.replace("    for x in loader:", f"    {change}\n    for x in loader:")
    assert run(between).applied
    assert run(code.replace("        print(", "        sampler.highest()\n        print(")).applied


@pytest.mark.parametrize(
    "default",
    ['torch.set_default_device("cuda")', 'torch.set_default_tensor_type("torch.cuda.FloatTensor")'],
)
def test_samples_that_the_default_device_makes(default: str) -> None:
    assert "which worker processes must not do" in refusal(HEAD + default + "\n\n\n" + MAIN)
    assert run(HEAD + default.replace("cuda.", "").replace("cuda", "cpu") + "\n\n\n" + MAIN).applied


@pytest.mark.parametrize(
    "start",
    ["mp.Process(target=main, daemon=True).start()", "mp.Pool(2).map(main, range(2))"],
)
def test_daemonic_processes_may_have_no_workers(start: str) -> None:
    code = "import multiprocessing as mp\n" + HEAD + MAIN.replace("    main()\n", f"    {start}\n")
    assert "daemonic" in refusal(code)
    assert run(code.replace("target=main", "target=print").replace("map(main", "map(print") + "    main()\n").applied


PARSER = """\
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("-j", "--workers", type=int, default=0, help="number of workers (default: 0)")
    args = parser.parse_args([])
    loader = DataLoader(Squares(), batch_size=2, num_workers=args.workers)
"""
LOADER = "    loader = DataLoader(Squares(), batch_size=2)\n"


def test_the_default_of_the_command_line() -> None:
    result = run(HEAD + MAIN.replace(LOADER, PARSER))
    after = result.after.decode()
    assert 'default=4, help="number of workers (default: 4)")' in after
    assert "import os" not in after
    assert "num_workers=args.workers)" in after
    assert result.applied[0].safety is Safety.SAFE
    assert not run(after).applied


@pytest.mark.parametrize(("change", "reason"), [
    (("default=0", "default=4"), ""),
    (("default=0", "required=True"), ""),
    (("    args = ", "    args = parser.parse_args([])\n    args.workers = 3\n    other = "), ""),
    (("    loader = ", "    torch.set_num_threads(args.workers)\n    loader = "), "uses for something else"),
])  # fmt: skip
def test_what_the_user_chooses_stays(change: tuple[str, str], reason: str) -> None:
    result = run(HEAD + MAIN.replace(LOADER, PARSER.replace(*change)), unsafe=True)
    assert not result.applied
    assert [reason in finding.reason for finding in result.refused] == ([True] if reason else [])


@pytest.mark.parametrize("printed", ["args", 'parser.get_default("workers")'])
def test_options_that_are_printed(printed: str) -> None:
    result = run(HEAD + MAIN.replace(LOADER, PARSER.replace("    loader = ", f"    print({printed})\n    loader = ")))
    assert "prints or passes on all settings, which would show another number of workers" in result.held_back[0].reason


CONFIG = """\
@dataclass
class Config:
    batch_size: int = 2
    num_workers: int = 0


"""


@pytest.mark.parametrize(("config", "use", "outcome"), [
    ("Config()", "", "applied"),
    ("Config(batch_size=4)", "size = config.batch_size", "applied"),
    ("Config(**yaml.safe_load(open('config.yaml')))", "", "applied"),
    ("Config()", "print(config)", "all settings"),
    ("Config()", "logged = asdict(config)",
     "all settings"),
    ("Config()", "torch.set_num_threads(config.num_workers)", "uses for something else"),
    ("yaml.safe_load(open('config.yaml'))", "", ""),
])  # fmt: skip
def test_the_default_of_a_dataclass(config: str, use: str, outcome: str) -> None:
    loader = LOADER.replace("batch_size=2", "batch_size=config.batch_size, num_workers=config.num_workers")
    head = f"from dataclasses import asdict, dataclass\nimport yaml\n{HEAD}{CONFIG}"
    code = head + MAIN.replace(LOADER, f"    config = {config}\n    {use or 'pass'}\n{loader}")
    result = run(code)
    if outcome == "applied":
        assert "num_workers: int = 4" in result.after.decode()
        assert not run(result.after.decode()).applied
        return
    assert result.after.decode() == code
    assert [outcome in each.reason for each in (*result.held_back, *result.refused)] == ([True] if outcome else [])


@pytest.mark.parametrize(("head", "arguments", "after"), [
    ("workers = 0", "num_workers=workers", "workers = COUNT"),
    ("options = {'num_workers': 0}", "**options", "options = {'num_workers': COUNT}"),
    ("options = dict(num_workers=0)", "**options", "options = dict(num_workers=COUNT)"),
    ("options = dict(drop_last=True)", "**options", "num_workers=COUNT, **options)"),
    ("options = {}; options['num_workers'] = 0", "**options", "options['num_workers'] = COUNT"),
])  # fmt: skip
def test_settings_in_variables_and_dictionaries(head: str, arguments: str, after: str) -> None:
    loader = f"    {head}\n{LOADER}".replace("batch_size=2", f"batch_size=2, {arguments}")
    result = run(HEAD + MAIN.replace(LOADER, loader))
    assert after.replace("COUNT", COUNT) in result.after.decode()
    assert not run(result.after.decode()).applied
    other = loader.replace("    loader", f"    print({arguments.replace('num_workers=', '')})\n    loader")
    if "drop_last" not in head:
        assert "uses for something else" in refusal(HEAD + MAIN.replace(LOADER, other))


def test_loaders_that_share_a_setting() -> None:
    loader = LOADER.replace("batch_size=2", "batch_size=2, **options")
    both = "    options = {'num_workers': 0}\n" + loader + loader.replace("loader =", "others =")
    code = HEAD + MAIN.replace(LOADER, both)
    result = run(code)
    assert f"options = {{'num_workers': {COUNT}}}" in result.after.decode()
    assert len(result.applied) == 1
    forked = code.replace("others = DataLoader(Squares()", "others = DataLoader(Squares(), collate_fn=lambda x: x[0]")
    others = (
        'others = DataLoader(Squares(), collate_fn=lambda x: x[0], batch_size=2, multiprocessing_context="fork", **'
    )
    after = run(forked).after.decode()
    assert flat(others) in flat(after)
    assert after.count("fork") == 1
    unfit = code.replace(
        "others = DataLoader(Squares()", "others = DataLoader(Squares(), collate_fn=lambda x: print(x)"
    )
    assert "uses the same setting, and" in run(unfit).refused[0].reason


def test_keywords_of_a_function() -> None:
    made = "def make(data, **options):\n    return DataLoader(data, batch_size=2, **options)\n\n\n"
    code = HEAD + made + MAIN.replace(LOADER, "    loader = make(Squares(), num_workers=0)\n")
    assert f"make(Squares(), num_workers={COUNT})" in run(code).after.decode()
    without = code.replace(", num_workers=0", "")
    assert f"num_workers={COUNT}, **options)" in run(without).after.decode()


@pytest.mark.parametrize(("module", "made", "reason"), [
    ("torch_geometric.loader", "NeighborLoader(torch.load('x'), [2], batch_size=2)", "neighbours would be sampled"),
    ("torch_geometric.loader", "NeighborLoader(graph, [2], batch_size=2)", "comes from elsewhere"),
    ("torch_geometric.loader", "DataLoader(Squares(), batch_size=2)", "comes from elsewhere"),
])  # fmt: skip
def test_loaders_of_graphs_are_held_back(module: str, made: str, reason: str) -> None:
    code = f"from {module} import DataLoader, NeighborLoader\nfrom data import graph\n" + HEAD.replace(
        "DataLoader, ", ""
    )
    result = run(code + MAIN.replace(LOADER, f"    loader = {made}\n"))
    if "Squares" in made:
        assert result.applied
    else:
        assert reason in result.held_back[0].reason


@pytest.mark.parametrize(("made", "reason"), [
    ("DataLoader(graph, nodes, sampler, device='cuda')", "formats already created"),
    ("DataLoader(graph, nodes, sampler, use_uva=True)", "use_uva"),
])  # fmt: skip
def test_loaders_of_dgl(made: str, reason: str) -> None:
    code = "from dgl.dataloading import DataLoader\nfrom data import graph, nodes, sampler\n" + HEAD.replace(
        "DataLoader, ", ""
    )
    assert reason in refusal(code + MAIN.replace(LOADER, f"    loader = {made}\n"))


def test_a_graph_on_the_device() -> None:
    code = "from torch_geometric.loader import NeighborLoader\n" + HEAD
    loader = "    graph = torch.load('x').cuda()\n    loader = NeighborLoader(graph, [2])\n"
    assert "its graph may be on the device (line" in refusal(code + MAIN.replace(LOADER, loader))


@pytest.mark.parametrize("asked", ["os.getpid() % 2", "int(torch.utils.data.get_worker_info() is None)"])
def test_samples_that_depend_on_their_process(asked: str) -> None:
    code = f"""\
import os

import torch
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 800

    def __getitem__(self, index):
        return torch.full((3,), float({asked}))


def main():
    model = torch.nn.Linear(3, 1)
    for x in DataLoader(Rows(), batch_size=4):
        model(x.to(model.weight.device)).sum().backward()


if __name__ == "__main__":
    main()
"""
    assert "returns another value in a worker process, and samples may depend on it" in run(code).held_back[0].reason


RAISES = HEAD.replace(
    "        return torch.full",
    '        if index == 5:\n            raise ValueError("bad sample")\n        return torch.full',
)
GUARDED = (
    RAISES
    + """\
def train(loader, model):
    for x in loader:
        model(x.to(model.weight.device)).sum().backward()


def main():
    model = nn.Linear(3, 1)
    loader = DataLoader(Squares(), batch_size=2)
    try:
        train(loader, model)
    except ValueError as error:
        print("stopped:", error)


if __name__ == "__main__":
    main()
"""
)


@pytest.mark.parametrize("handler", [
    ("ValueError as error", 'print("stopped:", error)'),
    ("(OSError, ValueError) as e", "log.append(str(e))"),
    ("Exception", "traceback.print_exc()"),
    ("Exception", 'logging.error("stopped", exc_info=True)'),
])  # fmt: skip
def test_the_text_of_an_error_that_is_shown(handler: tuple[str, str]) -> None:
    code = GUARDED.replace("ValueError as error", handler[0]).replace('print("stopped:", error)', handler[1])
    result = run(code)
    assert result.after == code.encode()
    (held,) = result.held_back
    assert says(held.reason, "line 26 handles errors … (line 12)")


@pytest.mark.parametrize(("before", "after"), [
    ("ValueError as error", "KeyboardInterrupt as error"),
    ('            raise ValueError("bad sample")\n', "            index = 0\n"),
])  # fmt: skip
def test_errors_that_nobody_looks_into(before: str, after: str) -> None:
    result = run(GUARDED.replace(before, after))
    assert len(result.applied) == 1
    assert not result.held_back


def test_an_error_that_a_worker_cannot_make_again() -> None:
    own = "class Bad(Exception):\n    def __init__(self, index, path):\n        super().__init__(path)\n\n\n"
    code = GUARDED.replace("class Squares", own + "class Squares").replace("ValueError as error", "Bad")
    code = code.replace('ValueError("bad sample")', 'Bad(index, "a.png")').replace('"stopped:", error', '"stopped"')
    result = run(code)
    assert result.after == code.encode()
    assert len(result.held_back) == 1


@pytest.mark.parametrize(("made", "taken", "is_rewritten"), [
    ("[DataLoader(Squares(), batch_size=2) for _ in range(9)]", "loader[0]", False),
    ("{name: DataLoader(Squares(), batch_size=2) for name in ['train', 'val']}", "loader['train']", True),
])  # fmt: skip
def test_loaders_that_are_made_in_numbers(made: str, taken: str, is_rewritten: bool) -> None:
    code = HEAD + MAIN.replace("DataLoader(Squares(), batch_size=2)", made).replace("in loader:", f"in {taken}:")
    result = run(code)
    assert bool(result.applied) is is_rewritten
    if not is_rewritten:
        (held,) = result.held_back
        assert "many such loaders" in held.reason


FEW_FLOATS = """\
import argparse
import numpy as np
import torch
import torchvision.transforms as T
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=100000)
args = parser.parse_args()


class Config:
    epochs = args.epochs


class Points(Dataset):
    def __init__(self, points):
        self.points = points
        self.transform = T.Compose([T.ToTensor()])

    def __len__(self):
        return len(self.points)

    def __getitem__(self, index):
        return self.transform(self.points[index])


def train_epoch(model, loader):
    for x in loader:
        model(x.to("cuda")).sum().backward()


def main():
    config = Config()
    model = nn.Linear(3, 1).cuda()
    loader = DataLoader(Points(np.ones((8, 2, 3), np.float32)), batch_size=2)
    for epoch in range(config.epochs):
        train_epoch(model, loader)


if __name__ == "__main__":
    main()
"""


def test_many_short_epochs_over_samples_in_memory() -> None:
    (held,) = run(FEW_FLOATS).held_back
    assert held.safety is Safety.OPT_IN
    assert says(held.reason, "line 38 … short epochs")


@pytest.mark.parametrize(("old", "new"), [
    ("default=100000", "default=90"),
    ("[T.ToTensor()]", "[T.ToTensor(), T.Resize(64)]"),
    ("self.transform(self.points[index])", "np.load(self.points[index])"),
])  # fmt: skip
def test_other_epochs_over_samples_in_memory(old: str, new: str) -> None:
    assert run(FEW_FLOATS.replace(old, new)).applied


CONFIGURED = HEAD + MAIN.replace("main()", "main(cfg)", 1).replace("batch_size=2", "num_workers=cfg.data.num_workers")
OUTSIDE = (
    OutsideSetting("n_cpu", "a.json", 3, '"n_cpu": 0'),
    OutsideSetting("num_workers", "conf/data.yaml", 12, "num_workers: 0"),
)


def advice(code: str, outside: tuple[OutsideSetting, ...] = OUTSIDE) -> list[str]:
    (result,) = rewrite_together([Given("train.py", code.encode(), outside=outside)], [LoaderWithoutWorkers()])
    assert result.after == code.encode()
    assert not result.held_back
    return [finding.reason for finding in result.refused if finding.safety is Safety.ADVICE and not finding.refused]


def test_a_configuration_that_sets_no_workers() -> None:
    told = "conf/data.yaml:12 sets `num_workers: 0`: with 4, workers load batches during the step"
    assert advice(CONFIGURED) == [told]
    assert advice(CONFIGURED, OUTSIDE[:1]) == advice(CONFIGURED, ()) == []


PARSED = (
    "    cfg = argparse.ArgumentParser()\n    cfg.add_argument('--n_cpu', type=int{})\n    cfg = cfg.parse_args()\n"
)


@pytest.mark.parametrize(("before", "value", "is_told"), [
    ("", "cfg['n_cpu']", True),
    ("    count = cfg.get('n_cpu')\n", "count", True),
    ("    count = yaml.safe_load(open('a.json'))['data']['n_cpu']\n", "count", True),
    (PARSED.format(", required=True"), "cfg.n_cpu", True),
    (PARSED.format(", default=2"), "cfg.n_cpu", False),
    ("    cfg = {'n_cpu': 2}\n", "cfg['n_cpu']", False),
    ("", "2 if cfg.quick else cfg.n_cpu", False),
    ("", "cfg.other", False),
    ("    cfg = other.n_cpu\n", "cfg.other", False),
])  # fmt: skip
def test_which_numbers_come_from_a_configuration(before: str, value: str, is_told: bool) -> None:
    code = CONFIGURED.replace("cfg.data.num_workers", value).replace("    model =", f"{before}    model =", 1)
    assert bool(advice("import argparse, yaml, other\n" + code)) is is_told


def test_a_number_that_is_handed_to_the_class_that_makes_the_loader() -> None:
    cls = "class Data:\n    def __init__(self, num_workers):\n        self.num_workers = num_workers\n\n"
    cls += "    def loader(self):\n        return DataLoader(Squares(), num_workers=self.num_workers)\n\n\n"
    main = MAIN.replace("DataLoader(Squares(), batch_size=2)", "Data(**CONFIG).loader()")
    assert len(advice("from settings import CONFIG\n" + HEAD + cls + main)) == 1


@pytest.mark.parametrize(("old", "new"), [
    ("x.to(model.weight.device)", "x"),
    ("float(index))", "float(index), device='cuda')"),
])  # fmt: skip
def test_no_advice_where_workers_gain_nothing_or_fail(old: str, new: str) -> None:
    assert advice(CONFIGURED.replace(old, new, 1)) == []


def test_no_advice_about_a_loader_that_only_evaluates() -> None:
    evaluation = "    for x in DataLoader(Squares(), num_workers=cfg.n_cpu):\n        print(model(x))\n"
    assert len(advice(CONFIGURED.replace("\n\n\nif __name__", f"\n{evaluation}\n\nif __name__"))) == 1
