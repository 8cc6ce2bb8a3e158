"""Figures of matplotlib as SVG that belongs into a page: its colours are the page's variables, its type the page's.

matplotlib knows no variables, so every ink has a hexadecimal stand-in that nothing else uses, and the stand-ins are
exchanged once the figure is drawn. Text stays text, so that it can be searched, selected and read aloud.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INKS = {
    name: f"#0b1d{number:02x}"
    for number, name in enumerate(("original", "rewritten", "control", "noise", "ink", "muted", "rule", "bad"))
}
"""The stand-ins by the names of the page's variables."""

_WIDTHS = {"wide": 880, "narrow": 340}
_STYLE = {
    "font.size": 12,
    "axes.edgecolor": INKS["rule"],
    "axes.labelcolor": INKS["muted"],
    "axes.labelsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INKS["rule"],
    "grid.linewidth": 0.8,
    "lines.solid_capstyle": "round",
    "xtick.color": INKS["rule"],
    "xtick.labelcolor": INKS["muted"],
    "xtick.labelsize": 12,
    "ytick.color": INKS["rule"],
    "ytick.labelcolor": INKS["muted"],
    "ytick.labelsize": 12,
    "ytick.left": False,
    "ytick.minor.left": False,
    "text.color": INKS["ink"],
    "figure.constrained_layout.h_pad": 0.08,
    "svg.fonttype": "none",
    "svg.hashsalt": "perfmod",
}
_PROLOGUE = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_OWN_STYLE = re.compile(r"<defs>\s*<style type=\"text/css\">.*?</style>\s*</defs>", re.DOTALL)
_OPENING = re.compile(r"<svg [^>]*viewBox=\"0 0 ([\d.]+) ([\d.]+)\"[^>]*>")
_FAMILY = re.compile(r"font-family: [^;\"]*;? ?")
_IDENTIFIER = re.compile(r' id="([^"]+)"')
_REFERENCE = re.compile(r'(url\(#|href="#)([^")]+)')


@frozen
class Drawing:
    """A figure for a wide page and one for a phone, as `<svg>` elements: type must not shrink with a figure.

    Attributes:
        description: what it shows, in words.
    """

    description: str
    wide: str
    narrow: str


def draw(name: str, title: str, description: str, height: int, paint: Callable[[Figure], None]) -> Drawing:
    """What `paint` puts on an empty figure, twice; it is `height` pixels high where the page has room for its width.

    `name` is unique on the page; `title` and `description` are read aloud to those who do not see the figure.
    """
    with _settings():
        from matplotlib.figure import Figure

        figures = {}
        for kind, width in _WIDTHS.items():
            figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
            paint(figure)
            figures[kind] = _inline(figure, f"{name}-{kind}", title, description)
    return Drawing(description, **figures)


@contextmanager
def _settings() -> Iterator[None]:
    """Our style and nobody's settings. Nothing is written into the user's home: matplotlib's cache of fonts goes into a
    folder that is thrown away.
    """
    with tempfile.TemporaryDirectory(prefix="perfmod-") as folder, _environment("MPLCONFIGDIR", folder):
        import matplotlib as mpl
        import matplotlib.backends.backend_svg
        import matplotlib.figure
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        yield


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment, set for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def _inline(figure: Figure, name: str, title: str, description: str) -> str:
    buffer = io.StringIO()
    unsigned = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=unsigned)
    text = _OWN_STYLE.sub("", _PROLOGUE.sub("", buffer.getvalue()))
    text = _FAMILY.sub("", _renumbered(text, name))
    for ink, stand_in in INKS.items():
        text = text.replace(stand_in, f"var(--{ink})")
    opening = (
        rf'<svg viewBox="0 0 \1 \2" width="\1" height="\2" role="img" aria-labelledby="{name}-title {name}-text">'
        f'<title id="{name}-title">{_quoted(title)}</title><desc id="{name}-text">{_quoted(description)}</desc>'
    )
    return _OPENING.sub(opening, text, count=1)


def _renumbered(text: str, name: str) -> str:
    """Identifiers that are unique on the page and the same in every run; those that nothing refers to go."""
    numbers: dict[str, str] = {}
    for match in _REFERENCE.finditer(text):
        numbers.setdefault(match[2], f"{name}-{len(numbers)}")
    text = _IDENTIFIER.sub(lambda match: f' id="{numbers[match[1]]}"' if match[1] in numbers else "", text)
    return _REFERENCE.sub(lambda match: match[1] + numbers[match[2]], text)


def _quoted(text: str) -> str:
    """Text of an element, safe as a replacement of `re` too."""
    return escape(text).replace("\\", r"\\")
