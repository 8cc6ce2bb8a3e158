"""Work is counted in steps of the analysis: the same on every machine; what needs too much is analysed in parts."""

from __future__ import annotations

import pytest

from perfmod import task
from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, Given, Outcome
from perfmod.transforms import work

PROJECT = {
    "train.py": (
        "import torch\nfrom engine import step\nfrom torch.utils.data import DataLoader\n\n\n"
        "def train(model, optimizer, data):\n    total = 0.0\n    for batch in DataLoader(data):\n"
        "        total += step(model, optimizer, batch)\n    print(total)\n"
    ),
    "engine.py": (
        "import torch\nimport losses\n\n\ndef step(model, optimizer, batch):\n    loss = losses.of(model(batch))\n"
        "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    torch.cuda.empty_cache()\n"
        "    return loss.item()\n"
    ),
    "losses.py": "import torch\n\n\ndef of(outputs):\n    return outputs.square().mean()\n",
}


def project_files() -> tuple[Given, ...]:
    imports = {"train.py": {"engine": "engine.py"}, "engine.py": {"losses": "losses.py"}, "losses.py": {}}
    return tuple(Given(path, code.encode(), imports=imports[path]) for path, code in PROJECT.items())


def units(files: tuple[Given, ...]) -> int:
    def analysed() -> int:
        rewrite_together(files, tuple(catalog.rules()), Choice())
        return work.left()

    return 10**9 - work.within(10**9, analysed)


def test_the_same_files_need_the_same_work() -> None:
    files = project_files()
    assert len({units(files), units(files), units(files[::-1])}) == 1


def test_more_code_needs_more_work() -> None:
    first, *others = project_files()
    doubled = Given(first.path, first.data + first.data.replace(b"def train", b"def again"), imports=first.imports)
    assert units((first, *others)) < units((doubled, *others)) < 3 * units((first, *others))


def test_what_is_not_limited_is_not_stopped() -> None:
    work.spend(10**12)
    with pytest.raises(work.TooMuchWork):
        work.within(10, lambda: work.spend(11))
    work.spend(10**12)


def analysed(monkeypatch: pytest.MonkeyPatch, whole: int, part: int) -> dict[str, tuple[Outcome, bool, list[str]]]:
    monkeypatch.setattr(task, "_MOST_WORK", whole)
    monkeypatch.setattr(task, "_MOST_WORK_OF_A_PART", part)
    files = project_files()
    results = task.Task(files, frozenset(), catalog.cards(), Choice()).run()
    return {
        each.path: (
            each.outcome,
            each.in_part,
            sorted(finding.code for finding in (*each.applied, *each.held_back, *each.refused)),
        )
        for each in results
    }


def test_what_needs_too_much_work_is_analysed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found with the files next to each file is still found."""
    needed = units(project_files())
    whole = analysed(monkeypatch, needed, 0)
    parts = analysed(monkeypatch, needed - 1, needed)
    assert not any(in_part for _, in_part, _ in whole.values())
    assert parts["engine.py"] == (Outcome.UNCHANGED, True, whole["engine.py"][2])  # train.py changes it
    assert set(parts["train.py"][2]) <= set(whole["train.py"][2])
    assert parts == analysed(monkeypatch, 1, needed)


def test_a_part_that_needs_too_much_work_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {outcome for outcome, _, _ in analysed(monkeypatch, 1, 1).values()} <= {Outcome.SKIPPED, Outcome.UNCHANGED}
