"""PM306: spellings of attention, masks and scales, and what keeps the steps."""

from __future__ import annotations

import pytest
from whole_files import WholeFiles

from perfmod.transforms.compute.manual_attention import ManualAttention

FILES = WholeFiles(ManualAttention())
SCORES = "s = q @ k.transpose(-2, -1)"
SCALED = "s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))"
WEIGHTS = "y = s.softmax(-1) @ v"
CALL = "y = F.scaled_dot_product_attention"
CACHED = "m = torch.tril(torch.ones(n, n))\nk = torch.cat([p, k], 2)"
REWRITTEN = {
    "no factor": (f"{SCORES}\n{WEIGHTS}", f"{CALL}(q, k, v, scale=1.0)"),
    "default": (f"{SCALED}\n{WEIGHTS}", f"{CALL}(q, k, v)"),
    "root as a power": ("y = torch.softmax(q @ k.mT * k.shape[-1] ** -0.5, -1) @ v", f"{CALL}(q, k, v)"),
    "root of a tensor": ("y = torch.softmax(q @ k.mT / torch.sqrt(torch.tensor(k.size(-1))), -1) @ v",
        f"{CALL}(q, k, v)"),
    "size in a variable": (f"d = k.size(-1)\n{SCORES} / d ** 0.5\n{WEIGHTS}", f"{CALL}(q, k, v)"),
    "another root": (f"{SCORES} / math.sqrt(64)\n{WEIGHTS}", f"{CALL}(q, k, v, scale=1 / math.sqrt(64))"),
    "two factors": (f"{SCORES} * 0.5\ns *= 3\n{WEIGHTS}", f"{CALL}(q, k, v, scale=0.5 * 3)"),
    "methods": ("y = q.matmul(k.transpose(2, 3)).div(8).softmax(dim=-1).matmul(v)", f"{CALL}(q, k, v, scale=1 / 8)"),
    "keys turned before": ("k = k.permute(0, 2, 3, 1)\ny = (q @ k).softmax(-1) @ v",
        f"k = k.permute(0, 2, 3, 1)\n{CALL}(q, k.transpose(-2, -1), v, scale=1.0)"),
    "tuple of an einsum": ("y = torch.einsum('bij,bjd->bid', (torch.einsum('bid,bjd->bij', (q, k)).softmax(2), v))",
        f"{CALL}(\n    q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), scale=1.0\n).squeeze(1)"),
    "always dropped out": (f"{SCALED}\ns = F.dropout(s.softmax(-1), 0.1)\ny = s @ v",
        f"{CALL}(q, k, v, dropout_p=0.1)"),
    "never dropped out": (f"{SCALED}\ns = F.dropout(s.softmax(-1), 0.1, False)\ny = s @ v", f"{CALL}(q, k, v)"),
    "two masks": (f"{SCALED}\ns = s.masked_fill(a == 0, -math.inf)\ns = s.masked_fill(~b, -math.inf)\n{WEIGHTS}",
        f"{CALL}(q, k, v, attn_mask=(a != 0) & b)"),
    "bias": (f"{SCALED}\ns += bias\n{WEIGHTS}", f"{CALL}(q, k, v, attn_mask=bias)"),
    "bias that may be missing": (f"{SCALED}\nif bias is not None:\n    s = s + bias\n{WEIGHTS}",
        f"{CALL}(q, k, v, attn_mask=bias)"),
    "bytes": (f"m = m.byte()\n{SCALED}\ns = s.masked_fill(m, -math.inf)\n{WEIGHTS}",
        f"m = m.byte()\n{CALL}(q, k, v, attn_mask=m == 0)"),
    "filled in place": (f"{SCALED}\ns.masked_fill_(m.eq(0), float('-inf'))\n{WEIGHTS}",
        f"{CALL}(q, k, v, attn_mask=m.ne(0))"),
    "cached keys": (f"{CACHED}\n{SCALED}\ns = s.masked_fill(m == 0, -math.inf)\n{WEIGHTS}",
        f"{CACHED}\n{CALL}(q, k, v, attn_mask=m != 0)"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), REWRITTEN.values(), ids=REWRITTEN)
def test_steps_become_one_call(before: str, after: str) -> None:
    FILES.assert_becomes(_function(before), _function(after))


STAYS = {
    "scores shown": (f"{SCALED}\nprint(s)\n{WEIGHTS}", "used again on line"),
    "weights shown": (f"{SCALED}\nw = s.softmax(-1)\nprint(w)\ny = w @ v", "used again on line"),
    "keys overwritten": (f"{SCALED}\nk = f(k)\n{WEIGHTS}", "has changed by the time"),
    "scaled by a tensor": (f"{SCORES} * torch.rand(4, 1, 1)\n{WEIGHTS}", "may be a tensor"),
    "finite, and too large": (f"{SCALED}\ns = s.masked_fill(m, 0)\n{WEIGHTS}", "may not hide them"),
    "hidden by infinity": (f"{SCALED}\ns = s.masked_fill(m, float('inf'))\n{WEIGHTS}", "may not hide them"),
    "subtracted": (f"{SCALED}\ns = s - m\n{WEIGHTS}", "changes the scores in another way"),
    "two branches": (f"{SCALED}\nif m is not None:\n    s = s + m\nelse:\n    s = s * 2\n{WEIGHTS}",
        "more than one line"),
    "more than a mask": (f"{SCALED}\nif m is not None:\n    m = m[:, None]\n    s = s + m\n{WEIGHTS}",
        "more than one line"),
    "shared heads": ("y = torch.einsum('bhij,bjd->bhid', torch.einsum('bhid,bjd->bhij', q, k).softmax(-1), v)",
        "shared"),
    "two dimensions": ("y = torch.einsum('ij,jd->id', torch.einsum('id,jd->ij', q, k).softmax(-1), v)",
        "two dimensions"),
    "values in float32": (f"{SCALED}\ny = s.float().softmax(-1) @ v.float()", "is cast"),
    "another block": (f"with torch.autocast('cuda', enabled=False):\n    {SCALED}\n    s = s.softmax(-1)\ny = s @ v",
        "block"),
    "kinds of masks": (f"{SCALED}\ns = (s + a).masked_fill(b, -math.inf)\n{WEIGHTS}", "different kinds"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "words"), STAYS.values(), ids=STAYS)
def test_attention_that_stays(code: str, words: str) -> None:
    (reason,) = FILES.reasons(_function(code))
    assert words in reason


SILENT = {
    "classes": "y = (q @ k.transpose(-2, -1)).softmax(-1)",
    "gate": "y = (q @ k).softmax(-1) @ v",
    "other product": "y = v @ (q @ k.transpose(-2, -1)).softmax(-1)",
    "no product": "y = q.softmax(-1) @ v",
}


@pytest.mark.parametrize("code", SILENT.values(), ids=SILENT)
def test_other_softmaxes_are_not_reported(code: str) -> None:
    assert FILES.reasons(_function(code)) == []


def _function(code: str) -> str:
    lines = "".join(f"    {line}\n" for line in code.splitlines())
    return f"import math\ndef attend(q, k, v, m=None, a=None, b=None, bias=None, n=4, p=None):\n{lines}    return y\n"
