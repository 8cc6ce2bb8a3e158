"""Long chains of assignments, calls and classes cost time by their length, not by the number of ways through them.

Each search that the rules make has a file here on which one that follows every way would not end.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable

import pytest

from perfmod.budget import within
from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult, Outcome
from tests.support.snippets import facts, used

LINKS = 150
FEWER = 80
"""Where each link is a function or class that is looked at for several reasons."""
SECONDS = 10.0
"""Some ten times of what is needed."""
HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

"""
TRAIN = """
def train(net, loader, optimizer, flags):
    total = 0.0
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        out = net(images)
        loss = F.cross_entropy(out, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        BODY
        total += loss.item()
    return total

"""
SAMPLES = """
class Samples(Dataset):
    def __init__(self, path, steps=(), flags=()):
        self.path, self.steps, self.flags = path, steps, flags

    def __len__(self):
        return 100

    def __getitem__(self, i):
        image = torch.load(self.path + str(i))
        BODY
        return image, i

"""
MAIN = """
if __name__ == "__main__":
    net = NET.cuda()
    train(net, DataLoader(DATA, batch_size=32), torch.optim.SGD(net.parameters(), lr=0.1), [])
"""


def put(template: str, *lines: str) -> str:
    """A template with lines where `BODY` stands, as deep as that."""
    (line,) = (line for line in template.splitlines() if line.strip() == "BODY")
    return template.replace(line, textwrap.indent("\n".join(lines), line.removesuffix("BODY")))


def main(net: str = "nn.Linear(3, 3)", data: str = "Samples('.')") -> str:
    return MAIN.replace("NET", net).replace("DATA", data)


def arms(one: str, other: str, links: int = LINKS) -> list[str]:
    """Two assignments as the arms of an `if`, again and again: twice as many ways with each."""
    return [line for i in range(links) for line in (f"if flags[{i}]:", f"    {one}", "else:", f"    {other}")]


def pairs(link: str, last: str, links: int = LINKS) -> str:
    """Functions or classes of which each, `A`, uses the next two, `B` and `C`; and the two at the end."""

    def named(template: str, number: int) -> str:
        for place, letter in enumerate("ABC"):
            template = template.replace(f"${letter}", f"Part{number + place}")
        return template

    return "\n\n".join([named(link, i) for i in range(links)] + [named(last, links + i) for i in (0, 1)]) + "\n\n"


def score_model() -> str:
    """As in score-based diffusion: the blocks of a list are applied one by one, some of them under a condition."""
    blocks: Iterable[list[str]] = (
        [f"if flags[{i}]:", "    h = modules[m](h)", "    m += 1", "h = (h + h) / 2.0"] for i in range(LINKS)
    )
    chain = [line for block in blocks for line in block]
    tail = ["if h > 1:", "    h = -h", "print(float(h))", "return h"]
    forward = "class Net(nn.Module):\n    def forward(self, x, flags):\n        BODY\n"
    return put(forward, "modules, m = self.blocks, 0", "h = modules[m](x)", *chain, *tail) + put(TRAIN, "pass")


def unknown_tensors() -> str:
    """Nothing tells that they are tensors, and nothing that they are not."""
    return put(
        TRAIN, "x = unseen(images)", *arms("x = x.float()", "x = x + x"), "if x > 0:", "    x = -x", "print(f'{x}')"
    )


def a_function_in_both_arms() -> str:
    forward = put("def forward(x, flags):\n    BODY\n    return x\n", *arms("x = scale(x)", "x = x + scale(x)"))
    return forward + put(TRAIN, "print(forward(out, flags).sum().item())")


def shapes() -> str:
    chain = ["x = x.view(x.size(0), -1) + x"] * LINKS
    return put(TRAIN, "x = out", *chain, "x[x > 0] = x[x > 0] * 2", "x[torch.nonzero(labels)] = 0.0")


def shapes_in_a_loop() -> str:
    chain = ["    x = x.view(x.size(0), -1) + x", "    y += x", "    y = y + y.detach()"] * (LINKS // 3)
    tail = ["    index = (x > y).nonzero()", "    x[index] = y[index]"]
    return put(TRAIN, "x, y = out, torch.zeros_like(out)", "for _ in range(3):", *chain, *tail)


def shapes_in_both_arms() -> str:
    chain = arms("x = x + x.detach()", "x = x.view(x.size(0), -1) * x")
    return put(TRAIN, "x = out", *chain, "x[x > 0] = 0.0", "x[torch.nonzero(x)] = x[torch.nonzero(x)]")


def a_loss_without_backward() -> str:
    """Whether it has one element is asked of all that is made of it, and that it is made of."""
    chain = arms("extra = extra + 1.0", "extra = extra * 2.0")
    return put(TRAIN, "extra = F.mse_loss(out, labels)", *chain, "total += extra.item()")


def gradients() -> str:
    """There are none, whichever way the figures come."""
    return put(TRAIN, "x = out.detach() * 2.0", *arms("x = x + 1.0", "x = x * x"), "total += x.sum()")


def kept_tensors() -> str:
    """Whether one that is kept in a list keeps a graph."""
    loop = put(TRAIN, "x = images", *arms("x = x + weight", "x = x * weight"), "kept.append(x)")
    return loop.replace("total = 0.0", "total, kept, weight = 0.0, [], torch.zeros(3, requires_grad=True)")


def functions_that_hand_on() -> str:
    """Whether one of them may return a mean, as old code reads it."""
    chain = pairs(
        "def $A(x):\n    if x is None:\n        return $B(x)\n    return $C(x)\n", "def $A(x):\n    return x\n"
    )
    return chain + put(TRAIN, "print(Part0(out).data[0])")


def functions_that_call_two() -> str:
    chain = pairs(
        "def $A(x):\n    return $B(x) + $C(x * 2)\n",
        "def $A(x):\n    return x.item()\n",
    )
    return chain + put(TRAIN, "total += Part0(loss)")


def functions_that_a_script_calls() -> str:
    """In front of a loop at the top level, which workers would import."""
    chain = pairs("def $A(x):\n    $B(x)\n    return $C(x)\n", "def $A(x):\n    return len(x)\n")
    loop = textwrap.dedent(put(TRAIN, "pass").partition("):\n")[2]).replace("return total\n", "")
    made = ["net = nn.Linear(3, 3).cuda()", "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)"]
    top = "\n".join(["size = Part0('x')", *made, "loader = DataLoader(Samples('.'), batch_size=3)", ""])
    return chain + put(SAMPLES, "pass") + top + loop


def methods_that_call_two() -> str:
    chain = pairs(
        "    def $A(self, x):\n        self.$B(x)\n        return self.$C(x + 1)\n",
        "    def $A(self, x):\n        self.total += x.item()\n        return x\n",
        FEWER,
    )
    return f"class Log:\n    total = 0.0\n\n{chain}\nlog = Log()\n" + put(TRAIN, "log.Part0(loss)")


def generators() -> str:
    chain = pairs(
        "def $A(x):\n    yield from $B(x)\n    for y in $C(x):\n        yield y\n",
        "def $A(x):\n    yield from DataLoader(x, batch_size=3)\n",
        FEWER,
    )
    return chain + put(TRAIN, "pass").replace("in loader", "in Part0(loader)")


def classes_that_hold_two() -> str:
    chain = pairs(
        "class $A(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = $B(), $C()\n\n"
        "    def forward(self, x):\n"
        "        return self.a(x) + self.b(x)\n",
        "class $A(nn.Module):\n    def forward(self, x):\n        print(x.sum().item())\n        return x\n",
        FEWER,
    )
    return chain + put(SAMPLES, "pass") + put(TRAIN, "pass") + main("Part0()")


def classes_that_derive_from_two() -> str:
    chain = pairs(
        "class $A($B, $C):\n    def forward(self, x):\n        return super().forward(x)\n",
        "class $A(nn.Module):\n    def forward(self, x):\n        return x.sum().item()\n",
        40,
    )
    bases_first = "\n\n".join(reversed(chain.strip().split("\n\n")))
    return bases_first + put(TRAIN, "pass") + main("Part0()", "[1]")


def samples_through_a_chain() -> str:
    chain = [f"image = self.steps[{i}](image) if self.flags[{i}] else image + image" for i in range(LINKS)]
    return put(SAMPLES, *chain) + put(TRAIN, "pass") + main()


def datasets_that_hold_two() -> str:
    chain = pairs(
        "class $A(Dataset):\n"
        "    def __init__(self, path):\n"
        "        self.a, self.b = $B(path), $C(path)\n\n"
        "    def __len__(self):\n"
        "        return len(self.a)\n\n"
        "    def __getitem__(self, i):\n"
        "        return self.a[i] + self.b[i]\n",
        "class $A(Dataset):\n    def __getitem__(self, i):\n        return torch.load(str(i))\n",
        FEWER,
    )
    return chain + put(TRAIN, "pass") + main(data="Part0('.')")


def datasets_of_datasets() -> str:
    """What one function hands back may be what any call of it was given."""
    chain = arms("data = checked(data)", "data = Subset(data, [1])", FEWER)
    build = put("\ndef build(flags):\n    data = Samples('.')\n    BODY\n    return data\n", *chain)
    checked = "\ndef checked(data):\n    return data\n\n"
    return put(SAMPLES, "pass") + checked + build + put(TRAIN, "pass") + main(data="build([])")


@pytest.mark.parametrize("written", [
    score_model,
    unknown_tensors,
    a_function_in_both_arms,
    shapes,
    shapes_in_a_loop,
    shapes_in_both_arms,
    a_loss_without_backward,
    gradients,
    kept_tensors,
    functions_that_hand_on,
    functions_that_call_two,
    functions_that_a_script_calls,
    methods_that_call_two,
    generators,
    classes_that_hold_two,
    classes_that_derive_from_two,
    samples_through_a_chain,
    datasets_that_hold_two,
    datasets_of_datasets,
])  # fmt: skip
def test_long_chains(written: Callable[[], str]) -> None:
    code = HEAD + written()
    compile(code, "train.py", "exec")

    def examined() -> FileResult:
        return rewrite(code.encode(), "train.py", catalog.rules(), Choice(unsafe=True))

    result = within(SECONDS, examined)
    assert result.outcome in (Outcome.CHANGED, Outcome.UNCHANGED), result.reason
    assert result.applied or result.held_back or result.refused


def test_parts_of_parts() -> None:
    """A function that calls itself with several parts of what it is given."""
    calls = "\n".join(f"    part(x[{index}])" for index in range(6))
    file = facts(f"def part(x):\n    use(x)\n{calls}\n\n\npart(made)\n")
    (asked,) = used(file)
    assert len(within(SECONDS, lambda: file.tracing.ends(asked))) < 10_000
