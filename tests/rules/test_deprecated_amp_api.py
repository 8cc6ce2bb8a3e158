"""PM313: every way in which the old names are written, what their arguments become, and what stays."""

from __future__ import annotations

import pytest
from whole_files import WholeFiles

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, Given
from perfmod.transforms.compute.deprecated_amp_api import DeprecatedAmpApi
from perfmod.transforms.finding import Safety

FILES = WholeFiles(DeprecatedAmpApi(), "import functools\n\nimport torch")

CHANGES = {
    "attribute": ("with torch.cuda.amp.autocast(): pass", 'with torch.amp.autocast("cuda"): pass'),
    "keyword": ("c = torch.cuda.amp.autocast(enabled=amp)", 'c = torch.amp.autocast("cuda", enabled=amp)'),
    "positional": ("c = torch.cuda.amp.autocast(amp, torch.bfloat16, False)",
        'c = torch.amp.autocast("cuda", enabled=amp, dtype=torch.bfloat16, cache_enabled=False)'),
    "parentheses": ("c = torch.cuda.amp.autocast((amp))", 'c = torch.amp.autocast("cuda", enabled=(amp))'),
    "keywords from elsewhere": ("c = torch.cuda.amp.autocast(**kw)", 'c = torch.amp.autocast("cuda", **kw)'),
    "scaler": ("s = torch.cuda.amp.GradScaler()", 's = torch.amp.GradScaler("cuda")'),
    "scaler by position": ("s = torch.cuda.amp.GradScaler(1.0, *a)", 's = torch.amp.GradScaler("cuda", 1.0, *a)'),
    "scaler on lines": ("s = torch.cuda.amp.GradScaler(\n    enabled=amp,\n)",
        's = torch.amp.GradScaler(\n    "cuda",\n    enabled=amp,\n)'),
    "host": ("c = torch.cpu.amp.autocast()", 'c = torch.amp.autocast("cpu")'),
    "another name of torch": ("import torch as th\nth.cuda.amp.autocast()",
        'import torch as th\nth.amp.autocast("cuda")'),
    "conditional": ("c = torch.cuda.amp.autocast() if amp else None",
        'c = torch.amp.autocast("cuda") if amp else None'),
    "annotation": ("def f(s: torch.cuda.amp.GradScaler): return torch.cuda.amp.GradScaler()",
        'def f(s: torch.amp.GradScaler): return torch.amp.GradScaler("cuda")'),
    "decorator": ("class F:\n    @staticmethod\n    @torch.cuda.amp.custom_fwd\n    def forward(ctx): pass",
        'class F:\n    @staticmethod\n    @torch.amp.custom_fwd(device_type="cuda")\n    def forward(ctx): pass'),
    "decorator with options": ("@torch.cuda.amp.custom_fwd(cast_inputs=torch.half)\ndef forward(ctx): pass",
        '@torch.amp.custom_fwd(cast_inputs=torch.half, device_type="cuda")\ndef forward(ctx): pass'),
    "import": ("from torch.cuda.amp import autocast, GradScaler\nautocast(); GradScaler()",
        'from torch.amp import autocast, GradScaler\nautocast("cuda"); GradScaler("cuda")'),
    "import under other names": ("from torch.cuda.amp import autocast as ac\nwith ac(): pass",
        'from torch.amp import autocast as ac\nwith ac("cuda"): pass'),
    "submodule": ("from torch.cuda.amp.grad_scaler import GradScaler\nGradScaler()",
        'from torch.amp import GradScaler\nGradScaler("cuda")'),
    "module": ("from torch.cuda import amp\namp.autocast()", 'from torch import amp\namp.autocast("cuda")'),
    "module under another name": ("import torch.cuda.amp as amp\namp.GradScaler()",
        'import torch.amp as amp\namp.GradScaler("cuda")'),
    "module of devices": ("from torch import cuda\ncuda.amp.autocast()",
        'from torch import cuda\ntorch.amp.autocast("cuda")'),
    "import inside of a function": ("def f():\n    from torch.cuda.amp import autocast\n    return autocast()",
        'def f():\n    from torch.amp import autocast\n    return autocast("cuda")'),
    "beside another type": ("a = torch.cuda.amp.autocast(dtype=torch.bfloat16)\nb = torch.cuda.amp.autocast()",
        'a = torch.amp.autocast("cuda", dtype=torch.bfloat16)\nb = torch.amp.autocast("cuda", dtype=torch.float16)'),
    "beside another cache": ("a = torch.cuda.amp.autocast(cache_enabled=False)\nb = torch.cuda.amp.autocast()",
        'a = torch.amp.autocast("cuda", cache_enabled=False)\nb = torch.amp.autocast("cuda", cache_enabled=True)'),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_becomes(before: str, after: str) -> None:
    FILES.assert_becomes(before, after)


STAYS = {
    "fallback": ("try:\n    from torch.cuda.amp import autocast\nexcept ImportError:\n    autocast = None",
        "under a condition"),
    "version": ('if torch.__version__ < "2":\n    s = torch.cuda.amp.GradScaler()',
        "is inside a check of the PyTorch version"),
    "attribute error": ("try:\n    s = torch.cuda.amp.GradScaler()\nexcept AttributeError:\n    s = None",
        "is inside a check of the PyTorch version"),
    "value": ("context = torch.cuda.amp.autocast", "and its caller passes no device"),
    "argument": ("f(torch.cuda.amp.GradScaler)", "and its caller passes no device"),
    "base class": ("class S(torch.cuda.amp.GradScaler): pass", "base class"),
    "text": ('torch.cuda.amp.autocast("cuda")', "is given a string as its first argument, which is `enabled"),
    "places unknown": ("torch.cuda.amp.autocast(*args)", "by `*`"),
    "partial": ("functools.partial(torch.cuda.amp.autocast, enabled=amp)", "is passed on as a value on line"),
    "test of the class": ("isinstance(torch.cuda.amp.GradScaler(), torch.cuda.amp.GradScaler)",
        "is compared by its class"),
    "unused import": ("from torch.cuda.amp import autocast", "not used in this file"),
    "exported": ('from torch.cuda.amp import autocast\n__all__ = ["autocast"]\nautocast()', "may be exported"),
    "other use of the module": ("from torch.cuda import amp\namp.autocast()\nf(amp)", "something else on line"),
    "star": ("from torch.cuda.amp import *", "by `*`"),
    "bound twice": ("from torch.cuda.amp import autocast\nif x:\n    autocast = None\nautocast()",
        "may be something else on line"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason"), STAYS.values(), ids=STAYS)
def test_stays_with_the_reason(code: str, reason: str) -> None:
    found = FILES.reasons(code)
    assert found
    assert reason in " | ".join(found)


@pytest.mark.parametrize("code", [
    'torch.amp.autocast("cuda")',
    "torch.cuda.amp.common",
    "from apex import amp\namp.autocast()",
    "x.cuda.amp.autocast()",
])  # fmt: skip
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []


MAKES = b"import torch\n\ndef make():\n    return torch.cuda.amp.GradScaler()\n"


@pytest.mark.parametrize(("test", "stays"), [
    ("print(type(s) is torch.cuda.amp.GradScaler)", True),
    ("from torch.cuda.amp import GradScaler as Old\nkinds = (Old, int)\nprint(isinstance(s, kinds))", True),
    ("class Own(torch.cuda.amp.GradScaler): pass", False),
    ("def f(s: torch.cuda.amp.GradScaler): pass", False),
])  # fmt: skip
def test_a_class_that_another_file_asks_for_stays(test: str, stays: bool) -> None:
    asks = f"import torch\nfrom scaler import make\ns = make()\n{test}\n".encode()
    files = [Given("train.py", asks), Given("scaler.py", MAKES, modules=("scaler",))]
    _, made = rewrite_together(files, [DeprecatedAmpApi()], Choice(opted_in=frozenset({"PM313"})))
    assert (made.after == MAKES) is stays
    assert ["is compared by its class on line" in finding.reason for finding in made.refused] == [True] * stays


def test_one_of_two_imported_names_moves() -> None:
    FILES.assert_becomes(
        "from torch.cuda.amp import GradScaler, autocast\nautocast()\nf(GradScaler)",
        'from torch.amp import autocast\nfrom torch.cuda.amp import GradScaler\nautocast("cuda")\nf(GradScaler)',
    )


def test_inside_of_a_model_the_type_is_written_out() -> None:
    before = """
        class Net(torch.nn.Module):
            @torch.cuda.amp.autocast()
            def forward(self, x):
                with torch.cuda.amp.autocast():
                    with torch.cuda.amp.autocast(enabled=False):
                        return x
    """
    after = """
        class Net(torch.nn.Module):
            @torch.amp.autocast("cuda")
            def forward(self, x):
                with torch.amp.autocast("cuda", dtype=torch.float16):
                    with torch.amp.autocast("cuda", enabled=False):
                        return x
    """
    FILES.assert_becomes(before, after)
    trains = "\n\n        def train(loss):\n            loss.backward()\n    "
    FILES.assert_becomes(before + trains, after.replace(", dtype=torch.float16", "") + trains)


def test_code_for_torchscript_is_held_back() -> None:
    before = "@torch.jit.script\ndef f(x):\n    with torch.cuda.amp.autocast(): return x"
    FILES.assert_becomes(
        before, before.replace("torch.cuda.amp.autocast()", 'torch.amp.autocast("cuda")'), Safety.UNSAFE
    )


def test_nothing_is_applied_unless_the_rule_is_selected() -> None:
    code = b"import torch\ntorch.cuda.amp.autocast()\n"
    found = rewrite(code, "train.py", [DeprecatedAmpApi()])
    assert found.after == code
    assert [finding.safety for finding in found.held_back] == [Safety.OPT_IN]
