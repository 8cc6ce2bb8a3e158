"""Any valid module in: no crash, a module that parses out, and nothing left to do in it."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

from golden_harness.golden import goldens
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, Outcome

RULES = catalog.rules()
EVERYTHING = Choice(unsafe=True, opted_in=frozenset(rule.code for rule in RULES))

STATEMENTS = (
    "mask = target != -1",
    "mask: Tensor = (labels == 255) | torch.isnan(x)",
    "inds = torch.nonzero(target == 9, as_tuple=True)",
    "inds = torch.where(mask)",
    "rows, = (y > 0).nonzero(as_tuple=True)",
    "keep = torch.nonzero(scores > 0.5).squeeze(1)",
    "target[inds] = -1",
    "target[torch.where(target == 255)] = ignore",
    "x[rows] += 1.0",
    "self.seen[mask] = True",
    "x[mask] = y[mask]",
    "x[y > 0] = y[y > 0] * 2",
    "x[mask] = x.mean()",
    "x[mask] = 0.0  # padding",
    "x[..., 0], y[mask] = 1, x[mask]",
    "few = torch.unique(target).numel() < 2",
    "if len(torch.unique(labels)) == 1: loss = 0. * loss",
    "n = len(set(y.tolist()))",
    "values, counts = torch.unique(y, return_counts=True)",
    "loss = F.cross_entropy(pred[mask], target[mask])",
    "loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])",
    "loss = criterion(x.permute(0, 2, 3, 1)[mask], target[mask])",
    "loss = loss + F.mse_loss(torch.masked_select(x, mask), torch.masked_select(y, mask), reduction='sum')",
    "loss = (a := model(x)).sum() if loss > 1 else loss * 0.5",
    "if mask.any(): x.masked_fill_(mask, 0)",
    "x = x.clamp(max=1) if (x > 1).any() else x",
    "total += loss.item()",
    "total += float(loss) * x.size(0); seen += x.size(0)",
    "losses.append(loss.item())",
    "meter.update(loss.item(), n=x.size(0))",
    "print(f'{epoch:3d} {total / max(1, len(loader)):.4f} {loss!r:>10}')",
    "print('%s' % total, *losses, sep='\\t', end='')",
    "loss.backward(); optimizer.step(); optimizer.zero_grad()",
    "x, y = x.to(device), y.to(device)",
    "x = x.cuda()",
    "batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}",
    "images, *rest = [t.to(device=device) for t in batch]",
    "loader = DataLoader(dataset, batch_size=4, shuffle=True)",
    "loader = torch.utils.data.DataLoader(dataset=dataset, num_workers=0, **kwargs)",
    "loader = DataLoader(\n    Words(transform=transform),\n    collate_fn=lambda b: b,  # keep\n)",
    "transform = T.Compose([T.ToTensor(), T.Normalize((0.5,), (0.5,))])",
    "images = (images.float() / 255 - mean) / std",
    "x = np.where(mask)[0]; y = np.nonzero(x)",
    "x[np.unique(y).size - 1] = y[x > 0].item()",
    "text = '''\n  loss[mask] = 0\n'''",
    "del inds, mask",
    "assert (x > 0).all(), 'negative'",
    "global total",
    "fn = lambda t, m: t[m]",
    "x = (\n    y  # why\n    [mask]\n)",
    "x = y; # nothing more",
    "pass",
)
HEADERS = (
    "for x, y in loader:",
    "for i, batch in enumerate(tqdm(loader), 1):",
    "for epoch in range(10):",
    "while (step := step + 1) < 10:",
    "if mask.any():",
    "if loss > 1 and few:",
    "if __name__ == '__main__':",
    "with torch.no_grad():",
    "with torch.autocast('cuda'), record('masked') as r:",
    "def train(model, loader, optimizer, device='cuda', *args, **kwargs):",
    "def forward(self, x: Tensor, target: Tensor) -> Tensor:",
    "@torch.no_grad()\n@wrapped(by=[mask])\ndef loss_of(pred, /, target, *, mask=None):",
    "async def serve(batch):",
    "class Loss(nn.Module):",
    "class Words(Dataset, metaclass=M):",
)
SPLIT = (
    ("try:", "except (ValueError, RuntimeError) as error:"),
    ("try:", "finally:"),
    ("if few:", "else:"),
    ("if loss > 1:", "elif mask.any():"),
    ("for x in loader:", "else:"),
    ("match batch:\n    case {'x': x, **rest}:", "    case [x, *_] | x:"),
)
IMPORTS = """\
import numpy as np
import torch, torch.nn as nn
import torch.nn.functional as F
import torchvision.transforms as T
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
"""


def _indented(text: str, by: str = "    ") -> str:
    return "".join(by + line for line in text.splitlines(keepends=True))


def _block(parts: tuple[str, list[str]]) -> str:
    header, body = parts
    return f"{header}\n{_indented(''.join(body))}"


def _blocks(parts: tuple[tuple[str, str], list[str], list[str]]) -> str:
    (first, second), one, two = parts
    deep = "        " if first.startswith("match") else "    "
    return f"{first}\n{_indented(''.join(one), deep)}{second}\n{_indented(''.join(two), deep)}"


statements = st.sampled_from(STATEMENTS).map(lambda statement: statement + "\n")
code = st.recursive(
    statements,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(HEADERS), st.lists(inner, min_size=1, max_size=6)).map(_block),
        st.tuples(
            st.sampled_from(SPLIT),
            st.lists(inner, min_size=1, max_size=3),
            st.lists(inner, min_size=1, max_size=3),
        ).map(_blocks),
    ),
    max_leaves=25,
)
modules = st.lists(code, min_size=1, max_size=8).map(lambda parts: IMPORTS + "".join(parts))
SOURCES = tuple(golden.before.decode() for golden in goldens())


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """A golden with a few of its statements deleted, doubled or exchanged, or a name replaced by another."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 3))):
        mutate = draw(st.sampled_from((_delete, _double, _swap, _rename)))
        text = mutate(text, draw)
        assume(_compiles(text))
    return text


def _statements(text: str) -> list[tuple[int, int]]:
    """First and last line of every statement that has its lines for itself, from 0."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    spans = {(node.lineno - 1, (node.end_lineno or node.lineno) - 1) for node in nodes}
    return sorted(spans)


def _delete(text: str, draw: st.DrawFn) -> str:
    lines = text.splitlines(keepends=True)
    first, last = draw(st.sampled_from(_statements(text)))
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    return "".join([*lines[:first], f"{indent}pass\n", *lines[last + 1 :]])


def _double(text: str, draw: st.DrawFn) -> str:
    lines = text.splitlines(keepends=True)
    first, last = draw(st.sampled_from(_statements(text)))
    return "".join([*lines[: last + 1], *lines[first : last + 1], *lines[last + 1 :]])


def _swap(text: str, draw: st.DrawFn) -> str:
    lines = text.splitlines(keepends=True)
    spans = _statements(text)
    a, b = sorted((draw(st.sampled_from(spans)), draw(st.sampled_from(spans))))
    assume(a[1] < b[0])
    one, two = lines[a[0] : a[1] + 1], lines[b[0] : b[1] + 1]
    return "".join([*lines[: a[0]], *two, *lines[a[1] + 1 : b[0]], *one, *lines[b[1] + 1 :]])


def _rename(text: str, draw: st.DrawFn) -> str:
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    names = sorted({token.string for token in tokens if token.type == tokenize.NAME})
    old, new = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    renamed: list[Any] = [token._replace(string=new) if token.string == old else token for token in tokens]
    return tokenize.untokenize((token.type, token.string) for token in renamed)


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _check(data: bytes) -> None:
    result = rewrite(data, "train.py", RULES, EVERYTHING)
    assert result.outcome in (Outcome.CHANGED, Outcome.UNCHANGED), result.reason
    assert (result.before, result.outcome is Outcome.CHANGED) == (data, result.after != data)
    ast.parse(result.after)
    again = rewrite(result.after, "train.py", RULES, EVERYTHING)
    assert again.after == result.after, [finding.reason for finding in again.applied]
    assert rewrite(data, "train.py", RULES, EVERYTHING) == result
    assert result.after.endswith(b"\n") == data.endswith(b"\n")
    if b"\n" not in data.replace(b"\r\n", b""):
        assert b"\n" not in result.after.replace(b"\r\n", b"")


bounded = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck), derandomize=True)


@bounded
@given(modules, st.booleans(), st.booleans(), st.booleans())
def test_any_module_is_rewritten_into_a_stable_module(text: str, crlf: bool, tabs: bool, cut: bool) -> None:
    assume(_compiles(text))
    if tabs and "'''" not in text:
        text = text.replace("    ", "\t")
    if crlf:
        text = text.replace("\n", "\r\n")
    _check((text.rstrip() if cut else text).encode())


@bounded
@given(mutants())
def test_mutated_goldens_are_rewritten_into_stable_modules(text: str) -> None:
    _check(text.encode())
