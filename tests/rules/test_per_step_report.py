"""PM107: what is read where it is used now and then, what is refused, and that the figures are the same."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Numerics, Safety
from perfmod.transforms.policy import Policy
from perfmod.transforms.syncs.per_step_report import PerStepReport

HEAD = """\
import math
import torch
import torch.nn.functional as F


def train(model, loader, optimizer, device, args, writer, pbar, logger):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x).float()
        kl = out.square().mean()
        ce = F.cross_entropy(out, y)
        loss = ce + kl
        hits = (out.argmax(1) == y).sum()
        loss.backward()
"""


def step(body: str, behind: str = "", head: str = HEAD) -> str:
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"
    return head + inside + textwrap.indent(behind, " " * 4)


def result(code: str) -> FileResult:
    found = rewrite(code.encode(), "train.py", [PerStepReport()], Choice(unsafe=True))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reasons(code: str) -> list[str]:
    """Why code that stays as it is is refused."""
    found = result(code)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [finding.reason for finding in found.refused]


LATE = {
    "in a report of every tenth step": (("v = kl.item()\nif i % 10 == 0:\n    print(i, v)", ""),
        ("v = kl.detach()\nif i % 10 == 0:\n    print(i, v.item())", "")),
    "under a switch of reports": (("v = float(kl)\nif args.log_now:\n    args.v = v; print(v)", ""),
        ("v = kl.detach()\nif args.log_now:\n    v = v.item()\n    args.v = v; print(v)", "")),
    "in many places of one report": (("v = kl.item()\nif i % 10 == 0:\n    print(v, v / 2)\n    print(-v)", ""),
        ("v = kl.detach()\nif i % 10 == 0:\n    v = v.item()\n    print(v, v / 2)\n    print(-v)", "")),
    "in two reports": (("v = kl.item()\nif i % 10 == 0:\n    print(v, v / 2)\nif i % 50 == 0:\n    print(v)", ""),
        ("v = kl.detach()\nif i % 10 == 0:\n    print(v.item(), v.item() / 2)\nif i % 50 == 0:\n    print(v.item())",
         "")),
    "a count": (("v = hits.item()\nif i % 10 == 0:\n    print('%d' % v)", ""),
        ("v = hits\nif i % 10 == 0:\n    print('%d' % v.item())", "")),
    "computed": (("v = 100 * hits.item()\nif i % 10 == 0:\n    print(v)", ""),
        ("v = 100 * hits\nif i % 10 == 0:\n    print(v.item())", "")),
    "changed in place meanwhile": (("v = kl.item()\nkl.data.zero_()\nif i % 10 == 0:\n    print(v)", ""),
        ("v = kl.detach().clone()\nkl.data.zero_()\nif i % 10 == 0:\n    print(v.item())", "")),
    "behind the loop": (("v = kl.item()", "print(v)\n"), ("v = kl.detach()", "print(v.item())\n")),
    "two in one assignment": (("v, w = kl.item(), hits.item()\nif i % 10 == 0:\n    print(v, w)", ""),
        ("v, w = kl.detach(), hits\nif i % 10 == 0:\n    print(v.item(), w.item())", "")),
}  # fmt: skip


@pytest.mark.parametrize(("more", "kept"), [
    ("", "v = p.grad.norm()"),
    ("p.grad.zero_()", "v = p.grad.norm()"),
    ("p.grad = None", "v = p.grad.norm()"),
    ("loss.backward(create_graph=True)", "v = p.grad.norm().detach()"),
    ("p.grad = 2 * ce", "v = p.grad.norm().detach()"),
    ("p.grad += 2 * p", "v = p.grad.norm().detach()"),
])  # fmt: skip
def test_gradients_have_no_graph_unless_somebody_asks_for_it(more: str, kept: str) -> None:
    after = result(step(f"v = p.grad.norm().item()\n{more}\nif i % 10 == 0:\n    print(v)")).after.decode()
    assert after.endswith(step(f"{kept}\n{more}\nif i % 10 == 0:\n    print(v.item())"))


@pytest.mark.parametrize("name", LATE)
def test_what_is_used_now_and_then_is_read_there(name: str) -> None:
    before, after = (step(*parts) for parts in LATE[name])
    found = result(before)
    assert found.after.decode() == after, [finding.reason for finding in found.refused]
    assert {finding.safety for finding in found.applied} == {Safety.SAFE}
    assert result(after).outcome is Outcome.UNCHANGED


def test_a_number_may_be_there_instead_of_the_tensor() -> None:
    body, behind = "if i:\n    v = {}\nif i % 10 == 0:\n    print({})", "print({})\n"
    head = HEAD.replace("    for i,", "    v = 0.5\n    for i,")
    before = step(body.format("kl.item()", "v"), behind.format("v"), head)
    assert result(before).after.decode() == step(
        body.format("kl.detach()", "float(v)"), behind.format("float(v)"), head
    )


@pytest.mark.parametrize("body", [
    "v = kl.item()\nif i % 10 == 0:\n    print(f'{v=}')",
    "v = kl.item()\nif i % 10 == 0:\n    print(v)\n    print(locals())",
])  # fmt: skip
def test_late_reads_that_stay(body: str) -> None:
    assert reasons(step(body)) == []


def test_a_late_read_saves_nothing_where_the_step_waits_anyway() -> None:
    found = result(step("v = kl.item()\nif i % 10 == 0:\n    print(v)\nprint(loss.item())"))
    (held,) = found.held_back
    assert (held.safety, held.reason) == (Safety.LOW_IMPACT, "line 18 waits for the device in every step anyway")


SHOWN = [
    "print(loss.item())",
    "print(loss.item(), kl.item())",
    "print(f'{loss.item():.4f} {kl.item():.4f}')",
    "print(f'{loss:.4f}')",
    "print('{} {:.3f}'.format(loss, kl))",
    "print('%.4f %s' % (loss.item(), kl.item()))",
    "print(loss, kl)",
    "pbar.set_postfix(loss=loss.item(), kl=float(kl))",
    "pbar.set_postfix({'a': loss.item(), 'b': round(kl.item(), 3)})",
    "pbar.set_description(f'{i} {kl.item()}')",
    "logger.info('%f %f', loss.item(), kl.item())",
    "writer.add_scalar('a', loss.item(), i)",
]


@pytest.mark.parametrize("body", SHOWN)
def test_reports_of_every_step_are_left_as_they_are(body: str) -> None:
    assert reasons(step(body)) == []


class _Model(torch.nn.Linear):
    def loss(self, out: torch.Tensor) -> torch.Tensor:
        return out.mean()


def _printed(code: str, dtype: torch.dtype) -> str:
    torch.manual_seed(0)
    space: dict[str, Any] = {}
    exec(code, space)
    model = _Model(3, 4).to(dtype)
    batches = [(torch.randn(5, 3, dtype=dtype) * 10**k, torch.randint(4, (5,))) for k in range(-2, 3)]
    batches.append((torch.full((5, 3), float("nan"), dtype=dtype), torch.zeros(5, dtype=torch.long)))

    class Shows:
        log_now = True

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *args, **kwargs: print(name, args, kwargs)

    shows = Shows()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        space["train"](model, batches, optimizer, "cpu", shows, shows, shows, shows)
    return out.getvalue()


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
@pytest.mark.parametrize("name", LATE)
def test_figures_are_the_same(name: str) -> None:
    code = step(*LATE[name][0]).replace(".float()", "")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        old = _printed(code, dtype)
        assert old
        assert _printed(result(code).after.decode(), dtype) == old


@pytest.mark.parametrize("start", ["None", "'-'", "find(model)"])
def test_figure_of_the_step_before_that_starts_as_no_number(start: str) -> None:
    code = step("v = kl.item()\nif i % 10 == 0:\n    print(v, last)\nlast = v")
    code = code.replace("    for i", "    last = {}\n    for i")
    assert result(code.format(start)).outcome is Outcome.UNCHANGED
    assert result(code.format("0.0")).outcome is Outcome.CHANGED


def every_tenth(code: str) -> FileResult:
    choice = Choice(opted_in=frozenset({"PM107"}), policy=Policy(report_every=10))
    found = rewrite(code.encode(), "train.py", [PerStepReport()], choice)
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


@pytest.mark.parametrize("body", SHOWN)
def test_reports_of_every_step_go_under_an_interval(body: str) -> None:
    found = every_tenth(step(body))
    assert found.after.decode() == step(f"if i % 10 == 0:\n    {body}"), [each.reason for each in found.refused]
    (finding,) = found.applied
    assert (finding.safety, finding.numerics) == (Safety.OPT_IN, Numerics.BEHAVIOURAL)
    assert every_tenth(found.after.decode()).outcome is Outcome.UNCHANGED


def test_an_interval_is_only_written_where_the_rule_is_selected() -> None:
    choice = Choice(unsafe=True, low_impact=True, policy=Policy(report_every=10))
    found = rewrite(step("print(loss.item())").encode(), "train.py", [PerStepReport()], choice)
    assert found.outcome is Outcome.UNCHANGED
    assert [finding.numerics for finding in found.held_back] == [Numerics.BEHAVIOURAL]


LOOPS = {
    "for x, y in loader:": "for step, (x, y) in enumerate(loader):",
    "for (x, y) in loader:": "for step, (x, y) in enumerate(loader):",
    "for [x, y] in loader:": "for step, [x, y] in enumerate(loader):",
    "for x, y in args.one, args.other:": "for step, (x, y) in enumerate((args.one, args.other)):",
    "for x, y in tqdm(loader, ncols=80):": "for step, (x, y) in enumerate(tqdm(loader, ncols=80)):",
    "for k, (x, y) in enumerate(tqdm(loader)):": "",
    "for k, (x, y) in tqdm(enumerate(loader), total=9):": "",
    "for k, (x, y) in (bar := tqdm(enumerate(loader))):": "",
    "for k in range(9):": "",
    "for k in range(1, 9):": "",
    "for k in tqdm(range(9)):": "",
    "for k in range(0, 9, 3):": "for step, k in enumerate(range(0, 9, 3)):",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_what_counts_the_steps(loop: str) -> None:
    head = HEAD.replace("for i, (x, y) in enumerate(loader):", loop).replace("import math", "from tqdm import tqdm")
    counted = head.replace(loop, LOOPS[loop] or loop)
    counter = "step" if LOOPS[loop] else "k"
    after = every_tenth(step("print(loss.item())", head=head)).after.decode()
    assert after == step(f"if {counter} % 10 == 0:\n    print(loss.item())", head=counted)


GROUPS = {
    "what is only made for a line": ("v = loss.item()\nprint(v)", "if i % 10 == 0:\n    v = loss.item()\n    print(v)"),
    "what others get, too": ("v = loss.item()\nargs.last = x\nprint(v)\nargs.rest.append(v)",
        "v = loss.item()\nargs.last = x\nif i % 10 == 0:\n    print(v)\nargs.rest.append(v)"),
    "lines next to each other": ("print(i)\nprint(loss.item())\nargs.n = 1\nprint(kl.item())",
        "if i % 10 == 0:\n    print(i)\n    print(loss.item())\nargs.n = 1\nif i % 10 == 0:\n    print(kl.item())"),
    "not what an accident shows": ("if kl.item() > 9:\n    print('oh', loss.item())\nprint(loss.item())",
        "if kl.item() > 9:\n    print('oh', loss.item())\nif i % 10 == 0:\n    print(loss.item())"),
    "one process": ("if args.rank == 0:\n    print(loss.item())",
        "if args.rank == 0:\n    if i % 10 == 0:\n        print(loss.item())"),
    "each of several": ("for name, v in [('a', kl), ('b', ce)]:\n    writer.add_scalar(name, v.item(), i)",
        "for name, v in [('a', kl), ('b', ce)]:\n    if i % 10 == 0:\n        writer.add_scalar(name, v.item(), i)"),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_what_goes_under_an_interval_together(name: str) -> None:
    before, after = GROUPS[name]
    found = every_tenth(step(before))
    assert found.after.decode() == step(after), [each.reason for each in found.refused]


NEEDED = "line 16 needs the number in every step"


@pytest.mark.parametrize(("body", "why"), [
    ("print(loss.item())\nassert math.isfinite(loss.item())", [NEEDED]),
    ("print(loss.item())\nif torch.isnan(loss):\n    break", [NEEDED]),
    ("print(loss.item())\nargs.stopper(loss.item())", [NEEDED]),
    ("print(loss.item())\nargs.file.write(str(loss.item()))", [NEEDED]),
    ("print(f'{loss:.3f}')\nargs.file.write(f'{loss}')", [NEEDED]),
    ("print(loss.item(), args.words.pop())", ["`args.words.pop()` may do more than to give what is shown"]),
    ("print(loss.item(), (n := i))", ["`n := i` may do more than to give what is shown"]),
    ("i = 7\nprint(loss.item())", ["the loop of line 7 sets `i` anew"]),
    ("print(loss.item(), file=args.file)", ["`args.file` keeps every line, and may be read later"]),
    ("if i % 5 == 0:\n    print(loss.item())", []),
    ("if loss.item() > 9:\n    print(loss.item())", []),
    ("try:\n    args.go()\nexcept OSError:\n    print(loss.item())", []),
    ("print(i, len(loader), x.shape)", []),
    ("args.file.write(str(loss.item()))", []),
])  # fmt: skip
def test_reports_that_stay_in_every_step(body: str, why: list[str]) -> None:
    found = every_tenth(step(body))
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    assert [finding.reason for finding in found.refused] == why
