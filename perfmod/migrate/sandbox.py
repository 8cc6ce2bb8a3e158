"""The surroundings in which strangers' code runs: an environment, a home and, where the system allows it, a network of
its own. It keeps honest code from what is none of its business; it is no container, and no prison for hostile code.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from attrs import frozen

from perfmod.errors import Failure, UsageMistake, explain
from perfmod.migrate import launch

_PASSED: Final = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|TERM|NO_COLOR"
    r"|CUDA_(?:HOME|PATH|VISIBLE_DEVICES|DEVICE_ORDER)|NVIDIA_\w+|LD_LIBRARY_PATH|TRITON_PTXAS_PATH|CC|CXX"
    r"|(?:OMP|GOMP|KMP|MKL|OPENBLAS|NUMEXPR|VECLIB)_\w+|NCCL_\w+|GLOO_SOCKET_IFNAME"
)
"""What is always let through; tokens, agents, proxies and what leads Python elsewhere are not among it."""
_OFFLINE: Final = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "offline",
}
"""What would wait for an answer is told that there is none."""
_HOMES: Final = {
    "HF_HOME": "cache/huggingface",
    "MPLCONFIGDIR": "config/matplotlib",
    "TORCH_HOME": "cache/torch",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_RUNTIME_DIR": "run",
    "XDG_STATE_HOME": "state",
}
_FROM_THE_USER: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_LONGEST_TEMPORARY: Final = 40
"""Characters. Loader workers make sockets below it, whose whole paths may have 107."""
_TRIAL_SECONDS: Final = 30.0


@frozen
class Sandbox:
    """Where the commands of one script run.

    Attributes:
        home, temporary: folders that are its own, gone at the end.
        environment: all that commands get.
        walls: what surrounds them, see `launch`.
        notes: what there is to say about that, one line each.
    """

    home: Path
    temporary: Path
    environment: Mapping[str, str]
    walls: str
    notes: tuple[str, ...]

    @classmethod
    @contextlib.contextmanager
    def below(cls, folder: Path, given: Mapping[str, str], *, network: bool) -> Iterator[Sandbox]:
        """One with its folders below `folder`, gone at the end of the block with all that lies in them.

        `given` are variables that are set whatever their names; a value `$NAME` is that of the user's variable.

        Raises:
            UsageMistake: a variable of the user's is not set.
            Failure: a folder cannot be made.
        """
        known = {name: _expanded(name, value) for name, value in given.items()}
        home, temporary = folder / "home", folder / "tmp"
        try:
            home.mkdir(parents=True)
            for name in dict.fromkeys(_HOMES.values()):
                (home / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            if len(str(temporary)) > _LONGEST_TEMPORARY:
                temporary = Path(tempfile.mkdtemp(prefix="perfmod-"))
            else:
                temporary.mkdir()
        except OSError as error:
            raise Failure(f"{folder}: cannot be written: {explain(error)}") from error
        is_walled = can_isolate()
        environment = {**cleaned(os.environ, home, temporary, offline=not network), **known}
        walls = launch.NONE if not is_walled else launch.USER if network else launch.NETWORK
        try:
            yield cls(home, temporary, environment, walls, _notes(walls, network=network))
        finally:
            for each in (home, temporary):
                removed(each)

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command line that runs another one here, without a shell; `environment` is to be given along."""
        return [sys.executable, "-I", str(Path(launch.__file__).resolve()), self.walls, *arguments]


@lru_cache
def can_isolate() -> bool:
    """Whether this system lets us build namespaces of users and networks: containers and some kernels do not."""
    if sys.platform != "linux":
        return False
    trial = Sandbox(Path(), Path(), {}, launch.NETWORK, ()).command([sys.executable, "-I", "-c", ""])
    try:
        ran = subprocess.run(trial, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0


def cleaned(environment: Mapping[str, str], home: Path, temporary: Path, *, offline: bool) -> dict[str, str]:
    """What is let through of an environment, and what leads to folders of their own."""
    passed = {name: value for name, value in environment.items() if _PASSED.fullmatch(name)}
    packages = site.getuserbase() if site.ENABLE_USER_SITE else ""
    return {
        **passed,
        **(_OFFLINE if offline else {}),
        **{name: str(home / inner) for name, inner in _HOMES.items()},
        "HOME": str(home),
        "LOGNAME": "perfmod",
        "TMPDIR": str(temporary),
        "USER": "perfmod",
        # The user's own packages stay where they are, though the home is another.
        **({"PYTHONUSERBASE": packages} if Path(packages).is_dir() and packages else {}),
        # The tree has no repository; that of a folder around it is none of its business.
        "GIT_CEILING_DIRECTORIES": str(home.parent),
    }


def removed(folder: Path) -> None:
    """Remove a folder whatever a script made of its permissions; what resists is left to the user."""

    def retried(function: object, path: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(0o700)
            if not Path(path).is_symlink():
                Path(path).chmod(0o700)
            if callable(function):
                function(path)

    shutil.rmtree(folder, onerror=retried)
    shutil.rmtree(folder, ignore_errors=True)


def _expanded(name: str, value: str) -> str:
    match = _FROM_THE_USER.fullmatch(value)
    if match is None:
        return value
    wanted = match[1] or match[2]
    if wanted not in os.environ:
        raise UsageMistake(f'"environment": {name} = "{value}", but {wanted} is not set on this machine')
    return os.environ[wanted]


def _notes(walls: str, *, network: bool) -> tuple[str, ...]:
    if network:
        return ("ran with network, as ZOO.toml says",)
    if walls == launch.NONE:
        return ("ran with network: this system does not allow namespaces of users and networks (unshare)",)
    return ()
