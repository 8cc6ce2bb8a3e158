"""The documentation as a site.

    sphinx-build -W -b html -c docs/site . build/site
    python docs/site/links.py build/site

The pages are the Markdown files of the repository, each at its own place, so that their links to each other lead to
the same places here as in a checkout. Files of code that they link to become pages as well (`listings.py`), and
other files are copied beside them.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

sys.path.insert(0, str(Path(__file__).parent))

from listings import SUFFIXES, Listing, linked_files
from navigation import SECTIONS, pages, toctrees

import perfmod

ROOT = Path(__file__).resolve().parents[2]
_PAGES = pages(ROOT, SECTIONS)

project = "perfmod"
version = release = perfmod.__version__
author = project_copyright = "The perfmod authors"
language = "en"

extensions = ["myst_parser"]
root_doc = "README"
source_suffix = {".md": "markdown", **dict.fromkeys(SUFFIXES, Listing.FORMAT)}
include_patterns = [*_PAGES, *linked_files(ROOT, _PAGES)]
exclude_patterns = ["**/.*_cache", ".git", ".venv*", "build", "tests"]
highlight_language = "none"
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"{project} {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "static/icon.svg"
html_copy_source = False
html_show_copyright = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def _add_navigation(_: Sphinx, docname: str, source: list[str]) -> None:
    """Put the navigation into the home page, where a reader of the file does not see it."""
    if docname == root_doc:
        source[0] += toctrees(ROOT, SECTIONS)


def _forget_patterns(app: Sphinx, _: BuildEnvironment) -> None:
    """Let every page that was found be found.

    Sphinx compiles the patterns again for each part of the navigation on each page; of the hundreds that there are
    here, that would take most of the build.
    """
    app.config.include_patterns = ["**"]


_navigations: dict[tuple[object, ...], str] = {}
"""Of listings, by folder and what the theme asks for."""


def _share_navigation(_: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Make the navigation of listings once for each folder: none of them is in it, so that it is the same for all.

    Sphinx makes it anew for each page; for some hundreds of listings that would take half of the build.
    """
    toctree = context.get("toctree")
    if toctree is None or not (context.get("meta") or {}).get("orphan"):
        return

    def shared(**options: Any) -> str:
        key = (page.rpartition("/")[0], *sorted(options.items()))
        if key not in _navigations:
            _navigations[key] = toctree(**options)
        return _navigations[key]

    context["toctree"] = shared


def _make_accessible(_app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: object) -> None:
    """Let the keyboard reach what scrolls; name no column by nothing; give headings of the navigation their level."""
    if "body" in context:
        context["body"] = (
            context["body"]
            .replace("<pre>", '<pre tabindex="0">')
            .replace('<th class="head"><p></p></th>', "<td></td>")
            .replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
        )
    if "furo_navigation_tree" in context:
        headings = context["furo_navigation_tree"]
        context["furo_navigation_tree"] = headings.replace('role="heading"', 'role="heading" aria-level="2"')


def _copy_home(app: Sphinx, failure: Exception | None) -> None:
    """Make the home page what a server shows for the folder."""
    if failure is None:
        shutil.copyfile(app.outdir / f"{root_doc}.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_source_parser(Listing)
    app.connect("source-read", _add_navigation)
    app.connect("env-check-consistency", _forget_patterns)
    app.connect("html-page-context", _share_navigation, priority=100)  # before furo makes the navigation
    app.connect("html-page-context", _make_accessible, priority=900)  # after furo has made the navigation
    app.connect("build-finished", _copy_home)
