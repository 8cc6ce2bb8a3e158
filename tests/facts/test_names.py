"""Qualified names through every spelling of an import, and what hides them."""

from __future__ import annotations

import libcst as cst
import pytest
from snippets import facts, linked, used

from perfmod.transforms.facts.tree import find_all

MEANS = {
    "module": ("import torch\nuse(torch.where)", "torch.where"),
    "module as": ("import torch as th\nuse(th.where)", "torch.where"),
    "submodule": ("import torch.nn\nuse(torch.nn.Linear)", "torch.nn.Linear"),
    "submodule binds the package": ("import torch.nn\nuse(torch.zeros)", "torch.zeros"),
    "submodule as": ("import torch.nn.functional as F\nuse(F.relu)", "torch.nn.functional.relu"),
    "from": ("from torch import nn\nuse(nn.Linear)", "torch.nn.Linear"),
    "from as": ("from torch.nn import functional as fn\nuse(fn.relu)", "torch.nn.functional.relu"),
    "one thing": ("from torch.nn.functional import relu\nuse(relu)", "torch.nn.functional.relu"),
    "one thing as": ("from torch import where as choose\nuse(choose)", "torch.where"),
    "several": ("from torch import (\n    nn,  # layers\n    where as w,\n)\nuse(w)", "torch.where"),
    "other spelling": ("from torch.utils.data.dataloader import DataLoader\nuse(DataLoader)",
        "torch.utils.data.DataLoader"),
    "private spelling": ("from torch.nn.modules.loss import MSELoss\nuse(MSELoss)", "torch.nn.MSELoss"),
    "inside a function": ("def f():\n    import torch\n    use(torch.where)", "torch.where"),
    "from an enclosing function": ("def f():\n    import torch\n    def g():\n        use(torch.where)", "torch.where"),
    "global import": ("def f():\n    global torch\n    import torch\ndef g():\n    use(torch.where)", "torch.where"),
    "optional": ("try:\n    import apex\nexcept ImportError:\n    apex = None\nuse(apex.amp)", "apex.amp"),
    "either branch": ("if c:\n    import torch\nelse:\n    import torch\nuse(torch.where)", "torch.where"),
    "builtin": ("use(len)", "builtins.len"),
    "builtin in a comprehension": ("[use(len) for x in y]", "builtins.len"),
    "builtin under a star import that exports no such thing": ("from m import *\nuse(len)", "builtins.len"),
    "imported later": ("def f():\n    use(torch.where)\nimport torch", "torch.where"),
    "relative": ("from .losses import dice\nuse(dice)", ".losses.dice"),
    "relative package": ("from . import losses\nuse(losses.dice)", "..losses.dice"),
    "not PyTorch by its last name": ("from mylib import torch\nuse(torch.where)", "mylib.torch.where"),
}  # fmt: skip
NOTHING = {
    "variable": "torch = f()\nuse(torch.where)",
    "parameter": "import torch\ndef f(torch):\n    use(torch.where)",
    "bound again": "import torch\ntorch = f()\nuse(torch.where)",
    "bound in a branch": "import torch\nif c:\n    torch = f()\nuse(torch.where)",
    "bound by another function": "import torch\ndef f():\n    global torch\n    torch = g()\nuse(torch.where)",
    "loop variable": "import torch\nfor torch in y:\n    use(torch.where)",
    "comprehension": "import torch\n[use(torch.where) for torch in y]",
    "lambda in a comprehension": "import torch\n[lambda: use(torch.where) for torch in y]",
    "walrus": "import torch\nif (torch := f()):\n    use(torch.where)",
    "walrus that may run": "import torch\nif c and (torch := f()):\n    pass\nuse(torch.where)",
    "two imports": "try:\n    from a import f\nexcept ImportError:\n    from b import f\nuse(f)",
    "interrupted import": "f = g\ntry:\n    from a import f\nfinally:\n    use(f)",
    "hidden builtin": "def len(x): pass\nuse(len)",
    "hidden builtin, later": "def f():\n    use(len)\nlen = g",
    "builtin under a star import": "from m import *\nuse(sum)",
    "unknown": "use(nonsense)",
    "class": "class torch: pass\nuse(torch.where)",
    "call": "import torch\nuse(torch.where())",
    "item": "import torch\nuse(torch.x[0])",
    "exception": "import torch\ntry:\n    f()\nexcept E as torch:\n    use(torch.where)",
    "match": "import torch\nmatch y:\n    case torch:\n        use(torch.where)",
    "with": "import torch\nwith f() as torch:\n    use(torch.where)",
}


@pytest.mark.parametrize("name", MEANS)
def test_qualified(name: str) -> None:
    code, expected = MEANS[name]
    file = facts(code)
    assert file.qualified(used(file)[0]) == expected


@pytest.mark.parametrize("name", NOTHING)
def test_no_import(name: str) -> None:
    file = facts(NOTHING[name])
    assert file.names.qualified(used(file)[0]) is None


SPELLED = {
    "import torch.nn.functional as F\nuse()": ("F", ()),
    "from torch.nn import functional\nuse()": ("functional", ()),
    "from torch import nn\nuse()": ("nn.functional", ()),
    "import torch as th\nuse()": ("th.nn.functional", ()),
    "use()": ("torch.nn.functional", ("torch",)),
    "import torch\ndef f(torch):\n    use()": ("torch.nn.functional", ("torch",)),
    "import torch.nn.functional as F\ndef f(F):\n    import torch\n    use()": ("torch.nn.functional", ()),
    "class K:\n    import torch as th\n    def f(self):\n        use()": ("torch.nn.functional", ("torch",)),
}


@pytest.mark.parametrize("code", SPELLED)
def test_how_the_file_writes_a_module(code: str) -> None:
    file = facts(code)
    call = next(c for c in find_all(file.source.module, cst.Call) if file.source.code(c.func) == "use")
    assert file.names.spelled("torch.nn.functional", call) == SPELLED[code]


def test_packages() -> None:
    file = facts("import numpy.linalg\nfrom torch import nn\nif c:\n    import dgl as d")
    assert [file.names.imports(name) for name in ("numpy", "torch", "dgl", "d", "nn")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_how_the_file_writes_a_module_that_a_star_import_binds_again() -> None:
    main = "import torch\nfrom models import *\nuse(torch.zeros)\n"
    for models, imports in [("import torch\n", ()), ("torch = 3\n", ("torch",))]:
        file = linked({"models.py": models, "main.py": main})["main.py"]
        assert file.names.spelled("torch", used(file)[0]) == ("torch", imports)
