"""The formats that a whole run can be rendered in; a new one is a module with `render`, and a line here.

`text` is none of them: it is printed while files are examined (`perfmod.report.text`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfmod.report import concise, csv, github, gitlab, json, markdown, sarif
from perfmod.report.view import Rendering, View

Renderer = Callable[[View], Rendering]

RENDERERS: Mapping[str, Renderer] = {
    "concise": concise.render,
    "json": json.render,
    "sarif": sarif.render,
    "github": github.render,
    "gitlab": gitlab.render,
    "markdown": markdown.render,
    "csv": csv.render,
}
"""By the word that `--output-format` takes."""
