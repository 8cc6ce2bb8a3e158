"""Whether every link of the built site leads somewhere.

    python docs/site/links.py build/site

Prints each link that does not, with the page that has it, and exits with 1 if there is one. A link inside of the site
has to lead to a file, and to an element of it where it names one; of other addresses only the form is checked.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

_LINKS = ("href", "src", "poster", "data")


class Page(HTMLParser):
    """What a page links to, and what it can be linked by.

    Attributes:
        targets: addresses of pages, images, styles and scripts, as they are written.
        anchors: the ids of its elements.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        for name, value in attrs:
            if name in _LINKS:
                self.targets.add(value or "")
            elif name == "srcset":
                self.targets |= {source.split()[0] for source in (value or "").split(",") if source.strip()}
            elif name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value or "")


def dead_links(site: Path) -> Iterator[tuple[str, str, str]]:
    """The page, the link and what is wrong with it, for every link of the site that leads nowhere."""
    site = site.resolve()
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for target in sorted(page.targets):
            if problem := _problem(target, path, site, pages):
                yield path.relative_to(site).as_posix(), target, problem


def _problem(target: str, path: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    """What is wrong with a link of the page at `path`; None where nothing is."""
    try:
        parts = urlsplit(target)
        parts.port  # noqa: B018  # raises for one that is no number
    except ValueError as error:
        return str(error)
    if parts.scheme or parts.netloc:
        return _form(parts)
    if parts.path.startswith("/"):
        return "is not relative, and the site may lie in a folder"
    there = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if there.is_dir():
        there /= "index.html"
    if not there.is_relative_to(site):
        return "leaves the site"
    if not there.is_file():
        return "there is no such file"
    if parts.fragment and there in pages and unquote(parts.fragment) not in pages[there].anchors:
        return "there is no such place on the page"
    return None


def _form(parts: SplitResult) -> str | None:
    """What is wrong with an address outside of the site."""
    if parts.scheme in ("data", "mailto"):
        return None
    if parts.scheme not in ("http", "https"):
        return "is neither http nor https"
    if "." not in (parts.hostname or "") or any(character.isspace() for character in parts.geturl()):
        return "is not the address of a host"
    return None


def main() -> int:
    """Check the site."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="the folder of the built site")
    site = parser.parse_args().site
    if not (site / "index.html").is_file():
        parser.error(f"there is no built site in {site}: `sphinx-build -W -b html -c docs/site . {site}` builds it")
    dead = list(dead_links(site))
    for page, target, problem in dead:
        print(f"{page}: {target or 'an empty link'}: {problem}")
    return int(bool(dead))


if __name__ == "__main__":
    raise SystemExit(main())
