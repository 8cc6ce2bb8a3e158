# golden: stay silent
"""NumPy scalars are on the host."""
import numpy as np


def scaled(values):
    peak = np.abs(values).max()
    if peak > 1:
        values = values / peak
    return values


def cases(make):
    yield make.tensor((4,)).cpu().numpy(),


def probe(values):
    return scaled(values)
