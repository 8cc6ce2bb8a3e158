"""What a campaign was started with; `resume` goes on with the same."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from perfmod.config import Options
from perfmod.patches.by import By


@frozen
class Settings:
    """The settings of a campaign, all paths absolute.

    Attributes:
        targets: folders, repositories and addresses. listing: a file with more of them.
        writes: whether branches are made; `branch` is their name, `author` `Name <address>` or empty for git's own.
        zoo: how scripts are run for verification; None where none is.
        shards: how many branches by owner may be open at once, in all projects together; 0 for one branch a project.
        time_limit: seconds for the analysis of one project, and for each branch.
        pilot: how many projects a first run does; 0 for all.
        stop_at: the share of refuted verdicts above which the campaign stops.
    """

    targets: tuple[str, ...]
    listing: Path | None
    options: Options
    by: By = By.RULE
    writes: bool = False
    branch: str = "perfmod"
    author: str = ""
    zoo: Path | None = None
    shards: int = 0
    time_limit: float = 600.0
    pilot: int = 0
    stop_at: float = 0.2
    use_cache: bool = True
