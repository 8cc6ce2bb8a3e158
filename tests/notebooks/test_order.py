"""Rewrites that are right from top to bottom, and whether they are when cells run twice or in another order."""

from __future__ import annotations

import pytest

from perfmod.transforms.notebook.order import doubt

LOOP = "for x, y in loader:\n    loss = step(x, y)\n    {}\n"
APPEND, KEEP = "losses.append(loss.item())", "losses.append(loss.detach())"
READ = "losses[:] = torch.stack(losses).tolist()\n"
ADD, ADDED = "total += loss.item()", "total += loss.detach()"


def judged(before: list[str], **after: str) -> str:
    cells = dict(enumerate(before, start=1))
    changed = {int(name.removeprefix("cell_")): code for name, code in after.items()}
    return doubt(cells, changed, sorted(changed))


def test_a_list_that_another_cell_empties() -> None:
    after = LOOP.format(KEEP) + READ
    reason = judged(["losses = []", LOOP.format(APPEND), "plot(losses)"], cell_2=after)
    assert reason == "cell 2 may be run again without the cell that sets losses, and leaves another value in it"


@pytest.mark.parametrize(
    "start", ["losses = []\n", "losses, seen = [], 0\n", "losses: list = []\n", "print(1)\nlosses = []\n"]
)
def test_a_list_that_its_own_cell_empties(start: str) -> None:
    assert not judged([start + LOOP.format(APPEND), "plot(losses)"], cell_1=start + LOOP.format(KEEP) + READ)


@pytest.mark.parametrize(
    "start",
    ["losses = losses or []\n", "if again:\n    losses = []\n", "losses: list\n", "print(losses)\nlosses = []\n"],
)
def test_a_list_that_its_own_cell_may_not_empty(start: str) -> None:
    assert judged([start + LOOP.format(APPEND), "losses = []"], cell_1=start + LOOP.format(KEEP) + READ)


def test_a_sum_that_is_read_where_it_is_used() -> None:
    """Wherever the sum is read, it is converted; what it was before does not matter."""
    before = ["total = 0.0", LOOP.format(ADD), "print(total / n)"]
    assert not judged(before, cell_2=LOOP.format(ADDED), cell_3="print(float(total) / n)")


def test_a_sum_that_is_read_above() -> None:
    before = ["total = 0.0", "history.append(total)", LOOP.format(ADD), "print(total / n)"]
    reason = judged(before, cell_3=LOOP.format(ADDED), cell_4="print(float(total) / n)")
    assert reason == "cell 2 reads total and may be run again after cell 3, when total is a tensor"
    plain = ["total = 0.0", "history.append(total)", LOOP.format("total = total + loss.item()"), "total"]
    assert judged(plain, cell_3=LOOP.format("total = total + loss.detach()"), cell_4="float(total)")


def test_a_name_that_is_used_elsewhere_for_something_else() -> None:
    own = "total = 0.0\n" + LOOP.format(ADD)
    before = ["total = 5\nprint(total)", own, "print(total)"]
    assert not judged(before, cell_2="total = 0.0\n" + LOOP.format(ADDED), cell_3="print(float(total))")


def test_new_names() -> None:
    before = ["mask = y > 0", "for x in loader:\n    x[mask] = 0"]
    hoisted = judged(before, cell_1="mask = y > 0\nindex = mask.nonzero()", cell_2="for x in loader:\n    x[index] = 0")
    assert hoisted == "index would be set in cell 1 and read in another cell, which may be run again without it"
    assert not judged(before, cell_2="index = mask.nonzero()\nfor x in loader:\n    x[index] = 0")


def test_settings_and_moves_do_not_matter() -> None:
    before = ["loader = DataLoader(d)", "show(loader)", "for x, y in loader:\n    x = x.cuda()\n    y = y.cuda()"]
    assert not judged(
        before,
        cell_1="loader = DataLoader(d, pin_memory=True)",
        cell_3="for x, y in loader:\n    x = x.cuda(non_blocking=True)\n    y = y.cuda(non_blocking=True)",
    )


def test_functions_have_variables_of_their_own() -> None:
    function = "def train():\n    losses = []\n    {}\n    return losses\n"
    after = function.format(KEEP).replace("    return", f"    {READ}    return")
    assert not judged(["losses = []", function.format(APPEND), "print(losses)"], cell_2=after)


def test_code_that_this_python_cannot_read() -> None:
    assert not judged(["a = (", "b = 1"], cell_2="b = 2")


@pytest.mark.parametrize(("start", "reason"), [("", "scale would be set in cell 1"), ("scale = 2.0\n", "")])
def test_a_new_name_that_each_cell_sets_for_itself(start: str, reason: str) -> None:
    doubted = judged(["f(x)", "g(x)"], cell_1="scale = 2.0\nf(scale * x)", cell_2=f"{start}g(scale * x)")
    assert doubted.startswith(reason) if reason else not doubted
