"""A page that needs nothing besides itself, put together from the files of a template.

All that it shows travels as JSON and is put into it as text, never as markup; its policy lets nothing run, load or
connect that was not written for it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from perfmod.review.highlight import visible

SHARED: Final = "perfmod.review"
"""The package whose `page/` holds what pages have in common: `base.css`, `dom.js`, `choices.js`, `filters.js`."""


def part(package: str, name: str) -> str:
    """One of the files that a page of that package is put together from."""
    return files(package).joinpath("page", name).read_text("utf-8")


def standalone(
    *, template: str, styles: Iterable[str], scripts: Iterable[str], title: str, data: object, connects: str = "'none'"
) -> bytes:
    """The page in UTF-8.

    Args:
        template: HTML with `$title`, `$policy`, `$style`, `$script` and `$data`.
        styles: style sheets, the weakest first.
        scripts: texts of modules in the order in which they run; they share one scope.
        title: plain text.
        data: what the scripts find, as JSON, in the element `data`.
        connects: with whom the page may talk, as the policy's `connect-src` has it.
    """
    script = "\n".join(scripts)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    style = "".join(styles)
    policy = "; ".join((
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
        f"connect-src {connects}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ))  # fmt: skip
    page = Template(template).substitute(
        policy=escape(policy), title=escape(plain(title)), style=style, script=script, data=script_json(data)
    )
    return page.encode()


def plain(text: str) -> str:
    """Text whose every character can be seen: nothing in it turns other text around."""
    return "".join(piece for piece, _ in visible(text))


def script_json(value: object) -> str:
    """JSON that can stand in a `<script>`: no character in it means anything to HTML."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    """How the policy names an inline script or style: by its digest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
