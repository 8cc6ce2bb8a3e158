"""PM107: what is read together, what is not, and that the figures are the same to the last digit."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch

from perfmod.codemods.engine import Choice, FileResult, Outcome, rewrite
from perfmod.transforms.rule import Safety
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
BOTH = "torch.stack((loss.detach(), kl.detach())).tolist()"
READ = f"loss_value, kl_value = {BOTH}\n"


def step(body: str, head: str = HEAD) -> str:
    return head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


def result(code: str) -> FileResult:
    found = rewrite(code.encode(), "train.py", [PerStepReport()], Choice(unsafe=True))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reports(code: str) -> list[tuple[bool, str]]:
    """Whether it is refused, and why, of all that is reported for code that stays as it is."""
    found = result(code)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [(finding.refused, finding.reason) for finding in found.refused]


JOINED = {
    "print(loss.item(), kl.item())": READ + "print(loss_value, kl_value)",
    "print(f'{loss.item():.4f} {kl.item():.4f}')": READ + "print(f'{loss_value:.4f} {kl_value:.4f}')",
    "print(f'{loss:.4f} {kl:.4f}')": READ + "print(f'{loss_value:.4f} {kl_value:.4f}')",
    "print('{} {:.3f}'.format(loss, kl))": READ + "print('{} {:.3f}'.format(loss_value, kl_value))",
    "print('%.3f%% %5d %G' % (loss, i, kl))": READ + "print('%.3f%% %5d %G' % (loss_value, i, kl_value))",
    "print('%+.1e' % loss, '%g' % kl)": READ + "print('%+.1e' % loss_value, '%g' % kl_value)",
    "print('%.4f %s' % (loss.item(), kl.item()))": READ + "print('%.4f %s' % (loss_value, kl_value))",
    "pbar.set_postfix(loss=loss.item(), kl=float(kl))": READ + "pbar.set_postfix(loss=loss_value, kl=kl_value)",
    "pbar.set_postfix({'a': loss.item(), 'b': round(kl.item(), 3)})":
        READ + "pbar.set_postfix({'a': loss_value, 'b': round(kl_value, 3)})",
    "pbar.set_description(f'{i} {math.exp(ce.item()):.2f} {kl.item()}')":
        "ce_value, kl_value = torch.stack((ce.detach(), kl.detach())).tolist()\n"
        "pbar.set_description(f'{i} {math.exp(ce_value):.2f} {kl_value}')",
    "logger.info('%f %f', loss.item(), kl.item())": READ + "logger.info('%f %f', loss_value, kl_value)",
    "writer.add_scalar('a', loss.item(), i)\nwriter.add_scalar('b', kl.item(), i)":
        READ + "writer.add_scalar('a', loss_value, i)\nwriter.add_scalar('b', kl_value, i)",
    "print(loss.item())\nprint('and')\nprint(kl.item())": READ + "print(loss_value)\nprint('and')\nprint(kl_value)",
    "print(loss.item())\nn = i * len(x) + 1\nwriter.add_scalar('a', kl.item(), n)":
        READ + "print(loss_value)\nn = i * len(x) + 1\nwriter.add_scalar('a', kl_value, n)",
    "print(loss.item())\nwriter.add_scalar('a', loss.item(), i)":
        "loss_value = loss.item()\nprint(loss_value)\nwriter.add_scalar('a', loss_value, i)",
    "print(loss.item(), hits.item(), kl.item())": READ + "print(loss_value, hits.item(), kl_value)",
    "print(hits.item(), (out > 0).sum().item())":
        "hits_value, value = torch.stack((hits, (out > 0).sum())).tolist()\nprint(hits_value, value)",
    "logs = {'loss': loss.item(), 'kl': kl.item()}\nwriter.log(logs)":
        READ + "logs = {'loss': loss_value, 'kl': kl_value}\nwriter.log(logs)",
    "d_x = out.mean().item()\noptimizer.step()\nprint(d_x, loss.item())":
        "d_x = out.mean().detach()\noptimizer.step()\n"
        "d_x, loss_value = torch.stack((d_x, loss.detach())).tolist()\nprint(d_x, loss_value)",
    "a = loss.item()\nb = kl.item()\nprint(a, b)":
        "a = loss.detach()\nb = kl.detach()\na, b = torch.stack((a, b)).tolist()\nprint(a, b)",
    "print(loss.cpu().item(), kl.detach().cpu().item())":
        "loss_value, kl_value = torch.stack((loss.detach(), kl.detach())).tolist()\nprint(loss_value, kl_value)",
    "args['l'] = loss.item()\nargs['k'] = kl.item() / 2":
        READ + "args['l'] = loss_value\nargs['k'] = kl_value / 2",
    "if args.verbosity: print(loss.item(), kl.item())":
        f"if args.verbosity: loss_value, kl_value = {BOTH}; print(loss_value, kl_value)",
    "print(get_lr(optimizer), loss.item(), kl.item())": READ + "print(get_lr(optimizer), loss_value, kl_value)",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), JOINED.items())
def test_is_joined(before: str, after: str) -> None:
    found = result(step(before))
    assert found.after.decode() == step(after), [finding.reason for finding in found.refused]
    assert {finding.safety for finding in found.applied} == {Safety.SAFE}
    assert result(step(after)).outcome is Outcome.UNCHANGED


def test_long_lines_are_broken() -> None:
    head = HEAD.replace("kl", "divergence_of_the_posterior").replace("loss", "negative_evidence_lower_bound")
    body = "print(negative_evidence_lower_bound.item(), divergence_of_the_posterior.item())"
    assert "torch.stack(\n            (negative_evidence" in result(step(body, head)).after.decode()


def test_one_figure_is_advised_about() -> None:
    for body in ("print(loss.item())", "pbar.set_postfix(loss=f'{loss.item():.3f}')", "v = loss.item()\nprint(v)"):
        ((refused, reason),) = reports(step(body))
        assert not refused
        assert reason.startswith("one figure is one transfer already")


REFUSED = {
    "print(loss, kl)": "`print` gets the tensor `loss` itself",
    "writer.add_scalar('a', loss, i)": "`writer.add_scalar` gets the tensor `loss` itself",
    "print('%s %d' % (loss, i))": "`print` gets the tensor `loss` itself",
    "pbar.set_postfix(loss=loss)": "`pbar.set_postfix` gets the tensor `loss` itself",
    "print([v.item() for v in (loss, kl)])": "`v` is read inside another expression, perhaps several times",
    "print(loss.item(), kl.item() if i else 0)": "`kl` is read only sometimes",
    "print(f'{loss.item()=} {kl.item()}')": "an f-string shows how the figure is computed",
    "print((n := i), loss.item(), kl.item())": "the line 15 assigns or waits while it reports",
    "print(args.update(loss), loss.item(), kl.item())": "`args.update` on line 15 may change `loss`",
    "print(kl.item(), args.clip(loss).item(), loss.item())": "`args.clip` on line 15 may change `loss`",
    "print(kl.item(), loss.detach().mul_(2).item(), loss.item())": "`loss.detach().mul_` on line 15 may change `loss`",
    "print(args.a.item(), args.b.item())": "`args.a` could not be shown to be a tensor",
    "print(torch.rand((), device=device).item(), F.dropout(kl).item())": "may not be evaluated earlier",
    "for k, v in (('a', loss), ('b', kl)):\n    writer.add_scalar(k, v.item(), i)": "",
    "args.loss = kl\nprint(kl.item(), args.loss.item())": "`args.loss` could not be shown to be a tensor",
    "kl_to = loss.item() + 1": "`kl_to` gets the figure as a number on line 15",
    "n = math.exp(loss.item())": "`math.exp` on line 15 gets the figure as a number",
    "v = loss.item()\nif v: print(v)": "",
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.items())
def test_is_refused(body: str, reason: str) -> None:
    found = reports(step(body))
    if reason:
        assert any(refused and reason in why for refused, why in found), found


@pytest.mark.parametrize(
    "body",
    [
        "total = 0.0\ntotal += loss.item()",
        "args.losses.append(loss.item())",
        "args.meter.update(loss.item(), 3)",
        "if loss.item() > 3:\n    break",
        "return loss.item(), kl.item()",
        "print(loss.cpu().shape, len(x))",
        "print(i, float(i), args.n)",
    ],
)
def test_is_left_to_others(body: str) -> None:
    assert reports(step(body)) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("if i % 100 == 0:\n    print(loss.item(), kl.item())", "not every step comes by, as line 15 has it"),
        ("if args.log_now:\n    print(loss.item(), kl.item())", "not every step comes by, as line 15 has it"),
        ("if loss != loss:\n    print(loss.item(), kl.item())\n    raise ValueError", "the step ends behind it"),
        ("if not torch.isfinite(loss):\n    print(loss)\n    continue", "the step ends behind it"),
    ],
)
def test_what_few_steps_come_by_stays(body: str, reason: str) -> None:
    found = reports(step(body))
    assert found
    assert all(refused and why.startswith(reason) for refused, why in found)


def test_variables_that_others_use_stay() -> None:
    body = "v = kl.item()\nw = v * 2\nprint(v, loss.item(), ce.item())"
    found = result(step(body))
    assert "v = kl.item()\n" in found.after.decode()
    assert "print(v, loss_value, ce_value)" in found.after.decode()
    assert any("`v` is used on line 1" in finding.reason for finding in found.refused)
    body = "if i:\n    v = kl.item()\nelse:\n    v = 0.0\nprint(v, loss.item())"
    assert result(step(body)).outcome is Outcome.UNCHANGED
    body = "print(args.v, loss.item())\nargs.v = kl.item()"
    assert result(step(body)).after.decode() == step(READ + "print(args.v, loss_value)\nargs.v = kl_value")


BEHIND = {
    "a second report": "writer.add_scalar('v', v, i)",
    "anything": "args.x = v",
    "now and then": "if i % 10 == 0:\n    print(v)",
    "in a loop": "for k in range(2):\n    print(v + k)",
}


@pytest.mark.parametrize("name", BEHIND)
def test_what_comes_behind_the_report_gets_the_number(name: str) -> None:
    body = f"v = kl.item()\nprint(v, loss.item())\ni += 1\n{BEHIND[name]}"
    found = result(step(body))
    joined = "v = kl.detach()\nv, loss_value = torch.stack((v, loss.detach())).tolist()\nprint(v, loss_value)\ni += 1\n"
    assert found.after.decode() == step(joined + BEHIND[name])
    assert found.refused == ()


def test_figures_of_a_block_that_always_runs() -> None:
    body = "with torch.autocast('cuda'):\n    v = kl.item()\nprint(v, loss.item())"
    assert "    v = kl.detach()\n" in result(step(body)).after.decode()
    body = body.replace("torch.autocast('cuda')", "contextlib.suppress(RuntimeError)")
    assert "belongs to another loop" in reports(step(body))[0][1]


LATE = {
    "v = kl.item()\nif i % 10 == 0:\n    print(i, v)": "v = kl.detach()\nif i % 10 == 0:\n    print(i, float(v))",
    "v = float(kl)\nif args.log_now:\n    args.v = v; print(v)":
        "v = kl.detach()\nif args.log_now:\n    args.v = float(v); print(float(v))",
    "v = hits.item()\nif i % 10 == 0:\n    print('%d' % v)":
        "v = hits\nif i % 10 == 0:\n    print('%d' % int(v))",
    "v = kl.item()\nkl.zero_()\nif i % 10 == 0:\n    print(v)":
        "v = kl.detach().clone()\nkl.zero_()\nif i % 10 == 0:\n    print(float(v))",
}  # fmt: skip


@pytest.mark.parametrize("before", LATE)
def test_what_is_used_now_and_then_is_read_there(before: str) -> None:
    found = result(step(before))
    assert found.after.decode() == step(LATE[before])
    assert all(finding.safety is Safety.SAFE for finding in found.applied)
    assert result(found.after.decode()).outcome is Outcome.UNCHANGED


def test_what_is_used_behind_the_loop_is_read_there() -> None:
    before = step("v = kl.item()") + "    print(v)\n"
    after = step("v = kl.detach()") + "    print(float(v))\n"
    assert result(before).after.decode() == after


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("v = kl.item()\nif i % 10 == 0:\n    print(f'{v=}')", "an f-string shows the name"),
        ("global v\nv = kl.item()\nif i % 10 == 0:\n    print(v)", "shared between functions"),
        ("v = kl.item()\nif i % 10 == 0:\n    print(v)\n    print(locals())", "by its name"),
        ("v = '-'\nif i:\n    v = kl.item()\nif i % 10 == 0:\n    print(v)", "may be no number"),
    ],
)
def test_late_reads_that_stay(body: str, reason: str) -> None:
    assert any(reason in why for _, why in reports(step(body)))


@pytest.mark.parametrize(
    "between", ["k = 1", "k = model.count()", "args.n = 1", "k, n = 1, 2", "kl = loss", "n = len(next(loader))"]
)
def test_reports_with_something_between_them(between: str) -> None:
    body = f"k = 0\nprint(loss.item())\n{between}\nprint(out[0, k].detach().item(), kl.item())"
    assert "print(loss.item())" in result(step(body)).after.decode()


def test_a_loss_that_is_changed_in_place_is_copied_first() -> None:
    found = result(step("v = kl.item()\nkl.mul_(2)\nprint(v, loss.item())")).after.decode()
    assert "v = kl.detach().clone()\n" in found


def test_tensors_of_several_devices_stay_apart() -> None:
    head = HEAD.replace("model(x)", "model.to('cuda:0')(x).to('cuda:1')")
    ((_, reason),) = reports(step("print(loss.item(), kl.item())", head))
    assert reason == "the file uses several devices (line 9)"


def test_a_loss_of_unknown_shape_is_reshaped() -> None:
    head = HEAD.replace("loss = ce + kl", "loss = model.loss(out)")
    found = result(step("print(loss.item(), loss.item(), kl.item())", head)).after.decode()
    assert "loss.detach().reshape(())" in found or found == step("print(loss.item(), loss.item(), kl.item())", head)


class _Model(torch.nn.Linear):
    def loss(self, out: torch.Tensor) -> torch.Tensor:
        return out.mean()


def _printed(code: str, dtype: torch.dtype) -> str:
    torch.manual_seed(0)
    space: dict[str, Any] = {"get_lr": lambda _: 0.1}
    exec(code, space)
    model = _Model(3, 4).to(dtype)
    batches = [(torch.randn(5, 3, dtype=dtype) * 10**k, torch.randint(4, (5,))) for k in range(-2, 3)]
    batches.append((torch.full((5, 3), math_nan, dtype=dtype), torch.zeros(5, dtype=torch.long)))

    class Shows:
        verbosity = True

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *args, **kwargs: print(name, args, kwargs)

        def __setitem__(self, name: str, value: float) -> None:
            print(name, value)

    shows = Shows()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        space["train"](model, batches, optimizer, "cpu", shows, shows, shows, shows)
    return out.getvalue()


math_nan = float("nan")


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
@pytest.mark.parametrize("before", [*JOINED, *LATE])
def test_figures_are_the_same(before: str) -> None:
    code = step(before).replace(".float()", "")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        old = _printed(code, dtype)
        assert old
        assert _printed(result(code).after.decode(), dtype) == old
