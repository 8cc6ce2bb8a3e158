"""PM106 and PM107 are held back where the step waits for the device all the same, or has to."""

from __future__ import annotations

import textwrap

import pytest

from perfmod.codemods.engine import Choice, rewrite
from perfmod.transforms.rule import Safety
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
    assert held_back(code) == [(Safety.OPT_IN, f"line {line} waits for the device in every step anyway")]


def loop(step: str, more: str = "") -> str:
    return HEAD + textwrap.dedent(more) + LOOP.format(step=textwrap.indent(textwrap.dedent(step).strip("\n"), " " * 8))


@pytest.mark.parametrize(
    ("test", "waits"),
    [
        ("torch.cuda.is_available()", True),
        ("use_cuda", True),
        ("args.cuda and torch.cuda.is_available()", True),
        ("not torch.cuda.is_available()", False),
        ("args.cuda", False),
    ],
)
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


COPIES = """
def evaluate(model, data, device):
    loader = DataLoader(data, batch_size=8)
    total = 0
    with torch.no_grad():
        {model}.eval()
        for x, y in loader:
            out = model(x.to(device))
{step}
    return total
"""


@pytest.mark.parametrize(
    ("step", "model", "waits"),
    [
        ("total += (out.argmax(1) == y.to(device)).sum().item()", "model", True),
        ("y = y.to(device)\nhits = out.argmax(1) == y\ntotal += hits.sum().item()", "model", True),
        ("y = y.to(device)\nout = model(out)\nhits = out.argmax(1) == y\ntotal += hits.sum().item()", "model", False),
        ("y = y.to(device, non_blocking=True)\ntotal += (out.argmax(1) == y).sum().item()", "model", False),
        ("total += (out.argmax(1) == y.to(device)).sum().item()", "data", False),
    ],
)
def test_a_blocking_copy_between_the_model_and_the_read(step: str, model: str, waits: bool) -> None:
    code = HEAD + COPIES.format(step=textwrap.indent(step, " " * 12), model=model)
    assert_waits(code, "y.to(device)" if waits else None)


@pytest.mark.parametrize(("index", "waits"), [("weight[y].to(device)", True), ("weight.to(device)[y]", False)])
def test_a_tensor_of_the_host_picked_from_by_one_of_the_device(index: str, waits: bool) -> None:
    code = loop(f"scale = {index}").replace("x, y = x.to(device), y.to(device)", "x, y = x.cuda(), y.cuda()")
    assert_waits(code, "weight[y]" if waits else None)


@pytest.mark.parametrize(
    ("made", "fed", "waits"),
    [
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
    ],
)
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
SCORE = """

class Score:
    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, ids, n, short=None):
        return words(ids, n, short)


score = Score()
"""


@pytest.mark.parametrize(
    ("call", "either", "short", "waits"),
    [
        ("words(torch.argmax(x, 1), 3)", "[NAMES[i] for i in ids if i < n]", "n", True),
        ("words(torch.argmax(x, 1), 3)", "list(map(lambda i: NAMES[i.item()], ids))", "n", True),
        ("words(torch.argmax(x, 1), 3)", "lambda i: NAMES[i.item()]", "n", False),
        ("score(torch.argmax(x, 1), 3, 1)", "ids.nonzero()", "ids.tolist()", True),
        ("score(torch.argmax(x, 1), 3, 1)", "ids.nonzero()", "ids.sum()", False),
    ],
)
def test_metrics_written_by_hand(call: str, either: str, short: str, waits: bool) -> None:
    code = loop(call, WORDS.format(words=either, short=short) + (SCORE if "score" in call else ""))
    assert_waits(code, either if waits else None)


@pytest.mark.parametrize(
    ("test", "stays"),
    [
        ("log_all", True),
        ("args.log.enabled", True),
        ("log_all and step % 10 == 0", False),
        ("step % 10 == 0", False),
        ("args.log_now(step)", False),
    ],
)
def test_a_report_that_an_option_switches_on(test: str, stays: bool) -> None:
    code = loop(f"if {test}:\n    log(total / (step + 1))").replace("log(total", "print(total")
    line = code[: code.index("print(total")].count("\n") + 1
    why = f"line {line} reads it in every step all the same where `{test}` holds"
    assert held_back(code) == ([(Safety.OPT_IN, why)] if stays else [])


@pytest.mark.parametrize("body", ["optimizer.step()", "log(step)"])
def test_a_report_with_each_step_of_the_optimizer(body: str) -> None:
    code = loop(f"if step % args.parts == 0:\n    {body}\n    log(loss=figure)")
    code = code.replace("        optimizer.step()\n        total += loss.item()\n", "        figure = loss.item()\n")
    line = code[: code.index("log(loss=figure")].count("\n") + 1
    why = f"line {line} reads it in every step all the same where `step % args.parts == 0` holds"
    assert held_back(code) == ([(Safety.OPT_IN, why)] if "step()" in body else [])


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


@pytest.mark.parametrize(
    ("before", "behind", "used", "guarded"),
    [
        ("pass", "pass", "x, y = fetcher.next()", False),
        ("pass", "x.record_stream(torch.cuda.current_stream())", "x, y = fetcher.next()", True),
        ("self.stream.wait_stream(torch.cuda.current_stream())", "pass", "x, y = fetcher.next()", True),
        ("pass", "pass", "x, y = next(loader)", True),
    ],
)
def test_batches_that_are_fetched_ahead_without_a_guard(before: str, behind: str, used: str, guarded: bool) -> None:
    code = loop(used, FETCHER.format(before=before, behind=behind))
    line = code[: code.index("with torch.cuda.stream")].count("\n") + 1
    why = f"line {line} copies batches on its own stream without `record_stream`, and relies on this wait"
    assert held_back(code) == ([] if guarded else [(Safety.UNSAFE, why)])


@pytest.mark.parametrize(
    "step",
    [
        "seen = torch.tensor(out.detach().to('cpu').numpy())",
        "keep = y != 0\ntotal += (out.argmax(1)[keep] == y[keep]).sum().item()",
    ],
)
def test_a_copy_in_a_chain_and_a_mask_within_what_is_read_wait(step: str) -> None:
    assert_waits(loop(step), step.splitlines()[-1])


@pytest.mark.parametrize(
    ("switch", "reason"),
    [
        (
            "torch.autograd.set_detect_anomaly(True)",
            "`torch.autograd.set_detect_anomaly(True)` waits in every backward pass",
        ),
        (
            "torch.autograd.set_detect_anomaly(mode=True)",
            "`torch.autograd.set_detect_anomaly(True)` waits in every backward pass",
        ),
        ("torch.autograd.set_detect_anomaly(True, check_nan=False)", ""),
        ("torch.autograd.set_detect_anomaly(False)", ""),
        ("if __debug__:\n    torch.autograd.set_detect_anomaly(True)", ""),
    ],
)
def test_anomaly_detection_waits_in_every_backward_pass(switch: str, reason: str) -> None:
    assert held_back(loop("pass", switch)) == ([(Safety.OPT_IN, reason)] if reason else [])
