"""`perfmod verify` on the reference and example scripts, with a row for every rule, and how long verifying takes.

    python benchmarks/verify_reference.py [--json FILE] [--reports DIR]

The masked loss is verified with the default settings, which may take four minutes, and with `--quick`, which may take
one; ResNet-18 with the default settings; the examples with `--quick`, where a gain need not clear the noise. The exit
code is 1 when a limit is not kept or another verdict is not "proven". `reference_scripts.py` measures the reference
scripts against their expert's versions, by other means. About ten minutes on one H200 with 16 cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from attrs import frozen
from gpu_seats import run_verify
from revision import revision
from verify_public import summary

from perfmod import __version__

HERE = Path(__file__).resolve().parent


@frozen
class Verification:
    """A reference or example script, and how it is verified.

    Attributes:
        options: those of `perfmod verify`.
        longest: how many seconds it may take; None for any number.
    """

    script: str
    options: tuple[str, ...] = ()
    longest: float | None = None

    @property
    def path(self) -> Path:
        """Where it is kept."""
        example = HERE.parent / "examples" / self.script / "train.py"
        return example if example.exists() else HERE / "reference" / self.script / "original.py"


VERIFICATIONS = (
    Verification("masked_loss", longest=240.0),
    Verification("masked_loss", ("--quick",), longest=60.0),
    Verification("cifar_resnet18"),
    Verification("digits", ("--quick",)),
    Verification("classifier", ("--quick",)),
    Verification("text", ("--quick",)),
)


def measured(verification: Verification, reports: Path) -> dict[str, Any]:
    """The row of one verification."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder).resolve() / "train.py"
        shutil.copy(verification.path, script)
        began = time.perf_counter()
        ran = run_verify(script, verification.options, (), reports, None)
        seconds = time.perf_counter() - began
    row: dict[str, Any] = {"script": verification.script, "options": list(verification.options)}
    row |= {"seconds": round(seconds, 1), "longest": verification.longest, "exit_code": ran.exit_code}
    return row | (summary(ran.evidence) if ran.evidence is not None else {"verdict": "failed", "reason": ran.output})


def kept(row: dict[str, Any]) -> bool:
    """Whether a row is as it should be."""
    is_example = row["script"] in {path.name for path in (HERE.parent / "examples").iterdir()}
    good = ("proven", "no measurable change") if is_example else ("proven",)
    return row["verdict"] in good and (row["longest"] is None or row["seconds"] <= row["longest"])


def main() -> int:
    """Verify, print a line each, write the rows; the exit code."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--reports", type=Path, help="keep the full evidence of each in this folder")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for verification in VERIFICATIONS:
            name = "-".join((verification.script, *(option.strip("-") for option in verification.options)))
            row = measured(verification, (args.reports or Path(folder)).resolve() / name)
            rows.append(row)
            print(f"{name}: {row['verdict']} in {row['seconds']:.0f} s: {row['reason']}", flush=True)
            if args.json is not None:
                result = {"schema": 1, "perfmod": __version__, "commit": revision(), "verifications": rows}
                args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(map(kept, rows)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
