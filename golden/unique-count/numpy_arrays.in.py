# golden: stay silent
"""NumPy's unique, on the host."""
import numpy as np


def single(labels, loss):
    if len(np.unique(labels)) < 2:
        loss = loss * 0
    return loss


def cases(make):
    yield make.labels((5,), 2).cpu().numpy(), make.tensor(())


def probe(labels, loss):
    return single(labels, loss)
