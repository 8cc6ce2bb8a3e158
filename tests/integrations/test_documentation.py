"""What docs/integrations.md shows and says is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "integrations.md").read_text("utf-8")
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
SNIPPETS = {
    snippet.splitlines()[0]: yaml.safe_load(snippet) for snippet in re.findall(r"(?ms)^```yaml\n(.*?)^```$", PAGE)
}


def test_every_input_of_the_action_is_described_with_its_default() -> None:
    table = dict(re.findall(r"(?m)^\| `([a-z-]+)` \| ?`?([^|`]*?)`? ?\|", PAGE))
    wanted = {name: each["default"] for name, each in ACTION["inputs"].items()} | {"token": "that of the job"}
    assert {name: table.get(name) for name in wanted} == wanted


def test_workflows_give_inputs_and_take_outputs_that_exist() -> None:
    workflows = [snippet for name, snippet in SNIPPETS.items() if ".github/workflows/" in name]
    steps = [step for each in workflows for step in each["jobs"]["perfmod"]["steps"] if "perfmod@" in step["uses"]]
    assert len(steps) == len(workflows) == 2
    for step in steps:
        assert step["with"].keys() <= ACTION["inputs"].keys()
    (output,) = re.findall(r"steps\.perfmod\.outputs\.([a-z-]+)", PAGE)
    assert output in ACTION["outputs"]


def test_hooks_are_those_that_are_published() -> None:
    published = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    (shown,) = SNIPPETS["# .pre-commit-config.yaml"]["repos"][0]["hooks"]
    assert shown["id"] in published
    assert set(re.findall(r"(?m)^\| `(perfmod[a-z-]*)` \|", PAGE)) == published
