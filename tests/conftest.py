"""Options and marks of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regen-goldens",
        action="store_true",
        help="write the .out.py of every golden that changes; the run fails, so that somebody reads them",
    )
    parser.addoption("--exhaustive", action="store_true", help="run what is marked as exhaustive, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked `exhaustive` unless asked for, and what is marked `cuda` where torch sees no device."""
    if not config.getoption("--exhaustive"):
        for item in items:
            if item.get_closest_marker("exhaustive"):
                item.add_marker(pytest.mark.skip(reason="like others that do run; --exhaustive runs it"))
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))
