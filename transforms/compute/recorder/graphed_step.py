"""Training steps as CUDA graphs. This file needs only torch, 2.4 or later, and is shared by the scripts beside it.

    def train_step(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    train_step = GraphedStep(train_step, [optimizer])
    for x, y in loader:
        loss = train_step(x.to(device), y.to(device))

The step must not wait for the device (`.item()`, `print(loss)`), and must do the same for every batch of a shape:
Python runs only while it is recorded. perfmod writes this file for its rule PM314 (launch-bound-step).
"""

import contextlib
import gc
import inspect
import linecache
import traceback
import warnings

import torch


class GraphedStep:
    """A training step that is recorded as a CUDA graph and replayed: one launch instead of hundreds.

    It is called like the step, with what changes from batch to batch, and returns what the step returns, detached; a
    returned tensor is overwritten by the next call, so clone what is kept. `optimizers` are those that step in it, and
    those of other parameters to whose gradients it may add; these must be set to zero behind it. The first calls run
    the step as it is. Each shape of the batch and each mode of the modules (train, eval) gets its own graph, up to
    `most`; what comes on top of that or too rarely, such as the short last batch, runs as it is. When a setting of an
    optimizer changes, the step is recorded anew; the learning rate of a fused or capturable optimizer may change at any
    time. On the CPU all calls run the step as it is, and, with one warning, where other processes or devices take part
    in it or recording fails.
    """

    stream = None  # one for all steps: gradients are added up on the stream on which they first were

    def __init__(self, step, optimizers, warmup=3, most=2):
        self.step, self.optimizers, self.warmup, self.most = step, list(optimizers), warmup, most
        self.seen, self.graphs = {}, {}
        self.modules = self.problem = None
        self.recorded = self.replayed = self.eager = 0

    def __call__(self, *batch):
        if self.modules is None and self._groups()[0]["params"][0].is_cuda:
            self._begin()
        if self.problem or self.modules is None:
            self.eager += 1
            return self.step(*batch)
        graph, is_next = None, False
        try:
            kind, settings = self._kind(batch), self._settings()
            if kind in self.graphs and self.graphs[kind][0] == settings:
                graph = self.graphs[kind]
            elif self._is_time_to_record(kind, settings):
                self.graphs.pop(kind, None)
                graph = self.graphs[kind] = settings, *self._record(batch)
            else:
                is_next = not self.recorded and self.seen[kind][1] == self.warmup
        except Exception as error:
            self._give_up(self._described(error))
        if graph:
            return self._replay(batch, *graph[1:])
        with self._watched() if is_next else contextlib.nullcontext():
            return self._as_it_is(batch)

    def _begin(self):
        self.modules = [each for each in gc.get_objects() if issubclass(type(each), torch.nn.Module)]
        shared = [each for each in self.modules if len(getattr(each, "device_ids", None) or ()) > 1]
        several = torch.distributed.is_available() and torch.distributed.is_initialized()
        if several and torch.distributed.get_world_size() > 1:
            self._give_up("other processes take part in each step")
        elif shared:
            self._give_up(f"{type(shared[0]).__name__} works on several devices")
        else:
            GraphedStep.stream = GraphedStep.stream or torch.cuda.Stream()
            self.pool = torch.cuda.graph_pool_handle()
            self.accumulators = self._kept_accumulators()

    def _kind(self, batch):
        """What a graph is made for: types and shapes of tensors, other values themselves, the modes of modules."""
        other = [type(x).__name__ for x in batch if not self._is_plain(x)]
        if other:
            raise TypeError(f"the step is given a {other[0]}, which is neither a tensor nor a number")
        if any(torch.is_tensor(x) and x.requires_grad for x in batch):
            raise TypeError("the step is given a tensor with a gradient, whose history is not recorded")
        given = [(x.shape, x.dtype, x.device) if torch.is_tensor(x) else (type(x), x) for x in batch]
        return tuple(given), tuple([module.training for module in self.modules])

    def _settings(self):
        """What a graph has taken over: numbers of optimizers, where parameters and states are, which are trained."""
        mirrored = {id(group) for group in self._mirrored()}
        numbers = [
            [(name, x) for name, x in group.items() if name != "params" and (name != "lr" or id(group) not in mirrored)]
            for group in self._groups()
        ]
        places = [(p.data_ptr(), p.requires_grad) for group in self._groups() for p in group["params"]]
        return numbers, places, [id(optimizer.state) for optimizer in self.optimizers]

    def _is_time_to_record(self, kind, settings):
        if len(self.seen) > 100:
            self.seen.clear()
        known, calls = self.seen.get(kind, (settings, 0))
        calls = calls + 1 if known == settings else 1
        self.seen[kind] = settings, calls
        return calls > self.warmup and (kind in self.graphs or len(self.graphs) < self.most)

    def _as_it_is(self, batch):
        """Run the step on the stream on which it is recorded, so that gradients are accumulated there."""
        self.eager += 1
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            returned = self.step(*batch)
        torch.cuda.current_stream().wait_stream(self.stream)
        return self._detached(returned)

    def _kept_accumulators(self):
        """What adds up the gradients of each parameter: on the stream on which it is made, for as long as it lives.

        The loss of another step might keep one of another stream alive, and nothing could be recorded.
        """
        parameters = [p for group in self._groups() for p in group["params"] if p.requires_grad]
        with torch.enable_grad(), torch.cuda.stream(self.stream):
            return [p.expand_as(p).grad_fn.next_functions[0][0] for p in parameters]

    @contextlib.contextmanager
    def _watched(self):
        """Finds out whether the step waits for the device, before a recording breaks off because it does."""
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        waits = [each for each in heard if "called a synchronizing" in str(each.message)]
        for each in heard:
            if each not in waits and "Synchronization debug mode" not in str(each.message):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        if waits:
            place = waits[0].filename, waits[0].lineno
            self._give_up(
                f"it waits for the device in {place[0]}, line {place[1]}: {linecache.getline(*place).strip()}"
            )

    def _record(self, batch):
        self._require_recordable()
        device = self._groups()[0]["params"][0].device
        inputs = [x.to(device, copy=True) if torch.is_tensor(x) else x for x in batch]
        # The optimizer finds the learning rate in a tensor while it is recorded; a schedule goes on with numbers.
        rates = [[g, g["lr"], torch.tensor(g["lr"], device=device)] for g in self._mirrored()]
        if hasattr(torch.autograd.graph, "set_override_stale_capture_stream"):
            torch.autograd.graph.set_override_stale_capture_stream(True)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        # Gradients of other parameters, to which the step may add: kept, so that nothing else gets their memory.
        others = [p.grad for module in self.modules for p in module.parameters()]
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        for generator in self._generators():
            graph.register_generator_state(generator)
        torch.cuda.synchronize()
        try:
            for group, _, rate in rates:
                group["lr"] = rate
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
                returned = self._detached(self.step(*inputs))
        except Exception:
            # A recording that broke off leaves the random generators in it, and gradients that were never computed.
            for generator in [torch.cuda.default_generators[device.index], *self._generators()]:
                generator.graphsafe_set_state(generator.clone_state())
            for optimizer in self.optimizers:
                optimizer.zero_grad(set_to_none=True)
            for scaler in [each for each in gc.get_objects() if issubclass(type(each), torch.amp.GradScaler)]:
                scaler._per_optimizer_states.clear()
            raise
        finally:
            torch.cuda.set_stream(stream)
            for group, number, _ in rates:
                group["lr"] = number
        for x in returned if isinstance(returned, (tuple, list)) else [returned]:
            if not self._is_plain(x):
                raise TypeError(f"the step returns a {type(x).__name__}, which a replay would not refresh")
        self.recorded += 1
        states = [optimizer.state for optimizer in self.optimizers]  # kept, so that no other one gets their ids
        return graph, inputs, rates, returned, (states, others)

    def _replay(self, batch, graph, inputs, rates, returned, kept):
        for static, new in zip(inputs, batch):
            if torch.is_tensor(new):
                static.copy_(new, non_blocking=True)
        for known in rates:
            group, number, rate = known
            if group["lr"] != number:
                known[1] = group["lr"]
                rate.fill_(group["lr"])
        graph.replay()
        self.replayed += 1
        return returned

    def _groups(self):
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _mirrored(self):
        """The groups whose optimizer can read the learning rate on the device, if it is a number."""
        return [
            group
            for optimizer in self.optimizers
            for group in optimizer.param_groups
            if isinstance(group["lr"], (int, float))
            and (
                group.get("fused")
                or (group.get("capturable") and isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)))
            )
        ]

    def _require_recordable(self):
        for module in self.modules:
            if isinstance(module, torch.nn.parallel.DistributedDataParallel):
                raise RuntimeError("DistributedDataParallel averages gradients with other processes")
            if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
                raise RuntimeError(f"the hooks of a {type(module).__name__} would run only once")

    def _generators(self):
        """The generators that the step names; the device's own one is registered by torch."""
        known = inspect.getclosurevars(self.step)
        named = [*known.nonlocals.values(), *known.globals.values()]
        return [each for each in named if isinstance(each, torch.Generator) and each.device.type == "cuda"]

    def _described(self, error):
        while error.__context__ is not None:
            error = error.__context__  # the first one: those behind it say that the recording was broken off
        lines = traceback.extract_tb(error.__traceback__)
        own = [line for line in lines if line.filename == inspect.getsourcefile(self.step)]
        where = f" in line {own[-1].lineno}: {own[-1].line}" if own else ""
        return f"{type(error).__name__}: {error}".partition("\n")[0] + where

    def _give_up(self, problem):
        self.problem = problem
        warnings.warn(f"the training step runs without a CUDA graph ({problem})", stacklevel=3)

    @staticmethod
    def _is_plain(value):
        return torch.is_tensor(value) or value is None or type(value) in (bool, int, float, str)

    @staticmethod
    def _detached(returned):
        if isinstance(returned, (tuple, list)):
            return type(returned)(map(GraphedStep._detached, returned))
        return returned.detach() if torch.is_tensor(returned) else returned
