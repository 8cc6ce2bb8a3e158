"""Same shapes: what is proven, and what must not be."""

from __future__ import annotations

import pytest
from snippets import facts, used

HEAD = """
import torch
import torch.nn.functional as F
from torch import Tensor

def f(x: Tensor, y: Tensor, m: Tensor, u, n: int, k=None):
    i = torch.zeros(3, dtype=torch.long, device="cuda")
    z = torch.zeros((), device="cuda")
    v = torch.zeros(3, device="cuda")
"""


def same(body: str) -> bool:
    """Whether the two arguments of `use` have the same shape."""
    file = facts(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
    first, second = used(file)
    assert file.shapes.same(first, second) == file.shapes.same(second, first)
    return file.shapes.same(first, second)


SAME = {
    "itself": "use(x, x)",
    "comparison": "use(x, x > 0)",
    "negated": "use(x, ~(x > 0))",
    "arithmetic with numbers": "use(x, 2 * x + n)",
    "arithmetic with itself": "use(x, x * x.abs())",
    "scalar of the device": "use(x, x + z)",
    "like": "use(x, torch.zeros_like(x))",
    "sizes": "use(x, torch.full(x.shape, 0.5))",
    "sizes of a method": "use(x, x.new_zeros(x.size()))",
    "casts": "use(x, x.float().to('cuda').detach().contiguous())",
    "through a variable": "t = x > 0\nuse(x, t)",
    "through two branches": "if n:\n    t = x + 1\nelse:\n    t = x * 2\nuse(x, t)",
    "where": "use(x, torch.where(x > 0, x, 0))",
    "operands": "use(x, torch.add(x, x.exp()))",
    "expanded": "use(x, z.expand_as(x))",
    "flat": "use(x.flatten(), (x > 0).view(-1))",
    "flat in a call": "use(torch.flatten(x), x.reshape(-1))",
    "reductions": "use(x.sum(1), x.argmax(1))",
    "reductions by keyword": "use(x.sum(dim=1), x.norm(dim=1))",
    "rows": "use(x[0], (x > 0)[0])",
    "slices": "use(x[:, 1:3], (x > 0)[:, 1:3])",
    "variable index": "use(x[n], (x > 0)[n])",
    "the same gather": "t = m > 0\nuse(x[t], (x * 2)[t])",
    "attribute": "use(u.x, u.x > 0)",
    "data": "use(x, x.data)",
    "item": "use(u['a'], u['a'] > 0)",
    "permuted": "use(x.permute(0, 2, 1), (x > 0).permute(0, 2, 1))",
    "augmented": "t = x + 1\nt += 1\nuse(t, x)",
    "choice": "use(x, x + 1 if n else x * 2)",
    "in a loop": "for t in u:\n    c = t > 0\n    use(t, c)",
    "in a while": "while n:\n    t = u()\n    c = torch.zeros_like(t)\n    use(t, c)",
    "inside of with": "for t in u:\n    with torch.no_grad():\n        c = t > 0\n    use(t, c)",
    "made before the loop": "c = x > 0\nfor t in u:\n    use(x, c)",
    "masked by itself": "use(x, x.masked_fill(x > 0, 0))",
    "clamped": "use(x, x.clamp(0, n))",
    "softmax": "use(x, x.softmax(u))",
    "cast of the operand": "use(x, x.type_as(y))",
}
OTHER = {
    "two parameters": "use(x, y)",
    "broadcast": "use(x, x + y)",
    "broadcast by a call": "use(x, torch.add(x, y))",
    "broadcast by a method": "use(x, x.mul(y))",
    "broadcast with the unknown": "use(x, x.mul(u))",
    "broadcast with an unknown comparison": "use(x, x.eq(u))",
    "broadcast by where": "use(x, torch.where(x > 0, x, u))",
    "broadcast by masked_fill": "use(x, x.masked_fill(m, 0))",
    "broadcast by clamp": "use(x, x.clamp(u, n))",
    "vector and scalar": "use(z, z + v)",
    "scalar times the unknown": "use(x, x * z.mul(u))",
    "matrix product": "use(x, x @ x)",
    "vector product": "use(v, v @ v)",
    "matrix product in place": "t = x + 0\nt @= t\nuse(t, x)",
    "number grows": "t = 0\nt += v\nuse(t, v)",
    "number before and after": "t = 0\ns = t\nt += v\nuse(t, s)",
    "order of the norm": "use(x.norm(2), x.sum(2))",
    "flag of the deviation": "use(x.std(True), x.sum(True))",
    "pair": "use(x.max(1), x)",
    "other dimension": "use(x.sum(0), x.sum(1))",
    "kept dimension": "use(x.sum(1), x.sum(1, keepdim=True))",
    "other slice": "use(x[:, 1:3], x[:, 1:4])",
    "slice by a variable": "use(x[:n], x[:n])",
    "gather": "use(x, x[m])",
    "two gathers": "use(x[m], x[y])",
    "mask bound again": "t = x[m]\nm = m & (m > 1)\nuse(t, x[m])",
    "inverted mask bound again": "t = x[~m]\nm = m & (m > 1)\nuse(t, x[~m])",
    "mask written to": "t = x[m]\nm[0] = False\nuse(t, x[m])",
    "mask written by a method": "t = x[m]\nm.logical_and_(y)\nuse(t, x[m])",
    "bound again": "c = x > 0\nx = x[1:]\nuse(x, c)",
    "bound in a branch": "c = x > 0\nif n:\n    x = x[1:]\nuse(x, c)",
    "round before": "c = k\nfor t in u:\n    if c is not None:\n        use(t, c)\n    c = t > 0",
    "round before, single": "for t in u:\n    if n:\n        use(t, c)\n    c = t > 0",
    "first round": "for t in u:\n    if n == 0:\n        c = t > 0\n    use(t, c)",
    "after the loop": "for t in u:\n    if n == 0:\n        c = t > 0\nuse(t, c)",
    "shrinks in the loop": "for j in u:\n    c = torch.zeros_like(x)\n    if n:\n        x = x[1:]\n    use(x, c)",
    "shrinks twice in the loop": (
        "c = k\nwhile n:\n    if c is not None:\n        use(x, c)\n    x = x[1:]\n    c = x > 0\n    x = x[1:]"
    ),
    "continued": "for t in u:\n    if n:\n        continue\n    c = t > 0\nuse(t, c)",
    "attribute assigned": "c = u.x > 0\nu.x = u.x[1:]\nuse(u.x, c)",
    "attribute assigned through another": "c = u.x > 0\nw = u\nw.x = w.x[1:]\nuse(u.x, c)",
    "attribute set by name": "c = u.x > 0\nsetattr(u, 'x', y)\nuse(u.x, c)",
    "attribute assigned in the loop": "for j in n:\n    if k:\n        use(u.x, c)\n    c = u.x > 0\n    u.x = j",
    "item assigned": "c = u['a'] > 0\nu['a'] = u['a'][1:]\nuse(u['a'], c)",
    "item assigned by a variable": "c = u['a'] > 0\nu[k] = y\nuse(u['a'], c)",
    "items updated": "c = u['a'] > 0\nu.update(a=y)\nuse(u['a'], c)",
    "unsqueezed in place": "c = x > 0\nx.unsqueeze_(0)\nuse(x, c)",
    "transposed in place": "c = x > 0\nx.t_()\nuse(x, c)",
    "resized": "c = x > 0\nx.resize_(3)\nuse(x, c)",
    "data replaced": "c = x > 0\nx.data = y\nuse(x, c)",
    "another shape": "use(x, torch.zeros(3))",
    "sizes of another": "use(x, torch.zeros(y.shape))",
    "shape of a reshape": "use(x, x.view(-1, 4))",
    "transposed": "use(x, x.t())",
    "flat and not": "use(x, x.flatten())",
    "flat from a dimension": "use(x.flatten(1), x.flatten())",
    "items of a list": "a, b = u\nuse(a, b)",
    "two draws": "use(next(u), next(u))",
    "two calls": "use(u(), u())",
    "global between calls": "use(g, h)",
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_same(name: str) -> None:
    assert same(SAME[name])


@pytest.mark.parametrize("name", OTHER)
def test_not_shown_to_be_the_same(name: str) -> None:
    assert not same(OTHER[name])


def test_closures_see_later_definitions() -> None:
    assert not same("c = x > 0\ndef g():\n    use(x, c)\nx = x[1:]\ng()")


def test_globals_bound_by_functions() -> None:
    file = facts("import torch\nx = torch.zeros(3)\nc = x > 0\ndef g():\n    global x\n    x = x[1:]\ng()\nuse(x, c)")
    assert not file.shapes.same(*used(file))


def test_attributes_of_self() -> None:
    code = "class K:\n    def g(self):\n        c = self.x > 0\n        {between}\n        use(self.x, c)\n"
    for between, expected in {"pass": True, "self.x = 0": False, "self.y = 0": True, "del self.x": False}.items():
        file = facts(code.format(between=between))
        assert file.shapes.same(*used(file)) is expected
