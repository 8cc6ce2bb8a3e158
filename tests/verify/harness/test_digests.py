"""Digests: equal for equal tensors, different for different ones, and as far apart as the tensors are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from perfmod.verify.harness.perfmod_harness import digests as module
from perfmod.verify.harness.perfmod_harness.digests import BUCKETS, Digests
from perfmod.verify.harness.perfmod_harness.readout import Readout
from perfmod.verify.harness.perfmod_harness.shelf import Shelf


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small tensors have several."""
    monkeypatch.setattr(module, "CHUNK", 4 * BUCKETS)


class Read:
    """A digest as the record has it."""

    def __init__(self, tensor: Tensor) -> None:
        shelf = Shelf()
        digest = Digests(shelf).of(tensor)
        assert digest is not None
        shelf.fetch()
        readout = Readout(shelf)
        record = readout.digest(digest)
        self.shape, self.dtype, self.bits = record["shape"], record["dtype"], record["bits"]
        self.nan, self.inf, self.norm = record["nan"], record["inf"], record["norm"]
        self.sketch = list(readout.numbers)
        assert record["sketch"] == [0, len(self.sketch)]

    def seen(self) -> tuple[Any, ...]:
        return self.bits, self.nan, self.inf, self.norm, *self.sketch


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


SHAPES = [(), (1,), (127,), (128,), (129,), (512,), (513,), (3, 700), (1025, 2), (2, 3, 4, 5), (0,), (3, 0)]


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_tensors_have_equal_digests_and_small_ones_are_kept_as_they_are(shape: tuple[int, ...]) -> None:
    tensor = random(*shape)
    read = Read(tensor)
    assert read.seen() == Read(tensor.clone()).seen()
    assert (read.shape, read.dtype) == (list(shape), "float32")
    assert len(read.sketch) == min(BUCKETS, tensor.numel())
    assert read.norm == pytest.approx(tensor.double().norm().item(), rel=1e-12)
    if tensor.numel() <= BUCKETS:
        assert read.sketch == tensor.flatten().tolist()


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "channels last": lambda x: x.reshape(2, 30, 5, 20).to(memory_format=torch.channels_last),
    "every second": lambda x: torch.stack([x, x * 0], dim=-1)[..., 0],
    "expanded": lambda x: x[:1].expand(100, 60),
    "a parameter": torch.nn.Parameter,
    "negated twice": lambda x: torch.complex(x, -x).conj().imag,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_in_memory_does_not_matter(layout: str) -> None:
    tensor = LAYOUTS[layout](random(100, 60))
    assert Read(tensor).seen() == Read(tensor.detach().clone(memory_format=torch.contiguous_format)).seen()


DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.complex64),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [0, 130, 599])
def test_one_changed_value_anywhere_changes_the_digest(dtype: torch.dtype, place: int) -> None:
    tensor = (random(600) * 8).to(dtype)
    other = tensor.clone()
    other[place] = 0 if tensor[place] else 1
    one, two = Read(tensor), Read(other)
    assert one.bits != two.bits
    assert one.sketch != two.sketch


def test_order_signs_of_zero_and_types_are_bits() -> None:
    tensor = random(600)
    assert Read(tensor).bits != Read(tensor.flip(0)).bits
    swapped = tensor.clone()
    swapped[[3, 131]] = tensor[[131, 3]]
    assert Read(tensor).bits != Read(swapped).bits
    assert Read(torch.zeros(5)).bits != Read(-torch.zeros(5)).bits
    assert Read(torch.zeros(600)).bits != Read(torch.zeros(601)).bits
    assert Read(tensor).bits != Read(tensor.double()).bits
    # A million tensors that differ in two places do not collide; nor do their sums cancel out.
    base = torch.arange(1000.0)
    moved = []
    for step in range(1, 200):
        other = base.clone()
        other[step] += 1
        other[step + 128] -= 1
        moved.append(Read(other).bits)
    assert len({Read(base).bits, *moved}) == 200


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    tensor = random(600)
    broken = tensor.clone()
    broken[[1, 200, 300]] = torch.tensor([math.nan, math.inf, -math.inf])
    finite = tensor.clone()
    finite[[1, 200, 300]] = 0.0
    read = Read(broken)
    assert (read.nan, read.inf) == (1, 2)
    assert (read.norm, read.sketch) == (Read(finite).norm, Read(finite).sketch)
    assert read.bits != Read(finite).bits


def test_sketches_are_linear_and_as_long_as_the_tensor() -> None:
    one, two = random(3000).double(), random(3000, seed=1).double()
    difference = [a - b for a, b in zip(Read(one).sketch, Read(two).sketch, strict=True)]
    assert difference == pytest.approx(Read(one - two).sketch, abs=1e-12)
    # Their squared length is that of the tensor on average, with a standard deviation of sqrt(2 / 128).
    ratios = []
    for seed in range(60):
        tensor = random(5000, seed=seed) * torch.linspace(0, 3, 5000)
        ratios.append(sum(value**2 for value in Read(tensor).sketch) / float(tensor.double().square().sum()))
    assert abs(sum(ratios) / 60 - 1) < 4 * math.sqrt(2 / 128 / 60)
    # Values that are all alike would cancel out, or pile up, if the signs of all chunks had much in common.
    for numel in (3_000, 20_000, 200_000):
        alike = Read(torch.ones(numel))
        assert 0.7 < math.hypot(*alike.sketch) / alike.norm < 1.3


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_sparse_quantized_and_nested_tensors_are_known_by_their_values() -> None:
    dense = random(40, 30).relu()
    assert Read(dense.to_sparse()).seen() == Read(dense.to_sparse_csr()).seen() == Read(dense).seen()
    twice = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.tensor([2.0, 3.0]), (4,), check_invariants=True)
    assert Read(twice).sketch == [0.0, 5.0, 0.0, 0.0]
    nested = torch.nested.nested_tensor([random(2, 3), random(4, 3)], layout=torch.jagged)
    assert Read(nested).sketch == [*random(2, 3).flatten().tolist(), *random(4, 3).flatten().tolist()]
    assert Read(torch.complex(torch.tensor([1.0]), torch.tensor([2.0])).conj()).sketch == [1.0, -2.0]


def test_what_has_no_values_has_no_digest() -> None:
    digests = Digests(Shelf())
    assert digests.of(torch.empty(3, device="meta")) is None
    assert digests.of(torch.nn.LazyLinear(2).weight) is None


def test_the_scripts_modes_and_defaults_do_not_matter() -> None:
    tensor = random(600)
    plain = Read(tensor).seen()
    with torch.inference_mode(), torch.device("meta"), torch.autocast("cpu"):
        assert Read(tensor).seen() == plain
    torch.set_default_dtype(torch.float16)
    try:
        assert Read(tensor).seen() == plain
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_device_does_not_matter(dtype: torch.dtype) -> None:
    tensor = (random(70, 90) * 8).to(dtype)
    host, device = Read(tensor), Read(tensor.cuda())
    assert (host.bits, host.nan, host.inf) == (device.bits, device.nan, device.inf)
    assert device.sketch == pytest.approx(host.sketch, rel=1e-12)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_batch_on_the_device_is_known_as_on_the_host(dtype: torch.dtype) -> None:
    batch = (random(70, 90) * 8).to(dtype).t()
    assert module.known(batch.cuda()) == module.known(batch)
