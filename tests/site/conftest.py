"""The site, built once for all tests and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. Warnings are errors; pytest-xdist's processes share it."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    built = folder / "site"
    with FileLock(folder / "site.lock"):
        if not (built / "index.html").is_file():
            command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-c", "docs/site"]
            subprocess.run([*command, ".", str(built)], cwd=ROOT, check=True, timeout=300)
    return built
