"""`ZOO.toml`: how the scripts of a zoo are run for verification."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Script:
    """How one script is run.

    Attributes:
        project: name of its project; `*` and `?` match as in file names.
        script: path from the root of the project.
        arguments: of the script.
        folder: where it runs, from the root of the project.
        environment: variables that it gets; nothing else of the user's but what is always let through.
        data: a command that makes its data, run once in the same place before both versions; empty for none.
        links: folders with read-only data on the machine that runs it.
        python: the interpreter; empty for the one that runs perfmod.
        steps: that are compared; 0 for the default of `verify`. quick: as `verify --quick`.
        device: `cuda` or `cpu`. gpus: how many GPUs it has to itself, and processes under torchrun where several.
        timeout: seconds for the whole verification.
    """

    project: str
    script: str
    arguments: tuple[str, ...] = ()
    folder: str = ""
    environment: dict[str, str] = field(factory=dict)
    data: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    python: str = ""
    steps: int = 0
    quick: bool = False
    device: str = "cuda"
    gpus: int = 1
    timeout: float = 1800.0


class Zoo:
    @classmethod
    def read(cls, path): ...
    def scripts_of(self, name):
        return ()


def digest(script):
    return ""
