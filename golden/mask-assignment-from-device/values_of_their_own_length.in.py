# golden: stay refused
"""The right side has one value per masked element, in order: that is `masked_scatter`, not where."""
import torch
from torch import Tensor


def insert(embeddings: Tensor, image_tokens: Tensor, patches: Tensor) -> Tensor:
    embeddings = embeddings.clone()
    mask = image_tokens == 1
    embeddings[mask] = patches
    return embeddings


def cases(make):
    tokens = torch.tensor([0, 1, 1, 0, 1], device=make.device)
    yield make.tensor((5, 4)), tokens, make.tensor((3, 4), requires_grad=True)


def probe(embeddings, image_tokens, patches):
    return insert(embeddings, image_tokens, patches)
