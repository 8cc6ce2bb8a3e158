"""Answers do not depend on the order in which they are asked, and chains of questions may be long."""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import libcst as cst
import pytest
from golden_harness.golden import goldens
from snippets import facts, used

from perfmod.transforms.facts.aliasing import Aliasing
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.gradients import runs_without_graph
from perfmod.transforms.facts.shapes import Shapes
from perfmod.transforms.facts.tree import find_all
from perfmod.transforms.facts.value import Device, Kind
from perfmod.transforms.facts.values import Values
from perfmod.transforms.source import Source
from perfmod.transforms.waits import Waits

EVERY = 25
"""Every so many goldens are asked each time."""
FILES = [
    pytest.param(golden.before, marks=[pytest.mark.exhaustive] if number % EVERY else [], id=golden.name)
    for number, golden in enumerate(goldens())
]
CIRCLES = {
    "loop": """
        def f(x, y: torch.Tensor):
            total = 0
            for part in y:
                x, y = y, x
                total = total + x * y
                x = g(x, total)
            return total
        def g(a, b):
            return f(a, b) + h(b) if a else b
        def h(b=None):
            return [g(b, b), b][0]
        """,
    "classes": """
        class Block(nn.Module):
            def __init__(self, inner, width=3):
                super().__init__()
                self.inner = inner
                self.width = self.next(width)
            def next(self, width):
                return width if self.inner is None else self.inner.width + 1
            def forward(self, x, out=None):
                out = self.inner(x, out) if self.inner is not None else x
                return self.forward(out, x) if self.width > 3 else out * self.width
        block = Block(Block(None), 4)
        block.inner.inner = block
        y = block(torch.zeros(3).cuda())
        """,
    "containers": """
        rows = []
        row = [rows, torch.zeros(3)]
        for each in rows:
            rows.append(row)
            row = [each, row]
            rows = row[0]
        """,
    "one parameter, many callers": """
        class Stage(nn.Module):
            def __init__(self, depth, channels):
                for i in range(depth):
                    if i:
                        channels = out_channels
                    out_channels = channels * 2
                    self.proj = Stage(depth - 1, out_channels)
                self.channels = out_channels
            def forward(self, x):
                return self.proj(x) + self.channels
        class Net(nn.Module):
            def __init__(self, channels=96):
                self.stages = Stage(2, channels)
                self.last = Stage(1, self.stages.channels)
            def forward(self, x):
                return self.last(self.stages(x))
        """,
}


# Every line needs the one above it, and so on, for as long as the chain is.
CHAINS = {
    "names": ("x0 = torch.zeros(3).cuda()\n", "x{i} = x{j} + 1\n", "use(x{i}, x0)\n"),
    "functions": ("def f0(x):\n    return x.cuda()\n", "def f{i}(x):\n    return f{j}(x) * 1.0\n",
        "use(f{i}(torch.zeros(3)))"),
    "parameters": ("f1(torch.zeros(3).cuda())\n", "def f{j}(x):\n    f{i}(x * 2)\n", "def f{i}(x):\n    use(x)\n"),
    "attributes": ("class A(nn.Module):\n    def __init__(self):\n        self.a0 = torch.zeros(3).cuda()\n",
        "        self.a{i} = self.a{j} * 2\n", "        use(self.a{i})\n"),
    "circles": ("x0 = torch.zeros(3).cuda()\n", "x{i} = x{j}\nwhile go():\n    x{i} = x{i} + x{j}\n", "use(x{i})\n"),
    "one circle": ("x0 = torch.zeros(3).cuda()\nfor _ in range(3):\n", "    x{i} = x{j} + torch.ones(3).cuda()\n",
        "    x0 = x{i}\nuse(x0)\n"),
}  # fmt: skip


def answers(file: FileFacts, arrange: Callable[[list[int]], object]) -> list[object]:
    """What is known of every node of a file, asked in an order."""
    world = file.world
    values = Values(world.tree, world.flow, world.names, world.classes)
    aliasing = Aliasing(world.tree, world.flow, world.names, values)
    shapes = Shapes(world.tree, world.flow, world.names, values, aliasing, world.stores)
    kinds: Mapping[type[cst.CSTNode], Sequence[Callable[..., object]]] = {
        cst.BaseExpression: (values.of, values.iterated, values.loader_of, shapes.key),
        cst.Call: (values.calls.resolve, aliasing.written_by),
        cst.FunctionDef: (values.calls.callers, values.returned),
        cst.Name: (aliasing.hands_on, aliasing.mutates, aliasing.is_mutated),
    }
    asked = [partial(ask, node) for kind, each in kinds.items() for node in world.tree.all(kind) for ask in each]
    numbers = list(range(len(asked)))
    arrange(numbers)
    found = {number: asked[number]() for number in numbers}
    return [found[number] for number in range(len(asked))]


def assert_order_is_the_same_to(file: FileFacts) -> None:
    forwards = answers(file, list.sort)
    for arrange in (list.reverse, random.Random(1).shuffle, random.Random(2).shuffle):
        assert answers(file, arrange) == forwards


@pytest.mark.parametrize("code", FILES)
def test_answers_about_goldens_do_not_depend_on_their_order(code: bytes) -> None:
    assert_order_is_the_same_to(FileFacts(Source.parse(code)))


@pytest.mark.parametrize("name", CIRCLES)
def test_answers_in_circles_do_not_depend_on_their_order(name: str) -> None:
    assert_order_is_the_same_to(facts(f"import torch\nfrom torch import nn\n{textwrap.dedent(CIRCLES[name])}"))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("length", [3, 300])
def test_chains_may_be_long(name: str, length: int) -> None:
    first, link, last = CHAINS[name]
    links = "".join(link.format(i=i, j=i - 1) for i in range(2 if name == "parameters" else 1, length + 1))
    code = f"import torch\nfrom torch import nn\n{first}{links}{last.format(i=length)}"
    for arrange in (iter, reversed):
        file = facts(code)
        found = [(file.value(node), file.shapes.key(node)) for node in arrange(used(file))]
        assert {(value.kind, value.device) for value, _ in found} == {(Kind.TENSOR, Device.ACCELERATOR)}
        assert len({key for _, key in found}) == 1


def test_chains_of_calls_may_be_long() -> None:
    calls = "".join(f"def f{i}(x):\n    f{i - 1}(x)\n" for i in range(1, 301))
    file = facts(
        f"import torch\ndef f0(x):\n    x.add_(use(x))\n{calls}with torch.no_grad():\n    f300(torch.ones(3))\n"
    )
    assert runs_without_graph(file, used(file)[0])
    last = next(each for each in file.tree.all(cst.FunctionDef) if each.name.value == "f300")
    assert file.aliasing.is_mutated(next(node for node in find_all(last.body, cst.Name) if node.value == "x"))


def test_waits_of_functions_that_call_themselves_are_found() -> None:
    file = facts(
        """
        import torch
        def f(x, n):
            n = n - x.item()
            return g(x, n) if n > 0 else x.item()
        def g(x, n):
            use(x.item())
            return f(x, n)
        f(torch.zeros(()).cuda(), 3)
        """
    )
    (read,) = used(file)
    left = Waits(file).remaining(read, {read})
    assert left is not None
    assert file.line(left) == "3"


def test_what_changes_with_itself_is_answered() -> None:
    file = facts(
        """
        import torch
        def f(loader, dtype, kind, x, rows):
            for _ in range(3):
                loader = iter(loader)
                dtype = x.dtype if rows else dtype
                kind = x.dtype if rows else kind
                rows = [rows, rows]
                x = x.flatten()
            use(x.to(dtype), x.to(kind), rows, x)
            for batch in loader:
                use(batch)
        """
    )
    assert len(answers(file, list.sort)) > 0
    assert file.values.loader_of(used(file)[0]) is None
