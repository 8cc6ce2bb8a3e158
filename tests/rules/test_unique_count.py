"""PM103: who is answered by neighbours or a sorted count, who keeps the number; that all count alike."""

from __future__ import annotations

import textwrap

import pytest
import torch
from torch import Tensor

from perfmod.codemods.engine import Choice, FileResult, Outcome, rewrite
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
        f"if {count} < 2:\n    loss = 0. * loss\nreturn loss",
        "flat = t.flatten()\nif (flat[1:] == flat[:-1]).all():\n    loss = 0. * loss\nreturn loss",
    )


QUESTIONS = {
    "{n} < 2": "(flat[1:] == flat[:-1]).all()",
    "{n} <= 1": "(flat[1:] == flat[:-1]).all()",
    "2 > {n}": "(flat[1:] == flat[:-1]).all()",
    "{n} > 1": "(flat[1:] != flat[:-1]).any()",
    "{n} >= 2": "(flat[1:] != flat[:-1]).any()",
    "1 < {n}": "(flat[1:] != flat[:-1]).any()",
    "{n} == 1": "(flat[1:] == flat[:-1]).all() & (flat.numel() > 0)",
    "{n} != 1": "(flat[1:] != flat[:-1]).any() | (flat.numel() == 0)",
}
COMPARED = ("== 0", "!= 0", "== 2", "!= 2", "< 3", ">= 3", "< 0", "< k", "== k")
COUNTED = ["3 > {n}", *(f"{{n}} {comparison}" for comparison in COMPARED)]


@pytest.mark.parametrize("question", QUESTIONS)
def test_neighbours_answer(question: str) -> None:
    test = question.format(n="len(t.unique())")
    assert_becomes(f"return loss * ({test})", f"flat = t.flatten()\nreturn loss * ({QUESTIONS[question]})")


@pytest.mark.parametrize("question", COUNTED)
def test_other_thresholds_compare_a_count(question: str) -> None:
    count = "(ordered[1:] != ordered[:-1]).count_nonzero() + min(ordered.numel(), 1)"
    assert_becomes(
        f"return loss * ({question.format(n='len(t.unique())')})",
        f"ordered = t.flatten().sort().values\nreturn loss * ({question.format(n=count)})",
    )


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


@pytest.mark.parametrize("question", [*QUESTIONS, *COUNTED])
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
        # what is there
        with torch.profiler.record_function("unique"):
            unique = torch.unique(t)  # sorted
        with torch.profiler.record_function("numel"):
            few = torch.numel(unique) < 2
        if few:
            loss = 0. * loss
        return loss
        """,
        """
        # what is there
        with torch.profiler.record_function("unique"):
            flat = t.flatten()  # sorted
        with torch.profiler.record_function("numel"):
            few = (flat[1:] == flat[:-1]).all()
        if few:
            loss = 0. * loss
        return loss
        """,
    )


def test_a_write_in_between_is_not_seen() -> None:
    body = """
    kinds = t.unique()
    t[0] = 7
    return loss * (len(kinds) < 2)
    """
    assert_becomes(
        body,
        """
        flat = t.flatten().clone()
        t[0] = 7
        return loss * ((flat[1:] == flat[:-1]).all())
        """,
    )
    after: dict[str, object] = {}
    exec(result(body).after.decode(), after)
    assert after["f"](torch.tensor([1, 1]), torch.tensor(2.0), 0) == 2.0  # type: ignore[operator]


def test_a_helper_that_may_write_counts_as_a_write() -> None:
    assert "t.flatten().clone()" in result("kinds = t.unique()\ng(t)\nreturn loss * (len(kinds) < 2)").after.decode()


def test_two_comparisons_of_one_count_become_one_test() -> None:
    assert_becomes(
        "count = t.unique().numel()\nif count == 0 or count > 2:\n    loss = loss * 2\nreturn loss",
        "ordered = t.flatten().sort().values\n"
        "count = (ordered[1:] != ordered[:-1]).count_nonzero() + min(ordered.numel(), 1)\n"
        "if (count == 0) | (count > 2):\n    loss = loss * 2\nreturn loss",
    )


def test_a_count_is_stored_into_a_tensor() -> None:
    assert_becomes(
        "loss[k] = len(t.unique())\nreturn loss",
        "ordered = t.flatten().sort().values\n"
        "loss[k] = (ordered[1:] != ordered[:-1]).count_nonzero() + min(ordered.numel(), 1)\nreturn loss",
    )


def test_names_do_not_collide() -> None:
    after = result(
        "flat = loss\na = t.unique()\nb = loss.unique()\nx = len(a) < 2\ny = len(b) < 2\n"
        "return flat * (loss * x) * (loss * y)"
    ).after.decode()
    assert "flat_2 = t.flatten()" in after
    assert "flat_3 = loss.flatten()" in after


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return torch.zeros(len(t.unique()))", "Python integer"),
        ("return [loss for _ in range(len(t.unique()))]", "Python integer"),
        ("return len(t.unique())", "returned on line 6"),
        ("return len(t.unique()) < 2", "returned on line 6"),
        ("n = len(t.unique())\nprint(f'{n}')", "printed on line 7"),
        ("print(len(t.unique()))", "`print`"),
        ("return loss / len(t.unique())", "round differently"),
        ("n = len(t.unique())\nn += 1\nreturn loss * (n < 2)", "round differently"),
        ("return loss + (len(t.unique()) < 2)", "computed with"),
        ("assert len(t.unique()) > 1", "check"),
        ("while len(torch.unique(t)) > 1:\n    t = t // 2\nreturn t", "while"),
        (
            (
                "for _ in range(3):\n    pass\nn = t.unique().numel()\nfor _ in range(k):\n    if n < 2:\n"
                "        loss = loss * 2"
            ),
            "another loop",
        ),
        (
            "n = t.unique().numel()\nif n < 2:\n    loss = loss * 2\nif n > 3:\n    loss = loss * 2",
            "every test would wait",
        ),
        (
            "if k:\n    n = len(t.unique())\nelse:\n    n = 3\nreturn loss * (n < 2)",
            "may hold something else",
        ),
        ("if 1 < len(t.unique()) < 4:\n    return loss", "chained"),
        ("if len(t.unique()) < loss:\n    return loss", "no known integer"),
        ("if len(t.unique()) is k:\n    return loss", "no known integer"),
        ("if k:\n    pass\nelif len(t.unique()) < 2:\n    loss = loss * 2\nreturn loss", "elif"),
        ("if t.zero_().sum() is loss and len(t.unique()) < 2:\n    return loss", "comes first"),
        ("return torch.stack([x for x in loss if len(t.unique()) < 2])", "Python integer"),
        ("return [loss * (len(t.unique()) < 2) for _ in range(k)]", "another expression"),
        ("u, c = torch.unique(t, return_counts=True)\nreturn loss * (len(u) < 2) * c", "return_counts"),
        ("return loss * (len(torch.unique(t, dim=0)) < 2)", "dim"),
        ("return loss * (len(torch.unique(t, True, True)) < 2)", "more than the distinct"),
        ("u = t.unique()\nreturn loss[u] * (len(u) < 2)", "used on line 7"),
        ("self.n = len(t.unique())", "Python integer"),
        ("n = few = len(t.unique())\nreturn loss * (n < 2)", "Python integer"),
        ("few = m = t.unique().numel() < 2\nreturn loss * few", "another name"),
        ("n = len(t.unique())\ndef g():\n    return loss * (n < 2)\nreturn g", "another function"),
    ],
)
def test_who_needs_the_number_keeps_it(body: str, reason: str) -> None:
    found = reasons(body)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize(
    "body",
    [
        "return torch.unique(t)",
        "return len(set([1, 2]))",
        "for label in t.unique():\n    loss = loss + label\nreturn loss",
        "return loss * (len(torch.unique(torch.zeros(3))) < 2)",
        "import numpy as np\nreturn loss * (len(np.unique(t)) < 2)",
        "return loss * (len(torch.unique_consecutive(t)) < 2)",
        "import pandas as pd\nframe = pd.read_csv('x')\nreturn loss * (len(frame['a'].unique()) < 2)",
        "u, c = torch.unique(t, return_counts=True)\nreturn u * c",
        "if k % 10 == 0:\n    if len(t.unique()) < 2:\n        print('one')",
    ],
)
def test_nothing_is_said_of_other_code(body: str) -> None:
    assert reasons(body) == []
