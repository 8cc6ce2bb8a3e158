"""PM202: where the device may be Apple's MPS, only copies to CUDA do not wait."""

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
    ("device", "where", "asked"),
    [
        (BY_IF, "device", 'device.type == "cuda"'),
        (BY_NAME, "device", 'device.startswith("cuda")'),
        (
            BY_NAME.replace("device = ", "where = ") + "\ndevice = torch.device(where)",
            "device",
            'device.type == "cuda"',
        ),
        (
            'accelerator = torch.accelerator.current_accelerator()\ndevice = torch.device(f"{accelerator}:0")',
            "device",
            'device.type == "cuda"',
        ),
        (BY_IF, "model.weight.device", "torch.cuda.is_available()"),
        (OF_CLASS, "state.device", 'state.device.type == "cuda"'),
        ('device = torch.device("mps" if args.mps else "cuda")', "device=device", 'device.type == "cuda"'),
    ],
)
def test_only_copies_to_cuda_do_not_wait(device: str, where: str, asked: str) -> None:
    after = run(script(device, where)).after.decode()
    assert f"x.to({where}, non_blocking={asked})" in after
    assert "DataLoader(photos, batch_size=4, pin_memory=torch.cuda.is_available())" in after
    again = run(after)
    assert not again.applied
    assert not again.refused
    assert not again.held_back


def test_a_loader_that_pins_already() -> None:
    code = script(BY_IF, "device").replace("batch_size=4", "batch_size=4, pin_memory=True")
    assert run(code).after.decode() == code.replace("to(device)", 'to(device, non_blocking=device.type == "cuda")')


def test_torch_under_another_name_and_under_none() -> None:
    code = script(BY_NAME, "device").replace("torch.", "th.").replace("import torch\n", "import torch as th\n", 1)
    code = code.replace("from th.utils", "from torch.utils")
    assert "pin_memory=th.cuda.is_available()" in run(code).after.decode()
    without = script("device = 'mps' if args.mps else 'cuda'", "device").replace("import torch\n", "", 1)
    after = run(without).after.decode()
    assert "pin_memory=torch.cuda.is_available()" in after
    assert "import torch\n" in after


@pytest.mark.parametrize(
    ("device", "where"),
    [
        ("device = torch.accelerator.current_accelerator()", "device"),
        ("device = torch.accelerator.current_accelerator() if args.gpu else torch.device('cpu')", "device"),
        ("device = torch.device('mps') if args.mps else args.device", "device"),
        ("device = torch.device('mps') if args.mps else 'cuda'", "device"),
        ("device = 'mps' if args.mps else 0", "device"),
        ("", "'mps' if args.mps else 'cuda'"),
    ],
)
def test_devices_that_cannot_be_asked(device: str, where: str) -> None:
    after = run(script(device, where)).after.decode()
    assert f"x.to({where}, non_blocking=torch.cuda.is_available())" in after
    assert "pin_memory=torch.cuda.is_available()" in after


@pytest.mark.parametrize(
    ("device", "where"),
    [("", "'mps'"), ("", "torch.device('mps:0')"), ("device = torch.device('mps')", "device")],
)
def test_devices_that_are_nothing_else(device: str, where: str) -> None:
    code = script(device, where)
    result = run(code)
    assert result.after.decode() == code
    assert "MPS" in result.held_back[0].reason


def test_torch_that_is_not_there_to_be_asked() -> None:
    code = script("", "'mps' if args.mps else 'cuda'").replace("import torch\n", "", 1)
    assert "MPS" in run(code).held_back[0].reason
