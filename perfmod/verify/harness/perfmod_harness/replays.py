"""Training steps that the script records as a CUDA graph, and replays: no Python runs in a replay.

A recorder is the class that perfmod's rule launch-bound-step writes into a file beside the script, or one made like
it: `_record(batch)` runs the step once, while it is recorded, and returns the graph and what belongs to it;
`_replay(batch, graph, ...)` copies a batch into the places of the recorded one, and replays. `_as_it_is(batch)`, if
there is one, runs the step otherwise, and `_give_up(problem)` is called where the step cannot be recorded.

What the step does while it is recorded does not count, for nothing is computed. It is noted instead what is to be
looked at after each replay: the tensors stay where the graph has them, and are looked at there.
"""

from __future__ import annotations

import inspect
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, ContextManager, Iterable, Iterator, Protocol

from . import after_import, patching

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor
    from torch.optim import Optimizer

_FILE = re.compile(r"(?:.*\.)?graphed_step(?:_\d+)?")
_METHODS = ("_record", "_replay")
_ACTIONS = "_perfmod_actions"
_PREPARATIONS = "_perfmod_preparations"

Action = Callable[[], None]
"""What is to be done after each replay of a graph."""


class Recording(Protocol):
    """Who looks on."""

    def recording(self) -> ContextManager[list[Action]]:
        """In here, a step is recorded; at the end, the list holds what is to be done after each replay, in order."""

    def before_replay(self) -> None:
        """A graph is about to be replayed."""

    def not_replayed(self) -> None:
        """A recorder on a device is about to run the step as it is."""


recorders: list[type] = []
"""The classes met so far."""
_outcomes: list[str] = []
"""Of attempts to record a step: why the recorder gave up; empty where there is a graph."""
preparations: list[Action] = []
"""What is to be done before each replay of the graph that is being recorded, in order."""


def not_recorded() -> str:
    """Why no step of the script could be recorded; empty where one was, or where nothing has failed so far."""
    return "" if "" in _outcomes else next(iter(_outcomes), "")


def begin(watch: Recording) -> None:
    """Have replays looked into, once the script has imported a recorder."""

    def record(call: Callable[..., Any], recorder: Any, *args: Any, **kwargs: Any) -> Any:
        preparations.clear()
        with watch.recording() as actions:
            made = call(recorder, *args, **kwargs)
        _outcomes.append("")
        setattr(made[0], _ACTIONS, tuple(actions))
        setattr(made[0], _PREPARATIONS, tuple(preparations))
        return made

    def replay(call: Callable[..., Any], recorder: Any, batch: Any, graph: Any, *rest: Any) -> Any:
        watch.before_replay()
        for action in getattr(graph, _PREPARATIONS, ()):
            action()
        returned = call(recorder, batch, graph, *rest)
        for action in getattr(graph, _ACTIONS, ()):
            action()
        return returned

    def run(call: Callable[..., Any], recorder: Any, *args: Any, **kwargs: Any) -> Any:
        watch.not_replayed()
        return call(recorder, *args, **kwargs)

    def give_up(call: Callable[..., Any], recorder: Any, problem: Any) -> Any:
        _outcomes.append(str(problem))
        return call(recorder, problem)

    def met(module: ModuleType) -> None:
        for kind in list(vars(module).values()):
            if inspect.isclass(kind) and all(inspect.isfunction(vars(kind).get(name)) for name in _METHODS):
                recorders.append(kind)
                patching.around(kind, "_record", record)
                patching.around(kind, "_replay", replay)
                for name, instead in (("_as_it_is", run), ("_give_up", give_up)):
                    if hasattr(kind, name):
                        patching.around(kind, name, instead)

    after_import.call_each(lambda name: _FILE.fullmatch(name) is not None, met)


class Held:
    """Tensors that a recorded step uses at some point, kept so that their memory is not given to others.

    After a replay they hold what they held at that point, unless the step changes them in place later on.

    Attributes:
        is_left: they are not changed. Known when the step is recorded; before that, True.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = list(tensors)
        self.is_left = True
        self.note()

    def note(self) -> None:
        """They are as wanted now, whatever has changed them before."""
        self._versions = [*map(_version, self._tensors)]

    def settle(self) -> None:
        """The step is recorded: what changes them from now on is no part of it."""
        self.is_left = self._versions == [*map(_version, self._tensors)]


class RecordedStep:
    """A step of an optimizer within a graph, and the gradients that it goes along.

    Attributes:
        gradients: of its parameters that have one.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._gradients: list[tuple[Tensor, Tensor | None]] = [(each, each.grad) for each in parameters]
        self.gradients = Held(gradient for _, gradient in self._gradients if gradient is not None)
        self._found = getattr(optimizer, "found_inf", None)

    def stepped(self) -> None:
        """It has stepped, in the recording. A fused one unscales its gradients itself, in place."""
        if any(group.get("fused") for group in self.optimizer.param_groups):
            self.gradients.note()

    @contextmanager
    def as_recorded(self) -> Iterator[None]:
        """Have parameters hold the gradients of the graph: they may hold those of another shape of the batch by now."""
        known: Any = self.optimizer
        former = [(parameter, parameter.grad) for parameter, _ in self._gradients]
        if self._found is not None:
            known.found_inf = self._found
        try:
            _hold(self._gradients)
            yield
        finally:
            _hold(former)
            if self._found is not None:
                del known.found_inf


def _hold(gradients: Iterable[tuple[Tensor, Tensor | None]]) -> None:
    for parameter, gradient in gradients:
        parameter.grad = gradient


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version
