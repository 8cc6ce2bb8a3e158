"""Does `perfmod verify` call wrong rewrites proven? Training scripts of several kinds, and variants of each.

    python benchmarks/adversaries.py [--kind NAME ...] [--class NAME ...] [--variant NAME ...] [--device cpu|cuda]
                                     [--jobs N] [--quick] [--json FILE] [--check | --itself N]

A kind is a script `adversaries/KIND.py` and its variants in `adversaries/KIND.toml`. Some variants are wrong: they
look like work on speed, and train otherwise, if only a little, late, or when nobody looks. The others are right. Each
is compared with its script as every class that such a change could claim:

    [[variant]]
    name = "momentum-0.89"
    wrong = true
    classes = ["rounding", "precision"]
    cuda = true                     # makes a difference on CUDA only; may be left out
    needs = "compiler"              # is skipped where there is no C++ compiler; may be left out
    why = "Momentum is 0.89 in place of 0.9."
    [[variant.edit]]
    old = 'momentum=0.9)'           # stands in the script exactly once
    new = 'momentum=0.89)'

FILE gets a row per comparison, after each of them; rows of comparisons that this run leaves out are kept. The exit
code is 1 where a wrong variant was called proven, a comparison could not be made, or fewer than 28 in 30 comparisons
of right variants were proven.

`--itself` judges each script against itself instead, so many times in every class: whatever is not proven is a false
alarm.

`--check` judges nothing. It runs scripts and variants as a user would, and shows that the wrong ones leave other
losses, another output or another state behind, and that the right ones of the classes `bitwise` and `rounding` have
the same losses over ten backward passes. A few seconds per comparison on two processors; `--jobs` kinds at a time.
"""

from __future__ import annotations

import argparse
import ast
import json
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from attrs import define, frozen
from revision import revision
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from perfmod.transforms.finding import Numerics
from perfmod.verify import machine
from perfmod.verify.calling import Call
from perfmod.verify.evidence import Equality
from perfmod.verify.laboratory import Laboratory, Setting
from perfmod.verify.proving import Candidate, CannotRun, Prover
from perfmod.verify.request import Request
from perfmod.verify.running import Ran, Runner
from perfmod.verify.scratch import Scratch
from perfmod.verify.sides import ORIGINAL, REWRITTEN, Side
from perfmod.verify.tree import Tree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).resolve().parent / "adversaries"
CLASSES = (Numerics.BITWISE, Numerics.ROUNDING, Numerics.SAMPLING, Numerics.PRECISION)
PROVEN_SHARE = 28 / 30
"""Of the comparisons of right variants; the rest may be refused."""
_COMPILERS = ("c++", "g++", "clang++")


@frozen
class Variant:
    """A rewrite of a script.

    Attributes:
        kind: the name of the script.
        wrong: it does not train as the script does.
        classes: those that it claims, one after the other.
        why: what is wrong with it, or why it is right.
        edits: old and new texts.
        cuda: it makes a difference on CUDA only.
        needs: `compiler`, or nothing.
    """

    kind: str
    name: str
    wrong: bool
    classes: tuple[Numerics, ...]
    why: str
    edits: tuple[tuple[str, str], ...]
    cuda: bool = False
    needs: str = ""

    def text(self, original: str) -> str:
        """The variant's code.

        Raises:
            ValueError: an edit does not fit, or what comes out is no Python.
        """
        text = original
        for old, new in self.edits:
            if original.count(old) != 1 or text.count(old) != 1:
                raise ValueError(f"{self.kind} {self.name}: stands there {original.count(old)} times: {old!r}")
            text = text.replace(old, new)
        try:
            ast.parse(text)
        except SyntaxError as error:
            raise ValueError(f"{self.kind} {self.name}: {error}") from error
        return text

    def skipped(self, device: str) -> str:
        """Why it cannot be judged here; empty where it can."""
        if self.cuda and device != "cuda":
            return "needs CUDA"
        if self.needs == "compiler" and not any(map(shutil.which, _COMPILERS)):
            return "needs a C++ compiler"
        return ""


def kinds() -> list[str]:
    """The names of the scripts."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def original(kind: str) -> str:
    """The code of a script."""
    return (FOLDER / f"{kind}.py").read_text("utf-8")


def variants(kind: str) -> list[Variant]:
    """Those of one script, in the order of its file."""
    listed = tomllib.loads((FOLDER / f"{kind}.toml").read_text("utf-8"))["variant"]
    return [_variant(kind, dict(entry)) for entry in listed]


def itself(kind: str, times: int) -> list[Variant]:
    """A script as it is, so many times, which is right in every class."""
    return [Variant(kind, f"itself-{time}", False, CLASSES, "Nothing is changed.", ()) for time in range(1, times + 1)]


def _variant(kind: str, entry: dict[str, Any]) -> Variant:
    edits = tuple((edit["old"], edit["new"]) for edit in entry.pop("edit"))
    classes = tuple(map(Numerics, entry.pop("classes")))
    return Variant(kind=kind, classes=classes, edits=edits, **entry)


@define
class SharingLaboratory(Laboratory):
    """Runs a variant once for all classes that it claims; its sides have the same code and other names."""

    def watch(self, runs: Sequence[tuple[Side, Setting]], seed: int, beside: Sequence[Side] = ()) -> list[Ran]:
        """Those of `Laboratory`. Runs of the original, and repeated ones of one side, are made as often as asked."""
        times: Counter[object] = Counter()
        places: dict[object, int] = {}
        needed: list[tuple[Side, Setting]] = []
        found: list[int] = []
        for side, setting in runs:
            times[side.name, setting] += 1
            who = side.name if side.name == ORIGINAL else side.content
            what = (who, setting, times[side.name, setting])
            if what not in places:
                places[what] = len(needed)
                needed.append((side, setting))
            found.append(places[what])
        ran = super().watch(needed, seed, beside[:2])
        return [ran[place] for place in found]


@frozen
class Settings:
    """How variants are judged; the fields are the options of this program."""

    device: str
    quick: bool
    timeout: float = 300.0

    def judge(self, kind: str, chosen: Sequence[tuple[Variant, Sequence[Numerics]]]) -> Iterator[dict[str, Any]]:
        """A row for each class of each variant of one script, whose own runs are made once."""
        with tempfile.TemporaryDirectory() as folder, Scratch.temporary() as scratch:
            script = Path(folder).resolve() / "train.py"
            script.write_text(original(kind), encoding="utf-8")
            # Marks where the tree ends that is copied for each run.
            script.with_name("pyproject.toml").touch()
            tree = Tree.of(script)
            side = Side(ORIGINAL, tree, Path(script.name))
            prover = Prover(self._laboratory(script, scratch), side)
            for variant, classes in chosen:
                yield from self._rows(prover, side, variant, classes)

    def _laboratory(self, script: Path, scratch: Scratch) -> Laboratory:
        request = Request(
            script=script,
            against=None,
            arguments=(),
            device=self.device,
            python=sys.executable,
            # As many as the command compares.
            steps=10 if self.quick else 20,
            quick=self.quick,
            nproc=None,
            timeout=self.timeout,
            numerics=None,
            links=(),
            command="",
            horizon=30 if self.quick else 60,
            course=200,
        )
        free = machine.probe(request.python).free_mib if self.device == "cuda" else None
        runner = Runner(scratch, Call(request.python, cwd=script.parent), self.timeout, sample_memory=False)
        return SharingLaboratory(runner, request, lambda _what: None, free)

    def _rows(
        self, prover: Prover, side: Side, variant: Variant, classes: Sequence[Numerics]
    ) -> Iterator[dict[str, Any]]:
        started = time.perf_counter()
        edited = {side.script: variant.text(original(variant.kind)).encode()}
        named = [Side(f"{REWRITTEN} as {each.value}", side.tree, side.script, edited) for each in classes]
        try:
            judged = prover.judge([Candidate(side, each) for side, each in zip(named, classes, strict=True)])
            said = [_told(equality) for equality in judged]
        except CannotRun as error:
            said = [{"verdict": "failed", "reason": f"the original cannot be judged: {error}", "steps": 0}] * len(named)
        seconds = round((time.perf_counter() - started) / len(classes), 1)
        for numerics, told in zip(classes, said, strict=True):
            yield {**_named(variant, numerics), **told, "seconds": seconds, "quick": self.quick}


def _told(equality: Equality) -> dict[str, Any]:
    return {"verdict": equality.verdict.value, "reason": equality.reason, "steps": equality.steps}


def _named(variant: Variant, numerics: Numerics) -> dict[str, Any]:
    return {"kind": variant.kind, "variant": variant.name, "wrong": variant.wrong, "class": numerics.value}


_KEY = ("kind", "variant", "class", "device")


class Results:
    """The rows of this run, and the file that they are written to."""

    def __init__(self, path: Path | None, device: str) -> None:
        facts = machine.probe(sys.executable)
        facts.require(device)
        self.path = path
        self.common = {
            "device": device,
            "device_name": machine.gpu().name or facts.gpu if device == "cuda" else machine.cpu(),
            "torch": facts.torch,
            "perfmod_commit": revision(),
        }
        self.rows: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self.kept: dict[tuple[Any, ...], dict[str, Any]] = {}
        if path is not None and path.exists():
            self.kept = {_key(row): row for row in json.loads(path.read_text("utf-8"))["rows"]}

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row, in the place of an older one of the same comparison, with the commit that it was made with."""
        full = {**row, **self.common}
        with self.lock:
            self.rows.append(full)
            self.kept[_key(full)] = full
            if self.path is not None:
                rows = [self.kept[key] for key in sorted(self.kept)]
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps({"schema": 1, "rows": rows}, indent=2) + "\n", encoding="utf-8")


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _KEY)


def failing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What speaks against the verifier."""
    found = [
        f"{row['kind']} {row['variant']} as {row['class']}: wrong, and called proven"
        for row in rows
        if row["wrong"] and row["verdict"] == "proven"
    ]
    broken = [row for row in rows if row["verdict"] == "failed"]
    found += [f"{row['kind']} {row['variant']} as {row['class']}: {row['reason']}" for row in broken]
    right = [row["verdict"] == "proven" for row in rows if not row["wrong"]]
    if sum(right) < PROVEN_SHARE * len(right):
        found.append(f"only {sum(right)} of {len(right)} comparisons of right variants were proven")
    return found


def show(rows: Sequence[Mapping[str, Any]], console: Console) -> None:
    """One line per comparison."""
    table = Table(title="Wrong and right variants, as judged")
    for heading in ("kind", "variant", "is", "class", "verdict", "reason"):
        table.add_column(heading)
    for row in sorted(rows, key=_key):
        bad = (row["verdict"] == "proven") == row["wrong"]
        table.add_row(
            row["kind"],
            row["variant"],
            "wrong" if row["wrong"] else "right",
            row["class"],
            f"[bold red]{row['verdict']}[/]" if bad else row["verdict"],
            escape(row["reason"]),
        )
    console.print(table)


def summary(rows: Sequence[Mapping[str, Any]], skipped: Mapping[str, int]) -> list[str]:
    """Lines that count the comparisons."""
    lines = []
    for wrong, word in ((True, "wrong"), (False, "right")):
        part = [row for row in rows if row["wrong"] is wrong]
        names = {(row["kind"], row["variant"]) for row in part}
        by_class = [
            f"{each.value} {sum(row['verdict'] == 'proven' for row in claimed)} of {len(claimed)}"
            for each in CLASSES
            if (claimed := [row for row in part if row["class"] == each.value])
        ]
        counts = ", ".join(
            f"{count} {verdict}" for verdict, count in sorted(Counter(r["verdict"] for r in part).items())
        )
        lines.append(f"{word}: {len(names)} variants, {len(part)} comparisons: {counts or 'none'}")
        if by_class:
            lines.append(f"  proven: {', '.join(by_class)}")
    lines += [f"skipped: {count} variants ({reason})" for reason, count in sorted(skipped.items())]
    return lines


def main() -> int:
    """Judge what the command line asks for, print the table, and write the rows; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", nargs="+", metavar="NAME", choices=kinds(), default=kinds())
    parser.add_argument("--class", nargs="+", metavar="NAME", dest="classes", choices=[each.value for each in CLASSES])
    parser.add_argument("--variant", nargs="+", metavar="NAME", help="only variants of these names")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=1, help="scripts whose variants are judged at the same time")
    parser.add_argument("--quick", action="store_true", help="as few runs as `perfmod verify --quick` makes")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--itself", type=int, metavar="N", help="compare the scripts with themselves, N times")
    parser.add_argument("--check", action="store_true", help="judge nothing, and show that the variants differ")
    args = parser.parse_args()

    skipped: Counter[str] = Counter()
    chosen: dict[str, list[tuple[Variant, Sequence[Numerics]]]] = {}
    for kind in args.kind:
        chosen[kind] = []
        for variant in variants(kind) if args.itself is None else itself(kind, args.itself):
            classes = [each for each in variant.classes if args.classes is None or each.value in args.classes]
            if not classes or not (args.variant is None or variant.name in args.variant):
                continue
            reason = variant.skipped(args.device)
            if reason:
                skipped[reason] += 1
            else:
                chosen[kind].append((variant, classes))
    console = Console() if sys.stdout.isatty() else Console(width=200)
    if args.check:
        from adversaries_check import checked

        return checked({kind: [variant for variant, _ in each] for kind, each in chosen.items()}, args.jobs, console)

    settings = Settings(args.device, args.quick)
    results = Results(args.json, args.device)
    talk = Console(stderr=True, soft_wrap=True)

    def work(kind: str) -> None:
        for row in settings.judge(kind, chosen[kind]):
            results.add(row)
            is_what = "wrong" if row["wrong"] else "right"
            told = f"{kind} {row['variant']} ({is_what}) as {row['class']}: {row['verdict']}, {row['reason']}"
            talk.print(escape(told), highlight=False)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(work, [kind for kind in args.kind if chosen[kind]]))
    show(results.rows, console)
    for line in summary(results.rows, skipped):
        console.print(line, highlight=False)
    problems = failing(results.rows)
    for problem in problems:
        console.print(escape(problem), highlight=False)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
