"""Looks at values in lines of the script while these run, to answer what could not be shown by reading the code.

Only names and attributes are read: nothing of the script runs twice. What was seen goes to a file as soon as it is new,
because processes that fetch samples end without notice.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from .job import Job

_MOST = 50
"""Different things that are kept of one point, of those that are as expected, and of the others."""


def begin(job: Job) -> None:
    """From now, in all threads and in processes that are forked."""
    if not job.points:
        return
    trace = _Watching(job).enter
    threading.settrace(trace)
    sys.settrace(trace)


class _Unknown(Exception):
    """A value that cannot be had without running something, or that is not there."""


class _Point:
    """Lines, and what is asked about values there; nothing where it is only asked whether they run."""

    def __init__(self, number: int, told: Any) -> None:
        self.number = number
        self.file: str = told["file"]
        self.lines = range(told["first"], told["last"] + 1)
        self.predicate: str = told["predicate"]
        self.expressions: list[list[str]] = told["expressions"]
        self.afterwards: bool = told["afterwards"]


class _Watching:
    def __init__(self, job: Job) -> None:
        self._root = os.path.realpath(job.root)
        self._out = Path(job.out)
        self._points = [_Point(number, told) for number, told in enumerate(job.points)]
        self._by_file: dict[str, dict[int, list[_Point]]] = {}
        self._pending: dict[int, list[_Point]] = {}
        self._seen: set[tuple[int, bool, str]] = set()
        self._counts: dict[tuple[int, bool], int] = {}

    def enter(self, frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
        """What is called in each line of a frame; None where there is nothing to see."""
        by_line = self._of(frame.f_code)
        if not by_line:
            return None

        def look(frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
            for point in self._pending.pop(id(frame), ()):
                self._look(point, frame)
            if event == "line":
                for point in by_line.get(frame.f_lineno, ()):
                    if point.afterwards:
                        self._pending.setdefault(id(frame), []).append(point)
                    else:
                        self._look(point, frame)
            return look

        return look

    def _of(self, code: CodeType) -> dict[int, list[_Point]]:
        name = code.co_filename
        if name not in self._by_file:
            path = os.path.realpath(name)
            found: dict[int, list[_Point]] = {}
            for point in self._points:
                if str(Path(self._root, point.file)) == path:
                    for line in point.lines:
                        found.setdefault(line, []).append(point)
            self._by_file[name] = found
        return self._by_file[name]

    def _look(self, point: _Point, frame: FrameType) -> None:
        try:
            values = [_value(names, frame) for names in point.expressions]
            held, text = _ANSWERS[point.predicate](*values) if point.predicate else (True, "")
        except Exception:  # noqa: BLE001 -- what is not seen is not answered, and the script must not notice
            return
        key = point.number, held
        if (*key, text) in self._seen or self._counts.get(key, 0) >= _MOST:
            return
        self._seen.add((*key, text))
        self._counts[key] = self._counts.get(key, 0) + 1
        with (self._out / f"watched-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"point": point.number, "held": held, "text": text}) + "\n")


def _value(names: list[str], frame: FrameType) -> Any:
    first, *attributes = names
    if first in frame.f_locals:
        value = frame.f_locals[first]
    elif first in frame.f_globals:
        value = frame.f_globals[first]
    else:
        raise _Unknown
    for name in attributes:
        if isinstance(inspect.getattr_static(type(value), name, None), (property, cached_property)):
            raise _Unknown
        value = getattr(value, name)
    return value


def _described(value: Any) -> str:
    if not _is_tensor(value):
        return f"a {type(value).__name__}"
    kind = str(value.dtype).replace("torch.", "")
    return f"a {kind} tensor of shape {list(value.shape)} on {value.device}"


def _is_tensor(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _tensor(value: Any) -> tuple[bool, str]:
    return _is_tensor(value), _described(value)


def _scalar(value: Any) -> tuple[bool, str]:
    return _is_tensor(value) and value.dim() == 0, _described(value)


def _on_device(value: Any) -> tuple[bool, str]:
    return _is_tensor(value) and value.device.type != "cpu", _described(value)


def _same(name: str) -> Callable[[Any, Any], tuple[bool, str]]:
    def compare(one: Any, other: Any) -> tuple[bool, str]:
        both = _is_tensor(one) and _is_tensor(other)
        return both and getattr(one, name) == getattr(other, name), f"{_described(one)} and {_described(other)}"

    return compare


def _apart(one: Any, other: Any) -> tuple[bool, str]:
    if not (_is_tensor(one) and _is_tensor(other)):
        return one is not other, f"{_described(one)} and {_described(other)}"
    shared = one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return not shared, "they share memory" if shared else "they share no memory"


_ANSWERS: dict[str, Callable[..., tuple[bool, str]]] = {
    "is-tensor": _tensor,
    "is-scalar": _scalar,
    "is-on-device": _on_device,
    "same-shape": _same("shape"),
    "same-dtype": _same("dtype"),
    "does-not-alias": _apart,
}
"""Whether what is asked holds for some values, and what they were."""
