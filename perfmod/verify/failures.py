"""What went wrong with a run: one of a closed set of kinds, and one line that says what, where, and what to do."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from perfmod.roots import shown
from perfmod.verify.device_options import device_options
from perfmod.verify.processes import End, Ended
from perfmod.verify.symptoms import Kind, recognise
from perfmod.verify.tracebacks import Raised, current_place, innermost, last_raised

__all__ = ["NOT_ALONE", "Circumstances", "Kind", "Trouble", "cannot_start", "diagnose", "trains"]

_LONGEST = 240
"""Characters of a script's own words that are repeated."""
_LONGEST_OF_SEVERAL = 100
"""Characters of each line where more than one is repeated."""
_REPEATED_LINES = 3
_ARGPARSE_STATUS = 2
_ARGPARSE_ERROR = re.compile(r"^.+: error: .+$", re.MULTILINE)
_NO_INPUT = "EOF when reading a line"
"""What `input()` says where nobody answers; `getpass()` has no words of its own."""
_GETPASS = re.compile(r"GetPassWarning|\bgetpass\.py\b")
_LAST_LINES = 5
"""Lines at the end of the output in which a reason is looked for where there is no traceback."""
_LAUNCHER_ERRORS = {"ChildFailedError", "ProcessExitedException", "ProcessRaisedException"}
"""Errors of a launcher about the process that really failed."""


NOT_ALONE = frozenset({Kind.DEVICE_MEMORY, Kind.HOST_MEMORY, Kind.NO_SPACE, Kind.PORT_TAKEN})
"""What may only have happened because other runs went on at the same time."""


@frozen
class Trouble:
    """Why a run gave nothing to judge. `reason` is one line, without the name of the script."""

    kind: Kind
    reason: str


@frozen
class Circumstances:
    """What a diagnosis refers to.

    Attributes:
        root: the copy that the script ran in.
        timeout: seconds.
    """

    root: Path
    python: str
    device: str
    nproc: int
    timeout: float


def diagnose(ended: Ended, records: Sequence[Mapping[str, Any]], circumstances: Circumstances) -> Trouble | None:
    """What went wrong, or None where every rank has a record of a training.

    `records` is what the harness wrote, by rank; there are fewer than ranks where some did not come to it.
    """
    raised = _first_error(records)
    if raised is not None and raised.type not in _LAUNCHER_ERRORS:
        return _from_exception(innermost(raised, circumstances.root), ended, circumstances)
    trained = [record for record in records if trains(record)]
    if len(trained) >= circumstances.nproc and raised is None:
        return _from_cpu(records, circumstances)
    if ended.how is End.TIME_LIMIT:
        return _from_time_limit(ended, len(trained), circumstances)
    printed = last_raised(ended.tail, circumstances.root)
    failed = ended.how is End.EXITED and ended.code != 0
    if printed is not None and (failed or not records):
        return _from_exception(innermost(printed, circumstances.root), ended, circumstances)
    if failed:
        return _from_status(ended, circumstances)
    return _from_nothing(ended, records, circumstances)


def trains(record: Mapping[str, Any]) -> bool:
    """Whether an optimizer has stepped in a rank."""
    return any(record["steps"].values())


def cannot_start(python: str, error: OSError) -> Trouble:
    """The interpreter itself is the trouble."""
    words = (error.strerror or str(error)).lower()
    return Trouble(Kind.INTERPRETER, f"{shown(python)}: cannot be started: {words}; name another with --python")


def _first_error(records: Sequence[Mapping[str, Any]]) -> Raised | None:
    """The error that came first: the other ranks' errors are that a peer went away."""
    failed = sorted((record for record in records if record["error"]), key=lambda record: float(record["seconds"]))
    found = [
        Raised(error["type"], error["message"], error["file"] or "", error["line"] or 0)
        for error in (record["error"] for record in failed)
    ]
    return next((each for each in found if each.type not in _LAUNCHER_ERRORS), found[0] if found else None)


def _from_exception(raised: Raised, ended: Ended, circumstances: Circumstances) -> Trouble:
    if raised.type == "EOFError" and not raised.message and _GETPASS.search(ended.tail):
        raised = evolve(raised, message=_NO_INPUT)
    text = f"{raised.type}: {raised.message}" if raised.message else raised.type
    words = f"{_line(text)} ({raised.where})" if raised.where else _line(text)
    found = _symptom(text, words, circumstances)
    return found or Trouble(Kind.CRASHED, f"it crashed: {words}")


def _symptom(text: str, words: str, circumstances: Circumstances) -> Trouble | None:
    symptom = recognise(text)
    if symptom is None:
        return None
    if symptom.kind is Kind.NO_GPU and circumstances.device == "cpu":
        return Trouble(Kind.NO_GPU, f"it requires a GPU, which --device cpu hides: {words}")
    return Trouble(symptom.kind, symptom.reason.format(words=words, python=shown(circumstances.python)))


def _from_cpu(records: Sequence[Mapping[str, Any]], circumstances: Circumstances) -> Trouble | None:
    """The training is there; but is it where it was to be? E-runs tell, which come first."""
    if circumstances.device == "cpu" or not all(record.get("on_cpu") for record in records):
        return None
    options = device_options(circumstances.root / path for record in records[:1] for path in record["modules"])
    asked = f"does {' or '.join(options)} choose the device" if options else "does it have an option for the device"
    example = "" if options else ", such as --cuda"
    return Trouble(Kind.ON_CPU, f"it trains on the CPU; {asked}{example}? Its arguments go after --")


def _from_time_limit(ended: Ended, trained: int, circumstances: Circumstances) -> Trouble:
    place, words = current_place(ended.tail, circumstances.root), _last_words(ended.tail)
    if place:
        seen = f" and was at {shown(place)}"
    elif words:
        seen = f"; its last output was: {words}"
    else:
        seen = " and had printed nothing"
    of = f" ({trained} of {circumstances.nproc} ranks had)" if trained else ""
    return Trouble(Kind.TIME_LIMIT, f"it had not finished after {circumstances.timeout:g} s{of}{seen}; raise --timeout")


def _from_status(ended: Ended, circumstances: Circumstances) -> Trouble:
    if ended.code < 0:
        return _from_signal(-ended.code, ended, circumstances)
    if ended.code == _ARGPARSE_STATUS and "usage:" in ended.tail:
        errors = _ARGPARSE_ERROR.findall(ended.tail)
        words = _line(errors[-1]) if errors else _last_words(ended.tail)
        return Trouble(
            Kind.USAGE,
            f"it does not accept these arguments (status {ended.code}): {words}; arguments of the script go after --",
        )
    found = _symptom(_last_lines(ended.tail), _last_words(ended.tail), circumstances)
    words = _several_words(ended.tail)
    said = f": {words}" if words else " and printed nothing"
    return found or Trouble(Kind.EXITED, f"it exited with status {ended.code} before it had trained{said}")


def _from_signal(number: int, ended: Ended, circumstances: Circumstances) -> Trouble:
    if number == signal.SIGKILL:
        peak = f" (its processes held {ended.peak_resident_mib:.0f} MiB)" if ended.peak_resident_mib else ""
        return Trouble(
            Kind.HOST_MEMORY,
            f"it was killed{peak}, most likely because this machine is out of memory; use fewer workers or smaller "
            "batches (arguments after --)",
        )
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    place = current_place(ended.tail, circumstances.root)
    return Trouble(Kind.SIGNALLED, f"it was killed by {name}{f' at {shown(place)}' if place else ''}")


def _from_nothing(ended: Ended, records: Sequence[Mapping[str, Any]], circumstances: Circumstances) -> Trouble:
    """The script ended well, and yet there is no training of every rank."""
    if any(record["ended"] == "stuck" for record in records):
        backwards = max(record["backwards"] for record in records)
        return Trouble(
            Kind.NEVER_STEPPED,
            f"no torch optimizer has stepped after {backwards} backward passes; nothing to compare",
        )
    trained = sum(any(record["steps"].values()) for record in records)
    if trained:
        return Trouble(Kind.NO_RECORD, f"only {trained} of {circumstances.nproc} ranks trained")
    found = _symptom(_last_lines(ended.tail), _last_words(ended.tail), circumstances)
    if found:
        return found
    words = _several_words(ended.tail)
    said = f"its last output was: {words}" if words else "it printed nothing"
    if records:
        return Trouble(
            Kind.NEVER_STEPPED, f"it ended before a torch optimizer had stepped; is this the training script? {said}"
        )
    return Trouble(
        Kind.NO_RECORD,
        f"it ended without a record: it never imports torch, or starts the training with another Python; {said}",
    )


def _last_lines(tail: str) -> str:
    return "\n".join(tail.splitlines()[-_LAST_LINES:])


def _last_words(tail: str) -> str:
    """The last line that says something; progress bars overwrite theirs."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", tail)]
    return _line(next((line for line in reversed(lines) if line), ""))


def _several_words(tail: str) -> str:
    """The last lines that say something, of a progress bar what it came to; the last one alone may be long."""
    lines = [said for said in map(_last_words, tail.split("\n")) if said]
    if not lines:
        return ""
    *before, last = lines[-_REPEATED_LINES:]
    return " / ".join([*(_line(line, _LONGEST_OF_SEVERAL) for line in before), last])


def _line(text: str, longest: int = _LONGEST) -> str:
    """Text as one line that can be printed anywhere, cut if it is long."""
    line = shown(" ".join(text.split()).rstrip(";. "))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"
