"""Options and marks of the whole suite."""

from __future__ import annotations

import signal
import zlib

import pytest
from hypothesis import settings

# A busy machine is no fault of what is tested.
settings.register_profile("perfmod", deadline=None)
settings.load_profile("perfmod")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts jobs in the background so, and the tests of Ctrl-C would wait for what they interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regen-goldens",
        action="store_true",
        help="write the .out.py of every golden that changes; the run fails, so that somebody reads them",
    )
    parser.addoption("--exhaustive", action="store_true", help="run what is marked as exhaustive, too")
    parser.addoption("--exhaustive-part", type=_part, metavar="K/N", help="run the K-th of N parts of it, too")


def _part(text: str) -> tuple[int, int]:
    """Two numbers, the first from 1 to the second."""
    number, _, parts = text.partition("/")
    if not 1 <= int(number) <= int(parts):
        raise ValueError(f"{text}: the first number is from 1 to the second")
    return int(number), int(parts)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no worker of xdist is left alone with it in the end.

    Skip what is marked `exhaustive` unless asked for, and what is marked `cuda` where torch sees no device.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if not config.getoption("--exhaustive"):
        number, parts = config.getoption("--exhaustive-part") or (1, None)
        for item in items:
            # By name, so that a part stays the same whatever else is collected.
            chosen = parts is not None and zlib.crc32(item.nodeid.encode()) % parts == number - 1
            if item.get_closest_marker("exhaustive") and not chosen:
                item.add_marker(pytest.mark.skip(reason="like others that do run; --exhaustive runs it"))
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))
