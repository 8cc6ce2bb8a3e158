"""PM402: profilers that nobody reads, those that somebody does, marks and checks."""

from __future__ import annotations

import textwrap

import pytest
from whole_files import WholeFiles

from perfmod.codemods.engine import rewrite
from perfmod.transforms.finding import Safety
from perfmod.transforms.leftovers.profiler_left_on import ProfilerLeftOn

FILES = WholeFiles(ProfilerLeftOn())
LOOP = "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n"


def under(header: str, more: str = "") -> str:
    return f"{header}\n" + textwrap.indent(LOOP + more, "    ")


CHANGES = {
    "block": (under("with torch.profiler.profile():"), LOOP),
    "name that is not read": (under("with torch.profiler.profile() as prof:"), LOOP),
    "older": (under("with torch.autograd.profiler.profile(use_device='cuda') as prof:"), LOOP),
    "enabled": (under("with torch.autograd.profiler.profile(True):"), LOOP),
    "driven": (under("with torch.profiler.profile() as prof:", "    prof.step()\n"), LOOP),
    "started": (f"p = torch.profiler.profile()\np.start()\n{LOOP}p.stop()\n", LOOP),
    "other manager": (under("with torch.profiler.profile(), torch.enable_grad():"), under("with torch.enable_grad():")),
    "inside of the step": (("for x in loader:\n    with torch.profiler.profile():\n        loss = model(x).sum()\n"
          "    loss.backward()"), "for x in loader:\n    loss = model(x).sum()\n    loss.backward()"),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CHANGES.values(), ids=CHANGES)
def test_goes_where_nobody_reads_it(before: str, after: str) -> None:
    FILES.assert_becomes(before, after)


UNSAFE = {
    "marks": (under("with torch.autograd.profiler.emit_nvtx():"), LOOP),
    "assertion": (LOOP + "    assert torch.autograd.gradcheck(f, x)\n", LOOP),
    "statement": (LOOP + "    torch.autograd.gradgradcheck(f, x)\n", LOOP),
}


@pytest.mark.parametrize(("before", "after"), UNSAFE.values(), ids=UNSAFE)
def test_is_held_back_where_something_is_missed(before: str, after: str) -> None:
    FILES.assert_becomes(before, after, Safety.UNSAFE)


ADVICE = {
    "read": under("with torch.profiler.profile() as prof:") + "print(prof.key_averages())",
    "exported": under("with torch.profiler.profile() as prof:") + "prof.export_chrome_trace('t')",
    "handler": under("with torch.profiler.profile(on_trace_ready=save):"),
    "attribute": under("with torch.profiler.profile() as self.prof:"),
    "returned": f"def f():\n    p = torch.profiler.profile()\n{textwrap.indent(LOOP, '    ')}    return p\n",
}


@pytest.mark.parametrize("code", ADVICE.values(), ids=ADVICE)
def test_a_profiler_that_is_read_is_advised_on(code: str) -> None:
    (found,) = FILES.reports(code)
    assert not found.refused
    assert "schedule" in found.reason


def test_a_check_that_decides_is_refused() -> None:
    (found,) = FILES.reports(LOOP + "    good = torch.autograd.gradcheck(f, x)\n    print(good)\n")
    assert found.refused


@pytest.mark.parametrize("code", [
    under("with torch.profiler.profile(schedule=torch.profiler.schedule(wait=1, warmup=1, active=1)) as prof:"),
    under("with torch.autograd.profiler.profile(enabled=args.profile) as prof:"),
    under("with torch.autograd.profiler.profile(False) as prof:"),
    f"if args.profile:\n{textwrap.indent(under('with torch.profiler.profile():'), '    ')}",
    f"{LOOP}with torch.profiler.profile() as prof:\n    model(x)\nprint(prof)",
    f"{LOOP}torch.autograd.gradcheck(f, x)",
    under("with torch.profiler.record_function('epoch'):"),
])  # fmt: skip
def test_is_silent(code: str) -> None:
    assert FILES.reasons(code) == []


def test_comments_move_with_the_block() -> None:
    before = under("with torch.profiler.profile() as prof:  # slow?", "    prof.step()  # next\n")
    FILES.assert_becomes(before, f"# slow?\n{LOOP}")


def test_a_long_block_is_not_moved_unasked() -> None:
    code = FILES.file(under("with torch.profiler.profile():", "    x = x + 1\n" * 12))
    (held,) = rewrite(code.encode(), "train.py", [ProfilerLeftOn()]).held_back
    assert held.safety is Safety.OPT_IN
    assert "review it with `git diff -w`" in held.reason
