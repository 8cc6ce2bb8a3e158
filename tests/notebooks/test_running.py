"""Notebooks are run before and after: cells in their order, twice, and in any other order."""

from __future__ import annotations

import ast
import contextlib
import io
import math
import re
from collections.abc import Sequence

import notebooks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, Outcome

BEGIN = """import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = [(torch.arange(6.0).reshape(3, 2) / (n + 2), torch.tensor([0, 1, 0])) for n in range(4)]"""
MODEL = """torch.manual_seed(0)
model = nn.Linear(2, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()"""
STEP = """for x, y in data:
    x, y = x.to(device), y.to(device)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRAIN = f"""def train(epochs):
    total = 0.0
    for epoch in range(epochs):
{"".join(f"        {line}" for line in STEP.splitlines(keepends=True))}            total += loss.item()
    return total / epochs"""
TRAININGS = {
    "sum over cells": ["total = 0.0", f"{STEP}    total += loss.item()", "print(total / len(data))", "total"],
    "sum in a cell": [f"total = 0.0\n{STEP}    total += loss.item()\ntotal / len(data)", "print(total)"],
    "sum that is shown above": ["total = 0.0", "total", f"{STEP}    total += loss.item()", "print(total)"],
    "list in a cell": [f"losses = []\n{STEP}    losses.append(loss.item())\nlosses", "print(sum(losses))"],
    "list over cells": ["losses = []", f"{STEP}    losses.append(loss.item())", "losses[-1]", "print(losses)"],
    "history": [f"history = []\n{STEP}    pass", f"total = 0.0\n{STEP}    total += loss.item()",
        "history.append(total)\nhistory"],
    "function": [TRAIN, "train(2)", "mean = train(1)\nprint(f'{mean:.4f}')"],
    "counts": [
        f"right, n = 0, 0\n{STEP}    right += (model(x).argmax(1) == y).sum().item()\n    n += len(y)\nprint(right, n)",
        "right / n",
    ],
}  # fmt: skip


def run(cells: Sequence[str], order: Sequence[int]) -> list[str]:
    """What the cells print and show, run by run; the last entry is the error that ended it, if there was one."""
    names: dict[str, object] = {"__name__": "__main__"}
    seen: list[str] = []
    for index in order:
        statements = ast.parse(cells[index]).body
        last = statements.pop() if statements and isinstance(statements[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                exec(compile(ast.Module(statements, []), "cell", "exec"), names)
                shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None  # type: ignore[attr-defined]
            except Exception as error:  # noqa: BLE001, whatever the cells raise is what is compared
                return [*seen, type(error).__name__]
        seen.append(f"{printed.getvalue()}{shown!r}")
    return seen


def rewritten(cells: Sequence[str]) -> list[str]:
    selected = Choice(opted_in=frozenset({"PM106"}))
    result = rewrite(notebooks.document(*cells), "a.ipynb", catalog.select(catalog.rules(), ["PM106"], []), selected)
    assert result.outcome is not Outcome.FAILED, result.reason
    return notebooks.sources(result.after)


NUMBER = re.compile(r"\d+\.\d+(?:e-?\d+)?")


def alike(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two runs show the same, but for a rounding of float32 in sums that are only shown."""
    if [NUMBER.sub("#", text) for text in first] != [NUMBER.sub("#", text) for text in second]:
        return False
    numbers = zip(NUMBER.findall("\n".join(first)), NUMBER.findall("\n".join(second)), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-6) for a, b in numbers)


CASES = {name: [BEGIN, MODEL, *cells] for name, cells in TRAININGS.items()}
REWRITTEN = {name: rewritten(cells) for name, cells in CASES.items()}


def test_what_is_rewritten() -> None:
    """The rest is held back, because the order of cells matters there."""
    assert [name for name, cells in CASES.items() if cells != REWRITTEN[name]] == [
        "sum over cells", "sum in a cell", "sum that is shown above", "list in a cell", "history", "function", "counts"
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_from_top_to_bottom(name: str) -> None:
    order = range(len(CASES[name]))
    before = run(CASES[name], order)
    assert len(before) == len(order)
    assert alike(run(REWRITTEN[name], order), before)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_in_any_order(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    cells = CASES[name]
    order = [0, 1, *data.draw(st.lists(st.integers(1, len(cells) - 1), min_size=1, max_size=8))]
    before = run(cells, order)
    assert alike(run(REWRITTEN[name], order), before), (name, order)
