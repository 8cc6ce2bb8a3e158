"""What is wrong, told by the words of an error."""

from __future__ import annotations

import enum
import re

from attrs import frozen


class Kind(str, enum.Enum):
    """What became of a run that is not as it should be."""

    CRASHED = "crashed"
    EXITED = "exited with a status"
    USAGE = "wrong arguments"
    MODULE_MISSING = "module missing"
    TORCH_MISSING = "torch missing"
    INTERPRETER = "interpreter cannot be started"
    NEVER_STEPPED = "never reached an optimizer step"
    NO_RECORD = "left no record"
    ON_CPU = "trains on the CPU"
    TIME_LIMIT = "time limit"
    INPUT_WANTED = "wants input"
    DATA_MISSING = "data not there and no network"
    FILE_MISSING = "file beyond the copy"
    REPOSITORY_WANTED = "wants a repository"
    DEVICE_MEMORY = "out of device memory"
    HOST_MEMORY = "out of host memory"
    NO_SPACE = "no space left"
    NO_GPU = "no GPU"
    PORT_TAKEN = "port in use"
    SIGNALLED = "killed by a signal"


@frozen
class Symptom:
    """Words that tell a kind of trouble from others.

    Attributes:
        reason: what to say, with places for `{words}` (those of the error) and `{python}` (the interpreter).
        patterns: regular expressions over `Type: message`; one is enough.
    """

    kind: Kind
    reason: str
    patterns: tuple[str, ...]

    def shows(self, text: str) -> bool:
        """Whether `text` has one of the patterns."""
        return any(re.search(pattern, text, re.MULTILINE) for pattern in self.patterns)


def recognise(text: str) -> Symptom | None:
    """The first symptom that `text` shows, or None."""
    return next((symptom for symptom in SYMPTOMS if symptom.shows(text)), None)


# The narrower before the wider: every CUDA memory error is a memory error.
SYMPTOMS = (
    Symptom(
        Kind.TORCH_MISSING,
        "torch is not installed in {python}; name another interpreter with --python",
        (r"No module named '?torch'?$",),
    ),
    Symptom(
        Kind.MODULE_MISSING,
        "{words}; install it in {python}, or name another interpreter with --python",
        (r"No module named ",),
    ),
    Symptom(
        Kind.INPUT_WANTED,
        "it asks for input: {words}; give the input as arguments after --",
        (r"^EOFError: EOF when reading a line", r"lost sys\.stdin"),
    ),
    Symptom(
        Kind.DEVICE_MEMORY,
        "the GPU is out of memory: {words}; stop other programs that use it, or use smaller batches "
        "(arguments after --)",
        (r"OutOfMemoryError", r"(CUDA|HIP)( error:)? out of memory", r"CUBLAS_STATUS_ALLOC_FAILED"),
    ),
    Symptom(
        Kind.NO_SPACE,
        "/dev/shm is full: {words}; give it more room (docker run --shm-size), or use fewer workers "
        "(arguments after --)",
        (r"killed by signal: Bus error", r"out of shared memory", r"</torch_\d+", r"/dev/shm.*No space left"),
    ),
    Symptom(
        Kind.HOST_MEMORY,
        "this machine is out of memory: {words}; use fewer workers or smaller batches (arguments after --)",
        (
            r"MemoryError",
            r"DefaultCPUAllocator",
            r"Cannot allocate memory",
            r"killed by signal: Killed",
            r"\(SIGKILL\)",
        ),
    ),
    Symptom(
        Kind.NO_SPACE,
        "the disk is full: {words}; free some, or set TMPDIR to a folder with more room",
        (r"No space left on device", r"Disk quota exceeded", r"PytorchStreamWriter failed writing"),
    ),
    Symptom(
        Kind.NO_GPU,
        "no GPU for {python}: {words}",
        (
            r"No CUDA GPUs are available",
            r"Found no NVIDIA driver",
            r"not compiled with CUDA",
            r"no CUDA-capable device",
            r"CUDA driver version is insufficient",
            r"driver on your system is too old",
            r"torch\.cuda\.is_available\(\) is False",
        ),
    ),
    Symptom(
        Kind.DATA_MISSING,
        "it needs data or weights that are not on this machine: {words}; run the script once by itself "
        "to download them",
        (
            r"OfflineMode",
            r"LocalEntryNotFound",
            r"[Oo]ffline mode",
            r"HF_HUB_OFFLINE",
            r"outgoing traffic has been disabled",
            r"[Cc]ouldn't (connect to|reach) ",
            r"<urlopen error",
            r"Max retries exceeded",
            r"NameResolutionError",
        ),
    ),
    Symptom(
        Kind.PORT_TAKEN,
        "its port is in use: {words}; stop the process that uses it, or choose another port",
        (r"EADDRINUSE", r"[Aa]ddress already in use"),
    ),
    Symptom(
        Kind.REPOSITORY_WANTED,
        "it asks git about its repository, which a scratch copy does not have: {words}",
        (r"InvalidGitRepositoryError", r"not a git repository", r"'git', 'rev-parse'"),
    ),
    Symptom(
        Kind.FILE_MISSING,
        "{words}: the script runs in a copy of its folder, without the files around it; --link adds a folder of data",
        (r"^FileNotFoundError: .*'\.\./",),
    ),
)
