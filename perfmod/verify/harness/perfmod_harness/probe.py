"""Says what this interpreter is and has, as one line of JSON. Given to it with `-c`; any Python can read it."""

import importlib.util
import json
import sys
from pathlib import Path

version = cuda = gpu = free = total = reason = capability = None
gpus = 0
bytecode = False
try:
    import torch

    version = str(torch.__version__)
    bytecode = Path(importlib.util.cache_from_source(torch.__file__)).exists()
    cuda = torch.version.cuda
    if torch.cuda.is_available():
        gpus = torch.cuda.device_count()
        gpu = torch.cuda.get_device_name(0)
        free, total = torch.cuda.mem_get_info(0)
        capability = torch.cuda.get_device_capability(0)
    else:
        torch.zeros(1, device="cuda")  # the error says why
except BaseException as error:  # noqa: BLE001  # whatever it is, it is what the user has to know
    reason = " ".join(str(error).split()) or type(error).__name__
print(
    json.dumps(
        {
            "version": list(sys.version_info[:3]),
            "torch": version,
            "bytecode": bytecode,
            "cuda": cuda,
            "gpus": gpus,
            "gpu": gpu,
            "free": free,
            "total": total,
            "capability": capability,
            "error": reason,
        }
    )
)
