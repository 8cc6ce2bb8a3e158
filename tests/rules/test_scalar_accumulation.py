"""PM106: what is accumulated on the device, what stays, and that printed figures keep every digit."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import textwrap
from typing import Any

import pytest
import torch

from perfmod.codemods.engine import Choice, FileResult, Outcome, rewrite
from perfmod.transforms.syncs.scalar_accumulation import ScalarAccumulation

TRAINING = """\
import torch
import torch.nn.functional as F


def fit(model, loader, optimizer, device):
{before}
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{step}
{after}
"""


def training(before: str, step: str, after: str) -> str:
    """A training function with these lines before, in and after its steps."""
    return TRAINING.format(
        before=textwrap.indent(before, " " * 4),
        step=textwrap.indent(step, " " * 8),
        after=textwrap.indent(after, " " * 4),
    )


def result(code: str, *, unsafe: bool = False) -> FileResult:
    return rewrite(code.encode(), "train.py", [ScalarAccumulation()], Choice(unsafe=unsafe))


def reasons(code: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(code, unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.reason or found.after.decode()
    return [finding.reason for finding in found.refused]


def assert_becomes(before: str, after: str, *, unsafe: bool = False) -> None:
    found = result(before, unsafe=unsafe)
    assert found.after.decode() == after
    assert found.outcome is Outcome.CHANGED
    again = result(after, unsafe=unsafe)
    assert (again.outcome, again.held_back) == (Outcome.UNCHANGED, ())


CHANGES = {
    "running sum": (
        ("total = 0.0", "total += loss.item()", "print(total / len(loader))"),
        ("total = 0.0", "total += loss.detach().double()", "print(float(total) / len(loader))"),
    ),
    "float()": (
        ("total = 0.0", "total += float(loss)", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "return float(total)"),
    ),
    "weighted by the batch": (
        ("total = 0.0", "total += loss.item() * x.size(0)", "return total"),
        ("total = 0.0", "total += loss.detach().double() * x.size(0)", "return float(total)"),
    ),
    "weight first": (
        ("total = 0.0", "total += len(x) * loss.item()", "return total"),
        ("total = 0.0", "total += len(x) * loss.detach().double()", "return float(total)"),
    ),
    "divided by the length of the loop": (
        ("total = 0.0", "total += loss.item() / len(loader)", "return total"),
        (
            "total = 0.0",
            "total += loss.detach().double() / torch.full_like(loss, len(loader), dtype=torch.float64)",
            "return float(total)",
        ),
    ),
    "on the way to the host": (
        ("total = 0.0", "total += loss.cpu().detach().item()", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "return float(total)"),
    ),
    "data": (
        ("total = 0.0", "total += loss.data.item()", "return total"),
        ("total = 0.0", "total += loss.data.double()", "return float(total)"),
    ),
    "plain assignment": (
        ("total = 0.0", "total = total + loss.item()", "return total"),
        ("total = 0.0", "total = total + loss.detach().double()", "return float(total)"),
    ),
    "moving average": (
        ("total = 0.0", "total = 0.9 * total + 0.1 * loss.item()", "return total"),
        ("total = 0.0", "total = 0.9 * total + 0.1 * loss.detach().double()", "return float(total)"),
    ),
    "subtracted": (
        ("total = 0.0", "total -= loss.item()", "return total"),
        ("total = 0.0", "total -= loss.detach().double()", "return float(total)"),
    ),
    "through a variable": (
        ("total = 0.0", "value = loss.item()\ntotal += value", "return total"),
        ("total = 0.0", "value = loss.detach().double()\ntotal += value", "return float(total)"),
    ),
    "through a variable, and overwritten before it is added": (
        ("total = 0.0", "value = loss.item()\nloss.data.zero_()\ntotal += value", "return total"),
        (
            "total = 0.0",
            "value = loss.detach().clone().double()\nloss.data.zero_()\ntotal += value",
            "return float(total)",
        ),
    ),
    "hits": (
        ("hits = 0", "hits += (out.argmax(1) == y).sum().item()", "print(hits)"),
        ("hits = 0", "hits += (out.argmax(1) == y).sum()", "print(int(hits))"),
    ),
    "hits through int()": (
        ("hits = 0", "hits += int((out.argmax(1) == y).sum())", "print(hits)"),
        ("hits = 0", "hits += (out.argmax(1) == y).sum()", "print(int(hits))"),
    ),
    "hits in a float": (
        ("hits = 0.0", "hits += out.argmax(1).eq(y).sum().item()", "print(hits)"),
        ("hits = 0.0", "hits += out.argmax(1).eq(y).sum().double()", "print(float(hits))"),
    ),
    "a boolean counted": (
        ("bad = 0", "bad += out.isnan().any().item()", "print(bad)"),
        ("bad = 0", "bad += out.isnan().any().long()", "print(int(bad))"),
    ),
    "an accuracy": (
        ("acc = 0.0", "acc += (out.argmax(1) == y).float().mean().item()", "print(acc)"),
        ("acc = 0.0", "acc += (out.argmax(1) == y).float().mean().double()", "print(float(acc))"),
    ),
    "integer zero that nobody can tell from 0.0": (
        ("total = 0", "total += loss.item()", "print(f'{total:.4f}', '%.3f' % total, total / 3, total < 1)"),
        (
            "total = 0",
            "total += loss.detach().double()",
            "print(f'{float(total):.4f}', '%.3f' % float(total), float(total) / 3, float(total) < 1)",
        ),
    ),
    "integer zero that is printed": (
        ("total = 0", "total += loss.item()", "print(total)"),
        ("total = 0", "total += loss.detach().double()", "print(torch.as_tensor(total).item())"),
    ),
    "integer zero that is said to be a float": (
        ("total: float = 0", "total += loss.item()", "print(total)"),
        ("total: float = 0", "total += loss.detach().double()", "print(torch.as_tensor(total).item())"),
    ),
    "integer zero in a percent format of another type": (
        ("total = 0", "total += loss.item()", "print('%s' % total, '{:8}'.format(total))"),
        (
            "total = 0",
            "total += loss.detach().double()",
            "print('%s' % torch.as_tensor(total).item(), '{:8}'.format(torch.as_tensor(total).item()))",
        ),
    ),
    "read behind a modulo and reset": (
        (
            "total = 0.0",
            "total += loss.item()\nif step % 9:\n    print(total / 9.)\n    total = 0.0",
            "",
        ),
        (
            "total = 0.0",
            "total += loss.detach().double()\nif step % 9:\n    print(float(total) / 9.)\n    total = 0.0",
            "",
        ),
    ),
    "divided in place": (
        ("total = 0.0", "total += loss.item()", "total /= len(loader)\nprint(total)\nreturn total"),
        (
            "total = 0.0",
            "total += loss.detach().double()",
            "total = float(total) / len(loader)\nprint(total)\nreturn total",
        ),
    ),
    "divided in place by a sum": (
        ("total = 0.0", "total += loss.item()", "total /= len(loader) + 1\nreturn total"),
        (
            "total = 0.0",
            "total += loss.detach().double()",
            "total = float(total) / (len(loader) + 1)\nreturn total",
        ),
    ),
    "divided in place by a sum in parentheses": (
        ("total = 0.0", "total += loss.item()", "total /= (len(loader) + 1)\nreturn total"),
        (
            "total = 0.0",
            "total += loss.detach().double()",
            "total = float(total) / (len(loader) + 1)\nreturn total",
        ),
    ),
    "counted by a tensor": (
        ("seen = torch.tensor(0, device=device)", "seen += (y > 0).sum().item()", "print(seen)"),
        ("seen = torch.tensor(0, device=device)", "seen += (y > 0).sum()", "print(seen)"),
    ),
    "counted by tensors in a dictionary": (
        (
            "seen = {'y': torch.tensor(0, device=device), 'n': 0}",
            "seen['y'] += (y > 0).sum().item()\nseen['n'] += len(y)\nif step % 9 == 0:\n    print(seen['y'])",
            "for key in seen:\n    print(seen[key])\nreturn seen",
        ),
        (
            "seen = {'y': torch.tensor(0, device=device), 'n': 0}",
            "seen['y'] += (y > 0).sum()\nseen['n'] += len(y)\nif step % 9 == 0:\n    print(seen['y'])",
            "for key in seen:\n    print(seen[key])\nreturn seen",
        ),
    ),
    "counts of unknown type, which only divide": (
        (
            "total = count = 0",
            "n = y.sum().item()\ntotal += loss.item() * n\ncount += n",
            "return total / count",
        ),
        (
            "total = count = 0",
            "n = y.sum().detach().double()\ntotal += loss.detach().double() * n\ncount += n",
            "return float(total) / float(count)",
        ),
    ),
    "shown where a variable says that a report is due": (
        (
            "total = 0.0",
            "total += loss.item()\ndue = step % 9 == 8\nif due:\n    print(total)\n    total = 0.0",
            "",
        ),
        (
            "total = 0.0",
            "total += loss.detach().double()\ndue = step % 9 == 8\nif due:\n    print(float(total))\n    total = 0.0",
            "",
        ),
    ),
    "numbers are added as well": (
        ("total = 0.0", "total += loss.item()\ntotal += 0.5", "return total"),
        ("total = 0.0", "total += loss.detach().double()\ntotal += 0.5", "return float(total)"),
    ),
    "read where a number is wanted already": (
        ("total = 0.0", "total += loss.item()", "return float(total)"),
        ("total = 0.0", "total += loss.detach().double()", "return float(total)"),
    ),
    "kept as another name": (
        ("total = 0.0", "total += loss.item()", "best = total\nreturn best"),
        ("total = 0.0", "total += loss.detach().double()", "best = float(total)\nreturn best"),
    ),
    "read in a nested function": (
        ("total = 0.0", "total += loss.item()", "return lambda: total + 1"),
        ("total = 0.0", "total += loss.detach().double()", "return lambda: float(total) + 1"),
    ),
    "deleted": (
        ("total = 0.0", "total += loss.item()", "print(total)\ndel total"),
        ("total = 0.0", "total += loss.detach().double()", "print(float(total))\ndel total"),
    ),
    "two in one assignment": (
        (
            "total, hits = 0.0, 0",
            "total += loss.item()\nhits += (out.argmax(1) == y).sum().item()",
            "return total, hits",
        ),
        (
            "total, hits = 0.0, 0",
            "total += loss.detach().double()\nhits += (out.argmax(1) == y).sum()",
            "return float(total), int(hits)",
        ),
    ),
    "entry of a dictionary": (
        (
            "stats = {'loss': 0.0, 'n': 0}",
            "stats['loss'] += loss.item()",
            "print(f\"{stats['loss']}\", stats['n'])",
        ),
        (
            "stats = {'loss': 0.0, 'n': 0}",
            "stats['loss'] += loss.detach().double()",
            "print(f\"{float(stats['loss'])}\", stats['n'])",
        ),
    ),
    "dictionary that is returned": (
        ("stats = {'loss': 0.0}", "stats['loss'] += loss.item()", "return stats"),
        (
            "stats = {'loss': 0.0}",
            "stats['loss'] += loss.detach().double()",
            "stats['loss'] = float(stats['loss'])\nreturn stats",
        ),
    ),
    "dictionary with defaults": (
        (
            "from collections import defaultdict\nsums = defaultdict(float)",
            "sums['loss'] += loss.item()\nsums['aux'] += 2 * loss.item()",
            "return dict(sums)",
        ),
        (
            "from collections import defaultdict\nsums = defaultdict(float)",
            "sums['loss'] += loss.detach().double()\nsums['aux'] += 2 * loss.detach().double()",
            (
                "for key, value in sums.items():\n    if torch.is_tensor(value):\n        sums[key] = value.item()\n"
                "return dict(sums)"
            ),
        ),
    ),
    "entry of a variable key": (
        ("sums = {'train': 0, 'val': 0}\nkey = model.phase", "sums[key] += loss.item()", "print(sums)"),
        (
            "sums = {'train': 0, 'val': 0}\nkey = model.phase",
            "sums[key] += loss.detach().double()",
            (
                "for key_2, value in sums.items():\n    if torch.is_tensor(value):\n"
                "        sums[key_2] = value.item()\nprint(sums)"
            ),
        ),
    ),
    "entries fed in turn": (
        ("sums = {'a': 0.0, 'b': 0.0}", "for key in sums:\n    sums[key] += loss.item()", "return sums"),
        (
            "sums = {'a': 0.0, 'b': 0.0}",
            "for key in sums:\n    sums[key] += loss.detach().double()",
            (
                "for key_2, value in sums.items():\n    if torch.is_tensor(value):\n"
                "        sums[key_2] = value.item()\nreturn sums"
            ),
        ),
    ),
    "list that is read now and then": (
        (
            "import numpy as np\nlosses = []",
            "losses.append(loss.item())\nif step % 9 == 0:\n    print(np.mean(losses[-9:]))",
            "print(losses)",
        ),
        (
            "import numpy as np\nlosses = []",
            (
                "losses.append(loss.detach())\nif step % 9 == 0:\n    losses[:] = [float(value) for value in losses]\n"
                "    print(np.mean(losses[-9:]))"
            ),
            "losses[:] = [float(value) for value in losses]\nprint(losses)",
        ),
    ),
    "lists in a dictionary": (
        ("history = {'loss': [], 'acc': []}", "history['loss'].append(loss.item())", "return history"),
        (
            "history = {'loss': [], 'acc': []}",
            "history['loss'].append(loss.detach())",
            (
                "history['loss'][:] = ["
                "value.item() if torch.is_tensor(value) else value for value in history['loss']]\nreturn history"
            ),
        ),
    ),
    "lists in a dictionary with defaults": (
        (
            "from collections import defaultdict\nhistory = defaultdict(list)",
            "history['loss'].append(loss.item())\nhistory['step'].append(step)",
            "return history",
        ),
        (
            "from collections import defaultdict\nhistory = defaultdict(list)",
            "history['loss'].append(loss.detach())\nhistory['step'].append(step)",
            (
                "for values in history.values():\n"
                "    values[:] = [value.item() if torch.is_tensor(value) else value for value in values]\n"
                "return history"
            ),
        ),
    ),
    "comment and spacing stay": (
        ("total=0.   # mean", "total  +=  loss.item()*len(x)   # weighted", "return(total)"),
        (
            "total=0.   # mean",
            "total  +=  loss.detach().double()*len(x)   # weighted",
            "return(float(total))",
        ),
    ),
    "semicolons": (
        ("total = 0.0; n = 0", "total += loss.item(); n += 1", "return total / n"),
        ("total = 0.0; n = 0", "total += loss.detach().double(); n += 1", "return float(total) / n"),
    ),
    "divisor that may be zero": (
        ("total = 0.0", "total += loss.item() / x.size(0)", "print(total)"),
        (
            "total = 0.0",
            (
                'if not x.size(0):\n    raise ZeroDivisionError("division by zero")\n'
                "total += loss.detach().double() / torch.full_like(loss, x.size(0), dtype=torch.float64)"
            ),
            "print(float(total))",
        ),
    ),
    "divisor in parentheses": (
        ("total = 0.0", "total += loss.item() / (len(x) * 2)", "print(total)"),
        (
            "total = 0.0",
            (
                'if not (len(x) * 2):\n    raise ZeroDivisionError("division by zero")\n'
                "total += loss.detach().double() / (torch.full_like(loss, len(x) * 2, dtype=torch.float64))"
            ),
            "print(float(total))",
        ),
    ),
    "share of hits": (
        ("share = 0.0", "share += (out.argmax(1) == y).sum().item() / len(y)", "print(share)"),
        (
            "share = 0.0",
            (
                'if not len(y):\n    raise ZeroDivisionError("division by zero")\n'
                "share += (out.argmax(1) == y).sum().double()"
                " / torch.full((), len(y), dtype=torch.float64, device=out.device)"
            ),
            "print(float(share))",
        ),
    ),
    "divided twice by what may be zero": (
        ("total = 0.0", "total += loss.item() / len(x) + loss.item() / len(x)", "print(total)"),
        (
            "total = 0.0",
            (
                'if not len(x):\n    raise ZeroDivisionError("division by zero")\n'
                "total += loss.detach().double() / torch.full_like(loss, len(x), dtype=torch.float64)"
                " + loss.detach().double() / torch.full_like(loss, len(x), dtype=torch.float64)"
            ),
            "print(float(total))",
        ),
    ),
    "one element that could not be shown": (
        ("total = 0.0", "total += out.softmax(1).item()", "print(total)"),
        ("total = 0.0", "total += out.softmax(1).detach().reshape(()).double()", "print(float(total))"),
    ),
    "converted twice": (
        ("total = 0.0", "total += float(loss.detach().cpu().item())", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "return float(total)"),
    ),
    "by way of an array": (
        ("total = 0.0", "total += float(loss.detach().cpu().numpy())", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "return float(total)"),
    ),
    "a sum of two converted": (
        ("total = 0.0", "total += float(loss.item() + out.mean().item()) * 2", "return total"),
        (
            "total = 0.0",
            "total += (loss.detach().double() + out.mean().detach().double()) * 2",
            "return float(total)",
        ),
    ),
    "a count converted": (
        ("hits = 0", "hits += int((out.argmax(1) == y).sum().item())", "return hits"),
        ("hits = 0", "hits += (out.argmax(1) == y).sum()", "return int(hits)"),
    ),
    "device without float64": (
        ("total = 0.0\nif device == 'mps':\n    print(device)", "total += loss.item() * len(x)", "print(total)"),
        (
            "total = 0.0\nif device == 'mps':\n    print(device)",
            "total += (loss.detach().double() if loss.is_cuda else loss.item()) * len(x)",
            "print(float(total))",
        ),
    ),
    "list of computed figures": (
        ("shares = []", "shares.append(100 * loss.item())", "print(shares)"),
        (
            "shares = []",
            "shares.append(100 * loss.detach().double())",
            "shares[:] = torch.stack(shares).tolist() if shares else []\nprint(shares)",
        ),
    ),
    "list of numbers of an unknown type": (
        ("values = []", "values.append(out.sum().item())\nvalues.append(1)", "print(values)"),
        (
            "values = []",
            "values.append(out.sum().detach())\nvalues.append(1)",
            "values[:] = [value.item() if torch.is_tensor(value) else value for value in values]\nprint(values)",
        ),
    ),
    "list of pairs": (
        ("curve = []", "curve.append((step, loss.item()))", "print(curve)"),
        (
            "curve = []",
            "curve.append((step, loss.detach().double()))",
            (
                "curve[:] = [tuple(value.item() if torch.is_tensor(value) else value for value in row)"
                " for row in curve]\nprint(curve)"
            ),
        ),
    ),
    "list of reports": (
        ("log = []", "log.append({'step': step, 'loss': loss.item()})", "print(log)"),
        (
            "log = []",
            "log.append({'step': step, 'loss': loss.detach().double()})",
            (
                "log[:] = [{key: value.item() if torch.is_tensor(value) else value for key, value in row.items()}"
                " for row in log]\nprint(log)"
            ),
        ),
    ),
    "variable of a sum, a list and a report": (
        (
            "total, seen = 0.0, []",
            "value = loss.item()\ntotal += value\nseen.append(value)\nif step % 9 == 0:\n    print(value)",
            "print(total, seen)",
        ),
        (
            "total, seen = 0.0, []",
            (
                "value = loss.detach().double()\ntotal += value\nseen.append(value)\n"
                "if step % 9 == 0:\n    print(float(value))"
            ),
            "seen[:] = torch.stack(seen).tolist() if seen else []\nprint(float(total), seen)",
        ),
    ),
    "variable that is computed": (
        ("total = 0.0", "value = loss.item() * len(x)\ntotal += value", "print(total, value)"),
        (
            "total = 0.0",
            "value = loss.detach().double() * len(x)\ntotal += value",
            "print(float(total), float(value))",
        ),
    ),
    "variable that is computed from another": (
        ("total = 0.0", "hits = (y > 0).sum().item()\nshare = hits / 4\ntotal += share", "print(total)"),
        (
            "total = 0.0",
            (
                "hits = (y > 0).sum()\nshare = hits.double() / torch.full_like(hits, 4, dtype=torch.float64)\n"
                "total += share"
            ),
            "print(float(total))",
        ),
    ),
    "integer variable in a sum of floats": (
        (
            "total, count = 0.0, 0",
            "hits = (y > 0).sum().item()\ntotal += hits * 0.5\ncount += hits",
            "print(total, count)",
        ),
        (
            "total, count = 0.0, 0",
            "hits = (y > 0).sum()\ntotal += hits.double() * 0.5\ncount += hits",
            "print(float(total), int(count))",
        ),
    ),
    "list": (
        ("losses = []", "losses.append(loss.item())", "return sum(losses) / len(losses)"),
        (
            "losses = []",
            "losses.append(loss.detach())",
            "losses[:] = torch.stack(losses).tolist() if losses else []\nreturn sum(losses) / len(losses)",
        ),
    ),
    "list of counts": (
        ("hits = []", "hits.append((out.argmax(1) == y).sum().item())", "print(hits)"),
        (
            "hits = []",
            "hits.append((out.argmax(1) == y).sum())",
            "hits[:] = torch.stack(hits).tolist() if hits else []\nprint(hits)",
        ),
    ),
    "list of two figures a step": (
        ("losses = []", "losses.append(loss.item())\nlosses.append(2.0)", "print(losses)"),
        (
            "losses = []",
            "losses.append(loss.detach())\nlosses.append(2.0)",
            "losses[:] = [float(value) for value in losses]\nprint(losses)",
        ),
    ),
    "list extended by a list of one": (
        ("losses = []", "losses += [loss.item()]", "print(losses)"),
        (
            "losses = []",
            "losses += [loss.detach()]",
            "losses[:] = torch.stack(losses).tolist() if losses else []\nprint(losses)",
        ),
    ),
    "list extended in two ways": (
        ("losses = []", "losses += [loss.item()]\nlosses.append(2.0)", "print(losses)"),
        (
            "losses = []",
            "losses += [loss.detach()]\nlosses.append(2.0)",
            "losses[:] = [float(value) for value in losses]\nprint(losses)",
        ),
    ),
    "list of losses that have a second name": (
        ("losses = []", "raw = loss.detach()\nlosses.append(loss.item())\nraw.mul_(2)", "print(losses)"),
        (
            "losses = []",
            "raw = loss.detach()\nlosses.append(loss.detach().clone())\nraw.mul_(2)",
            "losses[:] = torch.stack(losses).tolist() if losses else []\nprint(losses)",
        ),
    ),
    "list of a loss that is changed in place": (
        ("losses = []", "losses.append(loss.item())\nloss.data.mul_(2)", "print(losses)"),
        (
            "losses = []",
            "losses.append(loss.detach().clone())\nloss.data.mul_(2)",
            "losses[:] = torch.stack(losses).tolist() if losses else []\nprint(losses)",
        ),
    ),
    "list that is only counted in the step": (
        ("losses = list()", "losses.append(loss.item())\nprint(len(losses))", "print(losses[-1])"),
        (
            "losses = list()",
            "losses.append(loss.detach())\nprint(len(losses))",
            "losses[:] = torch.stack(losses).tolist() if losses else []\nprint(losses[-1])",
        ),
    ),
    "a tensor of floats on the device": (
        ("total = torch.zeros(1, device=device)", "total += loss.item()", "print(total)"),
        ("total = torch.zeros(1, device=device)", "total += loss.detach()", "print(total)"),
    ),
    "a tensor of one float, from a number": (
        ("total = torch.tensor(0.0, device=device, dtype=torch.float64)", "total += float(loss)", "print(total)"),
        ("total = torch.tensor(0.0, device=device, dtype=torch.float64)", "total += loss.detach()", "print(total)"),
    ),
}


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_changes(before: tuple[str, str, str], after: tuple[str, str, str]) -> None:
    assert_becomes(training(*before), training(*after))


STAYS = {
    "fed behind a modulo": (
        ("total = 0.0", "if step % 100 == 0:\n    total += loss.item()", "print(total)"),
        "not every step comes by, as line 14 has it",
    ),
    "shown where a variable holds something else": (
        ("total = 0.0", "total += loss.item()\nis_due = step > 8\nif is_due:\n    print(total)", ""),
        "`total` is read in every step on line 17",
    ),
    "read in every step": (
        ("total = 0.0", "total += loss.item()\nprint(total)", ""),
        "`total` is read in every step on line 15",
    ),
    "changed in every step": (
        ("total = 0.0", "total += loss.item()\ntotal /= 2", "print(total)"),
        "`total` is read in every step on line 15",
    ),
    "decides in every step": (
        ("total = 0.0", "total += loss.item()\nif total > 10:\n    break", ""),
        "`total` is read in every step on line 15",
    ),
    "decides itself": (
        ("", "if loss.item() > 10:\n    break", ""),
        "the figure decides on line 14 how the training goes on",
    ),
    "decides through a variable": (
        ("import math", "value = loss.item()\nif not math.isfinite(value):\n    break", ""),
        "the figure decides on line 15 how the training goes on",
    ),
    "variable used again": (
        ("total = 0.0", "value = loss.item()\nprint(value)\ntotal += value", "print(total)"),
        "`value` is used on line 15 too",
    ),
    "variable that another list needs as a number": (
        (
            "total, seen = 0.0, model.seen",
            "value = loss.item()\ntotal += value\nseen.append(value)",
            "print(total)",
        ),
        "that `seen` starts as an empty list could not be shown",
    ),
    "shared by global": (
        ("global total", "total += loss.item()", "print(total)"),
        "`total` is shared between functions on line 6",
    ),
    "starts elsewhere": (
        ("from progress import total", "total += loss.item()", "print(total)"),
        "where `total` gets its first value could not be shown",
    ),
    "starts as something unknown": (
        ("total = model.start()", "total += loss.item()", "print(total)"),
        "whether `total` starts as an integer or a float could not be shown",
    ),
    "integer or float": (
        ("total = 0", "total += model.aux.sum().item()", "print(total)"),
        "whether `total` is an integer or a float could not be shown",
    ),
    "integers added to an integer zero as well": (
        ("total = 0", "total += 1\ntotal += loss.item()", "print(total)"),
        "whether `total` is an integer or a float could not be shown",
    ),
    "device in the divisor": (
        ("total = 0.0", "total += 1 / loss.item()", "print(total)"),
        "Python raises where it divides by zero, and the device does not",
    ),
    "more than a sum": (
        ("import math\ntotal = 0.0", "total += math.exp(loss.item())", "print(total)"),
        "`math.exp(loss.item())` is more than a sum or a product of the figure",
    ),
    "added up by NumPy": (
        ("total = 0.0", "total += loss.detach().cpu().numpy()", "print(total)"),
        "NumPy adds the figure up in 32 or in 64 bits, depending on its version",
    ),
    "added up by NumPy through a variable": (
        ("total = 0.0", "value = loss.data.cpu().numpy()\ntotal += value", "print(total)"),
        "NumPy adds the figure up in 32 or in 64 bits, depending on its version",
    ),
    "added up by a tensor of short floats": (
        ("total = torch.zeros(1, dtype=torch.half, device=device)", "total += loss.item()", "print(total)"),
        "`total` is a tensor, and that it is of float32 or float64 could not be shown",
    ),
    "added up by a tensor of a type that is set elsewhere": (
        ("torch.set_default_dtype(x)\ntotal = torch.zeros(1, device=device)", "total += loss.item()", "print(total)"),
        "`total` is a tensor, and that it is of float32 or float64 could not be shown",
    ),
    "added up by a tensor, with a weight": (
        ("total = torch.zeros(1, device=device)", "total += loss.item() * 3", "print(total)"),
        "`total` is a tensor, and what is added to it is computed in 64 bits before",
    ),
    "added by a method": (
        ("total = torch.zeros(1, device=device)", "total.add_(loss.item())", "print(total)"),
        "`total.add_` on line 14 takes a number where a tensor may be of another type or on another device",
    ),
    "counted by a tensor of the host": (
        ("seen = torch.tensor(0)", "seen += (y > 0).sum().item()", "print(seen)"),
        "`seen` is a tensor that may lie on the host, which takes none of the device's",
    ),
    "counted by a tensor of another device": (
        (
            "seen = torch.tensor(0, device='cuda:1')\nx = torch.ones(2, device='cuda:0')",
            "seen += (y > 0).sum().item()",
            "",
        ),
        "`seen` is a tensor, and the file uses several devices (line 7)",
    ),
    "floats added to a tensor of integers": (
        ("seen = torch.tensor(0, device=device)", "seen += loss.item()", "print(seen)"),
        "`seen` is a tensor, and that integers are added to it could not be shown",
    ),
    "a tensor in a dictionary that a function may replace": (
        ("seen = {'y': torch.tensor(0, device=device)}\nmodel.watch(seen)", "seen['y'] += y.sum().item()", ""),
        "`seen` may be kept elsewhere from line 7 on, and tensors would be seen there",
    ),
    "count of unknown type that is shown": (
        ("count = 0", "count += y.sum().item()", "print(count)"),
        "whether `count` is an integer or a float could not be shown",
    ),
    "a choice": (
        ("total = 0.0", "total += loss.item() if step else 0.0", "print(total)"),
        "`loss.item() if step else 0.0` is more than a sum or a product of the figure",
    ),
    "fraction cut off": (
        ("total = 0", "total += int(loss)", "print(total)"),
        "int() cuts off what stands behind the point",
    ),
    "name shown by an f-string": (
        ("total = 0.0", "total += loss.item()", "print(f'{total=}')"),
        "an f-string shows the name of the sum",
    ),
    "float is something else": (
        ("float = str\ntotal = 0.0", "total += loss.item()", "print(total)"),
        "`float` may mean something else than the builtin",
    ),
    "comment in the read": (
        ("total = 0.0", "total += loss.item(\n    # now\n)", "print(total)"),
        "a comment stands inside the read",
    ),
    "element of a list": (
        ("totals = [0.0]", "totals[0] += loss.item()", "print(totals)"),
        "`totals[0]` is an element that other code may read",
    ),
    "dictionary that the loop shows": (
        ("stats = {'loss': 0.0}", "stats['loss'] += loss.item()\nprint(stats)", "return stats"),
        "`stats`, which holds `stats['loss']`, is used as a whole on line 15",
    ),
    "dictionary that has another name": (
        ("stats = {'loss': 0.0}\nmodel.stats = stats", "stats['loss'] += loss.item()\nmodel.show()", "return stats"),
        "`stats` may be kept elsewhere from line 7 on, and tensors would be seen there",
    ),
    "dictionary that a return may leave": (
        ("stats = {'loss': 0.0}", "stats['loss'] += loss.item()\nif step > 9:\n    return stats", "return stats"),
        "a `return` on line 16 lets others see `stats['loss']` in the middle of the loop",
    ),
    "dictionary of a caller": (
        ("stats = model.stats", "stats['loss'] += loss.item()", "return stats"),
        "what `stats` is could not be shown",
    ),
    "attribute of an unknown object": (
        ("", "model.total += loss.item()", ""),
        "`model.total` belongs to an object whose class could not be shown",
    ),
    "meter from elsewhere": (
        ("from meters import meter", "meter.update(loss.item())", "print(meter.avg)"),
        "what `meter.update` does with the figure could not be shown: which class it is of is not seen",
    ),
    "returned in every step": (
        ("", "return loss.item()", ""),
        "the figure is returned in every step on line 14, and the callers may need a number",
    ),
    "list read in the loop": (
        ("losses = []", "losses.append(loss.item())\nprint(losses[-1])", ""),
        "`losses` is read in the loop on line 15",
    ),
    "list in a dictionary that the loop reads": (
        ("history = {'loss': []}", "history['loss'].append(loss.item())\nprint(history['loss'][-1])", ""),
        "`history['loss']` is read in the loop on line 15",
    ),
    "lists in a dictionary beside lists of tensors": (
        (
            "from collections import defaultdict\nhistory = defaultdict(list)",
            "history['loss'].append(loss.item())\nhistory['out'].append(out.detach())",
            "return history",
        ),
        "`history` may hold other lists, from line 16 on",
    ),
    "list of a caller": (
        ("losses = model.losses", "losses.append(loss.item())", ""),
        "that `losses` starts as an empty list could not be shown",
    ),
    "list of an object": (
        ("", "model.losses.append(loss.item())", ""),
        "`model.losses` may be read by code that cannot be seen from here",
    ),
    "list with other values": (
        ("losses = []\nlosses.append(model)", "losses.append(loss.item())", ""),
        "what is appended to `losses` on line 7 could not be shown",
    ),
    "list extended": (
        ("losses = []", "losses.append(loss.item())", "losses.extend(model.losses)"),
        "`losses.extend` on line 15 may put other values into the list",
    ),
    "list read by a nested function": (
        ("losses = []\nshow = lambda: print(losses)", "losses.append(loss.item())\nshow()", ""),
        "another function reads `losses` on line 7",
    ),
    "list kept elsewhere before": (
        ("losses = []\nmodel.history = losses", "losses.append(loss.item())", ""),
        "`losses` may be kept elsewhere from line 7 on, and tensors would be seen there",
    ),
    "list handed on before": (
        ("losses = []\nmodel.watch(losses)", "losses.append(loss.item())\nmodel.redraw()", ""),
        "`losses` may be kept elsewhere from line 7 on, and tensors would be seen there",
    ),
    "list in a list": (
        ("losses = []\ncurves = []\ncurves.append(losses)", "losses.append(loss.item())", "print(curves)"),
        "`losses` may be kept elsewhere from line 8 on, and tensors would be seen there",
    ),
    "inference tensor that other code adds to": (
        (
            "total = 0.0",
            "with torch.inference_mode():\n    total += out.float().mean().item()\ntotal += loss.item()",
            "return total",
        ),
        "`total` is changed inside of `torch.inference_mode()` on line 15 and outside of it on line 16",
    ),
    "inference tensor that is scaled outside": (
        ("total = 0.0", "with torch.inference_mode():\n    total += loss.item()", "total *= 0.5\nreturn total"),
        "`total` is changed inside of `torch.inference_mode()` on line 15 and outside of it on line 16",
    ),
    "read by its name": (
        ("total = 0.0", "total += loss.item()", "print('%(total)s' % locals())"),
        "`total` may be read by its name, with `locals()` on line 15",
    ),
    "list read by its name": (
        ("losses = []", "losses.append(loss.item())", "print(eval('losses'))"),
        "`losses` may be read by its name, with `eval()` on line 15",
    ),
    "list with two names": (
        ("losses = curve = []", "losses.append(loss.item())\nprint(curve)", ""),
        "that `losses` starts as an empty list could not be shown",
    ),
    "list extended by two figures": (
        ("losses = []", "losses += [loss.item(), loss.item() / 2]", "print(losses)"),
        "`losses` is extended by more than one figure on line 14",
    ),
    "list extended by other numbers": (
        ("losses = []", "losses += [loss.item()]", "losses += model.losses\nprint(losses)"),
        "`losses` is extended on line 15",
    ),
    "two sums in one assignment": (
        ("total, count = 0.0, 0", "total, count = total + loss.item(), count + 1", "print(total / count)"),
        "what `total` becomes on line 14 is more than a sum that the figure goes into",
    ),
    "average that starts with the first figure": (
        ("mean = None", "mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()", "print(mean)"),
        "what `mean` becomes on line 14 is more than a sum that the figure goes into",
    ),
    "variable with two values": (
        (
            "total = 0.0",
            "if step:\n    value = loss.item()\nelse:\n    value = 2 * loss.item()\ntotal += value",
            "print(total)",
        ),
        "`value` gets its value in several places",
    ),
}


@pytest.mark.parametrize(("parts", "reason"), STAYS.values(), ids=STAYS)
def test_stays_with_the_reason(parts: tuple[str, str, str], reason: str) -> None:
    assert reason in reasons(training(*parts))


def test_stays_where_an_exception_may_be_suppressed() -> None:
    code = textwrap.dedent(
        """\
        import contextlib
        import torch


        def fit(model, loader):
            losses = []
            with contextlib.suppress(StopIteration):
                for x in loader:
                    loss = model(x).sum()
                    loss.backward()
                    losses.append(loss.item())
            return losses
        """
    )
    assert reasons(code) == ["an exception may end the loop and leave `losses` to the code behind the with of line 7"]


SILENT = {
    "after the steps": ("total = 0.0", "pass", "total += loss.item()"),
    "numbers": ("total = 0.0", "total += len(x) * 2.0", "print(total)"),
    "an array": ("import numpy as np\ntotal = 0.0", "total += np.ones(3).mean().item()", "print(total)"),
    "a tensor of the CPU": ("total = 0.0", "total += torch.ones(3).mean().item()", "print(total)"),
    "reported in every step": ("", "print(loss.item())", ""),
    "on the device already": ("total = 0.0", "total += loss.detach()", "print(total.item())"),
    "an index": ("", "print(x[out.argmax().item()])", ""),
}


@pytest.mark.parametrize("parts", SILENT.values(), ids=SILENT)
def test_is_silent(parts: tuple[str, str, str]) -> None:
    assert reasons(training(*parts)) == []


EVALUATION = """

@torch.no_grad()
def evaluate(model, loader, device):
    total, hits, outputs = 0.0, 0, []
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        total += {loss}
        hits += {hits}
        outputs.append(out.cpu().numpy())
    return {total} / len(loader), {count}
"""


def test_evaluation() -> None:
    before = training("", "pass", "") + EVALUATION.format(
        loss="F.cross_entropy(out, y).item()", hits="(out.argmax(1) == y).sum().item()", total="total", count="hits"
    )
    after = training("", "pass", "") + EVALUATION.format(
        loss="F.cross_entropy(out, y).detach().double()",
        hits="(out.argmax(1) == y).sum()",
        total="float(total)",
        count="int(hits)",
    )
    assert_becomes(before, after)


def test_evaluation_between_the_steps() -> None:
    before = training(
        "valid_loader = loader",
        "if step % 100 == 0:\n    total = 0.0\n    for x, y in valid_loader:\n"
        "        total += F.cross_entropy(model(x.cuda()), y.cuda()).item()\n    print(total)",
        "",
    )
    after = before.replace(".item()", ".detach().double()").replace("print(total)", "print(float(total))")
    assert_becomes(before, after)


RETURNED = """\
import torch
import torch.nn.functional as F


def train_step(model, x, y, optimizer):
    optimizer.zero_grad()
    out = model(x.cuda())
    loss = F.cross_entropy(out, y.cuda())
    loss.backward()
    optimizer.step()
    return {returned}


def fit(model, loader, optimizer):
    total, hits, losses = 0.0, 0, []
    for step, (x, y) in enumerate(loader):
        {called}
    {behind}


if __name__ == "__main__":
    fit(torch.nn.Linear(3, 3).cuda(), [], None)
"""
FIGURES = "loss.item(), (out.argmax(1) == y.cuda()).sum().item()"
TENSORS = "loss.detach().double(), (out.argmax(1) == y.cuda()).sum()"
STEP = "train_step(model, x, y, optimizer)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            ("loss.item()", f"total += {STEP}", "print(total)"),
            ("loss.detach().double()", f"total += {STEP}", "print(float(total))"),
        ),
        (
            ("loss.item()", f"losses.append({STEP})", "print(losses)"),
            (
                "loss.detach().double()",
                f"losses.append({STEP})",
                "losses[:] = torch.stack(losses).tolist() if losses else []\n    print(losses)",
            ),
        ),
        (
            (FIGURES, f"loss, n = {STEP}; total += loss * 2; hits += n", "print(total, hits)"),
            (TENSORS, f"loss, n = {STEP}; total += loss * 2; hits += n", "print(float(total), int(hits))"),
        ),
        (
            ("loss.item()", f"loss = {STEP}; total += loss", "print(total, loss)"),
            ("loss.detach().double()", f"loss = {STEP}; total += loss", "print(float(total), float(loss))"),
        ),
    ],
)
def test_figure_that_is_returned_to_who_adds_it_up(before: tuple[str, str, str], after: tuple[str, str, str]) -> None:
    names = ("returned", "called", "behind")
    assert_becomes(
        RETURNED.format(**dict(zip(names, before, strict=True))),
        RETURNED.format(**dict(zip(names, after, strict=True))),
    )


@pytest.mark.parametrize(
    ("called", "behind", "reason"),
    [
        (f"loss = {STEP}; total += loss; print(loss)", "", "`loss` is used on line 17 too"),
        (f"total += {STEP}; print({STEP})", "", "what `train_step` returns is needed on line 17"),
        (f"total += {STEP}; model.hook(train_step)", "", "`train_step`, which returns the figure, is handed on as"),
        (f"print({STEP})", "", "the figure is returned in every step on line 11, and the callers may need a number"),
    ],
)
def test_figure_that_the_caller_needs(called: str, behind: str, reason: str) -> None:
    found = reasons(RETURNED.format(returned="loss.item()", called=called, behind=behind or "print(total)"))
    assert found[-1].startswith(reason)


def test_figure_that_other_files_may_ask_for_is_held_back() -> None:
    code = RETURNED.format(returned="loss.item()", called=f"total += {STEP}", behind="print(total)")
    held = result(code.partition("\n\nif __name__")[0] + "\n")
    assert [finding.reason for finding in held.held_back] == [
        "other files may call `train_step`, and would get a tensor"
    ]


def test_operand_of_unknown_type_is_held_back() -> None:
    before = training("total = 0.0", "total += loss.item() * model.weight_of(step)", "return total")
    held = result(before)
    assert held.outcome is Outcome.UNCHANGED
    assert [finding.reason for finding in held.held_back] == ["`model.weight_of(step)` is taken for a Python number"]
    after = training("total = 0.0", "total += loss.detach().double() * model.weight_of(step)", "return float(total)")
    assert_becomes(before, after, unsafe=True)


def test_device_chosen_by_a_library_is_held_back_where_it_cannot_be_asked_for() -> None:
    code = training("accelerator = Accelerator()\ntotal = 0.0", "total += (2 * loss).item()", "return total")
    assert [finding.reason for finding in result(code).held_back] == [
        "`Accelerator(` may choose a device without float64, such as MPS"
    ]
    counted = training(
        "accelerator = Accelerator()\nhits = 0", "hits += (out.argmax(1) == y).sum().item()", "return hits"
    )
    assert result(counted).outcome is Outcome.CHANGED


def test_weight_that_other_code_needs_stays_a_number() -> None:
    step = "k = (y > 0).sum().item()\ntotal += {} * k\nprint(k)"
    after = training("total = 0.0", step.format("loss.detach().double()"), "return float(total)")
    assert_becomes(training("total = 0.0", step.format("loss.item()"), "return total"), after)


def test_values_of_the_command_line_are_numbers() -> None:
    declared = textwrap.dedent("""
        import argparse
        import torch
        import torch.nn.functional as F
        parser = argparse.ArgumentParser()
        parser.add_argument("-b", "--batch-size", type=int, default=64)
        parser.add_argument("--maybe", type=int)
        args = parser.parse_args()
        model = torch.nn.Linear(3, 3).cuda()
        total = 0.0
        for x, y in batches:
            loss = F.cross_entropy(model(x.cuda()), y.cuda())
            loss.backward()
            total += loss.item() * args.batch_size
        print(total)
        """)
    assert b"loss.detach().double() * args.batch_size" in result(declared).after
    assert result(declared.replace("* args.batch_size", "* args.maybe")).outcome is Outcome.UNCHANGED


TRAINER = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.{name} = 0.0

    def step(self, x, y):
        loss = (self.model(x) - y).square().mean()
        loss.backward()
        self.{name} += {added}

    def mean(self, steps):
        mean = {read} / steps
        self.{name} = 0.0
        return mean


def fit(trainer, loader, device):
    for x, y in loader:
        trainer.step(x.to(device), y.to(device))
"""


def test_private_attribute() -> None:
    before = TRAINER.format(name="_total", added="loss.item()", read="self._total")
    after = TRAINER.format(name="_total", added="loss.detach().double()", read="float(self._total)")
    main = "\n\ntrainer = Trainer(torch.nn.Linear(3, 1).cuda())\nfit(trainer, batches, 'cuda')\n"
    assert_becomes(before + main, after + main)


PUBLIC = """\
import torch


class Trainer:
    def __init__(self, model, callbacks):
        self.model = model
        self.callbacks = callbacks
        self.total = 0.0
        self.losses = []

    def fit(self, loader):
        for x, y in loader:
            loss = (self.model(x.cuda()) - y.cuda()).square().mean()
            loss.backward()
            self.total += {added}
            self.losses.append({appended}){more}
{behind}        return self.total / len(loader)

    def show(self):
        print(self.total, self.losses)
"""
BEHIND = """\
        self.losses[:] = [value.item() if torch.is_tensor(value) else value for value in self.losses]
        self.total = float(self.total)
"""


def test_public_attributes_are_numbers_again_behind_the_loop() -> None:
    found = result(PUBLIC.format(added="loss.item()", appended="loss.item()", more="", behind=""))
    assert found.after.decode() == PUBLIC.format(
        added="loss.detach().double()", appended="loss.detach()", more="", behind=BEHIND
    )
    assert result(found.after.decode()).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("self.show()", "`show` may read `self.total` in every step, on line 21"),
        ("self.callbacks.after_step()", "`self.callbacks.after_step` on line 17 may read `self.total`"),
        ("watch(self)", "`self`, which holds `self.total`, is used as a whole on line 17"),
        ("print(getattr(self, name))", "`self.total` may be read by its name on line 17"),
        ("if x.sum() > 1: return", "a `return` on line 17 lets others see `self.total` in the middle of the loop"),
    ],
)
def test_public_attribute_that_somebody_may_read_in_the_loop(more: str, reason: str) -> None:
    code = PUBLIC.format(added="loss.item()", appended="0.0", more="\n            " + more, behind="")
    assert reasons(code) == [reason]


LEFT = "an exception may end the loop and leave `self.{}` to the code behind the {} of line 26"


@pytest.mark.parametrize(
    ("caller", "kind"),
    [
        ("try:\n        trainer.fit(loader)\n    except KeyboardInterrupt:\n        print(trainer.total)", "try"),
        ("try:\n        trainer.fit(loader)\n    finally:\n        print(trainer.total)", "try"),
        ("with contextlib.suppress(ValueError):\n        trainer.fit(loader)\n    print(trainer.total)", "with"),
        ("try:\n        run(trainer, loader)\n    except ValueError: pass\n    print(trainer.total)", "try"),
        ("try:\n        trainer.fit(loader)\n    except ValueError:\n        raise", ""),
        ("try:\n        trainer.fit(loader)\n    except ValueError as error:\n        sys.exit(error)", ""),
        ("try:\n        loader()\n    except ValueError: pass\n    trainer.fit(loader)", ""),
    ],
)
def test_public_attribute_that_is_read_behind_an_exception(caller: str, kind: str) -> None:
    code = PUBLIC.format(added="loss.item()", appended="loss.item()", more="", behind="")
    code += "\n\nimport contextlib, sys\n\ndef main(trainer: Trainer, loader):\n    " + caller
    code += "\n\ndef run(trainer: Trainer, loader):\n    trainer.fit(loader)\n"
    code += "\nmain(Trainer(None, None), [])\n"
    found = result(code)
    assert [each.reason for each in found.refused] == (
        [LEFT.format(n, kind) for n in ("total", "losses")] if kind else []
    )


def test_public_attribute_in_a_loop_that_raises_for_whoever_calls() -> None:
    code = PUBLIC.format(
        added="loss.item()", appended="0.0", more="\n            if not x: raise ValueError", behind=""
    )
    assert reasons(code) == ["line 17 raises, and who catches it may read `self.total` in the middle of the loop"]
    assert result(code + "\n\nTrainer(None, None).fit([])\n").outcome is Outcome.CHANGED


COUNTED = PUBLIC.replace("self.total = 0.0", "self.total = 0").format(
    added="(loss > 1).sum().item()", appended="loss.item()", more="", behind=""
)


@pytest.mark.parametrize(
    ("more", "is_theirs"),
    [
        ("def scale(trainer):\n    trainer.total /= 24\n", True),
        ("trainer = Trainer(None, None)\ntrainer.total = 0.5\n", True),
        ("def restore(trainer, saved):\n    trainer.total = saved['n']\n", True),
        ("setattr(Trainer(None, None), 'total', 0.5)\n", True),
        (
            "def fill(t, saved):\n    for k in saved:\n        setattr(t, k, saved[k])\n\nfill(Trainer(1, 2), {})\n",
            True,
        ),
        ("def fill(t, saved):\n    t.__dict__.update(saved)\n\nfill(Trainer(1, 2), {})\n", True),
        ("class Other:\n    def __init__(self):\n        self.total = 0.5\n\nOther().total /= 2\n", False),
        ("def parse(args):\n    for k in args:\n        setattr(args, k, 0)\n", False),
    ],
)
def test_attributes_that_others_set(more: str, is_theirs: bool) -> None:
    found = result(COUNTED + "\n\n" + more)
    assert ("self.total += (loss > 1).sum()\n" in found.after.decode()) != is_theirs
    assert bool(found.refused) == is_theirs


def test_a_list_of_an_object_that_others_append_tensors_to() -> None:
    more = "\n\ndef start(trainer: Trainer, first):\n    trainer.losses.append({})\n"
    (refused,) = result(COUNTED + more.format("torch.ones(3)")).refused
    assert refused.reason.startswith("what is appended to `self.losses` on line 2")
    assert result(COUNTED + more.format("0.5")).refused == ()


def test_a_dictionary_that_is_filled_as_a_whole() -> None:
    code = training(
        "stats = {'n': 0}\nstats.update(model.saved)",
        "stats['n'] += (out.argmax(1) == y).sum().item()",
        "return stats",
    )
    (reason,) = reasons(code)
    assert reason == "`stats` is used as a whole on line 7"


APPENDED = {
    "float(hits)": "hits.double()",
    "int(hits > 3)": "(hits > 3).long()",
    "(hits > 3).item()": "(hits > 3)",
    "hits.item()": "append(hits)",
    "float(loss.detach())": "append(loss.detach())",
    "int(loss.detach())": "",
}


@pytest.mark.parametrize("epochs", [False, True])
@pytest.mark.parametrize("appended", APPENDED)
def test_elements_of_lists_keep_their_type(appended: str, epochs: bool) -> None:
    loops = "for epoch in range(2):\n    for x, y in batches:" if epochs else "for x, y in batches:"
    step = f"""
        x, y = x.to(device), y.to(device)
        loss = (model(x) - y).square().mean()
        loss.backward()
        hits = (x > 0).sum()
        seen.append({appended})"""
    step = textwrap.indent(textwrap.dedent(step), " " * (8 if epochs else 4))
    body = textwrap.indent("seen = []\n" + loops + step + "\nreturn seen\n", "    ")
    code = "import torch\n\ndef f(model, batches, device):\n" + body
    found = result(code)
    assert (APPENDED[appended] or appended) in found.after.decode(), [each.reason for each in found.refused]
    returned = []
    for text in (code, found.after.decode()):
        space: dict[str, Any] = {}
        exec(text, space)
        torch.manual_seed(0)
        batches = [(torch.randn(4, 3), torch.randn(4, 2)) for _ in range(3)]
        returned.append(space["f"](torch.nn.Linear(3, 2), batches, torch.device("cpu")))
    assert returned[0] == returned[1]
    assert [*map(type, returned[0])] == [*map(type, returned[1])]


def test_public_attribute_stays() -> None:
    code = TRAINER.format(name="total", added="loss.item()", read="self.total")
    assert reasons(code) == ["`self.total` is public: code outside this file may read it"]


def test_attribute_that_is_read_with_all_others() -> None:
    code = TRAINER.format(name="_total", added="loss.item()", read="self._total")
    code += "\n\ndef show(thing):\n    print(vars(thing))\n"
    assert reasons(code) == ["`_total` may be read with the whole object's dictionary on line 26"]


def test_private_attribute_that_may_be_read_elsewhere_in_the_file_stays() -> None:
    code = TRAINER.format(name="_total", added="loss.item()", read="self._total")
    code += "\n\ndef show(thing):\n    print(thing._total)\n"
    assert reasons(code) == ["`thing._total` on line 26 may be the same attribute"]


def test_attribute_that_starts_in_the_body_of_its_class() -> None:
    code = TRAINER.format(name="_total", added="loss.item()", read="self._total")
    code = code.replace("        self._total = 0.0\n", "").replace(
        "class Trainer:\n", "class Trainer:\n    _total = None\n\n"
    )
    assert reasons(code) == ["whether `self._total` starts as an integer or a float could not be shown"]


def test_attribute_that_is_read_by_its_name_stays() -> None:
    code = TRAINER.format(name="_total", added="loss.item()", read="getattr(self, '_total')")
    assert reasons(code) == ["`_total` may be read by name on line 15"]


def test_integer_that_becomes_a_float_in_every_step_stays() -> None:
    code = training(
        "total = 0",
        "total += (out.argmax(1) == y).sum().item()\nif step % 9 == 0:\n    total /= 2",
        "return total",
    )
    assert reasons(code) == ["whether `total` is an integer or a float could not be shown"]


def test_list_over_several_epochs_and_loops_becomes_numbers_behind_each() -> None:
    before = textwrap.dedent("""
        import torch

        def fit(model, loader, epochs):
            losses = []
            for epoch in range(epochs):
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    losses.append(loss.item())
                losses.append(0.5)
                print(losses)
            return losses
        """)
    after = before.replace(
        "            losses.append(loss.item())\n",
        "            losses.append(loss.detach().clone())\n        losses[:] = [float(value) for value in losses]\n",
    )
    assert_becomes(before, after)


def test_list_that_an_exception_may_leave_stays() -> None:
    code = textwrap.dedent("""
        import torch

        def fit(model, loader):
            losses = []
            try:
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    losses.append(loss.item())
            except KeyboardInterrupt:
                print(losses)
        """)
    assert reasons(code) == ["an exception may end the loop and leave `losses` to the code behind the try of line 6"]


def test_sum_that_an_exception_may_leave_is_a_number_in_the_handler() -> None:
    code = textwrap.dedent("""
        import torch

        def fit(model, loader):
            total = 0.0
            try:
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    total += loss.item()
            except KeyboardInterrupt:
                print(total)
        """)
    assert_becomes(
        code,
        code.replace("loss.item()", "loss.detach().double()").replace("print(total)", "print(float(total))"),
    )


def test_sum_that_may_be_an_integer_or_divided_keeps_every_digit() -> None:
    step, divided = "total += {}", "if step:\n    total {}\nprint(total)"
    before = training("total = 0", step.format("loss.item()"), divided.format("/= len(loader)"))
    after = training(
        "total = 0",
        step.format("loss.detach().double()"),
        divided.format("= float(total) / len(loader)").replace(
            "print(total)", "print((total.item() if torch.is_tensor(total) else total))"
        ),
    )
    assert_becomes(before, after)


@pytest.mark.parametrize(
    "differentiated",
    [
        "scaler.scale(loss).backward()",
        "accelerator.backward(loss)",
        "(loss / 4).backward()",
        "loss = loss + 0.1 * model.penalty()\nloss.backward()",
        "whole = 0.5 * other + loss\nwhole.backward(retain_graph=True)",
    ],
)
def test_loss_of_a_criterion_from_elsewhere(differentiated: str) -> None:
    code = "import torch\n\ndef fit(model, loader, criterion, scaler, accelerator, other):\n    total = 0.0\n"
    code += "    for x, y in loader:\n"
    step = f"loss = criterion(model(x), y)\n{differentiated}\ntotal += loss.item()"
    code += textwrap.indent(step, " " * 8) + "\n    return total\n"
    assert b"total += loss.detach().double()\n    return float(total)" in result(code).after


def test_gradient_for_many_elements_does_not_show_that_there_is_one() -> None:
    code = textwrap.dedent("""
        import torch

        def fit(model, loader, gradient):
            total = 0.0
            for x in loader:
                y = model(x)
                y.backward(gradient)
                total += y.item()
            return total
        """)
    assert b"total += y.detach().reshape(()).double()\n" in result(code).after


ADDING = textwrap.dedent("""
    import torch


    def fit(losses, logits, labels, device):
        total, seen, mean, smooth, hits, share, minus = 0.0, 0, 0, 0.0, 0, 0.0, 1.5
        history, counts = [], []
        stats = {"loss": 0.0}
        for step, (loss, out, y) in enumerate(zip(losses, logits, labels)):
            out, y = out.to(device), y.to(device)
            loss.backward()
            total += loss.item()
            mean += loss.item() * y.size(0)
            seen += y.size(0)
            smooth = 0.9 * smooth + 0.1 * loss.item()
            hits += (torch.argmax(out, 1) == y).sum().item()
            share += (torch.argmax(out, 1) == y).float().mean().item() * 100.
            minus -= 3 * float(loss) + 0.25
            stats["loss"] += loss.item() / 3
            history.append(loss.item())
            counts.append((torch.argmax(out, 1) == y).sum().item())
            if step % 3 == 2:
                print(step, repr(total), f"{mean:.17g}", "%.3e %d" % (smooth, hits))
                total = 0.0
        total /= 7
        print(repr(total), mean, mean / max(seen, 1), smooth, hits, share, minus, stats["loss"])
        print(history, counts, type(mean), type(hits), [type(value) for value in history + counts])
        return total
    """)


@functools.cache
def rewritten_adding() -> FileResult:
    return result(ADDING)


DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SPECIAL = {
    "plain": (),
    "nan": (float("nan"),),
    "inf": (float("inf"),),
    "opposite": (float("inf"), float("-inf")),
    "zero": (-0.0, 0.0),
    "tiny": (1e-45, -1e-310, 6e-8),
    "large": (6e4, 3e38, -1e308),
}


def printed(code: bytes, losses: list[torch.Tensor], logits: list[torch.Tensor], labels: list[torch.Tensor]) -> str:
    space: dict[str, Any] = {}
    exec(compile(code, "train.py", "exec"), space)
    text = io.StringIO()
    leaves = [loss.clone().requires_grad_() for loss in losses]
    with contextlib.redirect_stdout(text):
        print(repr(space["fit"](leaves, logits, labels, "cpu")))
    print([leaf.grad for leaf in leaves], file=text)
    return text.getvalue()


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize("steps", [0, 1, 8])
@pytest.mark.parametrize(("dtype", "special"), list(itertools.product(DTYPES, SPECIAL)), ids=str)
def test_every_printed_digit_is_the_same(dtype: torch.dtype, special: str, steps: int) -> None:
    rewritten = rewritten_adding()
    assert len(rewritten.applied) == 9
    assert not rewritten.refused
    generator = torch.Generator().manual_seed(steps)
    values = torch.randn(steps, generator=generator, dtype=torch.float64) * 10
    values[: len(SPECIAL[special])] = torch.tensor(SPECIAL[special][:steps], dtype=torch.float64)
    losses = list(values.to(dtype))
    logits = [torch.randn(n % 4 + 1, 3, generator=generator) for n in range(steps)]
    labels = [torch.randint(3, (len(out),), generator=generator) for out in logits]
    before = printed(ADDING.encode(), losses, logits, labels)
    assert printed(rewritten.after, losses, logits, labels) == before


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
def test_losses_of_one_element_with_a_dimension() -> None:
    losses = [torch.randn(1) for _ in range(4)]
    logits, labels = [torch.zeros(1, 3)] * 4, [torch.zeros(1, dtype=torch.long)] * 4
    assert printed(rewritten_adding().after, losses, logits, labels) == printed(ADDING.encode(), losses, logits, labels)


ELEMENTS = """\
import torch
import torch.nn.functional as F

n = 4


@torch.no_grad()
def estimate(model, batches, device, count, args):
    model.eval()
    {made}
    for k in range({count}):
        x, y = batches[k]
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        {step}
    {after}
"""
STORES = {"made": "losses = torch.zeros(count)", "count": "count", "step": "losses[k] = loss.item()"}


def estimated(**parts: str) -> FileResult:
    code = ELEMENTS.format(**{**STORES, "after": "return losses.mean()", **parts})
    found = rewrite(code.encode(), "eval.py", [ScalarAccumulation()], Choice(unsafe=True))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"made": "losses = torch.zeros(n, dtype=torch.float64)", "count": "n"},
        {"made": "losses = torch.empty(4)", "count": "4"},
        {"made": "losses = torch.ones(args.n)", "count": "args.n", "after": "print(losses)\n    return losses"},
        {"step": "losses[k] = float(loss)"},
    ],
)
def test_elements_are_stored_behind_the_loop(parts: dict[str, str]) -> None:
    found = estimated(**parts)
    text = found.after.decode()
    assert "        losses_kept.append(loss.detach())\n    if losses_kept:\n" in text, found.refused
    assert "    losses_kept = []\n    for k in range(" in text
    assert "        losses[:len(losses_kept)] = torch.stack(losses_kept)\n" in text
    assert rewrite(found.after, "eval.py", [ScalarAccumulation()], Choice(unsafe=True)).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"count": "n"}, "the element of its round"),
        ({"count": "1, count"}, "the element of its round"),
        ({"step": "losses[k - 1] = loss.item()"}, "the element of its round"),
        ({"step": "k = 0\n        losses[k] = loss.item()"}, "the element of its round"),
        ({"step": "if k:\n            losses[k] = loss.item()"}, "not every round"),
        ({"step": "if k:\n            continue\n        losses[k] = loss.item()"}, "leaves elements out"),
        ({"step": "losses[k] = loss.item()\n        print(losses)"}, "read in the loop on line 15"),
        ({"made": "losses = args.losses = torch.zeros(count)"}, "could not be shown"),
        ({"made": "losses = torch.zeros(count)\n    kept = losses"}, "another name"),
        ({"made": "losses = torch.zeros(2, count)"}, "one dimension"),
        ({"made": "losses = torch.zeros(count, dtype=torch.half)"}, "another type"),
        ({"made": "losses = torch.zeros(count, device=device)"}, "one dimension"),
        ({"made": "losses = model.losses"}, ""),
        ({"after": "return locals()"}, "by its name"),
    ],
)
def test_elements_that_stay(parts: dict[str, str], reason: str) -> None:
    found = estimated(**parts)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    assert any(reason in finding.reason for finding in found.refused) or not reason


def test_a_loss_that_is_none_without_targets() -> None:
    """Language models return `None` for the loss where they are given no targets: nothing calls `item()` on that."""
    code = """\
        import torch
        import torch.nn.functional as F
        from torch import nn

        class Net(nn.Module):
            def forward(self, x, y=None):
                out = x * 2
                loss = None
                if y is not None:
                    loss = F.cross_entropy(out, y)
                return out, loss

        @torch.no_grad()
        def evaluate(loader, device):
            model = Net().to(device)
            total = 0.0
            for x, y in loader:
                out, loss = model(x.to(device), y.to(device))
                total += {read}
            return total
        """
    found = rewrite(textwrap.dedent(code).format(read="loss.item()").encode(), "eval.py", [ScalarAccumulation()])
    assert "total += loss.detach().double()" in found.after.decode(), found
    # `float(None)` raises another error than `None.detach()` does.
    found = rewrite(textwrap.dedent(code).format(read="float(loss)").encode(), "eval.py", [ScalarAccumulation()])
    assert found.outcome is Outcome.UNCHANGED
