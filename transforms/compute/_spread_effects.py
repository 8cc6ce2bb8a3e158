"""What must not be done by several processes at once: files that are changed, questions to the user, exits."""

from __future__ import annotations

import libcst as cst

from perfmod.transforms.compute._spread_program import HOST_DRAWS
from perfmod.transforms.facts.calls import argument
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.value import Kind

WRITES = frozenset({
    "builtins.print", "pprint.pprint", "torch.save", "os.makedirs", "os.mkdir", "os.remove", "os.unlink", "os.rename",
    "os.replace", "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "cv2.imwrite",
})  # fmt: skip
"""Functions that only one process calls, where their call is a statement."""
_UNKNOWN = (
    "logging.", "subprocess.", "shutil.", "pickle.dump", "json.dump", "matplotlib.", "torchvision.utils.", "torch.hub.",
    "torch.jit.save", "torch.onnx.", "urllib.", "numpy.memmap", "builtins.input", "os.system", "os.popen", "os.rmdir",
    "os.removedirs", "os.renames", "os.symlink", "os.link", "os.truncate", "os.mkfifo", "os.kill", "os.fork", "os.exec",
    "os.spawn", "os.open", "sqlite3.", "dbm.", "shelve.", "zipfile.", "tarfile.", "scipy.io.savemat",
    "torch.optim.swa_utils.update_bn",
)  # fmt: skip
_UNKNOWN_METHODS = frozenset({
    "mkdir", "write", "writelines", "write_text", "write_bytes", "savefig", "to_csv", "writerow", "writerows", "unlink",
    "info", "rename", "touch", "rmdir", "symlink_to", "hardlink_to", "extract", "extractall", "save", "dump",
    "dump_stats", "tofile",
})  # fmt: skip
_DRAWN_OR_TAKEN = frozenset({"pop", "popleft", "popitem", "append", "add", "update", "step", "shuffle", "normal_"})
"""Methods that leave something else behind: where one process calls them, the others go on with another state."""


def is_unknown(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call changes files or asks somebody, as nothing in a rewrite could leave to one process."""
    name = file.qualified(call) or ""
    func = call.func
    method = func.attr.value if isinstance(func, cst.Attribute) else None
    if name == "builtins.open":
        return _is_written(argument(call, "mode", 1))
    if "SummaryWriter" in name or name.startswith(_UNKNOWN):
        return True
    if method == "open" and name != "PIL.Image.open":
        return _is_written(argument(call, "mode", 0))
    if method == "replace" and isinstance(func, cst.Attribute):
        return len(call.args) == 1 and file.value(func.value).kind is not Kind.TEXT
    return method in _UNKNOWN_METHODS


def _is_written(mode: cst.BaseExpression | None) -> bool:
    return mode is not None and not (isinstance(mode, cst.SimpleString) and set("wax+").isdisjoint(mode.value))


def leaves_state(file: FileFacts, call: cst.Call) -> bool:
    """Whether a call draws a number, or takes or adds something, besides what it gives."""
    name = file.qualified(call) or ""
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in _DRAWN_OR_TAKEN
    return is_method or name == "builtins.next" or name.startswith((*HOST_DRAWS, "torch.rand"))
