"""What the user asks to have verified."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from perfmod.errors import UsageMistake
from perfmod.roots import shown
from perfmod.transforms.finding import Numerics


@frozen
class Request:
    """One verification.

    Attributes:
        script: the script that trains, absolute.
        against: the script to compare it with; None compares it with what perfmod makes of it.
        arguments: of both scripts.
        device: `cuda`, or `cpu` to compare the training and leave the speed unjudged.
        python: the interpreter that runs the scripts.
        steps: optimizer steps over which the training is compared.
        quick: fewer processes and no rows per rule.
        nproc: processes that `torchrun` starts; None runs the script alone.
        spread: these are the rewritten script's alone, each with its part of every batch; the original is one process.
        timeout: seconds after which a single run is ended.
        numerics: how far the sides may lie apart with `against`; without it the rewrites' own class decides.
        links: folders that are not copied but linked, because they hold data that is only read.
        command: what reproduces it, ready for a shell.
        budget: rewritten versions that are tried to find the largest that is proven.
        horizon: the most steps over which the training is compared, where they take little time; the number is drawn
            at random from the last third of this. None compares `steps`.
        course: the same for the runs of the class `precision` that are compared with other seeds of the original. None
            makes none.
    """

    script: Path
    against: Path | None
    arguments: tuple[str, ...]
    device: str
    python: str
    steps: int
    quick: bool
    nproc: int | None
    timeout: float
    numerics: Numerics | None
    links: tuple[Path, ...]
    command: str
    horizon: int | None = None
    budget: int = 12
    course: int | None = None
    spread: bool = False


def resolve_script(given: str, entry: str | None, cwd: Path) -> Path:
    """The script that `given` names: a file, or a folder that holds the file `entry`.

    Raises:
        UsageMistake: there is no such file, or a folder came without `--entry`.
    """
    path = cwd / given
    if path.is_dir():
        if entry is None:
            raise UsageMistake(f"{shown(given)}: is a folder; name its training script: --entry train.py")
        path /= entry
    if not path.exists():
        raise UsageMistake(f"{shown(path if entry else given)}: no such file")
    if not path.is_file():
        raise UsageMistake(f"{shown(path)}: is not a file")
    if path.suffix == ".ipynb":
        raise UsageMistake(
            f"{shown(path)}: is a notebook; verify the script that `jupyter nbconvert --to script` makes"
        )
    return path.resolve()
