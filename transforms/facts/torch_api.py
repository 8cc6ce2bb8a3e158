"""What is known of PyTorch's functions, by name: what they return, and which of them only work on tensors.

Short names are those behind `torch.`, `torch.nn.functional.` or a tensor's dot. Types are spelled as `DType` values.
"""

from __future__ import annotations

TENSOR_TYPES = {
    "torch.Tensor": None,
    "torch.FloatTensor": "floating",
    "torch.DoubleTensor": "floating",
    "torch.HalfTensor": "floating",
    "torch.LongTensor": "integer",
    "torch.IntTensor": "integer",
    "torch.ByteTensor": "integer",
    "torch.BoolTensor": "bool",
    "torch.cuda.FloatTensor": "floating",
    "torch.cuda.DoubleTensor": "floating",
    "torch.cuda.HalfTensor": "floating",
    "torch.cuda.LongTensor": "integer",
    "torch.cuda.IntTensor": "integer",
    "torch.cuda.ByteTensor": "integer",
    "torch.cuda.BoolTensor": "bool",
}

DTYPES = {
    **dict.fromkeys(
        ("torch.complex32", "torch.complex64", "torch.complex128", "torch.chalf", "torch.cfloat", "torch.cdouble"),
        "complex",
    ),
    **dict.fromkeys(
        (
            "torch.float", "torch.float16", "torch.float32", "torch.float64",
            "torch.half", "torch.bfloat16", "torch.double", "builtins.float",
        ),
        "floating",
    ),
    **dict.fromkeys(
        ("torch.int", "torch.int8", "torch.int16", "torch.int32", "torch.int64", "torch.long", "torch.short",
         "torch.uint8", "builtins.int"),
        "integer",
    ),
    "torch.bool": "bool",
    "builtins.bool": "bool",
}  # fmt: skip

CONSTANTS = frozenset(
    {
        "torch.inf",
        "torch.nan",
        "torch.pi",
        "torch.e",
        "math.inf",
        "math.nan",
        "math.pi",
        "math.e",
        "numpy.inf",
        "numpy.nan",
        "numpy.pi",
    }
)

BUILTIN_NUMBERS = {
    "builtins.len": "integer",
    "builtins.int": "integer",
    "builtins.float": "floating",
    "builtins.bool": "bool",
    "builtins.isinstance": "bool",
    "builtins.hasattr": "bool",
    "builtins.any": "bool",
    "builtins.all": "bool",
    "torch.cuda.is_available": "bool",
    "torch.cuda.device_count": "integer",
    "torch.is_tensor": "bool",
    "time.time": "floating",
    "time.perf_counter": "floating",
    "math.log": "floating",
    "math.exp": "floating",
    "math.sqrt": "floating",
    "math.ceil": "integer",
    "math.floor": "integer",
    "math.isfinite": "bool",
    "math.isnan": "bool",
    "os.cpu_count": "integer",
}

# Functions and methods that give no tensor: the type of the number, or `None` for something else.
NOT_TENSORS: dict[str, str | None] = {
    "numel": "integer", "dim": "integer", "ndimension": "integer", "nelement": "integer", "element_size": "integer",
    "get_device": "integer", "equal": "bool", "allclose": "bool", "is_nonzero": "bool", "is_tensor": "bool",
    "are_deterministic_algorithms_enabled": "bool", "is_grad_enabled": "bool", "is_inference_mode_enabled": "bool",
    "is_autocast_enabled": "bool", "is_complex": "bool",
    "is_contiguous": "bool", "is_floating_point": "bool", "item": None, "tolist": None, "backward": None,
    "manual_seed": None, "seed": None, "initial_seed": "integer", "get_rng_state": None, "set_rng_state": None,
    "save": None, "load": None, "no_grad": None, "enable_grad": None, "inference_mode": None, "set_grad_enabled": None,
    "Generator": None, "compile": None, "device": None, "finfo": None, "iinfo": None, "register_hook": None,
    "set_default_dtype": None, "set_float32_matmul_precision": None, "set_num_threads": None, "autocast": None,
    "split": None, "chunk": None, "unbind": None, "data_ptr": "integer", "broadcast_tensors": None,
    "Size": None, "storage": None, "retain_grad": None, "unsafe_split": None, "tensor_split": None,
    "use_deterministic_algorithms": None, "set_printoptions": None, "get_default_dtype": None, "vmap": None, "func":
    None,
    "is_pinned": "bool", "is_shared": "bool", "is_inference": "bool", "is_signed": "bool",
    "is_same_size": "bool", "storage_offset": "integer", "dim_order": None, "broadcast_shapes": None,
    "result_type": None, "promote_types": None, "typename": None, "can_cast": "bool", "svd": None, "qr": None,
    "eig": None, "eigh": None, "slogdet": None, "lstsq": None, "lu": None, "lu_factor": None, "lu_unpack": None,
    "inv_ex": None, "cholesky_ex": None, "solve_ex": None, "geqrf": None, "triangular_solve": None, "frexp": None,
    "histogram": None, "unravel_index": None, "hsplit": None, "vsplit": None, "dsplit": None, "split_with_sizes": None,
    "unsafe_chunk": None, "is_anomaly_enabled": "bool", "is_anomaly_check_nan_enabled": "bool",
    "is_autocast_cache_enabled": "bool", "is_autocast_cpu_enabled": "bool", "is_warn_always_enabled": "bool",
    "is_deterministic_algorithms_warn_only_enabled": "bool", "is_storage": "bool", "is_conj": "bool", "is_neg": "bool",
    "is_set_to": "bool", "is_coalesced": "bool", "is_distributed": "bool", "is_vulkan_available": "bool",
    "get_num_threads": "integer", "get_num_interop_threads": "integer", "get_deterministic_debug_mode": "integer",
    "get_float32_matmul_precision": None, "get_default_device": None, "get_device_module": None,
    "get_autocast_dtype": None, "get_autocast_gpu_dtype": None, "get_autocast_cpu_dtype": None,
    "set_anomaly_enabled": None, "set_autocast_enabled": None, "set_autocast_dtype": None, "set_default_device": None,
    "set_autocast_gpu_dtype": None, "set_autocast_cache_enabled": None, "set_default_tensor_type": None,
    "set_deterministic_debug_mode": None, "set_flush_denormal": "bool", "set_num_interop_threads": None,
    "set_warn_always": None, "clear_autocast_cache": None, "sparse_dim": "integer", "dense_dim": "integer",
    "const_data_ptr": "integer", "untyped_storage": None, "storage_type": None, "record_stream": None,
    "gradient": None, "cond": None, "while_loop": None, "svd_lowrank": None, "pca_lowrank": None, "lobpcg": None,
    "histogramdd": None, "fork": None, "wait": None, "to_dlpack": None, "sym_int": None, "sym_float": None,
    "sym_max": None, "sym_min": None, "sym_not": None, "sym_ite": None, "sym_sum": None,
}  # fmt: skip

# Functions that make tensors on the CPU unless they are told a device, and the type of the result.
CREATES: dict[str, str | None] = {
    "zeros": "floating", "ones": "floating", "empty": "floating", "rand": "floating", "randn": "floating", "eye":
    "floating",
    "linspace": "floating", "full": None, "arange": None, "tensor": None, "as_tensor": None, "randint": "integer",
    "randperm": "integer", "from_numpy": None, "Tensor": "floating", "FloatTensor": "floating", "LongTensor": "integer",
    "BoolTensor": "bool", "ByteTensor": "integer", "zeros_like": None, "ones_like": None, "empty_like": None,
    "full_like": None, "rand_like": None, "randn_like": None, "randint_like": None, "asarray": None, "frombuffer": None,
    "from_file": None, "logspace": "floating", "range": "floating", "hann_window": "floating",
    "hamming_window": "floating", "blackman_window": "floating", "bartlett_window": "floating",
    "kaiser_window": "floating", "tril_indices": "integer", "triu_indices": "integer", "empty_strided": "floating",
    "scalar_tensor": "floating",
}  # fmt: skip

ELEMENTWISE = frozenset(
    {
        "abs", "add", "sub", "mul", "div", "neg", "exp", "log", "log1p", "sqrt", "rsqrt", "pow", "square", "sigmoid",
        "tanh",
        "relu", "clamp", "clamp_min", "clamp_max", "clip", "sign", "round", "floor", "ceil", "float", "double", "half",
        "bfloat16", "long", "int", "short", "byte", "bool", "to", "cuda", "cpu", "type", "type_as", "detach", "clone",
        "contiguous", "requires_grad_", "masked_fill", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
        "logical_not", "logical_xor", "isnan", "isinf", "isfinite", "bitwise_not", "softmax", "log_softmax", "gelu",
        "leaky_relu", "elu", "silu", "softplus", "hardtanh", "dropout", "sin", "cos", "erf", "reciprocal", "fill",
        "zero",
        "cumsum", "nan_to_num", "normalize", "logsigmoid", "threshold",
    }
)  # fmt: skip

# Operations of two operands whose result has the wider type of both.
ARITHMETIC = frozenset(
    {"add", "sub", "mul", "pow", "maximum", "minimum", "fmax", "fmin", "remainder", "fmod", "subtract", "multiply",
     "floor_divide", "clamp", "clamp_min", "clamp_max", "clip", "bitwise_and", "bitwise_or", "bitwise_xor"}
)  # fmt: skip

# Operations whose further arguments may be tensors, which all broadcast together.
BROADCASTS = ARITHMETIC | {
    "div", "divide", "true_divide", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor",
    "isclose", "masked_fill", "atan2", "hypot", "lerp", "addcmul", "addcdiv",
}  # fmt: skip

# Operations whose result has the type of their subject.
SAME_DTYPE = frozenset(
    {"abs", "neg", "negative", "square", "sign", "round", "floor", "ceil", "trunc", "relu", "detach", "clone",
     "contiguous", "requires_grad_", "masked_fill", "fill", "zero", "cumsum", "cumprod", "nan_to_num", "sum",
     "prod", "max", "min", "amax", "amin", "median", "nansum", "unique", "unique_consecutive", "diff",
     "bitwise_not", "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "squeeze",
     "unsqueeze", "transpose", "permute", "t", "expand", "expand_as", "narrow", "select", "diagonal", "unfold",
     "swapaxes", "swapdims", "movedim", "moveaxis", "broadcast_to", "atleast_1d", "atleast_2d", "atleast_3d",
     "pin_memory", "cpu", "cuda", "roll", "flip", "fliplr", "flipud", "rot90", "tile", "repeat",
     "repeat_interleave", "gather", "take", "take_along_dim", "index_select", "masked_select", "index_fill",
     "index_add", "index_copy", "index_put", "scatter", "scatter_add", "scatter_reduce", "masked_scatter",
     "copy", "put", "tril", "triu", "diag", "diag_embed", "pad", "bernoulli", "dropout", "dropout1d",
     "dropout2d", "dropout3d", "as_strided", "random", "normal", "uniform", "exponential", "leaky_relu", "elu",
     "silu", "gelu", "hardtanh", "threshold", "relu6", "max_pool1d", "max_pool2d", "max_pool3d", "mm", "bmm",
     "matmul", "dot", "mv", "addmm", "baddbmm", "cross", "conv1d", "conv2d", "conv3d", "linear", "interpolate",
     "avg_pool2d", "pixel_shuffle", "pixel_unshuffle", "normalize", "renorm", "logcumsumexp",
     "adaptive_max_pool2d", "tensordot"}
)  # fmt: skip
JOINS = frozenset({"cat", "concat", "concatenate", "stack", "vstack", "hstack", "dstack"})

CASTS = frozenset(
    {
        "float",
        "double",
        "half",
        "bfloat16",
        "long",
        "int",
        "short",
        "byte",
        "bool",
        "to",
        "cuda",
        "cpu",
        "type",
    }
)

REDUCTIONS = frozenset(
    {"sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "norm", "any", "all", "argmax",
     "argmin", "median", "logsumexp",
     "count_nonzero", "nansum", "nanmean"}
)  # fmt: skip

# Reductions that give (values, indices) when they are told a dimension, and functions that always give pairs.
PAIRS_WITH_DIM = frozenset({"max", "min", "median", "nanmedian"})
PAIRS_OF_VALUES = frozenset({"aminmax", "std_mean", "var_mean"})
PAIRS = PAIRS_WITH_DIM | PAIRS_OF_VALUES | {"topk", "sort", "cummax", "cummin", "mode", "kthvalue"}

RESULT_DTYPES = {
    **dict.fromkeys(
        ("complex", "polar", "view_as_complex", "fft.fft", "fft.ifft", "fft.fft2", "fft.ifft2", "fft.fftn", "fft.ifftn",
         "fft.rfft", "fft.rfft2", "fft.rfftn", "fft.ihfft", "cfloat", "cdouble"),
        "complex",
    ),
    **dict.fromkeys(("fft.irfft", "fft.irfft2", "fft.irfftn", "fft.hfft", "angle", "view_as_real"), "floating"),
    **dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "logical_xor",
         "isnan", "isinf",
         "isfinite", "bool", "any", "all", "isin", "signbit", "isclose", "isposinf", "isneginf", "isreal"),
        "bool",
    ),
    **dict.fromkeys(
        ("long", "int", "short", "byte", "argmax", "argmin", "argsort", "nonzero", "argwhere",
         "count_nonzero", "bincount",
         "searchsorted", "bucketize", "one_hot", "multinomial"),
        "integer",
    ),
    **dict.fromkeys(("float", "double", "half", "bfloat16"), "floating"),
}  # fmt: skip

FLOAT_RESULTS = frozenset(
    {"mean", "std", "var", "norm", "softmax", "log_softmax", "sigmoid", "tanh", "exp", "log", "sqrt", "true_divide",
     "logsumexp", "nanmean", "rsqrt", "log1p", "log2", "log10", "exp2", "expm1", "sin", "cos", "tan", "asin", "acos",
     "atan", "atan2", "sinh", "cosh", "erf", "erfc", "erfinv", "reciprocal", "logit", "logsigmoid", "softplus",
     "log_sigmoid", "quantile", "nanquantile", "dist", "cdist", "hypot", "embedding", "embedding_bag", "layer_norm",
     "batch_norm", "group_norm", "instance_norm", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "cosine_similarity",
     "pairwise_distance", "scaled_dot_product_attention", "grid_sample", "linspace", "logspace", "gumbel_softmax",
     "vector_norm", "matrix_norm", "gelu", "silu", "mish", "softsign", "tanhshrink", "lgamma", "digamma", "sinc"}
)  # fmt: skip

LOSS_FUNCTIONS = frozenset(
    {
        "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
        "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "hinge_embedding_loss",
        "soft_margin_loss", "cosine_embedding_loss", "triplet_margin_loss", "margin_ranking_loss", "multi_margin_loss",
        "multilabel_soft_margin_loss", "multilabel_margin_loss", "triplet_margin_with_distance_loss", "ctc_loss",
        "linear_cross_entropy",
    }
)  # fmt: skip
FLOAT_RESULTS = FLOAT_RESULTS | LOSS_FUNCTIONS

LOSS_MODULES = frozenset(
    f"torch.nn.{name}"
    for name in (
        "CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss",
        "KLDivLoss", "PoissonNLLLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "SoftMarginLoss", "CosineEmbeddingLoss",
        "TripletMarginLoss", "MarginRankingLoss", "MultiMarginLoss", "MultiLabelSoftMarginLoss",
        "MultiLabelMarginLoss", "TripletMarginWithDistanceLoss", "CTCLoss", "LinearCrossEntropyLoss",
    )
)  # fmt: skip

# Modules of torch.nn that only rearrange or pick what they are given.
SAME_DTYPE_MODULES = frozenset(
    f"torch.nn.{name}"
    for name in ("Identity", "Flatten", "Unflatten", "ReLU", "ReLU6", "PixelShuffle", "PixelUnshuffle",
                 "ChannelShuffle", "MaxPool1d", "MaxPool2d", "MaxPool3d", "ZeroPad1d", "ZeroPad2d", "ConstantPad1d",
                 "ConstantPad2d", "ReflectionPad2d", "ReplicationPad2d", "Dropout")
)  # fmt: skip

# Modules of torch.nn that return several values.
SEQUENCE_MODULES = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN", "torch.nn.MultiheadAttention"})

MODULE_RETURNS_SELF = frozenset(
    {
        "train",
        "eval",
        "float",
        "half",
        "double",
        "bfloat16",
        "apply",
        "requires_grad_",
        "to_empty",
        "share_memory",
        "type",
    }
)

# Calls that hand their first argument on, made faster or parallel.
WRAPPERS = frozenset(
    {
        "torch.compile", "torch.nn.DataParallel", "torch.nn.parallel.DataParallel",
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.jit.script", "torch.autograd.Variable",
        "copy.deepcopy", "copy.copy",
    }
)  # fmt: skip

MODEL_FACTORIES = frozenset({"timm.create_model", "torch.hub.load", "timm.models.create_model"})

OTHER_LOADERS = frozenset(
    {
        *(
            f"torch_geometric.{package}.{name}"
            for package in ("loader", "data")
            for name in (
                "DataLoader", "DenseDataLoader", "DataListLoader", "NeighborLoader", "LinkNeighborLoader",
                "LinkLoader", "NodeLoader", "HGTLoader", "ClusterLoader", "GraphSAINTSampler",
                "GraphSAINTNodeSampler", "GraphSAINTEdgeSampler", "GraphSAINTRandomWalkSampler",
                "ShaDowKHopSampler", "RandomNodeLoader", "TemporalDataLoader", "NeighborSampler",
            )
        ),
        "dgl.dataloading.DataLoader", "dgl.dataloading.NodeDataLoader", "dgl.dataloading.EdgeDataLoader",
        "dgl.dataloading.GraphDataLoader", "dgl.dataloading.pytorch.NodeDataLoader",
        "dgl.dataloading.pytorch.EdgeDataLoader", "dgl.dataloading.pytorch.GraphDataLoader",
        "torchdata.stateful_dataloader.StatefulDataLoader",
    }
)  # fmt: skip

LOADERS = frozenset({"torch.utils.data.DataLoader"}) | OTHER_LOADERS
"""Classes of loaders."""

PASSES_ITEMS = frozenset(
    {"tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm", "tqdm.autonotebook.tqdm", "tqdm.tqdm_notebook",
     "tqdm.trange",
     "rich.progress.track", "itertools.cycle", "itertools.islice", "progressbar.progressbar", "alive_progress.alive_it",
     "fastprogress.progress_bar", "fastprogress.fastprogress.progress_bar"}
)  # fmt: skip
NUMBERS_ITEMS = frozenset({"builtins.enumerate"})

# Packages with objects that take loaders and give them back as such that bring their batches to the device.
PREPARING = ("accelerate.", "lightning.", "lightning_fabric.")
PREPARES = frozenset({"prepare", "prepare_data_loader", "setup_dataloaders"})

# Libraries whose functions give arrays, frames and the like: whatever it is, no tensor.
ARRAY_LIBRARIES = (
    "numpy.", "pandas.", "cv2.", "scipy.", "skimage.", "sklearn.", "cupy.", "jax.", "tensorflow.", "polars.", "PIL.",
    "imageio.", "matplotlib.",
)  # fmt: skip

# Attributes of batches of graphs that are Python integers, by library; DGL's other counts are methods.
GRAPH_COUNTS = {
    "torch_geometric": frozenset(
        {"num_graphs", "num_nodes", "num_edges", "num_events", "num_features", "num_node_features", "batch_size"}
    ),
    "dgl": frozenset({"batch_size"}),
}

TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "data", "grad", "real", "imag"})
TENSOR_ONLY_ATTRIBUTES = frozenset({"is_cuda", "requires_grad", "grad", "grad_fn", "mT", "is_leaf"})

# Methods that neither NumPy arrays nor modules nor Python containers have.
TENSOR_ONLY_METHODS = frozenset(
    {
        "detach", "unsqueeze", "long", "masked_fill", "masked_fill_", "masked_select", "scatter_", "scatter",
        "gather", "numel",
        "new_zeros", "new_ones", "new_full", "new_tensor", "backward", "requires_grad_", "expand", "expand_as",
        "view_as",
        "permute", "contiguous", "index_select", "index_fill_", "index_add_", "softmax", "log_softmax", "sigmoid",
        "tanh", "mul_",
        "add_", "sub_", "div_", "copy_", "fill_", "zero_", "clamp", "clamp_", "matmul", "bmm", "mm", "topk", "bool",
        "int", "logsumexp",
        "eq", "ne", "ge", "gt", "le", "lt", "nonzero_static", "pow_", "exp_", "log_", "relu", "relu_", "unfold",
        "unbind",
        "scatter_add_", "scatter_add", "isnan", "numpy", "record_stream", "pin_memory", "norm", "logical_not",
        "logical_and", "logical_or",
        "type_as", "is_contiguous", "repeat_interleave", "baddbmm", "addmm", "exp", "log", "abs", "where",
        "count_nonzero",
    }
)  # fmt: skip

# Attributes and methods that only tensors and NumPy arrays have.
TENSOR_OR_ARRAY = TENSOR_ONLY_METHODS | {
    "shape", "device", "dtype", "ndim", "view", "size", "reshape", "squeeze", "dim", "mean", "sum", "flatten",
    "transpose",
    "float", "to", "argmax", "max", "min", "any", "all", "T", "clone", "t",
}  # fmt: skip

# Functions that give the norm of gradients: a tensor of one element, where the gradients live.
GRADIENT_NORMS = frozenset({"nn.utils.clip_grad_norm_", "nn.utils.get_total_norm"})

# Functions of torch whose first argument must be a tensor (a NumPy array raises).
NEEDS_TENSOR = frozenset(
    f"torch.{name}"
    for name in (
        "nonzero", "where", "argwhere", "unique", "unique_consecutive", "numel", "permute", "masked_select",
        "masked_fill", "gather", "sum",
        "mean", "max", "min", "argmax", "argmin", "softmax", "log_softmax", "sigmoid", "relu", "exp", "log", "sqrt",
        "abs", "matmul",
        "bmm", "mm", "clamp", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
        "isnan", "isinf",
        "isfinite", "any", "all", "count_nonzero", "sort", "topk", "cumsum", "squeeze", "unsqueeze", "transpose",
        "flatten", "reshape",
        "logical_not", "logical_and", "logical_or", "eq", "ne", "gt", "ge", "lt", "le", "norm", "pow", "tanh",
        "bincount", "histc",
        "repeat_interleave", "aminmax", "std", "var", "median", "index_select", "nn.functional.one_hot",
        "is_floating_point",
    )
)  # fmt: skip
