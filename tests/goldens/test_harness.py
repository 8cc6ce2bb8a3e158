"""The harness itself: a wrong rewrite of each kind must be seen, and a right one must not be blamed."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from golden_harness.compare import differences
from golden_harness.golden import Head, HeadError
from golden_harness.make import FLAVOURS, MASKS, Make
from golden_harness.sides import TRIALS, NothingShown, compare_probes, run_script

from perfmod.transforms.finding import Numerics

HEAD = """
import torch

def cases(make):
    for dtype in make.floats:
        shape = make.shape(4, 5)
        yield make.tensor(shape, dtype, requires_grad=True), make.tensor(shape, dtype), make.mask(shape)
"""
ORIGINAL = """
def probe(x, buffer, mask):
    buffer[mask] = 0.0
    print(int(mask.sum()))
    return torch.where(mask, x * 2.0, x)
"""
WRONG = {
    "value": ("x * 2.0, x)", "x * 2.0, x + 1e-3)", "returned"),
    "sign of zero": ("x * 2.0, x)", "x * 2.0, x + 0.0)", "returned"),
    "NaN": ("x * 2.0, x)", "x * 2.0, x.nan_to_num())", "returned"),
    "dtype": ("x * 2.0, x)", "x * 2.0, x).double()", "returned"),
    "shape": ("x * 2.0, x)", "x * 2.0, x)[None]", "returned"),
    "gradient only": ("x * 2.0, x)", "x * 2.0, x.detach())", "argument[0] gradient"),
    "gradient cut": ("x * 2.0, x)", "x * 2.0, x).detach()", "requires_grad"),
    "argument not mutated": ("buffer[mask]", "buffer.clone()[mask]", "argument[1]"),
    "argument mutated": ("return", "x.detach().mul_(3.0)\n    return", "argument[0]"),
    "print": ("print(int(mask.sum()))", "print(int(mask.sum()) + 1)", "printed"),
    "print lost": ("print(int(mask.sum()))", "pass", "printed"),
    "exception": ("return", "assert mask.any()\n    return", "raised"),
    "alias lost": ("return torch.where(mask, x * 2.0, x)", "return buffer.clone()", "returned"),
    "tuple": ("torch.where(mask, x * 2.0, x)", "(torch.where(mask, x * 2.0, x),)", "returned type"),
    "import prints": ("def probe", "print('hello')\ndef probe", "printed at import"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_sees_a_wrong_rewrite(kind: str, folder: Path) -> None:
    old, new, where = WRONG[kind]
    before, after = (HEAD + ORIGINAL).encode(), (HEAD + ORIGINAL.replace(old, new)).encode()
    assert before != after
    found = compare_probes(before, after, Numerics.BITWISE, folder)
    assert any(where in line for line in found), found


def test_sees_a_lost_alias(folder: Path) -> None:
    before = (HEAD + "def probe(x, buffer, mask):\n    return buffer.view(-1)\n").encode()
    after = before.replace(b".view(-1)", b".clone().view(-1)")
    found = compare_probes(before, after, Numerics.BITWISE, folder)
    assert any("shares memory" in line for line in found)


def test_sees_a_nan_gradient_behind_an_equal_value(folder: Path) -> None:
    head = "import torch\ndef cases(make):\n    yield make.tensor((8,), requires_grad=True),\n"
    before = head + "def probe(x):\n    return torch.where(x > 0, torch.where(x > 0, x, 1.0).log(), 0.0)\n"
    after = head + "def probe(x):\n    return torch.where(x > 0, x.log(), 0.0)\n"
    found = compare_probes(before.encode(), after.encode(), Numerics.ROUNDING, folder)
    assert found
    assert all("gradient" in line for line in found)


@pytest.mark.parametrize("numerics", [Numerics.BITWISE, Numerics.ROUNDING, Numerics.SAMPLING])
def test_blames_nothing_on_the_same_code(numerics: Numerics, folder: Path) -> None:
    code = (HEAD + ORIGINAL).encode()
    assert compare_probes(code, code, numerics, folder) == []


MEAN = """
def cases(make):
    for dtype in make.floats:
        yield make.tensor((3, 40), dtype, requires_grad=True),
"""


def test_rounding_admits_another_order_of_a_sum_and_bitwise_does_not(folder: Path) -> None:
    before = (MEAN + "def probe(x):\n    return x.square().mean()\n").encode()
    after = (MEAN + "def probe(x):\n    return x.t().square().mean(1).mean()\n").encode()
    assert compare_probes(before, after, Numerics.BITWISE, folder, trials=1)
    assert compare_probes(before, after, Numerics.ROUNDING, folder) == []


@pytest.mark.parametrize("change", ["x.mean() * 1.0001", "x.sum() / (x.numel() + 1)", "(x + 1e-4).mean()"])
def test_rounding_does_not_admit_a_small_error(change: str, folder: Path) -> None:
    head = MEAN.replace("make.floats", "make.floats[:2]")
    before = (head + "def probe(x):\n    return x.mean()\n").encode()
    after = before.replace(b"x.mean()", change.encode())
    assert compare_probes(before, after, Numerics.ROUNDING, folder, trials=1)


def test_sampling_admits_other_draws_and_no_other_shape(folder: Path) -> None:
    before = b"import torch\ndef probe():\n    return torch.rand(3)\n"
    assert compare_probes(before, before.replace(b"rand(3)", b"randn(3)"), Numerics.SAMPLING, folder) == []
    assert compare_probes(before, before.replace(b"rand(3)", b"rand(4)"), Numerics.SAMPLING, folder)


def test_module_parameters_are_arguments(folder: Path) -> None:
    code = b"from torch import nn\ndef cases(make):\n    yield nn.Linear(2, 2), make.tensor((3, 2))\n"
    before = code + b"def probe(layer, x):\n    return layer(x)\n"
    after = code + b"def probe(layer, x):\n    return layer(x) * 1.5 / 1.5 + 0 * layer.bias.detach()\n"
    wrong = code + b"def probe(layer, x):\n    return x @ layer.weight.t() + layer.bias.detach()\n"
    assert compare_probes(before, before, Numerics.BITWISE, folder) == []
    assert compare_probes(before, after, Numerics.BITWISE, folder)
    assert any("bias gradient" in line for line in compare_probes(before, wrong, Numerics.BITWISE, folder))


def test_a_golden_that_only_raises_shows_nothing(folder: Path) -> None:
    code = b"def probe():\n    raise ValueError\n"
    with pytest.raises(NothingShown):
        compare_probes(code, code, Numerics.BITWISE, folder)


def test_script_runs_with_spawned_workers_and_finds_its_classes(tmp_path: Path) -> None:
    script = b"""
import multiprocessing
class Item:
    pass
def name(item):
    return type(item).__name__
if __name__ == "__main__":
    with multiprocessing.Pool(1) as pool:
        print(multiprocessing.get_start_method(), pool.map(name, [Item()]))
"""
    assert run_script(script, tmp_path, "spawn") == (0, "spawn ['Item']\n")


def test_failing_script_is_seen(tmp_path: Path) -> None:
    assert run_script(b"raise SystemExit(3)", tmp_path)[0] == 3


def test_trials_reach_every_hard_input() -> None:
    makes = [Make(trial) for trial in range(TRIALS)]
    assert {(make.flavour, make.masks) for make in makes} == {(a, b) for a in FLAVOURS for b in MASKS}
    drawn = [make.tensor((4, 6)) for make in makes for _ in range(4)]
    values = torch.cat([tensor.reshape(-1) for tensor in drawn])
    assert values.isnan().any()
    assert values.isposinf().any()
    assert values.isneginf().any()
    assert ((values == 0) & values.signbit()).any()
    assert (values == torch.finfo(torch.float32).max / 8).any()
    assert not all(tensor.is_contiguous() for tensor in drawn)
    shapes = [make.shape(3, 4) for make in makes for _ in range(4)]
    assert any(0 in shape for shape in shapes)
    assert any(make.mask((5, 2)).sum() == 1 for make in makes)


def test_trials_repeat() -> None:
    for trial in range(TRIALS):
        first, second = (Make(trial).tensor((3, 4), torch.float16) for _ in range(2))
        same = {"x": first}
        assert differences(same, {"x": second}, Numerics.BITWISE) == []


@pytest.mark.parametrize(("old", "new", "equal"), [
    (1.0, 1.0, True),
    (0.0, -0.0, False),
    (math.nan, math.nan, True),
    (1.0, 1, False),
    (1, 2, False),
    ("a", "b", False),
])  # fmt: skip
def test_compares_plain_values_by_their_bits(old: float | str, new: float | str, equal: bool) -> None:
    assert (differences({"returned": old}, {"returned": new}, Numerics.BITWISE) == []) is equal


def test_head_is_read() -> None:
    assert Head.parse("# golden: change unsafe syncs=0 hot=Loss.forward numerics=rounding") == Head(
        change=True, unsafe=True, syncs=0, hot="Loss.forward", numerics=Numerics.ROUNDING
    )
    assert Head.parse("# golden: change with=unique-count,masked-loss cuda script") == Head(
        change=True, others=("unique-count", "masked-loss"), cuda=True, script=True
    )
    assert Head.parse('# golden: stay refused="used again"') == Head(change=False, refused="used again")
    assert Head.parse('# golden: stay advised="gate it"') == Head(change=False, advised="gate it")
    assert Head.parse("# golden: stay silent").silent


@pytest.mark.parametrize("line", [
    "import torch",
    "# golden:",
    "# golden: maybe",
    "# golden: stay",
    "# golden: stay silent refused=x",
    "# golden: stay advised=x refused=x",
    "# golden: change advised=x",
    "# golden: change silent",
    "# golden: change syncs=many",
    "# golden: change numerics=exact",
    "# golden: change loudly",
])  # fmt: skip
def test_malformed_head_is_an_error(line: str) -> None:
    with pytest.raises(HeadError):
        Head.parse(line)


@pytest.mark.parametrize(("before", "after", "same"), [
    ("loss 1.0946222218600186 at 3", "loss 1.0946222218600188 at 3", True),
    ("loss 1.0946222218600186 at 3", "loss 1.0947222218600186 at 3", False),
    ("loss 1.5 at 3", "loss 1.5 at 4", False),
    ("loss 1.5", "mean 1.5", False),
])  # fmt: skip
def test_printed_numbers_may_be_rounded_otherwise(before: str, after: str, same: bool) -> None:
    found = differences({"printed": before}, {"printed": after}, Numerics.ROUNDING)
    assert (not found) is same
    assert differences({"printed": before}, {"printed": after}, Numerics.BITWISE)


@pytest.mark.parametrize(("after", "same"), [("a 1\nc 3\n", True), ("", True), ("c 3\na 1\n", False), ("a 2\n", False)])
def test_fewer_lines_may_be_printed_where_that_is_declared(after: str, same: bool) -> None:
    before = {"printed": "a 1\nb 2\nc 3\n", "returned": torch.ones(1)}
    found = differences(before, {**before, "printed": after}, Numerics.BEHAVIOURAL)
    assert (not found) is same
    assert differences(before, {**before, "returned": torch.zeros(1)}, Numerics.BEHAVIOURAL)


def test_leaves_the_switches_of_torch_as_they_were(folder: Path) -> None:
    code = b"""import torch
torch.autograd.set_detect_anomaly(True)
def probe():
    torch.set_default_dtype(torch.float64)
"""
    assert compare_probes(code, code, Numerics.BITWISE, folder) == []
    assert not torch.is_anomaly_enabled()
    assert torch.get_default_dtype() == torch.float32
