"""PM103: who is answered by neighbours, who keeps the number; that both count alike."""

from __future__ import annotations

import textwrap

import pytest
import torch
from torch import Tensor

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.tensor_branch import TensorBranch
from perfmod.transforms.syncs.unique_count import UniqueCount

HEAD = "import torch\nfrom torch import Tensor\n\n\ndef f(t: Tensor, loss: Tensor, k: int):\n"
NAN, INF = float("nan"), float("inf")


def function(body: str) -> str:
    return HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def result(body: str) -> FileResult:
    return rewrite(function(body).encode(), "train.py", [UniqueCount()], Choice(unsafe=True))


def assert_becomes(before: str, after: str) -> None:
    found = result(before)
    assert found.after.decode() == function(after), [finding.reason for finding in found.refused]
    assert result(after).outcome is Outcome.UNCHANGED


def reasons(body: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(body)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [finding.reason for finding in found.refused]


COUNTS = [
    "len(torch.unique(t))",
    "len(t.unique())",
    "torch.numel(torch.unique(t))",
    "torch.unique(t, sorted=False).numel()",
    "t.unique().nelement()",
    "t.unique().shape[0]",
    "t.unique().shape[-1]",
    "t.unique().size(0)",
    "len(set(t.tolist()))",
    "len(torch.unique(t.cpu()))",
]


@pytest.mark.parametrize("count", COUNTS)
def test_every_spelling_of_the_count(count: str) -> None:
    assert_becomes(
        f"return loss * ({count} < 2)",
        "flat = t.flatten()\nreturn loss * (flat[1:] == flat[:-1]).all()",
    )


QUESTIONS = {
    "{n} < 2": "(flat[1:] == flat[:-1]).all()",
    "{n} <= 1": "(flat[1:] == flat[:-1]).all()",
    "2 > {n}": "(flat[1:] == flat[:-1]).all()",
    "{n} > 1": "(flat[1:] != flat[:-1]).any()",
    "{n} >= 2": "(flat[1:] != flat[:-1]).any()",
    "1 < {n}": "(flat[1:] != flat[:-1]).any()",
}
OTHERS = ["3 > {n}", *(f"{{n}} {other}" for other in ("== 0", "== 2", "< 3", ">= 3", "< k", "== k"))]


@pytest.mark.parametrize("question", QUESTIONS)
def test_neighbours_answer(question: str) -> None:
    test = question.format(n="len(t.unique())")
    assert_becomes(f"return loss * ({test})", f"flat = t.flatten()\nreturn loss * {QUESTIONS[question]}")


@pytest.mark.parametrize("question", OTHERS)
def test_other_thresholds_need_the_number(question: str) -> None:
    (reason,) = reasons(f"return loss * ({question.format(n='len(t.unique())')})")
    assert reason.startswith("only 'fewer than two distinct values' can be tested")


def _hard_tensors() -> list[Tensor]:
    values = [
        [],
        [0],
        [1, 1],
        [1, 0],
        [0, 1, 1],
        [1, 1, 1, 0],
        [3, 3, 3],
        [3, 2, 3],
        [5, 4, 3, 2],
        [2, 2, 0, 0],
    ]
    found = [
        torch.tensor(value).to(dtype)
        for value in values
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    ]
    values += [
        [NAN],
        [NAN, NAN],
        [NAN, 1],
        [1, NAN, 1],
        [1, 1, NAN],
        [0.0, -0.0],
        [-0.0, 0.0, -0.0],
        [INF, INF],
        [INF, -INF],
    ]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        found += [torch.tensor(value, dtype=dtype) for value in values]
        found.append(torch.tensor(1.0, dtype=dtype))
    found += [torch.stack([tensor, tensor + tensor], 1)[:, 0] for tensor in found if tensor.dim()]
    found += [tensor.reshape(2, -1).t() for tensor in found if tensor.numel() in (2, 4)]
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_counts_as_unique_does(question: str) -> None:
    body = f"return loss * ({question.format(n='torch.unique(t).numel()')})"
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    exec(function(body), before)
    exec(result(body).after.decode(), after)
    one = torch.tensor(1.0)
    tensors = _hard_tensors()
    assert len(tensors) > 200
    for tensor in tensors:
        for k in (0, 1, 2, 4):
            expected = before["f"](tensor, one, k)  # type: ignore[operator]
            assert torch.equal(after["f"](tensor, one, k), expected), (tensor, k)  # type: ignore[operator]


def test_variables_keep_their_places() -> None:
    assert_becomes(
        """
        loss = loss * 1
        # what is there
        with torch.profiler.record_function("unique"):
            unique = torch.unique(t)  # sorted
        with torch.profiler.record_function("numel"):
            few = torch.numel(unique) < 2
        return loss * few
        """,
        """
        loss = loss * 1
        # what is there
        with torch.profiler.record_function("unique"):
            flat = t.flatten()  # sorted
        with torch.profiler.record_function("numel"):
            few = (flat[1:] == flat[:-1]).all()
        return loss * few
        """,
    )


@pytest.mark.parametrize(("comparison", "question"), [("== 1", "=="), ("!= 1", "!=")])
def test_exactly_one_value_is_held_back(comparison: str, question: str) -> None:
    body = f"return loss * (len(t.unique()) {comparison})"
    (held,) = rewrite(function(body).encode(), "train.py", [UniqueCount()]).held_back
    assert held.reason == "right unless the tensor is empty"
    assert f"(flat[1:] {question} flat[:-1])" in result(body).after.decode()


def test_an_if_that_waits_as_well_is_no_gain() -> None:
    body = "if len(t.unique()) < 2:\n    return loss * 0\nreturn loss"
    found = rewrite(function(body).encode(), "train.py", [UniqueCount()])
    assert found.outcome is Outcome.UNCHANGED
    (held,) = found.held_back
    assert held.safety is Safety.LOW_IMPACT
    assert held.reason == "the `if` on line 6 waits for the result anyway, so nothing is gained"


def test_an_if_becomes_a_where_with_it() -> None:
    body = "loss = loss.float().mean()\nfew = len(t.unique()) < 2\nif few:\n    loss = 0. * loss\nreturn loss"
    found = rewrite(function(body).encode(), "train.py", [UniqueCount(), TensorBranch()])
    assert found.after.decode() == function(
        "loss = loss.float().mean()\nflat = t.flatten()\nfew = (flat[1:] == flat[:-1]).all()\n"
        "loss = torch.where(few, 0. * loss, loss)\nreturn loss"
    )


def test_names_do_not_collide() -> None:
    after = result(
        "flat = loss\na = t.unique()\nb = loss.unique()\nx = len(a) < 2\ny = len(b) < 2\n"
        "return flat * (loss * x) * (loss * y)"
    ).after.decode()
    assert "flat_2 = t.flatten()" in after
    assert "flat_3 = loss.flatten()" in after


@pytest.mark.parametrize(("body", "reason"), [
    ("return torch.zeros(len(t.unique()))", "Python integer"),
    ("return len(t.unique())", "Python integer"),
    ("return len(t.unique()) < 2", "used on line 6, where it may be needed as a Python bool"),
    ("print(f'{len(t.unique())}')", "Python integer"),
    ("return loss + (len(t.unique()) < 2)", "used on line 6, where it may be needed as a Python bool"),
    ("assert len(t.unique()) > 1", "used on line 6"),
    ("while len(torch.unique(t)) > 1:\n    t = t // 2\nreturn t", "used on line 6"),
    ("n = len(t.unique())\nreturn loss * (n < 2)", "Python integer"),
    ("n = len(t.unique())\nif n < 2:\n    loss = loss * 2\nif n > 3:\n    loss = loss * 2", "Python integer"),
    ("few = len(t.unique()) < 2\nfor _ in range(k):\n    if few:\n        loss = loss * 2", "another loop"),
    ("if k:\n    u = t.unique()\nelse:\n    u = t\nreturn loss * (len(u) < 2)", "may hold another value"),
    ("kinds = t.unique()\nt[0] = 7\nreturn loss * (len(kinds) < 2)", "may be modified"),
    ("if 1 < len(t.unique()) < 4:\n    return loss", "without waiting, not"),
    ("if k:\n    pass\nelif len(t.unique()) < 2:\n    loss = loss * 2\nreturn loss",
     "part of a larger expression on line 8"),
    ("return [loss * (len(t.unique()) < 2) for _ in range(k)]", "part of a larger expression"),
    ("u, c = torch.unique(t, return_counts=True)\nreturn loss * (len(u) < 2) * c", "return_counts"),
    ("return loss * (len(torch.unique(t, dim=0)) < 2)", "dim"),
    ("return loss * (len(torch.unique(t, True, True)) < 2)", "more than the distinct"),
    ("u = t.unique()\nreturn loss[u] * (len(u) < 2)", "used on line 7"),
    ("u = t.unique()\nreturn loss * (len(u) < 2) * (len(u) > 1)", "counted again on line 7"),
    ("few = m = t.unique().numel() < 2\nreturn loss * few", "is stored on line 6"),
    ("few = len(t.unique()) < 2\ndef g():\n    return loss * few\nreturn g", "is stored on line 6"),
])  # fmt: skip
def test_who_needs_the_number_keeps_it(body: str, reason: str) -> None:
    found = reasons(body)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize("body", [
    "return torch.unique(t)",
    "return len(set([1, 2]))",
    "for label in t.unique():\n    loss = loss + label\nreturn loss",
    "return loss * (len(torch.unique(torch.zeros(3))) < 2)",
    "import numpy as np\nreturn loss * (len(np.unique(t)) < 2)",
    "return loss * (len(torch.unique_consecutive(t)) < 2)",
    "import pandas as pd\nframe = pd.read_csv('x')\nreturn loss * (len(frame['a'].unique()) < 2)",
    "u, c = torch.unique(t, return_counts=True)\nreturn u * c",
    "if k % 10 == 0:\n    if len(t.unique()) < 2:\n        print('one')",
])  # fmt: skip
def test_nothing_is_said_of_other_code(body: str) -> None:
    assert reasons(body) == []
