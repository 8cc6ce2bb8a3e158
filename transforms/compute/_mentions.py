"""Words in the text of files that are read together, where no more can be said of the code than that it has them."""

from __future__ import annotations

import re

from perfmod.transforms.compute.recorder import recorder
from perfmod.transforms.facts.file import FileFacts


def first_mention(file: FileFacts, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    """The first place in any of the files that a pattern fits: the text, and `line 5` or `line 5 of net.py`. What the
    recorder says that rewrites put beside a script is nothing that the script does.
    """
    for source in file.world.files:
        found = pattern.search(source.text) if source.text != recorder() else None
        if found is not None:
            line, _ = source.position(found.start())
            where = "" if source is file.source else f" of {file.world.labels[source]}"
            return found[0], f"line {line}{where}"
    return None
