"""PM106 and PM107 are of low impact where a step would have as many waits for the device all the same."""

from __future__ import annotations

import textwrap

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.per_step_report import PerStepReport
from perfmod.transforms.syncs.scalar_accumulation import ScalarAccumulation

HEAD = """\
import torch
import torch.nn.functional as F
import torchmetrics
from torch.utils.data import DataLoader
from torchmetrics.classification import BinaryAccuracy
"""
LOOP = """
def fit(model, loader, optimizer, device, args, log_all, log):
    total, use_cuda, weight = 0.0, torch.cuda.is_available(), torch.ones(10) / 10
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        out = model(x)
        loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
{step}
    return total
"""


def held_back(code: str) -> list[tuple[Safety, str]]:
    """What is held back, with the line that is named as it stands; nothing where the code is rewritten."""
    found = rewrite(code.encode(), "train.py", [ScalarAccumulation(), PerStepReport()], Choice())
    assert found.after.decode() == code or not found.held_back, found.held_back
    assert found.after.decode() != code or found.held_back, found.refused
    return [(each.safety, each.reason) for each in found.held_back]


def assert_waits(code: str, at: str | None) -> None:
    """The first line with `at` is named as one that waits in every step; with `None`, nothing speaks against it."""
    if at is None:
        assert held_back(code) == []
        return
    line = next(number for number, text in enumerate(code.splitlines(), 1) if at in text)
    assert held_back(code) == [(Safety.LOW_IMPACT, f"line {line} waits for the device in every step anyway")]


def loop(step: str, more: str = "") -> str:
    return HEAD + textwrap.dedent(more) + LOOP.format(step=textwrap.indent(textwrap.dedent(step).strip("\n"), " " * 8))


@pytest.mark.parametrize(("test", "waits"), [
    ("torch.cuda.is_available()", True),
    ("use_cuda", True),
    ("args.cuda and torch.cuda.is_available()", True),
    ("not torch.cuda.is_available()", False),
    ("args.cuda", False),
])  # fmt: skip
def test_what_runs_where_there_is_a_gpu(test: str, waits: bool) -> None:
    code = loop(f"if {test}:\n    hits = (y.cpu() == out.argmax(1).cpu()).sum()")
    assert_waits(code, "y.cpu()" if waits else None)


@pytest.mark.parametrize(
    ("copied", "waits"),
    [("x.detach().to('cpu')", True), ("x.to(torch.device('cpu'))", True), ("x.to('cuda')", False)],
)
def test_a_function_that_brings_samples_to_the_host(copied: str, waits: bool) -> None:
    sampler = f"""
        def sample(x, model, n):
            kept = []
            for _ in range(n):
                kept.append({copied})
                x = x + model(x)
            return kept
    """
    assert_waits(loop("kept = sample(x, model, 60)", sampler), "kept.append(" if waits else None)


@pytest.mark.parametrize(("index", "waits"), [("weight[y].to(device)", True), ("weight.to(device)[y]", False)])
def test_a_tensor_of_the_host_picked_from_by_one_of_the_device(index: str, waits: bool) -> None:
    code = loop(f"scale = {index}").replace("x, y = x.to(device), y.to(device)", "x, y = x.cuda(), y.cuda()")
    assert_waits(code, "weight[y]" if waits else None)


@pytest.mark.parametrize(("made", "fed", "waits"), [
    ("BinaryAccuracy().to('cuda')", "metric.update(out, y)", True),
    ("BinaryAccuracy()", "metric(out, y)", True),
    ("torchmetrics.MetricCollection([torchmetrics.F1Score(task='binary')])", "metric.update(out, y)", True),
    ("None", "torchmetrics.functional.accuracy(out, y, task='binary')", True),
    ("None", "torchmetrics.functional.classification.multiclass_f1_score(out, y, 3)", True),
    ("BinaryAccuracy(validate_args=True)", "metric.update(out, y)", True),
    ("BinaryAccuracy(validate_args=False)", "metric.update(out, y)", False),
    ("torchmetrics.MeanSquaredError()", "metric.update(out, y)", False),
    ("BinaryAccuracy()", "metric.reset()", False),
    ("None", "F.l1_loss(out, y)", False),
])  # fmt: skip
def test_metrics_that_check_what_they_are_given(made: str, fed: str, waits: bool) -> None:
    assert_waits(loop(fed, f"\nmetric = {made}\n"), fed if waits else None)


WORDS = """
NAMES = ["a", "b", "c"]


def words(ids, n, short=None):
    if short is None:
        return {words}
    else:
        return {short}
"""


@pytest.mark.parametrize(("call", "either", "short", "waits"), [
    ("words(torch.argmax(x, 1), 3)", "[NAMES[i] for i in ids if i < n]", "n", True),
    ("words(torch.argmax(x, 1), 3)", "list(map(lambda i: NAMES[i.item()], ids))", "n", True),
    ("words(torch.argmax(x, 1), 3)", "lambda i: NAMES[i.item()]", "n", False),
    ("words(torch.argmax(x, 1), 3, 1)", "ids.nonzero()", "ids.tolist()", True),
    ("words(torch.argmax(x, 1), 3, 1)", "ids.nonzero()", "ids.sum()", False),
])  # fmt: skip
def test_metrics_written_by_hand(call: str, either: str, short: str, waits: bool) -> None:
    code = loop(call, WORDS.format(words=either, short=short))
    assert_waits(code, either if waits else None)


@pytest.mark.parametrize(("test", "stays"), [
    ("log_all", True),
    ("args.log.enabled", True),
    ("log_all and step % 10 == 0", False),
    ("step % 10 == 0", False),
    ("args.log_now(step)", False),
])  # fmt: skip
def test_a_report_that_an_option_switches_on(test: str, stays: bool) -> None:
    code = loop(f"if {test}:\n    log(total / (step + 1))").replace("log(total", "print(total")
    line = code[: code.index("print(total")].count("\n") + 1
    why = f"line {line} still reads it in every step where `{test}` holds"
    assert held_back(code) == ([(Safety.LOW_IMPACT, why)] if stays else [])


@pytest.mark.parametrize("body", ["optimizer.step()", "log(step)"])
def test_a_report_with_each_step_of_the_optimizer(body: str) -> None:
    code = loop(f"if step % args.parts == 0:\n    {body}\n    log(loss=figure)")
    code = code.replace("        optimizer.step()\n        total += loss.item()\n", "        figure = loss.item()\n")
    line = code[: code.index("log(loss=figure")].count("\n") + 1
    why = f"line {line} still reads it in every step where `step % args.parts == 0` holds"
    assert held_back(code) == ([(Safety.LOW_IMPACT, why)] if "step()" in body else [])


FETCHER = """
class Fetcher:
    def __init__(self, loader):
        self.loader, self.stream = iter(loader), torch.cuda.Stream()
        self.fetch()

    def fetch(self):
        self.x, self.y = next(self.loader)
        {before}
        with torch.cuda.stream(self.stream):
            self.x = self.x.cuda(non_blocking=True)
            self.y = self.y.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        x, y = self.x, self.y
        {behind}
        self.fetch()
        return x, y


fetcher = Fetcher(batches)
"""


@pytest.mark.parametrize(("before", "behind", "used", "guarded"), [
    ("pass", "pass", "x, y = fetcher.next()", False),
    ("pass", "x.record_stream(torch.cuda.current_stream())", "x, y = fetcher.next()", True),
    ("self.stream.wait_stream(torch.cuda.current_stream())", "pass", "x, y = fetcher.next()", True),
    ("pass", "pass", "x, y = next(loader)", True),
])  # fmt: skip
def test_batches_that_are_fetched_ahead_without_a_guard(before: str, behind: str, used: str, guarded: bool) -> None:
    code = loop(used, FETCHER.format(before=before, behind=behind))
    line = code[: code.index("with torch.cuda.stream")].count("\n") + 1
    why = f"line {line} copies batches on its own stream without `record_stream`, and relies on this wait"
    assert held_back(code) == ([] if guarded else [(Safety.UNSAFE, why)])


@pytest.mark.parametrize("step", [
    "seen = torch.tensor(out.detach().to('cpu').numpy())",
    "keep = y != 0\ntotal += (out.argmax(1)[keep] == y[keep]).sum().item()",
])  # fmt: skip
def test_a_copy_in_a_chain_and_a_mask_within_what_is_read_wait(step: str) -> None:
    assert_waits(loop(step), step.splitlines()[-1])


@pytest.mark.parametrize(("switch", "reason"), [
    ("torch.autograd.set_detect_anomaly(True)",
     "`torch.autograd.set_detect_anomaly(True)` waits in every backward pass"),
    ("torch.autograd.set_detect_anomaly(mode=True)",
     "`torch.autograd.set_detect_anomaly(True)` waits in every backward pass"),
    ("torch.autograd.set_detect_anomaly(True, check_nan=False)", ""),
    ("torch.autograd.set_detect_anomaly(False)", ""),
    ("if __debug__:\n    torch.autograd.set_detect_anomaly(True)", ""),
])  # fmt: skip
def test_anomaly_detection_waits_in_every_backward_pass(switch: str, reason: str) -> None:
    assert held_back(loop("pass", switch)) == ([(Safety.LOW_IMPACT, reason)] if reason else [])


@pytest.mark.parametrize(("before", "behind", "at"), [
    # A read with nothing queued in between has waited already.
    ("print(out.max().item())", "", "print(out.max"),
    ("", "print(out.max().item())", "print(out.max"),
    # Behind a backward pass, or before the next batch is fetched, it is a wait more.
    ("if out.max() > 9:\n    continue\nout.sum().backward()", "", None),
    ("", "loss.backward()\nprint(out.max().item())", None),
])  # fmt: skip
def test_a_wait_counts_where_nothing_is_queued_between(before: str, behind: str, at: str | None) -> None:
    code = loop(behind or "pass")
    code = code.replace("        total +=", textwrap.indent(f"{before or 'pass'}\n", " " * 8) + "        total +=")
    assert_waits(code, at)


@pytest.mark.parametrize(("scaler", "waits"), [
    ("torch.cuda.amp.GradScaler()", True),
    ("torch.amp.GradScaler('cuda', enabled=True)", True),
    ("torch.cuda.amp.GradScaler(enabled=False)", False),
    ("torch.cuda.amp.GradScaler(enabled=args.amp)", False),
])  # fmt: skip
def test_the_step_of_a_gradient_scaler(scaler: str, waits: bool) -> None:
    code = loop("pass", f"\nscaler = {scaler}\n").replace("        optimizer.step()", "        scaler.step(optimizer)")
    assert_waits(code.replace("loss.backward()", "scaler.scale(loss).backward()"), "scaler.step" if waits else None)


GAN = """
def fit(netG, netD, loader, optimizerG, optimizerD, criterion):
    G_losses = []
    for i, data in enumerate(loader):
        real = data[0].cuda()
        output = netD(real)
        errD_real = F.binary_cross_entropy(output, torch.ones_like(output))
        errD_real.backward()
        D_x = output.mean().item()
        output = netD(netG(real).detach())
        errD_fake = F.binary_cross_entropy(output, torch.zeros_like(output))
        errD_fake.backward()
        D_G_z1 = output.mean().item()
        optimizerD.step()
        output = netD(netG(real))
        errG = F.binary_cross_entropy(output, torch.ones_like(output))
        errG.backward()
        optimizerG.step()
        if i % 50 == 0:
            print(errD_real.item(), D_x, D_G_z1)
        G_losses.append(errG.item())
{more}
    print(sum(G_losses) / len(G_losses))
"""


def test_every_wait_of_a_gan_goes() -> None:
    code = HEAD + GAN.format(more="")
    found = rewrite(code.encode(), "train.py", [ScalarAccumulation(), PerStepReport()], Choice())
    assert not found.held_back
    after = found.after.decode()
    assert "D_x = output.mean().detach()" in after
    assert "D_G_z1 = output.mean().detach()" in after
    assert after.count(".item()") == 1 + 2  # those of the report


def test_a_wait_that_stays_beside_one_of_a_gan_is_named() -> None:
    code = HEAD + GAN.format(more="        print(errG.item())")
    found = rewrite(code.encode(), "train.py", [ScalarAccumulation(), PerStepReport()], Choice())
    line = code[: code.index("print(errG")].count("\n") + 1
    assert [each.reason for each in found.held_back] == [f"line {line} waits for the device in every step anyway"]
    assert "D_x = output.mean().detach()" in found.after.decode()


@pytest.mark.parametrize(("report", "moved"), [
    ("print(errD_real.item(), D_x, D_G_z1)", {"D_x", "D_G_z1"}),
    ("print(D_x, D_G_z1)", {"D_x", "D_G_z1"}),
    # One value waits once, wherever it is read.
    ("print(D_x)", set()),
    ("if D_x > errD_real.item():\n            print(i)", set()),
])  # fmt: skip
def test_a_report_of_several_values_in_every_step_waits_once(report: str, moved: set[str]) -> None:
    code = HEAD + GAN.format(more="")
    head, tail = code.index("        if i % 50"), code.index("    print(sum(")
    code = f"{code[:head]}        {report}\n{code[tail:]}"
    after = rewrite(code.encode(), "train.py", [ScalarAccumulation(), PerStepReport()], Choice()).after.decode()
    assert {name for name in ("D_x", "D_G_z1") if f"{name} = output.mean().detach()" in after} == moved
    assert all(f"{name}.item()" in after for name in moved)


@pytest.mark.parametrize(("step", "reason"), [
    ("optimizer.step()\nlog(loss.item())", "line 17 waits for the device in every step anyway"),
    ("optimizer.step()\nlog(out.sum().item())", None),
])  # fmt: skip
def test_the_same_tensor_is_waited_for_again_whatever_is_queued_between(step: str, reason: str | None) -> None:
    found = held_back(loop(step))
    assert found == ([] if reason is None else [(Safety.LOW_IMPACT, found[0][1])])
    assert reason is None or "waits for the device in every step anyway" in found[0][1]


def test_a_doubtful_rewrite_takes_no_wait_away() -> None:
    code = loop("best.append(score(out).item())", "best = []\n")
    assert [(each, "waits for the device" in reason) for each, reason in held_back(code)][-1:] == [
        (Safety.LOW_IMPACT, True)
    ]


@pytest.mark.parametrize(("start", "time", "is_open"), [
    ("start = time.time()\n        x, y = x.to(device), y.to(device)", "time.time() - start", True),
    ("x, y = x.to(device), y.to(device)", "time.time() - begun", False),
])  # fmt: skip
def test_the_time_of_one_step_needs_its_wait(start: str, time: str, is_open: bool) -> None:
    code = loop(f"if step % 100 == 0:\n    log({time})", "import time\nbegun = time.time()\n")
    code = code.replace("x, y = x.to(device), y.to(device)", start)
    result = rewrite(code.encode(), "train.py", [ScalarAccumulation()], Choice())
    assert bool(result.applied) is not is_open
    if is_open:
        (held,) = result.held_back
        assert held.safety is Safety.UNSAFE
        assert "would be that of other kernels than those of its step" in held.reason
