"""What perfmod takes for granted, decided once for all rules: rules ask here and have no opinions of their own.

docs/policy.md says the same to users. What no policy decides is a question: a person answers it (`--unsafe`,
a comment, an annotation), or a run does by watching.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from perfmod.transforms.finding import Question

MOST_WORKERS = 8
"""More seldom help, and each costs memory and start-up time."""


class Target(str, enum.Enum):
    """The platforms that rewritten code has to run on. It decides whether something is written, never what."""

    CUDA = "cuda"
    """CUDA on Linux: devices have float64, and workers can be forked."""
    PORTABLE = "portable"
    """Also MPS, XPU, Windows and macOS, as far as the code at hand speaks of them."""


class HalfType(str, enum.Enum):
    """The types that mixed precision computes in."""

    BFLOAT16 = "bfloat16"
    """The range of float32, so that gradients need no scaling; computed quickly by GPUs from Ampere on."""
    FLOAT16 = "float16"
    """Small gradients have to be scaled up; the only one that older GPUs compute quickly."""


class CompileMode(str, enum.Enum):
    """The modes of `torch.compile` that a rewrite may write."""

    DEFAULT = "default"
    REDUCE_OVERHEAD = "reduce-overhead"
    """Replays forward and backward passes as CUDA graphs."""
    MAX_AUTOTUNE = "max-autotune-no-cudagraphs"
    """Times several kernels for each product of matrices, which takes minutes."""


@frozen
class Policy:
    """The policies that a project chooses.

    Attributes:
        workers: the most workers that a rewrite gives a loader; a number that the script has is left as it is.
        assumed: the predicates that the project answers with yes wherever they are asked.
        half_type: what mixed precision computes in.
        compile_mode: the mode in which models are compiled.
        report_every: of how many steps one reports what was reported in each; None leaves that as it is.
    """

    target: Target = Target.CUDA
    workers: int = MOST_WORKERS
    assumed: frozenset[str] = frozenset()
    half_type: HalfType = HalfType.BFLOAT16
    compile_mode: CompileMode = CompileMode.DEFAULT
    report_every: int | None = None

    @property
    def is_portable(self) -> bool:
        """Whether the code may run on devices and systems other than CUDA on Linux."""
        return self.target is Target.PORTABLE

    def answers(self, questions: Collection[Question]) -> bool:
        """Whether something is asked, and the project answers all of it with yes."""
        return bool(questions) and all(question.predicate in self.assumed for question in questions)
