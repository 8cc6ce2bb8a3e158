"""What the self-test runs on."""

from __future__ import annotations

import os

import pytest
from verify_bench import Bench

from perfmod.verify.scratch import Scratch


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """One for all tests of a process; processes of one session share what they ran."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    return Bench(Scratch(tmp_path_factory.mktemp("scratch").resolve()), folder / "verify_self_test")
