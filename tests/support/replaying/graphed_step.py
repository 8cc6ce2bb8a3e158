"""The recorder that scripts get, with graphs that work on the CPU: a replay runs no Python of the step.

It stands in for the file that perfmod writes beside a script. Where `REPLAYS` names a file, each process adds a line
to it when it ends: how many steps it has replayed, and why a step was not recorded.
"""

import atexit
import gc
import importlib.util
import os
from pathlib import Path

import torch

from perfmod.transforms.compute.recorder import graphed_step as written


def _tapes():
    path = Path(__file__).resolve().parents[1] / "verify_recorder" / "graphed_step.py"
    spec = importlib.util.spec_from_file_location("recorder_on_the_cpu", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TAPES = _tapes()
MADE = []


class GraphedStep(written.GraphedStep):
    """Records with a tape instead of CUDA. Waiting for a value is an error while it does, as it is on CUDA."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        MADE.append(self)

    def __call__(self, *batch):
        if self.problem:
            return self.step(*batch)
        if self.modules is None:
            self.modules = self._all_modules()
        graph = None
        try:
            kind, settings = self._kind(batch), self._settings()
            if kind in self.graphs and self.graphs[kind][0] == settings:
                graph = self.graphs[kind]
            elif self._is_time_to_record(kind, settings):
                graph = self.graphs[kind] = settings, *self._on_tape(batch)
        except Exception as error:
            self._give_up(self._described(error))
        return self._replay(batch, *graph[1:]) if graph else self._detached(self.step(*batch))

    def _all_modules(self):
        return [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]

    def _on_tape(self, batch):
        self._require_recordable()
        drawn = torch.get_rng_state()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        inputs = [each.clone() if torch.is_tensor(each) else each for each in batch]
        rates = [[group, group["lr"], torch.tensor(group["lr"])] for group in self._mirrored()]
        tape = TAPES.Tape(is_strict=True)
        try:
            for group, _, rate in rates:
                group["lr"] = rate
            with tape:
                returned = self._detached(self.step(*inputs))
        finally:
            for group, number, _ in rates:
                group["lr"] = number
            tape.undo()
            torch.set_rng_state(drawn)
        return TAPES.Graph(tape.calls), inputs, rates, returned, []


@atexit.register
def _tell():
    if "REPLAYS" in os.environ:
        with Path(os.environ["REPLAYS"]).open("a", encoding="utf-8") as file:
            file.writelines(f"{each.replayed} {each.problem or ''}\n" for each in MADE)
