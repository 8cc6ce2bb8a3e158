"""Scripts that were written to behave differently after `apply`: they must not.

`support/attacks/*.txt` holds them: `### name` begins one, `--- path` another file of it. They choose CUDA where there
is one, so that the rules see a GPU and the runs take the CPU. Printed numbers may differ by a rounding of float32.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from forked_python import THREADS, python

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Given, Outcome

SUPPORT = Path(__file__).parent / "support"
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
SCRIPT = "train.py"


def cases() -> dict[str, dict[str, str]]:
    """The files of each case by path, the script among them."""
    found: dict[str, dict[str, str]] = {}
    for collection in sorted((SUPPORT / "attacks").glob("*.txt")):
        for case in re.split(r"(?m)^### ", collection.read_text())[1:]:
            name, _, body = case.partition("\n")
            first, *others = re.split(r"(?m)^--- (\S+)\n", body)
            found[f"{collection.stem}-{name.split()[0]}"] = {
                SCRIPT: first,
                **dict(zip(others[::2], others[1::2], strict=True)),
            }
    return found


CASES = cases()
OTHERS = [name for name in CASES if not name.startswith("cases-")]
RARE = {name for number, name in enumerate(OTHERS) if number % 6}
"""What is run with `--exhaustive` only."""


def rewritten(files: Mapping[str, str]) -> dict[str, str]:
    """The files after all default rewrites."""
    given = [Given(path, code.encode(), (path.removesuffix(".py").replace("/", "."),)) for path, code in files.items()]
    results = rewrite_together(given, catalog.rules())
    assert all(result.outcome is not Outcome.FAILED for result in results), [result.reason for result in results]
    return {result.path: result.after.decode() for result in results}


def ran(files: Mapping[str, str], folder: Path) -> tuple[int, str, str]:
    """Exit code, output, and the last line of what the script says of errors."""
    for path, code in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(code)
    environment = {**os.environ, **THREADS, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([python(), SCRIPT], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, "\n".join(done.stderr.strip().splitlines()[-1:])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in RARE)) for name in CASES]
)
def test_behaves_as_before(name: str, tmp_path: Path) -> None:
    after = rewritten(CASES[name])
    if after == CASES[name]:
        return
    code, out, error = ran(CASES[name], tmp_path / "before")
    new_code, new_out, new_error = ran(after, tmp_path / "after")
    assert (new_code, NUMBER.sub("#", new_out)) == (code, NUMBER.sub("#", out)), new_error
    numbers = zip(map(float, NUMBER.findall(out)), map(float, NUMBER.findall(new_out)), strict=True)
    assert all(math.isclose(new, old, rel_tol=2e-5, abs_tol=2e-6) for old, new in numbers), (out, new_out)
    assert not code or new_error == error


def test_some_are_rewritten() -> None:
    """Else nothing was tried."""
    assert any(rewritten(files) != files for files in CASES.values())
