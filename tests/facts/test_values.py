"""What is known of values: kinds, devices, types and ranks, and above all what must not be claimed."""

from __future__ import annotations

import pytest
from snippets import facts, used

from perfmod.transforms.facts.value import Kind, Value

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
import numpy as np
import pandas as pd
import cv2
from torch import Tensor

def f(x: Tensor, y: Tensor, u, n: int):
    i = torch.zeros(3, dtype=torch.long, device="cuda")
    z = torch.zeros((), device="cuda")
    v = torch.zeros(3, device="cuda")
    m2 = torch.rand(3, 4, device="cuda")
    b = m2 > 0
    host = torch.zeros(3)
    a = np.zeros(3)
"""


def shown(value: Value) -> str:
    """A value in a few words: `tensor accelerator floating 2`, with `?` for what is not known."""
    if value.is_tensor:
        fields = (value.device and value.device.value, value.dtype and value.dtype.value, value.rank)
        return " ".join(["tensor", *("?" if field is None else str(field) for field in fields)])
    if value.kind is Kind.NUMBER:
        return value.dtype.value if value.dtype is not None else "number"
    return value.kind.value


def asked(code: str) -> list[str]:
    file = facts(code)
    return [shown(file.value(node)) for node in used(file)]


def indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines())


EXPRESSIONS = {
    # Arithmetic
    "v + m2": "tensor accelerator floating 2",
    "v @ v": "tensor accelerator floating ?",
    "m2 @ v": "tensor accelerator floating ?",
    "i + 1": "tensor accelerator integer 1",
    "i / 2": "tensor accelerator floating 1",
    "i // 2": "tensor accelerator integer 1",
    "i + 0.5": "tensor accelerator floating 1",
    "i * u": "tensor accelerator ? ?",
    "v * u": "tensor accelerator floating ?",
    "z + u": "tensor accelerator floating ?",
    "-b.long()": "tensor accelerator integer 2",
    "b & (v > 0)": "tensor accelerator bool 2",
    "i == u": "tensor accelerator bool ?",
    "x is None": "bool",
    "0 < n < 3": "bool",
    "n / 2": "floating",
    "n + 2": "integer",
    "2 ** -n": "number",
    "2 ** 0.5": "floating",
    # Creation
    "torch.zeros(3, 4)": "tensor cpu floating 2",
    "torch.zeros((3, 4))": "tensor cpu floating 2",
    "torch.zeros(n)": "tensor cpu floating 1",
    "torch.zeros(u)": "tensor cpu floating ?",
    "torch.zeros(3, *u)": "tensor cpu floating ?",
    "torch.zeros(x.shape)": "tensor cpu floating ?",
    "torch.zeros(3, dtype=torch.long)": "tensor cpu integer 1",
    "torch.zeros(3, dtype=u)": "tensor cpu ? 1",
    "torch.zeros(3, dtype=x.dtype)": "tensor cpu ? 1",
    "torch.zeros(3, dtype=torch.cfloat)": "tensor cpu complex 1",
    "torch.zeros_like(i)": "tensor accelerator integer 1",
    "torch.zeros_like(i, dtype=u)": "tensor accelerator ? 1",
    "torch.zeros_like(i, device='cpu')": "tensor cpu integer 1",
    "torch.zeros(3, device=u)": "tensor accelerator floating 1",
    "torch.zeros(3, device='cpu')": "tensor cpu floating 1",
    "torch.tensor(1)": "tensor cpu integer 0",
    "torch.tensor([1])": "tensor cpu ? ?",
    "torch.tensor(v)": "tensor accelerator floating 1",
    "torch.as_tensor(b)": "tensor accelerator bool 2",
    "v.new_zeros(3, dtype=u)": "tensor accelerator ? ?",
    "v.new_ones(3)": "tensor accelerator floating ?",
    # Types of results
    "b.sum()": "tensor accelerator integer 0",
    "b.sum(dtype=torch.float32)": "tensor accelerator floating 0",
    "b.sum(dtype=u)": "tensor accelerator ? 0",
    "i.softmax(0, dtype=torch.float32)": "tensor accelerator floating 1",
    "i.mean(dtype=torch.float32)": "tensor accelerator floating 0",
    "torch.isclose(v, v)": "tensor accelerator bool 1",
    "torch.isposinf(v)": "tensor accelerator bool ?",
    "torch.sin(i)": "tensor accelerator floating 1",
    "torch.log1p(i)": "tensor accelerator floating 1",
    "i.reciprocal()": "tensor accelerator floating 1",
    "i.divide(2)": "tensor accelerator floating 1",
    "F.embedding(i, m2)": "tensor accelerator floating ?",
    "i.clamp(0, 2)": "tensor accelerator integer 1",
    "i.clamp(min=0.5)": "tensor accelerator floating 1",
    "i.clamp(0, u)": "tensor accelerator ? ?",
    "i.masked_fill(i > 0, 0.5)": "tensor accelerator integer 1",
    "torch.where(b, m2, 0)": "tensor accelerator floating 2",
    "torch.where(b, i, 0)": "tensor accelerator integer 2",
    "m2.where(b, 0)": "tensor accelerator floating 2",
    "i.where(i > 0, 0.5)": "tensor accelerator floating 1",
    "torch.where(z > 0, u, 0)": "tensor accelerator ? ?",
    "torch.where(z > 0, 1.0, 0)": "tensor accelerator floating 0",
    "i.add(0.5)": "tensor accelerator floating 1",
    "i.add_(1)": "tensor accelerator integer 1",
    "i.to(torch.float32)": "tensor accelerator floating 1",
    "i.to(u.dtype)": "tensor accelerator ? 1",
    "i.to(y)": "tensor accelerator ? 1",
    "i.to('cpu')": "tensor cpu integer 1",
    "i.to(device=u)": "tensor accelerator integer 1",
    "i.to('cuda', torch.float16)": "tensor accelerator floating 1",
    "i.type(torch.float32)": "tensor accelerator floating 1",
    "i.view(torch.float32)": "tensor accelerator floating ?",
    "i.float().cpu()": "tensor cpu floating 1",
    "torch.fft.fft(v)": "tensor accelerator complex ?",
    "torch.complex(v, v)": "tensor accelerator complex ?",
    "v.argmax()": "tensor accelerator integer 0",
    "F.one_hot(i, 3)": "tensor accelerator integer 2",
    "torch.cat([i, i])": "tensor accelerator integer 1",
    "torch.stack((i, b))": "tensor accelerator ? ?",
    # Ranks
    "m2.sum(0)": "tensor accelerator floating 1",
    "m2.sum(-1)": "tensor accelerator floating 1",
    "m2.sum(n)": "tensor accelerator floating 1",
    "m2.sum(u)": "tensor accelerator floating ?",
    "m2.sum(None)": "tensor accelerator floating ?",
    "m2.sum((0, 1))": "tensor accelerator floating ?",
    "m2.sum(0, keepdim=True)": "tensor accelerator floating 2",
    "m2.norm(2)": "tensor accelerator floating ?",
    "m2.norm()": "tensor accelerator floating 0",
    "m2.norm(dim=1)": "tensor accelerator floating 1",
    "m2.std(False)": "tensor accelerator floating ?",
    "torch.norm(m2, 2)": "tensor accelerator floating ?",
    "m2.view(-1, *v.shape)": "tensor accelerator floating ?",
    "m2.view(-1)": "tensor accelerator floating 1",
    "m2.view(u)": "tensor accelerator floating ?",
    "m2.reshape(3, 2, 2)": "tensor accelerator floating 3",
    "m2.permute(*u)": "tensor accelerator floating ?",
    "m2.unsqueeze(0)": "tensor accelerator floating 3",
    "m2.squeeze()": "tensor accelerator floating ?",
    "m2.flatten()": "tensor accelerator floating 1",
    "m2.flatten(1)": "tensor accelerator floating ?",
    "m2[b]": "tensor accelerator floating ?",
    "m2[0]": "tensor accelerator floating 1",
    "z.mul(m2)": "tensor accelerator floating 2",
    "z.mul(u)": "tensor accelerator floating ?",
    "z.eq(u)": "tensor accelerator bool ?",
    "torch.add(z, m2)": "tensor accelerator floating 2",
    "torch.maximum(z, m2)": "tensor accelerator floating 2",
    "torch.max(v, m2)": "tensor accelerator floating 2",
    "z.mul_(2)": "tensor accelerator floating 0",
    "F.mse_loss(v, v)": "tensor accelerator floating 0",
    "F.mse_loss(v, v, reduction='none')": "tensor accelerator floating ?",
    "F.mse_loss(v, v, None, None, 'none')": "tensor accelerator floating ?",
    "nn.MSELoss()(v, v)": "tensor accelerator floating 0",
    "nn.MSELoss(reduction='none')(v, v)": "tensor accelerator floating ?",
    "nn.MSELoss(reduce=False)(v, v)": "tensor accelerator floating ?",
    "nn.MSELoss(None, False)(v, v)": "tensor accelerator floating ?",
    # Several results
    "m2.max(1)": "sequence",
    "m2.max(1)[1]": "tensor accelerator integer ?",
    "m2.max()": "tensor accelerator floating 0",
    "torch.unique(i, return_counts=True)": "sequence",
    "torch.cummax(m2, 0)": "sequence",
    "torch.linalg.eigh(m2)": "unknown",
    "torch.svd(m2)": "unknown",
    "torch.topk(v, 2)[0]": "tensor accelerator floating ?",
    "torch.broadcast_shapes(u, u)": "unknown",
    "torch.is_grad_enabled()": "bool",
    "v.is_complex()": "bool",
    "v.type()": "text",
    # Modules
    "nn.Linear(3, 4)(v)": "tensor accelerator floating ?",
    "nn.Identity()(i)": "tensor accelerator integer ?",
    "nn.Flatten()(b)": "tensor accelerator bool ?",
    "nn.Embedding(3, 4)(i)": "tensor accelerator floating ?",
    # No tensors
    "a": "numpy array",
    "a + 1": "numpy array",
    "a > 0": "numpy array",
    "a.T": "numpy array",
    "a.copy()": "numpy array",
    "v.cpu().numpy()": "numpy array",
    "np.where(a > 0)": "numpy array",
    "np.mean(a)": "numpy array",
    "pd.read_csv(u)": "numpy array",
    "pd.read_csv(u)['x'].values": "numpy array",
    "cv2.imread(u)": "numpy array",
    "v + a": "unknown",
    "len(v)": "integer",
    "v.item()": "floating",
    "v.tolist()": "unknown",
    "v.size(0)": "integer",
    "v.shape": "sequence",
    "v.shape[0]": "integer",
    "sum(w > 0 for w in v)": "tensor accelerator integer 0",
    "max(v)": "tensor accelerator floating 0",
    "(v, 1)": "sequence",
    "torch.finfo(v.dtype).max": "floating",
    "torch.iinfo(i.dtype).max": "integer",
    "torch.finfo(v.dtype).bits": "integer",
    "'%.3f' % z": "text",
    "'%.3f %d' % (z, i)": "text",
    "torch.is_anomaly_enabled()": "bool",
    "torch.get_num_threads()": "integer",
    "torch.get_default_device()": "unknown",
    "torch.cond(z > 0, u, u)": "unknown",
    "torch.asarray(u)": "tensor cpu ? ?",
    "torch.hann_window(n, device='cuda')": "tensor accelerator floating ?",
    "torch.asarray(i)": "tensor accelerator integer 1",
    "i.mode()": "sequence",
    "torch.kthvalue(v, 2)": "sequence",
    "v.nanmedian()": "tensor accelerator ? ?",
}  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    assert asked(HEAD + f"    use({expression})\n") == [EXPRESSIONS[expression]]


STATEMENTS = {
    "starred target": ("a, *rest = v, i, b\nuse(rest)", "unknown"),
    "behind a starred target": ("*rest, last = v, i, b\nuse(last)", "unknown"),
    "starred target of a tensor": ("one, *rest = v\nuse(rest)", "unknown"),
    "zip of many": ("for one, other in zip(*u):\n    use(one)", "unknown"),
    "zip": ("for one, other in zip(i, b):\n    use(other)", "tensor accelerator bool 1"),
    "enumerate": ("for one, other in enumerate(i):\n    use(one)", "integer"),
    "added in place": ("i += 1\nuse(i)", "tensor accelerator integer 1"),
    "added to a number": ("t = 0\nfor k in range(3):\n    t += v\nuse(t)", "unknown"),
    "either type": ("t = i\nif n:\n    t = v\nuse(t)", "tensor accelerator ? 1"),
    "either device": ("t = v\nif n:\n    t = host\nuse(t)", "tensor ? floating 1"),
    "tensor or array": ("t = v\nif n:\n    t = a\nuse(t)", "unknown"),
    "walrus": ("if (t := v.long()).any():\n    use(t)", "tensor accelerator integer 1"),
    "walrus that may not run": ("t = a\nif n and (t := v) is not None:\n    pass\nuse(t)", "unknown"),
    "interrupted": ("t = a\ntry:\n    t = v\nfinally:\n    use(t)", "unknown"),
    "device through itself": ("d = 'cpu'\nfor k in range(3):\n    d = torch.device(d)\nuse(torch.zeros(3, device=d))",
        "tensor accelerator floating 1"),
    "device by name": ("d = torch.device('cpu')\nuse(torch.zeros(3, device=d))", "tensor cpu floating 1"),
    "device by choice": ("d = 'cuda' if n else 'cpu'\nuse(torch.zeros(3, device=d))", "tensor accelerator floating 1"),
    "type by name": ("d = torch.long\nuse(v.to(d))", "tensor accelerator integer 1"),
    "type by choice": ("d = torch.long if n else torch.float16\nuse(v.to(d))", "tensor accelerator ? 1"),
    "type of a parameter": ("use(i.to(u))", "tensor accelerator ? 1"),
    "device of a parameter": ("device = u\nuse(i.to(device))", "tensor accelerator integer 1"),
    "old type by choice": ("T = torch.cuda.LongTensor if n else torch.LongTensor\nuse(host.type(T))",
        "tensor accelerator integer 1"),
    "old type of the CPU": ("T = torch.FloatTensor\nuse(v.type(T))", "tensor cpu floating 1"),
    "old type out of sight": ("use(host.type(u))", "tensor cpu ? 1"),
    "made by an old type": ("T = torch.cuda.FloatTensor if n else torch.FloatTensor\nuse(T(3, 4))",
        "tensor accelerator floating ?"),
    "made by one of two functions": ("T = torch.cuda.FloatTensor if n else u\nuse(T(3, 4))", "unknown"),
    "scheduler": ("class Warm(torch.optim.lr_scheduler.LRScheduler):\n    pass\nuse(Warm(u))", "instance"),
    "optimizer of its own": ("class Own(torch.optim.SGD):\n    pass\nuse(Own(u))", "optimizer"),
    "collected": ("kept = []\nfor k in range(3):\n    kept.append(v)\nuse(kept[0])", "tensor accelerator floating 1"),
    "collected, then given other elements": (("kept = []\nfor k in range(3):\n    kept.append(v)\n"
          "kept[:] = torch.stack(kept).tolist()\nuse(kept[0])"), "unknown"),
    "frame in disguise": ("frame = pd.read_csv(u)\nuse(frame)\nframe.where(frame.eq(1)).abs()", "numpy array"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements(name: str) -> None:
    code, expected = STATEMENTS[name]
    assert asked(HEAD + indented(code)) == [expected]


PROGRAMS = {
    "function out of sight, of tensors on the CPU": (("import torch\ndef g(out, y, distance):\n"
          "    d = -distance(out.to('cpu'), y.cpu(), 2)\n"
          "    return d.softmax(1).mean()\n"
          "use(g(torch.zeros(3, 4).cuda(), torch.ones(3).cuda(), "
          "distance))"),
        ["tensor cpu floating 0"]),
    "function out of sight, of tensors on either side": (("import torch\ndef g(out, y, distance):\n"
          "    d = distance(out, y.cpu())\n"
          "    return d.softmax(1).mean()\n"
          "use(g(torch.zeros(3, 4).cuda(), torch.ones(3).cuda(), "
          "distance))"),
        ["tensor accelerator floating 0"]),
    "model out of sight, of a batch": (("import torch\ndef g(model, loader):\n    for x, y in loader:\n"
          "        out = model(x)\n        use(out.softmax(1))"),
        ["tensor accelerator floating ?"]),
    "parallel model out of sight": (("import torch\ndef g(net):\n    model = wrap(net)\n"
          "    out = model(torch.randn(3, 4))\n    use(out.softmax(1))\n"
          "g(torch.nn.DataParallel(net))"),
        ["tensor accelerator floating ?"]),
    "parameter by its calls": (("import torch\ndef g(t):\n    use(t)\ng(torch.zeros(3, dtype=torch.long))\n"
          "g(torch.ones(2).long())"),
        ["tensor cpu integer 1"]),
    "parameter called with two types": (("import torch\ndef g(t):\n    use(t)\ng(torch.zeros(3))\n"
          "g(torch.ones(2, 2).long())"),
        ["tensor cpu ? ?"]),
    "method that derived classes override": (("import torch\nclass K:\n    def g(self):\n"
          "        return torch.zeros(3)\n    def f(self):\n"
          "        use(self.g())\nclass L(K):\n    def g(self):\n"
          "        return 2"),
        ["unknown"]),
    "abstract method": (("import torch\nclass K:\n    def g(self):\n        raise NotImplementedError\n"
          "    def f(self):\n        use(self.g())\nclass L(K):\n    def g(self):\n"
          "        return torch.zeros(3)"),
        ["tensor cpu floating 1"]),
    "module that moves itself": (("import torch\nclass K:\n    def __init__(self):\n"
          "        self.m = torch.nn.Linear(3, 3)\n    def f(self):\n"
          "        self.m = self.m.to('cuda').train()\n        use(self.m)"),
        ["module"]),
    "module that is wrapped": (("import torch\nclass K:\n    def __init__(self):\n"
          "        self.m = torch.nn.Linear(3, 3)\n    def f(self):\n"
          "        self.m = wrap(self.m.to('cuda'))\n        use(self.m)"),
        ["unknown"]),
    "tensor that moves itself": (("import torch\nclass K:\n    def __init__(self):\n"
          "        self.m = torch.zeros(3)\n    def f(self):\n"
          "        self.m = self.m.cuda()\n        use(self.m)"),
        ["unknown"]),
    "parameter called with an array": (("import torch\nimport numpy as np\ndef g(t):\n    use(t)\n"
          "g(torch.zeros(3))\ng(np.zeros(3))"),
        ["unknown"]),
    "keyword and default": (("import torch\ndef g(t, k=None, *, s=2):\n    use(k)\n    use(s)\n"
          "g(1, k=torch.zeros(3))\ng(1, torch.ones(3))"),
        ["tensor cpu floating 1", "integer"]),
    "starred call": ("import torch\ndef g(t, k=0.5):\n    use(k)\ng(*args)\ng(1)", ["unknown"]),
    "method": (("import torch\nclass K:\n    def g(self, t):\n        use(t)\nk = K()\n"
          "k.g(torch.zeros(3, device='cuda'))"),
        ["tensor accelerator floating 1"]),
    "module made by a method of its class": (("import torch\nfrom torch import nn\nclass K(nn.Module):\n"
          "    @classmethod\n    def load(cls, name):\n        use(cls)\n"
          "        model = K()\n        return model\nuse(K.load('a'))"),
        ["unknown", "module"]),
    "static method": (("import torch\nclass K:\n    @staticmethod\n    def g(t):\n        use(t)\nk = K()\n"
          "k.g(torch.zeros(3).long())"),
        ["tensor cpu integer 1"]),
    "returned": (("import torch\ndef g(c):\n    if c:\n        return torch.zeros(3)\n    return torch.zeros(4)\n"
          "use(g(1))"),
        ["tensor cpu floating 1"]),
    "yielded": ("import torch\ndef g():\n    yield 1\n    return torch.zeros(3)\nuse(g())", ["unknown"]),
    "coroutine": ("import torch\nasync def g():\n    return torch.zeros(3)\nuse(g())", ["unknown"]),
    "attribute": (("import torch\nclass K:\n    def __init__(self):\n        self.t = torch.zeros(3)\n"
          "    def g(self):\n        use(self.t)"),
        ["tensor cpu floating 1"]),
    "attribute of two types": (("import torch\nclass K:\n    def __init__(self):\n        self.t = torch.zeros(3)\n"
          "    def g(self):\n        self.t = self.t.long()\n        use(self.t)"),
        ["tensor ? ? ?"]),
    "attribute set from outside": (("import torch\nclass K:\n    def __init__(self):\n"
          "        self.t = torch.zeros(3)\n    def g(self):\n        use(self.t)\n"
          "k = K()\nk.t = None"),
        ["unknown"]),
    "attribute of a subclass": (("import torch\nclass K:\n    def __init__(self):\n"
          "        self.t = torch.zeros(3)\n    def g(self):\n        use(self.t)\n"
          "class L(K):\n    def __init__(self):\n        self.t = None"),
        ["unknown"]),
    "attribute bound by a loop": (("import torch\nclass K:\n    def __init__(self):\n"
          "        self.t = torch.zeros(3)\n    def g(self, ts):\n"
          "        for self.t in ts:\n            use(self.t)"),
        ["unknown"]),
    "buffer": (("import torch\nfrom torch import nn\nclass K(nn.Module):\n    def __init__(self):\n"
          "        super().__init__()\n        self.register_buffer('t', torch.zeros(3))\n"
          "    def forward(self, x):\n        use(self.t)"),
        ["tensor accelerator floating 1"]),
    "batch": (("from torch.utils.data import DataLoader\nloader = DataLoader(data)\nfor x, y in loader:\n"
          "    use(x)\n    x = x.cuda()\n    use(x)"),
        ["tensor cpu ? ?", "tensor accelerator ? ?"]),
    "batch as a dictionary": (("from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"
          "for i, b in enumerate(loader):\n    use(b['x'])\n    use(b['x'].to(device))"),
        ["tensor cpu ? ?", "tensor accelerator ? ?"]),
    "array of a batch": (("from torch.utils.data import DataLoader\nloader = DataLoader(data)\n"
          "for x, y in loader:\n    x = x.numpy()\n    use(x)"),
        ["numpy array"]),
    "global that functions change": (("import torch\nt = torch.zeros(3)\ndef g():\n    global t\n    t = None\n"
          "g()\nuse(t)"),
        ["unknown"]),
    "closure variable": (("import torch\ndef g():\n    t = torch.zeros(3)\n    def h():\n        use(t)\n"
          "    t = t.long()"),
        ["tensor cpu ? 1"]),
    "models by name": (("import torchvision.models as models\nuse(models.__dict__[arch](pretrained=True))\n"
          "use(getattr(models, arch)())\nuse(others.__dict__[arch]())"),
        ["module", "module", "unknown"]),
    "detector": ("import torchvision\nmodel = torchvision.models.detection.fasterrcnn_resnet50_fpn()\nuse(model(x))",
        ["unknown"]),
    "pairs that are not all alike": (("from torch import nn, optim\ndef build(sgd, net):\n    if sgd:\n"
          "        return net.cuda(), optim.SGD(net.parameters(), 0.1)\n"
          "    return net.cuda(), optim.Adam(net.parameters())\n"
          "model, optimizer = build(sgd, nn.Linear(3, 3))\nuse(model)\nuse(optimizer)"),
        ["module", "optimizer"]),
    "pairs and more": (("from torch import nn, optim\ndef build(sgd, net):\n    if sgd:\n"
          "        return net.cuda(), optim.SGD(net.parameters(), 0.1)\n"
          "    return net.cuda(), optim.Adam(net.parameters()), None\n"
          "use(build(sgd, nn.Linear(3, 3))[1])"),
        ["unknown"]),
}  # fmt: skip


KEPT = "import torch\na, b = torch.zeros(3).cuda(), torch.ones(3).cuda()\n"


@pytest.mark.parametrize(("code", "kept"), [
    ("p = [a, b]\nuse(p[0])", True),
    ("p = [a, b]\np.append(b)\nfor q in p:\n    use(q)", True),
    ("p = [a, b]\np.append(3)\nfor q in p:\n    use(q)", False),
    ("p = [a, b]\np[0] = other()\nuse(p[0])", False),
    ("p = [[a, b], [b, a]]\np[0][1] = other()\nuse(p[0][1])", False),
    ("p = [a, b]\np[0], c = other()\nuse(p[0])", False),
    ("p = [a, b]\ndel p[0]\nuse(p[0])", False),
    ("p = [a, b]\np.insert(0, 3)\nuse(p[0])", False),
    ("p = [a for _ in b]\np[0] = other()\nuse(p[0])", False),
    ("if c:\n    p = [a, b]\nelse:\n    p = [b, a]\np[0] = other()\nuse(p[0])", False),
    ("def f(p):\n    p[0] = other()\n    use(p[0])\nf([a, b])", False),
    ("def g(q):\n    q[0] = other()\n    f(q)\ndef f(p):\n    g(p)\np = [a, b]\nf(p)\nuse(p[0])", False),
    ("def f(p):\n    return p[0]\np = [a, b]\nf(p)\nuse(p[0])", True),
    ("import random\np = [a, b]\nrandom.shuffle(p)\nuse(p[0])", False),
    ("class T:\n    def __init__(self):\n        self.p = [a, b]\n    def f(self):\n        use(self.p[0])", True),
    ("class T:\n    def __init__(self):\n        self.p = [a]\n        self.p[0] = 3\n        use(self.p[0])", False),
])  # fmt: skip
def test_lists_that_are_changed(code: str, *, kept: bool) -> None:
    assert asked(KEPT + code) == ["tensor accelerator floating 1" if kept else "unknown"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, expected = PROGRAMS[name]
    assert asked(code) == expected


def test_what_may_be_none() -> None:
    code = (
        "import torch\nimport torch.nn.functional as F\n"
        "def f(x: torch.Tensor, y=None):\n"
        "    if y is not None:\n        loss = F.mse_loss(x, y)\n    else:\n        loss = None\n    return x, loss\n"
        "out, loss = f(torch.zeros(2))\nuse(loss, None, 1 if loss else None)\n"
    )
    file = facts(code)
    loss, nothing, number = (file.value(node) for node in used(file))
    assert loss.kind is Kind.UNKNOWN
    assert loss.present is not None
    assert shown(loss.present).startswith("tensor")
    assert nothing.kind is Kind.NONE
    assert number == Value(Kind.UNKNOWN)


@pytest.mark.parametrize(("default", "made"), [
    ("pass", "cpu"),
    ("torch.set_default_device('cpu')", "cpu"),
    ("torch.set_default_device(x.device)", "accelerator"),
    ("torch.set_default_tensor_type('torch.DoubleTensor')", "cpu"),
    ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", "accelerator"),
])  # fmt: skip
def test_where_tensors_are_made_when_nothing_says_the_device(default: str, made: str) -> None:
    assert asked(HEAD + f"    {default}\n    use(torch.zeros(3))\n") == [f"tensor {made} floating 1"]


@pytest.mark.parametrize(("wrapper", "device"), [("nn.DataParallel(Net())", "accelerator"), ("Net()", "cpu")])
def test_data_parallel_brings_batches_to_the_devices_of_a_forward_pass(wrapper: str, device: str) -> None:
    code = f"""
import torch
from torch import nn
from torch.utils.data import DataLoader

class Net(nn.Module):
    def forward(self, batch):
        use(batch["label"].float())
        return batch["label"].float()

net = {wrapper}
for batch in DataLoader(data):
    loss = net(batch)
"""
    assert asked(code) == [f"tensor {device} floating ?"]


def test_grids_lie_where_their_coordinates_do() -> None:
    code = "import torch\ngrid = torch.meshgrid(torch.arange(3), torch.arange(3))\nuse(torch.stack(grid))\n"
    assert asked(code) == ["tensor cpu ? ?"]


@pytest.mark.parametrize(("wrapped", "device"), [("nn.DataParallel(net)", "accelerator"), ("net", "cpu")])
def test_modules_in_parallel_answer_on_the_devices(wrapped: str, device: str) -> None:
    code = f"""
import torch
from torch import nn
from torch.utils.data import DataLoader

def train(net, loader):
    for x, y in loader:
        use(net(x))

net = nn.Linear(3, 3)
train({wrapped}, DataLoader(data))
"""
    assert asked(code) == [f"tensor {device} floating ?"]


@pytest.mark.parametrize(("prepared", "device"), [
    ("model, loader = Accelerator().prepare(model, DataLoader(data))", "accelerator"),
    ("loader = Accelerator().prepare(DataLoader(data))", "accelerator"),
    ("loader = Accelerator().prepare_data_loader(DataLoader(data))", "accelerator"),
    ("_, loader = Accelerator().prepare(model, get_loader())", "accelerator"),
    ("_, loader = Accelerator().prepare(model, unseen_loader)", "accelerator"),
    ("loader = Fabric().setup_dataloaders(DataLoader(data))", "accelerator"),
    ("_, loader = Accelerator(device_placement=False).prepare(model, DataLoader(data))", "cpu"),
    ("_, loader = unseen.prepare(model, DataLoader(data))", "cpu"),
    ("_, loader = Accelerator().prepare(*everything)", "cpu"),
])  # fmt: skip
def test_accelerate_brings_batches_to_the_device(prepared: str, device: str) -> None:
    code = f"""
from accelerate import Accelerator
from lightning.fabric import Fabric
from torch.utils.data import DataLoader

{prepared}
for x, y in loader:
    use(x)
"""
    assert asked(code) == [f"tensor {device} ? ?"]


def test_a_loader_that_an_object_has_prepared() -> None:
    code = """
from accelerate import Accelerator
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self, model, data):
        self.accelerator = Accelerator()
        self.loader = DataLoader(data)
        self.model, self.loader = self.accelerator.prepare(model, self.loader)

    def train(self):
        for i, batch in enumerate(self.loader):
            use(batch["x"])
"""
    assert asked(code) == ["tensor accelerator ? ?"]


def test_methods_of_an_object_that_may_be_none() -> None:
    code = """
import torch

class Board:
    def write(self, figure):
        use(figure)
        return torch.ones(3, device="cuda")

def train(board=None):
    if board is not None:
        use(board.write(torch.ones(3)))

train(Board() if verbose else None)
"""
    assert asked(code) == ["tensor cpu floating 1", "tensor accelerator floating 1"]


@pytest.mark.parametrize(
    ("given", "device"),
    [(", device=device", "accelerator"), (", device='cuda'", "accelerator"), (", device='cpu'", "cpu"), ("", "cpu")],
)
def test_loaders_of_dgl_bring_batches_to_their_device(given: str, device: str) -> None:
    code = f"""
import dgl
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
for nodes, seeds, blocks in dgl.dataloading.DataLoader(graph, ids, sampler{given}):
    use(seeds)
"""
    assert asked(code) == [f"tensor {device} ? ?"]


LOSSES = """
import torch.nn as nn
import torch.nn.functional as F

class Sub(nn.MSELoss):
    pass

def get(kind):
    if kind == "mse":
        return nn.MSELoss()
    return nn.L1Loss(reduction="sum")

class Head(nn.Module):
    def forward(self, x, y):
        return nn.functional.mse_loss(x, y)

class Trainer:
    def __init__(self, kind):
        self.criterion = CRITERION

    def step(self, x, y):
        use(CALL)
"""


@pytest.mark.parametrize(("criterion", "call"), [
    ("get(kind)", "self.criterion(x, y)"),
    ("nn.MSELoss() if kind else nn.L1Loss()", "self.criterion(x, y)"),
    ("Sub()", "self.criterion(x, y)"),
    ("nn.MSELoss", "self.criterion()(x, y)"),
    ("F.mse_loss", "self.criterion(x.cuda(), y)"),
    ("Head", "self.criterion()(x.cuda(), y)"),
])  # fmt: skip
def test_losses_that_are_chosen_derived_and_kept(criterion: str, call: str) -> None:
    code = LOSSES.replace("CRITERION", criterion).replace("CALL", call)
    assert asked(code)[0].endswith(" floating 0")


@pytest.mark.parametrize("other", ["self.criterion = other", "trainer.criterion = other"])
def test_a_class_that_is_kept_and_may_be_another(other: str) -> None:
    code = LOSSES.replace("CRITERION", "Head").replace("CALL", "self.criterion()(x, y)")
    assert asked(f"{code}\n        {other}") == ["unknown"]


def test_what_may_be_none_is_known_when_it_is_used() -> None:
    file = facts(
        "import torch\n"
        "class Trainer:\n"
        "    def __init__(self, model):\n"
        "        self.optimizer = None\n"
        "    def run(self, model):\n"
        "        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "        use(self.optimizer)\n"
    )
    (node,) = used(file)
    assert file.value(node).kind is Kind.UNKNOWN
    assert file.value(node).when_used.kind is Kind.OPTIMIZER
