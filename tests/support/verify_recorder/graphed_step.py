"""A recorder that works on the CPU: its graph is a list of the operators that a step has called, with their tensors.

As in a CUDA graph, a replay runs no Python of the step, reads and writes the same memory, and keeps all numbers as they
were. It has what the harness knows a recorder by, under another name.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Tape(TorchDispatchMode):
    """The operators that are called, with their tensors; a strict one allows no wait for a value."""

    def __init__(self, is_strict=False):
        super().__init__()
        self.calls, self.is_strict = [], is_strict
        # What has been written to that was there before, as it was; and the memory that is new.
        self.former, self.new = {}, set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.is_strict and function is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("a step that is recorded must not wait for a value")
        known = {storage(each) for each in tensors((args, kwargs))}
        for place in self._written(function, args, kwargs):
            self.former.setdefault(storage(place), (place, place.untyped_storage().clone()))
        out = function(*args, **kwargs)
        made = [None if storage(each) in known else each for each in tensors(out)]
        self.new |= {storage(each) for each in made if each is not None}
        self.calls.append((function, args, kwargs, made))
        return out

    def _written(self, function, args, kwargs):
        named = zip(function._schema.arguments, args)
        given = [*named, *((each, kwargs[each.name]) for each in function._schema.arguments if each.name in kwargs)]
        told = [value for each, value in given if each.alias_info is not None and each.alias_info.is_write]
        # It does not say that it writes its statistics.
        untold = args[3:5] if function is torch.ops.aten.native_batch_norm.default else ()
        places = tensors([told, untold])
        return [place for place in places if storage(place) not in self.new]

    def undo(self):
        """Put back what was written to: a recording computes nothing."""
        for place, former in self.former.values():
            place.untyped_storage().copy_(former)


def tensors(values):
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def storage(tensor):
    return tensor.untyped_storage()._cdata


class Graph:
    def __init__(self, calls):
        self.calls = calls

    def replay(self):
        with torch.no_grad():
            for function, args, kwargs, made in self.calls:
                for place, new in zip(made, tensors(function(*args, **kwargs))):
                    if place is not None and place.numel():
                        place.data.copy_(new)


class Stepper:
    def __init__(self, step, optimizers, held=(), warmup=3):
        self.step, self.optimizers, self.held, self.warmup = step, list(optimizers), list(held), warmup
        self.calls, self.graphs, self.replayed = {}, {}, 0
        self.is_recording = False
        self.problem = None

    def __call__(self, *batch):
        kind = self._kind(batch)
        self.calls[kind] = self.calls.get(kind, 0) + 1
        if self.problem or self.calls[kind] <= self.warmup:
            return self._as_it_is(batch)
        if kind not in self.graphs:
            self.graphs[kind] = self._record(batch)
        return self._replay(batch, *self.graphs[kind])

    def _give_up(self, problem):
        self.problem = problem

    def _as_it_is(self, batch):
        return self.step(*batch).detach()

    def _kind(self, batch):
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        return tuple(each.shape for each in batch), tuple((group["lr"], group["weight_decay"]) for group in groups)

    def _state(self):
        states = [optimizer.state for optimizer in self.optimizers]
        parameters = [group["params"] for optimizer in self.optimizers for group in optimizer.param_groups]
        modules = [list(each.state_dict().values()) for each in self.held if isinstance(each, torch.nn.Module)]
        return tensors([parameters, modules, [list(each.values()) for state in states for each in state.values()]])

    def _record(self, batch):
        inputs = [each.clone() for each in batch]
        state, numbers = self._state(), torch.get_rng_state()
        former = [each.detach().clone() for each in state]
        self._forget_gradients()
        self.is_recording = True
        with Tape() as tape:
            returned = self.step(*inputs).detach()
        self.is_recording = False
        for tensor, value in zip(state, former):
            tensor.data.copy_(value)
        torch.set_rng_state(numbers)
        return Graph(tape.calls), inputs, returned

    def _forget_gradients(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def _replay(self, batch, graph, inputs, returned):
        self._refresh(inputs, batch)
        graph.replay()
        self.replayed += 1
        return returned

    def _refresh(self, inputs, batch):
        for place, new in zip(inputs, batch):
            place.copy_(new)
