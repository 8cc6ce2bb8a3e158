"""Writes what is generated: the rules' pages and their table, the README's diff and gains, the measured evidence, the
schemas of the findings and of the verifier's record, the tables and the schema of the configuration.

    python docs/generate.py [--check]

`--check` writes nothing, prints what would change, and exits with 1 if anything would.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from pathlib import Path
from typing import Any

from costs import render_cost, render_steadiness
from gains import gains, render_gains
from keys import render_keys, render_questions
from measured import (
    FALSE_ALARMS,
    GRADES,
    PINNING,
    RESULTS,
    VERIFIED_PUBLIC,
    VERIFIED_REFERENCE,
    render_grades,
    render_pinning,
    render_quick,
    render_results,
    render_verified,
)
from migrating import SEATS, ZOO, render_seats, render_zoo
from reviewing import render_page, render_ways
from rule_pages import ROOT, goldens_by_rule, page_path, render_rule_page, render_rule_table
from tuned import render_tuned

from perfmod.codemods import catalog
from perfmod.codemods.engine import rewrite
from perfmod.config_schema import json_schema as config_schema
from perfmod.profile.report import json_schema as profile_schema
from perfmod.report import json as findings_json
from perfmod.tune.report import json_schema as tune_schema
from perfmod.verify.report.schema import json_schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

RULE_PAGES = ROOT / "docs" / "rules"
EVIDENCE_SCHEMA = ROOT / "docs" / "evidence.schema.json"
PROFILE_SCHEMA = EVIDENCE_SCHEMA.with_name("profile.schema.json")
TUNE_SCHEMA = EVIDENCE_SCHEMA.with_name("tune.schema.json")
FINDINGS_SCHEMA = EVIDENCE_SCHEMA.with_name("findings.schema.json")
CONFIGURATION = ROOT / "docs" / "configuration.md"
CONFIGURATION_SCHEMA = ROOT / "docs" / "perfmod.schema.json"
README = ROOT / "README.md"
RULES = ROOT / "docs" / "rules.md"
EVIDENCE = ROOT / "docs" / "evidence.md"
EXAMPLE = ROOT / "examples" / "digits" / "train.py"
THROUGHPUT = RESULTS.with_name("throughput.json")
STEADINESS = RESULTS.with_name("steadiness.json")
REVIEW_PAGE = RESULTS.with_name("review_page.json")
REVIEW_WAYS = RESULTS.with_name("review_ways.json")


def render_example() -> str:
    """The README's first diff: what becomes of a first script."""
    before = EXAMPLE.read_bytes()
    after = rewrite(before, EXAMPLE.name, catalog.rules()).after
    old, new = (text.decode().splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, n=1, lineterm=""))[2:]
    return "\n".join(["```diff", *(line for line in lines if not line.startswith("@@")), "```"])


def _read(path: Path) -> dict[str, Any] | None:
    """What was measured; None where nothing was."""
    if not path.exists():
        return None
    measured: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return measured


def _read_toml(path: Path) -> dict[str, Any] | None:
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else None


def fill(text: str, section: str, content: str) -> str:
    """`text` with everything between the markers of `section` replaced.

    Raises:
        ValueError: there are no markers.
    """
    begin, end = f"<!-- generated: {section} -->", f"<!-- end of {section} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"there are no markers for {section}")
    body = f"{begin}\n{content}\n{end}" if content else f"{begin}\n{end}"
    return pattern.sub(lambda _: body, text)


def generated() -> dict[Path, str]:
    """Every generated file with the text that it should have."""
    rules = sorted(catalog.rules(), key=lambda rule: rule.code)
    cases, measured = goldens_by_rule(), gains()
    files = {
        page_path(rule): render_rule_page(rule, cases.get(rule.name, ()), measured.get(rule.code, ())) for rule in rules
    }
    files[EVIDENCE_SCHEMA] = json.dumps(json_schema(), indent=2) + "\n"
    files[PROFILE_SCHEMA] = json.dumps(profile_schema(), indent=2) + "\n"
    files[TUNE_SCHEMA] = json.dumps(tune_schema(), indent=2) + "\n"
    files[CONFIGURATION_SCHEMA] = json.dumps(config_schema(), indent=2) + "\n"
    files[FINDINGS_SCHEMA] = json.dumps(findings_json.schema(), indent=2) + "\n"
    reference = _read(VERIFIED_REFERENCE)
    sections = {
        (README, "example"): render_example(),
        (README, "gains"): render_gains(),
        (README, "tuned"): render_tuned(),
        (RULES, "rules"): render_rule_table(rules),
        (CONFIGURATION, "keys"): render_keys(),
        (CONFIGURATION, "questions"): render_questions(),
        (EVIDENCE, "results"): render_results(_read(RESULTS)),
        (EVIDENCE, "verified"): render_verified(reference, _read(VERIFIED_PUBLIC), _read(FALSE_ALARMS)),
        (EVIDENCE, "mergeable"): render_grades(_read_toml(GRADES)),
        (EVIDENCE, "pinning"): render_pinning(_read(PINNING)),
        (EVIDENCE, "quick"): render_quick(RESULTS.parent.glob("verify_quick_*.json")),
        (EVIDENCE, "cost"): render_cost(_read(THROUGHPUT)),
        (EVIDENCE, "steadiness"): render_steadiness(_read(STEADINESS)),
        (EVIDENCE, "page"): render_page(_read(REVIEW_PAGE)),
        (EVIDENCE, "ways"): render_ways(_read(REVIEW_WAYS)),
        (EVIDENCE, "zoo"): render_zoo(_read(ROOT / ZOO)),
        (EVIDENCE, "seats"): render_seats(json.loads(path.read_text("utf-8")) for path in sorted(ROOT.glob(SEATS))),
    }
    for (path, section), content in sections.items():
        files[path] = fill(files.get(path) or path.read_text("utf-8"), section, content)
    return files


def main() -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    check = parser.parse_args().check
    files = generated()
    stale = [path for path in RULE_PAGES.glob("*.md") if path not in files]
    changed = False
    for path in stale:
        changed = True
        print(f"{path.relative_to(ROOT)}: belongs to no rule")
        if not check:
            path.unlink()
    for path, text in files.items():
        old = path.read_text("utf-8") if path.exists() else ""
        if old == text:
            continue
        changed = True
        name = str(path.relative_to(ROOT))
        if check:
            sys.stdout.writelines(
                difflib.unified_diff(old.splitlines(keepends=True), text.splitlines(keepends=True), name, name)
            )
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"{name}: written")
    return int(check and changed)


if __name__ == "__main__":
    raise SystemExit(main())
