"""Scripts that were written to behave differently after `apply`: they must not.

`support/attacks/*.txt` holds them: `### name` begins one, `--- path` another file of it. They choose CUDA where there
is one, so that the rules see a GPU and the runs take the CPU. Printed numbers may differ by a rounding of float32.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def after(request: pytest.FixtureRequest) -> dict[str, dict[str, str]]:
    chosen = CASES.keys() - (set() if request.config.getoption("--exhaustive") else RARE)
    return {name: rewritten(files) for name, files in CASES.items() if name in chosen}


@pytest.fixture(scope="session")
def ran(after: Mapping[str, Mapping[str, str]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """What each changed script did before and after."""
    root = tmp_path_factory.mktemp("attacks")
    changed = [name for name in after if after[name] != CASES[name]]
    orders = []
    for name in changed:
        for side, files in (("before", CASES[name]), ("after", after[name])):
            for path, code in files.items():
                place = root / name / side / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(code)
            orders.append(json.dumps([str(root / name / side), SCRIPT]))
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "attack_runner.py")],
        input="\n".join(orders),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: answers[2 * number : 2 * number + 2] for number, name in enumerate(changed)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] * (name in RARE)) for name in CASES]
)
def test_behaves_as_before(name: str, ran: Mapping[str, list[list[str]]]) -> None:
    if name not in ran:
        return  # nothing was rewritten
    (code, out, error), (new_code, new_out, new_error) = ran[name]
    assert (new_code, NUMBER.sub("#", new_out)) == (code, NUMBER.sub("#", out)), new_error
    numbers = zip(map(float, NUMBER.findall(out)), map(float, NUMBER.findall(new_out)), strict=True)
    assert all(math.isclose(new, old, rel_tol=2e-5, abs_tol=2e-6) for old, new in numbers), (out, new_out)
    assert not code or new_error == error


def test_some_are_rewritten(ran: Mapping[str, list[list[str]]]) -> None:
    """Else nothing was tried."""
    assert ran
