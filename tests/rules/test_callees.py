"""Every rule gives the same answer about a callee: in sight, out of sight, or of a library."""

from __future__ import annotations

import pytest

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.policy import Policy
from perfmod.transforms.questions import Predicate

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEFINITION
device = torch.device("cuda")
model = nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index])


def train(paths, data, graph):
    BEFORE
    for x, y in LOADER:
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        out = model(x)
        loss = F.mse_loss(out, y)
        BODY
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    AFTER
"""
LOADER = "DataLoader(Photos(paths), batch_size=4, num_workers=2, pin_memory=True)"
CALLEES = {
    "in sight": ("def use(x):\n    return x.shape\n\n", "use"),
    "library": ("", "torch.numel"),
    "out of sight": ("from helpers import use\n", "use"),
}
MASKED = "small = noise < 0\nCALL(noise)\nnoise[small] = (noise * 2)[small]\nloss = loss + noise.sum()"
UNPINNED = LOADER.replace(", pin_memory=True", "")
MOVE = "x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)"
CASES = {
    # The callee gets the tensor before it is rewritten; what it keeps is the tensor that it kept before.
    "PM102": {"BODY": f"noise = torch.randn(4, 3, device=device)\n{MASKED}"},
    "PM105": {"BODY": "weight = loss * 2\nCALL(weight)\nif loss > 1:\n    weight = weight * 0.5\nloss = loss + weight"},
    "PM106": {"BEFORE": "total = 0.0", "BODY": "CALL(loss)\ntotal += loss.item()", "AFTER": "print(total)"},
    "PM106 list": {"BEFORE": "kept = []", "BODY": "kept.append(loss.item())\nCALL(loss)", "AFTER": "print(max(kept))"},
    "PM108": {
        "BODY": "scale = torch.tensor([1.0, 2.0, 3.0], device=device)\nCALL(scale)\nloss = loss + (out * scale).sum()"
    },
    "PM202": {"LOADER": UNPINNED, MOVE: "z = x\n        x, y = x.to(device), y.to(device)\n        CALL(z)"},
    "PM206": {"BODY": "noise = torch.zeros(4, 3).to(device)\nCALL(noise)\nloss = loss + noise.sum()"},
    "PM405": {"BEFORE": "kept = []", "BODY": "CALL(loss)\nkept.append(loss)", "AFTER": "print(len(kept))"},
}


def script(case: str, callee: str) -> str:
    definition, call = CALLEES[callee]
    parts = CASES[case]
    code = HEAD.replace("DEFINITION", definition).replace("LOADER", parts.get("LOADER", LOADER))
    code = code.replace(MOVE, parts.get(MOVE, MOVE))
    for name, indent in (("BEFORE", 4), ("BODY", 8), ("AFTER", 4)):
        code = code.replace(name, parts.get(name, "pass").replace("\n", "\n" + " " * indent))
    return code.replace("CALL", call)


def judged(case: str, callee: str, policy: Policy = Policy()) -> tuple[str, FileResult]:
    rules = [rule for rule in catalog.rules() if rule.code == case.split()[0]]
    result = rewrite(script(case, callee).encode(), "train.py", rules, Choice(policy=policy))
    return "rewritten" if result.applied else "held back" if result.held_back else "left", result


@pytest.mark.parametrize("case", CASES)
def test_a_function_in_sight_and_one_of_a_library_hold_nothing_back(case: str) -> None:
    assert {callee: judged(case, callee)[0] for callee in ("in sight", "library")} == {
        "in sight": "rewritten",
        "library": "rewritten",
    }


@pytest.mark.parametrize("case", CASES)
def test_a_function_out_of_sight_makes_no_difference_or_is_asked_about(case: str) -> None:
    became, result = judged(case, "out of sight")
    if case in ASKED:
        assert became == "held back"
        (finding,) = result.held_back
        assert "perfmod cannot see the code of" in finding.reason
        assert [asked.predicate for asked in finding.questions] == [Predicate.LEAVES_ARGUMENTS]
        assert finding.questions[0].expression.startswith("use(")
    else:
        assert became == "rewritten"


ASSUMING = Policy(assumed=frozenset({Predicate.LEAVES_ARGUMENTS.value}))


@pytest.mark.parametrize("case", ["PM108", "PM202"])
def test_a_project_may_answer_for_all_of_them(case: str) -> None:
    assert judged(case, "out of sight", ASSUMING)[0] == "rewritten"


def test_what_is_open_besides_stays_open() -> None:
    code = script("PM202", "out of sight").replace("num_workers=2)", "num_workers=2, pin_memory=False)")
    rules = [rule for rule in catalog.rules() if rule.code == "PM202"]
    (held,) = rewrite(code.encode(), "train.py", rules, Choice(policy=ASSUMING)).held_back
    assert "pin_memory=False is set explicitly" in held.reason


ASKED = {"PM108", "PM202"}
"""What shares a tensor with the callee that was not shared before, or reads it later, minds that it may be written."""


def test_a_callee_that_may_write_gets_a_tensor_of_its_own() -> None:
    assert "kept.append(loss.detach().clone())" in judged("PM106 list", "out of sight")[1].after.decode()
    assert "kept.append(loss.detach())" in judged("PM106 list", "library")[1].after.decode()
