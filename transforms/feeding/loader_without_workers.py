"""A loader without workers loads every batch in the training process.

`DataLoader(dataset)` reads, decodes, transforms and stacks the samples of a batch in the main process, while
the GPU waits; then the GPU computes, while the main process waits. With `num_workers=n`, `n` processes load
the next batches during the step:

    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    # becomes
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=min(8, os.cpu_count() or 1))

More than eight workers seldom help, and each costs memory and start-up time. Where another loader of the file has
workers, or the call reads other options of a command line that has one for their number (`opt.n_cpu`), that number is
used. Where nothing reads such an option, the rewrite is held back: it should be passed.

The order of the samples does not change: the sampler stays in the main process and draws the same seed. But workers
are separate processes. They get a copy of the dataset, so the dataset must be picklable, and changes that a sample
makes to it are lost. Under spawn and forkserver they import the script again; a script that trains at module level
gets an `if __name__ == "__main__":` around the training part, if that is short: at most 30 lines without a function
or class definition. Longer parts are only indented when the rule is selected by its code or name; `git diff -w` shows
what else has changed. A notebook gets no guard: workers can find what is defined in its cells only if they are forked
(Linux, before Python 3.14), so a loader that needs it is held back there.

A number that the user chooses is never overwritten. Where the default is 0, because a parser, a dataclass, a variable
or a dictionary of keywords says so, the default is changed, provided that only loaders read it and all of them may
have workers. The default of a command-line option becomes 4. Where the call has the number in a comment,
`# num_workers=4`, somebody switched the workers off: that is held back as unsafe. So is a 0 with a comment on its line,
and one among the settings of a script, `num_workers = 0` at its top level or next to `batch_size = 32`: somebody chose
it.

Samples that lie ready in memory, as those of a `TensorDataset` or of a class whose `__getitem__` only indexes its
attributes, need neither reading nor decoding, and workers would copy each of them between processes: where the batches
only pad and stack them, that is held back until the rule is selected by its code or name. Where `ToTensor` converts
such samples, it is held back if there are 10,000 epochs or more: those are short, and each would start workers anew.

Fewer than fifty batches an epoch, of samples that need no file, are loaded before workers have started anew. Where the
length of the data set and the batch size are written down, such a loader is of low impact.

Held back are loaders in code that runs nothing on a GPU, where workers would compete with the training for the CPU, and
loaders that a loop makes in numbers, as for the clients of federated learning: each would start its own workers.

Only loaders of a training loop that was found are rewritten. An evaluation loader is reported and left: it often
reads a small dataset once in a while, and starting workers for each pass may cost more than it gains. Lightning's
`Trainer.fit` counts as a training loop. The Trainer of Hugging Face creates its loaders itself: there the argument is
`dataloader_num_workers`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from attrs import evolve

from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import LOADER_NAMES, TORCH_LOADERS, Loader
from perfmod.transforms.facts.worker_code import WorkerCode
from perfmod.transforms.feeding._command_line import told_default
from perfmod.transforms.feeding._frameworks import ARGUMENTS, WORKERS, training_arguments, why_no_workers_for_trainer
from perfmod.transforms.feeding._graph_loaders import is_graph_loader
from perfmod.transforms.feeding._main_guard import Guard, guard, joined
from perfmod.transforms.feeding._settings import Place, is_zero, places, switched_off, why_chosen, why_given_twice
from perfmod.transforms.feeding._worker_count import count, instead, suggested
from perfmod.transforms.feeding._worker_gain import why_little, why_no_gain
from perfmod.transforms.feeding._worker_safety import Judgement, judge, why_shared
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.rule import Change, Edit, Family, Finding, Numerics, Rule, Safety, Status


class LoaderWithoutWorkers(Rule):
    """PM201."""

    code = "PM201"
    name = "loader-without-workers"
    family = Family.FEEDING
    summary = "The loader has no workers: batches are loaded in the training process, while the GPU waits"
    fix_title = "Load batches in worker processes"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.STABLE
    triggers = LOADER_NAMES | ARGUMENTS
    references = (
        "https://docs.pytorch.org/docs/stable/data.html#single-and-multi-process-data-loading",
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
    )
    changes_results = (
        "Never, where the code of the dataset, its transforms and its collate function is known and draws no random "
        "numbers: every batch holds the same samples in the same order. A dataset that draws random numbers "
        "takes them from its workers' generators, not the main process's, so augmentations, and everything "
        "random after them, are other draws of the same distribution; such findings, and datasets whose code was "
        "not found, are held back as unsafe. A worker computes with one thread, and sums of very large "
        "tensors are rounded differently with one thread than with several: those findings are of the class "
        "rounding."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        """One finding for every loader that has no workers; loaders that share a setting get one together."""
        settled: set[cst.CSTNode] = set()
        # A setting that several loaders share is raised for the sake of one that trains.
        for loader in sorted(file.loaders, key=lambda loader: not loader.trains):
            if loader.name not in TORCH_LOADERS and not is_graph_loader(loader):
                continue
            given = places(file, loader, "num_workers")
            if loader.values("num_workers") and not (given and all(is_zero(place.value) for place in given)):
                continue  # somebody decided
            if settled.issuperset(place.value for place in given) and given:
                continue
            finding = self._examine(file, loader, given)
            if not finding.refused:
                settled.update(place.value for place in given)
            yield finding
        for call in training_arguments(file):
            yield from self._for_trainer(file, call)

    def _for_trainer(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        """What becomes of the loaders that the Trainer of Hugging Face makes, by its arguments."""
        given = argument(call, WORKERS)
        if given is not None and not is_zero(given):
            return  # somebody decided
        refusal = why_no_workers_for_trainer(file, call)
        if refusal:
            yield self.refused(file, call, refusal)
            return
        number, imports = count(file, call)
        if given is None:
            edits = add_keyword(file.source, call, f"{WORKERS}={number}")
        else:
            edits = (Edit(*file.source.span(given), number),)
        reason = (
            "the Trainer's datasets and collator are not followed: they may draw random numbers, or not be picklable"
        )
        unsafe, sampling = Safety.UNSAFE, Numerics.SAMPLING
        yield self.found(file, call, reason, edits, safety=unsafe, numerics=sampling, imports=imports)

    def _examine(self, file: FileFacts, loader: Loader, given: list[Place]) -> Finding:
        refusal = why_shared(file, given)
        if refusal:
            return self.refused(file, loader.call, refusal)
        together = dict.fromkeys((loader, *(other for place in given for other in place.loaders)))
        judgements: list[Judgement] = []
        shelters: list[Guard] = []
        for other in together:
            work = WorkerCode.of(file, other)
            judgement = judge(file, other, work, alone=other is loader)
            shelter = guard(file, other, work)
            if judgement.refusal or shelter.refusal:
                reason = judgement.refusal or shelter.refusal
                if other is not loader:
                    reason = f"the loader on line {file.line(other.call)} uses the same setting, and {reason}"
                return self.refused(file, loader.call, reason)
            judgements.append(judgement)
            shelters.append(shelter)
        judgement = next((each for each in judgements if each.safety is not Safety.SAFE), judgements[0])
        escape = next((place.escape for place in given if place.escape is not None), None)
        if escape is not None and judgement.safety is Safety.SAFE:
            line = file.line(escape)
            reason = f"line {line} prints or passes on all settings, which would show another number of workers"
            judgement = evolve(judgement, safety=Safety.UNSAFE, reason=reason)
        off = switched_off(file, loader, "num_workers") or why_given_twice(loader, "num_workers")
        off = off or next(filter(None, (why_chosen(file, place) for place in given)), "")
        if off and judgement.safety is Safety.SAFE:
            judgement = evolve(judgement, safety=Safety.UNSAFE, reason=off)
        shelter = joined(shelters)
        idle = why_no_gain(file, loader, together, given)
        return self.found(
            file,
            loader.call,
            "; ".join(self._reasons(file, judgement, shelter, idle)),
            shelter.edits,
            safety=self._safety(judgement, shelter, idle, is_little=bool(why_little(file, loader, together))),
            numerics=judgement.numerics,
            elsewhere=self._changes(file, loader, given, shelter),
        )

    def _safety(self, judgement: Judgement, shelter: Guard, idle: str, *, is_little: bool) -> Safety:
        if shelter.doubt or judgement.safety is not Safety.SAFE:
            return Safety.UNSAFE
        if is_little:
            return Safety.LOW_IMPACT
        return Safety.SAFE if shelter.is_short and not idle else Safety.OPT_IN

    def _reasons(self, file: FileFacts, judgement: Judgement, shelter: Guard, idle: str) -> Iterator[str]:
        if judgement.safety is Safety.SAFE and not shelter.doubt and idle:
            yield idle
        elif judgement.safety is not Safety.SAFE or not shelter.doubt:
            yield judgement.reason
        if shelter.doubt:
            yield shelter.doubt
        if shelter.scripts:
            yield shelter.why(file)

    def _changes(self, file: FileFacts, loader: Loader, given: list[Place], shelter: Guard) -> Iterator[Change]:
        """The number of workers, in every file in which it is written, with the imports that it needs there."""
        for place in {place.value: place for place in given}.values():
            source = file.source_of(place.value)
            number, imports = instead(file, place)
            told = told_default(file, place.option, number) if place.option else ()
            yield Change(source.path, (Edit(*source.span(place.value), number), *told), imports)
        if not given:
            known = suggested(file, loader)
            number, imports = (known, ()) if known else count(file, loader.call)
            yield Change(file.source.path, self._added(file, loader, number, shelter), imports)

    def _added(self, file: FileFacts, loader: Loader, number: str, shelter: Guard) -> tuple[Edit, ...]:
        edits = add_keyword(file.source, loader.call, f"num_workers={number}")
        if not shelter.indents(file.source, file.source.span(loader.call)[0]):
            return edits
        # Lines that are added inside the guard move with the others.
        level = file.source.module.default_indent
        newline = file.source.newline
        return tuple(evolve(edit, replacement=edit.replacement.replace(newline, newline + level)) for edit in edits)
