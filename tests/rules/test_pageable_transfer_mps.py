"""PM202: where the device may be Apple's MPS, the rewrite is held back."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import Choice, FileResult, Given, rewrite, rewrite_together
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

from data import args, model, photos

DEVICE
loader = DataLoader(photos, num_workers=2, batch_size=4)
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
    assert "DataLoader(photos, num_workers=2, batch_size=4, pin_memory=True)" in asked


OF_ENUM = """\
from enum import Enum


class TorchDevice(str, Enum):
    CUDA = "cuda"
    MPS = "mps"


def default_device():
    return TorchDevice.MPS if torch.mps.is_available() else TorchDevice.CUDA


device = settings()["device"]
"""


@pytest.mark.parametrize("where", ["device", "args.device", "model.device", "TorchDevice(args.device)"])
def test_devices_by_a_name_where_the_project_reckons_with_mps(where: str) -> None:
    code = script(OF_ENUM, where)
    result = run(code)
    assert result.after.decode() == code
    assert (
        result.held_back[0].reason == "the device may be Apple's MPS, where non-blocking copies have given wrong values"
    )
    copied = code.replace(f"x.to({where})", f"x.to({where}, non_blocking=True)")
    (held,) = run(copied).held_back
    assert held.reason == "the device may be Apple's MPS, which takes nothing from pinned memory"
    assert run(code.replace("mps", "xpu")).applied


def test_a_device_that_another_file_chooses() -> None:
    files = {
        "train.py": script("from devices import get_device\n", "model.device"),
        "devices.py": "import torch\n\n\ndef get_device():\n    return 'mps' if torch.mps.is_available() else 'cuda'\n",
    }
    given = [Given(path, code.encode(), (path.removesuffix(".py"),)) for path, code in files.items()]
    results = rewrite_together(given, [PageableTransfer()], Choice())
    assert not any(result.applied for result in results)


@pytest.mark.parametrize("device", ["torch.device(f'cuda:{rank}')", "f'cuda:{args.gpu}'", "f'' or 'cuda'", "choose()"])
def test_devices_that_are_written_down_are_what_they_are(device: str) -> None:
    head = """\
best = "mps" if args.best else "cpu"
rank = args.rank


def choose(device=None):
    if device is None:
        device = torch.device("cuda")
    return device


"""
    assert run(script(f"{head}device = {device}", "device")).applied


def test_other_projects_are_not() -> None:
    assert run(script('device = "cuda" if torch.cuda.is_available() else "cpu"', "device")).applied
