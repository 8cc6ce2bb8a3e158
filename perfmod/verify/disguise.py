"""The harness under a name that nobody knows: a script that behaves when it sees a verifier has to find it first."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from attrs import frozen

from perfmod.errors import Failure, explain
from perfmod.verify import harness
from perfmod.verify.job import JOB_VARIABLE

PLAIN: Final = Path(harness.__file__).resolve().parent
"""The folder of the harness as it is; its `sitecustomize` starts it."""
_PACKAGE: Final = "perfmod_harness"
_VARIABLES: Final = "PERFMOD_HARNESS"


@frozen
class Disguise:
    """The harness, or a copy of it in which its package and its variables have other names.

    Attributes:
        folder: to be on PYTHONPATH.
        job_variable: the environment variable that holds the path of the job.
        package: its name.
    """

    folder: Path
    job_variable: str
    package: str = _PACKAGE

    @classmethod
    def made_in(cls, parent: Path) -> Disguise:
        """A copy in a folder below `parent`. Raises `Failure` where it cannot be written."""
        package = f"m{secrets.token_hex(6)}"
        variable = f"V{secrets.token_hex(6).upper()}"
        folder = parent / secrets.token_hex(6)
        try:
            for source in PLAIN.rglob("*.py"):
                target = folder / str(source.relative_to(PLAIN)).replace(_PACKAGE, package)
                target.parent.mkdir(parents=True, exist_ok=True)
                text = source.read_text(encoding="utf-8").replace(_PACKAGE, package)
                text = text.replace(_VARIABLES, variable).replace("perfmod", package)
                target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Failure(f"{folder}: cannot be written: {explain(error)}; set TMPDIR to a folder with room") from error
        return cls(folder, JOB_VARIABLE.replace(_VARIABLES, variable), package)


UNDISGUISED: Final = Disguise(PLAIN, JOB_VARIABLE)
