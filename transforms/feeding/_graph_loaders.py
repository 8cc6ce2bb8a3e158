"""Loaders of PyTorch Geometric and DGL: which of PyTorch's keywords they take, and what their batches are.

Both derive their loaders from PyTorch's and hand keywords on to it, but what is pinned and what a worker does differs:
some join samples, some cut a sample out of one large graph, and those of DGL that do that move their batches
themselves. A graph of DGL is no tensor: pinning leaves it as it is, since it has no `pin_memory`, and pins what comes
with it, such as labels. Its `to` hands keywords on to the copies of its features, and takes `non_blocking` with that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from perfmod.transforms.facts.batch_copies import destination
from perfmod.transforms.facts.file import FileFacts
from perfmod.transforms.facts.loaders import Loader
from perfmod.transforms.facts.tracing import End
from perfmod.transforms.facts.tree import find_all, is_none, is_true

_PYG = ("torch_geometric.loader.", "torch_geometric.data.")
_JOINING = frozenset({"DataLoader", "DenseDataLoader", "DataListLoader"})
"""Those of PyTorch Geometric that join samples into a batch, which has a `pin_memory` and whose `to` takes
`non_blocking`.
"""
_SEQUENTIAL = frozenset({"TemporalDataLoader", "ClusterLoader"})
"""Those that cut batches out of one graph and draw nothing while they do."""


def is_graph_loader(loader: Loader) -> bool:
    """Whether a loader is one of PyTorch Geometric or DGL."""
    return loader.name.startswith((*_PYG, "dgl."))


def joins_graphs(loader: Loader) -> bool:
    """Whether a loader of PyTorch Geometric joins samples of a dataset."""
    return loader.name.startswith(_PYG) and _short(loader) in _JOINING


def cuts_graph(loader: Loader) -> bool:
    """Whether a loader of PyTorch Geometric cuts its batches out of one large graph."""
    return loader.name.startswith(_PYG) and _short(loader) not in _JOINING


def joins_graphs_of_dgl(loader: Loader) -> bool:
    """Whether a loader is that of DGL which joins samples, and hands all keywords on to PyTorch's."""
    return loader.name.startswith("dgl.") and _short(loader) == "GraphDataLoader"


def gives_graphs(loader: Loader) -> bool:
    """Whether all that batches consist of has a `to` that takes what that of tensors takes, and is pinned or left as it
    is: the batches of PyTorch Geometric; graphs, tensors, and lists and dictionaries of those where DGL joins samples.
    """
    if joins_graphs_of_dgl(loader):
        return all(map(is_none, loader.values("collate_fn"))) and not any(map(is_none, loader.values("batch_size")))
    return loader.name.startswith(_PYG) and _short(loader) != "NeighborSampler"


def why_unpinned(file: FileFacts, loader: Loader) -> str:
    """Why a loader of graphs cannot pin its batches, in one line; empty where it can, or is none."""
    if loader.name.startswith("dgl.") and not joins_graphs_of_dgl(loader):
        if loader.values("device"):
            return "DGL's loader copies its batches itself"
        return "DGL's loader pins and copies its batches itself if it is given a device"
    if loader.name.startswith(_PYG) and _short(loader) == "NeighborSampler":
        return "pinning turns the size tuples of NeighborSampler into lists"
    moved = moved_graph(file, loader)
    if moved is not None:
        return f"its graph may be on the device (line {file.line(moved)}), and could then not be pinned"
    return ""


def why_no_workers(file: FileFacts, loader: Loader) -> str:
    """Why a loader of graphs gets no workers, in one line; empty where it may, or is none."""
    if cuts_graph(loader) and _short(loader) == "TemporalDataLoader":
        return "its samples are already in memory: copying them between processes would cost more than workers gain"
    if loader.name.startswith("dgl.") and not joins_graphs_of_dgl(loader):
        if any(is_true(value) for value in loader.values("use_uva")):
            return "with use_uva=True DGL samples on the device, which does not allow workers"
        return "DGL's workers need a graph on the CPU with its formats already created (create_formats_())"
    moved = moved_graph(file, loader)
    if moved is not None:
        return f"its graph may be on the device (line {file.line(moved)}), which workers must not use"
    return ""


def draws_neighbours(loader: Loader) -> bool:
    """Whether a loader of PyTorch Geometric draws the part of the graph that makes a batch."""
    return cuts_graph(loader) and _short(loader) not in _SEQUENTIAL


def moved_graph(file: FileFacts, loader: Loader) -> cst.Call | None:
    """A call that puts (parts of) the graph that a loader cuts its batches out of on a device; `None` if none does."""
    if not cuts_graph(loader):
        return None
    graphs = [*_graphs(loader), *_attributes(loader)]
    made = {end.node for graph in graphs for end in file.tracing.ends(graph)}
    sources = _sources(file, made)
    for call in find_all(file.source.module, cst.Call):
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("to", "cuda"):
            continue
        if call.func.attr.value == "to" and destination(file, call) is None:
            continue  # a cast, `data.y.to(torch.float)`
        if file.qualified(call) is None and (
            call in made
            or End(call, ()) in sources
            or any(
                end in sources or (end.node in made and _is_graph(end.path))
                for end in file.tracing.ends(call.func.value)
            )
        ):
            return call
    return None


def unseen_graph(file: FileFacts, loader: Loader) -> cst.CSTNode | None:
    """What the graph is that a loader cuts its batches out of, where it was made out of sight."""
    if not cuts_graph(loader):
        return None
    ends = [end.node for graph in _graphs(loader) for end in file.tracing.ends(graph)]
    return next((made for made in ends if not isinstance(made, cst.Call)), None if ends else loader.call)


def _graphs(loader: Loader) -> Iterator[cst.BaseExpression]:
    """What a loader cuts its batches out of: one graph, or a store of features and one of edges."""
    for value in loader.values("data"):
        if isinstance(value, cst.Tuple):
            yield from (element.value for element in value.elements)
        else:
            yield value


def _attributes(loader: Loader) -> Iterator[cst.BaseExpression]:
    """The graph behind `NeighborSampler(data.edge_index, ...)`."""
    for value in loader.values("data"):
        if isinstance(value, cst.Attribute):
            yield value.value


def _sources(file: FileFacts, made: Iterable[cst.CSTNode]) -> set[End]:
    """What graphs were made of, `data` in `train, val, test = split(data)`: to move it moves them."""
    found: set[End] = set()
    level = [*made]
    while level:
        given = [arg.value for node in level if isinstance(node, cst.Call) for arg in node.args]
        further = {end for value in given for end in file.tracing.ends(value)} - found
        found |= further
        level = [end.node for end in further]
    return found


def _is_graph(path: tuple[object, ...]) -> bool:
    """Whether a path leads to the graph itself or to its tensors, rather than to a batch."""
    return path[:1] != (None,)


def _short(loader: Loader) -> str:
    return loader.name.rpartition(".")[2]
