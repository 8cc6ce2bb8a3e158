"""Kernel launches that wait for their kernels, because `CUDA_LAUNCH_BLOCKING=1` was left in the code.

With that variable set the CPU waits for the end of every kernel before it launches the next, so that an error shows
up on the line that caused it. CPU and GPU then take turns instead of working at the same time.

    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"         (gone)

No value changes: the kernels run in the same order. An assertion that fails on the device is reported later. Where a
clock times the steps and nothing calls `torch.cuda.synchronize()`, it would no longer measure the device's work, so the
rewrite is on request there. It is an open question in files that use CUDA streams, whose kernels may then overlap.
Where the variable belongs to settings for reproducible runs, or a comment asks for it, it stays; so it does where the
script starts other programs, which inherit it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from perfmod.transforms.facts.clocks import timed_without_waiting
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.flow import dotted
from perfmod.transforms.facts.tree import find_all, find_any
from perfmod.transforms.finding import Edit, Family, Finding, Numerics, Safety, Status
from perfmod.transforms.leftovers import _switches
from perfmod.transforms.rule import Rule
from perfmod.transforms.writing import comments, delete_with_comment

_VARIABLE = "CUDA_LAUNCH_BLOCKING"
_SETTERS = frozenset({"os.environ.setdefault", "os.putenv"})
_STREAMS = frozenset({"Stream", "stream", "ExternalStream"})
_LAUNCHES = re.compile(
    r"subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)|os\.(system|popen|exec\w+|spawn\w+)|"
    r"(torch\.)?multiprocessing\.(Process|Pool|spawn|start_processes)|concurrent\.futures\.ProcessPoolExecutor"
)
_WORDS = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
_RUNS_PYTHON = re.compile(r"python|torchrun|accelerate|deepspeed|\.py\b|\.sh\b")
_SEEDS = re.compile("seed|determin|reprod|random")
_REPEATABLE = re.compile(
    r"^[^#\n]*(CUBLAS_WORKSPACE_CONFIG|use_deterministic_algorithms|\.deterministic\s*=\s*True)", re.MULTILINE
)
_ASKS = re.compile(
    r"determin|reprod|repeat|must|need|requir|keep|remove|never|do not|don't|important|otherwise|avoid|fix|hang"
)


class CudaLaunchBlocking(Rule):
    code = "PM403"
    name = "cuda-launch-blocking"
    family = Family.LEFTOVERS
    summary = "CUDA_LAUNCH_BLOCKING makes the CPU wait for every kernel"
    fix_title = "Remove the variable, so that kernels are queued"
    numerics = Numerics.BITWISE
    safety = Safety.SAFE
    min_torch = "1.0"
    status = Status.PREVIEW
    triggers = frozenset({_VARIABLE})
    references = (
        "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#asynchronous-concurrent-execution",
        "https://docs.pytorch.org/docs/stable/notes/cuda.html#asynchronous-execution",
    )
    changes_results = (
        "Never for values. Kernel errors are reported at a later line, and times that are measured without "
        "`torch.cuda.synchronize()` only cover the launches. On request where such times are taken in the steps, and "
        "an open question where the file uses its own streams. The variable stays next to settings for reproducible "
        "runs, under a comment that asks for it, and where the script starts programs, which inherit it."
    )

    def check(self, file: FileFacts) -> Iterator[Finding]:
        others = [
            node
            for facts in file.world.files.values()
            for node in _mentions(facts.source.module)
            if _setting(facts, node) is None and not _clears(facts, node)
        ]
        for node in _mentions(file.source.module):
            setting = _setting(file, node)
            if setting is None:
                continue
            value, edits = setting
            if not _switches_on(value) or _switches.is_optional(file, node):
                continue
            if others:
                yield self.refused(file, node, f"line {file.line(others[0])} names the variable as well")
                continue
            wanted = _why_inherited(file) or _why_wanted(file, node)
            if wanted:
                yield self.refused(file, node, wanted)
                continue
            safety, reason, clock = None, "the kernels run in the same order", timed_without_waiting(file)
            if _uses_streams(file):
                safety, reason = Safety.UNSAFE, "the file uses CUDA streams, whose kernels may overlap without it"
            elif clock is not None:
                place = f"`{file.code(clock)}` on line {file.line(clock)}"
                reason = f"{place} times the step: without this setting it would measure the launches only"
                safety = Safety.OPT_IN
            yield self.found(file, node, reason, edits, safety=safety)


def _why_inherited(file: FileFacts) -> str:
    """What starts a program that may run kernels and inherits the variable; empty where nothing in sight does."""
    for call in (call for module in file.tree.modules for call in find_all(module, cst.Call)):
        name = file.qualified(call) or ""
        if not _LAUNCHES.fullmatch(name):
            continue
        # What runs in another process is looked at like the rest, where it is a function in sight.
        given = (arg.value for arg in call.args if isinstance(arg.value, cst.Name))
        passed = [each.node for name in given for each in file.flow.definitions(name)]
        command = call.args[0].value if call.args else None
        words = [] if command is None else [*find_any(command, *_WORDS, cst.Name, cst.Call)]
        is_written = bool(words) and all(isinstance(word, cst.SimpleString) for word in words)
        is_other = is_written and not _RUNS_PYTHON.search(" ".join(map(file.code, words)))
        if not is_other and not any(isinstance(each, cst.FunctionDef) for each in passed):
            return f"`{file.code(call.func)}` on line {file.line(call)} starts a process, which inherits the variable"
    return ""


def _why_wanted(file: FileFacts, node: cst.CSTNode) -> str:
    """Why somebody wants every launch to wait; empty where nothing says so."""
    function = file.tree.function(node)
    if function is not None:
        calls = [dotted(call.func) for call in find_all(function.body, cst.Call)]
        seeds = {
            name for name in calls if name.endswith((".seed", "manual_seed", "manual_seed_all", "seed_everything"))
        }
        if _SEEDS.search(function.name.value.lower()) or len(seeds) > 1:
            return f"`{function.name.value}` sets seeds for reproducible runs"
    for source in file.world.files:
        if wish := _REPEATABLE.search(source.text):
            return f"`{wish[1]}` asks for reproducible runs"
    source, statement = file.source, file.tree.statement(node)
    if isinstance(statement, (cst.BaseStatement, cst.BaseSmallStatement)):
        found = [text for _, text in comments(source, statement)]
        start = source.line_start(source.span(statement)[0])
        while start > 0 and source.text[source.line_start(start - 1) : start].lstrip().startswith("#"):
            above = source.line_start(start - 1)
            found.append(source.text[above:start])
            start = above
        if any(_ASKS.search(text.lower()) for text in found):
            return "a comment asks for it"
    return ""


def _mentions(module: cst.Module) -> Iterator[cst.SimpleString | cst.Name]:
    """The texts and keywords that name the variable."""
    yield from (text for text in find_all(module, cst.SimpleString) if text.evaluated_value == _VARIABLE)
    keywords = (arg.keyword for arg in find_all(module, cst.Arg) if arg.keyword is not None)
    yield from (keyword for keyword in keywords if keyword.value == _VARIABLE)


def _setting(file: FileFacts, node: cst.CSTNode) -> tuple[cst.BaseExpression, Sequence[Edit]] | None:
    """The value that a mention of the variable sets in this process, and what undoes it; None for other mentions."""
    source = file.source
    statement = file.tree.statement(node)
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if (
            isinstance(target, cst.Subscript)
            and file.qualified(target.value) == "os.environ"
            and file.tree.is_within(node, target)
        ):
            return statement.value, delete_with_comment(source, (statement,))
        return None
    call = next((a for a in file.tree.ancestors(node) if isinstance(a, cst.Call)), None)
    if call is None or not isinstance(statement, cst.Expr) or statement.value is not call:
        return None
    if file.qualified(call) in _SETTERS and len(call.args) == 2 and call.args[0].value is node:
        return call.args[1].value, delete_with_comment(source, (statement,))
    return None


def _switches_on(value: cst.BaseExpression) -> bool:
    """Whether a value is a text that is written down, and not the one for off."""
    return isinstance(value, cst.SimpleString) and str(value.evaluated_value).strip() not in ("0", "")


def _clears(file: FileFacts, node: cst.CSTNode) -> bool:
    """`del os.environ[...]`, `os.environ.pop(..., None)`."""
    call = file.tree.parent(file.tree.parent(node) or node)
    is_popped = isinstance(call, cst.Call) and len(call.args) == 2 and dotted(call.func).endswith("environ.pop")
    return is_popped or isinstance(file.tree.statement(node), cst.Del)


def _uses_streams(file: FileFacts) -> bool:
    return any(
        node.attr.value in _STREAMS and (file.qualified(node) or "").startswith("torch.cuda.")
        for node in find_all(file.tree.module, cst.Attribute)
    )
