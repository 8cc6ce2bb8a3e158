"""What a kernel does and in which number format, by its name: as cuBLAS, cuDNN, PyTorch and Triton call theirs."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import frozen


class Work(str, enum.Enum):
    """Sorts of work of a device."""

    MATMUL = "matrix products"
    CONVOLUTION = "convolutions"
    ATTENTION = "fused attention"
    RECURRENT = "recurrent layers"
    NORMALISATION = "normalisation"
    OPTIMIZER = "optimizer"
    REDUCTION = "reductions"
    RANDOM = "random numbers"
    INDEXING = "indexing"
    LAYOUT = "changes of layout"
    ELEMENTWISE = "elementwise"
    COPY = "copies"
    OTHER = "other kernels"


COMPUTING: Final = frozenset({Work.MATMUL, Work.CONVOLUTION, Work.ATTENTION, Work.RECURRENT})
"""Work whose time is mostly arithmetic, at sizes that fill a device; the others wait for memory."""

# The narrower before the wider: a convolution's kernel is also called a gemm, an optimizer's is elementwise.
_SORTS: Final[tuple[tuple[Work, str], ...]] = (
    (Work.COPY, r"^Memcpy|^Memset|CatArrayBatchedCopy|direct_copy_kernel"),
    (Work.ATTENTION, r"flash_(?:fwd|bwd)|fmha|flash::|attention|_sdpa_"),
    (Work.RECURRENT, r"(?:RNN|GRU|LSTM)_|cudnnRNN"),
    (Work.LAYOUT, r"nchwToNhwc|nhwcToNchw|[Tt]ranspose(?:_readWrite)?_|permute"),
    (Work.CONVOLUTION, r"conv(?:olve|olution)?|fprop|dgrad|wgrad|winograd|xmma_new"),
    (Work.OPTIMIZER, r"multi_tensor_apply|[Ff]used(?:Adam|Sgd|Adagrad)|adam|foreach"),
    (
        Work.NORMALISATION,
        r"(?:batch|layer|group|rms)_?norm|(?:Layer|Group)Norm|RowwiseMoments|bn_(?:fw|bw)",
    ),
    (Work.MATMUL, r"gemm|gemv|cutlass|nvjet|matmul|triton_tem|splitK|dot_kernel"),
    (Work.RANDOM, r"distribution|philox|[Dd]ropout|[Rr]andom|bernoulli"),
    (Work.INDEXING, r"index|gather|scatter|embedding|nonzero|sort|unique|masked_select|cub::"),
    (Work.REDUCTION, r"reduce|softmax|Softmax|nll_loss|triton_(?:red|per)_|cumsum|scan|argmax"),
    (Work.ELEMENTWISE, r"elementwise|triton_poi_|vectorized|unrolled|CUDAFunctor|fill|pool|upsample"),
)
_FORMATS: Final[tuple[tuple[str, str], ...]] = (
    ("fp8", r"e4m3|e5m2|fp8"),
    ("tf32", r"tf32|s1688gemm(?!_(?:bf16|f16))|s1688(?:fprop|dgrad|wgrad)"),
    ("bf16", r"bf16|BFloat16|bfloat16|nvjet_(?:sm\d+_)?t"),
    ("fp16", r"(?<!b)f16|fp16|[Hh]alf|hgemm|h\d+gemm|nvjet_(?:sm\d+_)?h"),
    ("fp64", r"dgemm|f64|double"),
    ("fp32", r"sgemm|f32|float|simt"),
)
_COMPILED: Final = [(work, re.compile(pattern)) for work, pattern in _SORTS]
_COMPILED_FORMATS: Final = [(name, re.compile(pattern)) for name, pattern in _FORMATS]


@frozen
class Share:
    """Time of a sort of work a step; `format` is empty where the name does not tell it."""

    work: Work
    format: str
    launches: float
    ms: float


def work_of(name: str) -> Work:
    """What a kernel, or a copy, does."""
    return next((work for work, pattern in _COMPILED if pattern.search(name)), Work.OTHER)


def format_of(name: str) -> str:
    """The format of its numbers; empty where the name does not tell it."""
    return next((found for found, pattern in _COMPILED_FORMATS if pattern.search(name)), "")


def shares(seen: Mapping[str, Iterable[float]]) -> tuple[Share, ...]:
    """Sorts of work by their time, the longest first. `seen` has launches and milliseconds a step, by name."""
    found: dict[tuple[Work, str], tuple[float, float]] = {}
    for name, (launches, ms) in ((name, tuple(row)) for name, row in seen.items()):
        work = work_of(name)
        key = work, format_of(name) if work in COMPUTING else ""
        before = found.get(key, (0.0, 0.0))
        found[key] = before[0] + launches, before[1] + ms
    rows = (Share(work, number, launches, ms) for (work, number), (launches, ms) in found.items())
    return tuple(sorted(rows, key=lambda share: -share.ms))
