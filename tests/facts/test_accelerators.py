"""Whether files use an accelerator, and which."""

from __future__ import annotations

import pytest
from snippets import facts

from perfmod.transforms.facts.accelerators import other_device, replays_graphs, shows_half_types, uses_accelerator
from perfmod.transforms.facts.file import Linkage, World
from perfmod.transforms.policy import Policy, Target
from perfmod.transforms.source import Source


@pytest.mark.parametrize(("code", "expected"), [
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
])  # fmt: skip
def test_uses_accelerator(code: str, expected: bool) -> None:
    assert uses_accelerator(facts(f"import torch\n{code}\n")) is expected


@pytest.mark.parametrize(("code", "named"), [
    ("device = torch.device('mps')", "'mps'"),
    ("ok = torch.backends.mps.is_available()", "torch.backends.mps"),
    ("device = 'xpu:0'", "'xpu:0'"),
    ("accelerator = Accelerator()", "Accelerator("),
    ("fabric = Fabric(devices=2)", "Fabric("),
    ("fabric = Fabric(accelerator='cuda')", None),
    ("device = torch.accelerator.current_accelerator()", "torch.accelerator"),
    ("device = torch.device('cuda')", None),
])  # fmt: skip
def test_other_devices_count_where_the_target_is_portable(code: str, named: str | None) -> None:
    source = Source.parse(f"import torch\n{code}\n".encode())
    for target in Target:
        file = World({source: Linkage()}, Policy(target)).files[source]
        counts = target is Target.PORTABLE and named is not None
        said = f"`{named}` says that the device may be another than CUDA, such as MPS" if counts else ""
        assert other_device(file) == said


@pytest.mark.parametrize(("code", "expected"), [
    ("model.half()", True),
    ("model = model.to(torch.bfloat16)", True),
    ("x = torch.zeros(3, dtype=torch.float16)", True),
    ("with torch.autocast('cuda', dtype=torch.bfloat16):\n    model(x)", False),
    ("with torch.cuda.amp.autocast(enabled=True, dtype=torch.half):\n    model(x)", False),
    ("half = x.shape[0] // 2\nx.to(torch.float32)", False),
])  # fmt: skip
def test_shows_half_types(code: str, expected: bool) -> None:
    assert shows_half_types(facts(f"import torch\n{code}\n")) is expected


@pytest.mark.parametrize(("code", "expected"), [
    ("model = torch.compile(model, mode='reduce-overhead')", True),
    ("graph = torch.cuda.CUDAGraph()", True),
    ("model = torch.compile(model)", False),
])  # fmt: skip
def test_replays_graphs(code: str, expected: bool) -> None:
    assert replays_graphs(facts(f"import torch\n{code}\n")) is expected
