"""Whether files use an accelerator, and which."""

from __future__ import annotations

import pytest
from snippets import facts

from perfmod.transforms.facts.accelerators import missing_float64, uses_accelerator


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("model.cuda()", True),
        ("x = x.to('cuda')", True),
        ("x = x.to(device)", True),
        ("x = torch.zeros(3, device='cuda:1')", True),
        ("torch.set_default_device('cuda')", True),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", True),
        ("from accelerate import Accelerator", True),
        ("import pytorch_lightning as pl", True),
        ("from transformers import (\n    AutoModel,\n    Trainer,\n)", True),
        ("dtype = torch.cuda.FloatTensor", True),
        ("dtype = torch.FloatTensor\n# dtype = torch.cuda.FloatTensor", False),
        ("from training import Trainer", False),
        ("model.train()", False),
        ("x = x.to(torch.float64)", False),
        ("x = x.to('cpu')", False),
        ("x = torch.zeros(3, device='cpu')", False),
        ("device = torch.device('cpu')\nx = x.to(device)", False),
        ("def fit(x, device):\n    x.to(device)\ndevice = torch.device('cpu')\nfit(x, device)", False),
        ("def fit(x, device='cpu'):\n    x.to(device)\nfit(x)", False),
        ("def fit(x, device):\n    x.to(device)\nfit(x, 'cpu')\nfit(x, device='cuda')", True),
        ("def fit(x, device):\n    x.to(device)\nfit(x, args.device)", True),
        ("def fit(x, device):\n    x.to(device)\nfit(x, 'cpu')\nspawn(fit)", True),
        ("def fit(x, device):\n    x.to(device)", True),
    ],
)
def test_uses_accelerator(code: str, expected: bool) -> None:
    assert uses_accelerator(facts(f"import torch\n{code}\n")) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("device = torch.device('mps')", 'the script may run on "mps", which has no float64'),
        ("ok = torch.backends.mps.is_available()", 'the script may run on "mps", which has no float64'),
        ("device = 'xpu:0'", 'the script may run on "xpu", which has no float64'),
        ("accelerator = Accelerator()", "`Accelerator(` may choose a device without float64, such as MPS"),
        ("fabric = Fabric(devices=2)", "`Fabric(` may choose a device without float64, such as MPS"),
        ("fabric = Fabric(accelerator='cuda')", None),
        (
            "device = torch.accelerator.current_accelerator()",
            "`torch.accelerator` may choose a device without float64, such as MPS",
        ),
        ("device = torch.device('cuda')", None),
    ],
)
def test_missing_float64(code: str, expected: str | None) -> None:
    assert missing_float64(facts(f"import torch\n{code}\n")) == expected
