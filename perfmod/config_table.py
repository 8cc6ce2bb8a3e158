"""What `[tool.perfmod]` may say: its keys, what their values are, and what they mean."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
from attrs import field, frozen

from perfmod.ignores import Patterns
from perfmod.transforms.policy import MOST_WORKERS, CompileMode, HalfType, Target
from perfmod.transforms.questions import Predicate

_STRINGS = {"type": "array", "items": {"type": "string"}}


@frozen
class Kind:
    """What the values of a key are.

    Attributes:
        said: in words, as the end of `must be …`.
        schema: as JSON Schema.
        fits: whether a value of a TOML file is one.
        problem: what is wrong with a value that fits, in words that follow the name of the key; empty where nothing is.
    """

    said: str
    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]
    problem: Callable[[Any], str] = lambda _value: ""


@frozen
class PerFileIgnore:
    """Rules whose findings are not reported in the files that match a pattern."""

    pattern: str
    rules: tuple[str, ...]


def _is_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _wrong_pattern(patterns: Iterable[str]) -> str:
    """Why one of some patterns is none."""
    try:
        Patterns.of(Path("/"), patterns)
    except ValueError as error:
        return str(error)
    return ""


def _wrong_entry(table: Mapping[str, object]) -> str:
    """Why a pattern of `per-file-ignores` is none."""
    negated = next((pattern for pattern in table if pattern.startswith("!")), None)
    return f"{negated!r} would take back a pattern, but each stands for itself" if negated else _wrong_pattern(table)


def _unknown_predicate(values: Iterable[str]) -> str:
    """Which of some predicates no rule asks, with the nearest that one does."""
    known = [predicate.value for predicate in Predicate]
    for value in values:
        if value not in known:
            near = difflib.get_close_matches(value, known, n=1, cutoff=0.5)
            hint = f'did you mean "{near[0]}"?' if near else f"the questions are {', '.join(known)}"
            return f'"{value}" is no question that perfmod asks; {hint}'
    return ""


_RULES = Kind("a list of strings", _STRINGS, _is_strings)
_PATTERNS = Kind("a list of strings", _STRINGS, _is_strings, _wrong_pattern)
_RULES_BY_PATTERN = Kind(
    "a table of patterns, each with a list of rules",
    {"type": "object", "additionalProperties": _STRINGS},
    lambda value: isinstance(value, Mapping) and all(map(_is_strings, value.values())),
    _wrong_entry,
)
_PREDICATES = Kind(
    "a list of strings",
    {"type": "array", "items": {"enum": [predicate.value for predicate in Predicate]}},
    _is_strings,
    _unknown_predicate,
)
_TRUTH = Kind("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
_TARGET = Kind(
    '"cuda" or "portable"',
    {"type": "string", "enum": [target.value for target in Target]},
    lambda value: value in [target.value for target in Target],
)
_HALF_TYPE = Kind(
    '"bfloat16" or "float16"',
    {"type": "string", "enum": [each.value for each in HalfType]},
    lambda value: value in [each.value for each in HalfType],
)
_COMPILE_MODE = Kind(
    f"one of {', '.join(repr(mode.value) for mode in CompileMode)}".replace("'", '"'),
    {"type": "string", "enum": [mode.value for mode in CompileMode]},
    lambda value: value in [mode.value for mode in CompileMode],
)
_SECONDS = Kind(
    "a positive number of seconds",
    {"type": "number", "exclusiveMinimum": 0},
    lambda value: _is_number(value) and value > 0,
)
_COUNT = Kind(
    "a whole number from 1 on",
    {"type": "integer", "minimum": 1},
    lambda value: _is_number(value) and isinstance(value, int) and value >= 1,
)
_PATH = Kind("a path", {"type": "string"}, lambda value: isinstance(value, str))
_FILE = Kind("the path of a TOML file", {"type": "string"}, lambda value: isinstance(value, str) and bool(value))


def _about(kind: Kind, meaning: str, example: str) -> dict[str, Any]:
    """The metadata of a field that is a key; the example is TOML."""
    return {"kind": kind, "meaning": meaning, "example": example}


def _strings(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


def _per_file_ignores(value: Mapping[str, Iterable[str]]) -> tuple[PerFileIgnore, ...]:
    return tuple(PerFileIgnore(pattern, tuple(rules)) for pattern, rules in value.items())


@frozen
class Config:
    """What holds by configuration. The fields with a kind are the keys, written with hyphens.

    Patterns are relative to the folder of `path`, wherever they come from.

    Attributes:
        path: the file that was found for a folder; None where there is none.
        layers: what that file says itself, then what the files say that it extends; empty where there is none.
    """

    select: tuple[str, ...] = field(
        default=(),
        converter=_strings,
        metadata=_about(_RULES, "run these rules instead of the default ones", 'select = ["PM1", "masked-loss"]'),
    )
    extend_select: tuple[str, ...] = field(
        default=(),
        converter=_strings,
        metadata=_about(
            _RULES,
            "run these rules as well; a code or name also selects a rule that is off by default",
            'extend-select = ["PM203"]',
        ),
    )
    ignore: tuple[str, ...] = field(
        default=(), converter=_strings, metadata=_about(_RULES, "skip these rules", 'ignore = ["PM103"]')
    )
    per_file_ignores: tuple[PerFileIgnore, ...] = field(
        factory=dict,
        converter=_per_file_ignores,
        metadata=_about(
            _RULES_BY_PATTERN,
            "do not report these rules in files that match",
            'per-file-ignores = { "tests/" = ["ALL"], "*.ipynb" = ["PM201"] }',
        ),
    )
    exclude: tuple[str, ...] = field(
        default=(),
        converter=_strings,
        metadata=_about(_PATTERNS, "leave out files and folders that match", 'exclude = ["third_party/", "*_pb2.py"]'),
    )
    force_exclude: bool = field(
        default=False,
        metadata=_about(
            _TRUTH, "leave them out even where they are given by name, as pre-commit does", "force-exclude = true"
        ),
    )
    unsafe: bool = field(
        default=False,
        metadata=_about(_TRUTH, "answer all open questions with yes, like `--unsafe`", "unsafe = true"),
    )
    low_impact: bool = field(
        default=False,
        metadata=_about(
            _TRUTH, "also make rewrites that are safe but gain little, like `--low-impact`", "low-impact = true"
        ),
    )
    assume: tuple[str, ...] = field(
        default=(),
        converter=_strings,
        metadata=_about(_PREDICATES, "answer these open questions with yes", 'assume = ["is-scalar"]'),
    )
    target: Target = field(
        default=Target.CUDA,
        converter=Target,
        metadata=_about(
            _TARGET,
            '"cuda": CUDA on Linux; "portable": MPS, XPU, Windows and macOS as well',
            'target = "portable"',
        ),
    )
    workers: int = field(
        default=MOST_WORKERS,
        metadata=_about(_COUNT, "the most loader workers that a rewrite writes", "workers = 4"),
    )
    half_type: HalfType = field(
        default=HalfType.BFLOAT16,
        converter=HalfType,
        metadata=_about(_HALF_TYPE, "the type that mixed precision computes in", 'half-type = "float16"'),
    )
    compile_mode: CompileMode = field(
        default=CompileMode.DEFAULT,
        converter=CompileMode,
        metadata=_about(
            _COMPILE_MODE, "the mode of `torch.compile` that a rewrite writes", 'compile-mode = "reduce-overhead"'
        ),
    )
    report_every: int | None = field(
        default=None,
        metadata=_about(
            _COUNT, "report every so many steps what is reported in each (PM107, where selected)", "report-every = 100"
        ),
    )
    time_limit: float = field(
        default=120,
        converter=float,
        metadata=_about(_SECONDS, "seconds of CPU time for files that are analysed together", "time-limit = 300"),
    )
    baseline: str = field(
        default="",
        metadata=_about(_PATH, "do not report the findings that this file lists", 'baseline = "perfmod-baseline.json"'),
    )
    extend: str | None = field(
        default=None, metadata=_about(_FILE, "take over what another file says", 'extend = "../base.toml"')
    )
    path: Path | None = None
    layers: tuple[Layer, ...] = ()

    def sources(self, key: str) -> tuple[Path, ...]:
        """The files that the value of a key comes from; none where it is the default."""
        said = [layer.path for layer in self.layers if key in layer.table]
        return tuple(said if key in ADDING else said[:1])


@frozen
class Layer:
    """What one file says.

    Attributes:
        path: the file.
        place: the file and the table in it, as messages begin.
        table: its keys and values, which are right.
    """

    path: Path
    place: str
    table: Mapping[str, Any]


ADDING = ("extend-select",)
"""Keys whose values are added to those of an extended file; of all others the nearest value counts."""

KEYS: Mapping[str, attrs.Attribute[Any]] = {
    each.name.replace("_", "-"): each for each in attrs.fields(Config) if "kind" in each.metadata
}
"""The keys, and the fields of `Config` that hold them."""
