"""What perfmod takes for granted, decided once for all rules: rules ask here and have no opinions of their own.

docs/policy.md says the same to users. What no policy decides is a question: a person answers it (`--unsafe`,
a comment, an annotation), or a run does by watching.
"""

from __future__ import annotations

import enum

from attrs import frozen


class Target(str, enum.Enum):
    """The platforms that rewritten code has to run on. It decides whether something is written, never what."""

    CUDA = "cuda"
    """CUDA on Linux: devices have float64, and workers can be forked."""
    PORTABLE = "portable"
    """Also MPS, XPU, Windows and macOS, as far as the code at hand speaks of them."""


@frozen
class Policy:
    """The policies that a project chooses."""

    target: Target = Target.CUDA

    @property
    def is_portable(self) -> bool:
        """Whether the code may run on devices and systems other than CUDA on Linux."""
        return self.target is Target.PORTABLE
