"""How many branches by owner are open at once, over all projects: reviewers of one owner should not drown in them.

A branch is open from the moment it is made until its commits are merged, or it is deleted; its rewrites are then found
no longer, or are found anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from perfmod.errors import PerfmodError
from perfmod.git import git
from perfmod.migrate.results import Step
from perfmod.migrate.state import State
from perfmod.migrate.targets import Project


@define
class Shards:
    """The branches that are open.

    Attributes:
        most: that may be open at once; 0 for as many as there are, which is how it is without owners.
    """

    most: int
    _open: set[tuple[str, str]] = field(factory=set)

    @classmethod
    def of(cls, state: State, most: int, prefix: str) -> Shards:
        """Those of a campaign whose branches begin with `prefix`."""
        shards = cls(most)
        if most:
            for project in state.projects():
                for branch, tip in state.tips(project.name).items():
                    if _is_open(project, branch, tip):
                        shards._open.add((project.name, branch.removeprefix(f"{prefix}/")))
        return shards

    def waiting(self, project: Project, steps: Sequence[Step]) -> tuple[str, ...]:
        """The branches of a project that may not be opened yet, by their endings; the others count as open from now."""
        if not self.most:
            return ()
        names = list(dict.fromkeys(step.branch for step in steps))
        self._open -= {(owner, name) for owner, name in self._open if owner == project.name and name not in names}
        for name in names:
            if len(self._open) < self.most:
                self._open.add((project.name, name))
        return tuple(name for name in names if (project.name, name) not in self._open)


def _is_open(project: Project, branch: str, tip: str) -> bool:
    """Whether a branch is there and not merged."""
    try:
        git(project.repository, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    except PerfmodError:
        return False
    try:
        git(project.repository, "merge-base", "--is-ancestor", tip, "HEAD")
    except PerfmodError:
        return True
    return False
