# golden: change syncs=0
"""Positions are counted on the host and sent."""
import torch


def positions(tokens):
    return torch.arange(tokens.size(1), device=tokens.device).unsqueeze(0).repeat(tokens.size(0), 1)


def cases(make):
    for length in (0, 1, 7):
        yield (make.labels((2, length), 5),)


def probe(tokens):
    return positions(tokens)
