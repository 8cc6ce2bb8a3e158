"""A loader without workers loads every batch in the training process.

`DataLoader(dataset)` reads, decodes, transforms and stacks the samples of a batch in the main process, while
the GPU waits; then the GPU computes, while the main process waits. With `num_workers=n`, `n` processes load
the next batches during the step:

    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    # becomes
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=min(8, os.cpu_count() or 1))

More than eight workers seldom help, and each costs memory and start-up time; `workers` in `[tool.perfmod]` sets another
limit. Where another loader of the file has workers, or the script has a setting for their number (an option `opt.n_cpu`
of the command line, a field or an item of the object that the call reads, a parameter of the function), that is used
instead. An option that nothing reads and that is 0 by default becomes 4. Where several processes train together
(`init_process_group`, `DistributedSampler`), they share the processors, and how many workers each should have is an
open question.

The order of the samples does not change: the sampler stays in the main process and draws the same seed. But workers are
separate processes with a copy of the dataset each. So a loader is left as it is where samples use the GPU, change the
dataset, read a file, archive or database that was opened before (all workers would read from one position), or depend
on what the loop changes.

Python starts workers by fork on Linux up to 3.13, and by forkserver from 3.14 on, which imports the script again and
pickles the dataset. Where that would fail, because the script trains at module level without a `__main__` guard, or
passes a lambda, a method or a local class, the call asks for a fork:

    DataLoader(dataset, collate_fn=lambda items: pad(items), num_workers=4, multiprocessing_context="fork")

Nothing is added where the project asks for a Python below 3.14 (`requires-python`). PyTorch raises an error for a
context without workers, so where the number may be 0 it says `multiprocessing_context="fork" if opt.workers else None`.
A start method that the script chooses itself is respected. Windows and macOS do not fork workers: with
`target = "portable"`, a loader that needs it is an open question.

A number that the user chooses is never overwritten. Where the default is 0, because a parser, a dataclass, a variable
or a dictionary of keywords says so, the default is changed, provided that only loaders read it and all of them may
have workers. The default of a command-line option becomes 4. Where somebody switched the workers off, that is an open
question: a comment `# num_workers=4` in the call, a 0 with a comment on its line, or one among the settings of a
script, `num_workers = 0` at its top level or next to `batch_size = 32`.

Where the number comes from a configuration or from the launcher, `num_workers=cfg.data.num_workers`, and the YAML, JSON
and shell files of the project only ever set it to 0, an advice names the line. Those files are never changed.

Samples that lie ready in memory, as those of a `TensorDataset` or of a class whose `__getitem__` only indexes its
attributes, need neither reading nor decoding, and workers would copy each of them between processes: where the batches
only pad and stack them, workers have low impact. Where `ToTensor` converts such samples, they are on request if there
are 10,000 epochs or more: those are short, and each would start workers anew.

Fewer than fifty batches an epoch, of samples that need no file, are loaded before workers have started anew. Where the
length of the data set and the batch size are written down, such a loader is of low impact.

Also on request are the loaders of a training on the CPU, from which workers would take time, and loaders that a loop
makes in numbers, as for the clients of federated learning: each would start its own workers.

Only loaders of a training loop that perfmod finds are rewritten. A loader that only evaluates is left as it is: it
often reads a small dataset once in a while, and starting workers for each pass may cost more than it gains. Lightning's
`Trainer.fit` counts as a training loop. The Trainer of Hugging Face creates its loaders itself: there the argument is
`dataloader_num_workers`.

Long because it writes the number wherever loaders get one, and the way in which workers are started along with it.
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
from perfmod.transforms.feeding._settings import (
    Place,
    is_zero,
    places,
    set_outside,
    switched_off,
    why_chosen,
    why_given_twice,
)
from perfmod.transforms.feeding._start_method import Start, start
from perfmod.transforms.feeding._worker_count import Number, count, instead, is_default, number, shares_cpus
from perfmod.transforms.feeding._worker_gain import why_little, why_no_gain
from perfmod.transforms.feeding._worker_safety import Judgement, judge, why_shared
from perfmod.transforms.finding import Change, Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.keywords import add_keyword
from perfmod.transforms.questions import Predicate
from perfmod.transforms.rule import Rule, question
from perfmod.transforms.style import quoted


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
        "numbers: every batch holds the same samples in the same order. A dataset that draws random numbers takes them "
        "from its workers' generators, not the main process's, so augmentations, and everything random after them, are "
        "other draws of the same distribution; such findings, and datasets whose code perfmod cannot see, are open "
        "questions. A worker computes with one thread, and sums of very large tensors are rounded differently with one "
        "thread than with several: those findings are of the class rounding."
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
                yield from self._advice(file, loader, given)
                continue  # somebody decided
            if settled.issuperset(place.value for place in given) and given:
                continue
            finding = self._examine(file, loader, given)
            if not finding.refused:
                settled.update(place.value for place in given)
            yield finding
        for call in training_arguments(file):
            yield from self._for_trainer(file, call)

    def _advice(self, file: FileFacts, loader: Loader, given: list[Place]) -> Iterator[Finding]:
        """What is said of a loader whose number of workers is 0 outside of Python, if workers would gain something."""
        setting = set_outside(file, loader, "num_workers", given)
        if setting is None or judge(file, loader, WorkerCode.of(file, loader)).refusal:
            return
        if not why_no_gain(file, loader, [loader], given):
            reason = (
                f"{setting.path}:{setting.line} sets `{setting.code}`: with 4, workers load batches during the step"
            )
            yield self.found(file, loader.call, reason, (), safety=Safety.ADVICE)

    def _for_trainer(self, file: FileFacts, call: cst.Call) -> Iterator[Finding]:
        """What becomes of the loaders that the Trainer of Hugging Face makes, by its arguments."""
        given = argument(call, WORKERS)
        if given is not None and not is_zero(given):
            return  # somebody decided
        refusal = why_no_workers_for_trainer(file, call)
        if refusal:
            yield self.refused(file, call, refusal)
            return
        counted, imports = count(file, call)
        if given is None:
            edits = add_keyword(file.source, call, f"{WORKERS}={counted}")
        else:
            edits = (Edit(*file.source.span(given), counted),)
        reason = "the Trainer's datasets and collator are not followed: they may draw random numbers"
        yield self.found(
            file,
            call,
            reason,
            edits,
            safety=Safety.UNSAFE,
            numerics=Numerics.SAMPLING,
            imports=imports,
            questions=(question(file, Predicate.MAY_HAVE_WORKERS, call),),
        )

    def _examine(self, file: FileFacts, loader: Loader, given: list[Place]) -> Finding:
        refusal = why_shared(file, given)
        if refusal:
            return self.refused(file, loader.call, refusal)
        together = dict.fromkeys((loader, *(other for place in given for other in place.loaders)))
        judgements: list[Judgement] = []
        for other in together:
            judgement = judge(file, other, WorkerCode.of(file, other), alone=other is loader)
            if judgement.refusal:
                reason = judgement.refusal
                if other is not loader:
                    reason = f"the loader on line {file.line(other.call)} uses the same setting, and {reason}"
                return self.refused(file, loader.call, reason)
            judgements.append(judgement)
        written = Number("") if given else number(file, loader)
        starts = {other: start(file, other, WorkerCode.of(file, other)) for other in together}
        contexts = {other: _context(file, other, given, written) for other, each in starts.items() if each.forks}
        doubts = list(self._doubts(file, loader, given, written, [*starts.values()], contexts))
        judgement = next((each for each in judgements if each.safety is not Safety.SAFE), judgements[0])
        reasons = [judgement.reason] if judgement.safety is not Safety.SAFE or not doubts else []
        reasons += [why for why, _ in doubts]
        questions = [] if judgement.safety is Safety.SAFE else [question(file, Predicate.MAY_HAVE_WORKERS, loader.call)]
        questions += [question(file, predicate, loader.call) for _, predicate in doubts]
        safety = Safety.UNSAFE if questions and not file.policy.answers(questions) else Safety.SAFE
        idle = why_no_gain(file, loader, together, given)
        if idle and safety is Safety.SAFE:
            safety = Safety.LOW_IMPACT if why_little(file, loader, together) else Safety.OPT_IN
            reasons = [idle]
        reasons += dict.fromkeys(each.reason for each in starts.values() if each.forks)
        changes = list(self._changes(file, loader, given, written, contexts))
        return self.found(
            file,
            loader.call,
            "; ".join(reasons),
            (),
            safety=safety,
            numerics=judgement.numerics,
            min_torch="1.2" if contexts else None,  # the first with `multiprocessing_context`
            elsewhere=changes,
            questions=questions,
        )

    def _doubts(
        self,
        file: FileFacts,
        loader: Loader,
        given: list[Place],
        written: Number,
        starts: list[Start],
        contexts: dict[Loader, str],
    ) -> Iterator[tuple[str, Predicate]]:
        """What is open besides what workers do, and what is asked about the loader because of it."""
        escape = next((place.escape for place in given if place.escape is not None), written.escape)
        if escape is not None:
            why = (
                f"line {file.line(escape)} prints or passes on all settings, which would show another number of workers"
            )
            yield why, Predicate.MAY_SHOW_WORKERS
        off = switched_off(file, loader, "num_workers") or why_given_twice(loader, "num_workers")
        off = off or next(filter(None, (why_chosen(file, place) for place in given)), "")
        if off:
            yield off, Predicate.MAY_HAVE_WORKERS
        ranks = shares_cpus(file) if given or written.is_counted else None
        if ranks is not None:
            line = file.line(ranks)
            yield (
                f"several processes train together (line {line}), and each would start this many workers",
                Predicate.HAS_CPUS_OF_ITS_OWN,
            )
        for each in starts:
            if each.asked is not None:
                yield each.reason, Predicate.FORKS_WORKERS
        if not all(contexts.values()):
            yield "the number of workers may be 0, for which `multiprocessing_context` raises", Predicate.IS_POSITIVE

    def _changes(
        self, file: FileFacts, loader: Loader, given: list[Place], written: Number, contexts: dict[Loader, str]
    ) -> Iterator[Change]:
        """The number of workers, in every file in which it is written, with the imports that it needs there."""
        for place in {place.value: place for place in given}.values():
            source = file.source_of(place.value)
            counted, imports = instead(file, place)
            told = told_default(file, place.option, counted) if place.option else ()
            yield Change(source.path, (Edit(*source.span(place.value), counted), *told), imports)
        for other, context in contexts.items() if given else ():
            source = file.source_of(other.call)
            added = add_keyword(source, other.call, f"multiprocessing_context={context or quoted(source, 'fork')}")
            yield Change(source.path, tuple(evolve(edit, path="") for edit in added))
        if not given:
            texts = [f"num_workers={written.code}"]
            texts += [f"multiprocessing_context={context}" for context in contexts.values()]
            source = file.source_of(loader.written)
            added = add_keyword(source, loader.written, *texts)
            yield Change(source.path, tuple(evolve(edit, path="") for edit in added), written.imports)
            for edit in written.edits:
                yield Change(edit.path, (evolve(edit, path=""),))


def _context(file: FileFacts, loader: Loader, given: list[Place], written: Number) -> str:
    """The context in which a loader forks its workers, which has to be None where it has none; empty where its call
    cannot tell.
    """
    fork = quoted(file.source_of(loader.call), "fork")
    if not given:
        return fork if written.is_positive else f"{fork} if {written.code} else None"
    setting = loader.settings["num_workers"]
    if setting.always and not any(is_default(file, place) for place in given):
        return fork
    value = setting.arg.value if setting.arg is not None else None
    is_plain = isinstance(value, (cst.Name, cst.Attribute, cst.Subscript))
    return f"{fork} if {file.code(value)} else None" if value is not None and is_plain else ""
