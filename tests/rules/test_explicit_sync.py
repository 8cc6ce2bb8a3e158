"""PM111: which waits go with the headers that are there for them, and which ones something depends on."""

from __future__ import annotations

import textwrap

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from perfmod.transforms.finding import Safety
from perfmod.transforms.syncs.explicit_sync import ExplicitSync

HEAD = """\
import gc
import time
import torch
from torch import nn
import torch.distributed as dist


def train(model, loader, optimizer, device, args, timer, log):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
"""


def step(body: str, head: str = HEAD) -> str:
    return head + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n"


def result(code: str, *, unsafe: bool = False) -> FileResult:
    found = rewrite(code.encode(), "train.py", [ExplicitSync()], Choice(unsafe=unsafe))
    assert found.outcome is not Outcome.FAILED, found.reason
    return found


def reasons(code: str) -> list[str]:
    """Why the rule refuses; the code must stay as it is."""
    found = result(code, unsafe=True)
    assert found.outcome is Outcome.UNCHANGED, found.after.decode()
    return [finding.reason for finding in found.refused]


REMOVED = {
    "torch.cuda.synchronize()\ny = 1": "y = 1",
    "y = 1; torch.cuda.synchronize(device=args.gpu); z = 2": "y = 1; z = 2",
    "if torch.cuda.is_available():\n    torch.cuda.synchronize()\ny = 1": "y = 1",
    "if args.cuda and device.type != 'cpu': torch.cuda.synchronize()\ny = 1": "y = 1",
    "if args.cuda:\n    if args.gpu:\n        torch.cuda.synchronize()\n    torch.cuda.synchronize()\ny = 1": "y = 1",
    "if args.a:\n    torch.cuda.synchronize()\n    torch.cuda.empty_cache()\n    y = 1":
        "if args.a:\n    torch.cuda.empty_cache()\n    y = 1",
    "with torch.cuda.device(device):\n    torch.cuda.synchronize()\ny = 1": "y = 1",
    "torch.cuda.synchronize() if args.a else None\ny = 1": "y = 1",
    "torch.cuda.is_available() and torch.cuda.synchronize()\ny = 1": "y = 1",
    "torch.cuda.synchronize()  # all kernels have run\ny = 1": "y = 1",
    "y = 1\n\n# wait for all kernels\ntorch.cuda.synchronize()\n\nz = 1": "y = 1\n\nz = 1",
    "# one by one\ntorch.cuda.synchronize()\nz = 1": "# one by one\nz = 1",
    "y = x.to(device, non_blocking=True)\ntorch.cuda.synchronize()": "y = x.to(device, non_blocking=True)",
    "dist.all_reduce(loss)\ntorch.cuda.synchronize()\ny = 1": "dist.all_reduce(loss)\ny = 1",
    "t_emb = model.time_mlp(x)\ntorch.cuda.synchronize()\ny = 1": "t_emb = model.time_mlp(x)\ny = 1",
    "time.sleep(0)\ntorch.cuda.synchronize()\ny = 1": "time.sleep(0)\ny = 1",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), REMOVED.items())
def test_is_removed(before: str, after: str) -> None:
    found = result(step(before))
    assert found.after.decode() == step(after), [finding.reason for finding in found.refused]
    assert {finding.safety for finding in found.applied} == {Safety.SAFE}
    assert result(step(after)).outcome is Outcome.UNCHANGED


MEMORY = {
    "gc.collect()\ny = 1\ntorch.cuda.empty_cache()": "y = 1",
    "y = 1\n\ngc.collect()\ntorch.cuda.empty_cache()\n\nz = 1": "y = 1\n\nz = 1",
    "if torch.cuda.is_available():\n    torch.cuda.empty_cache()\ny = 1": "y = 1",
}


@pytest.mark.parametrize(("before", "after"), MEMORY.items())
def test_what_gives_memory_back_is_held_back(before: str, after: str) -> None:
    found = result(step(before), unsafe=True)
    assert found.after.decode() == step(after)
    assert result(step(before)).outcome is Outcome.UNCHANGED
    assert {finding.reason for finding in found.applied} == {
        "PyTorch would keep the memory that is freed here: check that the training still fits"
    }


EMPTIED = [
    "if args.a:\n    torch.cuda.synchronize()\ny = 1",
    "if args.f():\n    torch.cuda.synchronize()\ny = 1",
    "if args.cuda:\n    torch.cuda.synchronize()\nelse:\n    y = 1",
    "if x.sum() > 0:\n    y = 1\nelif args.a:\n    torch.cuda.synchronize()",
    "try:\n    y = 1\nfinally:\n    torch.cuda.synchronize()",
]


@pytest.mark.parametrize("body", EMPTIED)
def test_no_block_is_left_empty(body: str) -> None:
    assert reasons(step(body)) == ["it is the only statement of its block, which would be left empty"]


KEPT = {
    "torch.cuda.synchronize()\nlog(time.time())": "`time.time` on line 14 measures the time",
    "with timer('step'):\n    y = 1\ntorch.cuda.synchronize()": "`timer` on line 13 measures the time",
    "timer.start()\ntorch.cuda.synchronize()": "`timer.start` on line 13 measures the time",
    "log.batch_time.update(y)\ntorch.cuda.synchronize()": "measures the time",
    "torch.cuda.synchronize()\nlog(torch.cuda.max_memory_allocated())": "measures the memory",
    "torch.cuda.empty_cache()\nlog(torch.cuda.mem_get_info())": "measures the memory",
    "e = torch.cuda.Event(enable_timing=True)\ntorch.cuda.synchronize()": "measures the time",
    "with torch.profiler.record_function('a'):\n    torch.cuda.synchronize()": "measures the step",
    "log.prof.step()\ntorch.cuda.synchronize()": "measures the step",
    "z = y.to('cpu', non_blocking=True)\ntorch.cuda.synchronize()": "a non-blocking copy to the CPU may be in flight",
    "args.pinned.copy_(loss, non_blocking=True)\ntorch.cuda.synchronize()": "a non-blocking copy_ may be in flight",
    "work = dist.all_reduce(loss, "
    "async_op=True)\ntorch.cuda.synchronize()": "asynchronous communication may be in flight",
    "dist.isend(loss, 1)\ntorch.cuda.synchronize()": "asynchronous communication may be in flight",
    "with torch.cuda.stream(args.s):\n    y = x\ntorch.cuda.synchronize()": "streams of its own (line 13)",
    "try:\n    torch.cuda.synchronize()\nexcept RuntimeError:\n    continue": "line 15 catches CUDA errors",
    "args.queue(x.data_ptr())\ntorch.cuda.synchronize()": "given the memory addresses of tensors",
    "n = gc.collect()": "its return value is used",
    "print(gc.collect())": "its return value is used",
    "torch.cuda.synchronize(log())": "its argument does more than name a device",
    "torch.cuda.current_stream().synchronize()": "",
    "[torch.cuda.synchronize(i) for i in range(2)]": "its return value is used",
}  # fmt: skip


@pytest.mark.parametrize(("body", "reason"), KEPT.items())
def test_is_refused(body: str, reason: str) -> None:
    found = reasons(step(body))
    assert len(found) == bool(reason)
    assert not reason or reason in found[0]


@pytest.mark.parametrize("body", [
    "if args.step % 10 == 0:\n    torch.cuda.empty_cache()",
    "try:\n    y = 1\nexcept RuntimeError:\n    torch.cuda.empty_cache()",
    "if args.log:\n    torch.cuda.synchronize()",
])  # fmt: skip
def test_what_runs_now_and_then_stays(body: str) -> None:
    assert reasons(step(body)) == []


def test_is_no_instance() -> None:
    assert reasons(step("optimizer.synchronize()")) == []


def test_outside_of_steps_nothing_is_said() -> None:
    code = HEAD + "    torch.cuda.synchronize()\n    gc.collect()\n"
    assert reasons(code) == []
    assert reasons("import torch\n\n\ndef sync():\n    torch.cuda.synchronize()\n") == []


def test_forward_passes_are_parts_of_steps() -> None:
    code = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {}return x * 2\n"
    before = code.format("torch.cuda.synchronize()\n        ")
    assert result(before).after.decode() == code.format("")


def test_functions_that_forward_passes_call_are_parts_of_steps() -> None:
    code = """\
        import torch

        def group(points):
            torch.cuda.synchronize()
            return points

        class Layer(torch.nn.Module):
            def forward(self, points):
                return group(points)
        """
    assert "synchronize" not in result(textwrap.dedent(code)).after.decode()


def test_the_clock_of_a_generator_that_the_rounds_go_over_counts() -> None:
    generator = """

def log_every(loader):
    end = {clock}
    for batch in loader:
        yield batch
        print({clock} - end)
"""
    code = step("torch.cuda.synchronize()\nlog(1)").replace("in loader:", "in log_every(loader):")
    (reason,) = reasons(code + generator.replace("{clock}", "time.perf_counter()"))
    assert "`log_every` on line" in reason
    assert "measures the time" in reason
    assert "synchronize" not in result(code + generator.replace("{clock}", "len(loader)")).after.decode()


def test_the_clock_of_a_caller_counts() -> None:
    helper = "\n\ndef wait():\n    torch.cuda.synchronize()\n    return 1\n"
    (reason,) = reasons(step("wait()\nlog(time.perf_counter())") + helper)
    assert "`time.perf_counter` on line 14" in reason
    found = result(step("wait()") + helper)
    assert found.after.decode() == step("wait()") + helper.replace("    torch.cuda.synchronize()\n", "")


def test_the_clock_around_an_inner_loop_counts() -> None:
    inner = "for net in args.nets:\n    net(x).sum().backward()\n    torch.cuda.synchronize()\n"
    (reason,) = reasons(step(f"start = time.time()\n{inner}log(time.time() - start)"))
    assert "`time.time` on line 13" in reason
    assert "synchronize" not in result(step(inner)).after.decode()
    helper = "\n\ndef fit(x, args):\n" + textwrap.indent(inner, "    ")
    (reason,) = reasons(step("start = time.time()\nfit(x, args)\nlog(time.time() - start)") + helper)
    assert "`time.time` on line 13" in reason
    assert "synchronize" not in result(step("fit(x, args)") + helper).after.decode()


def test_the_clock_of_a_function_that_is_called_counts() -> None:
    helper = "\n\nclass Watch:\n    def stop(self):\n        return time.perf_counter()\n"
    (reason,) = reasons(step("watch = Watch()\ntorch.cuda.synchronize()\nlog(watch.stop())") + helper)
    assert "`watch.stop` on line 15" in reason


@pytest.mark.parametrize("decorator", [
    "def watched(f):\n    def g(*a):\n        log(time.time())\n        return f(*a)\n    return g",
    "from utils import timeit",
])  # fmt: skip
def test_a_decorator_may_measure(decorator: str) -> None:
    name = "timeit" if "timeit" in decorator else "watched"
    helper = f"\n\n{decorator}\n\n\n@{name}\ndef wait():\n    torch.cuda.synchronize()\n    return 1\n"
    (reason,) = reasons(step("wait()") + helper)
    assert f"`@{name}` on line" in reason
    assert "synchronize" not in result(step("wait()") + helper.replace(f"@{name}", "@torch.no_grad()")).after.decode()


def test_a_time_budget_counts() -> None:
    head = HEAD.replace("for x, y in loader:", "while time.time() < args.end:\n        x, y = next(loader)")
    (reason,) = reasons(step("torch.cuda.synchronize()", head))
    assert "measures the time" in reason


@pytest.mark.parametrize("library", ["cupy", "nvidia.dali", "numba.cuda", "tensorrt", "ctypes"])
def test_libraries_without_pytorchs_order(library: str) -> None:
    (reason,) = reasons(step("torch.cuda.synchronize()", f"import {library}\n{HEAD}"))
    assert "outside of PyTorch's stream order (line 1)" in reason


@pytest.mark.parametrize(
    "sign",
    ["gc.disable()", "gc.freeze()", "class A:\n    def __del__(self):\n        print(1)",
     "import weakref\nweakref.finalize(f, print)"],
)  # fmt: skip
def test_collections_that_matter(sign: str) -> None:
    (reason,) = reasons(step("gc.collect()") + sign + "\n")
    assert "line 14" in reason or "line 15" in reason


def test_a_function_that_is_only_called_now_and_then_is_no_part_of_every_step() -> None:
    helper = "\n\ndef validate():\n    torch.cuda.synchronize()\n    return 1\n"
    assert reasons(step("if args.step % 10 == 0:\n    validate()") + helper) == []
    assert result(step("validate()") + helper).outcome is Outcome.CHANGED
