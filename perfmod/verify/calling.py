"""How a script is called in a copy of its tree: the command, the working directory, the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from perfmod.verify.disguise import UNDISGUISED, Disguise
from perfmod.verify.job import Job, Mode

_FOR_ALL = {
    "PYTHONFAULTHANDLER": "1",
    "PYTHONHASHSEED": "0",
    # A window would wait for somebody to close it.
    "MPLBACKEND": "Agg",
    # Trackers write to other people's servers, and hubs are asked for what may change between two runs.
    "CLEARML_OFFLINE_MODE": "1",
    "COMET_AUTO_LOG_DISABLE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "NEPTUNE_MODE": "offline",
    "SWANLAB_MODE": "disabled",
    "TRANSFORMERS_OFFLINE": "1",
    "WANDB_MODE": "disabled",
}
_DETERMINISTIC_CUBLAS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@frozen
class Call:
    """The call of a script as the user would make it.

    Attributes:
        python: the interpreter.
        arguments: of the script.
        cwd: where the user stands, absolute; relative arguments mean something from there.
        environment: the user's.
        has_bytecode: whether libraries have theirs where Python looks for it.
    """

    python: str
    arguments: tuple[str, ...] = ()
    cwd: Path = field(factory=Path.cwd)
    environment: Mapping[str, str] = field(factory=lambda: dict(os.environ))
    has_bytecode: bool = False


@frozen
class CallInCopy:
    """The same call in a copy of the tree.

    Paths of the tree in arguments and in the environment are led to the copy, so that an absolute `--out` is not
    written in the user's tree; what lies outside stays where it is.

    Attributes:
        home: root of the user's tree.
        room: the folder of the run.
        harness: that looks on.
    """

    call: Call
    home: Path
    job: Job
    room: Path
    harness: Disguise = UNDISGUISED

    def command(self, script: Path, nproc: int | None = None) -> list[str]:
        """The command line for `script`, relative to the root, alone or in `nproc` processes under `torchrun`."""
        start = [self.call.python]
        if nproc is not None:
            start += ["-m", "torch.distributed.run", "--nproc-per-node", str(nproc), "--standalone"]
        return [*start, str(self.job.root / script), *map(self._argument, self.call.arguments)]

    def cwd(self, script: Path) -> Path:
        """The user's working directory if that lies in the tree, else the script's folder; in the copy."""
        here = self.call.cwd.resolve()
        if here.is_relative_to(self.home):
            there = self.job.root / here.relative_to(self.home)
            if there.is_dir():
                return there
        return (self.job.root / script).parent

    def environment(self, script: Path, job_file: Path) -> dict[str, str]:
        """The environment of the script."""
        own = {name: self._moved_if_there(value) for name, value in self.call.environment.items()}
        search = [entry for entry in own.pop("PYTHONPATH", "").split(os.pathsep) if entry]
        own.pop("PYTHONDONTWRITEBYTECODE", None)
        temporary = self.room / "tmp"
        environment = {
            **own,
            **_FOR_ALL,
            **self._bytecode(),
            "MLFLOW_TRACKING_URI": (self.room / "mlruns").as_uri(),
            "PWD": str(self.cwd(script)),
            # torch keeps compiled kernels below TMPDIR by default, which no two runs share.
            "TORCHINDUCTOR_CACHE_DIR": own.get("TORCHINDUCTOR_CACHE_DIR") or str(self.room.parent / "compiled"),
            "PYTHONPATH": os.pathsep.join([str(self.harness.folder), *map(self._moved, map(self._absolute, search))]),
            "TMPDIR": str(temporary),
            self.harness.job_variable: str(job_file),
        }
        if self.job.device == "cpu":
            environment["CUDA_VISIBLE_DEVICES"] = ""
        if self.job.mode is Mode.EQUALITY:
            environment.setdefault(*_DETERMINISTIC_CUBLAS)
        return environment

    def _bytecode(self) -> Mapping[str, str]:
        """Nothing is written beside the user's files; libraries on a disk without bytecode are compiled once."""
        if self.call.has_bytecode:
            return {"PYTHONDONTWRITEBYTECODE": "1"}
        return {"PYTHONPYCACHEPREFIX": str(self.room.parent / "bytecode")}

    def unobserved(self, script: Path) -> dict[str, str]:
        """The environment without anything that looks on; what the script prints comes at once."""
        environment = {**self.environment(script, Path()), "PYTHONUNBUFFERED": "1"}
        # Beside other runs, threads that wait for work must not keep the processors busy.
        environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        del environment[self.harness.job_variable]
        _, _, search = environment.pop("PYTHONPATH").partition(os.pathsep)
        return {**environment, "PYTHONPATH": search} if search else environment

    def _argument(self, argument: str) -> str:
        """An argument, `--option=VALUE` or `key=VALUE`, whose value may be a path."""
        name, sign, value = argument.partition("=")
        if not sign or os.sep in name:
            return self._value(argument)
        return f"{name}={self._value(value)}"

    def _value(self, value: str) -> str:
        if Path(value).is_absolute():
            return self._moved(value)
        # A word without a slash is rather the name of a model than of a folder that happens to be there.
        if os.sep not in value:
            return value
        path = self._absolute(value)
        here = self.call.cwd.resolve()
        if here.is_relative_to(self.home) and Path(path).is_relative_to(self.home):
            return value
        return self._moved(path) if os.path.lexists(path) else value

    def _absolute(self, path: str) -> str:
        return os.path.normpath(self.call.cwd.resolve() / path)

    def _moved(self, path: str) -> str:
        """Where an absolute path of the tree is in the copy. What was left out of the copy stays where it is."""
        for spelling in (Path(os.path.normpath(path)), Path(path).resolve()):
            if spelling.is_relative_to(self.home):
                there = self.job.root / spelling.relative_to(self.home)
                return path if spelling.exists() and not os.path.lexists(there) else str(there)
        return path

    def _moved_if_there(self, value: str) -> str:
        if not Path(value).is_absolute() or os.pathsep in value or not os.path.lexists(value):
            return value
        return self._moved(value)
