"""A command line as people type it, such as `torchrun --nproc-per-node 2 train.py --epochs 1`, in parts."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Mapping
from pathlib import PurePosixPath

from attrs import evolve, frozen

from perfmod.roots import shown

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_FLAGS = re.compile(r"-[bBdqsuvx]+")
"""Options of Python that change nothing about a training; they are left out."""
_FLAGS_WITH_VALUE = ("-W", "-X")
_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_PROCESSES = "--nproc-per-node"
_NODES = "--nnodes"
_OF_TORCHRUN = frozenset({"--standalone", "--use-env"})
"""Options of torchrun without a value."""
_OF_TORCHRUN_WITH_VALUE = frozenset(
    {
        _NODES,
        _PROCESSES,
        "--log-dir",
        "--master-addr",
        "--master-port",
        "--max-restarts",
        "--node-rank",
        "--rdzv-backend",
        "--rdzv-conf",
        "--rdzv-endpoint",
        "--rdzv-id",
        "--redirects",
        "--tee",
    }
)
_OF_A_SHELL = re.compile(r"\|\|?|&&?|;|[<>]{1,2}.*|.*;")


class NotUnderstood(ValueError):
    """A command line that cannot be taken apart; says why, and what to do."""


@frozen
class CommandLine:
    """The parts of a command line.

    Attributes:
        script: as written. arguments: behind it.
        python: the interpreter, where it is given by an absolute path; else empty.
        processes: that torchrun starts; 0 without it.
        environment: what is set before the command.
    """

    script: str
    arguments: tuple[str, ...]
    python: str
    processes: int
    environment: Mapping[str, str]


def parsed(line: str) -> CommandLine:
    """The parts of a command line. Raises `NotUnderstood`."""
    try:
        words = deque(shlex.split(line))
    except ValueError as error:
        raise NotUnderstood(f"cannot be split: {str(error).lower()}") from error
    for word in words:
        if _OF_A_SHELL.fullmatch(word) or "$(" in word or "`" in word:
            raise NotUnderstood(f'no shell reads it, so "{shown(word)}" has no meaning; "folder" says where it runs')
    environment = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        environment[match[1]] = match[2]
        words.popleft()
    return evolve(_run(words), environment=environment)


def _run(words: deque[str]) -> CommandLine:
    program = _next(words)
    name = PurePosixPath(program).name
    if name == "torchrun":
        return _under_torchrun(words)
    if not _PYTHON.fullmatch(name):
        raise NotUnderstood(f'"{shown(program)}" is neither python nor torchrun')
    python = program if program.startswith("/") else ""
    while words and words[0].startswith("-"):
        option = words.popleft()
        if option == "-m" and words and words[0] in _LAUNCHERS:
            words.popleft()
            return evolve(_under_torchrun(words), python=python)
        if option[:2] in _FLAGS_WITH_VALUE:
            if option in _FLAGS_WITH_VALUE:
                _next(words)
        elif not _FLAGS.fullmatch(option):
            cure = "; name the file of the module" if option.startswith("-m") else ""
            raise NotUnderstood(f'"{shown(option)}" of python is not supported{cure}')
    return CommandLine(_next(words), tuple(words), python, 0, {})


def _under_torchrun(words: deque[str]) -> CommandLine:
    processes = 1
    while words and words[0].startswith("-"):
        option, sign, value = words.popleft().partition("=")
        # Both spellings are torchrun's own.
        option = option.replace("_", "-")
        if option in _OF_TORCHRUN:
            continue
        if option not in _OF_TORCHRUN_WITH_VALUE:
            raise NotUnderstood(f'"{shown(option)}" of torchrun is not supported')
        value = value if sign else _next(words)
        if option == _PROCESSES:
            if not value.isdecimal() or int(value) < 1:
                raise NotUnderstood(f'{_PROCESSES} must be a number, not "{shown(value)}"')
            processes = int(value)
        if option == _NODES and value not in ("1", "1:1"):
            raise NotUnderstood("only one machine is supported, with --nnodes 1")
    return CommandLine(_next(words), tuple(words), "", processes, {})


def _next(words: deque[str]) -> str:
    if not words:
        raise NotUnderstood("ends before the script")
    return words.popleft()
