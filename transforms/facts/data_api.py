"""What is known by name of the libraries that datasets are made of: what draws random numbers, what can be
trusted not to.

Names are qualified names, as `Names.qualified` gives them, unless said otherwise.
"""

from __future__ import annotations

DATASETS_OF_DATASETS = frozenset(
    {
        "torch.utils.data.Subset",
        "torch.utils.data.random_split",
        "torch.utils.data.ConcatDataset",
        "torch.utils.data.StackDataset",
    }
)
"""Datasets around the one, or the list of those, that they are given first."""
LISTS_OF_DATASETS = frozenset({"torch.utils.data.ConcatDataset"})

KNOWN_BASES = (
    "torch.utils.data.", "torchvision.datasets.", "torch.nn.", "torchvision.transforms.", "builtins.",
    "typing.", "abc.", "collections.", "enum.",
)  # fmt: skip
"""Base classes that draw no random numbers and change nothing when a sample is read."""

CALLABLE_PARAMETERS = frozenset({"transform", "target_transform", "transforms", "loader", "is_valid_file"})
"""Keywords by which the datasets of torchvision take functions."""

_TRANSFORM_AT: dict[int | None, tuple[str, ...]] = {
    1: ("ImageFolder", "SUN397", "SEMEION", "EuroSAT"),
    2: (
        "MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "SVHN", "Flowers102", "Food101", "StanfordCars",
        "GTSRB", "LSUN", "Country211", "USPS", "Omniglot", "PCAM", "RenderedSST2",
    ),
    3: ("STL10", "CelebA", "FakeData", "DTD", "FGVCAircraft"),
    4: ("OxfordIIITPet", "Places365"),
    None: ("QMNIST", "EMNIST", "ImageNet", "Imagenette"),
}  # fmt: skip
EIGHT_BIT = {f"torchvision.datasets.{name}": at for at, names in _TRANSFORM_AT.items() for name in names}
"""Datasets of torchvision whose images are pictures of eight bits a channel, at the first place of a sample, and the
position of their parameter `transform` (none where it is only taken by keyword).
"""
HELD_IN_MEMORY = frozenset({"MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "CIFAR10", "CIFAR100", "SVHN"})
"""Those of them that hold all pictures, of one size, in memory, each beside the number of its class."""

KEEPS_BYTES = frozenset(
    {
        "Resize", "CenterCrop", "Pad", "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip",
        "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomAffine", "ColorJitter", "Grayscale",
        "RandomGrayscale", "GaussianBlur", "RandomInvert", "RandomPosterize", "RandomSolarize",
        "RandomAdjustSharpness", "ElasticTransform", "RandomAutocontrast", "RandomEqualize", "AutoAugment",
        "RandAugment", "TrivialAugmentWide", "AugMix", "Scale", "RandomSizedCrop", "RGB",
        "RandomChannelPermutation", "RandomPhotometricDistort", "RandomZoomOut", "RandomShortestSize",
        "RandomResize", "ScaleJitter",
    }
)  # fmt: skip
"""Transforms that make a picture of eight bits a channel of such a picture, and a tensor of bytes of such a tensor."""

KEEPS_ARGUMENTS = (
    "torchvision.transforms.", "torchvision.datasets.", "functools.partial", "albumentations.", "collections.",
    "numpy.vectorize",
)  # fmt: skip
"""Objects that keep what they are constructed with."""

CALLS_ARGUMENTS = frozenset(
    {
        "functools.partial",
        *(
            f"torchvision.transforms.{version}{name}"
            for version in ("", "v2.")
            for name in ("Compose", "Lambda", "RandomApply", "RandomChoice", "RandomOrder")
        ),
    }
)
"""Objects that call what they are constructed with first, or the functions in that list."""

OPENS = frozenset(
    {
        "builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "h5py.File", "sqlite3.connect",
        "lmdb.open", "lmdb.Environment", "zipfile.ZipFile", "tarfile.open", "tarfile.TarFile",
        "tables.open_file", "netCDF4.Dataset", "mmap.mmap", "cv2.VideoCapture", "decord.VideoReader",
        "pymongo.MongoClient", "redis.Redis", "threading.Lock", "multiprocessing.Lock",
    }
)  # fmt: skip
"""What makes a handle of the process: a file, a database, a lock. None of them can be pickled."""
HANDLES_OF_HANDLES = frozenset({"cursor", "begin", "makefile"})
"""Methods of handles that make further ones."""
UNPICKLED = frozenset(
    {
        "torch.jit.load", "torch.jit.script", "torch.jit.trace", "onnxruntime.InferenceSession", "csv.reader",
        "csv.DictReader", "csv.writer", "csv.DictWriter", "socket.socket", "subprocess.Popen", "queue.Queue",
        "threading.RLock", "threading.Event", "threading.Condition", "threading.local", "weakref.ref",
        "threading.Thread", "threading.Semaphore", "concurrent.futures.ThreadPoolExecutor", "asyncio.new_event_loop",
        "concurrent.futures.ProcessPoolExecutor", "torch.utils.tensorboard.SummaryWriter",
        "torch.utils.tensorboard.writer.SummaryWriter", "tensorboardX.SummaryWriter", "torch.cuda.Stream",
        "os.scandir", "os.walk", "glob.iglob",
    }
)  # fmt: skip
"""What makes other things that cannot be pickled."""
MODULES = frozenset(
    {
        "torch.nn.functional", "torchvision.transforms.functional", "torchvision.transforms", "torch.nn", "torch",
        "numpy", "numpy.random", "random", "math", "os", "cv2", "json",
    }
)  # fmt: skip
"""Modules that are kept in attributes now and then, `self.F = torch.nn.functional`. None can be pickled."""
ITERATORS = frozenset(
    {
        *(f"builtins.{name}" for name in ("iter", "map", "filter", "zip", "enumerate", "reversed")),
        *(f"itertools.{name}" for name in ("count", "cycle", "repeat", "chain", "islice", "product", "permutations")),
        "csv.reader", "csv.DictReader",
    }
)  # fmt: skip
"""What makes an iterator, which moves on with every use."""
READS_ON = frozenset({"readline", "readlines", "fetchone", "fetchmany", "fetchall", "__next__"})
"""Methods that go on where the last use of a handle ended."""

PRINTS = {
    **dict.fromkeys(("builtins.print", "pprint.pprint", "sys.stdout.write", "tqdm.tqdm.write", "click.echo"), "prints"),
    **dict.fromkeys(
        (f"logging.{name}" for name in ("info", "warning", "warn", "error", "critical", "exception", "log")), "logs"
    ),
}
"""What writes lines in the order in which it is called."""
LOGS = frozenset(name.removeprefix("logging.") for name in PRINTS)
WRITES_LINES = frozenset({"write", "writelines", "writerow", "writerows"})

GENERATORS = frozenset(
    {
        "numpy.random.default_rng",
        "numpy.random.RandomState",
        "numpy.random.Generator",
        "random.Random",
        "torch.Generator",
    }
)

CHEAP = frozenset(
    {
        *(
            f"builtins.{name}"
            for name in (
                "len", "int", "float", "bool", "str", "range", "super", "isinstance", "tuple", "list", "dict", "zip",
                "enumerate", "max", "min", "sum", "sorted", "reversed",
            )
        ),
        *(f"numpy.{name}" for name in ("array", "asarray", "stack", "int64", "float32")),
        *(
            f"torch.{name}"
            for name in (
                "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor", "IntTensor", "BoolTensor",
                "ByteTensor", "DoubleTensor", "is_tensor", "stack", "cat", "zeros", "ones", "full", "empty",
                "nn.utils.rnn.pad_sequence", "nn.functional.pad",
            )
        ),
        *(f"torch.utils.data.{name}" for name in ("default_collate", "dataloader.default_collate")),
    }
)  # fmt: skip
"""Calls that pick, convert, pad and stack: code without others works on samples that are ready in memory."""

CHEAP_METHODS = frozenset(
    {
        "append", "extend", "sort", "items", "keys", "values", "get", "update", "size", "dim", "item", "tolist",
        "numpy", "long", "int", "float", "double", "half", "bool", "byte", "type", "astype", "clone", "copy", "detach",
        "view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "t", "contiguous", "new_zeros",
        "split", "strip", "lower", "upper", "join", "startswith", "endswith",
    }
)  # fmt: skip

_ARRAY_LIBRARIES = (
    "builtins.",
    "numpy.",
    "torch.",
    "pandas.",
    "pickle.",
    "json.",
    "csv.",
    "sklearn.",
    "scipy.",
    "copy.",
)
"""What makes arrays, tables and lists, which are in memory, whatever is taken out of them."""
_ON_DISK = frozenset({"numpy.memmap", "builtins.open", "numpy.lib.format.open_memmap"})


def is_in_memory(name: str) -> bool:
    """Whether what the call of a library gives lies in memory, so that indexing it neither reads nor decodes."""
    return name.startswith(_ARRAY_LIBRARIES) and name not in _ON_DISK and not name.startswith("torch.utils.data.")


_TORCH_RANDOM = frozenset(
    f"torch.{name}"
    for name in (
        "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "multinomial",
        "normal", "bernoulli", "poisson", "manual_seed", "seed",
    )
)  # fmt: skip
_NOISE = ("dropout", "alphadropout", "alpha_dropout", "featurealphadropout", "feature_alpha_dropout", "gumbel_softmax")
"""How the functions and modules of torch.nn begin that draw, in lower case."""
_UNLIKE_RANDOM = frozenset({"torch.Generator", "torch.get_rng_state", "random.getstate", "numpy.random.get_state"})
_ALWAYS_RANDOM = (
    "random.",
    "numpy.random.",
    "secrets.",
    "uuid.uuid",
    "os.urandom",
    "scipy.stats.",
    "torch.distributions.",
)
RANDOM_LIBRARIES = ("albumentations.", "imgaug.", "kornia.augmentation.", "torchio.", "monai.transforms.Rand")

SAMPLES = frozenset({"sample", "rsample", "sample_n", "rvs"})
"""Methods of distributions that draw from the global generator."""
RANDOM_FILLS = frozenset(
    {"random_", "normal_", "uniform_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_"}
)
"""Methods of tensors that draw from the global generator."""

_RANDOM_TRANSFORMS = frozenset(
    {
        "ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix", "GaussianBlur",
        "ElasticTransform", "MixUp", "CutMix", "ScaleJitter", "GaussianNoise", "JPEG",
    }
)  # fmt: skip

MUTATORS = frozenset(
    {
        "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add", "discard",
        "sort", "reverse", "popitem", "appendleft", "popleft", "move_to_end",
    }
)  # fmt: skip
"""Methods that change a container."""

STORES = frozenset({"random.shuffle", "numpy.random.shuffle", "builtins.setattr", "builtins.object.__setattr__"})
"""Functions that change what they are given first."""
SHARES_MEMORY = frozenset({"torch.from_numpy", "torch.as_tensor", "torch.asarray", "numpy.asarray"})
"""Functions whose result may share the memory of what they are given."""

ROUNDS_BY_THREADS = frozenset(
    {
        "mean", "sum", "std", "var", "norm", "prod", "pow", "nanmean", "nansum", "std_mean", "var_mean", "logsumexp",
        "softmax", "log_softmax", "matmul", "mm", "bmm", "dot", "einsum", "tensordot", "interpolate", "grid_sample",
        "conv1d", "conv2d", "conv3d", "cdist", "cov", "corrcoef", "svd", "stft", "istft",
    }
)  # fmt: skip
"""Functions and methods of large tensors whose last bits depend on the number of threads. Workers have one."""

COMMON_METHODS = frozenset(
    {
        "abs", "all", "any", "append", "argmax", "argmin", "argsort", "as_tensor", "astype", "byte",
        "bool", "ceil", "clamp", "clip", "clone", "close", "contiguous", "convert", "copy", "count", "cpu",
        "crop", "decode", "detach", "double", "div", "div_", "encode", "endswith", "exists", "expand",
        "extend", "find", "flatten", "flip", "float", "floor", "format", "get", "getpixel", "group",
        "half", "iloc", "index", "insert", "int", "is_file", "item", "items", "join", "keys", "load",
        "loc", "long", "lower", "lstrip", "max", "mean", "min", "movedim", "mul", "nonzero", "numel",
        "numpy", "open", "paste", "permute", "pop", "read", "readline", "read_bytes", "read_text",
        "repeat", "replace", "reshape", "resize", "resize_", "rotate", "round", "rsplit", "rstrip", "seek",
        "setdefault", "short", "size", "sort", "split", "squeeze", "startswith", "stack", "std", "strip",
        "sub", "sub_", "sum", "tell", "thumbnail", "to", "to_numpy", "tobytes", "tolist", "transpose",
        "type", "unfold", "unsqueeze", "update", "upper", "values", "view", "add_", "mul_", "fill_",
        "zero_", "masked_fill", "masked_fill_", "new_zeros", "new_ones", "new_full", "dim", "eq", "ne",
        "squeeze_", "unsqueeze_", "verify", "width", "height",
    }
)  # fmt: skip
"""Methods of tensors, arrays, images, strings, paths and containers, none of which draws random numbers."""

TRUSTED = frozenset(
    {
        "torch", "torchvision", "torchaudio", "numpy", "PIL", "cv2", "os", "io", "json", "math",
        "builtins", "re", "pathlib", "pickle", "csv", "copy", "collections", "itertools", "functools",
        "typing", "time", "datetime", "string", "struct", "glob", "gzip", "bz2", "lzma", "zlib", "base64",
        "scipy", "skimage", "pandas", "h5py", "librosa", "soundfile", "imageio", "lmdb", "sqlite3",
        "tifffile", "nibabel", "pydicom", "rasterio", "decord", "warnings", "operator", "bisect",
        "hashlib", "tarfile", "zipfile", "mmap", "msgpack", "yaml", "unicodedata", "networkx", "sklearn",
        "logging", "sys", "dataclasses", "enum", "contextlib", "numbers", "heapq", "transformers",
        "tokenizers", "sentencepiece", "tiktoken", "av", "pycocotools", "xml", "lxml", "rdkit", "Bio",
        "traceback", "errno", "shutil", "random", "multiprocessing", "threading",
    }
)  # fmt: skip
"""Modules whose functions draw no random numbers, those that `draws` names aside."""


ASKS_FOR_PROCESS = frozenset(
    {
        "os.getpid", "os.getppid", "multiprocessing.current_process", "multiprocessing.parent_process",
        "torch.multiprocessing.current_process", "torch.utils.data.get_worker_info", "torch.get_num_threads",
        "torch.distributed.is_initialized", "torch.distributed.get_rank", "torch.distributed.get_world_size",
    }
)  # fmt: skip
"""Functions that answer otherwise in a worker than in the process that trains."""


def draws(name: str, *, seeded: bool) -> bool:
    """Whether a library function draws random numbers when it is called; `seeded` says that it is given
    arguments.
    """
    if name in GENERATORS:
        return not seeded and name != "torch.Generator"
    if name in _UNLIKE_RANDOM:
        return False
    if (
        name in _TORCH_RANDOM
        or name.rpartition(".")[2].lower().startswith(_NOISE)
        or name.startswith((*_ALWAYS_RANDOM, *RANDOM_LIBRARIES))
    ):
        return True
    return name.startswith("torchvision.transforms.") and is_random_transform(name)


def is_random_transform(name: str) -> bool:
    """Whether a transform of torchvision (or a function of its class, such as `RandomCrop.get_params`) is
    random.
    """
    return any(part.startswith("Random") or part in _RANDOM_TRANSFORMS for part in name.split("."))


def transform_named(name: str) -> str:
    """The last part of the qualified name of one of torchvision's transforms; empty for other names."""
    for prefix in ("torchvision.transforms.v2.", "torchvision.transforms."):
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            return "" if "." in rest else rest
    return ""
