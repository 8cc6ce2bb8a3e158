"""The file that rewrites put beside a script: where the goldens have it, and what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from perfmod.codemods.engine import rewrite_together
from perfmod.codemods.results import Choice, FileResult, Given, Outcome, Part
from perfmod.transforms.beside import Beside
from perfmod.transforms.compute.recorder import MODULE, recorder
from perfmod.transforms.rule import Rule


def rewrite_with_beside(data: bytes, path: str, rules: Sequence[Rule], choice: Choice) -> FileResult:
    """What the engine makes of a script, beside which there is no other file; one that it makes holds the recorder."""
    new = str(PurePath(path).with_name(f"{MODULE}.py"))
    files = [Given(path, data, beside=Beside(new, MODULE)), Given(new, b"", part=Part.NEW)]
    result, made = rewrite_together(files, rules, choice)
    assert (made.outcome is Outcome.CHANGED) == (new in result.together), made.reason
    assert made.after in (b"", recorder().encode())
    return result


def put_beside(code: bytes, folder: Path) -> Path:
    """The folder, with the file that a rewritten script imports."""
    if f"from {MODULE} import".encode() in code:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{MODULE}.py").write_text(recorder(), encoding="utf-8")
    return folder
