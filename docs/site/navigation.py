"""The pages of the site, in the order of its navigation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

SECTIONS: Mapping[str, Sequence[str]] = {
    "": ["README.md"],
    "Using it": ["docs/usage.md", "docs/configuration.md", "docs/outputs.md", "docs/baseline.md", "docs/policy.md"],
    "Reviewing": ["docs/review.md", "docs/editors.md", "docs/integrations.md"],
    "Proof": ["docs/profile.md", "docs/tune.md", "docs/verify.md", "docs/evidence.md", "benchmarks/results/corpus.md"],
    "Rules": ["docs/rules.md", "docs/idioms.md"],
    "Rules: waits for the GPU": ["docs/rules/PM1*.md"],
    "Rules: feeding": ["docs/rules/PM2*.md"],
    "Rules: compute": ["docs/rules/PM3*.md"],
    "Rules: leftovers": ["docs/rules/PM4*.md"],
    "How it is built": ["docs/how-it-works.md", "CONTRIBUTING.md", "golden/README.md", "CHANGELOG.md"],
    "More": ["docs/*.md", "docs/rules/*.md"],
}
"""Patterns of the pages under each caption. A page is where it is matched first; what is not there is left out."""


def placed(root: Path, sections: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The pages under each caption that has some, relative to `root`."""
    seen: set[Path] = set()
    found: dict[str, list[str]] = {}
    for caption, patterns in sections.items():
        for pattern in patterns:
            for path in sorted(root.glob(pattern)):
                if path not in seen:
                    seen.add(path)
                    found.setdefault(caption, []).append(path.relative_to(root).as_posix())
    return found


def pages(root: Path, sections: Mapping[str, Sequence[str]]) -> list[str]:
    """All pages, relative to `root`."""
    return [page for under in placed(root, sections).values() for page in under]


def toctrees(root: Path, sections: Mapping[str, Sequence[str]]) -> str:
    """The navigation, as MyST has it: hidden from the page, shown at its side."""
    trees = []
    for caption, under in placed(root, sections).items():
        if caption:
            entries = "\n".join(f"/{page.removesuffix('.md')}" for page in under)
            trees.append(f"\n```{{toctree}}\n:hidden:\n:titlesonly:\n:caption: {caption}\n\n{entries}\n```\n")
    return "".join(trees)
