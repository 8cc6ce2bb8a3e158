"""The goldens on disk: which there are, and what the first line of each says about it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from perfmod.transforms.finding import Numerics
from perfmod.transforms.policy import CompileMode, HalfType, Policy

ROOT = Path(__file__).resolve().parents[3] / "golden"
"""The folder `golden/` of the checkout."""

_HEAD = re.compile(r"#[ \t]*golden:[ \t]*(.*)")


class HeadError(Exception):
    """A first line that is not what `golden/README.md` describes."""


@frozen
class Head:
    """The first line of a golden, such as `# golden: change unsafe syncs=0 hot=MaskedLoss.forward`.

    Attributes:
        change: whether the rule rewrites the file; its `.out.py` says into what.
        unsafe: the rewrite is held back unless unsafe findings are admitted.
        opt_in: the rewrite is on request or of low impact, though its rule is neither.
        refused: the rule sees its pattern and refuses, for a reason that holds this text; None: it does not.
        advised: the rule gives advice that holds this text; None: it does not.
        silent: the rule reports nothing at all.
        numerics: how far results may move; None: as the rule declares.
        syncs: how many implicit synchronisations are left in one call of `hot` on CUDA; None: not counted.
        hot: dotted name of the function whose synchronisations are counted.
        script: run as `python file.py` and compared by what it prints, instead of by its `probe`.
        cuda: cannot run without a CUDA device.
        others: names of rules that run together with the folder's.
        policy: what the project of the file decided.
    """

    change: bool
    unsafe: bool = False
    opt_in: bool = False
    refused: str | None = None
    advised: str | None = None
    silent: bool = False
    numerics: Numerics | None = None
    syncs: int | None = None
    hot: str = "probe"
    script: bool = False
    cuda: bool = False
    others: tuple[str, ...] = ()
    policy: Policy = Policy()

    @classmethod
    def parse(cls, line: str) -> Head:
        """Read a first line. Raises `HeadError` for anything that `golden/README.md` does not describe."""
        match = _HEAD.match(line)
        words = shlex.split(match.group(1)) if match else []
        if not words or words[0] not in ("change", "stay"):
            raise HeadError(f"expected '# golden: change ...' or '# golden: stay ...', found {line!r}")
        head = cls(change=words[0] == "change")
        for word in words[1:]:
            head = head._with(word)
        said = (head.silent, head.refused is not None, head.advised is not None).count(True)
        if head.change and said:
            raise HeadError(f"a change is neither silent, refused nor advised: {line!r}")
        if not head.change and said != 1:
            raise HeadError(f"a stay is silent, refused or advised: {line!r}")
        return head

    def _with(self, word: str) -> Head:
        name, _, value = word.partition("=")
        if name in ("unsafe", "opt-in", "silent", "script", "cuda") and not value:
            flag: dict[str, Any] = {name.replace("-", "_"): True}
            return evolve(self, **flag)
        if name == "refused":
            return evolve(self, refused=value)
        if name == "advised":
            return evolve(self, advised=value)
        if name == "syncs" and value.isdigit():
            return evolve(self, syncs=int(value))
        if name == "hot" and value:
            return evolve(self, hot=value)
        if name == "with" and value:
            return evolve(self, others=tuple(value.split(",")))
        if name == "numerics" and value in {numerics.value for numerics in Numerics}:
            return evolve(self, numerics=Numerics(value))
        if name == "report-every" and value.isdigit():
            return evolve(self, policy=evolve(self.policy, report_every=int(value)))
        if name == "compile-mode" and value in {mode.value for mode in CompileMode}:
            return evolve(self, policy=evolve(self.policy, compile_mode=CompileMode(value)))
        if name == "half-type" and value in {half.value for half in HalfType}:
            return evolve(self, policy=evolve(self.policy, half_type=HalfType(value)))
        raise HeadError(f"unknown option {word!r}")


@frozen
class Golden:
    """One case: the folder names the rule, the file the case."""

    path: Path
    head: Head

    @classmethod
    def read(cls, path: Path) -> Golden:
        """The golden of an `.in.py` file. Raises `HeadError` where its first line is malformed."""
        with path.open(encoding="utf-8", newline="") as file:
            return cls(path, Head.parse(file.readline().rstrip()))

    @property
    def rule(self) -> str:
        """Kebab-case name of the rule it shows."""
        return self.path.parent.name

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that it is given to."""
        return (self.rule, *self.head.others)

    @property
    def name(self) -> str:
        """Rule and case, as printed by the tests: `unique-count/empty_batch`."""
        return f"{self.rule}/{self.path.name.removesuffix('.in.py')}"

    @property
    def out_path(self) -> Path:
        """Where the rewritten file stands, if there is one."""
        return self.path.with_name(self.path.name.removesuffix(".in.py") + ".out.py")

    @property
    def before(self) -> bytes:
        """The file as its author wrote it."""
        return self.path.read_bytes()

    @property
    def after(self) -> bytes:
        """The file as it must be after the rewrite: the `.out.py`, or the file itself where it must stay."""
        return self.out_path.read_bytes() if self.head.change else self.before


def goldens(root: Path = ROOT) -> Iterator[Golden]:
    """All goldens under `root`, in alphabetical order."""
    for path in sorted(root.glob("*/*.in.py")):
        yield Golden.read(path)
