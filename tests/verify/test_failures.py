"""What went wrong, read off records, output and exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfmod.verify.failures import Circumstances, Kind, Trouble, diagnose
from perfmod.verify.processes import End, Ended

ROOT = Path("/scratch/tree/home/me/project")
PLACE = f"""\
Thread 0x1 (most recent call first):
  File "/venv/x.py", line 3 in wait
  File "{ROOT}/a.py", line 9 in f
"""
"""What faulthandler prints."""


def ended(tail: str = "", code: int = 1, how: End = End.EXITED, resident: float | None = None) -> Ended:
    return Ended(how, code, 1.0, tail, resident, None)


def record(rank: int = 0, **fields: Any) -> dict[str, Any]:
    """What the harness writes of a rank that trained well."""
    known = {"rank": rank, "seconds": 5.0, "ended": "steps", "error": None, "steps": {"0": 20}, "backwards": 20}
    return {**known, **fields}


def failed(
    kind: str, message: str, file: str | None = "train.py", line: int | None = 7, **fields: Any
) -> dict[str, Any]:
    """What the harness writes of a rank that failed."""
    error = {"type": kind, "message": message, "file": file, "line": line}
    return record(**{"ended": "error", "error": error, "steps": {}, **fields})


def found(run: Ended, *records: dict[str, Any], nproc: int = 1, device: str = "cuda") -> Trouble | None:
    return diagnose(run, records, Circumstances(ROOT, "/venv/bin/python", device, nproc, 60.0))


def trouble(run: Ended, *records: dict[str, Any], nproc: int = 1, device: str = "cuda") -> Trouble:
    """What is found, which is one line."""
    told = found(run, *records, nproc=nproc, device=device)
    assert told is not None
    assert told.reason.isprintable()
    return told


def traceback(error: str, *places: str) -> str:
    frames = "".join(
        f'  File "{place.partition(":")[0]}", line {place.partition(":")[2]}, in f\n    f()\n' for place in places
    )
    return f"Traceback (most recent call last):\n{frames}{error}\n"


SYMPTOMS = [
    (Kind.MODULE_MISSING, "ModuleNotFoundError", "No module named 'timm'"),
    (Kind.TORCH_MISSING, "ModuleNotFoundError", "No module named 'torch'"),
    (Kind.MODULE_MISSING, "ModuleNotFoundError", "No module named 'torch_geometric'"),
    (Kind.MODULE_MISSING, "ModuleNotFoundError", "No module named 'torch.newer'"),
    (Kind.INPUT_WANTED, "EOFError", "EOF when reading a line"),
    (Kind.CRASHED, "EOFError", "Ran out of input"),
    (Kind.DEVICE_MEMORY, "OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
    (Kind.DEVICE_MEMORY, "RuntimeError", "CUDA error: out of memory\nCUDA kernel errors might be asynchronous"),
    (Kind.DEVICE_MEMORY, "RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    (Kind.HOST_MEMORY, "MemoryError", ""),
    (Kind.HOST_MEMORY, "RuntimeError", "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate"),
    (Kind.HOST_MEMORY, "OSError", "[Errno 12] Cannot allocate memory"),
    (Kind.HOST_MEMORY, "RuntimeError", "DataLoader worker (pid 12) is killed by signal: Killed. "),
    (Kind.NO_SPACE, "RuntimeError", "DataLoader worker (pid 1) is killed by signal: Bus error. Out of shared memory?"),
    (Kind.NO_SPACE, "RuntimeError", "unable to write to file </torch_123_456_0>: No space left on device (28)"),
    (Kind.NO_SPACE, "OSError", "[Errno 28] No space left on device: 'last.pt'"),
    (Kind.NO_SPACE, "RuntimeError", "[enforce fail at inline_container.cc:820] PytorchStreamWriter failed writing"),
    (Kind.NO_GPU, "RuntimeError", "No CUDA GPUs are available"),
    (Kind.NO_GPU, "RuntimeError", "Found no NVIDIA driver on your system."),
    (Kind.NO_GPU, "AssertionError", "Torch not compiled with CUDA enabled"),
    (Kind.NO_GPU, "RuntimeError", "Attempting to deserialize on a CUDA device but torch.cuda.is_available() is False."),
    (Kind.DATA_MISSING, "LocalEntryNotFoundError", "Cannot find an appropriate cached snapshot folder"),
    (Kind.DATA_MISSING, "OfflineModeIsEnabled", "Cannot reach https://huggingface.co: offline mode is enabled."),
    (Kind.DATA_MISSING, "OSError", "We couldn't connect to 'https://huggingface.co' to load the files"),
    (Kind.DATA_MISSING, "ConnectionError", "Couldn't reach 'imdb' on the Hub (OfflineModeIsEnabled)"),
    (Kind.DATA_MISSING, "URLError", "<urlopen error [Errno -3] Temporary failure in name resolution>"),
    (Kind.PORT_TAKEN, "DistNetworkError", "The server socket has failed to bind. EADDRINUSE, address already in use"),
    (Kind.PORT_TAKEN, "OSError", "[Errno 98] Address already in use"),
    (Kind.REPOSITORY_WANTED, "InvalidGitRepositoryError", "/scratch/tree"),
    (Kind.REPOSITORY_WANTED, "CalledProcessError", "Command '['git', 'rev-parse', 'HEAD']' returned non-zero"),
    (Kind.FILE_MISSING, "FileNotFoundError", "[Errno 2] No such file or directory: '../data/train.csv'"),
    (Kind.CRASHED, "FileNotFoundError", "[Errno 2] No such file or directory: 'data/train.csv'"),
    (Kind.CRASHED, "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
    (Kind.CRASHED, "KeyError", "'label'"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "message"), SYMPTOMS)
@pytest.mark.parametrize("seen_by", ["harness", "output"])
def test_words_of_an_error(kind: Kind, name: str, message: str, seen_by: str) -> None:
    text = f"{name}: {message}" if message else name
    if seen_by == "harness":
        told = trouble(ended(), failed(name, message))
    else:
        told = trouble(ended(traceback(text, f"{ROOT}/train.py:7", "/venv/lib/torch/x.py:3")))
    assert told.kind is kind
    if kind is not Kind.TORCH_MISSING:
        assert "(train.py:7)" in told.reason
        assert (message or name).splitlines()[0].rstrip("; .")[:60] in told.reason


def test_nothing_is_wrong() -> None:
    assert found(ended(code=0), record()) is None
    assert found(ended(code=1), record(), record(1), nproc=2) is None
    assert found(ended(how=End.RESULTS), record(ended="exit")) is None
    # Its epilogue may fail as it likes.
    assert found(ended(traceback("KeyError: 'x'", f"{ROOT}/train.py:90")), record()) is None


def test_gpu_that_is_hidden() -> None:
    told = trouble(ended(), failed("RuntimeError", "No CUDA GPUs are available"), device="cpu")
    assert told.reason.startswith("it requires a GPU, which --device cpu hides")
    shown = trouble(ended(), failed("RuntimeError", "No CUDA GPUs are available"))
    assert shown.reason.startswith("no GPU for /venv/bin/python: RuntimeError: No CUDA GPUs are available (train.py:7)")


def test_error_of_a_loaders_worker_is_the_workers_own() -> None:
    inner = traceback("IndexError: list index out of range", "/venv/lib/fetch.py:50", f"{ROOT}/data.py:12")
    outer = f"Caught IndexError in DataLoader worker process 0.\nOriginal {inner}"
    assert trouble(ended(), failed("IndexError", outer)).reason == (
        "it crashed: IndexError: list index out of range (data.py:12)"
    )
    printed = traceback(f"IndexError: {outer}", f"{ROOT}/train.py:30")
    assert trouble(ended(printed)).reason == "it crashed: IndexError: list index out of range (data.py:12)"


def test_first_rank_to_fail_is_to_blame() -> None:
    late = failed("DistBackendError", "connection closed by peer", rank=0, seconds=9.0)
    early = failed("ValueError", "bad shard", rank=1, seconds=8.0)
    assert "ValueError: bad shard" in trouble(ended(), late, early, nproc=2).reason


def test_launcher_is_not_to_blame() -> None:
    launcher = failed("ChildFailedError", "train.py FAILED", file="/venv/lib/torch/run.py")
    worker = traceback("ValueError: bad shard", f"{ROOT}/train.py:4").replace("\n", "\n[rank1]: ")
    agent = traceback("torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "/venv/lib/torch/run.py:9")
    told = trouble(ended(f"[rank1]: {worker}\nW1120 Sending process 12\n{agent}=====\nFAILED\n"), launcher, nproc=2)
    assert told.reason == "it crashed: ValueError: bad shard (train.py:4)"


def test_rank_that_did_not_train() -> None:
    assert trouble(ended(code=0), record(), nproc=2).reason == "only 1 of 2 ranks trained"


def test_message_of_several_lines_becomes_one() -> None:
    message = 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a". \n\tsize mismatch'
    printed = traceback(f"RuntimeError: {message}", f"{ROOT}/train.py:4") + "unrelated\n"
    assert trouble(ended(printed)).reason == (
        "it crashed: RuntimeError: Error(s) in loading state_dict for Net: "
        'Missing key(s) in state_dict: "a". size mismatch (train.py:4)'
    )
    assert len(trouble(ended(), failed("ValueError", "x" * 10_000)).reason) < 400
    assert "\x1b" not in trouble(ended(), failed("ValueError", "\x1b[31mred\x1b[0m")).reason


def test_last_of_chained_exceptions_counts() -> None:
    chain = (
        traceback("KeyError: 'a'", f"{ROOT}/a.py:1")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
    )
    ignored = "Exception ignored in: <function f at 0x1>\n" + traceback("AttributeError: late", f"{ROOT}/c.py:3")
    told = trouble(ended(chain + traceback("ValueError: b", f"{ROOT}/b.py:2") + ignored))
    assert told.reason == "it crashed: ValueError: b (b.py:2)"


def test_syntax_error_of_the_script() -> None:
    printed = f'  File "{ROOT}/train.py", line 3\n    for\n       ^\nSyntaxError: invalid syntax\n'
    assert trouble(ended(printed)).reason == "it crashed: SyntaxError: invalid syntax (train.py:3)"


def test_prompt_stands_before_the_traceback() -> None:
    printed = "Go on? " + traceback("EOFError: EOF when reading a line", f"{ROOT}/train.py:4")
    assert trouble(ended(printed)).kind is Kind.INPUT_WANTED


def test_time_limit() -> None:
    told = trouble(ended(f"epoch 1\n{PLACE}", how=End.TIME_LIMIT))
    assert told == Trouble(Kind.TIME_LIMIT, "it had not finished after 60 s and was at a.py:9; raise --timeout")
    told = trouble(ended("epoch 1\n 5%\r 10%\r", how=End.TIME_LIMIT), record(), nproc=2)
    assert told.reason == (
        "it had not finished after 60 s (1 of 2 ranks had); its last output was: 10%; raise --timeout"
    )


def test_exit_status() -> None:
    usage = "usage: train.py [-h] --data DATA\ntrain.py: error: the following arguments are required: --data\n"
    assert trouble(ended(usage, 2), record(steps={}, ended="exit")).kind is Kind.USAGE
    assert trouble(ended("bad config\n", 2)) == Trouble(
        Kind.EXITED, "it exited with status 2 before it had trained: bad config"
    )
    # Some scripts catch what they cannot help, and say it in their own words.
    assert trouble(ended("giving up: CUDA out of memory\n", 1)).kind is Kind.DEVICE_MEMORY


def test_error_among_what_was_printed() -> None:
    usage = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --x\nloaded 3 files\n"
    told = trouble(ended(usage, 2), record(steps={}, ended="exit"))
    assert told.reason == (
        "it does not accept these arguments (status 2): train.py: error: unrecognized arguments: --x; "
        "arguments of the script go after --"
    )
    long = f"first\n{'x' * 500}\n 5%\r 10%\r\n\nno data in ./data.\n"
    assert trouble(ended(long, 3)).reason == (
        f"it exited with status 3 before it had trained: {'x' * 99}… / 10% / no data in ./data"
    )


def test_nothing_was_trained_and_something_said() -> None:
    said = "Loading\nNothing to do, use --train\n"
    assert trouble(ended(said, code=0), record(steps={}, ended="exit")).reason == (
        "it ended before a torch optimizer had stepped; is this the training script? "
        "its last output was: Loading / Nothing to do, use --train"
    )
    assert trouble(ended(said, code=0)).reason.endswith("its last output was: Loading / Nothing to do, use --train")
    assert trouble(ended(code=0)).reason.endswith("with another Python; it printed nothing")


@pytest.mark.parametrize(("code", "told"), [
    ("parser.add_argument('--lr')", "does it have an option for the device, such as --cuda?"),
    ("parser.add_argument('--no-cuda', action='store_true')", "does it have an option for the device"),
    ("p.add_argument('-g', '--gpu-ids', default='-1')", "does --gpu-ids choose the device?"),
    ("@click.option(\n    '--device', default='cpu')", "does --device choose the device?"),
    ("p.add_argument('--use_cuda')\np.add_argument('--gpu')\np.add_argument('--gpu')",
     "does --use_cuda or --gpu choose the device?"),
])  # fmt: skip
def test_on_the_cpu(tmp_path: Path, code: str, told: str) -> None:
    (tmp_path / "options.py").write_text(code)
    one = record(on_cpu=True, modules=["options.py", "gone.py"])
    circumstances = Circumstances(tmp_path, "python", "cuda", 1, 60.0)
    trouble = diagnose(ended(code=0), [one], circumstances)
    assert trouble == Trouble(Kind.ON_CPU, f"it trains on the CPU; {trouble.reason[22:]}")
    assert told in trouble.reason
    assert found(ended(code=0), record(on_cpu=False)) is None
    assert found(ended(code=0), one, device="cpu") is None
    assert diagnose(ended(code=0), [one, record(1, on_cpu=False)], circumstances) is None


def test_signals() -> None:
    killed = trouble(ended("", -9, resident=31_000.0))
    assert killed.kind is Kind.HOST_MEMORY
    assert "held 31000 MiB" in killed.reason
    assert trouble(ended(f"Fatal Python error: Aborted\n\n{PLACE}", -6)) == Trouble(
        Kind.SIGNALLED, "it was killed by SIGABRT at a.py:9"
    )
    assert trouble(ended("", -40)).reason == "it was killed by signal 40"


def test_nothing_was_trained() -> None:
    assert trouble(ended(code=0), record(steps={"0": 0}, ended="exit")).kind is Kind.NEVER_STEPPED
    assert trouble(ended(code=0), record(steps={}, ended="stuck", backwards=501)).kind is Kind.NEVER_STEPPED
    assert trouble(ended("bye\n", code=0)).kind is Kind.NO_RECORD
    full = "perfmod: the record of this run could not be written: [Errno 28] No space left on device\n"
    assert trouble(ended(full, code=0)).kind is Kind.NO_SPACE
