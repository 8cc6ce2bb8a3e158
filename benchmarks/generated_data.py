"""Data that public training scripts take for theirs, generated: the same bytes every time, in the files and formats
that the scripts look for, so that they download nothing.

A recipe fills a folder. What is in the data hardly matters for time and equality; there is a little to learn in it,
because training on pure noise soon stands still. Needs NumPy, Pillow and, for weights, torch.
"""

from __future__ import annotations

import pickle
import string
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SEED = 20240501

Array = NDArray[np.generic]


def mnist(folder: Path, *, train: int = 60_000, test: int = 10_000) -> None:
    """The four unpacked files of MNIST (`.../MNIST/raw`): images of 28 x 28 bytes, a template per digit under noise."""
    random = np.random.default_rng(SEED)
    templates = random.integers(0, 2, (10, 28, 28), dtype=np.uint8) * 96
    for part, count in (("train", train), ("t10k", test)):
        labels = random.integers(0, 10, count, dtype=np.uint8)
        images = templates[labels] + random.integers(0, 160, (count, 28, 28), dtype=np.uint8)
        _write_idx(folder / f"{part}-images-idx3-ubyte", images)
        _write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def _write_idx(path: Path, values: Array) -> None:
    # Two zero bytes, 8 for unsigned bytes, the number of dimensions; then each of them, big-endian.
    path.write_bytes(struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes())


def image_folder(folder: Path, *, train: int = 2_000, val: int = 100, classes: int = 5) -> None:
    """`train/<class>/*.jpg` and `val/<class>/*.jpg`: smooth colours, 320 x 240 pixels, each class with a tint."""
    random = np.random.default_rng(SEED)
    tints = random.integers(0, 96, (classes, 3))
    for part, count in (("train", train), ("val", val)):
        for index in range(count):
            label = index % classes
            place = folder / part / f"class{label}"
            place.mkdir(parents=True, exist_ok=True)
            _colours(random, (320, 240), tints[label]).save(place / f"{index:05d}.jpg", quality=90)


def image_and_mask_files(folder: Path, *, count: int = 400, width: int = 640, height: int = 480) -> None:
    """`imgs/<id>.jpg` and `masks/<id>_mask.png`: a lighter ellipse on smooth colours, and where it is (0 or 255)."""
    random = np.random.default_rng(SEED)
    y, x = np.mgrid[:height, :width] / np.array([height, width]).reshape(2, 1, 1)
    for part in ("imgs", "masks"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for index in range(count):
        across, down, wide, high = random.uniform([0.3, 0.3, 0.1, 0.1], [0.7, 0.7, 0.3, 0.3])
        inside = ((x - across) / wide) ** 2 + ((y - down) / high) ** 2 < 1
        image = np.asarray(_colours(random, (width, height), np.zeros(3, dtype=np.int64)))
        lighter = np.where(inside[..., None], image // 2 + 128, image // 2).astype(np.uint8)
        Image.fromarray(lighter).save(folder / "imgs" / f"{index:04d}.jpg", quality=90)
        Image.fromarray(inside.astype(np.uint8) * 255).save(folder / "masks" / f"{index:04d}_mask.png")


def _colours(random: np.random.Generator, size: tuple[int, int], tint: NDArray[np.int64]) -> Image.Image:
    """Random colours that change slowly over `size` (width, height): they pack like a photograph."""
    width, height = size
    coarse = random.integers(0, 160, (height // 16, width // 16, 3)) + tint
    return Image.fromarray(coarse.astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)


def planetoid(folder: Path, *, name: str = "cora", nodes: int = 2_708, words: int = 1_433, edges: int = 5_278) -> None:
    """The eight files of a Planetoid graph, with 140 nodes for training and 1000 for testing; 7 kinds of papers,
    which cite their own kind four times out of five and share words.
    """
    kinds, trained, tested = 7, 140, 1_000
    random = np.random.default_rng(SEED)
    labels = np.concatenate([np.repeat(np.arange(kinds), trained // kinds), random.integers(0, kinds, nodes - trained)])
    likely = random.uniform(0, 0.02, (kinds, words))
    features = (random.uniform(size=(nodes, words)) < likely[labels]).astype(np.float32)
    features[np.arange(nodes), random.integers(0, words, nodes)] = 1  # no paper is empty
    one_hot = np.eye(kinds, dtype=np.int32)[labels]
    members = [np.flatnonzero(labels == kind) for kind in range(kinds)]
    graph: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for start in random.integers(0, nodes, edges):
        kind = labels[start] if random.uniform() < 0.8 else random.integers(kinds)
        end = random.choice(members[kind])
        graph[int(start)].append(int(end))
        graph[int(end)].append(int(start))
    known = nodes - tested
    parts = {
        "x": features[:trained],
        "y": one_hot[:trained],
        "allx": features[:known],
        "ally": one_hot[:known],
        "tx": features[known:],
        "ty": one_hot[known:],
        "graph": graph,
    }
    for part, value in parts.items():
        (folder / f"ind.{name}.{part}").write_bytes(pickle.dumps(value))
    _write_lines(folder / f"ind.{name}.test.index", np.arange(known, nodes))


def tu_dataset(folder: Path, *, name: str = "PROTEINS", graphs: int = 4_000) -> None:
    """The text files of a TUDataset: rings of 20 to 60 nodes with chords, in two classes that differ in the chords'
    number and in how often each of three kinds of nodes occurs.
    """
    random = np.random.default_rng(SEED)
    labels = random.integers(1, 3, graphs)
    sizes = random.integers(20, 61, graphs)
    links, kinds = [], []
    for first, size, label in zip(np.cumsum(sizes) - sizes + 1, sizes, labels, strict=True):
        ring = np.stack([np.arange(size), np.roll(np.arange(size), -1)], axis=1)
        chords = random.integers(0, size, (int(size) * int(label) // 2, 2))
        undirected = np.concatenate([ring, chords[chords[:, 0] != chords[:, 1]]])
        links.append(first + np.unique(np.concatenate([undirected, undirected[:, ::-1]]), axis=0))
        kinds.append(random.choice(3, size, p=[0.5, 0.3, 0.2] if label == 1 else [0.3, 0.3, 0.4]))
    _write_lines(folder / f"{name}_A.txt", np.concatenate(links))
    _write_lines(folder / f"{name}_graph_indicator.txt", np.repeat(np.arange(1, graphs + 1), sizes))
    _write_lines(folder / f"{name}_graph_labels.txt", labels)
    _write_lines(folder / f"{name}_node_labels.txt", np.concatenate(kinds))


def _write_lines(path: Path, values: Array) -> None:
    np.savetxt(path, values, fmt="%d", delimiter=", ")


def tokens(folder: Path, *, train: int = 1_000_000, val: int = 100_000, vocabulary: int = 65) -> None:
    """`train.bin` and `val.bin` of 16-bit tokens, each near the one before it, and `meta.pkl` with their number."""
    random = np.random.default_rng(SEED)
    for part, count in (("train", train), ("val", val)):
        walk = np.cumsum(random.integers(-3, 4, count)) % vocabulary
        walk.astype("<u2").tofile(folder / f"{part}.bin")
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocabulary}))


def words(folder: Path, *, train: int = 20_000, held_out: int = 2_000, vocabulary: int = 200) -> None:
    """`train.txt`, `valid.txt` and `test.txt`: lines of twenty made-up words, each near the one before it."""
    random = np.random.default_rng(SEED)
    for part, count in (("train", train), ("valid", held_out), ("test", held_out)):
        walk = np.cumsum(random.integers(-3, 4, count)) % vocabulary
        lines = [" ".join(f"w{number}" for number in walk[at : at + 20]) for at in range(0, count, 20)]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")


def letters(folder: Path, *, name: str, count: int = 1_000_000) -> None:
    """One text of the letters and marks of plays, each near the one before it."""
    alphabet = np.frombuffer(f"{string.ascii_letters} !?.,;:-'&$3\n".encode(), dtype="u1")
    walk = np.cumsum(np.random.default_rng(SEED).integers(-3, 4, count)) % len(alphabet)
    (folder / name).write_bytes(alphabet[walk].tobytes())


def pictures(folder: Path, *, train: int = 100, test: int = 10) -> None:
    """`train/*.jpg` and `test/*.jpg`: smooth colours, 320 x 320 pixels."""
    random = np.random.default_rng(SEED)
    for part, count in (("train", train), ("test", test)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            _colours(random, (320, 320), np.zeros(3, dtype=np.int64)).save(folder / part / f"{index:04d}.jpg")


def graph_text(folder: Path, *, name: str, graphs: int = 200) -> None:
    """Labelled graphs in one file, as those of graph isomorphism networks: their number; for each its nodes and label,
    and a line per node with a tag, the number of neighbours and the neighbours.
    """
    random = np.random.default_rng(SEED)
    lines = [str(graphs)]
    for index in range(graphs):
        label, size = index % 2, int(random.integers(8, 20))
        near: list[set[int]] = [{(node - 1) % size, (node + 1) % size} for node in range(size)]
        for start, end in random.integers(0, size, (size * (1 + label) // 2, 2)):
            if start != end:
                near[start].add(int(end))
                near[end].add(int(start))
        lines.append(f"{size} {label}")
        lines += [" ".join(map(str, [random.integers(0, 3), len(others), *sorted(others)])) for others in near]
    (folder / name).write_text("\n".join(lines) + "\n")


def cora_tables(folder: Path, *, nodes: int = 2_708, features: int = 300, edges: int = 5_278) -> None:
    """`cora.content`, a line of an id, features and a kind per paper, and `cora.cites`, a line per citation, which
    leads to a paper of the same kind four times out of five.
    """
    random = np.random.default_rng(SEED)
    kinds = random.integers(0, 7, nodes)
    likely = random.uniform(0, 0.05, (7, features))
    has = random.uniform(size=(nodes, features)) < likely[kinds]
    has[np.arange(nodes), random.integers(0, features, nodes)] = True
    papers = [
        "\t".join([str(1_000 + node), *map(str, has[node].astype(int)), f"kind{kinds[node]}"]) for node in range(nodes)
    ]
    (folder / "cora.content").write_text("\n".join(papers) + "\n")
    members = [np.flatnonzero(kinds == kind) for kind in range(7)]
    cites = []
    for start in random.integers(0, nodes, edges):
        kind = kinds[start] if random.uniform() < 0.8 else random.integers(7)
        cites.append(f"{1_000 + start}\t{1_000 + random.choice(members[kind])}")
    (folder / "cora.cites").write_text("\n".join(cites) + "\n")


def no_weights(folder: Path, *, name: str) -> None:
    """A file of pretrained weights that holds none, for a script that loads them with `strict=False`."""
    import torch

    torch.save({}, folder / name)


def silent_tracker(folder: Path, *, name: str) -> None:
    """A module `name` in the place of an experiment tracker that is not installed: whatever is asked of it, it
    answers with itself, and keeps nothing.
    """
    (folder / f"{name}.py").write_text(
        '"""Stands in for a tracker that is not installed."""\n\n'
        "class Silent:\n"
        "    def __call__(self, *args, **kwargs):\n"
        "        return self\n\n"
        "    def __getattr__(self, name):\n"
        "        return self\n\n\n"
        "init = log = finish = Image = Histogram = Silent()\n"
    )


def package_link(folder: Path, *, name: str, target: str) -> None:
    """A link to a package of the same repository, for a script that expects it to be installed."""
    (folder / name).symlink_to(target, target_is_directory=True)


RECIPES: dict[str, Callable[..., None]] = {
    recipe.__name__: recipe
    for recipe in (
        mnist,
        image_folder,
        image_and_mask_files,
        planetoid,
        tu_dataset,
        tokens,
        words,
        letters,
        pictures,
        graph_text,
        cora_tables,
        package_link,
        no_weights,
        silent_tracker,
    )
}
"""By name, as the manifest has them. Each fills an existing folder; further arguments are numbers and names."""
