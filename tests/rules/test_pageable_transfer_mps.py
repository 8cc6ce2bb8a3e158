"""PM202: a device that may be Apple's MPS holds nothing back, unless the project's target is `portable`."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer
from perfmod.transforms.policy import Policy, Target

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

from data import args, model, photos

DEVICE
loader = DataLoader(photos, num_workers=2, batch_size=4)
for x, y in loader:
    loss = model(x.to(device)).sum()
    loss.backward()
"""
BY_NAME = 'device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"'
OF_ACCELERATOR = "device = torch.accelerator.current_accelerator()"
PORTABLE = Policy(Target.PORTABLE)


def run(code: str, policy: Policy = PORTABLE, *, unsafe: bool = False) -> FileResult:
    return rewrite(code.encode(), "train.py", [PageableTransfer()], Choice(unsafe=unsafe, policy=policy))


@pytest.mark.parametrize("device", [BY_NAME, OF_ACCELERATOR])
@pytest.mark.parametrize("pinned", ["", ", pin_memory=True"])
def test_only_a_portable_project_asks(device: str, pinned: str) -> None:
    code = SCRIPT.replace("DEVICE", device).replace("batch_size=4", f"batch_size=4{pinned}")
    written = run(code, Policy()).after.decode()
    assert "x.to(device, non_blocking=True)" in written
    assert "DataLoader(photos, num_workers=2, batch_size=4, pin_memory=True)" in written
    held = run(code)
    assert held.after.decode() == code
    (finding,) = held.held_back
    assert "may be another than CUDA, such as MPS, where non-blocking copies have given wrong values" in finding.reason
    assert run(code, unsafe=True).after.decode() == written


def test_a_device_that_another_file_chooses() -> None:
    files = {
        "train.py": SCRIPT.replace("DEVICE", "from devices import get_device\n\ndevice = get_device()"),
        "devices.py": "import torch\n\n\ndef get_device():\n    return 'mps' if torch.mps.is_available() else 'cuda'\n",
    }
    given = [Given(path, code.encode(), (path.removesuffix(".py"),)) for path, code in files.items()]
    for policy in (PORTABLE, Policy()):
        results = rewrite_together(given, [PageableTransfer()], Choice(policy=policy))
        assert any(result.applied for result in results) is not policy.is_portable


def test_a_portable_project_that_only_knows_cuda() -> None:
    assert run(SCRIPT.replace("DEVICE", 'device = "cuda" if torch.cuda.is_available() else "cpu"')).applied
