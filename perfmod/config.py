"""The settings of files: the nearest configuration of each, with the command line over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from perfmod.config_files import config_in
from perfmod.config_table import Config, PerFileIgnore
from perfmod.transforms.finding import Numerics
from perfmod.transforms.policy import MOST_WORKERS, CompileMode, HalfType, Target


@frozen
class Options:
    """What the command line says; None and empty say nothing.

    Attributes:
        instead: fields of `Settings` with values that hold whatever the configuration says.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    unsafe: bool | None = None
    time_limit: float | None = None
    low_impact: bool | None = None
    proposing: Numerics | None = None
    extend_select: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    force_exclude: bool | None = None
    instead: tuple[tuple[str, Any], ...] = ()


@frozen
class Settings:
    """What holds for a file.

    Attributes:
        select, ignore, unsafe, low_impact, assume, target, workers, half_type, compile_mode, report_every, time_limit:
            as in `Config`, after the command line had its say; what the configuration adds to its selection is in
            `select`.
        extend_select: what the command line adds, which no `ignore` takes back.
        per_file_ignores, exclude, force_exclude: as in `Config`, likewise.
        proposing: a run will decide what is kept, so whatever it can prove within a class is applied, see `Choice`.
        accepted: fingerprints of findings that are applied whatever their outcome is by default, in order.
        origin: the configuration that took part; None where there is none.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    unsafe: bool = False
    low_impact: bool = False
    target: Target = Target.CUDA
    proposing: Numerics | None = None
    accepted: tuple[str, ...] = ()
    time_limit: float = Config().time_limit
    origin: Path | None = None
    per_file_ignores: tuple[PerFileIgnore, ...] = ()
    force_exclude: bool = False
    assume: tuple[str, ...] = ()
    workers: int = MOST_WORKERS
    half_type: HalfType = HalfType.BFLOAT16
    compile_mode: CompileMode = CompileMode.DEFAULT
    report_every: int | None = None

    @property
    def root(self) -> Path | None:
        """The folder that patterns are relative to."""
        return self.origin.parent if self.origin is not None else None

    @property
    def of_rules(self) -> Settings:
        """The same without what tells files apart: equal for files that may be rewritten together."""
        return evolve(self, exclude=(), force_exclude=False, per_file_ignores=(), origin=None)


@define
class Configurations:
    """What holds in folders, under some options; each folder is looked into once."""

    options: Options = Options()
    _configs: dict[Path, Config] = field(factory=dict, init=False)
    _settings: dict[Path, Settings] = field(factory=dict, init=False)

    def config(self, folder: Path) -> Config:
        """The nearest configuration: that of the first folder at or above `folder` (absolute) that has one.

        Raises:
            UsageMistake: it is wrong.
        """
        if folder not in self._configs:
            own = config_in(folder)
            above = Config() if folder.parent == folder else None
            self._configs[folder] = own or above or self.config(folder.parent)
        return self._configs[folder]

    def settings(self, folder: Path) -> Settings:
        """The settings of files in a folder (absolute): the command line over the nearest configuration.

        `--select` replaces what the configuration selects and ignores, `--extend-select` adds to it; `--ignore`
        replaces what it ignores.

        Raises:
            UsageMistake: the configuration is wrong.
        """
        if folder not in self._settings:
            self._settings[folder] = _settings(self.config(folder), self.options)
        return self._settings[folder]


def settings_for(folder: Path, options: Options) -> Settings:
    """The settings of files in one folder, see `Configurations`."""
    return Configurations(options).settings(folder)


def _settings(config: Config, options: Options) -> Settings:
    configured = (*(config.select or ("ALL",)), *config.extend_select) if config.extend_select else config.select
    settings = Settings(
        select=options.select or configured,
        extend_select=options.extend_select,
        ignore=options.ignore or (() if options.select else config.ignore),
        exclude=config.exclude,
        unsafe=config.unsafe if options.unsafe is None else options.unsafe,
        low_impact=config.low_impact if options.low_impact is None else options.low_impact,
        target=config.target,
        proposing=options.proposing,
        accepted=options.accepted,
        time_limit=config.time_limit if options.time_limit is None else options.time_limit,
        origin=config.path,
        per_file_ignores=config.per_file_ignores,
        force_exclude=config.force_exclude if options.force_exclude is None else options.force_exclude,
        assume=config.assume,
        workers=config.workers,
        half_type=config.half_type,
        compile_mode=config.compile_mode,
        report_every=config.report_every,
    )
    return evolve(settings, **dict(options.instead))
