"""What looks like a secret, and where the user's folders lie, is taken out of everything that is passed on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import attrs
from attrs import frozen

REDACTED: Final = "<redacted>"
_SHORTEST: Final = 6
"""Characters of a value that is looked for everywhere; shorter ones stand in too many words."""
_NAME = re.compile(
    r"(?:.*[-_.])?(?:\w*(?:secret|password|passwd|passphrase|credential)s?|\w*token|(?:api|access|auth|private|secret)?key"
    r"|pat|pwd)",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(?:.*[-_])?(?:pad|bos|eos|unk|mask|cls|sep|special|image|start|end|stop)[-_]?token|pwd|oldpwd", re.IGNORECASE
)
"""Tokens of a vocabulary, and the folder that a shell is in."""
_VALUE = r"(?:'[^'\n]*'|[^\s\"'\\,;]+)"
_OPTION = re.compile(rf"(?P<kept>(?<![\w-])--(?P<name>[A-Za-z][\w.-]*)(?:=|[ \t]+))(?!-){_VALUE}")
_VARIABLE = re.compile(rf"(?P<kept>\b(?P<name>[A-Z_][A-Z0-9_]*)=){_VALUE}")
"""Code that names an argument `key=` or `token=` is none."""
_USERINFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?!git@)[^/\s@\"'\\<>]+@")
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abeprs]-[\w-]{10,}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})"
)

_Record = TypeVar("_Record")


@frozen
class Secrets:
    """What is not to be passed on.

    Attributes:
        values: words that are known to be secret, the longest first.
        places: folders and what is written for them, the longest first; as regular expressions.
    """

    values: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        environments: Iterable[Mapping[str, str]] = (os.environ,),
        arguments: Sequence[str] = (),
        places: Mapping[Path, str] | None = None,
        patterns: Mapping[str, str] | None = None,
    ) -> Secrets:
        """Those of some environments and of the arguments of a script.

        `places` are folders with their names in what is passed on; the user's home is added as `~`. `patterns` are
        regular expressions of further folders, which come before them.
        """
        found = [value for each in environments for name, value in each.items() if is_secret(name)]
        found += _given(arguments)
        # As they stand in a document of JSON, and in a line for a shell.
        spelled = {way for value in found for way in (value, json.dumps(value)[1:-1], shlex.quote(value))}
        values = sorted((each for each in spelled if len(each) >= _SHORTEST), key=lambda each: (-len(each), each))
        named = dict(places or {})
        with contextlib.suppress(RuntimeError):  # nobody's home
            named.setdefault(Path.home(), "~")
        folders = {str(way): name for path, name in named.items() for way in (path, path.resolve()) if way.name}
        longest = sorted(folders, key=lambda each: (-len(each), each))
        return cls(tuple(values), (*(patterns or {}).items(), *((re.escape(each), folders[each]) for each in longest)))


def is_secret(name: str) -> bool:
    """Whether a variable or an option has the name of a secret: `HF_TOKEN`, `--api-key`, but not `--pad-token`."""
    return _NAME.fullmatch(name) is not None and _NO_SECRET.fullmatch(name) is None


def redacted(text: str, secrets: Secrets) -> str:
    """A text without them. A document of JSON is one afterwards, too."""
    for value in secrets.values:
        text = text.replace(value, REDACTED)
    text = _USERINFO.sub(rf"\1{REDACTED}@", text)
    text = _SHAPES.sub(REDACTED, text)
    text = _OPTION.sub(_without_value, text)
    text = _VARIABLE.sub(_without_value, text)
    for pattern, name in secrets.places:
        text = re.sub(rf"(?<![\w.-]){pattern}(?![\w-])", name, text)
    return text


def in_record(value: _Record, secrets: Secrets) -> _Record:
    """A value of data classes, tuples and texts without them."""
    kind: Any = type(value)
    found: Any = value
    if kind is str:
        found = redacted(cast("str", value), secrets)
    elif kind is tuple:
        found = tuple(in_record(each, secrets) for each in cast("tuple[Any, ...]", value))
    elif attrs.has(kind):
        fields = {each.name: in_record(getattr(value, each.name), secrets) for each in attrs.fields(kind) if each.init}
        found = attrs.evolve(cast("Any", value), **fields)
    return cast("_Record", found)


def _without_value(match: re.Match[str]) -> str:
    return f"{match['kept']}{REDACTED}" if is_secret(match["name"]) else match[0]


def _given(arguments: Sequence[str]) -> list[str]:
    """The values of options that are secrets: `--token X`, `--api-key=X`."""
    found = []
    for place, argument in enumerate(arguments):
        name, sign, value = argument.partition("=")
        if name.startswith("-") and is_secret(name.lstrip("-")):
            found.append(value if sign else next(iter(arguments[place + 1 : place + 2]), ""))
    return found
