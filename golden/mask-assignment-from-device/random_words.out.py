# golden: change syncs=0 hot=mask_tokens
"""BERT's ten per cent of random words: only the masked assignment from the device waits, the one of a number does not."""
import torch
from torch import Tensor


def mask_tokens(inputs: Tensor, vocabulary: int) -> tuple[Tensor, Tensor]:
    labels = inputs.clone()
    masked = torch.rand(labels.shape, device=inputs.device) < 0.5
    labels[~masked] = -100
    indices_random = masked & (torch.rand(labels.shape, device=inputs.device) < 0.5)
    random_words = torch.randint(vocabulary, labels.shape, dtype=torch.long, device=inputs.device)
    inputs = inputs.clone()
    inputs = torch.where(indices_random, random_words, inputs)
    return inputs, labels


def cases(make):
    yield make.labels(make.shape(3, 8), 20),


def probe(inputs):
    return mask_tokens(inputs, 20)
