"""PM202: graphs that hold sparse tensors, or lie on the device, cannot be pinned; those that do not, can."""

from __future__ import annotations

import pytest

from perfmod.codemods.engine import rewrite
from perfmod.codemods.results import Choice, FileResult
from perfmod.transforms.feeding.pageable_transfer import PageableTransfer

SCRIPT = """\
import sys

import torch
import torch_geometric.transforms as T
from torch_geometric import EdgeIndex
from torch_geometric.datasets import Planetoid
from torch_geometric.loader import CLASS
from torch_geometric.typing import WITH_TORCH_SPARSE
from torch_geometric.utils import to_scipy_sparse_matrix, to_torch_csr_tensor
MORE
device = torch.device("cuda")
dataset = Planetoid("data", "Cora", transform=TRANSFORM)
data = dataset[0]
HOST
loader = CLASS(GIVEN, batch_size=4, num_workers=2)
LATER
for batch in loader:
    batch = batch.to(device)
    loss = model(batch.x, batch.edge_index)
    loss.backward()
"""


def run(**parts: str) -> FileResult:
    code = SCRIPT
    for name, value in ({"HOST": "", "MORE": "", "LATER": "", "TRANSFORM": "None"} | parts).items():
        code = code.replace(name, value)
    return rewrite(code.encode(), "train.py", [PageableTransfer()], Choice())


def joined(**parts: str) -> FileResult:
    return run(CLASS="DataLoader", GIVEN="dataset", **parts)


def cut(**parts: str) -> FileResult:
    return run(CLASS="NeighborLoader", GIVEN="data, [10]", **parts)


def reasons(result: FileResult) -> list[str]:
    return [finding.reason for finding in (*result.refused, *result.held_back)]


@pytest.mark.parametrize("host", [
    "matrix = to_scipy_sparse_matrix(data.edge_index).tocsr()",
    "import scipy.sparse as sp\nmatrix = sp.csr_matrix(data.x)",
    "index = EdgeIndex(data.edge_index, sparse_size=(9, 9)).sparse_narrow(0, 0, 4)",
    "from torch_sparse import SparseTensor\ndata.adj_t = SparseTensor(row=data.row, col=data.col)",
])  # fmt: skip
def test_what_is_sparse_and_no_tensor_of_torch(host: str) -> None:
    assert joined(HOST=host).applied


@pytest.mark.parametrize("host", [
    "data.adj = torch.sparse_coo_tensor(data.edge_index, data.w)",
    "data.adj = data.dense.to_sparse()",
    "data.adj = data.parts[0].to_sparse()",
    "data.adj = to_torch_csr_tensor(data.edge_index)",
    "from torch_sparse import SparseTensor\ndata.adj = SparseTensor.from_dense(x).to_torch_sparse_coo_tensor()",
    "data.adj = make_sparse(data.edge_index)",
])  # fmt: skip
def test_sparse_tensors_of_torch(host: str) -> None:
    (reason,) = reasons(joined(HOST=host))
    assert "sparse tensors cannot be pinned" in reason


@pytest.mark.parametrize(("transform", "more", "is_sure"), [
    ("T.ToSparseTensor()", "", False),
    ("T.ToSparseTensor()", "from torch_sparse import SparseTensor", True),
    ("T.ToSparseTensor()", "import torch_sparse", True),
    ("T.ToSparseTensor()", "try:\n    import torch_sparse\nexcept ImportError:\n    pass", False),
    ("T.ToSparseTensor()", "from .torch_sparse import SparseTensor", False),
    ("T.ToSparseTensor()", "if not WITH_TORCH_SPARSE:\n    quit('torch-sparse is missing')", True),
    ("T.ToSparseTensor()", "if not WITH_TORCH_SPARSE:\n    raise ImportError('torch-sparse')", True),
    ("T.ToSparseTensor()", "if not WITH_TORCH_SPARSE:\n    sys.exit(1)", True),
    ("T.ToSparseTensor()", "if not WITH_TORCH_SPARSE:\n    print('slow')", False),
    ("T.ToSparseTensor()", "if WITH_TORCH_SPARSE:\n    quit()", False),
    ("Other()", "from torch_geometric.transforms import ToSparseTensor as Other", False),
    ("T.ToSparseTensor(layout=torch.sparse_csr)", "import torch_sparse", False),
    ("T.Compose([T.GCNNorm(), T.ToSparseTensor(attr='w')])", "import torch_sparse", True),
])  # fmt: skip
def test_whose_tensors_a_transform_makes(transform: str, more: str, *, is_sure: bool) -> None:
    result = joined(TRANSFORM=transform, MORE=more)
    assert bool(result.applied) is is_sure
    assert is_sure or "sparse tensors cannot be pinned" in reasons(result)[0]


@pytest.mark.parametrize(("later", "is_moved"), [
    ("data.y = data.y.to(torch.float)", False),
    ("data.y = data.y.to(dtype=torch.float)", False),
    ("data.y = data.y.to(device)", True),
    ("data = data.to(device, 'x', 'y')", True),
    ("data.x = data.x.cuda()", True),
    ("data.x = data.x.to(torch.ones(3, device=device))", True),
    ("data.x = data.x.to(device, torch.half)", True),
])  # fmt: skip
def test_graphs_that_are_put_on_the_device(later: str, *, is_moved: bool) -> None:
    for place in ("HOST", "LATER"):
        result = cut(**{place: later})
        assert bool(result.applied) is not is_moved
        assert not is_moved or "may be on the device" in reasons(result)[0]


@pytest.mark.parametrize(("host", "given", "is_moved"), [
    ("train, test = T.RandomNodeSplit()(data)", "train, [10]", False),
    ("train, test = T.RandomNodeSplit()(data.to(device))", "train, [10]", True),
    ("data = data.to(device)\ntrain, test = T.RandomNodeSplit()(data)", "train, [10]", True),
    ("data.cuda()\ntrain = T.ToUndirected()(T.AddSelfLoops()(data))", "train, [10]", True),
    ("features, edges = connect()", "(features, edges), [10]", False),
    ("features, edges = connect()\nfeatures = features.to(device)", "(features, edges), [10]", True),
])  # fmt: skip
def test_what_a_graph_was_made_of(host: str, given: str, *, is_moved: bool) -> None:
    result = run(CLASS="NeighborLoader", GIVEN=given, HOST=host)
    assert bool(result.applied) is not is_moved
    assert not is_moved or "may be on the device" in reasons(result)[0]


@pytest.mark.parametrize(("sent", "is_seen"), [("(data,)", True), ("(data.to(device),)", False), ("given", False)])
def test_graphs_that_other_processes_get(sent: str, *, is_seen: bool) -> None:
    head, _, loop = SCRIPT.partition("HOST\n")
    function = "".join(f"    {line}\n" for line in loop.splitlines())
    code = f"import torch.multiprocessing as mp\n{head}\n\ndef run(rank, data):\n{function}\n\nmp.spawn(run, {sent})\n"
    for name, value in {
        "MORE": "",
        "LATER": "",
        "TRANSFORM": "None",
        "CLASS": "NeighborLoader",
        "GIVEN": "data",
    }.items():
        code = code.replace(name, value)
    assert bool(rewrite(code.encode(), "train.py", [PageableTransfer()], Choice()).applied) is is_seen
