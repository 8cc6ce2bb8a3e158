"""The operations of a script that need not repeat their bits, as torch's deterministic mode names them."""

from __future__ import annotations

import re
from typing import Any, Callable

import torch

from . import patching
from .heard_warnings import PythonWarnings

_PATTERN = re.compile(
    r"\W*(\w[\w. ]*?)(?:\(\))? (?:does not have a deterministic implementation|defaults to a non-deterministic)"
)


class Determinism:
    """Torch's deterministic mode, to the end of the run.

    Where torch has another algorithm that repeats its bits, that one runs, and nothing is said; where it has none, it
    warns.

    Attributes:
        warned: the operations that torch warned of, by the order in which they came.
    """

    def __init__(self) -> None:
        self.warned: dict[str, None] = {}

    def begin(self) -> None:
        """From now, whatever the script asks for later."""
        torch.use_deterministic_algorithms(True, warn_only=True)
        filling: Any = getattr(torch.utils, "deterministic", None)
        if filling is not None:
            # Slow, and of no use here: what reads memory that nobody has written is another matter.
            filling.fill_uninitialized_memory = False
        patching.around(torch, "use_deterministic_algorithms", _stay)
        PythonWarnings(_PATTERN.pattern, self._note).start()

    def _note(self, text: str) -> None:
        found = _PATTERN.match(text)
        assert found is not None
        self.warned[found[1]] = None


def _stay(_switch: Callable[..., None], *_args: Any, **_kwargs: Any) -> None:
    """In place of the function that switches the mode."""
