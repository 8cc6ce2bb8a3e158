"""Hears some of torch's warnings in Python, however the script filters its warnings meanwhile."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

# Every function of `warnings` that changes the filters calls this one afterwards; Python 3.14 renamed it.
_CHANGED = "_filters_mutated_lock_held" if hasattr(warnings, "_filters_mutated_lock_held") else "_filters_mutated"


class PythonWarnings:
    """Calls `heard` with each warning whose text fits a pattern, and shows none of them.

    The two functions that it replaces are the lowest ones written in Python: a script that ignores warnings, records
    them with `catch_warnings` or sends them to its log changes what lies above, and goes on doing so with the others.
    """

    def __init__(self, pattern: str, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._pattern = re.compile(pattern)
        self._filter = ("always", self._pattern, Warning, None, 0)
        self._module: Any = warnings
        self._show = self._module._showwarnmsg
        self._changed = getattr(warnings, _CHANGED)

    def start(self) -> None:
        """Hear every warning from now on."""
        self._module._showwarnmsg = self._shown
        setattr(warnings, _CHANGED, self._keep_first)
        self._keep_first()

    def stop(self) -> None:
        """Leave warnings as the script has them."""
        self._module._showwarnmsg = self._show
        setattr(warnings, _CHANGED, self._changed)
        self._module.filters[:] = [each for each in self._module.filters if each is not self._filter]
        self._changed()

    def _shown(self, message: warnings.WarningMessage) -> None:
        text = str(message.message)
        if self._pattern.match(text):
            self._heard(text)
        else:
            self._show(message)

    def _keep_first(self) -> None:
        filters = self._module.filters
        if not filters or filters[0] is not self._filter:
            filters.insert(0, self._filter)
        self._changed()
