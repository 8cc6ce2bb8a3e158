"""A series of patches: made of examined files, and written to a folder for `git am`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from perfmod.applying import patch_folder
from perfmod.codemods.patch import unified_diff
from perfmod.errors import Failure, UsageMistake, explain
from perfmod.examined import Examined
from perfmod.memory import Memory
from perfmod.patches.by import By
from perfmod.patches.mail import Author, file_name, mail
from perfmod.patches.messages import Message, Messages
from perfmod.patches.owners import PLACES, Owners
from perfmod.patches.parts import parts_of
from perfmod.patches.shards import shards_of
from perfmod.patches.steps import Step, steps_of
from perfmod.review.proofs import Proofs
from perfmod.roots import project_root, shown
from perfmod.transforms.card import Card

_PATCHES = "[0-9][0-9][0-9][0-9]*.patch"


@frozen
class Series:
    """Steps with their messages.

    Attributes:
        root: what paths in patches are relative to.
    """

    root: Path
    steps: tuple[tuple[Step, Message], ...]

    @classmethod
    def of(
        cls,
        examined: Sequence[Examined],
        by: By,
        rules: Sequence[Card],
        cwd: Path,
        remembered: Memory | None,
        *,
        needs_owners: bool = True,
        is_sharded: bool = False,
    ) -> Series:
        """The rewrites of examined files; `is_sharded` makes steps that do not need each other, see `shards_of`.

        Raises:
            UsageMistake: by owner, and nothing says who owns what, which it has to where that is needed.
            Failure: files that an earlier run examined were edited meanwhile.
        """
        root = patch_folder(examined, cwd)
        owners = Owners.read(root) if by is By.OWNER else Owners(root)
        if by is By.OWNER and needs_owners and not owners.sections:
            raise UsageMistake(f"{shown(root)}: has no CODEOWNERS file; it may be {', '.join(PLACES)}")
        parts = parts_of(examined, by, {rule.code: rule.name for rule in rules}, owners.of)
        messages = Messages(rules, Proofs.read(project_root(cwd), cwd, ()), root)
        steps = shards_of(examined, parts) if is_sharded else steps_of(examined, parts, remembered)
        return cls(root, tuple((step, messages.of(step.part)) for step in steps))

    def mails(self, author: Author) -> dict[str, bytes]:
        """The mails by the names of their files, in order."""
        total = len(self.steps)
        return {
            file_name(number, step.part.label): mail(author, message, self.diff(step), number, total)
            for number, (step, message) in enumerate(self.steps, start=1)
        }

    def diff(self, step: Step) -> bytes:
        """What a step changes, as a diff for `git apply`."""
        return b"".join(
            unified_diff(path.relative_to(self.root).as_posix(), step.before[path], after)
            for path, after in step.after.items()
        )


def require_free(folder: Path) -> None:
    """Raise `UsageMistake` where a series in a folder would be mixed with another one, or it is none."""
    if folder.is_dir():
        old = next(iter(sorted(folder.glob(_PATCHES))), None)
        if old is not None:
            raise UsageMistake(f"{shown(folder)}: holds patches already, such as {shown(old.name)}; name a new folder")
    elif folder.exists():
        raise UsageMistake(f"{shown(folder)}: is a file; --patch-series takes a folder")


def write_mails(folder: Path, mails: Mapping[str, bytes]) -> None:
    """Write a series to a folder, which is made where it is not there. Raises `Failure`."""
    try:
        if mails:
            folder.mkdir(parents=True, exist_ok=True)
        for name, data in mails.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise Failure(f"{shown(folder)}: cannot be written: {explain(error)}") from error


def needs_keep_cr(mails: Mapping[str, bytes]) -> bool:
    r"""Whether `git am` has to be told that lines may end in `\r\n`."""
    return any(b"\r\n" in data for data in mails.values())
