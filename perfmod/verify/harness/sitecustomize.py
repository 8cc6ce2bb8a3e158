"""Imported by every Python process that has this folder in PYTHONPATH, before the user's script begins."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def _run_the_one_we_hide() -> None:
    """The environment may have a sitecustomize of its own, further down the path: run it as if we were not here."""
    ours = Path(__file__).parent
    paths = [path for path in sys.path if path and Path(path) != ours]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    from perfmod_harness.start import start  # type: ignore[import-not-found]

    start()
finally:
    _run_the_one_we_hide()
