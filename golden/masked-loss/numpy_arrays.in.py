# golden: stay silent
"""A metric on NumPy arrays."""
import numpy as np


def rmse(pred, depth):
    valid = depth > 0
    return float(np.sqrt(np.mean((pred[valid] - depth[valid]) ** 2))) if valid.any() else 0.0


def cases(make):
    yield make.tensor((6,)).cpu().numpy(), make.tensor((6,)).cpu().numpy()


def probe(pred, depth):
    return rmse(pred, depth)
