"""PM201: samplers of the project's own that go on where the last epoch stopped."""

from __future__ import annotations

import pytest

from tests.rules.test_worker_traps import said

CODE = """\
import collections, itertools
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler

LAST = 0


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)).sqrt()


class Steps(Sampler):
    last = 0

    def __init__(self, size, inner=None):
        self.size = size
        self.inner = inner
        self.order = list(range(size))
        self.queue = collections.deque(self.order)
        self.stream = STREAM

    def forever(self):
        i = 0
        while True:
            yield i % self.size
            i += 1

    def __iter__(self):
        ITER

    def __next__(self):
        NEXT
        raise StopIteration


class Around(Sampler):
    def __init__(self, inner):
        self.inner = inner

    def __iter__(self):
        for index in self.inner:
            yield index


def main():
    model = nn.Linear(3, 2)
    loader = DataLoader(Numbers(), sampler=Steps(8))
    for epoch in range(3):
        for step, x in enumerate(loader):
            model(x.to(model.weight.device)).sum().backward()
            if step == 1:
                break


if __name__ == "__main__":
    main()
"""


def sampled(iterates: str, *, stream: str = "None", next_: str = "pass", loader: str = "sampler=Steps(8)") -> str:
    top = "COUNT = itertools.count()" if "COUNT" in iterates else "LAST = 0"
    code = (
        CODE.replace("LAST = 0", top)
        .replace("STREAM", stream)
        .replace("ITER\n", iterates + "\n")
        .replace("NEXT\n", next_ + "\n")
    )
    return said(code.replace("sampler=Steps(8)", loader))


@pytest.mark.parametrize(("iterates", "more"), [
    ("return self.stream", {"stream": "self.forever()"}),
    ("return self.stream", {"stream": "iter(range(size))"}),
    ("return self.stream", {"stream": "itertools.cycle(range(size))"}),
    ("return self.stream", {"stream": "(i for i in range(size))"}),
    ("return itertools.islice(self.stream, 4)", {"stream": "itertools.count()"}),
    ("yield from self.stream", {"stream": "self.forever()"}),
    ("for _ in range(4): yield next(self.stream)", {"stream": "self.forever()"}),
    ("for index in self.stream: yield int(index)", {"stream": "open('order.txt')"}),
    ("for _ in range(4): yield next(COUNT)", {}),
    ("while self.queue: yield self.queue.popleft()", {}),
    ("self.order.append(0); return iter(self.order)", {}),
    ("stream = self.stream; yield next(stream)", {"stream": "self.forever()"}),
    ("self.at, self.end = 0, 8; return iter(self.order)", {}),
    ("return self", {"next_": "self.last += 1"}),
    ("Steps.last += 1; return iter(self.order)", {}),
    ("global LAST; LAST = 1; return iter(self.order)", {}),
])  # fmt: skip
@pytest.mark.parametrize(
    "loader",
    ["sampler=Steps(8)", "batch_sampler=BatchSampler(sampler=Steps(8), batch_size=2, drop_last=True)",
     "sampler=Around(Steps(8))"],
)  # fmt: skip
def test_samplers_that_go_on(iterates: str, more: dict[str, str], loader: str) -> None:
    assert "and with workers it runs ahead of the training" in sampled(iterates, loader=loader, **more)


@pytest.mark.parametrize("iterates", [
    "return iter(self.order)",
    "return iter(range(self.size))",
    "yield from self.order",
    "order = list(self.order); order.append(0); return iter(order)",
    "order = [index for index in self.order if index]; order[0] = 1; return iter(order)",
    "return itertools.islice(self.forever(), 4)",
    "return (index for index in self.order)",
    "rest = iter(self.order); yield next(rest)",
])  # fmt: skip
@pytest.mark.parametrize("loader", ["sampler=Steps(8)", "sampler=Around(Steps(8))"])
def test_samplers_that_begin_anew(iterates: str, loader: str) -> None:
    assert sampled(iterates, loader=loader) == ""
