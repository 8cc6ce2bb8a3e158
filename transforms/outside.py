"""What files that are no Python say about a training."""

from __future__ import annotations

from attrs import frozen


@frozen
class OutsideSetting:
    """A line of a file that is no Python, such as a configuration or a shell script, which sets a name to 0.

    Attributes:
        path: the file, from the root of its project.
        code: what stands there, such as `num_workers: 0`.
    """

    name: str
    path: str
    line: int
    code: str
