"""Files of code that the pages link to, as pages of the site."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from docutils import nodes
from sphinx.parsers import Parser

SUFFIXES = (".py", ".toml", ".yaml")
"""What is shown as a page. Other files, such as measured results, are there to download."""

_LINK = re.compile(r"\]\(([^)#\s]+)")


def linked_files(root: Path, pages: Iterable[str]) -> list[str]:
    """The files of code that `pages` link to; pages and files are relative to `root`."""
    found = set()
    for page in pages:
        folder = (root / page).parent
        for target in _LINK.findall((root / page).read_text("utf-8")):
            path = (folder / target).resolve()
            if target.endswith(SUFFIXES) and path.is_file():
                found.add(path.relative_to(root).as_posix())
    return sorted(found)


class Listing(Parser):
    """Makes a page of a file of code: its name and its lines, numbered as the reasons of findings count them."""

    FORMAT = "listing"
    supported = (FORMAT,)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Fill `document`. Listings stay out of the navigation and of the search."""
        env = document.settings.env
        path = env.doc2path(env.docname, base=False)
        env.metadata[env.docname] |= {"orphan": True, "nosearch": True}
        language = {".py": "python"}.get(path.suffix, path.suffix[1:])
        code = nodes.literal_block(inputstring, inputstring, language=language, linenos=True)
        document += nodes.section("", nodes.title("", "", nodes.literal("", str(path))), code, ids=["listing"])
