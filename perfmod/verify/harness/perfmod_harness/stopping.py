"""How a run is stopped from within."""

from __future__ import annotations


class Enough(SystemExit):
    """All that was wanted has been seen.

    Scripts and trainers swallow `Exception`, but let the interpreter exit; and so they do here, with status 0 and
    without a traceback, also in threads and in the children of torch.multiprocessing.
    """

    def __init__(self) -> None:
        super().__init__(0)
