"""PM202: where the device may be Apple's MPS, the rewrite is held back."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import Choice, FileResult, rewrite
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

from data import args, model, photos

DEVICE
loader = DataLoader(photos, batch_size=4)
for x, y in loader:
    loss = model(x.to(WHERE)).sum()
    loss.backward()
"""
BY_IF = """\
if torch.cuda.is_available():
    device = torch.device("cuda")
elif torch.backends.mps.is_available():
    device = torch.device("mps")
else:
    device = torch.device("cpu")"""
BY_NAME = 'device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"'
OF_CLASS = """\
class State:
    def __init__(self):
        self.device = torch.device("mps" if args.mps else "cuda")


state = State()"""


def script(device: str, where: str) -> str:
    return SCRIPT.replace("DEVICE", device).replace("WHERE", where)


def run(code: str) -> FileResult:
    return rewrite(code.encode(), "train.py", [PageableTransfer()], Choice())


@pytest.mark.parametrize(
    ("device", "where"),
    [
        (BY_IF, "device"),
        (BY_NAME, "device"),
        (BY_NAME.replace("device = ", "where = ") + "\ndevice = torch.device(where)", "device"),
        (
            'accelerator = torch.accelerator.current_accelerator()\ndevice = torch.device(f"{accelerator}:0")',
            "device",
        ),
        (BY_IF, "model.weight.device"),
        (OF_CLASS, "state.device"),
        ('device = torch.device("mps" if args.mps else "cuda")', "device=device"),
        ("device = torch.accelerator.current_accelerator()", "device"),
        ("device = torch.device('mps') if args.mps else args.device", "device"),
        ("device = 'mps' if args.mps else 0", "device"),
        ("", "'mps' if args.mps else 'cuda'"),
        ("", "torch.device('mps:0')"),
    ],
)
@pytest.mark.parametrize("pinned", ["", ", pin_memory=True"])
def test_copies_that_may_go_to_mps_are_held_back(device: str, where: str, pinned: str) -> None:
    code = script(device, where).replace("batch_size=4", f"batch_size=4{pinned}")
    result = run(code)
    assert result.after.decode() == code
    (finding,) = result.held_back
    assert finding.reason == "the device may be Apple's MPS, where non-blocking copies have given wrong values"
    asked = rewrite(code.encode(), "train.py", [PageableTransfer()], Choice(unsafe=True)).after.decode()
    assert f"x.to({where}, non_blocking=True)" in asked
    assert "DataLoader(photos, batch_size=4, pin_memory=True)" in asked


def test_other_projects_are_not() -> None:
    assert run(script('device = "cuda" if torch.cuda.is_available() else "cpu"', "device")).applied
