"""PM106: what is accumulated on the device, what stays, and that figures keep every digit."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import textwrap
from typing import Any

import pytest
import torch
from cases import says
from snippets import dotted_names

from perfmod.codemods.engine import rewrite, rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.policy import Policy, Target
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


def result(code: str, *, unsafe: bool = False, selected: bool = False) -> FileResult:
    chosen = Choice(unsafe=unsafe, low_impact=selected)
    return rewrite(code.encode(), "train.py", [ScalarAccumulation()], chosen)


def reasons(code: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(code, unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.reason or found.after.decode()
    return [finding.reason for finding in found.refused]


def held_back(code: str) -> list[tuple[Safety, str]]:
    """What is held back; the code must stay as it is."""
    found = result(code)
    assert found.outcome is Outcome.UNCHANGED, found.reason or found.after.decode()
    return [(finding.safety, finding.reason) for finding in found.held_back]


def assert_becomes(before: str, after: str, *, unsafe: bool = False) -> FileResult:
    found = result(before, unsafe=unsafe)
    assert found.after.decode() == after, [finding.reason for finding in (*found.refused, *found.held_back)]
    assert found.outcome is Outcome.CHANGED
    again = result(after, unsafe=unsafe)
    assert (again.outcome, again.held_back) == (Outcome.UNCHANGED, ())
    return found


# Lines before, in and behind the steps, and the same as they become.
SUMS = {
    "running sum": (("total = 0.0", "total += loss.item()", "print(total / len(loader))"),
        ("total = 0.0", "total += loss.detach()", "total = float(total)\nprint(total / len(loader))")),
    "float()": (("total = 0.0", "total += float(loss)", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "total = float(total)\nreturn total")),
    "weighted by the batch": (("total = 0.0", "total += loss.item() * x.size(0)", "return total"),
        ("total = 0.0", "total += loss.detach().double() * x.size(0)", "total = float(total)\nreturn total")),
    "weight first": (("total = 0.0", "total += len(x) * loss.item()", "return total"),
        ("total = 0.0", "total += len(x) * loss.detach().double()", "total = float(total)\nreturn total")),
    "on the way to the host": (("total = 0.0", "total += loss.cpu().detach().item()", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "total = float(total)\nreturn total")),
    "data": (("total = 0.0", "total += loss.data.item()", "return total"),
        ("total = 0.0", "total += loss.data.double()", "total = float(total)\nreturn total")),
    "converted twice": (("total = 0.0", "total += float(loss.detach().cpu().item())", "return total"),
        ("total = 0.0", "total += loss.detach().double()", "total = float(total)\nreturn total")),
    "a sum of two converted": (("total = 0.0", "total += float(loss.item() + out.mean().item()) * 2", "return total"),
        ("total = 0.0", "total += (loss.detach().double() + out.mean().detach().double()) * 2",
         "total = float(total)\nreturn total")),
    "plain assignment": (("total = 0.0", "total = total + loss.item()", "return total"),
        ("total = 0.0", "total = total + loss.detach().double()", "total = float(total)\nreturn total")),
    "moving average": (("mean = 0.0", "mean = 0.9 * mean + 0.1 * loss.item()", "return mean"),
        ("mean = 0.0", "mean = 0.9 * mean + 0.1 * loss.detach().double()", "mean = float(mean)\nreturn mean")),
    "subtracted": (("total = 0.0", "total -= loss.item()", "return total"),
        ("total = 0.0", "total -= loss.detach().double()", "total = float(total)\nreturn total")),
    "an integer zero": (("total = 0", "total += loss.item()", "print(total)"),
        ("total = 0", "total += loss.detach()", "total = float(total)\nprint(total)")),
    "numbers are added as well": (("total = 0.0", "total += loss.item()\ntotal += 0.5", "return total"),
        ("total = 0.0", "total += loss.detach().double()\ntotal += 0.5", "total = float(total)\nreturn total")),
    "divided in place behind the loop": (("total = 0.0", "total += loss.item()", "total /= len(loader)\nreturn total"),
        ("total = 0.0", "total += loss.detach().double()", "total = float(total)\ntotal /= len(loader)\nreturn total")),
    "hits": (("hits = 0", "hits += (out.argmax(1) == y).sum().item()", "print(hits)"),
        ("hits = 0", "hits += (out.argmax(1) == y).sum()", "hits = int(hits)\nprint(hits)")),
    "hits through int()": (("hits = 0", "hits += int((out.argmax(1) == y).sum())", "print(hits)"),
        ("hits = 0", "hits += (out.argmax(1) == y).sum()", "hits = int(hits)\nprint(hits)")),
    "hits that have a name": (("hits = 0", "right = (out.argmax(1) == y).sum()\nhits += right.item()", "print(hits)"),
        ("hits = 0", "right = (out.argmax(1) == y).sum()\nhits += right", "hits = int(hits)\nprint(hits)")),
    "hits in a float": (("hits = 0.0", "hits += out.argmax(1).eq(y).sum().item()", "print(hits)"),
        ("hits = 0.0", "hits += out.argmax(1).eq(y).sum()", "hits = float(hits)\nprint(hits)")),
    "a boolean counted": (("bad = 0", "bad += out.isnan().any().item()", "print(bad)"),
        ("bad = 0", "bad += out.isnan().any()", "bad = int(bad)\nprint(bad)")),
    "an accuracy": (("acc = 0.0", "acc += (out.argmax(1) == y).float().mean().item()", "print(acc)"),
        ("acc = 0.0", "acc += (out.argmax(1) == y).float().mean()", "acc = float(acc)\nprint(acc)")),
    "without a graph": (
        ("total = 0.0", "with torch.no_grad():\n    other = F.cross_entropy(model(x), y)\ntotal += other.item()",
         "return total"),
        ("total = 0.0", "with torch.no_grad():\n    other = F.cross_entropy(model(x), y)\ntotal += other.double()",
         "total = float(total)\nreturn total")),
    "one element that could not be shown": (("total = 0.0", "total += out.softmax(1).item()", "print(total)"),
        ("total = 0.0", "total += out.softmax(1).detach()", "total = float(total)\nprint(total)")),
    "an unknown type that nobody sees": (
        ("total = 0", "total += y.sum().item()", "print(f'{total:.3f}', total / 3, total < 1)"),
        ("total = 0", "total += y.sum().detach().double()",
         "total = float(total)\nprint(f'{total:.3f}', total / 3, total < 1)")),
    "two in one assignment": (
        ("total, hits = 0.0, 0", "total += loss.item()\nhits += (out.argmax(1) == y).sum().item()",
         "return total, hits"),
        ("total, hits = 0.0, 0", "total += loss.detach().double()\nhits += (out.argmax(1) == y).sum()",
         "total = float(total)\nhits = int(hits)\nreturn total, hits")),
    "semicolons and comments": (
        ("total = 0.; n = 0   # mean", "total+=loss.item()*len(x); n += 1   # weighted", "return(total / n)"),
        ("total = 0.; n = 0   # mean", "total+=loss.detach().double()*len(x); n += 1   # weighted",
         "total = float(total)\nreturn(total / n)")),
    "deleted": (("total = 0.0", "total += loss.item()", "print(total)\ndel total"),
        ("total = 0.0", "total += loss.detach()", "total = float(total)\nprint(total)\ndel total")),
    "read behind a modulo and reset": (
        ("total = 0.0", "total += loss.item()\nif step % 9:\n    print(total / 9.)\n    total = 0.0", ""),
        ("total = 0.0", "total += loss.detach()\nif step % 9:\n    print(float(total) / 9.)\n    total = 0.0", "")),
    "read where a number is wanted already": (
        ("total = 0.0", "total += loss.item()\nif step % 9 == 0:\n    print(float(total))", ""),
        ("total = 0.0", "total += loss.detach()\nif step % 9 == 0:\n    print(float(total))", "")),
    "read in three places of a report": (
        ("total = 0.0", "total += loss.item()\nif step % 9 == 0:\n    print(total, total / 9)\n    print(-total)", ""),
        ("total = 0.0",
         ("total += loss.detach()\nif step % 9 == 0:\n    total = float(total)\n    print(total, total / 9)\n"
           "    print(-total)"), "")),
    "shown where a variable says that a report is due": (
        ("total = 0.0", "total += loss.item()\ndue = step % 9 == 8\nif due:\n    print(total)\n    total = 0.0", ""),
        ("total = 0.0",
         "total += loss.detach()\ndue = step % 9 == 8\nif due:\n    print(float(total))\n    total = 0.0", "")),
    "returned where the steps are over": (
        ("total = 0.0", "total += loss.item()\nif step > 9:\n    return total / step", "return total"),
        ("total = 0.0", "total += loss.detach().double()\nif step > 9:\n    return float(total) / step",
         "total = float(total)\nreturn total")),
    "counted by a tensor": (("seen = torch.tensor(0, device=device)", "seen += (y > 0).sum().item()", "print(seen)"),
        ("seen = torch.tensor(0, device=device)", "seen += (y > 0).sum()", "print(seen)")),
    "entry of a dictionary": (
        ("stats = {'loss': 0.0, 'n': 0}", "stats['loss'] += loss.item()\nstats['n'] += 1", "return stats"),
        ("stats = {'loss': 0.0, 'n': 0}", "stats['loss'] += loss.detach().double()\nstats['n'] += 1",
         "stats['loss'] = float(stats['loss'])\nreturn stats")),
    "entry of a dictionary with defaults": (
        ("from collections import defaultdict\nsums = defaultdict(float)",
         "sums['loss'] += loss.item()\nsums['aux'] += 2 * loss.item()", "return dict(sums)"),
        ("from collections import defaultdict\nsums = defaultdict(float)",
         "sums['loss'] += loss.detach().double()\nsums['aux'] += 2 * loss.detach().double()",
         "sums['loss'] = float(sums['loss'])\nsums['aux'] = float(sums['aux'])\nreturn dict(sums)")),
    "entry of a key that stays the same": (
        ("sums = {'train': 0, 'val': 0}\nkey = model.phase", "sums[key] += loss.item()", "print(sums)"),
        ("sums = {'train': 0, 'val': 0}\nkey = model.phase", "sums[key] += loss.detach().double()",
         "sums[key] = float(sums[key])\nprint(sums)")),
}  # fmt: skip

ROUNDED = {
    "divided by the length of the loop": (("total = 0.0", "total += loss.item() / len(loader)", "return total"),
        ("total = 0.0", "total += loss.detach().double() / len(loader)", "total = float(total)\nreturn total")),
    "share of hits": (("share = 0.0", "share += (out.argmax(1) == y).sum().item() / len(y)", "print(share)"),
        ("share = 0.0", "share += (out.argmax(1) == y).sum() / len(y)", "share = float(share)\nprint(share)")),
    "divided in place in the step": (("total = 0.0", "total += loss.item()\ntotal /= 2", "return total"),
        ("total = 0.0", "total += loss.detach().double()\ntotal /= 2", "total = float(total)\nreturn total")),
    "added up by a tensor of floats": (
        ("total = torch.zeros(1, device=device)", "total += loss.item()", "print(total)"),
        ("total = torch.zeros(1, device=device)", "total += loss.detach()", "print(total)")),
    "added up in an entry of a tensor": (
        ("sums = torch.zeros(2).to(device)", "sums[0] += loss.item()\nsums[1] += len(x)", "print(sums[0] / sums[1])"),
        ("sums = torch.zeros(2).to(device)", "sums[0] += loss.detach()\nsums[1] += len(x)",
         "print(sums[0] / sums[1])")),
    "counted in an entry of a tensor": (
        ("sums = torch.zeros(2).to(device)", "sums[1] += (out.argmax(1) == y).sum().item()", "print(sums)"),
        ("sums = torch.zeros(2).to(device)", "sums[1] += (out.argmax(1) == y).sum()", "print(sums)")),
}  # fmt: skip

CARRIED = {
    "through a variable": (("total = 0.0", "value = loss.item()\ntotal += value", "return total"),
        ("total = 0.0", "value = loss.detach().double()\ntotal += value", "total = float(total)\nreturn total")),
    "through a variable, and changed before it is added": (
        ("total = 0.0", "value = loss.item()\nloss.data.zero_()\ntotal += value", "return total"),
        ("total = 0.0", "value = loss.detach().clone().double()\nloss.data.zero_()\ntotal += value",
         "total = float(total)\nreturn total")),
    "in one of several branches": (
        ("total = 0.0", "if step:\n    value = loss.item()\nelse:\n    value = 2 * loss.item()\ntotal += value",
         "return total"),
        ("total = 0.0",
         "if step:\n    value = loss.detach().double()\nelse:\n    value = 2 * loss.detach().double()\ntotal += value",
         "total = float(total)\nreturn total")),
    "of a sum, a list and a report": (
        ("total, seen = 0.0, []",
         "value = loss.item()\ntotal += value\nseen.append(value)\nif step % 9 == 0:\n    print(value)",
         "print(total, seen)"),
        ("total, seen = 0.0, []",
         "value = loss.detach()\ntotal += value\nseen.append(value)\nif step % 9 == 0:\n    print(value.item())",
         "total = float(total)\nseen = torch.stack(seen).tolist()\nprint(total, seen)")),
    "computed, and used behind the loop": (
        ("total, value = 0.0, 0.0", "value = loss.item() * len(x)\ntotal += value", "print(total, value)"),
        ("total, value = 0.0, 0.0", "value = loss.detach() * len(x)\ntotal += value",
         "total = float(total)\nprint(total, float(value))")),
    "a count that weights": (
        ("total, count = 0.0, 0", "n = (y > 0).sum().item()\ntotal += loss.item() * n\ncount += n",
         "print(total / count)"),
        ("total, count = 0.0, 0", "n = (y > 0).sum()\ntotal += loss.detach() * n\ncount += n",
         "total = float(total)\ncount = int(count)\nprint(total / count)")),
    "a count in a sum of floats": (
        ("total, count = 0.0, 0", "hits = (y > 0).sum().item()\ntotal += hits * 0.5\ncount += hits",
         "print(total, count)"),
        ("total, count = 0.0, 0", "hits = (y > 0).sum()\ntotal += hits * 0.5\ncount += hits",
         "total = float(total)\ncount = int(count)\nprint(total, count)")),
}  # fmt: skip

LISTS = {
    "list": (("losses = []", "losses.append(loss.item())", "return sum(losses) / len(losses)"),
        ("losses = []", "losses.append(loss.detach())",
         "losses = torch.stack(losses).tolist()\nreturn sum(losses) / len(losses)")),
    "whose mean is taken where there is one": (
        ("losses = []", "losses.append(loss.item())", "return sum(losses) / len(losses) if losses else 0"),
        ("losses = []", "losses.append(loss.detach())",
         "losses = torch.stack(losses).tolist()\nreturn sum(losses) / len(losses) if losses else 0")),
    "whose mean is taken under a condition": (
        ("losses = []", "losses.append(loss.item())", "if model:\n    return sum(losses) / len(losses)"),
        ("losses = []", "losses.append(loss.detach())",
         "losses = torch.stack(losses).tolist()\nif model:\n    return sum(losses) / len(losses)")),
    "of counts": (("hits = []", "hits.append((out.argmax(1) == y).sum().item())", "print(hits)"),
        ("hits = []", "hits.append((out.argmax(1) == y).sum())", "hits = torch.stack(hits).tolist()\nprint(hits)")),
    "of computed figures": (("shares = []", "shares.append(100 * loss.item())", "print(shares)"),
        ("shares = []", "shares.append(100 * loss.detach().double())",
         "shares = torch.stack(shares).tolist()\nprint(shares)")),
    "of losses whose function is only known by its name": (
        ("losses, others = [], []",
         ("loss, parts = model(x)\nloss.backward()\nlosses.append(loss.item())\naux_loss = model.aux(x)\n"
           "other = model(x).loss + criterion(out) + aux_loss\nother.backward()\nothers.append(other.item())"),
         "print(losses, others)"),
        ("losses, others = [], []",
         ("loss, parts = model(x)\nloss.backward()\nlosses.append(loss.detach())\naux_loss = model.aux(x)\n"
           "other = model(x).loss + criterion(out) + aux_loss\nother.backward()\nothers.append(other.detach())"),
         "losses = torch.stack(losses).tolist()\nothers = torch.stack(others).tolist()\nprint(losses, others)")),
    "of counts as floats": (("hits = []", "hits.append(float((out.argmax(1) == y).sum()))", "print(hits)"),
        ("hits = []", "hits.append((out.argmax(1) == y).sum().double())",
         "hits = torch.stack(hits).tolist()\nprint(hits)")),
    "extended by a list of one": (("losses = []", "losses += [loss.item()]", "print(losses)"),
        ("losses = []", "losses += [loss.detach()]", "losses = torch.stack(losses).tolist()\nprint(losses)")),
    "of losses that have a second name": (
        ("losses = []", "raw = loss.detach()\nlosses.append(loss.item())\nraw.mul_(2)", "print(losses)"),
        ("losses = []", "raw = loss.detach()\nlosses.append(loss.detach().clone())\nraw.mul_(2)",
         "losses = torch.stack(losses).tolist()\nprint(losses)")),
    "of a loss that is changed in place later": (
        ("losses = []", "losses.append(loss.item())\nloss.data.mul_(2)", "print(losses)"),
        ("losses = []", "losses.append(loss.detach().clone())\nloss.data.mul_(2)",
         "losses = torch.stack(losses).tolist()\nprint(losses)")),
    "of a loss that was changed in place before": (
        ("losses = []", "loss.data.mul_(2)\nlosses.append(loss.item())", "print(losses)"),
        ("losses = []", "loss.data.mul_(2)\nlosses.append(loss.detach())",
         "losses = torch.stack(losses).tolist()\nprint(losses)")),
    "that is only counted in the step": (
        ("losses = list()", "losses.append(loss.item())\nprint(len(losses))", "print(losses[-1])"),
        ("losses = list()", "losses.append(loss.detach())\nprint(len(losses))",
         "losses = torch.stack(losses).tolist()\nprint(losses[-1])")),
    "that becomes something else behind the loop": (
        ("import numpy as np\nlosses = []", "losses.append(loss.item())", "losses = np.mean(losses)\nreturn losses"),
        ("import numpy as np\nlosses = []", "losses.append(loss.detach())",
         "losses = torch.stack(losses).tolist()\nlosses = np.mean(losses)\nreturn losses")),
}  # fmt: skip
CHANGES = {**SUMS, **ROUNDED, **CARRIED, **LISTS}


@pytest.mark.parametrize("name", CHANGES)
def test_changes(name: str) -> None:
    before, after = CHANGES[name]
    found = assert_becomes(training(*before), training(*after))
    is_float32 = "float(" in "".join(after) and ".double()" not in after[1]
    assert {finding.figures_may_differ for finding in found.applied} == {is_float32 or name in ROUNDED}


STAYS = {
    "fed behind a modulo": (("total = 0.0", "if step % 100 == 0:\n    total += loss.item()", "print(total)"), ""),
    "shown where a variable holds something else": (
        ("total = 0.0", "total += loss.item()\nis_due = step > 8\nif is_due:\n    print(total)", ""),
        "`total` … every step on line 17"),
    "read in every step": (("total = 0.0", "total += loss.item()\nprint(total)", ""),
        "`total` … every step on line 15"),
    "decides in every step": (("total = 0.0", "total += loss.item()\nif total > 10:\n    break", ""),
        "`total` … every step on line 15"),
    "changed by more than a number": (("total = 0.0", "total += loss.item()\ntotal **= 2", "print(total)"),
        "line 15 does more to `total`"),
    "decides itself": (("", "if loss.item() > 10:\n    break", ""), ""),
    "decides through a variable": (("import math", "value = loss.item()\nif not math.isfinite(value):\n    break", ""),
        ""),
    "variable used again": (("total = 0.0", "value = loss.item()\nprint(value)\ntotal += value", "print(total)"),
        "`value` … as a number on line 15"),
    "variable that another list needs as a number": (
        ("total, seen = 0.0, model.seen", "value = loss.item()\ntotal += value\nseen.append(value)", "print(total)"),
        "`value` … as a number on line 16"),
    "never used": (("total = 0.0", "total += loss.item()", ""), "`total` is never used"),
    "never used list": (("losses = []", "losses.append(loss.item())", ""), "`losses` is never used"),
    "never used variable": (("", "value = loss.item()", ""), ""),
    "shared by global": (("global total", "total += loss.item()", "print(total)"), "`total` is shared … line 6"),
    "read in a nested function": (("total = 0.0", "total += loss.item()", "return lambda: total + 1"),
        "another function uses `total` on line 15"),
    "starts elsewhere": (("from progress import total", "total += loss.item()", "print(total)"),
        "first value of `total`"),
    "starts as something unknown": (("total = model.start()", "total += loss.item()", "print(total)"),
        "`total` … start as a number"),
    "device in the divisor": (("total = 0.0", "total += 1 / loss.item()", "print(total)"),
        "`1 / loss.item()` divides by … ZeroDivisionError"),
    "more than a sum": (("import math\ntotal = 0.0", "total += math.exp(loss.item())", "print(total)"), ""),
    "a choice": (("total = 0.0", "total += loss.item() if step else 0.0", "print(total)"), ""),
    "added up by a tensor of 16 bits": (
        ("total = torch.zeros(1, device=device, dtype=torch.bfloat16)", "total += loss.item()", "print(total)"),
        "`total` is already a tensor"),
    "counted by a tensor of the host": (("seen = torch.tensor(0)", "seen += (y > 0).sum().item()", "print(seen)"),
        "`seen` is already a tensor"),
    "fraction cut off": (("total = 0", "total += int(loss)", "print(total)"), "`int()` truncates the value"),
    "name shown by an f-string": (
        ("total = 0.0", "total += loss.item()\nif step % 9 == 0:\n    print(f'{total=}')", ""),
        "f-string on line 16 … `total`"),
    "float is something else": (("float = str\ntotal = 0.0", "total += loss.item()", "print(total)"),
        "`float` may not be the builtin here"),
    "comment in the read": (("total = 0.0", "total += loss.item(\n    # now\n)", "print(total)"), "a comment"),
    "element of a list": (("totals = [0.0]", "totals[0] += loss.item()", "print(totals)"), "type of `totals`"),
    "dictionary that the loop shows": (
        ("stats = {'loss': 0.0}", "stats['loss'] += loss.item()\nprint(stats)", "return stats"),
        "`stats` … as a whole on line 15"),
    "dictionary that has another name": (
        ("stats = {'loss': 0.0}\nmodel.stats = stats", "stats['loss'] += loss.item()\nmodel.show()", "return stats"),
        "`stats` … as a whole on line 7"),
    "dictionary that is filled as a whole": (
        ("stats = {'n': 0}\nstats.update(model.saved)", "stats['n'] += (y > 0).sum().item()", "return stats"),
        "`stats` … as a whole on line 7"),
    "dictionary that a return may leave": (
        ("stats = {'loss': 0.0}", "stats['loss'] += loss.item()\nif step > 9:\n    return stats", "return stats"),
        "`return` on line 16 … `stats['loss']`"),
    "dictionary of a caller": (("stats = model.stats", "stats['loss'] += loss.item()", "return stats"),
        "type of `stats`"),
    "entries fed in turn": (
        ("sums = {'a': 0.0, 'b': 0.0}", "for key in sums:\n    sums[key] += loss.item()", "return sums"),
        "`key` changes in the loop"),
    "attribute of an unknown object": (("", "model.total += loss.item()", ""),
        "`model.total` is an attribute of an object"),
    "meter from elsewhere": (("from meters import meter", "meter.update(loss.item())", "print(meter.avg)"), ""),
    "returned in every step": (("", "return loss.item()", ""), ""),
    "list read in the loop": (("losses = []", "losses.append(loss.item())\nprint(losses[-1])", ""),
        "`losses` is read in the loop on line 15"),
    "list read now and then": (
        ("losses = []", "losses.append(loss.item())\nif step % 9 == 0:\n    print(losses[-9:])", ""),
        "`losses` is read in the loop on line 16"),
    "list in a dictionary": (("history = {'loss': []}", "history['loss'].append(loss.item())", "return history"),
        "`history['loss']` … other code may read"),
    "list of a caller": (("losses = model.losses", "losses.append(loss.item())", "return losses"),
        "`losses` … an empty list"),
    "list with other values": (("losses = []\nlosses.append(model)", "losses.append(loss.item())", "print(losses)"),
        "`losses` gets `model` on line 7"),
    "list with numbers of the host": (
        ("losses = []", "losses.append(loss.item())\nlosses.append(2.0)", "print(losses)"),
        "`losses` gets `2.0` on line 15"),
    "list of numbers of an unknown type": (
        ("values = []", "values.append(model.aux(x).item())\nvalues.append(model.other(x).item())", "print(values)"),
        "`values` … integers or floats"),
    "list of truths that are counted": (("hits = []", "hits.append(int((out > 3).any()))", "print(hits)"),
        "`hits` … integers or floats"),
    "list of numbers of two types": (
        ("values = []", "values.append(loss.item())\nvalues.append((out > 3).sum().item())", "print(values)"),
        "`values` … different types"),
    "list that lives over several epochs": (
        (("losses = []\nfor epoch in range(2):\n    for x, y in loader:\n"
           "        loss = F.cross_entropy(model(x.to(device)), y)\n        loss.backward()\n"
           "        losses.append(loss.item())\n    print(losses[-1])"), "pass", ""),
        "`losses` … the next epoch"),
    "list of two loops": (
        (("losses = []\nfor x, y in loader:\n    loss = F.cross_entropy(model(x.to(device)), y)\n"
           "    loss.backward()\n    losses.append(loss.item())"), "losses.append(loss.item())", "print(losses)"),
        "`losses` … filled on lines 7, 11"),
    "list that starts under a condition": (
        ("if flag:\n    losses = []", "if flag:\n    losses.append(loss.item())", "if flag:\n    print(losses)"),
        "`losses` may not exist … line 7"),
    "sum that starts under a condition": (
        ("if flag:\n    total = 0.0", "if flag:\n    total += loss.item()", "if flag:\n    print(total)"),
        "`total` may not exist … line 7"),
    "list read by a nested function": (
        ("losses = []\nshow = lambda: print(losses)", "losses.append(loss.item())\nshow()", ""),
        "another function uses `losses` on line 7"),
    "list kept elsewhere before": (("losses = []\nmodel.history = losses", "losses.append(loss.item())", ""),
        "line 7 may pass `losses` on"),
    "list handed on before": (("losses = []\nmodel.watch(losses)", "losses.append(loss.item())\nmodel.redraw()", ""),
        "line 7 may pass `losses` on"),
    "list in a list": (
        ("losses = []\ncurves = []\ncurves.append(losses)", "losses.append(loss.item())", "print(curves)"),
        "line 8 may pass `losses` on"),
    "list with two names": (("losses = curve = []", "losses.append(loss.item())\nprint(curve)", ""),
        "`losses` … an empty list"),
    "list of pairs": (("curve = []", "curve.append((step, loss.item()))", "print(curve)"), ""),
    "list read by its name": (("losses = []", "losses.append(loss.item())", "print(eval('losses'))"),
        "`eval('losses')` on line 15 … `losses` by name"),
    "sum read by its name": (("total = 0.0", "total += loss.item()", "print('%(total)s' % locals())"),
        "`locals()` on line 15 … `total` by name"),
    "inference tensor that other code adds to": (
        ("total = 0.0", "with torch.inference_mode():\n    total += out.float().mean().item()\ntotal += loss.item()",
         "return total"),
        "`total` … `torch.inference_mode()` on line 15 … line 16"),
    "inference tensor that is scaled outside": (
        ("total = 0.0", "with torch.inference_mode():\n    total += loss.item()\ntotal *= 0.5", "return total"),
        "`total` … `torch.inference_mode()` on line 15 … line 16"),
    "two sums in one assignment": (
        ("total, count = 0.0, 0", "total, count = total + loss.item(), count + 1", "print(total / count)"),
        ""),
    "average that starts with the first figure": (
        ("mean = None", "mean = loss.item() if mean is None else 0.9 * mean + 0.1 * loss.item()", "print(mean)"),
        ""),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays_with_the_reason(name: str) -> None:
    parts, reason = STAYS[name]
    found = reasons(training(*parts))
    assert not reason or any(says(each, reason) for each in found), found


HELD_BACK = {
    "list of what may have a dimension": (("values = []", "values.append(out.float().sum(0).item())", "print(values)"),
        "`out.float().sum(0)` may have a dimension"),
    "list of a loss that is a sum of a dimension": (
        ("losses = []", "loss = y.float().sum(0)\nloss.backward()\nlosses.append(loss.item())", "print(losses)"),
        "`loss` may have a dimension"),
    "list of a loss made of what may have a dimension": (
        ("values = []", "value = -model.log_prob(x) * 2\nvalue.backward()\nvalues.append(value.item())",
         "print(values)"),
        "`value` may have a dimension"),
    "operand of unknown type": (("total = 0.0", "total += loss.item() * model.weight_of(step)", "return total"),
        "right if `model.weight_of(step)` is a Python number"),
    "divisor that may be zero": (("total = 0.0", "n = len(x) - 4\ntotal += loss.item() / n", "return total"),
        "`n` is ever zero"),
    "short integers": (("longest = 0", "longest += y.int().max().item()", "print(longest)"),
        "`y.int().max()` … fewer than 64 bits"),
    "unknown type that is shown": (("count = 0", "count += y.sum().item()", "print(count)"),
        "`count` … an integer or a float"),
    "entry of a tensor that takes no dimension": (
        ("sums = torch.zeros(2).to(device)", "sums[0] += model.penalty(x).item()", "print(sums)"),
        "`model.penalty(x)` … zero dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD_BACK)
def test_is_held_back(name: str) -> None:
    parts, reason = HELD_BACK[name]
    ((safety, why),) = held_back(training(*parts))
    assert safety is Safety.UNSAFE
    assert says(why, reason)


@pytest.mark.parametrize(("size", "stays"), [("len(data)", True), ("8", False), ("len(other)", False)])
def test_a_loader_that_gives_all_in_one_batch(size: str, stays: bool) -> None:
    code = f"""\
        import torch
        import torch.nn.functional as F
        from torch.utils.data import DataLoader

        def evaluate(model, loader):
            total = 0.0
            losses = []
            for x, y in loader:
                loss = F.cross_entropy(model(x.cuda()), y.cuda())
                total += loss.item()
                losses.append(loss.item())
            return total, losses

        def main(model, data, other):
            print(evaluate(model, DataLoader(data, batch_size=len(data))))
            print(evaluate(model, DataLoader(data, batch_size={size})))
        """
    code = textwrap.dedent(code)
    if stays:
        assert [says(each, "line 8 … line 15 … one batch") for each in reasons(code)] == [True, True]
    else:
        assert "total += loss.detach()" in result(code, selected=True).after.decode()


@pytest.mark.parametrize(("size", "stays"), [("len(val)", True), ("8", False)])
def test_loaders_of_other_files_that_give_all_in_one_batch(size: str, stays: bool) -> None:
    code = {
        "engine.py": """
            import torch.nn.functional as F

            def evaluate(data_iter, model):
                total = 0.0
                for x, y in data_iter:
                    total += F.cross_entropy(model(x.cuda()), y.cuda()).item()
                return total
            """,
        "main.py": f"""
            import engine
            from torch.utils.data import DataLoader

            def load(val, test):
                return DataLoader(val, batch_size={size}), DataLoader(test, batch_size=len(test))

            def main(model, val, test):
                dev_iter, test_iter = load(val, test)
                print(engine.evaluate(dev_iter, model), engine.evaluate(test_iter, model))
            """,
    }
    given = [Given(path, textwrap.dedent(text).lstrip().encode(), dotted_names(path)) for path, text in code.items()]
    found = rewrite_together(given, [ScalarAccumulation()], Choice())[0]
    assert (found.outcome is Outcome.UNCHANGED) is stays
    assert any("gives all samples in one batch" in each.reason for each in found.refused) is stays


@pytest.mark.parametrize(("fed", "after", "is_open"), [
    ("total += loss.item()", "return total", True),
    ("total += loss.item()", "print(total)", False),
    ("total += (out.argmax(1) == y).sum().item()", "return total", False),
])  # fmt: skip
def test_float64_is_a_question_where_the_code_has_to_run_elsewhere(fed: str, after: str, is_open: bool) -> None:
    start = "total = 0" if "argmax" in fed else "total = 0.0"
    code = training(start, fed, after).encode()
    assert rewrite(code, "train.py", [ScalarAccumulation()], Choice()).outcome is Outcome.CHANGED
    portable = rewrite(code, "train.py", [ScalarAccumulation()], Choice(policy=Policy(Target.PORTABLE)))
    why = "`total` needs float64, which devices such as MPS do not have"
    assert [(each.safety, each.reason) for each in portable.held_back] == [(Safety.UNSAFE, why)] * is_open


STEERS = {
    "is returned to nobody in sight": ("return total", True),
    "is compared": ("if total < 3:\n    model.save()", True),
    "is given to a scheduler": ("model.scheduler.step(total / len(loader))", True),
    "is stored": ("model.best = total", True),
    "is subtracted": ("print(squares / 9 - (total / 9) ** 2)", True),
    "has a term subtracted in place": ("total -= 9\nprint(total)", True),
    "is truncated": ("print(f'{int(total / len(loader) * 100)}%')", True),
    "is divided to an integer": ("print(total // 9)", True),
    "is rounded down": ("import math\nprint(math.floor(total))", True),
    "is shown as a remainder": ("print(total % 1)", True),
    "has a spread": ("import numpy as np\nseen = []\nseen.append(total)\nprint(np.std(seen))", True),
    "is formatted by a percent sign": ("print('%.3f' % total)", False),
    "is shown as a perplexity": ("import math\nprint(math.exp(total / 9))", False),
    "is printed": ("mean = total / len(loader)\nprint('mean', round(mean, 3))", False),
    "is logged and plotted": (("import matplotlib.pyplot as plt\nseen = []\nseen.append(total)\nplt.plot(seen)\n"
          "model.log(total)"), False),
}  # fmt: skip


@pytest.mark.parametrize("name", STEERS)
def test_float64_only_where_a_digit_could_decide_something(name: str) -> None:
    after, steers = STEERS[name]
    found = result(training("total = 0.0", "total += loss.item()", after))
    assert ("total += loss.detach().double()\n" in found.after.decode()) is steers
    assert [finding.figures_may_differ for finding in found.applied] == [not steers]


@pytest.mark.parametrize(
    ("use", "steers"),
    [("print(shown)", False), ("best = min(best, shown)\n    print(best)", False), ("print(shown < best)", True)],
)
def test_callers_say_whether_a_digit_could_decide_something(use: str, steers: bool) -> None:
    code = training("total, seen = 0.0, 0", "total += loss.item()\nseen += len(x)", "return total / seen, seen")
    code += f"\n\ndef main():\n    best = 9.0\n    shown, count = fit(None, [], None, 'cuda')\n    {use}\n\n\nmain()\n"
    assert ("total += loss.detach().double()\n" in result(code).after.decode()) is steers


def test_sums_of_half_types_are_float32() -> None:
    code = training(
        "model.half()\ntotal, seen = 0.0, []", "total += loss.item()\nseen.append(loss.item())", "print(total, seen)"
    )
    after = result(code).after.decode()
    assert "total += loss.detach().float()\n" in after
    assert "seen.append(loss.detach())\n" in after


STORED = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rate", torch.zeros(()))

    def forward(self, x):
        self.rate.mul_(0.9)
        return x, self.rate
"""


@pytest.mark.parametrize(("before", "step", "after"), [
    ("seen = []", "out, rate = net(x)\nseen.append(rate.item())", "seen.append(rate.detach().clone())"),
    ("seen = []", "seen.append(model.rate_of(x).item())", "seen.append(model.rate_of(x).detach().clone())"),
    ("seen = []", "seen.append(loss.item())", "seen.append(loss.detach())"),
    ("model = torch.compile(model, mode='reduce-overhead')\nseen = []", "seen.append(loss.item())",
     "seen.append(loss.detach().clone())"),
])  # fmt: skip
def test_lists_copy_what_others_may_write(before: str, step: str, after: str) -> None:
    code = training(f"net = Net().to(device)\n{before}", step, "print(seen)") + STORED
    found = result(code, unsafe=True)
    assert f"{after}\n    seen = torch.stack(seen).tolist()\n" in found.after.decode(), found.refused


@pytest.mark.parametrize("step", [
    "if step > 3:\n    seen.append(loss.item())",
    "if step > 3:\n    continue\nseen.append(loss.item())",
    "try:\n    seen.append(loss.item())\nexcept ValueError:\n    pass",
])  # fmt: skip
def test_a_list_stays_that_not_every_round_appends_to(step: str) -> None:
    assert any(says(each, "not every round … `seen`") for each in reasons(training("seen = []", step, "print(seen)")))


def test_a_list_stays_that_a_resumed_training_may_not_fill() -> None:
    loops = "for epoch in range({}epochs):\n    for x in loader:\n"
    body = "        loss = model(x.cuda()).mean()\n        loss.backward()\n        losses.append(loss.item())\n"
    code = "import torch\n\ndef fit(model, loader, first, epochs):\n    losses = []\n{}    return losses\n"
    for first, stays in (("first, ", True), ("1, ", False), ("", False)):
        found = result(code.format(textwrap.indent(loops.format(first) + body, "    ")))
        assert (found.outcome is Outcome.UNCHANGED) is stays


WAITS = {
    "the next line asks for another value": ("total += loss.item()\nprint((out > 0).sum().item())", 15),
    "a branch asks for the loss": ("if torch.isnan(loss):\n    break\ntotal += loss.item()", 14),
    "a function that is called waits": ("total += loss.item()\nscore(out)", 27),
    "predictions go to NumPy": ("total += loss.item()\nkeep.append(out.argmax(1).cpu().numpy())", 15),
    "a tensor is shown": ("total += loss.item()\nprint(out)", 15),
    "a report of a number": ("total += loss.item()\nlog(float(loss.item()))", 15),
    "figures of what is not known": ("total += loss.item()\nseen += float(nll.sum())", 15),
    "a copy of what is not known": ("total += loss.item()\nkeep.append(state.hidden.cpu())", 15),
    "a figure that is guarded against zero": ("total += loss.item()\nlog(loss.item() / n if n > 0 else 0)", 15),
    "a table on the host": ("table = torch.zeros(3, 2)\ntotal += loss.item()\ntable[0] = out[0]", 16),
    "an array": ("seen = np.zeros(3)\ntotal += loss.item()\nseen[0] += out.mean()", 16),
    "an array that a metric fills": ("total += loss.item()\nmeasure(out, y, [metric])", 30),
    "a bank on the device": (("bank = torch.zeros(9, device=device)\nbank[step : step + 3] = torch.ones(3)\n"
          "total += loss.item()"), 15),
    "a sum that stays": ("print(loss.item())\ntotal += loss.item()", 14),
}  # fmt: skip
SCORE = """
import numpy as np


def score(out):
    return out.max().item()


def measure(out, y, metrics):
    seen = np.zeros(len(metrics))
    for i, metric in enumerate(metrics):
        seen[i] += metric(out, y)
    return seen


def later(out):
    if out.sum() > 3:
        print(out)


def accuracy(out, y, evaluator=None):
    if evaluator is not None:
        return evaluator(out, y)
    else:
        return (out.max(1) == y).sum().item()
"""
PROTOTYPES = """
class Client:
    def __init__(self):
        self.centres = None

    def evaluate(self, model, loader):
        losses = 0
        with torch.no_grad():
            for x, y in loader:
                y = y.cuda()
                out = model(x.cuda())
                loss = F.cross_entropy(out, y)
                if self.centres is {asked}:
                    for i, each in enumerate(y):
                        out[i] = self.centres[each.item()]
                    loss += F.mse_loss(out, model(x.cuda()))
                losses += loss.item() * y.shape[0]
        return losses
"""


@pytest.mark.parametrize(("asked", "waits"), [("not None", True), ("None", False)])
def test_a_part_that_is_missing_at_first(asked: str, waits: bool) -> None:
    code = "import torch\nimport torch.nn.functional as F\n" + PROTOTYPES.replace("{asked}", asked)
    found = result(code)
    why = ["line 17 waits for the device in every step anyway"] if waits else []
    assert [each.reason for each in found.held_back] == why
    assert (found.outcome is Outcome.UNCHANGED) is waits


@pytest.mark.parametrize(("given", "waits"), [("", True), (", model.rate", False), (", *model.rates", False)])
def test_an_argument_that_is_left_out(given: str, waits: bool) -> None:
    step = f"total += loss.item()\nseen = accuracy(x, y{given})"
    code = training("total = 0.0", step, "print(total)") + SCORE
    assert (result(code).outcome is Outcome.UNCHANGED) is waits


@pytest.mark.parametrize("name", WAITS)
def test_is_held_back_where_every_step_waits_anyway(name: str) -> None:
    step, line = WAITS[name]
    code = training("total, keep, nll, seen = 0.0, [], None, 0", step, "print(total, seen)")
    code = code.replace("        optimizer.zero_grad()\n", "        nll = model.nll; optimizer.zero_grad()\n")
    # What `score` waits for stands behind the training.
    code += SCORE
    behind = {27: "out.max()", 30: "seen[i] +="}
    line = code[: code.index(behind[line])].count("\n") + 1 if line in behind else line
    assert held_back(code) == [(Safety.LOW_IMPACT, f"line {line} waits for the device in every step anyway")]


@pytest.mark.parametrize("step", [
    "total += loss.item()\nif step % 100 == 0:\n    print(loss.item())",
    "total += loss.item()\nif step > 3 and out.sum() > 3:\n    pass",
    "total += loss.item()\nif step:\n    print(loss.item())",
    "total += loss.item()\ntry:\n    step += 1\nexcept ValueError:\n    print(loss.item())",
    "total += loss.item()\ny = y.to(device)",
    "total += loss.item()\nkeep.append(float(model.rate))",
    "bank = torch.zeros(9, device=device)\nbank[step] = torch.tensor(0.5)\ntotal += loss.item()",
    "seen = np.zeros(3)\nseen[0] = y.shape[0]\ntotal += loss.item()",
    "total += loss.item()\nkeep.append(float(np.square(3).sum()))",
])  # fmt: skip
def test_what_few_steps_wait_for_does_not_count(step: str) -> None:
    found = result(training("import numpy as np\ntotal, keep = 0.0, []", step, "print(total, keep)"))
    assert "total += loss.detach()" in found.after.decode(), found.held_back


TESTER = """
import torch

class Tester:
    def __init__(self, model, loader, criterion, metric, device):
        self.model, self.loader, self.device = model, loader, device
        self.criterion = criterion
        self.metric = metric

    def run(self):
        total = 0.0
        for data in self.loader:
            x, y = data[0].to(self.device), data[1].to(self.device)
            with torch.no_grad():
                out = self.model(x)
                loss = self.criterion(out, y)
            total += loss.item()
            self.metric.add(out.detach(), y.detach())
        return total / len(self.loader)
"""
METRICS = """
import numpy as np
import torch

class Confusion:
    def __init__(self, count):
        self.table = np.zeros((count, count))

    def add(self, predicted, target):
        if {asked}:
            predicted = predicted.cpu().numpy()
        self.table += np.bincount(predicted * 3 + target, minlength=9).reshape(3, 3)

class Metric:
    def add(self):
        raise NotImplementedError

class Overlap(Metric):
    def __init__(self, count):
        self.confusion = Confusion(count)

    def add(self, predicted, target):
        if predicted.dim() == 4:
            _, predicted = predicted.max(1)
        self.confusion.add(predicted.view(-1), target.view(-1))
"""
CALLER = """
import torch
from torch import nn
from metrics import Overlap
from tester import Tester

def train(model, loader):
    metric = Overlap(3)
    val = Tester(model, loader, nn.CrossEntropyLoss(), metric, "cuda")
    print(val.run())

def test(model, loader):
    metric = Overlap(3)
    print(Tester(model, loader, nn.CrossEntropyLoss(), metric, "cuda").run())
"""


@pytest.mark.parametrize(
    ("asked", "waits"),
    [("torch.is_tensor(predicted)", True), ("isinstance(predicted, torch.Tensor)", True), ("self.table.any()", False)],
)
def test_a_metric_of_another_file_that_waits(asked: str, waits: bool) -> None:
    code = {"tester.py": TESTER, "metrics.py": METRICS.replace("{asked}", asked), "main.py": CALLER}
    given = [Given(path, text.lstrip().encode(), dotted_names(path)) for path, text in code.items()]
    found = next(each for each in rewrite_together(given, [ScalarAccumulation()], Choice()) if each.path == "tester.py")
    if waits:
        why = "line 10 of metrics.py waits for the device in every step anyway"
        assert [(each.safety, each.reason) for each in found.held_back] == [(Safety.LOW_IMPACT, why)]
    else:
        assert "total += loss" in found.after.decode(), found.refused


def test_what_waits_before_the_loss_is_there_does_not_count() -> None:
    code = training("total = 0.0", "total += loss.item()", "print(total)")
    code = code.replace(
        "        out = model(x)\n", "        if x.max() > 9:\n            continue\n        out = model(x)\n"
    )
    assert "total += loss.detach()" in result(code).after.decode()


def test_what_waits_just_before_counts_where_nothing_is_queued_between() -> None:
    parts = ("total = 0.0", "print(out.max().item())\ntotal += loss.item()", "print(total)")
    assert held_back(training(*parts)) == [(Safety.LOW_IMPACT, "line 14 waits for the device in every step anyway")]


def test_is_held_back_without_an_accelerator() -> None:
    code = training("total = 0.0", "total += loss.item()", "print(total)").replace(
        "        x, y = x.to(device), y.to(device)\n", "        x, y = x.to('cpu'), y.float()\n"
    )
    assert held_back(code) == [(Safety.LOW_IMPACT, "this script never uses the GPU")]


def test_sums_of_one_loop_are_one_finding() -> None:
    step = "total += loss.item()\nhits += (out.argmax(1) == y).sum().item()"
    found = result(training("total, hits = 0.0, 0", step, "return total, hits"))
    assert [finding.reason for finding in found.applied] == [
        "`total` and `hits` are only needed as a number on line 16, not in every step"
    ]


@pytest.mark.parametrize("kind", ["sum", "list"])
@pytest.mark.parametrize(("around", "line"), [
    ("with contextlib.suppress(StopIteration):\n{}", "`with` on line 8"),
    ("try:\n{}\nexcept KeyboardInterrupt:\n    pass", "`try` on line 8"),
    ("try:\n{}\nfinally:\n    print(step)", "`try` on line 8"),
    ("try:\n{}\nexcept KeyboardInterrupt:\n    raise", ""),
])  # fmt: skip
def test_where_an_exception_may_end_the_loop(kind: str, around: str, line: str) -> None:
    start, fed = ("0.0", "total += loss.item()") if kind == "sum" else ("[]", "total.append(loss.item())")
    loop = f"for step in loader:\n    loss = model(step.cuda()).mean()\n    loss.backward()\n    {fed}"
    body = f"total = {start}\n" + around.format(textwrap.indent(loop, "    ")) + "\nreturn total"
    code = "import contextlib\nimport torch\n\n\ndef fit(model, loader):\n    step = 0\n" + textwrap.indent(
        body, "    "
    )
    found = result(code + "\n")
    said = [finding.reason for finding in found.refused]
    wanted = f"an exception may end the loop, and the code after the {line} would see `total` as a tensor"
    assert said == ([wanted] if line else [])


SILENT = {
    "after the steps": ("total = 0.0", "pass", "total += loss.item()"),
    "numbers": ("total = 0.0", "total += len(x) * 2.0", "print(total)"),
    "an array": ("import numpy as np\ntotal = 0.0", "total += np.ones(3).mean().item()", "print(total)"),
    "a tensor of the CPU": ("total = 0.0", "total += torch.ones(3).mean().item()", "print(total)"),
    "reported in every step": ("", "print(loss.item())", ""),
    "on the device already": ("total = 0.0", "total += loss.detach()", "print(total.item())"),
}


@pytest.mark.parametrize("parts", SILENT.values(), ids=SILENT)
def test_is_silent(parts: tuple[str, str, str]) -> None:
    assert reasons(training(*parts)) == []


EVALUATION = """

@torch.no_grad()
def evaluate(model, loader, device):
    total, hits = 0.0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        total += {loss}
        hits += {hits}
{numbers}    return total / len(loader), hits
"""


def test_evaluation() -> None:
    before = training("", "pass", "") + EVALUATION.format(
        loss="F.cross_entropy(out, y).item()", hits="(out.argmax(1) == y).sum().item()", numbers=""
    )
    after = training("", "pass", "") + EVALUATION.format(
        loss="F.cross_entropy(out, y).double()",
        hits="(out.argmax(1) == y).sum()",
        numbers="    total = float(total)\n    hits = int(hits)\n",
    )
    assert_becomes(before, after)


def test_evaluation_that_copies_its_outputs_waits_anyway() -> None:
    code = training("", "pass", "") + EVALUATION.format(
        loss="F.cross_entropy(out, y).item()", hits="keep(out.cpu().numpy())", numbers=""
    )
    assert [safety for safety, _ in held_back(code)] == [Safety.LOW_IMPACT]


def test_evaluation_between_the_steps() -> None:
    before = training(
        "valid_loader = loader",
        "if step % 100 == 0:\n    total = 0.0\n    for x, y in valid_loader:\n"
        "        total += F.cross_entropy(model(x.cuda()), y.cuda()).item()\n    print(total)",
        "",
    )
    after = before.replace(".item()\n", ".detach()\n            total = float(total)\n")
    assert_becomes(before, after)


def test_rounds_under_no_grad_over_an_unknown_iterable() -> None:
    code = textwrap.dedent("""
        import torch
        import torch.nn.functional as F

        def evaluate(model, batches, device):
            model.eval()
            total = 0.0
            for x, y in batches:
                with torch.no_grad():
                    out = model(x.to(device))
                    loss = F.cross_entropy(out, y.to(device))
                    total += loss.item()
            return total
        """)
    assert "            total += loss.double()\n    total = float(total)\n" in result(code).after.decode()


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
TENSORS = "loss.detach(), (out.argmax(1) == y.cuda()).sum()"
STEP = "train_step(model, x, y, optimizer)"


@pytest.mark.parametrize(("before", "after"), [
    (("loss.item()", f"total += {STEP}", "print(total)"),
     ("loss.detach()", f"total += {STEP}", "total = float(total)\nprint(total)")),
    (("loss.item()", f"losses.append({STEP})", "print(losses)"),
     ("loss.detach()", f"losses.append({STEP})", "losses = torch.stack(losses).tolist()\nprint(losses)")),
    ((FIGURES, f"loss, n = {STEP}; total += loss * 2; hits += n", "print(total, hits)"),
     (TENSORS, f"loss, n = {STEP}; total += loss * 2; hits += n",
      "total = float(total)\nhits = int(hits)\nprint(total, hits)")),
    (("loss.item()", f"loss = {STEP}; total += loss", "print(total, loss)"),
     ("loss.detach()", f"loss = {STEP}; total += loss", "total = float(total)\nprint(total, loss.item())")),
])  # fmt: skip
def test_figure_that_is_returned_to_who_adds_it_up(before: tuple[str, str, str], after: tuple[str, str, str]) -> None:
    old, new = (
        RETURNED.format(returned=returned, called=called, behind=textwrap.indent(behind, "    "))
        for returned, called, behind in (before, after)
    )
    assert_becomes(old, new)


@pytest.mark.parametrize(("called", "reason"), [
    (f"loss = {STEP}; total += loss; print(loss)", "`loss` … as a number on line 17"),
    (f"total += {STEP}; print({STEP})", "`train_step` … as a number on line 17"),
    (f"total += {STEP}; model.hook(train_step)", "`train_step` may be called by code"),
])  # fmt: skip
def test_figure_that_the_caller_needs(called: str, reason: str) -> None:
    found = reasons(RETURNED.format(returned="loss.item()", called=called, behind="    print(total)"))
    assert any(says(each, reason) for each in found), found


TRAINER = """\
import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.total = 0.0

    def fit(self, loader):
        for x, y in loader:
            loss = (self.model(x.cuda()) - y.cuda()).square().mean()
            loss.backward()
            self.total += {added}{more}
{behind}        return self.total / len(loader)

    def show(self):
        print(self.total)
"""


def test_attribute_is_a_number_again_behind_the_loop() -> None:
    behind = "        self.total = float(self.total)\n"
    assert_becomes(
        TRAINER.format(added="loss.item()", more="", behind=""),
        TRAINER.format(added="loss.detach().double()", more="", behind=behind),
    )


HANDED_OUT = {
    "a scheduler": "torch.optim.lr_scheduler.LambdaLR(optimizer, self.show)",
    "a thread": "threading.Thread(target=self.show).start()",
    "a partial function": "callbacks = [functools.partial(self.show)]",
    "a hook of another object": "model.register_forward_hook(trainer.show)",
    "a lambda": "signal.signal(signal.SIGINT, lambda *_: self.show())",
    "a function": "atexit.register(report)",
}


@pytest.mark.parametrize("name", HANDED_OUT)
def test_code_that_is_handed_out_may_see_an_attribute_while_the_loop_runs(name: str) -> None:
    code = TRAINER.format(added="loss.item()", more="", behind="")
    code += f"\n    def start(self, model, optimizer, trainer):\n        {HANDED_OUT[name]}\n"
    code += "\n\ndef report():\n    Trainer(None).show()\n"
    assert reasons(code) == ["`self.total` on line 17 may be `self.total`"]


@pytest.mark.parametrize("handed", ["self.other", "lambda: self.other", "main"])
def test_what_is_handed_out_without_reading_an_attribute_is_no_reason(handed: str) -> None:
    code = TRAINER.format(added="loss.item()", more="", behind="")
    code += f"\n    def other(self):\n        atexit.register({handed})\n"
    code += "\n\ndef main():\n    trainer = Trainer()\n    trainer.fit([])\n    print(trainer.total)\n"
    assert "self.total += loss.detach()" in result(code).after.decode()


def test_property_that_reads_an_attribute_in_every_step() -> None:
    code = TRAINER.format(added="loss.item()", more="\n            print(self.mean)", behind="")
    code += "\n    @property\n    def mean(self):\n        return self.total / 2\n"
    assert reasons(code) == ["`self.total` on line 22 may be `self.total`"]


@pytest.mark.parametrize(("more", "reason"), [
    ("self.show()", "`self.total` on line 18 may be `self.total`"),
    ("self.callbacks.after_step()", "`self.callbacks.after_step` on line 14 … `self.total`"),
    ("watch(self)", "`self` … as a whole on line 14"),
    ("print(getattr(self, name))", "line 14 may read `self.total` by name"),
    ("if x.sum() > 1: return", "`return` on line 14 … `self.total`"),
    ("if not x: raise ValueError", "`raise` on line 14 … `self.total`"),
    ("print(self.total)", "`self.total` … every step on line 14"),
])  # fmt: skip
def test_attribute_that_somebody_may_read_in_the_loop(more: str, reason: str) -> None:
    found = reasons(TRAINER.format(added="loss.item()", more="\n            " + more, behind=""))
    assert any(says(each, reason) for each in found), found


@pytest.mark.parametrize(("caller", "kind"), [
    ("try:\n        trainer.fit(loader)\n    except KeyboardInterrupt:\n        print(trainer.total)", "try"),
    ("try:\n        trainer.fit(loader)\n    finally:\n        print(trainer.total)", "try"),
    ("with contextlib.suppress(ValueError):\n        trainer.fit(loader)\n    print(trainer.total)", "with"),
    ("try:\n        run(trainer, loader)\n    except ValueError: pass\n    print(trainer.total)", "try"),
    ("try:\n        trainer.fit(loader)\n    except ValueError:\n        raise", ""),
    ("try:\n        trainer.fit(loader)\n    except ValueError as error:\n        sys.exit(error)", ""),
    ("try:\n        trainer.fit(loader)\n    except ValueError:\n        if loader:\n            raise", "try"),
    ("try:\n        loader()\n    except ValueError: pass\n    trainer.fit(loader)", ""),
])  # fmt: skip
def test_attribute_that_is_read_behind_an_exception(caller: str, kind: str) -> None:
    code = TRAINER.format(added="loss.item()", more="", behind="")
    code += "\n\nimport contextlib, sys\n\ndef main(trainer: Trainer, loader):\n    " + caller
    code += "\n\ndef run(trainer: Trainer, loader):\n    trainer.fit(loader)\n"
    code += "\nmain(Trainer(None), [])\n"
    wanted = (
        f"an exception may end the loop, and the code after the `{kind}` on line 23 would see `self.total` as a tensor"
    )
    assert [each.reason for each in result(code).refused] == ([wanted] if kind else [])


@pytest.mark.parametrize("more", [
    "def scale(trainer):\n    trainer.total /= 24\n",
    "trainer = Trainer(None)\ntrainer.total = 0.5\n",
    "setattr(Trainer(None), 'total', 0.5)\n",
    "def fill(t, saved):\n    t.__dict__.update(saved)\n",
])  # fmt: skip
def test_attributes_that_others_set(more: str) -> None:
    code = TRAINER.format(added="(loss > 1).sum().item()", more="", behind="").replace("0.0", "0")
    assert "self.total += (loss > 1).sum()\n" in result(code).after.decode()
    assert reasons(code + "\n\n" + more)


APPENDED = {
    "float(hits)": "append(hits.double())",
    "int(hits > 3)": "",
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
    found = result(code, selected=True)
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


def test_list_over_several_epochs_becomes_numbers_behind_all_of_them() -> None:
    before = textwrap.dedent("""
        import torch

        def fit(model, loader, epochs):
            losses = []
            for epoch in range(epochs):
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    losses.append(loss.item())
            return losses
        """)
    after = before.replace("append(loss.item())", "append(loss.detach())").replace(
        "    return", "    losses = torch.stack(losses).tolist()\n    return"
    )
    assert_becomes(before, after)


def test_sum_over_several_epochs_becomes_a_number_behind_all_of_them() -> None:
    before = textwrap.dedent("""
        import torch

        def fit(model, loader, epochs):
            total, shown = 0.0, 0.0
            for epoch in range(epochs):
                for x in loader:
                    loss = model(x.cuda()).mean()
                    loss.backward()
                    total += loss.item()
                    shown += loss.item()
                print(epoch, shown)
            return total
        """)
    after = (
        before.replace("total += loss.item()", "total += loss.detach().double()")
        .replace("loss.item()", "loss.detach()")
        .replace("        print(", "        shown = float(shown)\n        print(")
        .replace("    return", "    total = float(total)\n    return")
    )
    assert_becomes(before, after)


def test_is_held_back_where_the_loop_is_a_part_of_every_step() -> None:
    code = textwrap.dedent("""
        import torch

        def fit(model, loader, optimizer):
            for x in loader:
                found = 0.0
                for part in x.cuda().chunk(2):
                    loss = model(part).mean()
                    found += loss.item()
                    loss.backward()
                optimizer.step()
                print(found)
        """)
    assert held_back(code) == [(Safety.LOW_IMPACT, "the read after the loop on line 7 would wait in every step")]


def test_list_that_grows_in_every_step_stays() -> None:
    code = textwrap.dedent("""
        import torch

        def fit(model, critic, loader):
            losses = []
            for x in loader:
                for _ in range(5):
                    loss = critic(x.cuda()).mean()
                    loss.backward()
                    losses.append(loss.item())
                model(x.cuda()).mean().backward()
                print(losses[-1])
            return losses
        """)
    (reason,) = reasons(code)
    assert says(reason, "`losses` keeps growing … line 6")


@pytest.mark.parametrize("differentiated", [
    "scaler.scale(loss).backward()",
    "accelerator.backward(loss)",
    "(loss / 4).backward()",
    "loss = loss + 0.1 * model.penalty()\nloss.backward()",
    "whole = 0.5 * other + loss\nwhole.backward(retain_graph=True)",
])  # fmt: skip
def test_loss_of_a_criterion_from_elsewhere(differentiated: str) -> None:
    code = "import torch\n\ndef fit(model, loader, criterion, scaler, accelerator, other):\n    total = 0.0\n"
    code += "    for x, y in loader:\n"
    step = f"loss = criterion(model(x.cuda()), y)\n{differentiated}\ntotal += loss.item()"
    code += textwrap.indent(step, " " * 8) + "\n    return total\n"
    after = b"total += loss.detach().double()\n    total = float(total)\n    return total"
    assert after in result(code).after


ADDING = textwrap.dedent("""
    import torch


    def fit(losses, logits, labels, device):
        total, seen, mean, smooth, hits, share, minus, kept = 0.0, 0, 0.0, 0.0, 0, 0.0, 1.5, 0.0
        history, counts = [], []
        stats = {"loss": 0.0}
        for step, (loss, out, y) in enumerate(zip(losses, logits, labels)):
            out, y = out.to(device), y.to(device)
            loss.backward()
            value = 2 * loss.item()
            kept += value
            total += loss.item()
            mean += loss.item() * y.size(0)
            seen += y.size(0)
            smooth = 0.9 * smooth + 0.1 * loss.item()
            hits += (torch.argmax(out, 1) == y).sum().item()
            share += (torch.argmax(out, 1) == y).float().mean().item() * 100.
            minus -= 3 * float(loss) + 0.25
            stats["loss"] += loss.item() / 3
            history.append(loss.sum().item())
            counts.append((torch.argmax(out, 1) == y).sum().item())
            if step % 3 == 2:
                print(step, repr(total), f"{mean:.17g}", "%.3e %d" % (smooth, hits), value)
                total = 0.0
        total /= 7
        print(repr(total), mean, mean / max(seen, 1), smooth, hits, share, minus, stats["loss"], kept)
        print(history, counts, type(mean), type(hits), [type(value) for value in history + counts])
        return total, mean, smooth, share, minus, kept
    """)


@functools.cache
def rewritten_adding() -> FileResult:
    return result(ADDING, selected=True)


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
@pytest.mark.parametrize("steps", [1, 8])
@pytest.mark.parametrize(("dtype", "special"), list(itertools.product(DTYPES, SPECIAL)), ids=str)
def test_every_printed_digit_is_the_same(dtype: torch.dtype, special: str, steps: int) -> None:
    rewritten = rewritten_adding()
    assert b"item()" not in rewritten.after.replace(b"value.item()", b"")
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
    assert "total += loss.double()" in found.after.decode(), found
    # `float(None)` raises another error than `None.double()` does.
    found = rewrite(textwrap.dedent(code).format(read="float(loss)").encode(), "eval.py", [ScalarAccumulation()])
    assert found.outcome is Outcome.UNCHANGED


FITTED = """
import torch

def fit(model, loader, save):
    losses = []
    for x in loader:
        loss = model(x.cuda()).mean()
        loss.backward()
        losses.append(loss.item())
BEHIND

def main(model, loader, save):
    CALLED
"""


def test_an_empty_loader_fails_at_one_line_or_the_next() -> None:
    """The error is another; `changes_results` says so."""
    code = FITTED.replace("BEHIND", "    return sum(losses) / len(losses)").replace("CALLED", "pass")
    for text, error in ((code, ZeroDivisionError), (result(code).after.decode(), RuntimeError)):
        space: dict[str, Any] = {}
        exec(text, space)
        with pytest.raises(error):
            space["fit"](None, [], None)
    assert "an empty loader may fail in another line than before" in ScalarAccumulation.changes_results


@pytest.mark.parametrize(("value", "is_real"), [
    ("torch.fft.fft(out)[0, 1]", False),
    ("(torch.fft.rfft(out) / 2).mean()", False),
    ("torch.view_as_complex(out)[0]", False),
    ("out.to(torch.complex64).sum()", False),
    ("torch.fft.fft(out).abs().mean()", True),
    ("torch.fft.fft(out).real.mean()", True),
    ("torch.fft.irfft(out).mean()", True),
])  # fmt: skip
def test_complex_values_are_added_by_python(value: str, *, is_real: bool) -> None:
    code = training("total = 0.0", f"total += {value}.item()", "print(total)")
    assert (result(code).outcome is Outcome.CHANGED) == is_real


@pytest.mark.parametrize(("before", "step", "after"), [
    ("", "norm = 0.0\nfor p in model.parameters():\n    norm += p.grad.norm().item() ** 2\nprint(norm)", ""),
    ("norm = 0.0", "for _, p in model.named_parameters():\n    norm += p.grad.norm().item() ** 2", "print(norm)"),
])  # fmt: skip
def test_norms_of_the_gradients_are_added_up_on_the_device(before: str, step: str, after: str) -> None:
    text = result(training(before, step, after)).after.decode()
    assert "norm += p.grad.norm() ** 2\n" in text
    # Begun anew in each step it is needed there, else behind the epoch.
    (line,) = (line for line in text.splitlines() if "norm = float(norm)" in line)
    assert (len(line) - len(line.lstrip()) > 4) == (not before)


@pytest.mark.parametrize("changed", [
    ("** 2", "** 3"),
    ("model.parameters()", "losses"),
    ("import torch\n", "import torch\nfrom torch.distributed.fsdp import fully_shard\n"),
    ("import", "DTYPE = float64\nimport"),
])  # fmt: skip
def test_norms_that_stay(changed: tuple[str, str]) -> None:
    step = "norm = 0.0\nfor p in model.parameters():\n    norm += (p + 1).norm().item() ** 2\nprint(norm)"
    code = training("", step, "")
    assert result(code).outcome is Outcome.CHANGED
    assert result(code.replace(*changed, 1)).outcome is Outcome.UNCHANGED


@pytest.mark.parametrize(("change", "is_rewritten"), [("pass", True), ("figures[0] = np.float64(step)", False)])
def test_an_item_of_a_list_that_is_replaced_may_be_no_tensor(change: str, *, is_rewritten: bool) -> None:
    step = f"figures = [loss, loss]\n{change}\ntotal += figures[0].item()"
    code = "import numpy as np\n" + training("total = 0.0", step, "return total")
    assert (result(code).outcome is Outcome.CHANGED) is is_rewritten
