"""The engine over notebooks."""

from __future__ import annotations

from collections.abc import Iterator

import notebooks
import pytest
import toy_rules as toys

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.patch import unified_diff
from perfmod.codemods.results import Choice, FileResult, Given, Outcome
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.finding import Edit, Finding, Safety

IMPORTS = "import torch\nfrom torch.utils.data import DataLoader, Dataset"
LOOP = """for x, y in loader:
    x, y = x.cuda(), y.cuda()
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SUM = f"running = 0.0\n{LOOP}    running += loss.item()\n"
FILES = """class Files(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        return torch.load(self.files[i])
"""


def renamed(*cells: str | dict[str, object], **options: object) -> FileResult:
    """`slow` becomes `fast`, with whatever else is asked for."""
    data = notebooks.document("import torch", *cells)
    return rewrite(data, "a.ipynb", [toys.renaming(**options)])  # type: ignore[arg-type]


def by(code: str, *cells: str | dict[str, object], unsafe: bool = False) -> FileResult:
    """What a rule of the catalogue makes of the cells."""
    rules = [rule for rule in catalog.rules() if rule.code == code]
    result = rewrite(notebooks.document(*cells), "a.ipynb", rules, Choice(unsafe=unsafe))
    assert result.outcome is not Outcome.FAILED, result.reason
    if result.outcome is Outcome.CHANGED:
        again = rewrite(result.after, "a.ipynb", rules, Choice(unsafe=unsafe))
        assert again.outcome is Outcome.UNCHANGED
        assert notebooks.others(result.after) == notebooks.others(result.before)
    return result


def after(result: FileResult) -> list[str]:
    return notebooks.sources(result.after)


def test_findings_name_cell_and_line() -> None:
    result = renamed(notebooks.text("slow"), "%%time\nx = 1\n!ls\ny = slow", "slow;")
    assert result.outcome is Outcome.CHANGED
    assert [(each.cell, each.line, each.column) for each in result.applied] == [(3, 4, 5), (4, 1, 1)]
    assert after(result) == ["import torch", "slow", "%%time\nx = 1\n!ls\ny = fast", "fast;"]


def test_diff_has_the_changed_lines_only() -> None:
    result = renamed("a = 1\nb = slow\nc = 3", "d = 4")
    diff = unified_diff("a.ipynb", result.before, result.after).decode()
    changed = [line for line in diff.splitlines()[3:] if line[0] in "+-"]
    assert changed == [r'-    "b = slow\n",', r'+    "b = fast\n",']


def test_commands_are_left() -> None:
    result = renamed("!slow", "%time slow", "%%bash\nslow", "slow?", "x = slow")
    assert [each.cell for each in result.applied] == [6]
    assert [each.cell for each in result.refused] == [3, 5]
    reason = "line 1 of cell 3 is not plain Python or displays a value in the notebook, and is not changed"
    assert result.refused[0].reason == reason
    assert after(result)[1:] == ["!slow", "%time slow", "%%bash\nslow", "slow?", "x = fast"]


def test_an_edit_over_two_cells_is_refused() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        text = file.source.text
        start, end = text.index("slow"), text.index("lazy") + 4
        yield toys.at(file, start, end, Edit(start, end, "fast"))

    data = notebooks.document("import torch\nslow", "lazy")
    result = rewrite(data, "a.ipynb", [toys.rule(check)])
    assert result.outcome is Outcome.UNCHANGED
    assert [each.reason for each in result.refused] == ["the change would reach beyond the end of cell 1"]


def test_a_finding_may_have_edits_in_several_cells() -> None:
    def check(file: FileFacts) -> Iterator[Finding]:
        places = [i for i in range(len(file.source.text)) if file.source.text.startswith("slow", i)]
        if places:
            edits = [Edit(place, place + 4, "fast") for place in places]
            yield toys.at(file, places[0], places[0] + 4, *edits)

    cells = ("import torch\nx = slow", "y = slow")
    result = rewrite(notebooks.document(*cells), "a.ipynb", [toys.rule(check)])
    assert after(result) == ["import torch\nx = fast", "y = fast"]
    locked = notebooks.document(cells[0], notebooks.code(cells[1], metadata={"editable": False}))
    kept = rewrite(locked, "a.ipynb", [toys.rule(check)])
    assert kept.after == locked
    assert [each.reason for each in kept.refused] == ["the metadata of cell 2 mark it as not editable"]


@pytest.mark.parametrize(("cells", "expected"), [
    (["import sys\nimport torch", "x = slow"], ["import os\nimport sys\nimport torch\n\nN = os.n", "x = fast"]),
    (["!pip install x", "%load_ext y\nimport torch\n%matplotlib inline\n", "def f(): ...", "import json", "x = slow"],
     ["!pip install x", "%load_ext y\nimport os\n\nimport torch\n\nN = os.n\n\n%matplotlib inline\n", "def f(): ...",
      "import json", "x = fast"]),
    (["y = torch.x", "%%time\n# why\nx = slow\n"],
     ["y = torch.x", "%%time\nimport os\n\nN = os.n\n\n# why\nx = fast\n"]),
    (["!ls", "# Imports\nimport torch\nprint()", "x = 1\nimport numpy", "y = slow"],
     ["!ls", "import os\n\n# Imports\nimport torch\n\nN = os.n\n\nprint()", "x = 1\nimport numpy", "y = fast"]),
    (["import torch", "def f(): ...", "import os\nx = 1", "y = slow"],
     ["import torch", "def f(): ...", "import os\n\nN = os.n\n\nx = 1", "y = fast"]),
    (["# Import PyTorch\nimport torch\n\n# Plots\nimport matplotlib", "x = slow"],
     ["import os\n\n# Import PyTorch\nimport torch\n\n# Plots\nimport matplotlib\n\nN = os.n", "x = fast"]),
    (["#@title All\nimport torch", "x = slow"], ["#@title All\nimport os\n\nimport torch\n\nN = os.n", "x = fast"]),
    (["%%time\n# torch\nx = slow\n"], ["%%time\nimport os\n\nN = os.n\n\n# torch\nx = fast\n"]),
    (["%%bash\nls", "x = slow  # torch"], ["%%bash\nls", "import os\n\nN = os.n\n\nx = fast  # torch"]),
    (["'''torch'''", "if slow:\n    pass"], ["'''torch'''\n\nimport os\n\nN = os.n", "if fast:\n    pass"]),
])  # fmt: skip
def test_imports_and_definitions(cells: list[str], expected: list[str]) -> None:
    rules = [toys.renaming(imports=("os",), definitions=("N = os.n",))]
    result = rewrite(notebooks.document(*cells), "a.ipynb", rules)
    assert result.outcome is Outcome.CHANGED, result.reason
    assert after(result) == expected


def test_imports_keep_out_of_locked_cells() -> None:
    locked = notebooks.code("import torch", metadata={"editable": False})
    result = rewrite(notebooks.document(locked, "x = slow"), "a.ipynb", [toys.renaming(imports=("os",))])
    assert after(result) == ["import torch", "import os\n\nx = fast"]


def test_comments_silence_rules_in_cells() -> None:
    result = renamed("x = slow  # perfmod: ignore\ny = slow", "# perfmod: off\nslow;", "slow;\n# perfmod: on\nz = slow")
    assert [(each.cell, each.line) for each in result.suppressed] == [(2, 1), (3, 2), (4, 1)]
    assert [(each.cell, each.line) for each in result.applied] == [(2, 2), (4, 3)]
    wrong = renamed("x = 1\ny = 2  # perfmod: ignore[toy]")
    assert wrong.warnings == ("line 2 of cell 2: unused `# perfmod: ignore[toy]`",)


def test_a_whole_notebook_is_silenced() -> None:
    data = notebooks.document(notebooks.text("t"), "# perfmod: ignore-file", "import torch\nx = slow")
    assert rewrite(data, "a.ipynb", [toys.renaming()]).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(("data", "outcome", "reason"), [
    (b"{torch", Outcome.FAILED, "is not a notebook: broken JSON: expecting property name"),
    (b"{", Outcome.UNCHANGED, ""),
    (notebooks.document("library(torch)", metadata={"kernelspec": {"language": "R"}}), Outcome.SKIPPED,
     "is a notebook in R"),
    (notebooks.document("torch", nbformat=3), Outcome.SKIPPED, "is a notebook of format 3"),
    (notebooks.document("import torch", "x = (slow"), Outcome.SKIPPED, "line 1 of cell 2, column"),
    (notebooks.document("import torch", "x = 1"), Outcome.UNCHANGED, ""),
])  # fmt: skip
def test_outcomes(data: bytes, outcome: Outcome, reason: str) -> None:
    result = rewrite(data, "a.ipynb", [toys.renaming()])
    assert result.outcome is outcome
    assert result.reason.startswith(reason)
    assert result.after == data


# The rules of the catalogue


def test_a_sum_over_cells() -> None:
    """Initialised, added to, printed and shown in four cells."""
    loop = SUM.removeprefix("running = 0.0\n")
    result = by("PM106", IMPORTS, "running = 0.0", loop, "print(running / len(loader))", "running / len(loader)")
    (moved,) = result.applied
    assert (moved.cell, moved.line) == (3, 7)
    changed = after(result)
    assert changed[1] == "running = 0.0"
    assert "running += loss.detach()\nrunning = float(running)" in changed[2]
    assert changed[3:] == ["print(running / len(loader))", "running / len(loader)"]


def test_a_value_that_a_command_reads() -> None:
    result = by("PM106", IMPORTS, SUM, "%store running", "print(running)")
    assert after(result)[1].endswith("running = float(running)\n")


def test_a_list_that_another_cell_empties_is_held_back() -> None:
    loop = f"{LOOP}    losses.append(loss.item())\n"
    result = by("PM106", IMPORTS, "losses = []", loop, "plt.plot(losses)")
    (finding,) = result.held_back
    assert finding.safety is Safety.UNSAFE
    assert finding.reason.startswith("cell 3 may be run again without the cell that sets losses")
    assert by("PM106", IMPORTS, "losses = []", loop, "plt.plot(losses)", unsafe=True).outcome is Outcome.CHANGED
    assert by("PM106", IMPORTS, f"losses = []\n{loop}print(max(losses))").outcome is Outcome.CHANGED


def test_workers_get_no_guard_in_a_notebook() -> None:
    imports = f"{IMPORTS}\nfrom torchvision import datasets, transforms"
    loader = "data = datasets.MNIST('.', transform=transforms.ToTensor())\nloader = DataLoader(data, batch_size=64)"
    result = by("PM201", imports, loader, LOOP)
    assert [each.code for each in result.applied] == ["PM201"]
    assert "__name__" not in result.after.decode()
    assert after(result)[2] == LOOP
    assert after(result)[0].startswith("import os\n\nimport torch")
    assert "num_workers=min(8, os.cpu_count() or 1)" in after(result)[1]


@pytest.mark.parametrize("is_shown", [True, False])
def test_pipelines_of_one_data_set_move_together(is_shown: bool) -> None:
    imports = f"{IMPORTS}\nfrom torchvision import datasets, transforms\nfrom torchvision.utils import make_grid"
    steps = "transforms.ToTensor(), transforms.Normalize((0.5,) * 3, (0.5,) * 3)"
    data = (
        f"augmented = transforms.Compose([transforms.RandomHorizontalFlip(), {steps}])\n"
        f"plain = transforms.Compose([{steps}])\n"
        'loader = DataLoader(datasets.CIFAR10(".", True, augmented), 64)\n'
        'tested = DataLoader(datasets.CIFAR10(".", False, plain), 64)'
    )
    shown = "images, labels = next(iter(tested))\nplt.imshow(make_grid(images))" if is_shown else "print(len(tested))"
    scores = "for x, y in tested:\n    print(criterion(model(x.cuda()), y.cuda()))"
    result = by("PM205", imports, data, shown, LOOP, scores)
    if is_shown:
        stays = "the normalised images are used on line 2 of cell 3 before they are copied to the device"
        reasons = [f"the transform on line 2 of cell 2, of a dataset of the same class, has to stay: {stays}", stays]
        assert [each.reason for each in result.refused] == reasons
        return
    cells = after(result)
    assert "\n\n\nclass NormalizeOnDevice(torch.nn.Module):\n" in cells[0]
    assert cells[1].count("transforms.PILToTensor()])") == 2
    assert cells[3].startswith("normalize = NormalizeOnDevice((0.5,) * 3, (0.5,) * 3).cuda()\nfor x, y in loader:\n")
    assert "x, y = normalize(x.cuda()), y.cuda()" in cells[3]
    assert cells[4].startswith("normalize = NormalizeOnDevice((0.5,) * 3, (0.5,) * 3).cuda()\nfor x, y in tested:\n")
    assert "model(normalize(x.cuda()))" in cells[4]


def test_workers_of_a_notebook_are_forked() -> None:
    loader = "loader = DataLoader(Files(paths), batch_size=64)"
    result = by("PM201", IMPORTS, FILES, loader, LOOP)
    assert result.applied[0].safety is Safety.SAFE
    assert "multiprocessing_context=" in result.after.decode()
    assert "__name__" not in result.after.decode()


def test_a_loader_in_a_cell_and_its_loop_in_a_module() -> None:
    engine = f"import torch\n\ndef train(model, loader, criterion, optimizer):\n{indented(LOOP)}".encode()
    data = "data = datasets.MNIST('.', transform=transforms.ToTensor())"
    loader = f"{data}\nloader = DataLoader(data, num_workers=2, batch_size=32)"
    imports = f"{IMPORTS}\nfrom torchvision import datasets, transforms\nimport engine"
    model = "model = torch.nn.Linear(2, 2).cuda()\nengine.train(model, loader, criterion, optimizer)"
    files = [
        Given("engine.py", engine, ("engine",), {}),
        Given("train.ipynb", notebooks.document(imports, loader, model), (), {"engine": "engine.py"}),
    ]
    module, notebook = rewrite_together(files, [rule for rule in catalog.rules() if rule.code == "PM202"])
    assert module.after.decode().count("non_blocking=True") == 2
    assert after(notebook) == [imports, loader.replace("=32", "=32, pin_memory=True"), model]
    assert set(module.together) | set(notebook.together) == {"engine.py", "train.ipynb"}
    (finding,) = (*module.applied, *notebook.applied)
    assert (finding.cell, finding.line) == (2, 2)
    assert "of engine.py" in finding.reason


def indented(code: str) -> str:
    return "".join(f"    {line}" for line in code.splitlines(keepends=True))
