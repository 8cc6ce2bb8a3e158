"""What one run of the user's script is to do: written by us, read by the harness in the user's interpreter."""

from __future__ import annotations

import enum
import json
from pathlib import Path

from attrs import asdict, frozen

JOB_VARIABLE = "PERFMOD_HARNESS_JOB"
"""Environment variable that holds the path of the job's JSON file; the harness sleeps where it is missing. In the
processes of a verification it has another name, see `disguise`.
"""
RUN_VARIABLE = "RUN_OF_PROCESSES"
"""Environment variable that marks every process of a run, so that all of them can be found and ended."""

SEED = 20240501


class Mode(str, enum.Enum):
    """The kinds of run; one run cannot answer all questions, because looking closely takes time."""

    EQUALITY = "equality"
    """E-run: random streams pinned, losses, batches, gradients and states kept."""
    TIMING = "timing"
    """T-run: nothing but a step counter and CUDA events."""
    PROFILE = "profile"
    """P-run: implicit synchronisations by line, then torch's profiler."""


@frozen
class Point:
    """Lines of the user's code at which a run answers something.

    Attributes:
        file: from the root of the tree, with slashes.
        first, last: its lines, from 1.
        predicate: what is asked, see `Question`; empty where it is only asked whether these lines run.
        expressions: the values that it is asked about, each as a name and attributes: `("self", "total")`.
        afterwards: whether the lines give the values, so that they are looked at behind them.
    """

    file: str
    first: int
    last: int
    predicate: str = ""
    expressions: tuple[tuple[str, ...], ...] = ()
    afterwards: bool = False


@frozen
class Job:
    """One run.

    Attributes:
        mode: the kind of run.
        out: folder for the harness's results; exists.
        root: the scratch copy of the user's tree; lines of code in it are the user's.
        device: `cuda` or `cpu`.
        threads: that an operation on the processors may use; 0 leaves that to torch. Runs that go on beside each other,
            each with a thread for every processor, slow each other down tens of times. T-run: until its first turn.
        seed: of every pinned random stream.
        reseed: E-run: added to the seeds that the script gives to the common generators; 0 leaves them.
        steps: E-run: optimizer steps (of the optimizer that counts) after which the script is stopped.
        perturb: E-run: noise on the model's inputs, in rounding units of their type (1.0: one ulp); 0.0: none.
        perturb_seed: draws the noise.
        double: E-run: the model and its inputs are cast to float64 before the first forward.
        half: E-run: models compute in bfloat16, as under autocast, and return float32.
        dropout: E-run: False sets the probability of every dropout to zero.
        deterministic: E-run: under the deterministic mode of torch, which names what need not repeat its bits.
        alike: E-run: what classes of rewrites may change is made alike on both sides: number formats, what dropout
            draws, what is compiled. 1, 2 and 3 are ways for random numbers to decide what is dropped, see the harness's
            `alike`; 0 leaves all as it is.
        fills: E-run: tensors and arrays get the same random numbers, whether NumPy or torch draws them and on whatever
            device, see the harness's `fills`.
        epoch: E-run: batches that a loader hands out at most in an epoch; 0 for all.
        by_hand: so many backward passes are a step, in a script that makes no optimizer (E-run: each, of the same
            parameters); 0 where optimizers step.
        bare: E-run: the script calls no module that has parameters: what is done to the inputs of modules and to what
            they compute is done to batches and to all that follows them.
        clock: E-run: the optimizer whose steps are counted, by the order of their first steps: 0 for the first, or the
            last that steps in every round of the training, behind which all of the round is over.
        spread: E-run: the original is one process, and its batches are spread over so many of the other version: what
            one shuffles comes in the order of the others' samplers, samples are told apart, and a `DataParallel` splits
            batches as they are split for the processes; 0 where both sides have as many processes.
        states: E-run: folder of the states that the original hands over to the other runs; empty where it does not.
        writes_states: E-run: this is the run that writes them; others take them over.
        horizon: E-run: steps after which it is stopped instead, where the original needs little time for these.
        handed: E-run: the steps (of the optimizer that counts) after which that is done.
        warmup_steps: T- and P-run: steps before the window, at least.
        warmup_seconds: T-run: seconds before the window, at least (from the first step's end).
        window_steps, window_seconds: T-run: the window is longer than both.
        longest_seconds: T-run: the window ends after that in any case, once ten steps are in it.
        turns: T-run: folder in which it is told when to go on, so that runs which are warm at the same time are timed
            one at a time; empty where it is alone.
        place: T-run: its number among those that share the folder.
        turn_count: T-run: so often it is timed, each time with a warm-up and a window of these lengths.
        batches_at_hand: T-run: so many batches of each loader are kept and handed out again, so that the step is timed
            without its loader; 0 leaves loaders as they are.
        batch_times: T-run: each of these is repeated to so many times its size.
        own_batch, other_batch: samples of the batches that the script asks loaders for, and of those that it gets
            instead; 0 where it gets what it asks for.
        plain_steps: P-run: steps before these of which only the time is taken, and how long they wait for batches;
            with them, the record also tells of memory and of every kernel.
        sync_steps, profile_steps: P-run: steps under the sync debug mode, then under the profiler.
        points: E-run: lines where values are looked at, for what could not be shown by reading the code.
    """

    mode: Mode
    out: Path
    root: Path
    device: str
    threads: int = 0
    seed: int = SEED
    reseed: int = 0
    steps: int = 20
    perturb: float = 0.0
    perturb_seed: int = 0
    double: bool = False
    half: bool = False
    dropout: bool = True
    deterministic: bool = False
    alike: int = 0
    fills: bool = False
    epoch: int = 0
    by_hand: int = 0
    bare: bool = False
    clock: int = 0
    spread: int = 0
    states: str = ""
    writes_states: bool = False
    handed: tuple[int, ...] = ()
    horizon: int = 0
    warmup_steps: int = 10
    warmup_seconds: float = 1.0
    window_steps: int = 20
    window_seconds: float = 2.0
    longest_seconds: float = 60.0
    turns: str = ""
    place: int = 0
    turn_count: int = 0
    batches_at_hand: int = 0
    batch_times: int = 1
    own_batch: int = 0
    other_batch: int = 0
    plain_steps: int = 0
    sync_steps: int = 5
    profile_steps: int = 5
    points: tuple[Point, ...] = ()

    def write(self, path: Path) -> None:
        """Put the job where the harness will read it. Raises `OSError`."""
        path.write_text(json.dumps({**asdict(self), "out": str(self.out), "root": str(self.root)}), encoding="utf-8")
