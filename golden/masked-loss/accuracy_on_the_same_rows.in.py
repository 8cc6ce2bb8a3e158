# golden: stay refused="used"
"""The compacted rows are counted as well, so they are gathered anyway."""
import torch
import torch.nn.functional as F
from torch import Tensor


def evaluate(logits: Tensor, labels: Tensor):
    kept = labels >= 0
    rows, wanted = logits[kept], labels[kept]
    loss = F.cross_entropy(rows, wanted)
    hits = rows.argmax(1) == wanted
    return loss, hits, rows.shape[0]


def cases(make):
    yield make.tensor((8, 3), requires_grad=True), make.labels((8,), 3, other=-1)


def probe(logits, labels):
    return evaluate(logits, labels)
